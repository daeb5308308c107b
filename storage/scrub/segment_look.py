"""Looks at one closed segment at the price of its checksums, and says whether it has to be examined.

    log          the kernel's `BatchScanner`, without the interpreter lock: sizes, checksums, counts, rising offsets; here: the
                 next segment's base, leader epochs (which no checksum covers) against each other and the checkpoint
    indexes      each entry against the batch that it names, as that lies in the buffer
    .txnindex    where there is one: the producers are replayed from the segment's snapshot on, as `log verify` does

No record is decoded, and nothing is kept but one block and the batch that it cuts off; of one that is larger than a block the
checksum is made block by block, and its header alone is kept. What seems wrong is only a *suspicion*:
`examine.py` reads such a segment with the code of `log verify`, which names the damage, or finds none. So a look has to
notice whatever that would, and may be wrong the other way.

A file is open while a block is read, and not between: neither deleted space nor a descriptor is kept however slow the pace is.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ...protocol.records._kernel import BatchScanner, crc32c
from ...protocol.records.attributes import COMPRESSION_MASK
from ...protocol.records.exceptions import RecordError
from ...protocol.records.memory_records import iterate_records, read_header
from ...protocol.records.record_batch import (
    ATTRIBUTES_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
)
from ..index.offset_index import OffsetIndex
from ..index.time_index import TimeIndex
from ..index.transaction_index import AbortedTxn
from ..inspect.dump_index import explain_transaction_index
from ..inspect.verify_producers import ProducerCheck
from ..inspect.verify_report import Report
from ..inspect.verify_segment import number
from ..segment.batch_walk import stored_crc
from ..segment.file_records import ends_at
from ..segment.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Hole,
    file_name,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from ...protocol.records.record_batch import BatchHeader
    from ..io.filesystem import FileSystem
    from ..log.leader_epoch import EpochEntry

_EPOCH_AND_MAGIC = Struct(">ib")
_EPOCH_AT = 12
_LEGACY_ATTRIBUTES_AT = MAGIC_AT + 1
_INDEX_BYTES = 24 << 10  # whole entries of both indexes
_MOST_LATE = 1024
_TRANSACTION_INDEX_LIMIT = 64 << 20


class SegmentPlace(NamedTuple):
    """A closed segment, and what its log says of it.

    Attributes:
        size: bytes of its log file.
        next_base: base offset of the next segment.
        log_start: what lies below counts no more; None where that is not known.
        epochs: of the leader epoch checkpoint; None when it can't be used.
        is_settled: the epochs are the log's own; False: as a daemon may write them later than its batches.
        holes: what `.damaged` files say is missing.
        epoch_before: of the batches before this segment, -1 where that is not known.
    """

    directory: str
    base_offset: int
    size: int
    next_base: int
    log_start: int | None
    epochs: tuple[EpochEntry, ...] | None
    is_settled: bool
    holes: tuple[Hole, ...] = ()
    epoch_before: int = -1

    def path(self, suffix: str) -> str:
        """Path of one of its files."""
        return f"{self.directory}/{file_name(self.base_offset, suffix)}"


class SegmentLook:
    """One look at a segment: `steps` reads it. Blocks; one thread at a time; OSError.

    Attributes:
        last_epoch: leader epoch of the last batch, when all was read; that before the segment if it has none.
        read_at: position of the last block that was read, or could not be; -1 before the first.
    """

    def __init__(self, file_system: FileSystem, place: SegmentPlace, block_bytes: int) -> None:
        self._fs = file_system
        self._place = place
        self._block = block_bytes
        self.last_epoch = place.epoch_before
        self.read_at = -1
        self._last_offset = place.base_offset - 1  # of the batch before the ones in work
        self._is_first = True
        self._has_wrappers = False
        self._suspicion = ""  # of a batch that is larger than a block
        self._transactions = _Transactions(place)
        self._offsets = _OffsetEntries(file_system, place)
        self._times = _TimeEntries(file_system, place)

    def steps(self) -> Generator[int, None, str]:
        """Read the segment; the value is why it has to be examined, "" if all is sound."""
        size, path = self._place.size, self._place.path(LOG_SUFFIX)
        if not size:
            return ""
        try:
            self._offsets.step()
            self._times.step()
        except FileNotFoundError:
            return "an index is missing"
        self._transactions.read(self._fs)
        if aside := self._transactions.take_read():
            yield aside
        # Every batch makes an index entry: so its position and last offset are known.
        scanner = BatchScanner(0, self._place.base_offset, find_stateful=self._transactions.is_needed)
        buffer = bytearray(min(2 * self._block, size))
        held = position = 0  # bytes that the last block has cut off; where the next one begins
        while position < size:
            if scanner.needed > self._block and held >= RECORD_BATCH_OVERHEAD:
                position = yield from self._large_batch(scanner, buffer, held)
                if self._suspicion:
                    return self._suspicion
                held = 0
                continue
            want = min(self._block, size - position)
            self.read_at = position
            got = _read_block(self._fs, path, memoryview(buffer)[held : held + want], position)
            start = position - held
            taken = scanner.feed(buffer, 0, held + got, start)
            suspicion = self._check(scanner, buffer, start, taken)
            held += got - taken
            position += got
            yield got + self._offsets.take_read() + self._times.take_read()
            if not suspicion and scanner.stopped is not None:
                suspicion = f"{scanner.stopped} at {scanner.valid_bytes}"
            elif got < want or scanner.needed > size - scanner.valid_bytes:
                suspicion = suspicion or f"cut off behind {scanner.valid_bytes}"
            if suspicion:
                return suspicion
            buffer[:held] = buffer[taken : taken + held]
        if held:
            return f"cut off behind {scanner.valid_bytes}"
        if scanner.next_offset > self._place.next_base:
            return f"ends at {scanner.next_offset}, behind the next segment's base"
        if self._has_wrappers:
            return "compressed messages of format 0 or 1, whose first offsets have to be looked for"
        return (
            self._offsets.finish()
            or self._times.finish(scanner.max_timestamp)
            or self._transactions.finish(scanner.next_offset)
        )

    def _large_batch(self, scanner: BatchScanner, buffer: bytearray, held: int) -> Generator[int, None, int]:
        """Read a batch that is larger than a block, whose first bytes are buffer[:held]; the value is where it ends.

        `_suspicion` says what is wrong with it. The block behind these bytes in the buffer is used.
        """
        path, start, end = self._place.path(LOG_SUFFIX), scanner.valid_bytes, scanner.valid_bytes + scanner.needed
        is_legacy = buffer[MAGIC_AT] < MAGIC_V2
        first = MAGIC_AT if is_legacy else ATTRIBUTES_AT
        checksum = crc32 if is_legacy else crc32c
        head = bytes(buffer[:RECORD_BATCH_OVERHEAD])
        with memoryview(buffer) as view:
            crc = checksum(view[first:held], 0)
            position = start + held
            while position < end:
                self.read_at = position
                want = min(self._block, end - position)
                got = _read_block(self._fs, path, view[:want], position)
                crc = checksum(view[:got], crc)
                position += got
                yield got + self._offsets.take_read() + self._times.take_read()
                if got < want:
                    self._suspicion = f"cut off behind {start}"
                    return position
        if crc != stored_crc(head, head[MAGIC_AT]):
            self._suspicion = f"wrong checksum at {start}"
        elif not (taken := scanner.take_checked(head, start)):
            self._suspicion = f"{scanner.stopped} at {start}"
        else:
            self._suspicion = self._check(scanner, bytearray(head), start, taken)
        return position

    def _check(self, scanner: BatchScanner, buffer: bytearray, start: int, taken: int) -> str:
        """Check the batches of buffer[:taken], which stand at `start` of the file; returns a suspicion. Of a batch alone
        its header is enough.
        """
        if not taken:
            return ""
        batches = list(OffsetIndex.ENTRY.iter_unpack(scanner.offset_index_entries))
        steps = list(TimeIndex.ENTRY.iter_unpack(scanner.time_index_entries))
        scanner.offset_index_entries.clear()
        scanner.time_index_entries.clear()
        if self._is_first:  # the kernel makes no entries for it
            self._is_first = False
            try:
                last = read_header(buffer, 0, taken).last_offset if taken <= len(buffer) else scanner.next_offset - 1
            except RecordError as error:
                return str(error)
            last -= self._place.base_offset
            batches.insert(0, (last, 0))
            steps.insert(0, (scanner.first_timestamp, last))
        suspicion = (
            self._check_epochs(buffer, start, batches)
            or self._check_rises(scanner, batches)
            or self._offsets.check(buffer, start, start + taken, batches)
            or self._times.check(batches, steps)
        )
        if not suspicion and scanner.stateful_batches:
            suspicion = self._transactions.check(buffer, start, [info.position for info in scanner.stateful_batches])
        scanner.stateful_batches.clear()
        self._last_offset = self._place.base_offset + batches[-1][0]
        return suspicion

    # --- leader epochs, formats ---

    def _check_epochs(self, buffer: bytearray, start: int, batches: list[tuple[int, int]]) -> str:
        delta = start - _EPOCH_AT
        heads = {_EPOCH_AND_MAGIC.unpack_from(buffer, position - delta) for _, position in batches}
        if heads == {(self.last_epoch, MAGIC_V2)}:  # nearly always
            return ""
        for _, position in batches:
            epoch, magic = _EPOCH_AND_MAGIC.unpack_from(buffer, position - delta)
            if magic < MAGIC_V2:
                self._has_wrappers |= buffer[position - start + _LEGACY_ATTRIBUTES_AT] & COMPRESSION_MASK != 0
            elif epoch < -1:
                return f"leader epoch {epoch} at {position}"
            elif 0 <= epoch < self.last_epoch:
                return f"leader epoch {epoch} after {self.last_epoch} at {position}"
            else:
                self.last_epoch = max(epoch, self.last_epoch)
        return ""

    def _check_rises(self, scanner: BatchScanner, batches: list[tuple[int, int]]) -> str:
        """Check the leader epochs that begin in these batches against the checkpoint."""
        rises = list(scanner.leader_epochs)
        scanner.leader_epochs.clear()
        return next((problem for rise in rises if (problem := self._rise_problem(*rise, batches))), "")

    def _rise_problem(self, epoch: int, base: int, batches: list[tuple[int, int]]) -> str:
        """How the checkpoint contradicts that `epoch` begins at `base`, its first batch here; "" if it does not."""
        place = self._place
        if place.epochs is None or (place.log_start is not None and base < place.log_start):
            return ""
        entry = next((entry for entry in reversed(place.epochs) if entry.start_offset <= base), None)
        if entry is None or entry.epoch != epoch:
            return f"leader epoch {epoch} at offset {base}, where the checkpoint has {entry}"
        before = bisect_left(batches, (base - place.base_offset, -1)) - 1
        last = place.base_offset + batches[before][0] if before >= 0 else self._last_offset
        if last >= place.base_offset and entry.start_offset <= last:
            return f"leader epoch {epoch} begins at {base}, the checkpoint says {entry.start_offset}"
        return ""


def _read_block(file_system: FileSystem, path: str, view: memoryview, position: int) -> int:
    """Fill the view from a file, which is open for that long only, and release it; returns the bytes read."""
    with view:
        file = file_system.open(path, writable=False)
        try:
            return file.pread_aside(view, position)
        except OSError as error:
            error.filename = path
            raise
        finally:
            file.close()


def read_aside(file_system: FileSystem, path: str, limit: int) -> bytes:
    """Read a small file of `limit` bytes at most (the rest is left out), past the page cache. OSError."""
    size = min(file_system.stat(path).size, limit)
    data = bytearray(size)
    got = _read_block(file_system, path, memoryview(data), 0)
    return bytes(data[:got])


def size_or_0(file_system: FileSystem, path: str) -> int:
    """Bytes of a file; 0 if it is not there. OSError."""
    try:
        return file_system.stat(path).size
    except FileNotFoundError:
        return 0


def _header_at(buffer: bytearray, at: int) -> tuple[BatchHeader, bool]:
    """Header of the batch at buffer[at], of which no more than that need be there; True if all of it is."""
    length = int.from_bytes(buffer[at + LENGTH_AT : at + LENGTH_AT + 4], "big")
    if at + LOG_OVERHEAD + length <= len(buffer):
        return read_header(buffer, at), True
    head = bytearray(buffer[at : at + RECORD_BATCH_OVERHEAD])
    head[LENGTH_AT : LENGTH_AT + 4] = (RECORD_BATCH_OVERHEAD - LOG_OVERHEAD).to_bytes(4, "big")
    return read_header(head), False


def _is_zero(data: bytearray) -> bool:
    return not data.strip(b"\0")


class _Entries:
    """Entries of an index file, read in pieces from the first `step` on. `problem` says what is wrong with the file itself."""

    def __init__(self, file_system: FileSystem, path: str, entry: Struct) -> None:
        self._fs = file_system
        self._path = path
        self._entry = entry
        self._read = 0
        self.problem = ""
        self._entries = self._pieces()
        self.next: tuple[int, int] | None = None

    def step(self) -> None:
        """Go on to the next entry; None behind the last one."""
        self.next = next(self._entries, None)

    def take_read(self) -> int:
        """Bytes read since the last call."""
        read, self._read = self._read, 0
        return read

    def _pieces(self) -> Iterator[tuple[int, int]]:
        size = self._entry.size
        zeros = bytes(size)
        position, is_over = 0, False
        while True:
            piece = bytearray(_INDEX_BYTES)
            got = _read_block(self._fs, self._path, memoryview(piece), position)
            self._read += got
            whole = got - got % size
            if is_over:
                # What is preallocated is zeros; an entry behind some is none of this program's or Kafka's.
                if not _is_zero(piece[:got]):
                    self.problem = "zeros between entries"
                    return
            else:
                for at in range(0, whole, size):
                    if piece[at : at + size] == zeros and (position + at or _is_zero(piece[:got])):
                        is_over = True
                        if not _is_zero(piece[at:got]):
                            self.problem = "zeros between entries"
                            return
                        break
                    first, second = self._entry.unpack_from(piece, at)
                    yield first, second
            if got < _INDEX_BYTES:
                if not _is_zero(piece[whole:got]):
                    self.problem = "a torn entry"
                return
            position += got


class _OffsetEntries(_Entries):
    """Entries of the offset index: each names a batch by position, and that batch's last offset."""

    def __init__(self, file_system: FileSystem, place: SegmentPlace) -> None:
        super().__init__(file_system, place.path(OFFSET_INDEX_SUFFIX), OffsetIndex.ENTRY)
        self._base_offset = place.base_offset
        self._before = (-1, -1)
        self._late: set[int] = set()

    def check(self, buffer: bytearray, start: int, end: int, batches: list[tuple[int, int]]) -> str:
        """Check the entries of the batches in [start, end) of the file."""
        if self._late:
            self._late.difference_update(last for last, _ in batches)
        while (entry := self.next) is not None and entry[1] < end:
            offset, position = entry
            if offset <= self._before[0] or position <= self._before[1] or position < start:
                return f"entry {entry} of the offset index does not rise"
            self._before = entry
            head = bytes(buffer[position - start : position - start + RECORD_BATCH_OVERHEAD])
            if not ends_at(head, self._base_offset + offset) and not self._names_an_append(entry, batches):
                return f"entry {entry} of the offset index names no batch"
            self.step()
        return self.problem

    def _names_an_append(self, entry: tuple[int, int], batches: list[tuple[int, int]]) -> bool:
        """True if the entry may be one of Kafka's for an append of several batches: the last offset of the last one, beside
        the position of the first. Then one has to end there.
        """
        offset, position = entry
        at = bisect_left(batches, position, key=lambda batch: batch[1])
        if at == len(batches) or batches[at][1] != position or offset <= batches[at][0]:
            return False
        end = bisect_left(batches, offset, key=lambda batch: batch[0])
        if end == len(batches):
            self._late.add(offset)
            return len(self._late) <= _MOST_LATE
        return batches[end][0] == offset

    def finish(self) -> str:
        """Called when the log was read."""
        if self.next is not None or self._late:
            return "the offset index names batches that are not there"
        return self.problem


