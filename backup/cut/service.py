"""BackupService: the thread that makes a cut each interval, for as long as a daemon runs, and what it says of itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, NamedTuple

from ...storage.exceptions import StorageError
from ..formats.sealed import NewerFormatError
from ..store.limited import Limited
from ..upkeep.retention import Keep
from .status import ENDED, RUNNING, STARTING, STOPPED, WAITING, BackupStatus, Drills, Progress, SafePartition
from .vector import TakeVector
from .writer import CutWriter, FencedError, Identity, OpenedLateError, OthersBackupError, Secrets, VoidCut

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..restore.restore import Bar
    from ..store.counted import Count
    from ..store.interface import ObjectStore

logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0
SWEEP_EVERY_MS = 3600 * 1000
FIRST_SWEEP_MS = 300 * 1000
"""After the start: a daemon that is started often sweeps too."""
LAST_TRIES = 10
"""Of the last cut, while what still runs beside a stop takes segments from under it."""
LOOK_EVERY_MS = 3600 * 1000
"""So often it is looked whether somebody else has made a drill; a drill that a store's failure ended is tried again so soon."""


class _StoppedError(Exception):
    """The daemon stops in the middle of a drill."""


class Stores(NamedTuple):
    """How the store is opened. Both functions are called by threads, and may fail: they are called again."""

    to_write: Callable[[], ObjectStore]
    to_read: Callable[[], ObjectStore]
    """For drills, which have a rate of their own."""
    name: str = ""
    """The store's URL without secrets, for messages."""
    counts: Callable[[], Mapping[str, Count]] = dict
    """Requests to the stores that these opened."""


class Terms(NamedTuple):
    """What was agreed: times in ms, as in the settings."""

    interval_ms: int
    keep: Keep = Keep()
    fence_ms: int = 0
    """See `BackupService.refusal`; 0: never."""
    drill_interval_ms: int = 0
    """0: no drills."""
    drill_bytes_per_second: int = 16 << 20


