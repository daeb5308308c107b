"""Checks one segment: every batch and record of its log, and its indexes against the log (see `verify.py`).

The log is walked once. Index entries come in the order of positions and are met on the way, so nothing is kept but what
has not been met: memory does not grow with the segment. The files of indexes are read before the log is opened: the log
is written first, so below a running daemon every entry that was read has its batch.

A daemon writes the active segment's indexes through memory, an entry byte by byte: a reader may meet half of one. So they are
read twice, and looked at as far as both readings agree; of the last entry that is there, what is wrong is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records._kernel import decode_records
from ...protocol.records.attributes import Compression
from ...protocol.records.exceptions import RecordError
from ...protocol.records.legacy_record import iterate_legacy_records, read_legacy_record
from ...protocol.records.record_batch import (
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
)
from ..index.offset_index import OffsetIndex
from ..index.time_index import TimeIndex
from ..index.transaction_index import AbortedTxn, TransactionIndex
from ..segment.batch_walk import Found, Stretch, computed_crc, summed_crc, walk
from ..segment.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Hole,
    file_name,
)
from ..values import MAX_RELATIVE_OFFSET
from .dump_index import explain_offset_index, explain_time_index, explain_transaction_index
from .dump_log import batch_header

if TYPE_CHECKING:
    from ..io.filesystem import FileSystem
    from ..log.leader_epoch import EpochEntry
    from .part import Part
    from .verify_producers import ProducerCheck
    from .verify_report import Report

_INDEX_LIMIT = 1 << 31
_ALL_ATTRIBUTES = 0x7F


class Surroundings(NamedTuple):
    """Facts of the rest of the partition.

    Attributes:
        cleaned_below: gaps below this offset are compaction's; −1: not known, None: the log was never cleaned.
        log_start: what lies below counts no more; None where that is not known.
        recovery_point: bytes of batches below it were flushed.
        is_stopped: after a clean stop nothing is unfinished.
        epochs: of the leader epoch checkpoint, None when it can't be used.
        holes: what `.damaged` files say is missing.
        largest_whole: bytes of a batch of format 2 that is read whole, None for as much as there is memory for. Of larger ones
            the checksum is made block by block, and no records are looked at.
    """

    cleaned_below: int | None
    log_start: int | None
    recovery_point: int
    is_stopped: bool
    epochs: tuple[EpochEntry, ...] | None
    holes: tuple[Hole, ...] = ()
    largest_whole: int | None = None


class SegmentCheck:
    """Check of one segment; call `run` once. Blocks; one thread.

    Attributes:
        end_offset, first_offset, size: known after `run`.
        live: its records, None where not all of it can be read.
    """

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        around: Surroundings,
        producers: ProducerCheck,
        report: Report,
        *,
        is_active: bool,
        last_leader_epoch: int = -1,
        on_progress: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        self._fs = file_system
        self._directory = directory
        self._base_offset = base_offset
        self._around = around
        self._producers = producers
        self._report = report
        self._is_active = is_active
        self._on_progress = on_progress
        self.log_path = self._path(LOG_SUFFIX)
        self.end_offset = base_offset
        self.first_offset: int | None = None
        self.size = 0
        self.live: int | None = 0
        self.last_leader_epoch = last_leader_epoch
        self._max_timestamp = NO_TIMESTAMP
        self._is_written = is_active and not around.is_stopped
        self._newest: dict[str, int] = {}  # path of an index that is being written → position of its last entry

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self._base_offset, suffix)}"

    def run(self) -> None:
        """Check the segment; findings go to the report. OSError when the log can't be read."""
        for count in self.steps():
            self._on_progress(count)

    def steps(self) -> Iterator[int]:
        """`run` in steps of about a MiB; yields the bytes of the log that each has read."""
        offsets = _OffsetEntries(self)
        times = _TimeEntries(self)
        aborted = self._aborted()
        file = self._fs.open(self.log_path, writable=False)
        try:
            self.size = size = file.size()
            if size:
                for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                    if not self._fs.exists(self._path(suffix)):
                        self._report.add("index-missing", self._path(suffix), -1, f"the log has {size} bytes")
            reported = 0
            for found in walk(file, largest=self._around.largest_whole):
                if found.stretch is Stretch.BATCH:
                    crc: int | None = None
                    if not found.is_whole and found.magic == MAGIC_V2:
                        for count, crc in summed_crc(file, found):  # noqa: B007
                            yield count
                        reported = found.position + found.size
                    header = self._check_batch(found, crc)
                    offsets.meet(header)
                    times.meet(header, self._max_timestamp)
                else:
                    self._no_batch(found, size)
                if found.position + found.size - reported > 1 << 20:
                    yield found.position + found.size - reported
                    reported = found.position + found.size
            yield size - reported
        finally:
            file.close()
        still = self._fs.stat(self.log_path).size if self._is_active and not self._around.is_stopped else size
        offsets.finish(size if still > size else None)
        times.finish(self.end_offset if still > size else None)
        self._producers.check_index(self._path(TRANSACTION_INDEX_SUFFIX), aborted, self.end_offset)

    # --- what is no batch ---

    def _no_batch(self, found: Found, size: int) -> None:
        self.live = None
        is_tail = self._is_active and found.position + found.size == size
        may_be_unfinished = is_tail and found.stretch is not Stretch.GARBAGE and not self._around.is_stopped
        # Being written, or torn by a crash; but what was flushed once must be there.
        if may_be_unfinished and self.end_offset >= self._around.recovery_point:
            self._report.add("unfinished-tail", self.log_path, found.position, found.reason)
            return
        rules = {Stretch.ZEROS: "batch-zeros", Stretch.CUT_OFF: "batch-cut-off", Stretch.GARBAGE: "batch-garbage"}
        self._report.add(rules[found.stretch], self.log_path, found.position, found.reason)

    # --- batches ---

    def _fault(self, rule: str, header: BatchHeader, what: str) -> None:
        self._report.add(
            rule, self.log_path, header.position, f"batch {header.base_offset}–{header.last_offset}: {what}"
        )

    def _check_batch(self, found: Found, crc: int | None) -> BatchHeader:
        """`crc`: of a batch that is not whole, None where it was not made."""
        header = batch_header(found)
        if found.is_whole:
            crc = computed_crc(found.data, found.magic)
        elif self._around.largest_whole is None:
            self._fault("batch-too-large", header, f"{header.size} bytes")
        if crc is not None and crc != header.crc:
            self._fault("batch-crc", header, f"crc {header.crc}, the bytes have {crc}")
            # Offsets lie outside of the checksum: if they fit, the next batch is not out of order because of this one.
            if header.base_offset >= self.end_offset and 0 <= header.last_offset_delta <= MAX_RELATIVE_OFFSET:
                self.end_offset = header.last_offset + 1
            self.live = None
            return header
        if found.magic < MAGIC_V2:
            header = self._check_message(found, header)
        else:
            self._check_header(header)
            if found.is_whole:
                self._check_records(found, header)
            else:
                self._to_producers(header, [])
        self._advance(header)
        return header

    def _check_message(self, found: Found, header: BatchHeader) -> BatchHeader:
        """Check a message of format 0 or 1; a wrapper has to be opened for its first offset. Returns a header with
        that.
        """
        if not found.is_whole:
            self.live = None
            return header
        try:
            records = list(iterate_legacy_records(read_legacy_record(found.data)))
        except RecordError as error:
            self._fault("wrapper" if header.compression else "records-unreadable", header, str(error))
            self.live = None
            return header
        first, last = records[0].offset, records[-1].offset
        opened = header._replace(base_offset=first, last_offset_delta=last - first, record_count=len(records))
        self._producers.reach(opened.base_offset)
        self._check_header(opened)
        self._check_offsets(records, opened)
        return opened

    def _check_header(self, header: BatchHeader) -> None:
        span = header.last_offset_delta + 1
        is_compacted = self._may_have_gaps(header.base_offset)
        if header.base_offset < self._base_offset:
            self._fault("batch-offset", header, f"the segment begins at {self._base_offset}")
        elif header.base_offset < self.end_offset:
            self._fault("batch-order", header, f"the batch before ends at {self.end_offset - 1}")
        elif header.base_offset > self.end_offset:
            self.report_gap("batch-gap", self.log_path, header.position, self.end_offset, header.base_offset)
        if header.last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            self._fault("segment-span", header, f"more than {MAX_RELATIVE_OFFSET} above {self._base_offset}")
        if span < 1 or not 0 <= header.record_count <= span:
            self._fault("batch-count", header, f"{header.record_count} records in {span} offsets")
        elif header.record_count < span and is_compacted is False:
            self._fault("batch-count", header, f"{header.record_count} records in {span} offsets, never compacted")
        if header.attributes & ~_ALL_ATTRIBUTES:
            self._fault("batch-attributes", header, f"attributes {header.attributes:#06x}")
        if header.compression > Compression.ZSTD:
            self._fault("batch-codec", header, f"codec {header.compression}")
        has_id = header.producer_id != NO_PRODUCER_ID
        # Without an id epoch and sequence mean nothing: clients in JavaScript and Kafka's own groups write 0.
        if header.producer_id < NO_PRODUCER_ID or (has_id and header.producer_epoch < 0):
            self._fault("batch-producer", header, f"id {header.producer_id}, epoch {header.producer_epoch}")
        elif header.base_sequence < NO_SEQUENCE:
            self._fault("batch-producer", header, f"id {header.producer_id}, sequence {header.base_sequence}")
        elif header.is_transactional and not has_id:
            self._fault("batch-producer", header, "part of a transaction, and without a producer id")
        self._check_epoch(header)

    def _check_epoch(self, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if epoch < NO_PARTITION_LEADER_EPOCH:
            self._fault("leader-epoch-order", header, f"epoch {epoch}")
        if epoch < 0:
            return
        if epoch < self.last_leader_epoch:
            self._fault("leader-epoch-order", header, f"epoch {epoch} after {self.last_leader_epoch}")
            return
        self.last_leader_epoch = epoch
        entries = self._around.epochs
        if entries is None:
            return
        start = self._around.log_start
        # Epochs of what lies before the log's start are cut off the file.
        if start is not None and header.last_offset < start:
            return
        if start is None and entries and header.base_offset < entries[0].start_offset:
            return
        expected = -1
        for entry in entries:
            if entry.start_offset <= max(header.base_offset, start or 0):
                expected = entry.epoch
        # A running daemon writes the file a moment after the first batch of an epoch.
        is_new = not self._around.is_stopped and (not entries or epoch > entries[-1].epoch)
        if expected != epoch and not is_new:
            said = f"epoch {expected}" if expected >= 0 else "no epoch"
            path = f"{self._directory}/leader-epoch-checkpoint"
            self._report.add(
                "epochs-differ", path, -1, f"{said} at offset {header.base_offset}; the batch there is of {epoch}"
            )

    def _may_have_gaps(self, offset: int) -> bool | None:
        """True if compaction may have removed `offset`; None: unknown."""
        below = self._around.cleaned_below
        if below == -1:
            return None
        return below is not None and offset < below

    def report_gap(self, rule: str, path: str, position: int, start: int, end: int) -> None:
        """Report that the offsets [start, end) are missing, except below the log's start or in a known hole."""
        start = max(start, self._around.log_start or 0)
        for hole in sorted(self._around.holes, key=lambda hole: hole.first_offset):
            self._report_gap(rule, path, position, start, min(end, hole.first_offset))
            start = max(start, hole.last_offset + 1)
        self._report_gap(rule, path, position, start, end)

    def _report_gap(self, rule: str, path: str, position: int, start: int, end: int) -> None:
        may = self._may_have_gaps(start)
        if start < end and may is not True:
            what = f"offsets {start}–{end - 1} are missing"
            self._report.add("gap-unexplained" if may is None else rule, path, position, what)

    # --- records ---

    def _check_records(self, found: Found, header: BatchHeader) -> None:
        if header.record_count == 0 or header.compression > Compression.ZSTD:
            self._to_producers(header, [])
            return
        try:
            records = decode_records(found.data, 0, len(found.data))
        except RecordError as error:
            self._fault("records-unreadable", header, str(error))
            return
        self._check_offsets(records, header)
        self._to_producers(header, records)

    def _check_offsets(self, records: list[Record], header: BatchHeader) -> None:
        """Check that offsets rise within the batch, and that its largest timestamp is one of its records'."""
        previous = header.base_offset - 1
        largest = NO_TIMESTAMP
        for record in records:
            if not previous < record.offset <= header.last_offset:
                self._fault("records-offsets", header, f"offset {record.offset} after {previous}")
                break
            previous = record.offset
            largest = max(largest, record.timestamp)
        else:
            if largest != header.max_timestamp:
                self._fault(
                    "max-timestamp", header, f"largest timestamp {header.max_timestamp}; its records' is {largest}"
                )

    def _to_producers(self, header: BatchHeader, records: list[Record]) -> None:
        self._producers.reach(header.base_offset)
        if header.is_control:
            self._producers.add_control(header, records, self.log_path)
        elif header.producer_id >= 0:
            self._producers.add(header, self.log_path)

    def _advance(self, header: BatchHeader) -> None:
        if self.first_offset is None:
            self.first_offset = header.base_offset
        self.end_offset = max(self.end_offset, header.last_offset + 1)
        self._producers.passed(header.last_offset + 1)
        if self.live is not None:
            self.live += header.record_count
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)

    # --- indexes ---

    def parts(
        self, suffix: str, entry_size: int, explain: Callable[[bytes, int], Iterator[Part]], rule: str
    ) -> Iterator[Part]:
        """Read an index, yield its sound entries, and report the others."""
        path = self._path(suffix)
        try:
            data = self._fs.read_bytes(path, limit=_INDEX_LIMIT)
            if self._is_written:
                data = _in_both(data, self._fs.read_bytes(path, limit=_INDEX_LIMIT), entry_size)
                self._newest[path] = (len(data.rstrip(b"\0")) - 1) // entry_size * entry_size
        except FileNotFoundError:
            return iter(())
        return self._sound_parts(path, explain(data, self._base_offset), rule)

    def _sound_parts(self, path: str, parts: Iterator[Part], rule: str) -> Iterator[Part]:
        for part in parts:
            if part.problem:
                kind = "torn" if part.kind == "cut off" else "order"
                self._index_fault(f"{rule}-{kind}", path, part, part.problem)
            elif part.kind != "unused":
                yield part

    def _index_fault(self, rule: str, path: str, part: Part, what: str) -> None:
        if part.position == self._newest.get(path):
            rule = "unfinished-tail"
        self._report.add(rule, path, part.position, f"{part.text}: {what}")

    def _aborted(self) -> list[tuple[int, AbortedTxn]]:
        names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
        parts = self.parts(TRANSACTION_INDEX_SUFFIX, TransactionIndex.ENTRY_SIZE, explain_transaction_index, "txnindex")
        return [(part.position, AbortedTxn(*(number(part, name) for name in names))) for part in parts]

    def offset_entries(self) -> Iterator[Part]:
        return self.parts(OFFSET_INDEX_SUFFIX, OffsetIndex.ENTRY_SIZE, explain_offset_index, "index")

    def time_entries(self) -> Iterator[Part]:
        return self.parts(TIME_INDEX_SUFFIX, TimeIndex.ENTRY_SIZE, explain_time_index, "timeindex")

    def index_fault(self, rule: str, suffix: str, part: Part, what: str) -> None:
        self._index_fault(rule, self._path(suffix), part, what)

    def check_last_time(self, last: int) -> None:
        """Check that the time index ends with timestamp `last`: the roll wrote the segment's largest one."""
        if not self._is_active and last < self._max_timestamp and self.first_offset is not None:
            what = f"its last timestamp is {last}, the segment's largest {self._max_timestamp}"
            self._report.add("timeindex-last", self._path(TIME_INDEX_SUFFIX), -1, what)


