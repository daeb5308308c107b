"""LogManager: all logs of the daemon. Loads, creates, deletes, maintains and closes them.

    start    lock each data directory → note and remove the clean-stop mark → load its logs in threads of their own
    running  flush (flush.ms) · recovery points · log start offsets · high watermarks · retention · idle producers
    stop     flush, snapshot, close each log → checkpoints → clean-stop mark → unlock

The mark is removed before the first log is loaded, and written after the last one is durable: a crash in between, loading
included, leads to recovery at the next start.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID
from zlib import crc32

from ...config.log_config import LogConfig, log_config
from ..exceptions import (
    CorruptCheckpointError,
    DataDirectoryError,
    DirectoryLockedError,
    KafkaStorageError,
    StorageError,
)
from ..io.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from ..io.disk_space import DiskSpace
from ..io.file_cache import FileCache
from ..io.write_pace import WritePace
from ..log.opener import LastStop, LogOpener
from ..log.partition_metadata import ZERO_UUID, encode_uuid, read_partition_metadata, write_partition_metadata
from ..log.recovery import Progress
from ..log.stop_record import LogFiles, files_of
from ..log.unified_log import UnifiedLog
from ..segment.files import SegmentFiles
from ..segment.names import (
    DirectoryName,
    DirectoryState,
    deleted_directory_name,
    future_directory_name,
    is_valid_topic,
    partition_directory_name,
)
from ..values import RecoveryStats
from .data_directory import DataDirectory, PartitionDirectory, start_failed
from .upkeep import LogUpkeep

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..clock import Time
    from ..io.filesystem import FileSystem
    from ..scheduler import LaneScheduler
    from .meta_properties import MetaProperties
    from .move import LogMove

logger = logging.getLogger(__name__)

_DEFAULT_NODE_ID = 1
_ALL = 1 << 63
# Closing a log is six syncs one after the other. Syncs of several logs share journal commits: with thousands to close, more
# threads than recovery has take half the time.
_CLOSERS = 16
_FEW_LOGS = 100
_COLD_BLOCKS = 8
"""Blocks of 512 bytes that loading a log reads from disk, on average, when its files are not in the page cache: one
page.
"""
_MAKERS = 64
"""Number of locks of each directory under which logs are created: concurrent directory syncs share the journal's
commits.
"""

ProgressCallback = Callable[[int, int], None]
"""(bytes done, bytes total) of recovery so far. Called by any loading thread, one call at a time."""


def _no_cleaner(_directory: str, _key: TopicPartition) -> None:
    """Default without a cleaner."""


class LogManager:
    """All logs. `get` and `logs` may be called from any thread, without a lock; the rest blocks and is for pool
    threads.

    Attributes:
        cluster_id, node_id: known after `load`.
        recovery_stats: what loading cost and found, all logs together.
        had_clean_shutdown: whether every data directory was stopped cleanly the last time.
        partitions_remaining: how many logs of the directory in work are still to load.
        forget_cleaned: called with a data directory and the partition of a log that is about to be made there: removes what the
            checkpoint of the cleaner has of a deleted one of its name. The cleaner's, which writes that file. OSError.
        interrupted_moves: topic, partition and data directory of the moves that the last stop cut short; after `load`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        time: Time,
        scheduler: LaneScheduler,
        *,
        randomness: random.Random | None = None,
    ) -> None:
        """Does no I/O. `randomness` makes ids and roll jitter; each data directory gets a lane of `scheduler`."""
        self._config = config
        self._fs = file_system
        self._time = time
        self._random = randomness or random.SystemRandom()
        self._cache: FileCache[SegmentFiles] = FileCache()
        self._opener = LogOpener(config, file_system, self._cache, time, self._random)
        self._directories = [DataDirectory(path, file_system) for path in config.log_dirs]
        self._upkeeps = [
            LogUpkeep(
                directory,
                scheduler.lane(directory.path),
                time,
                DiskSpace(file_system, directory.path, config.log_dir_reserve_bytes),
                WritePace(directory.path, time.monotonic),
            )
            for directory in self._directories
        ]
        self._homes: dict[TopicPartition, LogUpkeep] = {}
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._lock = threading.Lock()  # over changes of the two above, and of the upkeeps' logs
        self._making = {
            directory.path: tuple(threading.Lock() for _ in range(_MAKERS)) for directory in self._directories
        }
        self._deleted: list[str] = []
        self._default_config = log_config(config, {})
        self._progress_lock = threading.Lock()
        self._bytes_total = 0
        self._bytes_done = 0
        self._is_loaded = False
        self.cluster_id = ""
        self.node_id: int = config.node_id
        self.directory_ids: dict[str, UUID] = {}
        self.recovery_stats = RecoveryStats()
        self.had_clean_shutdown = True
        self.partitions_remaining = 0
        self.forget_cleaned: Callable[[str, TopicPartition], None] = _no_cleaner
        self.interrupted_moves: list[tuple[str, int, str]] = []
        self._moves: dict[TopicPartition, LogMove] = {}

    @property
    def directories(self) -> list[str]:
        """Paths of the data directories."""
        return [directory.path for directory in self._directories]

    @property
    def spaces(self) -> list[tuple[str, DiskSpace]]:
        """Path of each data directory, and the free space of its disk."""
        return [(upkeep.directory.path, upkeep.space) for upkeep in self._upkeeps]

    @property
    def paces(self) -> list[tuple[str, WritePace]]:
        """Path of each data directory, and its pace of writes."""
        return [(upkeep.directory.path, upkeep.pace) for upkeep in self._upkeeps]

    def use(self, config: BrokerConfig) -> None:
        """Apply a changed broker configuration. Topic settings are applied to their logs by the caller. Any thread."""
        self._config = self._opener.config = config
        self._default_config = log_config(config, {})
        for log in self.logs():
            log.producers.producer_id_expiration_ms = config.producer_id_expiration_ms

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """The log of a partition, or None."""
        return self._logs.get((topic, partition))

    def logs(self) -> list[UnifiedLog]:
        """Live logs of all directories, as a copy: logs may come and go meanwhile. Any thread."""
        return list(self._logs.values())

    # --- load ---

    def open(self) -> None:
        """Lock the data directories, and read or set their identity. DataDirectoryError: one line, nothing is left
        locked.
        """
        try:
            found = [self._opened(directory) for directory in self._directories]
            known = {properties.cluster_id for properties in found if properties is not None}
            self.cluster_id = known.pop() if known else encode_uuid(self._new_uuid())
            if self.node_id < 0:  # node.id is not set
                self.node_id = next((p.node_id for p in found if p is not None), _DEFAULT_NODE_ID)
            for directory in self._directories:
                identity = directory.identify(self.cluster_id, self.node_id, self._new_uuid())
                self.directory_ids[directory.path] = identity.directory_id or ZERO_UUID
        except BaseException:
            for directory in self._directories:
                directory.close()
            raise

    def _opened(self, directory: DataDirectory) -> MetaProperties | None:
        """DataDirectoryError: it can't be used. One that log.dirs names twice, by a link, is locked by this process itself."""
        try:
            return directory.open()
        except DirectoryLockedError:
            place = self._place(directory.path)
            for other in itertools.takewhile(lambda other: other is not directory, self._directories):
                if self._place(other.path) == place:
                    problem = f"is the same directory as {other.path}"
                    raise DataDirectoryError(directory.path, problem, "name it once in log.dirs") from None
            raise

    def _place(self, path: str) -> tuple[int, int]:
        status = self._fs.stat(path)
        return status.device, status.inode

    def load(
        self, config_of: Callable[[str], LogConfig] | None = None, progress: ProgressCallback | None = None
    ) -> None:
        """Load every log, recovering after an unclean stop. Calls `open` if the caller has not.

        `config_of(topic)` gives a topic's settings (default: the broker's); it is called from loading threads. Raises
        DataDirectoryError with one clear line when a directory cannot be used.
        """
        if not self.cluster_id:
            self.open()
        started_ms = self._time.monotonic_ms()
        try:
            for upkeep in self._upkeeps:
                upkeep.directory.begin_load(self._config.log_damage_policy)
                self.had_clean_shutdown &= upkeep.directory.had_clean_shutdown
            found = {upkeep.directory.path: upkeep.directory.partitions() for upkeep in self._upkeeps}
            resumed = self._finish_moves(found)
            for upkeep in self._upkeeps:
                entries = found[upkeep.directory.path]
                self._load_directory(upkeep, entries, config_of or (lambda _topic: self._default_config), progress)
                upkeep.directory.make_missing_checkpoints()
            self._interrupted_moves(resumed)
        except OSError as error:
            self._release()
            raise start_failed(
                str(error.filename or "log.dirs"), error, "loading failed", "mend it and start again"
            ) from error
        except BaseException:
            self._release()
            raise
        self._is_loaded = True
        stats = self.recovery_stats
        elapsed_ms = self._time.monotonic_ms() - started_ms
        logger.info("loaded %d logs in %.0f ms", len(self._logs), elapsed_ms)
        if stats.segments_recovered:
            logger.info(
                "recovered %d segments after an unclean stop: %d bytes checked, %d cut off, %d segments removed",
                stats.segments_recovered,
                stats.bytes_scanned,
                stats.bytes_truncated,
                stats.segments_removed,
            )
        if stats.indexes_rebuilt:
            logger.info("rebuilt the indexes of %d segments", stats.indexes_rebuilt)

    def _load_directory(
        self,
        upkeep: LogUpkeep,
        found: Iterable[PartitionDirectory],
        config_of: Callable[[str], LogConfig],
        progress: ProgressCallback | None,
    ) -> None:
        directory = upkeep.directory
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        start_offsets = directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT) or {}
        cleaned = directory.read_checkpoint(CLEANER_OFFSET_CHECKPOINT) or {}
        self._deleted += [entry.path for entry in found if entry.name.state is DirectoryState.DELETED]
        live = [entry for entry in found if entry.name.state is DirectoryState.LIVE]
        if live and not directory.had_clean_shutdown:
            logger.info("%s: the last stop was not clean; checking %d logs", directory.path, len(live))
            # Directories that were made shortly before are here, but perhaps not on disk.
            self._fs.sync_directory(directory.path)

        self.partitions_remaining = len(live)
        report = self._progress(progress)

        def load(entry: PartitionDirectory) -> None:
            key = (entry.name.topic, entry.name.partition)
            last_stop = LastStop(
                directory.had_clean_shutdown,
                (recovery_points or {}).get(key, 0),
                start_offsets.get(key, 0),
                # Without recovery points nothing is known of how old a gap is.
                max(recovery_points.get(key, 0), cleaned.get(key, 0)) if recovery_points is not None else _ALL,
                cleaned.get(key),
                # A clean stop names every log; after another one, one that is not named has no durable record yet.
                recovery_points is not None and (key in recovery_points or not directory.had_clean_shutdown),
                directory.last_stop.get(key),
            )
            log, stats = self._opener.open(upkeep.place(entry.path), key, config_of(key[0]), last_stop, report)
            with self._lock:
                other = self._homes.get(key)
                if other is not None:
                    raise DataDirectoryError(
                        entry.path,
                        f"{other.directory.path} has this partition too",
                        "move one of the two directories away",
                    )
                self._put(key, log, upkeep)
                self.recovery_stats = self.recovery_stats.plus(stats)
                self.partitions_remaining -= 1

        threads = self._config.num_recovery_threads_per_data_dir
        rest = iter(live)
        if threads <= 1 or directory.had_clean_shutdown:
            # After a clean stop a log is small files, mostly in the page cache: dozens of short system calls, at each of which
            # two threads would hand the interpreter to and fro. That costs more than twice what one thread takes alone. So
            # others join in only where there is a disk to wait for.
            before = self._fs.blocks_read()
            for count, entry in enumerate(rest, 1):
                load(entry)
                if threads > 1 and self._fs.blocks_read() - before > count * _COLD_BLOCKS:
                    break
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            jobs: list[Future[None]] = [pool.submit(load, entry) for entry in rest]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _finish_moves(self, found: dict[str, list[PartitionDirectory]]) -> list[PartitionDirectory]:
        """Complete the moves whose change-over had begun; returns the copies that have to be made again.

        `found`: what is in each data directory; afterwards too.
        """
        if all(entry.name.state is not DirectoryState.FUTURE for entries in found.values() for entry in entries):
            return []
        from .move import key_of, plan_moves

        plan = plan_moves(entry for entries in found.values() for entry in entries)
        for entry in plan.promoted:
            root = entry.path.rpartition("/")[0]
            live = PartitionDirectory(
                f"{root}/{partition_directory_name(*key_of(entry))}", DirectoryName(*key_of(entry), DirectoryState.LIVE)
            )
            self._fs.rename(entry.path, live.path)
            self._fs.sync_directory(root)
            found[root].append(live)
            logger.info("%s: the move of %s-%d to here is completed", root, *key_of(entry))
        for entry in plan.unknown:
            logger.warning("%s is a copy of a partition that is not here, and is left alone", entry.path)
        self._deleted += [entry.path for entry in plan.superfluous]
        return list(plan.resumed)

    def _interrupted_moves(self, copies: Iterable[PartitionDirectory]) -> None:
        """Restart interrupted moves of loaded logs, and remove copies of deleted logs of the same names."""
        for entry in copies:
            key = (entry.name.topic, entry.name.partition)
            try:
                metadata = read_partition_metadata(self._fs, entry.path)
            except CorruptCheckpointError:
                metadata = None
            if metadata is not None and metadata.topic_id != self._logs[key].topic_id:
                self._deleted.append(entry.path)
            else:
                self.interrupted_moves.append((*key, entry.path.rpartition("/")[0]))
                self._deleted.append(entry.path)

    def _put(self, key: TopicPartition, log: UnifiedLog, upkeep: LogUpkeep) -> None:
        """Add a loaded or new log. Call with the lock held."""
        self._logs[key] = upkeep.logs[key] = log
        self._homes[key] = upkeep
        upkeep.added(log)

    def _progress(self, callback: ProgressCallback | None) -> Progress:
        def report(total: int, done: int) -> None:
            with self._progress_lock:
                self._bytes_total += total
                self._bytes_done += done
                if callback is not None:
                    callback(self._bytes_done, self._bytes_total)

        return Progress(lambda count: report(count, 0), lambda count: report(0, count))

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    # --- make and delete ---

    def get_or_create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig | None = None) -> UnifiedLog:
        """The log, created in the data directory with the fewest logs if missing. Blocks; KafkaStorageError."""
        if not is_valid_topic(topic) or partition < 0:
            raise ValueError(f"{topic!r} {partition}: no such partition can be")
        key = (topic, partition)
        with self._lock:
            log = self._logs.get(key)
            if log is not None:
                return log
            home = self._homes.get(key)  # somebody else is just making it
            reserved = int(home is None)
            if home is None:
                home = self._homes[key] = self._home_of_new()
                home.making += reserved
        # One maker for each log; a directory whose disk hangs holds up only who makes logs there.
        name = partition_directory_name(topic, partition)
        stripe = crc32(name.encode()) % _MAKERS  # not hash(): another one in each process
        with self._making[home.directory.path][stripe]:
            log = self._logs.get(key)
            if log is not None:
                return log
            path = f"{home.directory.path}/{name}"
            is_new = False  # until it was made here: a link to a disk that is missing does not exist either
            try:
                home.directory.forget(key)
                self.forget_cleaned(home.directory.path, key)
                was_there = self._fs.exists(path)
                self._fs.make_directory(path)
                is_new = not was_there
                write_partition_metadata(self._fs, path, topic_id)
                log, _ = self._opener.open(home.place(path), key, config or self._default_config, LastStop())
            except BaseException as error:
                if is_new and isinstance(error, Exception):
                    self._remove_unfinished(path, key)
                with self._lock:
                    home.making -= reserved
                    self._homes.pop(key, None)
                if isinstance(error, OSError):
                    raise KafkaStorageError(f"{path} could not be made: {error}") from error
                raise
            log.local.mark_changed(is_new=True)
            with self._lock:
                home.making -= reserved
                self._put(key, log, home)
            return log

    def _remove_unfinished(self, path: str, key: TopicPartition) -> None:
        """Remove the directory of a log that could not be made: a start would take it for a topic that nobody knows."""
        target = f"{path.rpartition('/')[0]}/{deleted_directory_name(*key, self._new_uuid().hex)}"
        try:
            self._fs.rename(path, target)
            self._fs.sync_directory(path.rpartition("/")[0])
            self._fs.remove_tree(target)
        except OSError as error:
            logger.warning("%s could not be made, and not be removed either: %s", path, error)

    def _home_of_new(self) -> LogUpkeep:
        """The directory with the fewest logs among those that take new ones. Call with the lock held;
        KafkaStorageError.
        """
        cordoned = self._config.cordoned_log_dirs
        open_ones = [upkeep for upkeep in self._upkeeps if upkeep.directory.path not in cordoned]
        if not open_ones:
            raise KafkaStorageError("every directory is in cordoned.log.dirs: none takes a new partition")
        return min(open_ones, key=lambda upkeep: len(upkeep.logs) + upkeep.making)

    def delete(self, topic: str, partition: int) -> None:
        """Remove the log now, and its files after file.delete.delay.ms. Does nothing for an unknown log. Blocks."""
        key = (topic, partition)
        if (move := self._moves.get(key)) is not None and not move.cancel():
            self.end_move(move)
        with self._lock:
            log = self._logs.pop(key, None)
            home = self._homes.pop(key, None) if log is not None else None
            if home is not None:
                home.logs.pop(key, None)
            for upkeep in self._upkeeps:  # of a move that stopped half way
                upkeep.arriving.pop(key, None)
        if log is None or home is None:
            return
        target = f"{home.directory.path}/{deleted_directory_name(topic, partition, self._new_uuid().hex)}"
        try:
            log.abandon()
            self._fs.rename(log.directory, target)
            log.local.renamed(target)
            self._fs.sync_directory(home.directory.path)
        except OSError as error:
            raise KafkaStorageError(f"{log.directory} could not be deleted: {error}") from error
        delay_ms = log.config.file_delete_delay_ms
        logger.debug("%s: deleted; its files go in %d ms", log.name, delay_ms)
        home.scheduler.schedule("delete-log", lambda: self._fs.remove_tree(target), delay_ms)

    # --- move to another data directory ---

    def move_of(self, topic: str, partition: int) -> LogMove | None:
        """The log's running move, or None. Any thread; never blocks."""
        return self._moves.get((topic, partition))

    def moves(self) -> list[LogMove]:
        """All running moves. Any thread; never blocks."""
        return list(self._moves.values())

    def new_move(self, topic: str, partition: int, path: str) -> LogMove | None:
        """Begin to move a log to the data directory `path`; None when it lies there. Touches no file. Never blocks.

        One at a time for each log: `end_move` comes after `LogMove.commit` or instead of it. KafkaStorageError: there is no such
        log or directory. ValueError: the topic's name leaves no room for a copy's.
        """
        from .move import LogMove

        key = (topic, partition)
        with self._lock:
            log, source = self._logs.get(key), self._homes.get(key)
            target = next((upkeep for upkeep in self._upkeeps if upkeep.directory.path == path), None)
            if log is None or source is None or target is None:
                raise KafkaStorageError(f"{topic}-{partition} can't be moved to {path}: one of them is not here")
            if source is target:
                return None
            assert key not in self._moves
            unique = self._new_uuid().hex
            name = future_directory_name(topic, partition, unique)
            if name is None:
                raise ValueError(f"{topic}-{partition} can't be moved: its name is too long for a copy's")
            move = self._moves[key] = LogMove(log, source, target, f"{path}/{name}", unique, self._fs)
            return move

    def end_move(self, move: LogMove) -> None:
        """End a committed or cancelled move; the copy of the latter is removed. Blocks; OSError if it can't be removed."""
        key = (move.log.topic, move.log.partition)
        with self._lock:
            if self._moves.get(key) is move:
                del self._moves[key]
            if move.is_done and self._logs.get(key) is move.log:
                move.source.logs.pop(key, None)
                self._put(key, move.log, move.target)
                move.target.arriving.pop(key, None)
        if not move.is_done and not move.is_half_way:
            move.discard(self._new_uuid().hex)

    # --- background ---

    def start(self) -> None:
        """Schedule the periodic work of each directory."""
        deleted, self._deleted = self._deleted, []
        for upkeep in self._upkeeps:
            paths = [path for path in deleted if path.startswith(f"{upkeep.directory.path}/")]
            if paths:
                upkeep.scheduler.schedule("delete-log", partial(self._remove, paths), 0)
            upkeep.start(self._config)

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self._fs.remove_tree(path)
            except OSError as error:  # the next start tries it again
                logger.error("%s could not be removed: %s", path, error)

    def delete_old_segments(self) -> int:
        """Apply retention to every log; returns the number of segments deleted."""
        return sum([upkeep.delete_old_segments() for upkeep in self._upkeeps])

    def checkpoint_recovery_points(self) -> bool:
        """Checkpoint the offsets below which recovery has nothing to check. False: not written everywhere."""
        written = [upkeep.checkpoint_recovery_points() for upkeep in self._upkeeps]
        return all(written)

    def checkpoint_high_watermarks(self) -> bool:
        """Checkpoint the high watermarks. False: not written everywhere."""
        written = [upkeep.checkpoint_high_watermarks() for upkeep in self._upkeeps]
        return all(written)

    def checkpoint_log_start_offsets(self) -> bool:
        """Checkpoint the start of logs that do not start at their first segment. False: not written everywhere."""
        written = [upkeep.checkpoint_log_start_offsets() for upkeep in self._upkeeps]
        return all(written)

    def note_log_starts(self, keys: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Make the starts of these logs durable, as `checkpoint_log_start_offsets` does, with one sync. Returns those that could
        not be written: after a power cut they may be where they were."""
        asked, failed = set(keys), set[TopicPartition]()
        for upkeep in self._upkeeps:
            here = {key for key in asked if key in upkeep.logs or key in upkeep.arriving}
            if here and not upkeep.note_log_starts(here):
                failed |= here
        return failed

    # --- stop ---

    def shutdown(self) -> None:
        """Close every log durably, then mark the stop as clean. A directory where that fails gets no mark. Blocks.

        After a load that failed, or none, only the locks are given back: checkpoints and mark stay what the last stop left.
        """
        for upkeep in self._upkeeps:
            upkeep.cancel()
        if not self._is_loaded:
            self._release()
            return
        failed: set[int] = set()

        def close(item: tuple[TopicPartition, UnifiedLog]) -> None:
            key, log = item
            try:
                log.close()
            except StorageError as error:
                logger.error("%s", error)
                failed.add(id(self._homes[key].directory))

        threads = self._config.num_recovery_threads_per_data_dir
        if len(self._logs) > _FEW_LOGS:
            threads = max(threads, _CLOSERS)
        threads *= len(self._directories)
        if threads == 1:
            for item in list(self._logs.items()):
                close(item)
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="log-closing") as pool:
                list(pool.map(close, list(self._logs.items())))
        for upkeep in self._upkeeps:
            directory = upkeep.directory
            if not upkeep.checkpoint_all() or id(directory) in failed:
                continue
            try:
                directory.mark_clean({key: self._files_of(log) for key, log in upkeep.logs.items()})
            except OSError as error:
                logger.error("%s: the stop could not be marked as clean: %s", directory.path, error)
        self._release()

    def _files_of(self, log: UnifiedLog) -> LogFiles:
        view = log.segments
        return files_of(self._fs, log.directory, [s.base_offset for s in view if s.size or s is view[-1]])

    def _release(self) -> None:
        """Close files and release locks without writing."""
        for directory in self._directories:
            directory.end_checkpoints()
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self._homes.clear()
        for upkeep in self._upkeeps:
            upkeep.logs.clear()
        self._cache.close()
        for directory in self._directories:
            directory.close()