class _TimeEntries(_Entries):
    """Entries of the time index: each has the largest timestamp up to its offset."""

    def __init__(self, file_system: FileSystem, place: SegmentPlace) -> None:
        super().__init__(file_system, place.path(TIME_INDEX_SUFFIX), TimeIndex.ENTRY)
        self._largest = self._last = -1
        self._before = (-2, -1)

    def check(self, batches: list[tuple[int, int]], steps: list[tuple[int, int]]) -> str:
        """Check the entries of these batches. `steps`: a timestamp larger than all before, and the last offset of its batch."""
        at = 0
        end = batches[-1][0]
        while (entry := self.next) is not None and entry[1] <= end:
            timestamp, offset = entry
            if timestamp <= self._before[0] or offset < self._before[1]:
                return f"entry {entry} of the time index does not rise"
            self._before = entry
            last = batches[bisect_left(batches, offset, key=lambda batch: batch[0])][0]
            while at < len(steps) and steps[at][1] <= last:
                self._largest = steps[at][0]
                at += 1
            if timestamp != self._largest:
                return f"entry {entry} of the time index: the largest timestamp there is {self._largest}"
            self._last = timestamp
            self.step()
        if at < len(steps):
            self._largest = steps[-1][0]
        return self.problem

    def finish(self, max_timestamp: int) -> str:
        """Called when the log was read, whose largest timestamp is given."""
        if self.next is not None:
            return "the time index names offsets that are not there"
        if self._last < max_timestamp:
            return f"the time index ends with {self._last}, not with {max_timestamp}"
        return self.problem


