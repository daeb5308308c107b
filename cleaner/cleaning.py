"""Cleaner: one pass over one log.

    build    walk the dirty part; key → its last offset goes into the offset map, until the part ends or the map is full
    filter   walk the log from its start to where the map ends, group by group; what survives goes to `.cleaned` files
    swap     each group takes the place of what it was made from as soon as it is complete

A pass that is stopped, or fails, leaves whole groups behind, cleaned or not, and nothing in between: the next one begins
again at the same first dirty offset. Nothing is decided here but what the records say; which log, when and what range is
`eligibility.py`'s, states and threads are `cleaner_manager.py`'s, records are `kernel/_kernel.pyx`'s.

Memory: the offset map, one buffer to read into and one to write from. The two grow for a batch that is larger than they are,
whatever max.message.bytes says by now, and shrink again with the segment's end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..protocol.records.exceptions import CorruptRecordError
from ..storage.ledger.ledger import SegmentExtent
from .aborted_transactions import AbortedTransactions
from .cleaned_writer import MAX_SEGMENT_BYTES, CleanedWriter, SegmentSizes, group_segments
from .exceptions import CleaningAborted, CleaningError
from .kernel import mixed_formats
from .kernel._kernel import OffsetMap, RecordFilter, Transactions, check_offsets
from .kernel.mixed_formats import MixedFilter
from .kernel.results import FilterCounts, Stop
from .removal_counts import removed_by_pass

if TYPE_CHECKING:
    from ..storage.clock import Time
    from ..storage.io.filesystem import File
    from ..storage.log.unified_log import UnifiedLog
    from ..storage.segment.log_segment import LogSegment
    from .throttler import Throttler

logger = logging.getLogger(__name__)

MIN_BUFFER_BYTES = 64 << 10


class PassControl(Protocol):
    """Called between chunks of a pass. Both methods raise CleaningAborted when the pass must end."""

    def check(self) -> None: ...
    def wait(self, milliseconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """The log and the offset range of one pass, as `eligibility.evaluate` chose them."""

    log: UnifiedLog
    first_dirty: int
    first_uncleanable: int
    before_first_swap: Callable[[], None] = lambda: None
    """Called once, before the first segment is replaced. OSError ends the pass."""
    begun: Callable[[PassResult], None] = lambda result: None
    """Called when the pass begins, with the result object that it fills as it goes: any thread may read its numbers."""


@dataclass(slots=True)
class PassResult:
    """Counts and times of one pass. Times in ms."""

    first_dirty: int
    first_uncleanable: int
    started_ms: int
    end_offset: int = -1
    """The new checkpoint: below it, each record was compared with every key of the dirty part."""
    map_was_full: bool = False
    map_entries: int = 0
    map_capacity: int = 0
    map_records: int = 0
    map_bytes: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    """Bytes read by the second walk."""
    filtered_bytes: int = 0
    """As `bytes_read`, but updated with every chunk instead of every group."""
    bytes_written: int = 0
    segments_before: int = 0
    segments_after: int = 0
    segments_unchanged: int = 0
    counts: FilterCounts = field(default_factory=FilterCounts)
    horizons: dict[int, int] = field(default_factory=dict)
    """Base offset of each segment that the pass went over → the earliest horizon in it, where there is one."""
    elapsed_ms: float = 0.0
    throttled_ms: float = 0.0


class Cleaner:
    """Offset map and buffers, reused from pass to pass. Used by one thread.

    Attributes:
        input, output: the two buffers; a batch that is larger makes them grow until its pass ends.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        *,
        buffer_bytes: int,
        throttler: Throttler,
        time: Time,
        secret: Callable[[], bytes],
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
    ) -> None:
        """`secret()` returns 16 random bytes; each of the two buffers has `buffer_bytes`."""
        self.offset_map = offset_map
        self._buffer_bytes = max(buffer_bytes, MIN_BUFFER_BYTES)
        self._throttler = throttler
        self._time = time
        self.secret = secret
        self._max_segment_bytes = max_segment_bytes
        self.input = bytearray(self._buffer_bytes)
        self.output = bytearray(self._buffer_bytes)

    def clean(self, task: CleaningTask, control: PassControl) -> PassResult:
        """Run one pass. Blocks until it ends.

        CleaningAborted: asked to end, or the log has changed under it. CleaningError, RecordError, StorageError, OSError:
        it can't be cleaned; the log is as good as it was.
        """
        cleaning_pass = _Pass(self, task, control)
        try:
            return cleaning_pass.run()
        except FileNotFoundError as error:
            # A pass opens a segment's file only when it gets there, so retention or a truncation may have removed it.
            # If neither has moved the log, the file is missing for another reason, and that is an error of the log.
            is_same_start = task.log.segments[0].base_offset == cleaning_pass.first_base_offset
            if is_same_start and task.log.local.truncations == cleaning_pass.truncations:
                raise
            raise CleaningAborted(f"{task.log.name}: segments were deleted while they were being cleaned") from error
        finally:
            self.offset_map.release()
            self._restore_buffers()

    def grow_input(self, needed: int) -> bytearray:
        """A new input buffer of at least `needed` bytes."""
        self.input = bytearray(max(needed, len(self.input)))
        return self.input

    def grow_output(self, needed: int) -> bytearray:
        """A new output buffer of at least `needed` bytes."""
        self.output = bytearray(max(needed, len(self.output)))
        return self.output

    def _restore_buffers(self) -> None:
        if len(self.input) != self._buffer_bytes:
            self.input = bytearray(self._buffer_bytes)
        if len(self.output) != self._buffer_bytes:
            self.output = bytearray(self._buffer_bytes)


