"""UnifiedLog: one partition's log. Append, read, watermarks, truncation, look-ups by time.

    logStartOffset ≤ highWatermark ≤ logEndOffset,  recoveryPoint ≤ logEndOffset

    segments   [0 ........][ 4711 ........][ 9000 ....        ]  the last one is active, the only one written to
                     ^ logStartOffset          ^ recoveryPoint ^ highWatermark = logEndOffset, unless a sync is pending

Start reading at `append_as_leader` and `read`. The files are `local_log.py`'s: segments, roll, flush, swap. How message sets and
batches of another format or codec become records for this log is in `validator.py`; retention is in `retention_executor.py`,
loading and recovery in `loader.py`; `../manager/` calls all of it. The module is long because whoever follows one append, or asks
who moves a watermark, needs all of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.records._kernel import read_header, validate_and_assign
from ...protocol.records.attributes import CONTROL_MASK
from ...protocol.records.compression import DEFAULT_MAX_BYTES
from ...protocol.records.exceptions import RecordTooLargeError
from ...protocol.records.record_batch import MAGIC_V2
from ..exceptions import KafkaStorageError, OffsetOutOfRangeError, OutOfOrderSequenceError
from ..index.transaction_index import AbortedTxn
from ..io.filesystem import has_no_room
from ..producers.replay import ProducerReplay
from ..producers.state import ProducerStateManager
from ..producers.transaction_marker import MARKER_BATCH_SIZE, marker_of
from ..retention.outlook import KnownSegment, RetentionOutlook, outlook
from ..retention.plan import RetentionRecord
from ..segment.log_segment import LogSegment
from ..segment.names import DELETED_STAGE
from ..segment.segment_list import floor_index
from ..values import NO_TIMESTAMP, AppendOrigin, FetchDataInfo, LogAppendInfo, LogOffsetMetadata
from . import reader as log_reader
from . import retention_executor
from .aborted_transactions import AbortedTransactions
from .leader_epoch import LEADER_EPOCH_CHECKPOINT
from .local_log import LocalLog, LogHooks, no_checkpoint
from .validator import (
    AppendRules,
    CheckedBatch,
    PreparedRecords,
    TargetFormat,
    ValidatedRecords,
    checked_batch,
    make_ready,
    moved,
    place_batch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from ...config.log_config import LogConfig
    from ...protocol.records._kernel import BatchInfo
    from ..clock import Time
    from ..index.time_index import TimestampOffset
    from ..io.filesystem import Buffer
    from ..ledger.keeper import LedgerKeeper
    from ..producers.state import OpenTransaction, PendingSnapshot, ProducerSummary
    from ..retention.plan import SegmentDeletion
    from ..scheduler import Scheduler
    from ..segment.files import LogDirectory, LogPlace
    from ..segment.names import Hole
    from ..segment.swap import CleanedSegment
    from .leader_epoch import EpochEndOffset, LeaderEpochCache

logger = logging.getLogger(__name__)

_CLIENT = AppendOrigin.CLIENT
_new = tuple.__new__
"""Constructor of a NamedTuple, at half the price of calling the class: every batch of every client makes some."""
_NO_LIMIT_MS = 1 << 61
"""Kafka's "no limit" is 2^63 - 1; beyond this its sums with a clock would leave 64 bits."""
_TRIES = 10
"""Times that a slice is read again since segments were replaced meanwhile."""
MOST_ABORTED = 10_000
"""Aborted transactions that are told with a slice: a millisecond, and 1.5 MB of log where each is a record and its marker."""