class _Transactions:
    """Replay of the producers of a segment that has aborted transactions, to hold its transaction index against them.

    `is_needed`: False for nearly all segments, which have none.
    """

    def __init__(self, place: SegmentPlace) -> None:
        self._place = place
        self._read = 0
        self._path = place.path(TRANSACTION_INDEX_SUFFIX)
        self._log_path = place.path(LOG_SUFFIX)
        self._report = Report()
        self.is_needed = False

    def read(self, file_system: FileSystem) -> None:
        """Read the index, and where the producers stand at the segment's start."""
        try:
            data = read_aside(file_system, self._path, _TRANSACTION_INDEX_LIMIT)
        except FileNotFoundError:
            return
        self._read = len(data)
        self.is_needed = bool(data)
        if self.is_needed:
            self._read += size_or_0(file_system, self._place.path(SNAPSHOT_SUFFIX))
            parts = explain_transaction_index(data, self._place.base_offset)
            self._parts = [part for part in parts if part.kind != "unused"]
            self._producers = producers_at(file_system, self._place, self._report)

    def take_read(self) -> int:
        """Bytes read since the last call."""
        read, self._read = self._read, 0
        return read

    def check(self, buffer: bytearray, start: int, positions: list[int]) -> str:
        """Apply the batches of producers at these positions of the file; the buffer begins at `start`."""
        producers = self._producers
        for position in positions:
            header, is_whole = _header_at(buffer, position - start)
            header = header._replace(position=position)
            producers.reach(header.base_offset)
            if header.is_control:
                if not is_whole:
                    return f"a large control batch at {position}"
                try:
                    records = list(iterate_records(buffer, position - start, position - start + header.size))
                except RecordError as error:
                    return f"control batch at {position}: {error}"
                producers.add_control(header, records, self._log_path)
            elif header.producer_id >= 0:
                producers.add(header, self._log_path)
            producers.passed(header.last_offset + 1)
        return ""

    def finish(self, end_offset: int) -> str:
        """Called when the log was read, which ends at `end_offset`."""
        if not self.is_needed:
            return ""
        if problem := next((part.problem for part in self._parts if part.problem), ""):
            return problem
        names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
        aborted = [(part.position, AbortedTxn(*(number(part, name) for name in names))) for part in self._parts]
        self._producers.check_index(self._path, aborted, end_offset)
        return next((finding.what for finding in self._report.drain() if finding.is_fault), "")


def producers_at(file_system: FileSystem, place: SegmentPlace, report: Report) -> ProducerCheck:
    """A replay that begins at the segment, from its snapshot if there is one."""
    check = ProducerCheck(file_system, place.directory, report, cleaned_below=None, log_start=place.log_start or 0)
    snapshot = place.path(SNAPSHOT_SUFFIX)
    has_snapshot = file_system.exists(snapshot)
    check.begin(place.base_offset, [(place.base_offset, snapshot)] if has_snapshot else [])
    return check
