"""UnifiedLog: one partition's log. Append, read, roll, watermarks, truncation, retention, look-ups by time.

    logStartOffset ≤ highWatermark ≤ logEndOffset,  recoveryPoint ≤ logEndOffset

    segments   [0 ........][ 4711 ........][ 9000 ....        ]  the last one is active, the only one written to
                     ^ logStartOffset          ^ recoveryPoint ^ highWatermark = logEndOffset, unless a sync is pending

Start reading at `append_as_leader` and `read`; how a log rolls and loses segments is in `shrinking_log.py`, how it takes
message sets in `converting_log.py`, loading and recovery in `loader.py`, who calls when in `log_manager.py`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.records._kernel import read_header, validate_and_assign
from ...protocol.records.attributes import CONTROL_MASK
from ...protocol.records.compression import DEFAULT_MAX_BYTES
from ...protocol.records.exceptions import RecordTooLargeError
from ...protocol.records.record_batch import MAGIC_V2
from ..exceptions import KafkaStorageError, OffsetOutOfRangeError
from ..index.transaction_index import AbortedTxn
from ..producers.transaction_marker import MARKER_BATCH_SIZE, marker_of
from ..retention.history import RetentionRecord
from ..segment.log_segment import LogSegment
from ..segment.segment_list import floor_index
from . import reader as log_reader
from .aborted_transactions import AbortedTransactions
from .converting_log import ConvertingLog
from .local_log import no_checkpoint
from .roll_params import ASK_ALWAYS, RollParams, RollReason, roll_limits, roll_reason
from .validator import CheckedBatch, TargetFormat, ValidatedRecords, place_batch
from .values import NO_TIMESTAMP, AppendOrigin, FetchDataInfo, LogAppendInfo, LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from ...config.log_config import LogConfig
    from ...protocol.records._kernel import BatchInfo
    from ..clock import Time
    from ..index.time_index import TimestampOffset
    from ..io.filesystem import Buffer
    from ..producers.state import OpenTransaction, ProducerStateManager, ProducerSummary
    from ..scheduler import Scheduler
    from ..segment.files import LogDirectory, LogPlace
    from ..segment.segment_list import SegmentList
    from .leader_epoch import EpochEndOffset, LeaderEpochCache

logger = logging.getLogger(__name__)

_CLIENT = AppendOrigin.CLIENT
_new = tuple.__new__
"""Of a NamedTuple, at half the price: what an append makes is made for each batch of every client."""
_NO_LIMIT_MS = 1 << 61
"""Kafka's "no limit" is 2^63 - 1; beyond this its sums with a clock would leave 64 bits."""


