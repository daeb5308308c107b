"""The cleaner on the logs of a stopped daemon: `compact_log` for one (`tidelog log compact`), `compact_backlog` for every
compacted one, in parallel (`tidelog pipeline compact`).

Both are a start, passes and a clean stop. The data directories are locked (a running daemon's are refused), their logs are
loaded (and recovered, if the last stop was not clean), topics' settings are read from metadata.db or what Apache Kafka left. A
log is rolled and then cleaned by the machine that the daemon has, so a kill in between is what a kill of the daemon in
mid-cleaning is. At the end all is closed and checkpointed as at a clean stop. Lags, open transactions and delete horizons
count; the dirty ratio does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from ...cleaner.cleaner_manager import CleanerManager
from ...cleaner.cleaner_pool import CleanerPool, PoolSettings
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
    from ...cleaner.eligibility import Eligibility
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ...storage.io.filesystem import FileSystem
    from ...storage.log.unified_log import UnifiedLog

_DELETION_TIMEOUT_S = 30.0

Progress = Callable[[int, int], None]
"""Called as `progress(total, done)`: so many bytes more are to be done, and were done."""


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


class CleanedLog(NamedTuple):
    """Result of one log; sizes of its `.log` files in bytes. `error`: why it was left as it was."""

    name: str
    removed: RemovalCounts
    bytes_before: int
    bytes_after: int
    error: str | None = None


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


def compact_log(
    place: Place,
    config: BrokerConfig,
    file_system: FileSystem,
    time: Time,
    *,
    secret: Callable[[], bytes],
    overrides: Mapping[str, str],
    progress: Progress = lambda total, done: None,
) -> OfflineResult:
    """Clean the log at `place`; blocks for as long as it takes.

    `config`: its log.dirs is the data directory alone. `overrides`: settings of the topic that beat the stored ones.
    DataDirectoryError, StorageError, RecordError, ConfigError, OSError with one clear line; all is closed then.
    """
    path = f"{place.data_directory.rstrip('/')}/{place.topic}-{place.partition}"

    def override(config: BrokerConfig, stored: dict[str, Mapping[str, str]]) -> None:
        # Of a topic that is not stored only its directory is known; the caller asks for it to be compacted.
        target = {**stored.get(place.topic, {"cleanup.policy": COMPACT_POLICY}), **overrides}
        policy = log_config(config, target).cleanup_policy
        if COMPACT_POLICY not in policy:
            raise DataDirectoryError(
                path,
                f"its topic is not compacted (cleanup.policy={','.join(sorted(policy))})",
                "add --topic-set cleanup.policy=compact to clean it all the same",
            )
        stored[place.topic] = target

    with _loaded_logs(config, file_system, time, override) as (logs, config):
        log = logs.get(place.topic, place.partition)
        if log is None:
            raise DataDirectoryError(path, "was not loaded", "see `tidelog log verify`")
        began = time.monotonic_ms()
        manager = CleanerManager(logs, file_system, time)
        manager.load()
        pool = CleanerPool(manager, _settings(config, file_system), time=time, secret=secret)
        size, segments = log.size, log.segment_count
        log.local.open_ledger(count=True)
        before = log.ledger.value
        seen = 0

        def plan(found: Eligibility) -> None:
            # The map is built from the dirty part; then all is read, and what survives written.
            progress(found.dirty_bytes + 2 * (found.clean_bytes + found.dirty_bytes), 0)

        def note() -> None:
            nonlocal seen
            done = pool.throttler.total_bytes
            progress(0, done - seen)
            seen = done

        with closing(pool.make_cleaner()) as cleaner:
            passes, removed, error = _clean(log, manager, cleaner, plan=plan, note=note)
        if error is not None:
            raise DataDirectoryError(path, f"can't be cleaned: {error}", "see `tidelog log verify`")
        after = log.ledger.value
        if before is not None and after is not None:
            removed = removed_between(before, after)
        elapsed_ms = time.monotonic_ms() - began
        return OfflineResult(
            log.topic, log.partition, removed, passes, size, log.size, segments, log.segment_count, elapsed_ms,
            describe_ledger(log),
        )  # fmt: skip


def compact_backlog(
    config: BrokerConfig,
    file_system: FileSystem,
    time: Time,
    topics: frozenset[str] = frozenset(),
    *,
    workers: int,
    secret: Callable[[], bytes],
    progress: Progress = lambda total, done: None,
) -> list[CleanedLog]:
    """Clean the compacted topics, or those of them that are named; blocks for as long as it takes.

    Each of the `workers` is a thread with a cleaner, its process, and a share of `log.cleaner.dedupe.buffer.size` of its own.
    `progress` is called from any of them, one at a time. DataDirectoryError, StorageError, OSError,
    ConfigError (a named topic is not there, or not compacted), each with one clear line; all is closed then.
    """
    for directory in config.log_dirs:  # a start would make it
        if not file_system.is_directory(directory):
            raise DataDirectoryError(directory, "is no directory", "name those that the daemon has, with log.dirs")
    with _loaded_logs(config, file_system, time) as (logs, config):
        wanted = _compacted(logs, topics)
        manager = CleanerManager(logs, file_system, time)
        manager.load()
        workers = max(1, min(workers, len(wanted)))
        pool = CleanerPool(manager, _settings(config, file_system, workers), time=time, secret=secret)
        idle: SimpleQueue[Cleaner] = SimpleQueue()
        cleaners = [pool.make_cleaner() for _ in range(workers)]
        for cleaner in cleaners:
            idle.put(cleaner)
        lock = threading.Lock()
        progress(sum(log.size for log in wanted), 0)

        def clean(log: UnifiedLog) -> CleanedLog:
            size, cleaner = log.size, idle.get()
            try:
                _, removed, error = _clean(log, manager, cleaner)
            finally:
                idle.put(cleaner)
            with lock:
                progress(0, size)
            return CleanedLog(log.name, removed, size, log.size, error)

        with ExitStack() as ends, ThreadPoolExecutor(workers, thread_name_prefix="cleaner") as executor:
            for cleaner in cleaners:
                ends.callback(cleaner.close)
            return list(executor.map(clean, wanted))


def _settings(config: BrokerConfig, file_system: FileSystem, threads: int = 0) -> PoolSettings:
    """The cleaner's settings for a machine without a daemon: nobody is to be given way to. `threads`: 0 for those of `config`."""
    settings = pool_settings(config, file_system)
    return replace(settings, threads=threads or settings.threads, niceness=0)


