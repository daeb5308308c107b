"""Walker: the two walks of a pass. Segments are read and `.cleaned` files written; nothing else is touched, nothing is decided.

    build    walk the dirty part; key → its last offset goes into the offset map, until the part ends or the map is full
    filter   walk the log from its start to where the map ends, group by group; what survives goes to `.cleaned` files

A `WalkPlan` says what to walk over; a `WalkHost` is asked between chunks whether to go on, is told each result, and does what
is to be done with it: it alone knows the log. So a walk may run in the cleaner's thread (`Walker.walk`) or in a process of its
own (`process/`), with the same steps and the same files: see ADR 89.

Memory: the offset map, one buffer to read into and one to write from. The two grow for a batch that is larger than they are,
whatever max.message.bytes says by now, and shrink again with the segment's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..protocol.records.exceptions import CorruptRecordError
from ..storage.segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from .aborted_transactions import AbortedTransactions
from .cleaned_writer import MAX_SEGMENT_BYTES, CleanedWriter, SegmentSizes, group_segments
from .exceptions import CleaningAborted
from .kernel import mixed_formats
from .kernel._kernel import RecordFilter, Transactions, check_offsets
from .kernel.mixed_formats import MixedFilter
from .kernel.results import FilterCounts, Stop

if TYPE_CHECKING:
    from ..storage.index.transaction_index import AbortedTxn
    from ..storage.io.filesystem import File, FileSystem
    from ..storage.segment.swap import CleanedSegment
    from .kernel._kernel import OffsetMap

MIN_BUFFER_BYTES = 64 << 10


class SegmentPart(NamedTuple):
    """A closed segment as it was when the pass began. `size` in bytes; `end_offset` is the next segment's base offset."""

    base_offset: int
    size: int
    end_offset: int


class WalkPlan(NamedTuple):
    """The part of a log that a pass goes over, and the settings that it goes by. Values only: a process can be given it."""

    name: str
    path: str
    """The log's directory, for messages: a process has a descriptor of it."""
    segments: Sequence[SegmentPart]
    """Closed segments from the log's first one to the one that holds the last cleanable offset."""
    first_dirty: int
    first_uncleanable: int
    first_position: int
    """Position in bytes of the batch with the first dirty offset, in the segment that holds it."""
    aborted: Sequence[AbortedTxn]
    """Aborted transactions that begin below `first_uncleanable`."""
    secret: bytes
    started_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int


class BuildReport(NamedTuple):
    """Result of the first walk. `full_at`: offset of the first record that is not in the map, −1 if all are.

    `within_first`: the map was full within the first dirty segment; else `full_at` is a segment's start.
    """

    full_at: int
    within_first: bool
    entries: int
    capacity: int
    utilization: float


class FilterOrder(NamedTuple):
    """What the second walk is to do: facts of the log from after the first one."""

    map_end: int
    """Every record below this offset is in the map."""
    stop: int
    """Number of the first segment that is not filtered."""
    last_offset: int
    """Offset of the last record of them, which stays; −1: there is none."""
    log_start_offset: int
    horizon_ms: int
    """Tombstones of formats 0 and 1 go where the segment's file is not younger than this time."""
    producers: Sequence[tuple[int, int, int]]
    """(producer id, offset of its last record, epoch)."""


class GroupReport(NamedTuple):
    """Result for one group of neighbouring segments: those with numbers from `first` up to `stop`."""

    first: int
    stop: int
    counts: FilterCounts
    new: Sequence[CleanedSegment] | None
    """Segments whose `.cleaned` files take the place of the group's; None: it is a single one, and stays as it is."""
    written_bytes: int


class WalkProgress(Protocol):
    """Counts that a walk raises as it goes."""

    map_bytes: int
    map_records: int
    filtered_bytes: int


class WalkFiles(Protocol):
    """The files of the log."""

    @property
    def path(self) -> str:
        """The log's directory."""

    @property
    def file_system(self) -> FileSystem: ...

    def file(self, base_offset: int, suffix: str, stage: str = "") -> str: ...

    def open_segment(self, number: int) -> File:
        """The log file of a segment of the plan, leased. OSError."""


class WalkHost(Protocol):
    """The pass that a walk is made for. Each method may raise CleaningAborted, and others: the walk ends then."""

    def check(self) -> None:
        """Called before each chunk."""

    def pay(self, count: int) -> None:
        """Called when `count` bytes were read or written. Waits for the throttle."""

    def built(self, report: BuildReport) -> FilterOrder | None:
        """Called when the map is filled; returns what to filter, None for nothing."""

    def finished(self, report: GroupReport) -> None:
        """Called when a group's `.cleaned` files are complete, or are not needed."""