class UnifiedLog:
    """One partition. One thread at a time appends (the loop thread, or its slow directory's writer: "loop thread" below means
    who appends); any thread reads, flushes, looks up and deletes.

    Readers take no lock: the segment list is a snapshot, and each watermark is published as one value after the bytes
    that it covers.

    Attributes:
        local: Its files, and the locks: under `local.lock` is whatever changes the log. The facts that most callers ask for are
            here too; what looks after files (upkeep, the cleaner, a move) asks `local`.
        log_start_offset: First readable offset. Moved up by retention (to the base of the first segment kept) and by
            DeleteRecords (to any offset); checkpointed. Read by fetch and ListOffsets. Never passes the high watermark,
            never moves down but by truncation.
        high_watermark: End of the records that consumers may read. Follows logEndOffset with each append; while a sync is
            pending it stays until `complete_sync`, so that nobody reads what a power cut can take back. Never passes
            logEndOffset.
        high: The high watermark with its place in the files, for readers.
        producers: State of the idempotent producers. Loop thread, but its `ongoing` and `unreplicated`.
        last_stable_offset: End of the records that read_committed consumers may read: the high watermark, or the first offset of
            the oldest open transaction below it. Moved by appends of records and markers. Never passes the high
            watermark.
        recovery_point: All below is durable. Moved by `flush` alone, after the fsync, to where the log ended before it;
            lowered by truncation. Read at load: recovery starts in its segment. Never passes logEndOffset.
        log_end_offset: The offset that the next record gets. Moved by an append once its bytes are in the file, and by
            truncation. Nothing passes it.
        converts_batches: Batches that come in format 2 are stored in format 0 or 1, which takes long: see `prepare`.
        leader_epoch: Stamped into every batch; one higher after each start that found a log with an epoch.
        needs_sync: A sync is pending: `flush.messages` records or more are not durable. The broker calls `flush()` in
            a pool thread, then `complete_sync`, and answers what waited.
        retention: Record of retention's work here, and of its failures.
        is_shortening: Segments below the log start offset may come back with a power cut: it must be checkpointed.
        rules_config: The settings that appends go by. Those of `config` may be newer for a moment, while an append hangs.
        save_start_offset: Writes the checkpoint of log start offsets; False: it could not be written. The log manager's, as
            `local.save_recovery_point` is.
    """

    __slots__ = (
        "_aborted",
        "_append_time",
        "_append_time_floor",
        "_epoch_is_assigned",
        "_epochs",
        "_flush_messages",
        "_lock",
        "_max_message_bytes",
        "_owed_snapshot",
        "_require_keys",
        "_rolled",
        "_scheduler",
        "_segments",
        "_space",
        "_target",
        "_time",
        "_timestamp_after_max",
        "_timestamp_before_max",
        "converts_batches",
        "high",
        "high_watermark",
        "is_shortening",
        "leader_epoch",
        "local",
        "log_start_offset",
        "name",
        "needs_sync",
        "partition",
        "producers",
        "retention",
        "rules_config",
        "save_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        local: LocalLog,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        *,
        log_start_offset: int,
        scheduler: Scheduler,
        time: Time,
    ) -> None:
        """`topic_id` is None where no file says it. `local` gets this log's hooks, and is nobody else's."""
        assert log_start_offset <= local.log_end_offset
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.name = local.name
        self.local = local
        # The same objects as the local log's: an append and a fetch use them without a way through it.
        self._lock = local.lock
        self._segments = local.segments
        self._space = local.directory.space
        self.producers = producers
        self._epochs = epochs
        self._scheduler = scheduler
        self._time = time
        self.log_start_offset = log_start_offset
        self.high_watermark = local.log_end_offset
        self.high = local.end
        self.needs_sync = False
        self._aborted = AbortedTransactions(local.directory)
        self.leader_epoch = epochs.next_epoch
        self._epoch_is_assigned = False
        self._append_time_floor: int | None = None
        # Base offsets and producer snapshots of rolls whose flush has not ended.
        self._rolled: list[tuple[int, PendingSnapshot | None]] = []
        # Of retention, which had no room for it; under the deletion lock.
        self._owed_snapshot: PendingSnapshot | None = None
        self.retention = RetentionRecord(self.name)
        self.is_shortening = False
        self.save_start_offset: Callable[[], bool] = no_checkpoint
        local.hooks = LogHooks(
            rolled=self._on_roll,
            flush=self._save_epochs,
            close=self._save_at_close,
            mark_deleted=self._mark_snapshot_deleted,
            forget=producers.forget_snapshot,
            leave=self._move_high_watermark_out_of,
        )
        self._configure()

    def __repr__(self) -> str:
        return f"UnifiedLog({self.name}, {self.log_start_offset}..{self.log_end_offset})"

    # --- facts of the files: any thread ---

    @property
    def directory(self) -> str:
        """Path of the partition's directory."""
        return self.local.directory.path

    @property
    def log_directory(self) -> LogDirectory:
        """Directory of the log's files, and its file system: the cleaner writes new files beside them."""
        return self.local.directory

    @property
    def config(self) -> LogConfig:
        return self.local.directory.config

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The present snapshot, oldest first; the last one is active."""
        return self._segments.view

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return self.local.size

    @property
    def log_end_offset(self) -> int:
        return self.local.log_end_offset

    @property
    def recovery_point(self) -> int:
        return self.local.recovery_point

    @property
    def failure(self) -> KafkaStorageError | None:
        """Why the log takes no more appends: a sync failed, or it is closed."""
        return self.local.failure

    @property
    def holes(self) -> tuple[Hole, ...]:
        """Stretches that the log has lost to damage, from the `.damaged` files at its load."""
        return self.local.holes

    @property
    def ledger(self) -> LedgerKeeper:
        return self.local.ledger

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Which leader epoch wrote which offsets; changed by the writer, read by any thread."""
        return self._epochs

    def begin_leader_epoch(self) -> None:
        """Begin a new leader epoch, as after an election: batches get it from now on. Loop thread."""
        with self._lock:
            self.leader_epoch += 1
            self._epoch_is_assigned = False

    # --- producers ---

    @property
    def last_stable_offset(self) -> int:
        high = self.high_watermark  # read before the producers: an append that begins a transaction moves it last
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None or first_unstable > high:
            return high
        return max(first_unstable, self.log_start_offset)  # DeleteRecords may take the beginning of an open transaction

    def last_records_of_producers(self) -> list[tuple[int, int, int]]:
        """Known producers: (producer id, offset of its last data record or -1, epoch). Any thread."""
        with self._lock:
            return [
                (entry.producer_id, entry.last_offset, entry.producer_epoch)
                for entry in self.producers.active_producers()
            ]

    def producer_summaries(self) -> list[ProducerSummary]:
        """One summary for each known producer, as DescribeProducers answers. Any thread."""
        with self._lock:
            return self.producers.summaries()

    def oldest_transaction(self) -> OpenTransaction | None:
        """The open transaction that holds the last stable offset back. Any thread."""
        with self._lock:
            return self.producers.oldest_transaction()

    def remove_expired_producers(self) -> int:
        """Forget producers that have been idle for producer.id.expiration.ms; returns how many. Any thread."""
        with self._lock:
            return self.producers.remove_expired_producers(self._time.milliseconds())

    # --- settings ---

    def update_config(self, config: LogConfig) -> None:
        """Use `config` from the next append on. Loop thread, which does not wait for an append that hangs in its disk: the rules
        change after it then, with the next append, or by the scheduler where none comes."""
        self.local.directory.config = config
        if self._lock.acquire(blocking=False):
            try:
                self._configure()
            finally:
                self._lock.release()
        else:
            self._scheduler.schedule("log-config", self._configure_later, 0)

    def _configure_later(self) -> None:
        with self._lock:
            if self.rules_config is not self.local.directory.config:
                self._configure()

    def _configure(self) -> None:
        config = self.local.directory.config
        self._append_time = config.message_timestamp_type == "LogAppendTime"
        self._require_keys = "compact" in config.cleanup_policy
        self._flush_messages = config.flush_messages
        self._max_message_bytes = config.max_message_bytes
        self._timestamp_before_max = min(config.message_timestamp_before_max_ms, _NO_LIMIT_MS)
        self._timestamp_after_max = min(config.message_timestamp_after_max_ms, _NO_LIMIT_MS)
        target = TargetFormat.of(config)
        self._target = None if target.is_as_it_came else target
        self.converts_batches = target.magic < MAGIC_V2
        # Last: `prepare` and `check_batch`, in other threads, read it before the rules, so it is never newer than they are.
        self.rules_config = config
        self.local.forget_roll_limits()

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
        now: int = -1,
    ) -> LogAppendInfo:
        """Append the one batch in buffer[start:end]: validated, and its offsets, epoch and times assigned in place. `now`: what
        the log's clock says, in ms, where the caller has just looked.

        One whose records take more than `max_decompressed` bytes is a RecordTooLargeError; one that takes so long to decompress
        that `is_due` becomes true an OutOfTimeError. See `check_batch` for those.
        Raises RecordTooLargeError, InvalidTimestampError, InvalidRecordError, CorruptRecordError … (protocol.records), a
        ProducerStateError, KafkaStorageError. Nothing was appended then.
        """
        with self._lock:
            if self.rules_config is not self.local.directory.config:
                self._configure()
            size = end - start
            if size > self._max_message_bytes:
                self.check_size(size)
            if size > self._space.left:
                self._space.check(size, is_client=origin is _CLIENT)
            if now < 0:
                now = self._time.milliseconds()
            append_time = self._next_append_time(now) if self._append_time else NO_TIMESTAMP
            batch = validate_and_assign(
                buffer,
                start,
                end,
                self.local.log_end_offset,
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
                # The broker's own records stay in format 2: their readers know no other, and markers have no older form.
                if self._target.magic < MAGIC_V2 and origin is _CLIENT:
                    records = self._target.converted(data, batch, self._max_message_bytes)
                    return self._write_records(records, now, append_time, size)
                if self._target.recompresses(batch.compression) and not batch.is_control:
                    buffer = self._target.recompressed(data, self._max_message_bytes)
                    start, end = 0, len(buffer)
                    batch = read_header(buffer, 0, end)
            return self._append_validated(buffer, start, end, batch, origin, now, append_time, size)

    def check_size(self, size: int) -> None:
        """Refuse a batch of so many bytes if its size alone is too much: RecordTooLargeError. Any thread."""
        if size > self._max_message_bytes and size > MARKER_BATCH_SIZE:
            raise RecordTooLargeError(
                f"{self.name}: a batch of {size} bytes, max.message.bytes is {self._max_message_bytes}"
            )

    def append_message_set(self, buffer: Buffer, start: int, end: int) -> LogAppendInfo:
        """Append the messages of format 0 or 1 in buffer[start:end], as produce requests before version 3 bring them:
        plain ones, or one wrapper. They are stored in the topic's format; the buffer stays as it is. Loop thread.

        Raises as `append_as_leader`. Nothing was appended then.
        """
        with self._lock:
            if self.rules_config is not self.local.directory.config:
                self._configure()
            if end - start > self._space.left:
                self._space.check(end - start, is_client=True)
            now = self._time.milliseconds()
            append_time = self._next_append_time(now) if self._append_time else NO_TIMESTAMP
            return self._write_records(
                self._made_ready(buffer, start, end, now, append_time), now, append_time, end - start
            )

    def _append_validated(
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
        """Write a batch that is validated and has its offsets, unless its producer has sent it before. Under the lock."""
        if batch.producer_id >= 0:
            if batch.is_control:
                return self._append_marker(memoryview(buffer)[start:end], batch, origin, now)
            try:
                duplicate = self.producers.check(batch, origin)
            except OutOfOrderSequenceError:
                if not self._recalls_batches_of(batch.producer_id):
                    raise
                duplicate = self.producers.check(batch, origin)
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

    def _recalls_batches_of(self, producer_id: int) -> bool:
        """Looks for batches of a producer that a snapshot has forgotten; True if there are. Once for each producer and load of
        the log. Under the lock; reads from the disk."""
        entry = self.producers.entry(producer_id)
        if entry is None or not entry.is_of_snapshot:
            return False
        from ..producers.earlier_batches import earlier_batches

        earlier = earlier_batches(self._segments.view, entry)
        entry.is_of_snapshot = False
        entry.remember(earlier)
        return bool(earlier)

    def _append_marker(self, data: memoryview, batch: BatchInfo, origin: AppendOrigin, now: int) -> LogAppendInfo:
        """Append the control batch that ends a producer's transaction. Under the lock.

        An abort is in the transaction index before its marker is in the log, and the last stable offset moves after both: no
        reader gets past the transaction's records without being told of it. A crash between the two leaves an entry too many
        in the active segment's index, which recovery makes anew.
        """
        producers, offset = self.producers, batch.base_offset
        marker = marker_of(data)
        producers.check_marker(batch.producer_id, batch.producer_epoch, marker, origin)
        completed = producers.completed_by(batch.producer_id, marker, offset)
        if completed is None or not completed.is_aborted:
            self._write(data, batch, now)
        else:
            self.local.roll_if_due(len(data), batch.max_timestamp, offset, now)
            aborted = AbortedTxn(*completed[:3], producers.last_stable_offset(completed))
            with self._aborted.noted(self._segments.view[-1].base_offset, aborted):
                self.local.directory_is_dirty = True  # the file may be new
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
        end = self.local.append(
            data,
            batch.base_offset,
            batch.last_offset,
            batch.max_timestamp,
            now,
            offset_of_max_timestamp,
            stand_alone,
        )
        if batch.producer_id >= 0 and not batch.attributes & CONTROL_MASK:  # type: ignore[union-attr]  # only a batch has one
            self.producers.update(batch)  # type: ignore[arg-type]
        if not self._epoch_is_assigned and batch.magic >= MAGIC_V2:  # older messages carry no epoch
            self._epoch_is_assigned = True
            self._epochs.assign(self.leader_epoch, batch.base_offset)
            self._scheduler.schedule("leader-epoch-checkpoint", self._epochs.flush, 0)
        if not self.needs_sync:
            if end.offset - self.local.recovery_point >= self._flush_messages:
                self.needs_sync = True
            else:
                self.high = end
                self.high_watermark = end.offset

    # --- append in two steps ---
    #
    #   prepare, append_prepared       what has to be converted: the long step in any thread, then an append as quick as any other
    #   check_batch, append_checked    the same for a batch of format 2 whose records are long to look at, being compressed
    #
    # `prepare` makes records for the end of the log as it is then; `append_prepared` moves them to where it is by then.

    def prepare(self, buffer: Buffer, start: int, end: int) -> PreparedRecords:
        """Convert a message set, or a batch that is not in the topic's format, to records that `append_prepared` can append.
        Any thread; takes long. The buffer stays as it is. Raises as `append_message_set`.
        """
        config = self.rules_config  # first: see `_configure`
        now = self._time.milliseconds()
        append_time = now if self._append_time else NO_TIMESTAMP
        return PreparedRecords(self._made_ready(buffer, start, end, now, append_time), config, append_time, end - start)

    def append_prepared(self, prepared: PreparedRecords) -> LogAppendInfo | None:
        """Append what `prepare` gave. None: since then settings have changed, or the log has grown and this is of the one
        kind that can't be moved (see `validator.moved`), so that it has to be prepared anew. Loop thread.
        """
        with self._lock:
            if self.rules_config is not self.local.directory.config:
                self._configure()
            if prepared.config is not self.rules_config:
                return None
            if prepared.size > self._space.left:
                self._space.check(prepared.size, is_client=True)
            append_time = self._next_append_time(prepared.append_time) if self._append_time else NO_TIMESTAMP
            records = moved(prepared.records, self.local.log_end_offset, append_time)
            if records is None:
                return None
            return self._write_records(records, self._time.milliseconds(), append_time, prepared.size)

    def check_batch(self, buffer: Buffer, start: int, end: int) -> CheckedBatch:
        """All checks of the client's batch of format 2 in buffer[start:end] but for its producer's, and the topic's codec, for
        a topic that keeps that format. Any thread; may take long. The buffer stays as it is. Raises as `append_as_leader`.
        """
        config = self.rules_config  # first: see `_configure`
        now = self._time.milliseconds()
        append_time = now if self._append_time else NO_TIMESTAMP
        return checked_batch(buffer, start, end, config, self._target, self._rules(now, append_time))

    def append_checked(self, checked: CheckedBatch) -> LogAppendInfo | None:
        """Append what `check_batch` gave, as quickly as a batch that is not compressed. None: since then settings have
        changed, so that it has to be checked anew. Loop thread. Raises as `append_as_leader`.
        """
        with self._lock:
            if self.rules_config is not self.local.directory.config:
                self._configure()
            if checked.config is not self.rules_config:
                return None
            if checked.size > self._space.left:
                self._space.check(checked.size, is_client=True)
            append_time = self._next_append_time(checked.append_time) if self._append_time else NO_TIMESTAMP
            data = checked.data
            place_batch(data, self.local.log_end_offset, self.leader_epoch, append_time)
            batch = read_header(data, 0, len(data))
            now = self._time.milliseconds()
            return self._append_validated(data, 0, len(data), batch, _CLIENT, now, append_time, checked.size)

    def _made_ready(self, buffer: Buffer, start: int, end: int, now: int, append_time: int) -> ValidatedRecords:
        """Check a message set and convert it to the topic's format, with offsets from the present end of the log on."""
        target = self._target or TargetFormat(MAGIC_V2, None)
        return make_ready(buffer, start, end, target, self._rules(now, append_time))

    def _rules(self, now: int, append_time: int) -> AppendRules:
        return AppendRules(
            self.local.log_end_offset,
            self.leader_epoch,
            append_time,
            self._require_keys,
            now - self._timestamp_before_max,
            now + self._timestamp_after_max,
            self._max_message_bytes,
        )

    def _write_records(self, records: ValidatedRecords, now: int, append_time: int, size: int) -> LogAppendInfo:
        """Append converted records, which have no producer. Under the lock. `size`: bytes as they came."""
        self._write(records.data, records, now, records.offset_of_max_timestamp, records.stand_alone)
        return LogAppendInfo(
            records.base_offset,
            records.last_offset,
            append_time,
            self.log_start_offset,
            records.record_count,
            size,
            False,
        )

    # --- read: any thread ---

    def read(
        self, offset: int, max_bytes: int, *, limit_offset: int | None = None, min_one_message: bool = True
    ) -> FetchDataInfo:
        """A slice of the file from the batch that holds `offset` on, up to `limit_offset` (default: the high watermark).

        About `max_bytes`, cut anywhere, but the whole first batch when `min_one_message` (else nothing if it is larger).
        Empty only when there is no record in [offset, limit): gaps are walked over, into later segments too. The caller
        releases it. OffsetOutOfRangeError outside [logStartOffset, logEndOffset]; KafkaStorageError when the disk fails.
        """
        high = self.high
        if limit_offset is None or limit_offset == high.offset:
            limit = high
        else:
            end = self.local.end
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
        if offset < self.log_start_offset or (offset > limit.offset and offset > self.local.log_end_offset):
            raise OffsetOutOfRangeError(
                f"{self.name}: offset {offset} is not within {self.log_start_offset}..{self.local.log_end_offset}"
            )
        return FetchDataInfo(offset, None, 0, 0)

    def read_committed(
        self, offset: int, max_bytes: int, *, limit_offset: int, min_one_message: bool = True
    ) -> tuple[FetchDataInfo, list[AbortedTxn]]:
        """`read`, and the aborted transactions that a read_committed consumer must be told of with it. Raises as both do.

        Both are of one list of segments: retention and passes of the cleaner take the indexes with the segments, in threads of
        their own, and then nobody can say what of a slice was aborted. It is read again from what there is now, a few times:
        then it is KafkaStorageError, which clients try again after. A slice that would have more than `MOST_ABORTED` of them is
        made smaller, down to a batch.
        """
        most: int | None = MOST_ABORTED
        tries = size = 0
        while tries < _TRIES:
            view = self._segments.view
            info = self.read(offset, max_bytes, limit_offset=limit_offset, min_one_message=min_one_message)
            try:
                aborted = self.aborted_transactions(offset, info, most)
            except KafkaStorageError:
                info.release()
                if self._segments.view is view:
                    raise
                tries += 1
                continue
            except BaseException:
                info.release()
                raise
            is_one_view = self._segments.view is view
            if is_one_view and (most is None or len(aborted) <= most):
                return info, aborted
            info.release()
            if is_one_view:
                if info.size == size:  # a batch
                    most = None
                size, max_bytes, min_one_message = info.size, max(1, info.size // 2), True
            else:
                tries += 1
        raise KafkaStorageError(f"{self.name}: segments were replaced faster than they are read, {_TRIES} times")

    @property
    def aborted_are_loaded(self) -> bool:
        """True if `aborted_transactions` needs no file but the active segment's. Never blocks."""
        return self._aborted.is_loaded(self._segments.view)

    def has_none_aborted_from(self, offset: int) -> bool:
        """True if it is known that no aborted transaction ends at `offset` or later: `aborted_transactions` would find none.
        Raises as that does."""
        try:
            return self._aborted.are_none_from(self._segments.view, offset)
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: reading aborted transactions failed: {error}") from error

    def load_aborted(self) -> None:
        """Read the transaction indexes that `aborted_transactions` needs. Pool threads; blocks. OSError, CorruptIndexError."""
        self._aborted.load(self._segments.view)

    def aborted_transactions(self, offset: int, info: FetchDataInfo, most: int | None = None) -> list[AbortedTxn]:
        """Aborted transactions that a read_committed consumer must be told of with `info`, from `read(offset)`. Loop thread.
        Where there are more than `most`, one more than that.

        Reads small files. KafkaStorageError when the disk fails, CorruptIndexError when an index can't be trusted.
        """
        try:
            return self._aborted.overlapping(self._segments.view, offset, info, most)
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
        """Ask a snapshot of the segments, and the next one if retention or truncation took its files meanwhile."""
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
        return self._epochs.end_offset_for(epoch, self.local.log_end_offset)

    # --- sync ---

    def flush(self) -> int:
        """Make all that is appended now durable; returns the offset up to which it is. See `LocalLog.flush`."""
        return self.local.flush()

    def complete_sync(self, offset: int) -> bool:
        """Let the high watermark follow a flush that has answered `offset`. Any thread; waits for an append under way.

        Returns needs_sync: True when again flush.messages records or more came in the meantime; the high watermark is at the
        synced offset then, and the broker calls `flush()` again.
        """
        with self._lock:
            end, synced = self.local.end, self.local.synced
            self.needs_sync = end.offset - min(offset, end.offset) >= self._flush_messages
            if not self.needs_sync:
                high = end
            elif synced.offset == offset:
                high = synced
            else:
                high = log_reader.locate(self._segments.view, min(offset, end.offset))
            if high.offset > self.high_watermark:
                self.high = high
                self.high_watermark = high.offset
                self.producers.on_high_watermark_updated(high.offset)
            return self.needs_sync

    # --- the start of the log ---

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the start up for DeleteRecords: nothing below `offset` can be read; its segments go with the next retention run.

        False when the log starts there or later already. OffsetOutOfRangeError above the high watermark. Loop thread.
        """
        with self._lock:
            if offset > self.high_watermark:
                raise OffsetOutOfRangeError(
                    f"{self.name}: can't delete up to {offset}, above the high watermark {self.high_watermark}"
                )
            if offset <= self.log_start_offset:
                return False
            self.raise_log_start_offset(offset)
            return True

    def raise_log_start_offset(self, offset: int) -> None:
        """Move the start up to `offset`, unless it is there: DeleteRecords, and retention's executor. Under the lock."""
        assert offset <= self.high_watermark
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)

    def delete_old_segments(self) -> list[SegmentDeletion]:
        """Apply retention now; returns what went and why. Pool threads: files are renamed, and opened to learn their age."""
        return retention_executor.delete_old_segments(self, self._time)

    def retention_outlook(self, now_ms: int) -> RetentionOutlook:
        """Foretell what retention would delete now, and when it will next, from memory alone. Any thread; reads no file."""
        view, end = self._segments.view, self.local.log_end_offset
        ends = [*(segment.base_offset for segment in view[1:]), end]
        last = len(view) - 1
        known = (
            KnownSegment(next_base, segment.size, segment.known_largest_timestamp, number == last)
            for number, (segment, next_base) in enumerate(zip(view, ends, strict=True))
        )
        return outlook(
            known,
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )

    # --- the end of the log ---

    def truncate_to(self, offset: int) -> bool:
        """Remove all records from `offset` on (the whole batch that holds it). Loop thread, no flush or append meanwhile.

        False when the log ends there or before. KafkaStorageError: nothing was removed, or (`failure` is set then) no more than
        a part: the next start tells what.
        """
        local = self.local
        with local.deletion_lock, local.flush_lock, local.lock:
            if offset >= local.log_end_offset:
                return False
            local.lower_recovery_point(offset)
            local.ledger.open(local.extents)
            if offset < self._segments.view[0].base_offset:
                self._start_at(offset)
                return True
            self._end_at(local.cut(offset))
            local.cut_ledger()
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next record gets `offset`. Loop thread."""
        local = self.local
        with local.deletion_lock, local.flush_lock, local.lock:
            local.lower_recovery_point(0)
            self._start_at(offset)

    def _start_at(self, offset: int) -> None:
        end = self.local.start_over(offset)
        self.log_start_offset = offset
        self.high = end
        self._end_at(end)
        self.local.ledger.start_anew(offset)

    def _end_at(self, end: LogOffsetMetadata) -> None:
        """Bring down all that must not pass the end: watermarks first, then the end itself, then epochs and producers."""
        self.log_start_offset = min(self.log_start_offset, end.offset)
        if self.high.offset >= end.offset or self.high.segment_base_offset > end.segment_base_offset:
            self.high = end
        self.high_watermark = self.high.offset
        local = self.local
        local.end_at(end)
        self.needs_sync = self.needs_sync and end.offset - local.recovery_point >= self._flush_messages
        self._epoch_is_assigned = False
        self._epochs.truncate_from_end(end.offset)
        # The known value may be of batches that are gone: it is read anew, also if the last roll was exactly at the new end.
        self.producers.update_map_end_offset(-1)
        replay = ProducerReplay(local.directory, self.producers, self._time)
        replay.catch_up(self._segments.view, self.log_start_offset, end.offset)
        self.producers.on_high_watermark_updated(self.high_watermark)

    # --- segments ---

    def roll(self) -> LogSegment:
        """Begin a new active segment now, unless the active one is empty. Returns the active one. Any thread."""
        return self.local.roll()

    def replace_segments(
        self,
        new: Sequence[CleanedSegment],
        old: Sequence[LogSegment],
        removed: Mapping[str, int] | None = None,
        *,
        truncations: int = 0,
    ) -> bool:
        """Put cleaned segments in the place of those they were made from. See `LocalLog.replace_segments`."""
        try:
            self._aborted.pin(old)
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: reading aborted transactions failed: {error}") from error
        done = False
        try:
            done = self.local.replace_segments(new, old, removed, truncations=truncations)
            return done
        finally:
            self._aborted.replaced()
            if not done and self.local.failure is None:  # the files have kept their names
                self._aborted.unpin()

    # --- what the files call: see `LogHooks` ---

    def _on_roll(self, base_offset: int) -> None:
        self.producers.update_map_end_offset(base_offset)
        self._rolled.append((base_offset, self.producers.prepare_snapshot()))
        if len(self._rolled) == 1:
            self._scheduler.schedule("flush-log", self.flush_rolled, 0)
        if self.high.offset == base_offset:
            self.high = self.local.end

    def flush_rolled(self) -> None:
        """Make all segments that were rolled until now durable, then their producer snapshots; returns when they are, whoever has
        begun it. Pool threads; blocks. KafkaStorageError, and OSError of the snapshots.

        One call for all of them: a disk that is slower than the rolls gets no queue of tasks.
        """
        with self._lock:
            rolled = tuple(self._rolled)
        if not rolled:
            return
        snapshots = [snapshot for _, snapshot in rolled if snapshot is not None]
        try:
            try:
                self.local.flush(rolled[-1][0])
            except KafkaStorageError:
                # Else a clean stop at one of these offsets would write none: after the next start no producer would be known.
                for snapshot in snapshots:
                    self.producers.withdraw_snapshot(snapshot)
                raise
            # A snapshot says to a start that the indexes before it are durable.
            whole = self.local.first_unfinished(rolled[-1][0])
            for snapshot in snapshots:
                if snapshot.offset > whole:
                    self.producers.withdraw_snapshot(snapshot)
            with self.local.flush_lock:  # not while the log is abandoned: its directory may be a successor's
                if self.local.failure is None:
                    self.producers.write_snapshots([snapshot for snapshot in snapshots if snapshot.offset <= whole])
        finally:
            with self._lock:
                done = set(map(id, rolled))
                self._rolled = [each for each in self._rolled if id(each) not in done]
                if self._rolled:  # meanwhile
                    self._scheduler.schedule("flush-log", self.flush_rolled, 0)

    def keep_snapshot_at(self, offset: int) -> None:
        """Make the snapshot of producers at the base of a segment where there is none: a full disk had no room for it, a kill
        came before it, or it was damaged. What lies before it is about to go. Under the deletion lock; blocks, as long as a walk
        over the headers behind the snapshot before takes. OSError."""
        producers, directory = self.producers, self.local.directory
        written = producers.written_snapshots
        if offset in written or not len(producers):
            return
        first = self._segments.view[0].base_offset
        made = ProducerStateManager(
            directory.path,
            directory.file_system,
            self._time,
            producer_id_expiration_ms=producers.producer_id_expiration_ms,
        )
        before = [at for at in written if first <= at < offset]
        below = [segment for segment in self._segments.view if segment.base_offset < offset]
        replay, owed = ProducerReplay(directory, made, self._time), self._owed_snapshot
        if owed is not None and max((first, *before)) <= owed.offset <= offset:
            made.load(owed)  # of what has gone in passes before nothing else tells
            replay.advance(below, offset)
        else:
            made.found_snapshots(before)
            replay.catch_up(below, first, offset)
        if not made.is_empty and (pending := made.prepare_snapshot()) is not None:
            self._owed_snapshot = pending
            self.write_owed_snapshot()

    def write_owed_snapshot(self) -> None:
        """Write the snapshot for which there was no room when retention took what lies before it, unless a later one tells of
        the producers since, or its segment has gone too. Under the deletion lock; blocks. OSError: it is still owed."""
        owed = self._owed_snapshot
        if owed is None:
            return
        bases = {segment.base_offset for segment in self._segments.view}
        is_told = any(at >= owed.offset for at in self.producers.written_snapshots & bases)
        if not is_told and owed.offset in bases:
            self.producers.add_snapshot(owed)
            with self.local.flush_lock:  # not while the log is abandoned: its directory may be a successor's
                if self.local.failure is None:
                    self.producers.write_snapshots([owed])
        self._owed_snapshot = None

    def _save_epochs(self) -> None:
        """Write the epochs after their records, which may never get to the disk, and before the recovery point moves: recovery
        finds epochs anew only in what it reads. A full disk fails the flush alone: KafkaStorageError."""
        try:
            self._epochs.flush()
        except OSError as error:
            if not has_no_room(error):
                raise
            raise KafkaStorageError(f"{self.name}: no room to write the leader epochs") from error

    def _save_at_close(self) -> None:
        self.producers.update_map_end_offset(self.local.log_end_offset)
        self.producers.take_snapshot()
        self._epochs.flush()

    def _mark_snapshot_deleted(self, offset: int) -> list[str]:
        """Rename the producer snapshot at a deleted segment's base offset; a later roll may write another one there."""
        if not self.producers.forget_snapshot(offset):
            return []
        path = self.producers.snapshot_path(offset)
        try:
            self.local.directory.file_system.rename(path, path + DELETED_STAGE)
        except FileNotFoundError:  # it was not written yet, and now will not be
            return []
        return [path + DELETED_STAGE]

    def _move_high_watermark_out_of(self, end: int) -> None:
        assert end <= self.high_watermark
        if self.high.segment_base_offset < end:
            self.high = log_reader.locate(self._segments.view, self.high.offset)

    # --- the end of its life, and a move to another data directory ---

    def close(self) -> None:
        """Stop cleanly: see `LocalLog.close`. Nobody appends or flushes any more. Blocks; KafkaStorageError."""
        self.local.close()

    def abandon(self) -> None:
        """Close all files as they are: the log is deleted, or the daemon ends. Reads under way go on."""
        self._epochs.abandon()
        self.local.abandon()

    def seal(self) -> None:
        """Write to its files what the log has in memory alone, as a clean stop does. While `local` stands still; OSError."""
        self._epochs.flush()
        self._segments.active.close()

    def moved_to(self, place: LogPlace) -> None:
        """Work with the files in `place`: see `LocalLog.moved_to`. While `local` stands still."""
        self.producers.directory = place.path
        self._epochs.moved_to(f"{place.path}/{LEADER_EPOCH_CHECKPOINT}")
        self._scheduler = place.scheduler
        self._space = place.space
        self.save_start_offset = place.save_start_offset
        self.local.moved_to(place)  # last: it closes files, which a disk may fail
