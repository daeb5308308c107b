"""BackupService: the thread that makes a cut each interval, for as long as a daemon runs, and what it says of itself."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...storage.exceptions import StorageError
from ..formats.sealed import NewerFormatError
from .status import ENDED, RUNNING, STARTING, STOPPED, WAITING, BackupStatus, Progress
from .vector import TakeVector
from .writer import CutWriter, FencedError, Identity, OpenedLateError, OthersBackupError, VoidCut

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..store.interface import ObjectStore

logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0
SWEEP_EVERY_MS = 3600 * 1000


class BackupService:
    """Made on the loop thread, started when the logs are loaded. `status` from any thread, never blocks."""

    def __init__(
        self,
        open_store: Callable[[], ObjectStore],
        take: TakeVector,
        identity: Identity,
        time: Time,
        interval_ms: int,
        *,
        omit_secrets: bool = False,
        strip_secrets: Callable[[bytes], bytes] = lambda data: data,
        retention_ms: int = 30 * 24 * 3600 * 1000,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """`open_store` is called by the thread, and may fail: it is tried again. `prepare` is what each
        of its threads begins with."""
        self.interval_ms = interval_ms
        self._open_store = open_store
        self._take = take
        self._identity = identity
        self._time = time
        self._omit_secrets = omit_secrets
        self._strip = strip_secrets
        self._retention_ms = retention_ms
        self._prepare = prepare
        self._swept_ms = time.monotonic_ms()
        self._sweeper: threading.Thread | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._state, self._reason, self._name = STARTING, "", ""
        self._writer: CutWriter | None = None
        self._progress = Progress()

    def start(self) -> None:
        """Begin. Never blocks."""
        self._thread = threading.Thread(target=self._run, name="backup", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Make a last cut and end; False if that has not come to its end in time, and is left behind. Blocks."""
        self._stop.set()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def status(self) -> BackupStatus:
        covered = self._progress.covered_ms
        lag_ms = max(0, self._time.milliseconds() - covered) if covered else -1
        return BackupStatus(self._state, self._reason, self._name, self.interval_ms, lag_ms, self._progress)

    # --- the thread ---

    def _run(self) -> None:
        self._prepare()
        pause_s = 0.0
        is_last = False
        try:
            while True:
                began = self._time.monotonic()
                try:
                    self._step()
                    pause_s = 0.0
                except VoidCut:
                    pause_s = 0.05
                except OpenedLateError as error:
                    logger.warning("backup: %s", error)
                    self._close_writer()
                    pause_s = 1.0
                except (FencedError, OthersBackupError, NewerFormatError) as error:
                    self._state, self._reason = STOPPED, str(error)
                    logger.error("backup stopped: %s", error)
                    return
                except Exception as error:  # whatever a store's client raises must not end backups without a word
                    if not isinstance(error, (StorageError, OSError, TimeoutError)):
                        logger.exception("backup: a cut failed")
                    elif self._state != WAITING:
                        logger.warning("backup waits: %s", error)
                    self._state, self._reason = WAITING, str(error) or type(error).__name__
                    pause_s = min(LONGEST_PAUSE_S, max(1.0, 2 * pause_s))
                if is_last:
                    return
                left = self.interval_ms / 1000 - (self._time.monotonic() - began)
                is_last = self._stop.wait(max(pause_s, left, 0.0))
                if is_last and self._state == WAITING:
                    return
        finally:
            if self._state != STOPPED:
                self._state = ENDED
            self._close_writer()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            writer.store.close()

    def _step(self) -> None:
        writer = self._writer
        if writer is None:
            store = self._open_store()
            writer = CutWriter(
                store,
                self._take,
                self._identity,
                self._time,
                secrets.token_hex(8),
                secrets=not self._omit_secrets,
                strip_secrets=self._strip,
                prepare=self._prepare,
            )
            try:
                writer.open()
            except BaseException:
                writer.close()
                store.close()
                raise
            self._writer, self._progress, self._name = writer, writer.progress, store.name
        writer.attempt()
        if self._state != RUNNING:
            logger.info("backup to %s goes on at cut %d", self._name, writer.progress.number)
        self._state, self._reason = RUNNING, ""
        self._sweep_if_due(writer)

    def _sweep_if_due(self, writer: CutWriter) -> None:
        """Begin a sweep once an hour, in a thread of its own: it reads each cut that is kept."""
        now = self._time.monotonic_ms()
        if now - self._swept_ms < SWEEP_EVERY_MS or (self._sweeper is not None and self._sweeper.is_alive()):
            return
        self._swept_ms = now

        def run() -> None:
            from ..upkeep.sweep import sweep

            self._prepare()
            try:
                swept = sweep(writer.store, self._retention_ms)
            except Exception as error:  # the next one goes on where this one was
                logger.warning("backup: old cuts could not be removed: %s", error)
            else:
                writer.progress.swept += swept.deleted_cuts + swept.deleted_objects
                if swept.deleted_cuts or swept.deleted_objects:
                    logger.info(
                        "backup: removed %d cuts and %d objects with %d bytes; %d cuts are kept",
                        swept.deleted_cuts, swept.deleted_objects, swept.deleted_bytes, swept.kept_cuts,
                    )  # fmt: skip

        self._sweeper = threading.Thread(target=run, name="backup-sweep", daemon=True)
        self._sweeper.start()