class _Pass:
    """The state of one pass."""

    def __init__(self, cleaner: Cleaner, task: CleaningTask, control: PassControl) -> None:
        self._cleaner = cleaner
        self._task = task
        self._control = control
        self._log = task.log
        # Read before the segments: a truncation in between then voids the pass, instead of going unnoticed.
        self.truncations = task.log.local.truncations
        self._directory = task.log.log_directory
        self._view = task.log.segments
        self._end_at_start = task.log.log_end_offset
        self._map = cleaner.offset_map
        self._swapped = False
        self._result = PassResult(task.first_dirty, task.first_uncleanable, cleaner._time.milliseconds())

    @property
    def first_base_offset(self) -> int:
        """Base offset of the log's first segment when the pass began."""
        return self._view[0].base_offset

    def run(self) -> PassResult:
        result, time, throttler = self._result, self._cleaner._time, self._cleaner._throttler
        begun, waited = time.monotonic_ms(), throttler.waited_ms
        self._task.begun(result)
        closed = [s for s in self._view[:-1] if s.base_offset < self._task.first_uncleanable]
        aborted = AbortedTransactions.of(self._directory, self._view, self._task.first_uncleanable)
        transactions = Transactions(aborted.keys())
        result.end_offset = self._build(closed, transactions)
        self._filter(closed, transactions, aborted)
        result.elapsed_ms = time.monotonic_ms() - begun
        result.throttled_ms = throttler.waited_ms - waited
        return result

    def _ends(self, segments: list[LogSegment]) -> list[int]:
        """End offset of each segment, which is the next one's base offset; `segments` is a prefix of the closed ones."""
        return [self._view[number + 1].base_offset for number in range(len(segments))]

    # --- first walk ---

    def _build(self, closed: list[LogSegment], transactions: Transactions) -> int:
        """Fill the map; returns the offset below which every record is in it."""
        first, end, result = self._task.first_dirty, self._task.first_uncleanable, self._result
        self._map.reset(self._cleaner.secret(), max(0, end - first))
        full_at = -1
        is_first = True
        for segment, segment_end in zip(closed, self._ends(closed), strict=True):
            if segment_end <= first or segment.size == 0:
                continue
            full_at = self._build_segment(segment, segment_end, transactions)
            if full_at >= 0:
                result.map_was_full = True
                if not is_first:
                    # The map covers whole segments only, so that the checkpoint falls on a segment's start.
                    full_at = max(first, segment.base_offset)
                break
            is_first = False
        result.map_entries = self._map.entries
        result.map_capacity = self._map.capacity
        result.map_utilization = self._map.utilization
        if full_at < 0:
            return max(first, end)
        if is_first:
            logger.warning(
                "%s: the keys of offsets %d to %d fill the map of %d entries, less than one segment: the rest is cleaned in "
                "further passes; a larger log.cleaner.dedupe.buffer.size takes fewer",
                self._log.name,
                first,
                full_at,
                self._map.capacity,
            )
        if full_at <= first:
            raise CleaningError(
                f"{self._log.name}: the offset map has no room for one key at offset {first}; "
                "log.cleaner.dedupe.buffer.size is too small"
            )
        return full_at

    def _build_segment(self, segment: LogSegment, segment_end: int, transactions: Transactions) -> int:
        """Offset of the first record that did not fit into the map; -1 if all did."""
        first, end, result = self._task.first_dirty, self._task.first_uncleanable, self._result
        size = segment.size
        position = 0
        if first > segment.base_offset:
            found = segment.find(first, size)
            if found is None:
                return -1
            position = found.position
        lowest = segment.base_offset
        file = segment.lease_file()
        try:
            buffer = self._cleaner.input
            while position < size:
                self._control.check()
                length = self._read(file, buffer, position, size)
                lowest = check_offsets(buffer, 0, length, lowest, segment_end)
                step = mixed_formats.build(self._map, buffer, 0, length, first, end, transactions)
                position += step.consumed
                result.map_bytes += step.consumed
                result.map_records += step.records
                self._pay(step.consumed)
                if step.stopped is Stop.MAP_FULL:
                    return step.full_at
                if step.stopped is Stop.END:
                    break
                if step.consumed == 0:
                    buffer = self._cleaner.grow_input(
                        self._needed(step.needed, length, size - position, file, position)
                    )
        finally:
            file.release()
            self._cleaner._restore_buffers()
        return -1

    # --- second walk ---

    def _filter(self, closed: list[LogSegment], transactions: Transactions, aborted: AbortedTransactions) -> None:
        result, log, config = self._result, self._log, self._log.config
        map_end = result.end_offset
        segments = [segment for segment in closed if segment.base_offset < map_end]
        if not segments:
            return
        ends = self._ends(segments)
        last_offset = next((s.read_next_offset() - 1 for s in reversed(segments) if s.size), -1)
        log_start_offset = log.log_start_offset
        record_filter = MixedFilter(
            RecordFilter(
                self._map,
                map_end,
                transactions,
                result.started_ms,
                config.delete_retention_ms,
                keep_last_offset=last_offset,
                producers=log.last_records_of_producers(),
                log_start_offset=log_start_offset,
            ),
            self._map,
            map_end,
            keep_last_offset=last_offset,
            log_start_offset=log_start_offset,
        )
        # Formats without room for a horizon go by file times: the youngest clean segment is as old as cleaning is.
        clean = [s for s, end in zip(segments, ends, strict=True) if end <= self._task.first_dirty]
        horizon_ms = clean[-1].modified_ms() - config.delete_retention_ms if clean else 0
        sizes = [SegmentSizes(s.base_offset, s.size, *self._index_sizes(s)) for s in segments]
        groups = group_segments(
            sizes, ends[-1], max_bytes=config.segment_bytes, max_index_bytes=config.segment_index_bytes
        )
        for group in groups:
            members = segments[group.start : group.stop]
            self._filter_group(members, ends[group.stop - 1], record_filter, horizon_ms, transactions, aborted)

    def _index_sizes(self, segment: LogSegment) -> tuple[int, int]:
        sizes = []
        for suffix in (".index", ".timeindex"):
            try:
                sizes.append(self._directory.file_system.stat(self._directory.file(segment.base_offset, suffix)).size)
            except FileNotFoundError:
                sizes.append(0)
        return sizes[0], sizes[1]

    def _filter_group(
        self,
        members: list[LogSegment],
        end_offset: int,
        record_filter: MixedFilter,
        horizon_ms: int,
        transactions: Transactions,
        aborted: AbortedTransactions,
    ) -> None:
        result, base_offset = self._result, members[0].base_offset
        modified_ms = members[-1].modified_ms()
        output = _GroupOutput(self, members, end_offset)
        try:
            ends = [*(segment.base_offset for segment in members[1:]), end_offset]
            for segment, segment_end in zip(members, ends, strict=True):
                record_filter.retain_deletes = segment.modified_ms() > horizon_ms
                self._filter_segment(segment, segment_end, record_filter, output)
            counts = record_filter.take_counts()
            kept_aborts = transactions.take_kept_aborts()
            result.segments_before += len(members)
            result.bytes_read += counts.bytes_read
            result.counts = result.counts.plus(counts)
            if counts.earliest_horizon >= 0:
                result.horizons[base_offset] = counts.earliest_horizon
            if output.is_unchanged:
                result.segments_unchanged += 1
                result.segments_after += 1
                self._was_counted(members[0], end_offset, counts.records_read)
                return
            new = output.writer().finish(modified_ms, aborted, kept_aborts, counts.records_kept)
            result.bytes_written += output.writer().written_bytes
            self._control.check()
            if not self._swapped:
                # Order matters: first what supersedes a record is on disk, then the note that this pass has begun to
                # swap, then the first swap. A power cut between any two of them loses no record, and repeats the pass.
                self._swapped = True
                self._make_durable()
                self._task.before_first_swap()
            removed = removed_by_pass(counts).by_cause()
            if not self._log.replace_segments(new, members, removed, truncations=self.truncations):
                self._lost(members, end_offset)
            result.segments_after += len(new)
        except BaseException:
            output.discard()
            raise

    def _was_counted(self, segment: LogSegment, end_offset: int, live: int) -> None:
        """Tell the ledger how many records the unchanged segment holds: a cleaner other than ours may have removed
        some.
        """
        ledger = self._log.ledger.value
        extent = SegmentExtent(segment.base_offset, end_offset, segment.size)
        if ledger is not None and ledger.live_of(extent) != live:
            self._log.local.was_counted(segment, live)

    def _make_durable(self) -> None:
        """Sync the log before a swap. The record that supersedes a removed one, or the marker that decides its
        transaction, may lie in the active segment: a power cut must not take it once the older record is gone.
        KafkaStorageError.
        """
        if self._log.recovery_point < self._end_at_start:
            self._log.flush()

    def _lost(self, members: list[LogSegment], end_offset: int) -> None:
        """Handle `members` missing from the log: fine if retention took all of them, else the pass is void
        (CleaningAborted).
        """
        live = {id(segment) for segment in self._log.segments}
        if self._log.failure is not None or any(id(segment) in live for segment in members):
            raise CleaningAborted(f"{self._log.name}: segments went while they were being cleaned")
        if end_offset > self._log.log_start_offset:
            raise CleaningAborted(f"{self._log.name}: the log was truncated while it was being cleaned")
        self._result.horizons.pop(members[0].base_offset, None)

    def _filter_segment(
        self, segment: LogSegment, segment_end: int, record_filter: MixedFilter, output: _GroupOutput
    ) -> None:
        size, position, lowest = segment.size, 0, segment.base_offset
        file = segment.lease_file()
        try:
            buffer = self._cleaner.input
            while position < size:
                self._control.check()
                length = self._read(file, buffer, position, size)
                lowest = check_offsets(buffer, 0, length, lowest, segment_end)
                start = 0
                while True:
                    step = record_filter.filter(buffer, start, length, self._cleaner.output)
                    if step.produced or step.consumed:
                        output.take(step.consumed, step.produced, self._cleaner.output, record_filter)
                    start += step.consumed
                    self._result.filtered_bytes += step.consumed
                    self._pay(step.consumed)
                    if step.stopped is Stop.INPUT:
                        break
                    if not step.produced and not step.consumed:
                        # Even empty, the output buffer is too small for the next batch.
                        self._cleaner.grow_output(max(step.needed, 2 * len(self._cleaner.output)))
                    self._control.check()
                position += start
                if start == 0:
                    # Not one whole batch fits into the input buffer.
                    buffer = self._cleaner.grow_input(
                        self._needed(step.needed, length, size - position, file, position)
                    )
        finally:
            file.release()
            self._cleaner._restore_buffers()

    # --- both ---

    def _read(self, file: File, buffer: bytearray, position: int, size: int) -> int:
        length = min(len(buffer), size - position)
        got = file.pread_into(memoryview(buffer)[:length], position)
        if got != length:
            raise CleaningAborted(f"{file.path}: {got} bytes at {position} where {length} were: the log was truncated")
        return got

    @staticmethod
    def _needed(needed: int, length: int, left: int, file: File, position: int) -> int:
        """Size of the buffer needed for the batch at `position`, of which `length` bytes were too few.
        CorruptRecordError.
        """
        if length >= left or needed > left:
            raise CorruptRecordError(f"{file.path}: the batch at {position} is cut off")
        return max(needed, 2 * length)

    def _pay(self, count: int) -> None:
        if count:
            self._cleaner._throttler.pay(count, self._control.wait)


