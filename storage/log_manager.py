"""LogManager: all logs of the daemon. Loads them, makes and deletes them, looks after them in the background, closes them.

    start    lock each data directory → note and remove the clean-stop mark → load its logs in threads of their own
    running  flush (flush.ms) · recovery points · log start offsets · high watermarks · retention · idle producers
    stop     flush, snapshot, close each log → checkpoints → clean-stop mark → unlock

The mark is removed before the first log is loaded, and written after the last one is durable: a crash in between, loading
included, leads to recovery at the next start.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING
from uuid import UUID

from ..config.log_config import LogConfig, log_config
from .checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TopicPartition,
)
from .data_directory import DataDirectory, PartitionDirectory
from .exceptions import CorruptCheckpointError, DataDirectoryError, KafkaStorageError, StorageError
from .file_cache import FileCache
from .leader_epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache
from .log_loader import LogLoader, Progress
from .log_names import DirectoryState, deleted_directory_name, is_valid_topic, partition_directory_name
from .log_values import RecoveryStats
from .partition_metadata import encode_uuid, read_partition_metadata, write_partition_metadata
from .producer_state import ProducerStateManager
from .segment_files import LogDirectory, SegmentFiles
from .unified_log import UnifiedLog

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from .clock import Time
    from .filesystem import FileSystem
    from .scheduler import ScheduledTask, Scheduler

logger = logging.getLogger(__name__)

HIGH_WATERMARK_CHECKPOINT_MS = 5000
_DEFAULT_NODE_ID = 1
_ALL = 1 << 63
_SHORTEST_FLUSH_CHECK_MS = 10
_LONGEST_FLUSH_CHECK_MS = 1000

ProgressCallback = Callable[[int, int], None]
"""(bytes done, bytes total) of recovery so far; from any loading thread, one call at a time."""


class LogManager:
    """All logs. `get` and `logs` from any thread, without a lock; the rest blocks and is for pool threads.

    Attributes:
        cluster_id, node_id: known after `load`.
        recovery_stats: what loading cost and found, all logs together.
        had_clean_shutdown: whether every data directory was stopped cleanly the last time.
    """

    def __init__(
        self,
        config: BrokerConfig,
        file_system: FileSystem,
        time: Time,
        scheduler: Scheduler,
        *,
        randomness: random.Random | None = None,
    ) -> None:
        """Touches nothing yet. `randomness` makes ids and roll jitter."""
        self._config = config
        self._fs = file_system
        self._time = time
        self._scheduler = scheduler
        self._random = randomness or random.SystemRandom()
        self._cache: FileCache[SegmentFiles] = FileCache()
        self._directories = [DataDirectory(path, file_system) for path in config.log_dirs]
        self._homes: dict[TopicPartition, DataDirectory] = {}
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._lock = threading.Lock()  # over changes of the two above
        self._tasks: list[ScheduledTask] = []
        self._deleted: list[str] = []
        self._default_config = log_config(config, {})
        self._progress_lock = threading.Lock()
        self._bytes_total = 0
        self._bytes_done = 0
        self.cluster_id = ""
        self.node_id: int = config.node_id
        self.recovery_stats = RecoveryStats()
        self.had_clean_shutdown = True

    @property
    def directories(self) -> list[str]:
        """Paths of the data directories."""
        return [directory.path for directory in self._directories]

    def use(self, config: BrokerConfig) -> None:
        """Other settings than at first hold, Kafka's metadata being known now. After `open`, before `load`."""
        self._config = config
        self._default_config = log_config(config, {})

    def get(self, topic: str, partition: int) -> UnifiedLog | None:
        """The log, or None."""
        return self._logs.get((topic, partition))

    def logs(self) -> list[UnifiedLog]:
        """All logs as of now."""
        return list(self._logs.values())

    # --- load ---

    def open(self) -> None:
        """Lock the data directories and learn or decide whose they are. DataDirectoryError: one line, nothing is left locked."""
        try:
            found = [directory.open() for directory in self._directories]
            known = {properties.cluster_id for properties in found if properties is not None}
            self.cluster_id = known.pop() if known else encode_uuid(self._new_uuid())
            if self.node_id < 0:  # node.id is not set
                self.node_id = next((p.node_id for p in found if p is not None), _DEFAULT_NODE_ID)
            for directory in self._directories:
                directory.identify(self.cluster_id, self.node_id, self._new_uuid())
        except BaseException:
            for directory in self._directories:
                directory.close()
            raise

    def load(
        self, config_of: Callable[[str], LogConfig] | None = None, progress: ProgressCallback | None = None
    ) -> None:
        """Load every log, recovering where the last stop was not clean. Calls `open` if nobody has.

        `config_of(topic)` gives a topic's settings (default: the broker's); it is called from loading threads. Raises
        DataDirectoryError with one clear line when a directory cannot be used.
        """
        if not self.cluster_id:
            self.open()
        started_ms = self._time.monotonic_ms()
        try:
            for directory in self._directories:
                self._load_directory(directory, config_of or (lambda _topic: self._default_config), progress)
                directory.make_missing_checkpoints()
        except OSError as error:
            self._release()
            raise DataDirectoryError(
                str(error.filename or "log.dirs"),
                f"loading failed ({error.strerror or error})",
                "mend it and start again",
            ) from error
        except BaseException:
            self._release()
            raise
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
        self, directory: DataDirectory, config_of: Callable[[str], LogConfig], progress: ProgressCallback | None
    ) -> None:
        directory.begin_load()
        self.had_clean_shutdown &= directory.had_clean_shutdown
        recovery_points = directory.read_checkpoint(RECOVERY_POINT_CHECKPOINT)
        start_offsets = directory.read_checkpoint(LOG_START_OFFSET_CHECKPOINT) or {}
        cleaned = directory.read_checkpoint(CLEANER_OFFSET_CHECKPOINT) or {}
        found = directory.partitions()
        self._deleted += [entry.path for entry in found if entry.name.state is DirectoryState.DELETED]
        live = [entry for entry in found if entry.name.state is DirectoryState.LIVE]
        if live and not directory.had_clean_shutdown:
            logger.info("%s: the last stop was not clean; checking %d logs", directory.path, len(live))
            # Directories that were made shortly before are here, but perhaps not on disk.
            self._fs.sync_directory(directory.path)

        def load(entry: PartitionDirectory) -> None:
            key = (entry.name.topic, entry.name.partition)
            log, stats = self._load_log(
                entry.path,
                key,
                config_of(key[0]),
                clean=directory.had_clean_shutdown,
                recovery_point=(recovery_points or {}).get(key, 0),
                log_start_offset=start_offsets.get(key, 0),
                # Without recovery points nothing is known of how old a gap is.
                gaps_below=max(recovery_points.get(key, 0), cleaned.get(key, 0))
                if recovery_points is not None
                else _ALL,
                progress=self._progress(progress),
            )
            with self._lock:
                other = self._homes.get(key)
                if other is not None:
                    raise DataDirectoryError(
                        entry.path, f"{other.path} has this partition too", "move one of the two directories away"
                    )
                self._logs[key] = log
                self._homes[key] = directory
                self.recovery_stats = self.recovery_stats.plus(stats)

        threads = min(self._config.num_recovery_threads_per_data_dir, len(live))
        if threads <= 1:
            for entry in live:
                load(entry)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="log-recovery") as pool:
            jobs: list[Future[None]] = [pool.submit(load, entry) for entry in live]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _load_log(
        self,
        path: str,
        key: TopicPartition,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        gaps_below: int,
        progress: Progress,
    ) -> tuple[UnifiedLog, RecoveryStats]:
        topic, partition = key
        try:
            metadata = read_partition_metadata(self._fs, path)
        except CorruptCheckpointError as error:
            logger.warning("%s", error)
            metadata = None
        epochs_path = f"{path}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            epochs = LeaderEpochCache.load(self._fs, epochs_path)
        except CorruptCheckpointError as error:
            logger.warning("%s; epochs are found again from the batches", error)
            epochs = LeaderEpochCache(self._fs, epochs_path)
        producers = ProducerStateManager(
            path,
            self._fs,
            self._time,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
        )
        directory = LogDirectory(path, self._fs, self._cache, config)
        loaded = LogLoader(
            directory,
            producers,
            epochs,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            gaps_below=gaps_below,
            time=self._time,
            jitter=self._jitter,
            progress=progress,
        ).load()
        log = UnifiedLog(
            topic,
            partition,
            None if metadata is None else metadata.topic_id,
            directory,
            loaded.segments,
            producers,
            epochs,
            log_start_offset=loaded.log_start_offset,
            log_end_offset=loaded.log_end_offset,
            recovery_point=loaded.recovery_point,
            scheduler=self._scheduler,
            time=self._time,
            jitter=self._jitter,
        )
        if loaded.files_changed:
            log.mark_changed()
        if loaded.log_end_offset - loaded.recovery_point >= config.flush_messages:
            # What recovery found may be in the page cache alone: nobody shall read what a power cut can take back.
            log.flush()
        return log, loaded.stats

    def _progress(self, callback: ProgressCallback | None) -> Progress:
        def report(total: int, done: int) -> None:
            with self._progress_lock:
                self._bytes_total += total
                self._bytes_done += done
                if callback is not None:
                    callback(self._bytes_done, self._bytes_total)

        return Progress(lambda count: report(count, 0), lambda count: report(0, count))

    def _jitter(self, limit: int) -> int:
        return self._random.randrange(limit) if limit > 0 else 0

    def _new_uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    # --- make and delete ---

    def get_or_create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig | None = None) -> UnifiedLog:
        """The log, made in the data directory with the fewest logs if it is not there. Blocks; KafkaStorageError."""
        if not is_valid_topic(topic) or partition < 0:
            raise ValueError(f"{topic!r} {partition}: no such partition can be")
        key = (topic, partition)
        with self._lock:
            log = self._logs.get(key)
            if log is not None:
                return log
            homes = list(self._homes.values())
            home = min(self._directories, key=lambda directory: sum(one is directory for one in homes))
            path = f"{home.path}/{partition_directory_name(topic, partition)}"
            try:
                self._fs.make_directory(path)
                write_partition_metadata(self._fs, path, topic_id)
                log, _ = self._load_log(
                    path,
                    key,
                    config or self._default_config,
                    clean=True,
                    recovery_point=0,
                    log_start_offset=0,
                    gaps_below=0,
                    progress=self._progress(None),
                )
            except OSError as error:
                raise KafkaStorageError(f"{path} could not be made: {error}") from error
            log.mark_changed(is_new=True)
            self._logs[key] = log
            self._homes[key] = home
            return log

    def delete(self, topic: str, partition: int) -> None:
        """Take the log away now; its files go after file.delete.delay.ms. Nothing happens when there is none. Blocks."""
        key = (topic, partition)
        with self._lock:
            log = self._logs.pop(key, None)
            home = self._homes.pop(key, None)
        if log is None or home is None:
            return
        target = f"{home.path}/{deleted_directory_name(topic, partition, self._new_uuid().hex)}"
        try:
            log.abandon()
            self._fs.rename(log.directory, target)
            log.renamed(target)
            self._fs.sync_directory(home.path)
        except OSError as error:
            raise KafkaStorageError(f"{log.directory} could not be deleted: {error}") from error
        logger.info("%s: deleted; its files go in %d ms", log.name, log.config.file_delete_delay_ms)
        self._scheduler.schedule("delete-log", lambda: self._fs.remove_tree(target), log.config.file_delete_delay_ms)

    # --- background ---

    def start(self) -> None:
        """Begin the periodic work."""
        config = self._config
        initial = config.log_initial_task_delay_ms
        deleted, self._deleted = self._deleted, []

        def sweep() -> None:
            for path in deleted:
                self._fs.remove_tree(path)

        if deleted:
            self._scheduler.schedule("delete-log", sweep, 0)
        for name, task, period_ms in (
            ("log-retention", self.delete_old_segments, config.log_retention_check_interval_ms),
            (
                "recovery-point-checkpoint",
                self.checkpoint_recovery_points,
                config.log_flush_offset_checkpoint_interval_ms,
            ),
            (
                "log-start-offset-checkpoint",
                self.checkpoint_log_start_offsets,
                config.log_flush_start_offset_checkpoint_interval_ms,
            ),
            ("high-watermark-checkpoint", self.checkpoint_high_watermarks, HIGH_WATERMARK_CHECKPOINT_MS),
            (
                "producer-expiration",
                self.remove_expired_producers,
                config.producer_id_expiration_check_interval_ms,
            ),
        ):
            self._tasks.append(self._scheduler.schedule(name, task, initial, max(1, period_ms)))
        self._schedule_flush()

    def _schedule_flush(self) -> None:
        shortest = min((log.config.flush_ms for log in self._logs.values()), default=self._default_config.flush_ms)
        period = min(self._config.log_flush_scheduler_interval_ms, shortest)
        delay = min(max(period, _SHORTEST_FLUSH_CHECK_MS), _LONGEST_FLUSH_CHECK_MS)
        self._flush_task = self._scheduler.schedule("log-flusher", self._flush_tick, delay)

    def _flush_tick(self) -> None:
        try:
            self.flush_due_logs()
        finally:
            if self._tasks:
                self._schedule_flush()

    def flush_due_logs(self) -> None:
        """Flush each log whose flush.ms has passed since its last flush."""
        now = self._time.milliseconds()
        for log in self._logs.values():
            if log.recovery_point < log.log_end_offset and now - log.last_flush_ms >= log.config.flush_ms:
                try:
                    log.flush()
                except StorageError as error:
                    logger.error("%s", error)

    def delete_old_segments(self) -> int:
        """Apply retention to every log; returns how many segments went."""
        count = 0
        for log in self.logs():
            try:
                count += len(log.delete_old_segments())
            except StorageError as error:
                logger.error("%s", error)
        return count

    def remove_expired_producers(self) -> None:
        for log in self.logs():
            log.remove_expired_producers()

    def checkpoint_recovery_points(self) -> None:
        """What recovery may skip. Only ever lower than the truth, so the order with flushes does not matter."""
        self._checkpoint(RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self) -> None:
        self._checkpoint(REPLICATION_OFFSET_CHECKPOINT, lambda log: log.high_watermark)

    def checkpoint_log_start_offsets(self) -> None:
        """Where logs start that don't start at their first segment."""

        def start_offset(log: UnifiedLog) -> int | None:
            start = log.log_start_offset
            return start if start > log.segments[0].base_offset else None

        self._checkpoint(LOG_START_OFFSET_CHECKPOINT, start_offset)

    def _checkpoint(self, name: str, value: Callable[[UnifiedLog], int | None]) -> None:
        with self._lock:
            homes = list(self._homes.items())
        for directory in self._directories:
            offsets = {
                key: offset
                for key, home in homes
                if home is directory and (log := self._logs.get(key)) is not None and (offset := value(log)) is not None
            }
            try:
                directory.checkpoint(name, offsets)
            except OSError as error:
                logger.error("%s/%s could not be written: %s", directory.path, name, error)

    # --- stop ---

    def shutdown(self) -> None:
        """Close every log durably, then mark the stop as clean. A directory where that fails gets no mark. Blocks."""
        for task in [*self._tasks, *([self._flush_task] if self._tasks else [])]:
            task.cancel()
        self._tasks.clear()
        failed: set[int] = set()

        def close(item: tuple[TopicPartition, UnifiedLog]) -> None:
            key, log = item
            try:
                log.close()
            except StorageError as error:
                logger.error("%s", error)
                failed.add(id(self._homes[key]))

        threads = self._config.num_recovery_threads_per_data_dir * len(self._directories)
        if threads == 1:
            for item in list(self._logs.items()):
                close(item)
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="log-closing") as pool:
                list(pool.map(close, list(self._logs.items())))
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks()
        for directory in self._directories:
            if id(directory) in failed:
                continue
            try:
                directory.mark_clean()
            except OSError as error:
                logger.error("%s: the stop could not be marked as clean: %s", directory.path, error)
        self._release()

    def _release(self) -> None:
        """Give files and locks back as they are."""
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self._homes.clear()
        self._cache.close()
        for directory in self._directories:
            directory.close()

    def any_failure(self) -> Iterable[tuple[str, StorageError]]:
        """(name, cause) of each log that takes no appends."""
        return [(log.name, log.failure) for log in self._logs.values() if log.failure is not None]