def _in_both(first: bytes, second: bytes, entry_size: int) -> bytes:
    """The entries up to the first in which two readings differ, with what lies behind if they don't."""
    if second.startswith(first):
        return first
    same, differ = 0, min(len(first), len(second)) + 1
    while differ - same > 1:  # the first `same` bytes are the same, the first `differ` are not
        middle = (same + differ) // 2
        if first[same:middle] == second[same:middle]:
            same = middle
        else:
            differ = middle
    return first[: same // entry_size * entry_size]


def number(part: Part, name: str) -> int:
    """The value of a field that is a number."""
    value = part.fields[name]
    assert isinstance(value, int)
    return value


class _OffsetEntries:
    """Offset index entries, compared with batches in the order of positions."""

    def __init__(self, segment: SegmentCheck) -> None:
        self._segment = segment
        self._parts = segment.offset_entries()
        self._next = next(self._parts, None)
        self._late: dict[int, Part] = {}  # offset → entry that names a later batch's last offset

    def meet(self, header: BatchHeader) -> None:
        self._late.pop(header.last_offset, None)
        while (part := self._next) is not None:
            position, offset = number(part, "position"), number(part, "offset")
            if position > header.position:
                return
            self._next = next(self._parts, None)
            if position < header.position:
                self._fault("index-position", part, "no batch begins there")
            elif offset > header.last_offset:
                # Old brokers indexed an append of several batches by its last offset: sound, if there is such a batch.
                self._late[offset] = part
            elif offset < header.last_offset:
                self._fault("index-offset", part, f"the batch there ends at {header.last_offset}")

    def _fault(self, rule: str, part: Part, what: str) -> None:
        self._segment.index_fault(rule, OFFSET_INDEX_SUFFIX, part, what)

    def finish(self, newer_from: int | None) -> None:
        """Called when the log was read. `newer_from`: the log has grown since; entries from that position on are not
        checked.
        """
        if newer_from is None:
            for part in self._late.values():
                self._fault("index-offset", part, "no batch ends there")
        while (rest := self._next) is not None:
            if newer_from is None or number(rest, "position") < newer_from:
                self._fault("index-position", rest, "the log has no batch there")
            self._next = next(self._parts, None)


class _TimeEntries:
    """Time index entries, compared with batches in the order of offsets."""

    def __init__(self, segment: SegmentCheck) -> None:
        self._segment = segment
        self._parts = segment.time_entries()
        self._last = NO_TIMESTAMP
        self._next: Part | None = None
        self._step()

    def _step(self) -> None:
        self._next = next(self._parts, None)
        if self._next is not None:
            self._last = number(self._next, "timestamp")

    def meet(self, header: BatchHeader, largest: int) -> None:
        while (part := self._next) is not None:
            if number(part, "offset") > header.last_offset:
                return
            if number(part, "timestamp") != largest:
                self._fault(part, f"the largest timestamp up to there is {largest}")
            self._step()

    def _fault(self, part: Part, what: str) -> None:
        self._segment.index_fault("timeindex-entry", TIME_INDEX_SUFFIX, part, what)

    def finish(self, newer_from: int | None) -> None:
        """Called when the log was read. `newer_from`: the log has grown since; entries behind it are not checked."""
        while (part := self._next) is not None:
            if newer_from is None:
                self._fault(part, "the log does not reach there")
            self._step()
        self._segment.check_last_time(self._last)
