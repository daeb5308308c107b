"""OfflineCompaction: the cleaner on a partition of a data directory that no daemon has: what `tidelog log compact` does.

It is a start, a pass and a clean stop: the directory is locked, its logs are loaded (and recovered, if the last stop was not
clean), topics' settings are read from metadata.db or what Apache Kafka left, the log is rolled and cleaned by the machine that
the daemon has, and all is closed and checkpointed as at a clean stop. Lags, open transactions and delete horizons count.

OfflineBacklog: every compacted log of a stopped daemon's directories, cleaned in parallel: `tidelog pipeline compact`.

A start, a pass over each log, and a clean stop, as `OfflineCompaction` does for one: directories are locked (a running daemon's
are refused), logs loaded and recovered, settings read from where the daemon keeps them. Each worker is a thread with a cleaner
and a share of `log.cleaner.dedupe.buffer.size` of its own; the kernels of a pass let the others run. Files are swapped by the
daemon's own code, so a kill in between is what a kill of the daemon in mid-cleaning is. Lags, open transactions and delete
horizons count; the dirty ratio does not.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cleaner.cleaner_manager import CleanerManager
from ...cleaner.cleaner_pool import CleanerPool
from ...cleaner.log_facts import COMPACT_POLICY
from ...cleaner.removal_counts import RemovalCounts, removed_between, removed_by_pass
from ...config.exceptions import ConfigError
from ...config.loader import with_dynamic_settings
from ...config.log_config import LogConfig, log_config
from ...storage.exceptions import DataDirectoryError
from ...storage.manager.log_manager import LogManager
from ...storage.scheduler import ThreadPoolScheduler
from ...storage.segment.names import DirectoryState, parse_directory_name
from ..kraft.import_ import import_metadata
from ..metadata.store import MetadataStore
from .ledger_facts import describe_ledger
from .service import pool_settings

if TYPE_CHECKING:
    from ...cleaner.cleaning import Cleaner
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.io.filesystem import FileSystem
    from ...storage.log.unified_log import UnifiedLog

log = logging.getLogger(__name__)

_DELETION_TIMEOUT_S = 30.0


class Place(NamedTuple):
    """A partition's directory, taken apart."""

    data_directory: str
    topic: str
    partition: int


class OfflineResult(NamedTuple):
    """Result of an offline cleaning. Sizes are those of `.log` files; times in ms."""

    topic: str
    partition: int
    removed: RemovalCounts
    passes: int
    bytes_before: int
    bytes_after: int
    segments_before: int
    segments_after: int
    elapsed_ms: float
    ledger: dict[str, Any] | None
    """Ledger of the log, see `ledger_facts.py`; None: the records could not be counted."""


def place_of(path: str, file_system: FileSystem) -> Place:
    """DataDirectoryError: no directory of a partition."""
    directory = path.rstrip("/")
    parent, _, name = directory.rpartition("/")
    parsed = parse_directory_name(name)
    if parsed is None or parsed.state is not DirectoryState.LIVE or not file_system.is_directory(directory):
        raise DataDirectoryError(
            path, "is not the directory of a partition", "name one, TOPIC-PARTITION, within a directory of log.dirs"
        )
    return Place(parent or "/", parsed.topic, parsed.partition)


