"""Positions in a segment at which a batch begins, from its `.index` file, and the first record of a time, from its `.timeindex`.

The layout is `storage/index/offset_index.py`'s: an entry names the last offset of the batch that begins at its position. An index
may be missing, end in zeros (it is preallocated while its segment is active), be behind its file, or be that of the file
which cleaning has just replaced. So an entry counts only when the batch at its position says the same; without any, a
segment is read from its start.

An index is searched where it lies, a page at a time: about ten pages, whatever its size. It is not mapped into memory: its
daemon cuts the reserved room off when it rolls the segment, and touching a page that a file has no more ends a process.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Self, overload

from ...protocol.records.exceptions import CorruptRecordError, RecordError
from ...protocol.records.record_batch import MAGIC_AT, MAGIC_V2, OVERHEAD, RECORD_BATCH_OVERHEAD
from ...storage.index.offset_index import OffsetIndex
from ...storage.index.time_index import TimeIndex, TimestampOffset
from ...storage.io.filesystem import RealFileSystem
from ...storage.segment.batch_walk import Stretch, walk
from ...storage.segment.file_records import agrees, ends_at, find_timestamp, read_headers
from ...storage.segment.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, file_name
from ..exceptions import CorruptLogError

if TYPE_CHECKING:
    from ...protocol.records.record_batch import BatchHeader
    from ...storage.io.filesystem import File
    from ..reading.segment_files import SegmentFile

_PAGE = 4096
#: Above any offset, position or timestamp: what an unwritten slot counts as.
_UNWRITTEN = 1 << 63


class Entry(NamedTuple):
    """The batch that begins at `position` ends with `last_offset`."""

    last_offset: int
    position: int


class _Slots(Sequence[tuple[int, int]]):
    """Entries of an index file, read a page at a time. A context manager: the file is closed in the end."""

    def __init__(self, path: str, entry: Struct) -> None:
        """Open the index; one that is not there has no entries."""
        self._entry = entry
        self._per_page = _PAGE // entry.size
        self._page: tuple[int, bytes] = (-1, b"")
        self._count = 0
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1
            return
        self._count = os.fstat(self._file).st_size // entry.size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, slot: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, slot: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, slot: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        if isinstance(slot, slice):
            return [self[at] for at in range(*slot.indices(self._count))]
        if not 0 <= slot < self._count:
            raise IndexError(slot)
        number, at = divmod(slot, self._per_page)
        if number != self._page[0]:
            size = self._per_page * self._entry.size
            try:
                self._page = number, os.pread(self._file, size, number * size)
            except OSError:  # of a disk: a hint that cannot be read is none
                self._page = number, b""
        at *= self._entry.size
        if at + self._entry.size > len(self._page[1]):
            return 0, 0  # the daemon has cut the reserved room off meanwhile
        first, second = self._entry.unpack_from(self._page[1], at)
        return first, second


class SegmentIndex:
    """The offset index of one segment, as a context manager. What it answers is to be held against the file: an index of
    any bytes gives entries that lie in the segment, in no promised order.
    """

    def __init__(self, segment: SegmentFile) -> None:
        self._segment = segment
        path = os.path.join(segment.directory, file_name(segment.base_offset, OFFSET_INDEX_SUFFIX))
        self._slots = _Slots(path, OffsetIndex.ENTRY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._slots.__exit__()

    def floor(self, offset: int) -> Entry | None:
        """The greatest entry at or below `offset`."""
        relative = offset - self._segment.base_offset
        return self._entry(bisect_right(self._slots, relative, key=lambda slot: self._written(slot, slot[0])) - 1)

    def ceiling(self, offset: int) -> Entry | None:
        """The first entry at or above `offset`."""
        relative = offset - self._segment.base_offset
        return self._entry(bisect_left(self._slots, relative, key=lambda slot: self._written(slot, slot[0])))

    def at_position(self, position: int) -> Entry | None:
        """The first entry whose batch begins at byte `position` or behind it."""
        return self._entry(bisect_left(self._slots, position, key=lambda slot: self._written(slot, slot[1])))

    def _written(self, slot: tuple[int, int], value: int) -> int:
        # No entry names the segment's first batch (position 0), so that zeros are room that is reserved.
        return value if 0 < slot[1] < self._segment.size else _UNWRITTEN

    def _entry(self, number: int) -> Entry | None:
        if not 0 <= number < len(self._slots):
            return None
        relative, position = self._slots[number]
        if relative < 0 or not 0 < position < self._segment.size:
            return None
        return Entry(self._segment.base_offset + relative, position)


def batch_start(file: File, entry: Entry) -> int | None:
    """Base offset of the batch that the entry names; None if no batch of format 2 that ends there begins at its position.

    A wrapper of format 0 or 1 does not say where it begins.
    """
    head = file.pread(RECORD_BATCH_OVERHEAD, entry.position)
    if len(head) < RECORD_BATCH_OVERHEAD or head[MAGIC_AT] < MAGIC_V2 or not ends_at(head, entry.last_offset):
        return None
    base_offset: int = OVERHEAD.unpack_from(head)[0]
    return base_offset


def start_position(file: File, segment: SegmentFile, offset: int) -> int:
    """Position from which to read for `offset`: a batch begins there, and none that holds the offset lies before it."""
    with SegmentIndex(segment) as index:
        entry = index.floor(offset)
    if entry is None or entry.last_offset > offset:
        return 0
    return entry.position if ends_at(file.pread(RECORD_BATCH_OVERHEAD, entry.position), entry.last_offset) else 0


def written_headers(file: File, position: int) -> Iterator[BatchHeader]:
    """Iterate over the headers from `position` to the end of the file, or to the room that an active segment has reserved
    there (Kafka's `preallocate`): zeros. CorruptLogError: damage.
    """
    try:
        for header in read_headers(file, position, file.size()):
            position = header.position + header.size
            yield header
    except CorruptRecordError as error:
        stretch = next(walk(file, position), None)
        if stretch is None or stretch.stretch is not Stretch.ZEROS or position + stretch.size < file.size():
            raise CorruptLogError(
                f"{file.path}: damaged at byte {position}: {error}; `tidelog log verify` says more"
            ) from error


def _written_end(file: File, position: int) -> int:
    for header in written_headers(file, position):
        position = header.position + header.size
    return position


def first_at(segments: Sequence[SegmentFile], timestamp: int, start: int, end: int) -> int | None:
    """Offset in [start, end) of the first record with a timestamp >= `timestamp` (ms); None if there is none. Reads
    headers and one batch. Blocks. CorruptLogError.
    """
    for index, segment in enumerate(segments):
        following = segments[index + 1].base_offset if index + 1 < len(segments) else end
        if following <= start or segment.base_offset >= end:
            continue
        try:
            file = RealFileSystem().open(segment.path, writable=False)
        except FileNotFoundError:
            continue  # retention has taken it since it was listed
        try:
            position = max(start_position(file, segment, start), _behind(file, segment, timestamp))
            found = _found(file, position, timestamp, start, end)
        finally:
            file.close()
        if found is not None:
            return found.offset
    return None


def _found(file: File, position: int, timestamp: int, start: int, end: int) -> TimestampOffset | None:
    try:
        try:
            return find_timestamp(file, position, file.size(), timestamp, start, end)
        except CorruptRecordError:  # or zeros behind the last batch
            return find_timestamp(file, position, _written_end(file, position), timestamp, start, end)
    except RecordError as error:
        raise CorruptLogError(f"{file.path}: {error}; `tidelog log verify` says more") from error


def _behind(file: File, segment: SegmentFile, timestamp: int) -> int:
    """Position of a batch before which no record has that timestamp or a later one, by the time index; 0 if that is no help."""
    path = os.path.join(segment.directory, file_name(segment.base_offset, TIME_INDEX_SUFFIX))
    with _Slots(path, TimeIndex.ENTRY) as slots:
        # The room that an active segment has reserved is zeros; slot 0 may be one that says time 0.
        slot = bisect_left(slots, timestamp, key=lambda slot: slot[0] if slot[0] > 0 else _UNWRITTEN) - 1
        time, relative = slots[slot] if slot >= 0 else (0, 0)
    if not 0 < time < timestamp or relative < 0:
        return 0
    entry = TimestampOffset(time, segment.base_offset + relative)
    position = start_position(file, segment, entry.offset)
    try:
        # An index of another file, or of any bytes, would hide records.
        return position if agrees(file, position, file.size(), entry) else 0
    except RecordError:
        return 0