class _GroupOutput:
    """Output of one group. A group of one segment is written only once something in it changes.

    So a segment in which nothing is to be removed costs a read and no write, and stays the file that it is.
    """

    def __init__(self, owner: _Pass, members: list[LogSegment], end_offset: int) -> None:
        self._owner = owner
        self._members = members
        self._end_offset = end_offset
        self._writer: CleanedWriter | None = None
        self._unchanged_bytes = 0
        if len(members) > 1:
            self._open()

    @property
    def is_unchanged(self) -> bool:
        return self._writer is None

    def writer(self) -> CleanedWriter:
        assert self._writer is not None
        return self._writer

    def _open(self) -> CleanedWriter:
        owner = self._owner
        self._writer = CleanedWriter(
            owner._directory,
            self._members[0].base_offset,
            self._end_offset,
            max_bytes=owner._cleaner._max_segment_bytes,
        )
        return self._writer

    def take(self, consumed: int, produced: int, output: bytearray, record_filter: MixedFilter) -> None:
        """Take the first `produced` bytes of `output`, made from `consumed` bytes of the input."""
        if self._writer is None:
            counts = record_filter.counts()
            if produced == consumed and counts.batches_copied == counts.batches_read:
                self._unchanged_bytes += consumed
                return
            self._copy_unchanged(self._open())
        if produced:
            with memoryview(output)[:produced] as batches:
                self.writer().append(batches)
            self._owner._pay(produced)

    def _copy_unchanged(self, writer: CleanedWriter) -> None:
        """Copy what precedes the first change, in chunks of whole batches: the writer takes nothing else."""
        owner, left, position = self._owner, self._unchanged_bytes, 0
        if not left:
            return
        file = self._members[0].lease_file()
        try:
            # A buffer of its own: `_input` holds the chunk being filtered, `_output` its survivors.
            buffer = bytearray(min(left, owner._cleaner._buffer_bytes))
            while position < left:
                owner._control.check()
                length = owner._read(file, buffer, position, left)
                whole = whole_batches(buffer, length)
                if whole == 0:
                    buffer = bytearray(min(left - position, 2 * len(buffer)))
                    continue
                with memoryview(buffer)[:whole] as batches:
                    writer.append(batches)
                position += whole
                owner._pay(whole)
        finally:
            file.release()

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()


def whole_batches(buffer: bytearray, length: int) -> int:
    """Number of bytes of buffer[:length] that are whole batches."""
    position = 0
    while length - position >= 12:
        size = 12 + int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        if size <= 12 or position + size > length:
            break
        position += size
    return position