class UnifiedLog(ConvertingLog):
    """One partition. One thread at a time appends (the loop thread, or its slow directory's writer: "loop thread" below means
    who appends); any thread reads, flushes, looks up and deletes.

    Readers take no lock: the segment list is a snapshot, and each watermark is published as one value after the bytes
    that it covers.

    Attributes:
        log_start_offset: First readable offset. Moved up by retention (to the base of the first segment kept) and by
            DeleteRecords (to any offset); checkpointed. Read by fetch and ListOffsets. Never passes the high watermark,
            never moves down but by truncation.
        high_watermark: What consumers may read ends here. Follows logEndOffset with each append; while a sync is
            pending it stays until `complete_sync`, so that nobody reads what a power cut can take back. Never passes
            logEndOffset.
        last_stable_offset: What read_committed consumers may read ends here: the high watermark, or the first offset of
            the oldest open transaction below it. Moved by appends of records and markers. Never passes the high
            watermark.
        recovery_point: All below is durable. Moved by `flush` alone, after the fsync, to where the log ended before it;
            lowered by truncation. Read at load: recovery starts in its segment. Never passes logEndOffset.
        log_end_offset: The offset that the next record gets. Moved by an append once its bytes are in the file, and by
            truncation. Nothing passes it.
        converts_batches: What comes in format 2 is stored in format 0 or 1, which takes long: see `prepare`.
        leader_epoch: Stamped into every batch; one higher after each start that found a log with an epoch.
        needs_sync: A sync is pending: `flush.messages` records or more are not durable. The broker calls `flush()` in
            a pool thread, then `complete_sync`, and answers what waited.
        failure: Why the log takes no more appends: an fsync failed, or it is closed.
        truncations: How often the log was truncated since it was loaded: a pass of the cleaner that began before is void.
        holes: What it has lost to damage, as far as `.damaged` files told when it was loaded.
        retention: What retention has done here, and could not do.
        is_shortening: Segments below the log start offset may come back with a power cut: it must be checkpointed.
        save_start_offset: Writes the checkpoint of log start offsets; False: it could not be written. The log manager's, as
            `save_recovery_point` is.
    """

    __slots__ = (
        "_aborted",
        "_append_time_floor",
        "_pace",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        directory: LogDirectory,
        segments: SegmentList,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        *,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        scheduler: Scheduler,
        time: Time,
        jitter: Callable[[int], int],
    ) -> None:
        """`jitter(n)` gives a random number in [0, n); `topic_id` is None where no file says it."""
        super().__init__(
            topic,
            partition,
            topic_id,
            directory,
            segments,
            producers,
            epochs,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
            scheduler=scheduler,
            time=time,
            jitter=jitter,
        )
        assert log_start_offset <= log_end_offset
        self.log_start_offset = log_start_offset
        self.high_watermark = log_end_offset
        self._high = self._end
        self.needs_sync = False
        self._aborted = AbortedTransactions(directory)
        self.leader_epoch = epochs.next_epoch
        self._epoch_is_assigned = False
        self._append_time_floor: int | None = None
        self._quiet_end = -1
        self._space = directory.space
        self._pace = directory.pace
        self.retention = RetentionRecord(self.name)
        self.is_shortening = False
        self.save_start_offset = no_checkpoint
        self._configure()

    def __repr__(self) -> str:
        return f"UnifiedLog({self.name}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def last_stable_offset(self) -> int:
        high = self.high_watermark  # first: an append that begins a transaction moves it last
        first_unstable = self._producers.first_unstable_offset
        if first_unstable is None or first_unstable > high:
            return high
        return max(first_unstable, self.log_start_offset)  # DeleteRecords may take the beginning of an open transaction

    @property
    def producers(self) -> ProducerStateManager:
        """State of the idempotent producers. Loop thread."""
        return self._producers

    def last_records_of_producers(self) -> list[tuple[int, int, int]]:
        """(producer id, offset of its last data record or -1, epoch) of each known producer. Any thread."""
        with self._lock:
            return [
                (entry.producer_id, entry.last_offset, entry.producer_epoch)
                for entry in self._producers.active_producers()
            ]

    def producer_summaries(self) -> list[ProducerSummary]:
        """What DescribeProducers tells of each known producer. Any thread."""
        with self._lock:
            return self._producers.summaries()

    def oldest_transaction(self) -> OpenTransaction | None:
        """The open transaction that holds the last stable offset back. Any thread."""
        with self._lock:
            return self._producers.oldest_transaction()

    def update_config(self, config: LogConfig) -> None:
        """New settings hold from the next append on. Loop thread: an append that waits for its disk is not waited for,
        the settings then follow it."""
        self._directory.config = config
        if self._lock.acquire(blocking=False):
            try:
                self._configure()
            finally:
                self._lock.release()
        else:
            self._scheduler.schedule("log-config", self._configure_later, 0)

    def _configure_later(self) -> None:
        with self._lock:
            self._configure()

    def _configure(self) -> None:
        config = self._directory.config
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._require_keys = "compact" in config.cleanup_policy
        self._flush_messages = config.flush_messages
        self._max_message_bytes = config.max_message_bytes
        self._timestamp_before_max = min(config.message_timestamp_before_max_ms, _NO_LIMIT_MS)
        self._timestamp_after_max = min(config.message_timestamp_after_max_ms, _NO_LIMIT_MS)
        target = TargetFormat.of(config)
        self._target = None if target.is_as_it_came else target
        self.converts_batches = target.magic < MAGIC_V2
        self._limits = ASK_ALWAYS

    # --- append: loop thread ---

    def append_as_leader(
        self,
        buffer: bytearray | memoryview,
        start: int,
        end: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        max_decompressed: int = DEFAULT_MAX_BYTES,
        is_due: Callable[[], bool] | None = None,
    ) -> LogAppendInfo:
        """Append the one batch in buffer[start:end]: validated, and its offsets, epoch and times assigned in place.

        One whose records take more than `max_decompressed` bytes is a RecordTooLargeError; one that takes so long to decompress
        that `is_due` becomes true an OutOfTimeError. See `check_batch` for those.
        Raises RecordTooLargeError, InvalidTimestampError, InvalidRecordError, CorruptRecordError … (protocol.records), a
        ProducerStateError, KafkaStorageError. Nothing was appended then.
        """
        with self._lock:
            size = end - start
            if size > self._max_message_bytes and size > MARKER_BATCH_SIZE:
                raise RecordTooLargeError(
                    f"{self.name}: a batch of {size} bytes, max.message.bytes is {self._max_message_bytes}"
                )
            if size > self._space.left:
                self._space.check(size, is_client=origin is _CLIENT)
            now = self._time.milliseconds()
            append_time = self._next_append_time(now) if self._append_time else NO_TIMESTAMP
            batch = validate_and_assign(
                buffer,
                start,
                end,
                self.log_end_offset,
                self.leader_epoch,
                append_time,
                self._require_keys,
                origin is _CLIENT,
                now - self._timestamp_before_max,
                now + self._timestamp_after_max,
                max_decompressed,
                is_due,
            )
            if self._target is not None:
                data = memoryview(buffer)[start:end]
                # What the broker itself writes stays in format 2: its readers know no other, and markers have no older form.
                if self._target.magic < MAGIC_V2 and origin is _CLIENT:
                    records = self._target.converted(data, batch, self._max_message_bytes)
                    return self._write_records(records, now, append_time, size)
                if self._target.recompresses(batch.compression) and not batch.is_control:
                    buffer = self._target.recompressed(data, self._max_message_bytes)
                    start, end = 0, len(buffer)
                    batch = read_header(buffer, 0, end)
            return self._append_sound(buffer, start, end, batch, origin, now, append_time, size)

    def append_checked(self, checked: CheckedBatch) -> LogAppendInfo | None:
        """Append what `check_batch` gave, as quickly as a batch that is not compressed. None: since then settings have
        changed, so that it has to be checked anew. Loop thread. Raises as `append_as_leader`.
        """
        with self._lock:
            if checked.config is not self._directory.config:
                return None
            if checked.size > self._space.left:
                self._space.check(checked.size, is_client=True)
            append_time = self._next_append_time(checked.append_time) if self._append_time else NO_TIMESTAMP
            data = checked.data
            place_batch(data, self.log_end_offset, self.leader_epoch, append_time)
            batch = read_header(data, 0, len(data))
            now = self._time.milliseconds()
            return self._append_sound(data, 0, len(data), batch, _CLIENT, now, append_time, checked.size)

    def _append_sound(
        self,
        buffer: Buffer,
        start: int,
        end: int,
        batch: BatchInfo,
        origin: AppendOrigin,
        now: int,
        append_time: int,
        size: int,
    ) -> LogAppendInfo:
        """The batch is right in itself and stands for the end of the log: its producer is asked, and it is written."""
        if batch.producer_id >= 0:
            if batch.is_control:
                return self._append_marker(memoryview(buffer)[start:end], batch, origin, now)
            duplicate = self._producers.check(batch, origin)
            if duplicate is not None:
                return LogAppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp if self._append_time else NO_TIMESTAMP,
                    self.log_start_offset,
                    batch.record_count,
                    size,
                    True,
                )
        whole = start == 0 and end == len(buffer)
        self._write(buffer if whole else memoryview(buffer)[start:end], batch, now)
        return _new(
            LogAppendInfo,
            (batch.base_offset, batch.last_offset, append_time, self.log_start_offset, batch.record_count, size, False),
        )

    def _append_marker(self, data: memoryview, batch: BatchInfo, origin: AppendOrigin, now: int) -> LogAppendInfo:
        """Append the control batch that ends a producer's transaction. Under the lock.

        An abort is in the transaction index before its marker is in the log, and the last stable offset moves after both: no
        reader gets past the transaction's records without being told of it. A crash between the two leaves an entry too many
        in the active segment's index, which recovery makes anew.
        """
        producers, offset = self._producers, batch.base_offset
        marker = marker_of(data)
        producers.check_marker(batch.producer_id, batch.producer_epoch, marker, origin)
        completed = producers.completed_by(batch.producer_id, marker, offset)
        if completed is None or not completed.is_aborted:
            self._write(data, batch, now)
        else:
            try:
                reason = self._roll_reason(self._segments.view[-1], len(data), batch.max_timestamp, offset, now)
                if reason is not None:
                    self._roll(reason.value)
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: rolling failed: {error}") from error
            aborted = AbortedTxn(*completed[:3], producers.last_stable_offset(completed))
            with self._aborted.noted(self._segments.view[-1].base_offset, aborted):
                self._directory_is_dirty = True  # the file may be new
                self._write(data, batch, now)
        producers.update_marker(batch.producer_id, batch.producer_epoch, marker, offset, batch.max_timestamp)
        if completed is not None:
            producers.complete_txn(completed)
            producers.on_high_watermark_updated(self.high_watermark)
        append_time = batch.max_timestamp if self._append_time else NO_TIMESTAMP
        return LogAppendInfo(offset, offset, append_time, self.log_start_offset, 1, len(data), False)

    def _next_append_time(self, now: int) -> int:
        """The clock, but never before the newest append time in the log: timestamps there must not go back with a clock
        that does, nor after a restart. Under the lock. KafkaStorageError: the log can't be read.
        """
        floor = self._append_time_floor
        if floor is None:
            try:
                floor = next((s.newest_append_time() for s in reversed(self._segments.view) if s.size), NO_TIMESTAMP)
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: reading the last batch failed: {error}") from error
        self._append_time_floor = append_time = max(now, floor)
        return append_time

    def append_batches(
        self, buffer: bytearray | memoryview, *, origin: AppendOrigin = AppendOrigin.COORDINATOR
    ) -> LogAppendInfo:
        """Append what the broker itself built: one writable batch or more, in one write each. Loop thread.

        Answers with the first and last offset of all. Raises as `append_as_leader`; batches before the one that failed stay.
        """
        position, count, size = 0, 0, len(buffer)
        first: LogAppendInfo | None = None
        info: LogAppendInfo | None = None
        while position < size:
            end = position + read_header(buffer, position, size).size
            info = self.append_as_leader(buffer, position, end, origin=origin)
            first = first or info
            count += info.record_count
            position = end
        assert first is not None
        assert info is not None
        return info._replace(first_offset=first.first_offset, record_count=count, size=size)

    def _write(
        self,
        data: Buffer,
        batch: BatchInfo | ValidatedRecords,
        now: int,
        offset_of_max_timestamp: int = -1,
        stand_alone: bool = False,
    ) -> None:
        """Append to the active segment, rolled if need be, and move the ends. Under the lock.

        Order: bytes, then log_end_offset, then the high watermark. A failure before the bytes are in leaves everything as it
        was; after it nothing can fail.
        """
        if self.failure is not None:
            raise KafkaStorageError(f"{self.name} takes no appends until a restart: {self.failure}") from self.failure
        segment = self._segments.view[-1]
        pace = self._pace
        started = pace.clock()
        last_offset = batch.last_offset
        max_timestamp = batch.max_timestamp
        limits = self._limits
        try:
            if (
                segment.size + len(data) > limits.segment_size
                or max_timestamp > limits.timestamp
                or last_offset > limits.last_offset
                or segment.index_is_full
            ):
                reason = self._roll_reason(segment, len(data), max_timestamp, last_offset, now)
                if reason is not None:
                    segment = self._roll(reason.value)
            self._space.left -= len(data)
            if stand_alone:
                segment.append(
                    data, batch.base_offset, last_offset, max_timestamp, offset_of_max_timestamp, stand_alone=True
                )
            else:
                segment.append(data, batch.base_offset, last_offset, max_timestamp)
        except OSError as error:
            pace.note(pace.clock() - started)
            raise KafkaStorageError(f"{self.name}: appending failed: {error}") from error
        took = pace.clock() - started
        if took > pace.notice_s:
            pace.note(took)
        end_offset = last_offset + 1
        if self.log_end_offset == self.recovery_point:
            self.unsynced_since_ms = now
        self._end = end = _new(LogOffsetMetadata, (end_offset, segment.base_offset, segment.size))
        self.log_end_offset = end_offset
        if batch.producer_id >= 0 and not batch.attributes & CONTROL_MASK:  # type: ignore[union-attr]  # only a batch has one
            self._producers.update(batch)  # type: ignore[arg-type]
        if not self._epoch_is_assigned and batch.magic >= MAGIC_V2:  # older messages carry no epoch
            self._epoch_is_assigned = True
            self._epochs.assign(self.leader_epoch, batch.base_offset)
            self._scheduler.schedule("leader-epoch-checkpoint", self._epochs.flush, 0)
        if not self.needs_sync:
            if end_offset - self.recovery_point >= self._flush_messages:
                self.needs_sync = True
            else:
                self._high = end
                self.high_watermark = end_offset

    def _roll_reason(
        self, segment: LogSegment, size: int, max_timestamp: int, last_offset: int, now: int
    ) -> RollReason | None:
        config = self._directory.config
        params = RollParams(
            segment.size,
            size,
            config.segment_bytes,
            segment.first_timestamp(),
            segment.created_ms,
            max_timestamp,
            now,
            config.segment_ms - segment.jitter_ms,
            segment.index_is_full,
            segment.base_offset,
            last_offset,
        )
        self._limits = roll_limits(params)
        return roll_reason(params)

    # --- read: any thread ---

    def read(
        self, offset: int, max_bytes: int, *, limit_offset: int | None = None, min_one_message: bool = True
    ) -> FetchDataInfo:
        """A slice of the file from the batch that holds `offset` on, up to `limit_offset` (default: the high watermark).

        About `max_bytes`, cut anywhere, but the whole first batch when `min_one_message` (else nothing if it is larger).
        Empty only when there is no record in [offset, limit): gaps are walked over, into later segments too. The caller
        releases it. OffsetOutOfRangeError outside [logStartOffset, logEndOffset]; KafkaStorageError when the disk fails.
        """
        high = self._high
        if limit_offset is None or limit_offset == high.offset:
            limit = high
        else:
            end = self._end
            limit = end if limit_offset >= end.offset else log_reader.locate(self._segments.view, limit_offset)
        # The snapshot is taken after the limit, so it has the limit's segment.
        view = self._segments.view
        if self.log_start_offset <= offset < limit.offset:
            try:
                found = log_reader.read(view, offset, limit, max_bytes, min_one_message)
            except OSError as error:
                if self._segments.view is view:
                    raise KafkaStorageError(f"{self.name}: reading at offset {offset} failed: {error}") from error
                # Retention or truncation took the files while we were looking: the limit may have come down too.
                return self.read(offset, max_bytes, limit_offset=limit_offset, min_one_message=min_one_message)
            if found is not None:
                return found
        if offset < self.log_start_offset or (offset > limit.offset and offset > self.log_end_offset):
            raise OffsetOutOfRangeError(
                f"{self.name}: offset {offset} is not within {self.log_start_offset}..{self.log_end_offset}"
            )
        return FetchDataInfo(offset, None, 0, 0)

    @property
    def aborted_are_loaded(self) -> bool:
        """Whether `aborted_transactions` would not have to look at files first, but the active segment's. Never blocks."""
        return self._aborted.is_loaded(self._segments.view)

    def load_aborted(self) -> None:
        """Has the look that `aborted_transactions` would have. Pool threads. OSError, CorruptIndexError."""
        self._aborted.load(self._segments.view)

    def aborted_transactions(self, offset: int, info: FetchDataInfo) -> list[AbortedTxn]:
        """Those that a read_committed consumer must be told of with what `read` gave for `offset`. Loop thread.

        Reads small files. KafkaStorageError when the disk fails, CorruptIndexError when an index can't be trusted.
        """
        try:
            return self._aborted.overlapping(self._segments.view, offset, info)
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: reading aborted transactions failed: {error}") from error

    def lookup_by_timestamp(self, timestamp: int, *, limit_offset: int | None = None) -> TimestampOffset | None:
        """The first readable record below `limit_offset` (default: the high watermark) that is not older, or None.

        May read from disk.
        """
        return self._look_up(
            lambda view, start, limit: log_reader.find_timestamp(view, timestamp, start, limit), limit_offset
        )

    def max_timestamp_offset(self, *, limit_offset: int | None = None) -> TimestampOffset | None:
        """The first record that has the largest timestamp of all readable ones below the limit; None when there are none.

        May read from disk.
        """
        return self._look_up(log_reader.find_largest_timestamp, limit_offset)

    def _look_up(
        self,
        find: Callable[[tuple[LogSegment, ...], int, int], TimestampOffset | None],
        limit_offset: int | None,
    ) -> TimestampOffset | None:
        """Asks a snapshot, and the next one when retention or truncation took its files meanwhile."""
        while True:
            limit = self.high_watermark if limit_offset is None else limit_offset
            view, start = self._segments.view, self.log_start_offset
            try:
                return find(view[max(0, floor_index(view, start)) :], start, limit)
            except OSError as error:
                if self._segments.view is view:
                    raise KafkaStorageError(f"{self.name}: looking up a timestamp failed: {error}") from error

    def epoch_for_offset(self, offset: int) -> int:
        """Leader epoch of the record at `offset`; -1 when not known."""
        epoch = self._epochs.epoch_for_offset(offset)
        return -1 if epoch is None else epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """(largest epoch <= `epoch`, offset where it ends), as OffsetForLeaderEpoch asks; (-1, -1) when not known."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    # --- sync ---

    def complete_sync(self, offset: int) -> bool:
        """A flush has answered `offset`: let the high watermark follow. Any thread; waits for an append under way.

        Returns needs_sync: True when again flush.messages records or more came in the meantime; the high watermark is at the
        synced offset then, and the broker calls `flush()` again.
        """
        with self._lock:
            end = self._end
            self.needs_sync = end.offset - min(offset, end.offset) >= self._flush_messages
            if not self.needs_sync:
                high = end
            elif self._synced.offset == offset:
                high = self._synced
            else:
                high = log_reader.locate(self._segments.view, min(offset, end.offset))
            if high.offset > self.high_watermark:
                self._high = high
                self.high_watermark = high.offset
                self._producers.on_high_watermark_updated(high.offset)
            return self.needs_sync

    def _move_ends_out_of(self, end: int) -> None:
        assert end <= self.high_watermark
        super()._move_ends_out_of(end)
        if self._high.segment_base_offset < end:
            self._high = log_reader.locate(self._segments.view, self._high.offset)

    def moved_to(self, place: LogPlace) -> None:
        super().moved_to(place)
        self._space, self._pace = place.space, place.pace
        self.save_start_offset = place.save_start_offset

    def remove_expired_producers(self) -> int:
        """Forget producers that have been idle for producer.id.expiration.ms; returns how many. Any thread."""
        with self._lock:
            return self._producers.remove_expired_producers(self._time.milliseconds())