class Walker:
    """Offset map and buffers, reused from pass to pass. Used by one thread.

    Attributes:
        input, output: the two buffers; a batch that is larger makes them grow until its pass ends.
    """

    def __init__(self, offset_map: OffsetMap, *, buffer_bytes: int, max_segment_bytes: int = MAX_SEGMENT_BYTES) -> None:
        """Each of the two buffers has `buffer_bytes`, or 64 KiB if that is more."""
        self.offset_map = offset_map
        self.buffer_bytes = max(buffer_bytes, MIN_BUFFER_BYTES)
        self.max_segment_bytes = max_segment_bytes
        self.input = bytearray(self.buffer_bytes)
        self.output = bytearray(self.buffer_bytes)

    def walk(self, plan: WalkPlan, files: WalkFiles, host: WalkHost, progress: WalkProgress) -> None:
        """Make both walks in this thread. Blocks. What `host` raises; CleaningError, RecordError, StorageError, OSError: it
        can't be done, and no `.cleaned` file is left but where removing it failed.
        """
        try:
            _Walk(self, plan, files, host, progress).run()
        finally:
            self.offset_map.release()
            self.restore_buffers()

    def rest(self) -> None:
        """Nothing is held between passes but the buffers."""

    def close(self) -> None:
        """Nothing to end."""

    def grow_input(self, needed: int) -> bytearray:
        """A new input buffer of at least `needed` bytes."""
        self.input = bytearray(max(needed, len(self.input)))
        return self.input

    def grow_output(self, needed: int) -> bytearray:
        """A new output buffer of at least `needed` bytes."""
        self.output = bytearray(max(needed, len(self.output)))
        return self.output

    def restore_buffers(self) -> None:
        """Give back what the buffers have grown by."""
        if len(self.input) != self.buffer_bytes:
            self.input = bytearray(self.buffer_bytes)
        if len(self.output) != self.buffer_bytes:
            self.output = bytearray(self.buffer_bytes)


class _Walk:
    """The state of one."""

    def __init__(
        self, walker: Walker, plan: WalkPlan, files: WalkFiles, host: WalkHost, progress: WalkProgress
    ) -> None:
        self.walker = walker
        self.plan = plan
        self.files = files
        self.host = host
        self._progress = progress
        self._map = walker.offset_map

    def run(self) -> None:
        aborted = AbortedTransactions(self.plan.aborted)
        transactions = Transactions(aborted.keys())
        order = self.host.built(self._build(transactions))
        if order is not None:
            self._filter(order, transactions, aborted)

    # --- first walk ---

    def _build(self, transactions: Transactions) -> BuildReport:
        """Fill the map."""
        plan = self.plan
        first = plan.first_dirty
        self._map.reset(plan.secret, max(0, plan.first_uncleanable - first))
        full_at = -1
        is_first = True
        for number, segment in enumerate(plan.segments):
            if segment.end_offset <= first or segment.size == 0:
                continue
            full_at = self._build_segment(number, segment, transactions)
            if full_at >= 0:
                if not is_first:
                    # The map covers whole segments only, so that the checkpoint falls on a segment's start.
                    full_at = max(first, segment.base_offset)
                break
            is_first = False
        return BuildReport(full_at, is_first, self._map.entries, self._map.capacity, self._map.utilization)

    def _build_segment(self, number: int, segment: SegmentPart, transactions: Transactions) -> int:
        """Offset of the first record that did not fit into the map; -1 if all did."""
        first, end, progress = self.plan.first_dirty, self.plan.first_uncleanable, self._progress
        size = segment.size
        position = self.plan.first_position if first > segment.base_offset else 0
        lowest = segment.base_offset
        file = self.files.open_segment(number)
        try:
            buffer = self.walker.input
            while position < size:
                self.host.check()
                length = self.read(file, buffer, position, size)
                lowest = check_offsets(buffer, 0, length, lowest, segment.end_offset)
                step = mixed_formats.build(self._map, buffer, 0, length, first, end, transactions)
                position += step.consumed
                progress.map_bytes += step.consumed
                progress.map_records += step.records
                self.pay(step.consumed)
                if step.stopped is Stop.MAP_FULL:
                    return step.full_at
                if step.stopped is Stop.END:
                    break
                if step.consumed == 0:
                    buffer = self.walker.grow_input(self._needed(step.needed, length, size - position, file, position))
        finally:
            file.release()
            self.walker.restore_buffers()
        return -1

    # --- second walk ---

    def _filter(self, order: FilterOrder, transactions: Transactions, aborted: AbortedTransactions) -> None:
        plan = self.plan
        segments = plan.segments[: order.stop]
        record_filter = MixedFilter(
            RecordFilter(
                self._map,
                order.map_end,
                transactions,
                plan.started_ms,
                plan.delete_retention_ms,
                keep_last_offset=order.last_offset,
                producers=order.producers,
                log_start_offset=order.log_start_offset,
            ),
            self._map,
            order.map_end,
            keep_last_offset=order.last_offset,
            log_start_offset=order.log_start_offset,
        )
        sizes = [SegmentSizes(s.base_offset, s.size, *self._index_sizes(s)) for s in segments]
        groups = group_segments(
            sizes, segments[-1].end_offset, max_bytes=plan.segment_bytes, max_index_bytes=plan.segment_index_bytes
        )
        for group in groups:
            self._filter_group(group, record_filter, order.horizon_ms, transactions, aborted)

    def _index_sizes(self, segment: SegmentPart) -> tuple[int, int]:
        sizes = []
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            try:
                sizes.append(self.files.file_system.stat(self.files.file(segment.base_offset, suffix)).size)
            except FileNotFoundError:
                sizes.append(0)
        return sizes[0], sizes[1]

    def _modified_ms(self, segment: SegmentPart) -> int:
        return self.files.file_system.stat(self.files.file(segment.base_offset, LOG_SUFFIX)).modified_ms

    def _filter_group(
        self,
        group: range,
        record_filter: MixedFilter,
        horizon_ms: int,
        transactions: Transactions,
        aborted: AbortedTransactions,
    ) -> None:
        modified_ms = self._modified_ms(self.plan.segments[group[-1]])
        output = _GroupOutput(self, group)
        try:
            for number in group:
                segment = self.plan.segments[number]
                record_filter.retain_deletes = self._modified_ms(segment) > horizon_ms
                self._filter_segment(number, segment, record_filter, output)
            counts = record_filter.take_counts()
            kept_aborts = transactions.take_kept_aborts()
            new: Sequence[CleanedSegment] | None = None
            written_bytes = 0
            if not output.is_unchanged:
                new = output.writer().finish(modified_ms, aborted, kept_aborts, counts.records_kept)
                written_bytes = output.writer().written_bytes
            self.host.finished(GroupReport(group.start, group.stop, counts, new, written_bytes))
        except BaseException:
            output.discard()
            raise

    def _filter_segment(
        self, number: int, segment: SegmentPart, record_filter: MixedFilter, output: _GroupOutput
    ) -> None:
        size, position, lowest, walker = segment.size, 0, segment.base_offset, self.walker
        file = self.files.open_segment(number)
        try:
            buffer = walker.input
            while position < size:
                self.host.check()
                length = self.read(file, buffer, position, size)
                lowest = check_offsets(buffer, 0, length, lowest, segment.end_offset)
                start = 0
                while True:
                    step = record_filter.filter(buffer, start, length, walker.output)
                    if step.produced or step.consumed:
                        output.take(step.consumed, step.produced, walker.output, record_filter)
                    start += step.consumed
                    self._progress.filtered_bytes += step.consumed
                    self.pay(step.consumed)
                    if step.stopped is Stop.INPUT:
                        break
                    if not step.produced and not step.consumed:
                        # Even empty, the output buffer is too small for the next batch.
                        walker.grow_output(max(step.needed, 2 * len(walker.output)))
                    self.host.check()
                position += start
                if start == 0:
                    # Not one whole batch fits into the input buffer.
                    buffer = walker.grow_input(self._needed(step.needed, length, size - position, file, position))
        finally:
            file.release()
            walker.restore_buffers()

    # --- both ---

    def read(self, file: File, buffer: bytearray, position: int, size: int) -> int:
        """Fill `buffer` from `position` on, as far as there are bytes below `size`; how many."""
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

    def pay(self, count: int) -> None:
        """Account for bytes that were moved."""
        if count:
            self.host.pay(count)