class BackupService:
    """Made on the loop thread, started when the logs are loaded. `status` from any thread, never blocks."""

    def __init__(
        self,
        stores: Stores,
        take: TakeVector,
        identity: Identity,
        time: Time,
        terms: Terms,
        *,
        secrets: Secrets | None = None,
        prepare: Callable[[], object] = lambda: None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`prepare` is what each of its threads begins with. `wait`: waits for so many seconds between two cuts, and says whether
        this one is to be the last; default: until `stop`."""
        self.interval_ms = terms.interval_ms
        self._stores = stores
        self._take = take
        self._identity = identity
        self._time = time
        self._terms = terms
        self._secrets = secrets
        self._prepare = prepare
        self._sweep_at_ms = time.monotonic_ms() + FIRST_SWEEP_MS
        self._sweeper: threading.Thread | None = None
        self._look_at_ms = time.monotonic_ms()
        self._driller: threading.Thread | None = None
        self._drills = Drills()
        self._made_ms, self._made_at_ms = time.milliseconds(), time.monotonic_ms()
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._thread: threading.Thread | None = None
        self._state, self._reason, self._name = STARTING, "", stores.name
        self._failure: type[Exception] | None = None
        self._writer: CutWriter | None = None
        self._progress = Progress()
        self._safe: Mapping[tuple[str, int], SafePartition] = {}

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
        now_ms = self._time.milliseconds()
        lag_ms = round(self._behind_ms()) if self._progress.covered_ms else -1
        drills = self._drills
        good_ms = drills.good.ended_ms if drills.good is not None else 0
        return BackupStatus(
            self._state,
            self._reason,
            self._name,
            self.interval_ms,
            lag_ms,
            self._progress,
            drills,
            self._terms.drill_interval_ms,
            max(0, now_ms - good_ms) if good_ms else -1,
            max(0, now_ms - (good_ms or self._made_ms)),
            self._stores.counts(),
            now_ms,
        )

    def safe(self, topic: str, partition: int) -> SafePartition | None:
        """What of a partition is in the store; None: nothing yet. Any thread."""
        return self._safe.get((topic, partition))

    def refusal(self) -> str | None:
        """Why records of clients must not be taken: another daemon has published a cut, or nothing of the last `fence_ms` is in
        the store. None: they may be. Any thread.
        """
        if not self._terms.fence_ms:
            return None
        if self._state == STOPPED:
            return f"the backup has stopped, and backup.fence.ms is set: {self._reason}"
        behind_ms = self._behind_ms()
        if behind_ms <= self._terms.fence_ms:
            return None
        why = f": {self._reason}" if self._reason else ""
        return f"nothing of the last {behind_ms / 1000:.0f} s is in the backup, and backup.fence.ms={self._terms.fence_ms}{why}"

    def _behind_ms(self) -> float:
        """Age of what the store has; before it has anything, of this service. A wall clock that is set makes it no other."""
        progress = self._progress
        since_ms = progress.covered_at_ms if progress.covered_ms else self._made_at_ms
        return max(0.0, self._time.monotonic_ms() - since_ms)

    # --- the thread ---

    def _run(self) -> None:
        self._prepare()
        pause_s = 0.0
        is_last, tries = False, LAST_TRIES
        try:
            while True:
                began = self._time.monotonic()
                interval_s = self.interval_ms / 1000
                try:
                    self._step()
                    pause_s = 0.0
                except VoidCut:
                    # What this one should have had is owed: the next one is not to wait.
                    pause_s, interval_s = 0.05, 0.0
                    tries -= is_last
                    if is_last and tries > 0:
                        continue
                except OpenedLateError as error:
                    logger.warning("backup: %s", error)
                    self._close_writer()
                    pause_s = 1.0
                except (FencedError, OthersBackupError, NewerFormatError) as error:
                    self._state, self._reason = STOPPED, str(error)
                    logger.error("backup stopped: %s", error)
                    return
                except Exception as error:  # whatever a store's client raises must not end backups without a word
                    self._wait_because(error)
                    if self._writer is not None:
                        self._sweep_if_due(self._writer)  # a store that is full has room afterwards
                    pause_s = min(LONGEST_PAUSE_S, max(1.0, 2 * pause_s))
                if is_last:
                    return
                left = interval_s - (self._time.monotonic() - began)
                is_last = self._wait(max(pause_s, left, 0.0))
                if is_last and self._state == WAITING:
                    return
        finally:
            if self._state != STOPPED:
                self._state = ENDED
            self._close_writer()

    def _wait_because(self, error: Exception) -> None:
        """Note a failure that may end by itself; say it once for each kind of it."""
        if not isinstance(error, (StorageError, OSError, TimeoutError)):
            logger.error("backup: a cut failed", exc_info=error)
        elif self._state != WAITING or type(error) is not self._failure:
            logger.warning("backup waits, and the daemon serves: %s", error)
        self._failure = type(error)
        self._state, self._reason = WAITING, str(error) or type(error).__name__

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            writer.store.close()

    def _step(self) -> None:
        writer = self._writer
        if writer is None:
            store = self._stores.to_write()
            writer = CutWriter(
                store,
                self._take,
                self._identity,
                self._time,
                token_hex(8),
                secrets=self._secrets,
                prepare=self._prepare,
                progress=self._progress,
            )
            try:
                writer.open()
            except BaseException:
                writer.close()
                store.close()
                raise
            self._writer, self._name, self._safe = writer, store.name, writer.safe
        writer.attempt()
        if self._state != RUNNING:
            logger.info("backup to %s goes on at cut %d", self._name, writer.progress.number)
        self._state, self._reason = RUNNING, ""
        self._sweep_if_due(writer)
        self._drill_if_due()

    # --- beside it ---

    def _sweep_if_due(self, writer: CutWriter) -> None:
        """Begin a sweep once an hour, in a thread of its own: it reads each cut that is kept."""
        now = self._time.monotonic_ms()
        if now < self._sweep_at_ms or (self._sweeper is not None and self._sweeper.is_alive()):
            return
        self._sweep_at_ms = now + SWEEP_EVERY_MS

        def run() -> None:
            from ..upkeep.sweep import sweep

            self._prepare()
            try:
                swept = sweep(writer.store, self._terms.keep, self._time.milliseconds())
            except Exception as error:  # the next one goes on where this one was
                logger.warning("backup: old cuts could not be removed: %s", error)
            else:
                writer.progress.swept += swept.deleted_cuts + swept.deleted_objects
                writer.progress.damaged = swept.damaged
                for sentence in swept.damaged:
                    logger.warning("backup: %s", sentence)
                if swept.deleted_cuts or swept.deleted_objects:
                    logger.info(
                        "backup: removed %d cuts and %d objects with %d bytes; %d cuts are kept",
                        swept.deleted_cuts, swept.deleted_objects, swept.deleted_bytes, swept.kept_cuts,
                    )  # fmt: skip

        self._sweeper = threading.Thread(target=run, name="backup-sweep", daemon=True)
        self._sweeper.start()

    def _drill_if_due(self) -> None:
        """Look once an hour what is known of drills, and make one that is due, in a thread of its own."""
        now = self._time.monotonic_ms()
        if now < self._look_at_ms or (self._driller is not None and self._driller.is_alive()):
            return
        self._look_at_ms = now + LOOK_EVERY_MS
        self._driller = threading.Thread(target=self._look_at_drills, name="backup-drill", daemon=True)
        self._driller.start()

    def _look_at_drills(self) -> None:
        self._prepare()
        try:
            store = Limited(self._stores.to_read(), self._terms.drill_bytes_per_second, self._time, self._stop.wait)
            try:
                self._drill_over(store)
            finally:
                store.close()
        except _StoppedError:
            pass
        except Exception as error:  # it is tried again
            logger.warning("backup: the drill came to no end: %s", error)
        finally:
            self._drills = self._drills._replace(is_running=False)

    def _drill_over(self, store: ObjectStore) -> None:
        """Make a drill if one is due, and publish what is known of drills. The drill's thread."""
        from ..upkeep.drill import newest_drill, record, recorded

        known = recorded(store, self._time.milliseconds())
        self._drills = known
        interval_ms = self._terms.drill_interval_ms
        now_ms = self._time.milliseconds()
        if not interval_ms:
            return
        ended_ms = known.last.ended_ms if known.last is not None else 0
        if now_ms - ended_ms >= interval_ms:
            self._drills = known._replace(is_running=True)
            found = newest_drill(store, self._time, bar=self._bar(), prepare=self._prepare)
            if self._stop.is_set():
                return
            record(store, found)
            if found.fault:
                logger.error("backup: the drill has found cut %d damaged: %s", found.cut, found.fault)
            else:
                logger.info(
                    "backup: the drill has read cut %d whole, %d bytes of logs in %.1f s",
                    found.cut,
                    found.bytes,
                    found.seconds,
                )
            self._drills = Drills(found, known.good if found.fault else found)
            ended_ms = found.ended_ms
        left_ms = max(0, ended_ms + interval_ms - self._time.milliseconds())
        self._look_at_ms = self._time.monotonic_ms() + min(left_ms, LOOK_EVERY_MS)

    def _bar(self) -> Bar:
        """Ends a drill when the daemon stops."""
        from ..restore.restore import Bar

        def done(_count: int) -> None:
            if self._stop.is_set():
                raise _StoppedError

        return Bar(done=done)
