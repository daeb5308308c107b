"""LogUpkeep: periodic work on the logs of one data directory: retention, syncs, checkpoints, idle producers.

    log-retention                  rolls logs that fell silent, then deletes what the policies name
    log-flusher                    syncs logs whose flush.ms has passed
    recovery-point-checkpoint      what recovery may skip
    log-start-offset-checkpoint    where logs start that don't start at their first segment
    high-watermark-checkpoint      what consumers could read
    disk-space                     looks how much is free
    producer-expiration            forgets producers that have been idle for producer.id.expiration.ms

Each directory has its own, in its own lane of the scheduler: a disk that hangs holds up nobody else's logs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from ..exceptions import StorageError
from ..io.checkpoint import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TopicPartition,
)
from ..io.disk_space import SAMPLE_MS
from ..segment.files import LogPlace

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..clock import Time
    from ..io.disk_space import DiskSpace
    from ..io.write_pace import WritePace
    from ..log.unified_log import UnifiedLog
    from ..scheduler import ScheduledTask, Scheduler
    from .data_directory import DataDirectory

logger = logging.getLogger(__name__)

HIGH_WATERMARK_CHECKPOINT_MS = 5000
CHECKPOINT_AFTER_MS = 1000
"""How long a start that DeleteRecords has moved is noted beside the checkpoint alone: many of them are one checkpoint."""
_SHORTEST_FLUSH_CHECK_MS = 10
_LONGEST_FLUSH_CHECK_MS = 1000
_NO_FLUSH_MS = 2**63 - 1
"""flush.ms where it is not set."""


class LogUpkeep:
    """Upkeep of one data directory. The methods that do the work block, and may run on any pool thread.

    Attributes:
        directory: whose logs these are.
        scheduler: its lane. Whatever else blocks on this directory's disk goes there too.
        space: room on its disk.
        pace: how long writes to it take.
        logs: its logs by topic and partition. The log manager puts them in and takes them out, under its lock.
        making: how many are being made; likewise.
        arriving: logs that are about to come here from another directory: the checkpoints name them before they do.
    """

    def __init__(
        self, directory: DataDirectory, scheduler: Scheduler, time: Time, space: DiskSpace, pace: WritePace
    ) -> None:
        self.directory = directory
        self.scheduler = scheduler
        self.space = space
        self.pace = pace
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self.making = 0
        self.arriving: dict[TopicPartition, UnifiedLog] = {}
        self._time = time
        self._tasks: list[ScheduledTask] = []
        self._flusher: ScheduledTask | None = None
        self._flusher_lock = threading.Lock()  # one look is scheduled, whoever asks for it
        self._following_lock = threading.Lock()
        self._is_following = False  # a checkpoint of log starts is scheduled behind a note of some
        self._flush_check_ms = _LONGEST_FLUSH_CHECK_MS
        self._longest_flush_ms = _LONGEST_FLUSH_CHECK_MS

    def place(self, path: str) -> LogPlace:
        """Resources of a log in the directory `path`, on this data directory. Any thread."""
        return LogPlace(
            path,
            self.space,
            self.pace,
            self.scheduler,
            self.checkpoint_log_start_offsets,
            self.checkpoint_recovery_points,
        )

    def start(self, config: BrokerConfig) -> None:
        """Schedule retention, flushes and checkpoints at the intervals of `config`; called once, when all logs are loaded."""
        initial = config.log_initial_task_delay_ms
        check_ms = config.log_retention_check_interval_ms
        for name, task, delay_ms, period_ms in (
            ("log-retention", self.delete_old_segments, min(initial, check_ms), check_ms),
            (
                "recovery-point-checkpoint",
                self.checkpoint_recovery_points,
                initial,
                config.log_flush_offset_checkpoint_interval_ms,
            ),
            (
                "log-start-offset-checkpoint",
                self.checkpoint_log_start_offsets,
                initial,
                config.log_flush_start_offset_checkpoint_interval_ms,
            ),
            ("high-watermark-checkpoint", self.checkpoint_high_watermarks, initial, HIGH_WATERMARK_CHECKPOINT_MS),
            (
                "producer-expiration",
                self.remove_expired_producers,
                initial,
                config.producer_id_expiration_check_interval_ms,
            ),
            ("disk-space", self.space.sample, 0, SAMPLE_MS),
        ):
            self._tasks.append(self.scheduler.schedule(name, task, delay_ms, max(1, period_ms)))
        self._longest_flush_ms = min(config.log_flush_scheduler_interval_ms, _LONGEST_FLUSH_CHECK_MS)
        self._schedule_flush()

    def cancel(self) -> None:
        """Let no further task start."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._flusher is not None:
            self._flusher.cancel()

    # --- flush ---

    def added(self, log: UnifiedLog) -> None:
        """Make the flusher look at a new log in time. Any thread."""
        if self._tasks and log.config.flush_ms // 2 < self._flush_check_ms:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        """Schedule the next look twice within the shortest flush.ms, so that no log's time passes between two looks."""
        shortest = min((log.config.flush_ms for log in list(self.logs.values())), default=_NO_FLUSH_MS)
        with self._flusher_lock:
            if self._flusher is not None:
                self._flusher.cancel()
            self._flush_check_ms = max(min(shortest // 2, self._longest_flush_ms), _SHORTEST_FLUSH_CHECK_MS)
            self._flusher = self.scheduler.schedule("log-flusher", self._flush_tick, self._flush_check_ms)

    def _flush_tick(self) -> None:
        try:
            self.flush_due_logs()
        finally:
            if self._tasks:
                self._schedule_flush()

    def flush_due_logs(self) -> None:
        """Flush each log whose flush.ms since its last flush would pass before the next look."""
        latest = self._time.monotonic_ms() + self._flush_check_ms
        for log in list(self.logs.values()):
            if log.recovery_point < log.log_end_offset and latest - log.local.last_flush_ms > log.config.flush_ms:
                try:
                    log.flush()
                except StorageError as error:
                    logger.error("%s", error)

    # --- retention ---

    def delete_old_segments(self) -> int:
        """Roll old quiet segments, apply retention; returns the number of segments deleted. What fails is logged, and keeps
        neither other logs waiting nor the log's own deletions: a full disk has no room for a roll, and they make some.
        """
        count = 0
        for log in list(self.logs.values()):
            with _logged(log):
                log.local.open_ledger(count=bool(log.holes))  # records lost to holes are counted once
                log.local.roll_if_quiet()
            with _logged(log):
                count += len(log.delete_old_segments())
            with _logged(log):
                log.local.forget_holes()
                log.local.mend_indexes()
        return count

    def remove_expired_producers(self) -> None:
        for log in list(self.logs.values()):
            log.remove_expired_producers()

    # --- checkpoints ---

    def checkpoint_all(self) -> bool:
        """Write all three checkpoints, before a stop. False: one of them could not be written."""
        written = [
            self.checkpoint_recovery_points(), self.checkpoint_log_start_offsets(), self.checkpoint_high_watermarks(),
        ]  # fmt: skip
        return all(written)

    def checkpoint_recovery_points(self) -> bool:
        """Write recovery points. The file may only lag behind the truth, so the order with flushes does not matter.

        False: it could not be written.
        """
        return self._checkpoint(RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    def checkpoint_high_watermarks(self) -> bool:
        """Write high watermarks, which may lag too."""
        return self._checkpoint(REPLICATION_OFFSET_CHECKPOINT, lambda log: log.high_watermark)

    def checkpoint_log_start_offsets(self) -> bool:
        """Write the start of logs that do not start at their first segment. False: it could not be written."""

        return self._checkpoint(LOG_START_OFFSET_CHECKPOINT, _start_offset)

    def note_log_starts(self, keys: Collection[TopicPartition]) -> bool:
        """Make the starts of these logs durable, after DeleteRecords; the checkpoint follows in `CHECKPOINT_AFTER_MS`. False:
        they could not be written.
        """
        for key in keys:
            log = self.logs.get(key) or self.arriving.get(key)
            # Retention may have been there first, and need not have made durable what is promised now.
            if log is not None:
                log.is_shortening = True
        written = self._tried(
            LOG_START_OFFSET_CHECKPOINT,
            lambda: self.directory.note_log_starts(
                lambda: self._offsets(_start_offset, keys), lambda: self._offsets(_start_offset)
            ),
        )
        with self._following_lock:
            is_first, self._is_following = not self._is_following, True
        if is_first:
            self.scheduler.schedule("log-start-offset-checkpoint", self._follow, CHECKPOINT_AFTER_MS)
        return written

    def _follow(self) -> None:
        with self._following_lock:
            self._is_following = False
        self.checkpoint_log_start_offsets()

    def _checkpoint(self, name: str, value: Callable[[UnifiedLog], int | None]) -> bool:
        return self._tried(name, lambda: self.directory.checkpoint(name, lambda: self._offsets(value)))

    def _offsets(
        self, value: Callable[[UnifiedLog], int | None], keys: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, int]:
        """What `value` says of each log, or of those of `keys` that are here."""
        logs = [*self.logs.items(), *self.arriving.items()]
        return {
            key: offset for key, log in logs if (keys is None or key in keys) and (offset := value(log)) is not None
        }

    def _tried(self, name: str, write: Callable[[], bool]) -> bool:
        try:
            return write()
        except OSError as error:
            logger.error("%s/%s could not be written: %s", self.directory.path, name, error)
            return False


@contextmanager
def _logged(log: UnifiedLog) -> Iterator[None]:
    """Log what fails within, a log that is damaged too."""
    try:
        yield
    except StorageError as error:
        logger.error("%s", error)
    except RecordError as error:
        logger.error("%s: %s", log.name, error)


def _start_offset(log: UnifiedLog) -> int | None:
    """Where the log starts; None where its first segment tells."""
    start = log.log_start_offset
    is_told = start == log.segments[0].base_offset and not log.is_shortening and not log.local.has_left_files
    return None if is_told else start