class _GroupOutput:
    """Output of one group. A group of one segment is written only once something in it changes.

    So a segment in which nothing is to be removed costs a read and no write, and stays the file that it is.
    """

    def __init__(self, owner: _Walk, group: range) -> None:
        self._owner = owner
        self._group = group
        self._writer: CleanedWriter | None = None
        self._unchanged_bytes = 0
        if len(group) > 1:
            self._open()

    @property
    def is_unchanged(self) -> bool:
        return self._writer is None

    def writer(self) -> CleanedWriter:
        assert self._writer is not None
        return self._writer

    def _open(self) -> CleanedWriter:
        owner = self._owner
        segments = owner.plan.segments
        self._writer = CleanedWriter(
            owner.files,
            segments[self._group[0]].base_offset,
            segments[self._group[-1]].end_offset,
            index_interval_bytes=owner.plan.index_interval_bytes,
            max_bytes=owner.walker.max_segment_bytes,
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
            self._owner.pay(produced)

    def _copy_unchanged(self, writer: CleanedWriter) -> None:
        """Copy what precedes the first change, in chunks of whole batches: the writer takes nothing else."""
        owner, left, position = self._owner, self._unchanged_bytes, 0
        if not left:
            return
        file = owner.files.open_segment(self._group[0])
        try:
            # A buffer of its own: the walker's `input` holds the chunk being filtered, `output` its survivors.
            buffer = bytearray(min(left, owner.walker.buffer_bytes))
            while position < left:
                owner.host.check()
                length = owner.read(file, buffer, position, left)
                whole = whole_batches(buffer, length)
                if whole == 0:
                    buffer = bytearray(min(left - position, 2 * len(buffer)))
                    continue
                with memoryview(buffer)[:whole] as batches:
                    writer.append(batches)
                position += whole
                owner.pay(whole)
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