def _compacted(logs: LogManager, topics: frozenset[str]) -> list[UnifiedLog]:
    """Return the logs of compacted topics, or of those that are named, the largest first: nobody waits for one that began late.
    ConfigError: a named topic is not among them.
    """
    compacted = [log for log in logs.logs() if COMPACT_POLICY in log.config.cleanup_policy]
    there = {log.topic for log in compacted}
    if missing := topics - there:
        raise ConfigError(
            [f"no compacted topic {', '.join(sorted(missing))} here; there are {', '.join(sorted(there)) or 'none'}"]
        )
    wanted = [log for log in compacted if not topics or log.topic in topics]
    return sorted(wanted, key=lambda log: log.size, reverse=True)


@contextmanager
def _loaded_logs(
    config: BrokerConfig,
    file_system: FileSystem,
    time: Time,
    override: Callable[[BrokerConfig, dict[str, Mapping[str, str]]], None] = lambda config, stored: None,
) -> Iterator[tuple[LogManager, BrokerConfig]]:
    """Lock the data directories and load their logs; at the end, close them as a clean stop does.

    Yields the logs, and `config` with the stored dynamic settings. `override(config, stored)` may change the stored settings of
    topics before any log is loaded. DataDirectoryError, StorageError, ConfigError, OSError.
    """
    scheduler = ThreadPoolScheduler(2)
    logs = LogManager(config, file_system, time, scheduler)
    try:
        logs.open()
        try:
            with closing(MetadataStore(logs.directories[0])) as store:
                metadata = import_metadata(store, file_system, logs.directories, logs.node_id, time.milliseconds())
            config = with_dynamic_settings(config, metadata.broker_configs, logs.node_id).config
            logs.use(config)
            stored = {record.name: record.overrides for record in metadata.topics}
            override(config, stored)

            def config_of(topic: str) -> LogConfig:
                try:
                    return log_config(config, stored.get(topic, {}))
                except ConfigError:
                    return log_config(config, {})

            logs.load(config_of)
            yield logs, config
        finally:
            # Delete replaced files now, not at the next start: people do this to get free space.
            scheduler.finish("delete-file", _DELETION_TIMEOUT_S)
            logs.shutdown()
    finally:
        scheduler.shutdown()


class _Control:
    """Control of a pass that nothing stops but an error; `note` is called between its chunks."""

    def __init__(self, note: Callable[[], None]) -> None:
        self.check = note

    def wait(self, milliseconds: float) -> None:
        self.check()
        threading.Event().wait(milliseconds / 1000)


class _Outcome(NamedTuple):
    """Outcome of the passes over one log. `error`: what ended the last of them early."""

    passes: int
    removed: RemovalCounts
    error: str | None = None


def _clean(
    log: UnifiedLog,
    manager: CleanerManager,
    cleaner: Cleaner,
    *,
    plan: Callable[[Eligibility], None] = lambda found: None,
    note: Callable[[], None] = lambda: None,
) -> _Outcome:
    """Clean a log, its active segment too, in as many passes as the keys need that the cleaner's map holds at a time. Blocks;
    StorageError, OSError. `plan` is called before each pass, `note` between its chunks.
    """
    control, passes, removed = _Control(note), 0, RemovalCounts()
    while True:
        work = manager.take(log, roll=passes == 0)
        assert work is not None, "no other thread takes this log"
        found = work.eligibility
        if found.reason is None and not found.dirty_bytes:
            manager.give_back(work)
            return _Outcome(passes, removed)
        plan(found)
        result = manager.clean(work, cleaner, control)
        if result is None:
            failure = dict(manager.uncleanable()).get(log.name)
            return _Outcome(passes, removed, "stopped" if failure is None else failure.cause)
        passes += 1
        removed = removed.plus(removed_by_pass(result.counts))
        if not result.map_was_full:
            return _Outcome(passes, removed)