class OfflineCompaction:
    """Cleaning of one log of a stopped daemon. For one call of `run`, which blocks for as long as it takes.

    Attributes:
        total_bytes: about how many bytes the passes will read and write; known when `progress` is first called.
    """

    def __init__(
        self,
        place: Place,
        config: BrokerConfig,
        file_system: FileSystem,
        time: Time,
        *,
        secret: Callable[[], bytes],
        overrides: Mapping[str, str],
        progress: Callable[[int, int], None] = lambda total, done: None,
    ) -> None:
        """`config`: its log.dirs is the data directory alone. `overrides`: settings of the topic that beat the stored ones.

        `progress(total, done)`: so many bytes more are to be done, and were done.
        """
        self._place = place
        self._config = config
        self._fs = file_system
        self._time = time
        self._secret = secret
        self._overrides = overrides
        self._progress = progress
        self._seen = 0
        self._pool: CleanerPool

    def run(self) -> OfflineResult:
        """DataDirectoryError, StorageError, RecordError, ConfigError, OSError with one clear line; all is closed then."""
        scheduler = ThreadPoolScheduler(2)
        logs = LogManager(self._config, self._fs, self._time, scheduler)
        try:
            logs.open()
            try:
                logs.load(self._read_settings(logs))
                partition_log = logs.get(self._place.topic, self._place.partition)
                if partition_log is None:
                    raise DataDirectoryError(self._path, "was not loaded", "see `tidelog log verify`")
                return self._clean(partition_log, logs)
            finally:
                # Delete replaced files now, not at the next start: people do this to get free space.
                scheduler.finish("delete-file", _DELETION_TIMEOUT_S)
                logs.shutdown()
        finally:
            scheduler.shutdown()

    @property
    def _path(self) -> str:
        return f"{self._place.data_directory.rstrip('/')}/{self._place.topic}-{self._place.partition}"

    def _read_settings(self, logs: LogManager) -> Callable[[str], LogConfig]:
        store = MetadataStore(logs.directories[0])
        try:
            stored = import_metadata(store, self._fs, logs.directories, logs.node_id, self._time.milliseconds())
        finally:
            store.close()
        self._config = with_dynamic_settings(self._config, stored.broker_configs, logs.node_id).config
        logs.use(self._config)
        known = {record.name: record.overrides for record in stored.topics}
        mine = known.get(self._place.topic)
        if mine is None:
            # Only its directory is known; somebody asks for it to be compacted.
            mine = {"cleanup.policy": COMPACT_POLICY}
        target = log_config(self._config, {**mine, **self._overrides})
        if COMPACT_POLICY not in target.cleanup_policy:
            raise DataDirectoryError(
                self._path,
                f"its topic is not compacted (cleanup.policy={','.join(sorted(target.cleanup_policy))})",
                "add --topic-set cleanup.policy=compact to clean it all the same",
            )

        def config_of(topic: str) -> LogConfig:
            if topic == self._place.topic:
                return target
            try:
                return log_config(self._config, known.get(topic, {}))
            except ConfigError:
                return log_config(self._config, {})

        return config_of

    def _clean(self, partition_log: UnifiedLog, logs: LogManager) -> OfflineResult:
        began = self._time.monotonic_ms()
        manager = CleanerManager(logs, self._fs, self._time)
        manager.load()
        self._pool = CleanerPool(manager, pool_settings(self._config), time=self._time, secret=self._secret)
        cleaner = self._pool.make_cleaner()
        size, segments, passes, removed = partition_log.size, partition_log.segment_count, 0, RemovalCounts()
        partition_log.local.open_ledger(count=True)
        before = partition_log.ledger.value
        roll = True
        while True:
            work = manager.take(partition_log, roll=roll)
            assert work is not None, "nobody else is here"
            roll = False
            found = work.eligibility
            if found.reason is None and not found.dirty_bytes:
                manager.give_back(work)
                break
            # The map is built from the dirty part; then all is read, and what survives written.
            self._progress(found.dirty_bytes + 2 * (found.clean_bytes + found.dirty_bytes), 0)
            result = manager.clean(work, cleaner, self)
            if result is None:
                cause = next(
                    (failure.cause for name, failure in manager.uncleanable() if name == partition_log.name), "stopped"
                )
                raise DataDirectoryError(self._path, f"can't be cleaned: {cause}", "see `tidelog log verify`")
            passes += 1
            removed = removed.plus(removed_by_pass(result.counts))
            if not result.map_was_full:
                break
        after = partition_log.ledger.value
        if before is not None and after is not None:
            removed = removed_between(before, after)
        return OfflineResult(
            partition_log.topic,
            partition_log.partition,
            removed,
            passes,
            size,
            partition_log.size,
            segments,
            partition_log.segment_count,
            self._time.monotonic_ms() - began,
            describe_ledger(partition_log),
        )

    # --- the control of the pass ---

    def check(self) -> None:
        done = self._pool.throttler.total_bytes
        self._progress(0, done - self._seen)
        self._seen = done

    def wait(self, milliseconds: float) -> None:
        self.check()
        threading.Event().wait(milliseconds / 1000)


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
