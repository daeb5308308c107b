"""OfflineBacklog: every compacted log of a stopped daemon's directories, cleaned in parallel: `tidelog pipeline compact`.

A start, a pass over each log, and a clean stop, as `OfflineCompaction` does for one: directories are locked (a running daemon's
are refused), logs loaded and recovered, settings read from where the daemon keeps them. Each worker is a thread with a cleaner
and a share of `log.cleaner.dedupe.buffer.size` of its own; the kernels of a pass let the others run. Files are swapped by the
daemon's own code, so a kill in between is what a kill of the daemon in mid-cleaning is. Lags, open transactions and delete
horizons count; the dirty ratio does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...cleaner.cleaner_manager import CleanerManager
from ...cleaner.cleaner_pool import CleanerPool
from ...cleaner.log_facts import COMPACT_POLICY
from ...cleaner.removal_counts import RemovalCounts, removed_by_pass
from ...config.exceptions import ConfigError
from ...config.loader import with_dynamic_settings
from ...config.log_config import LogConfig, log_config
from ...storage.manager.log_manager import LogManager
from ...storage.scheduler import ThreadPoolScheduler
from ..kraft.import_ import import_metadata
from ..metadata.store import MetadataStore
from .service import pool_settings

if TYPE_CHECKING:
    from ...cleaner.cleaning import Cleaner
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.io.filesystem import FileSystem
    from ...storage.log.unified_log import UnifiedLog

_DELETION_TIMEOUT_S = 30.0


class CleanedLog(NamedTuple):
    """Result of one log; sizes of its `.log` files in bytes. `error`: why it was left as it was."""

    name: str
    removed: RemovalCounts
    bytes_before: int
    bytes_after: int
    error: str | None = None


class OfflineBacklog:
    """Cleaning of all logs of a stopped daemon. For one call of `run`, which blocks for as long as it takes. `progress(total,
    done)`: bytes, from any worker's thread, one at a time.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        time: Time,
        *,
        workers: int,
        secret: Callable[[], bytes],
        progress: Callable[[int, int], None] = lambda total, done: None,
    ) -> None:
        self._config = config
        self._fs = file_system
        self._time = time
        self._workers = workers
        self._secret = secret
        self._progress = progress
        self._lock = threading.Lock()
        self._seen = 0
        self._pool: CleanerPool

    def run(self, topics: frozenset[str] = frozenset()) -> list[CleanedLog]:
        """Cleans the compacted topics, or those of them that are named. DataDirectoryError, StorageError, OSError, ConfigError
        (a named topic is not there, or not compacted), each with one clear line; all is closed then.
        """
        scheduler = ThreadPoolScheduler(2)
        logs = LogManager(self._config, self._fs, self._time, scheduler)
        try:
            logs.open()
            try:
                logs.load(self._settings(logs))
                return self._clean_all(logs, topics)
            finally:
                # Delete replaced files now, not at the next start: people do this to get free space.
                scheduler.finish("delete-file", _DELETION_TIMEOUT_S)
                logs.shutdown()
        finally:
            scheduler.shutdown()

    def _settings(self, logs: LogManager) -> Callable[[str], LogConfig]:
        store = MetadataStore(logs.directories[0])
        try:
            stored = import_metadata(store, self._fs, logs.directories, logs.node_id, self._time.milliseconds())
        finally:
            store.close()
        self._config = with_dynamic_settings(self._config, stored.broker_configs, logs.node_id).config
        logs.use(self._config)
        known = {record.name: record.overrides for record in stored.topics}

        def config_of(topic: str) -> LogConfig:
            try:
                return log_config(self._config, known.get(topic, {}))
            except ConfigError:
                return log_config(self._config, {})

        return config_of

    def _clean_all(self, logs: LogManager, topics: frozenset[str]) -> list[CleanedLog]:
        compacted = [
            partition_log for partition_log in logs.logs() if COMPACT_POLICY in partition_log.config.cleanup_policy
        ]
        missing = topics - {partition_log.topic for partition_log in compacted}
        if missing:
            there = ", ".join(sorted({partition_log.topic for partition_log in compacted})) or "none"
            raise ConfigError([f"no compacted topic {', '.join(sorted(missing))} here; there are {there}"])
        wanted = [partition_log for partition_log in compacted if not topics or partition_log.topic in topics]
        wanted.sort(
            key=lambda partition_log: partition_log.size, reverse=True
        )  # the largest first: nobody waits for one that began late
        manager = CleanerManager(logs, self._fs, self._time)
        manager.load()
        workers = max(1, min(self._workers, len(wanted)))
        settings = replace(pool_settings(self._config), threads=workers)
        self._pool = CleanerPool(manager, settings, time=self._time, secret=self._secret)
        self._progress(sum(partition_log.size for partition_log in wanted), 0)
        idle = [self._pool.make_cleaner() for _ in range(workers)]

        def work(partition_log: UnifiedLog) -> CleanedLog:
            with self._lock:
                cleaner = idle.pop()
            try:
                return self._clean(partition_log, manager, cleaner)
            finally:
                with self._lock:
                    idle.append(cleaner)

        with ThreadPoolExecutor(workers, thread_name_prefix="cleaner") as executor:
            return list(executor.map(work, wanted))

    def _clean(self, partition_log: UnifiedLog, manager: CleanerManager, cleaner: Cleaner) -> CleanedLog:
        size, removed, roll = partition_log.size, RemovalCounts(), True
        while True:
            taken = manager.take(partition_log, roll=roll)
            assert taken is not None, "nobody else has it"
            roll = False
            found = taken.eligibility
            if found.reason is None and not found.dirty_bytes:
                manager.give_back(taken)
                break
            result = manager.clean(taken, cleaner, self)
            if result is None:
                cause = next(
                    (failure.cause for name, failure in manager.uncleanable() if name == partition_log.name), "stopped"
                )
                self._step(size)
                return CleanedLog(partition_log.name, removed, size, partition_log.size, str(cause))
            removed = removed.plus(removed_by_pass(result.counts))
            if not result.map_was_full:
                break
        self._step(size)
        return CleanedLog(partition_log.name, removed, size, partition_log.size)

    def _step(self, done: int) -> None:
        with self._lock:
            self._progress(0, done)

    # --- the control of a pass ---

    def check(self) -> None:
        """Nothing stops a pass but an error."""

    def wait(self, milliseconds: float) -> None:
        threading.Event().wait(milliseconds / 1000)
