"""TimeIndex: timestamp → offset (`.timeindex` files).

    time index entry    0                   8         12
                        +-------------------+---------+   timestamp: largest one in the segment up to that offset,
                        |     timestamp     | rel.off |   ms since 1970, big-endian int64; strictly rising
                        +-------------------+---------+   relative offset = offset - baseOffset, int32; rising

An entry (t, o) says: every record after offset o in this segment that is older than t came late; every record with a
timestamp above t lies behind o. So the first record with a timestamp ≥ x lies behind the greatest entry with a
timestamp < x. The last slot is kept for the entry that a roll adds with the segment's largest timestamp.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import ClassVar, NamedTuple

from ..exceptions import CorruptIndexError, InvalidOffsetError, StorageError
from .index_file import MAX_RELATIVE_OFFSET, IndexFile

NO_TIMESTAMP = -1

_TIMESTAMP = Struct(">q")
_OFFSET = Struct(">i")
_pack_into = Struct(">qi").pack_into
_new = tuple.__new__  # of a NamedTuple, without the frame of Python that its own takes


class TimestampOffset(NamedTuple):
    """A timestamp (ms since 1970, −1: none) with an offset and a leader epoch (−1: unknown; an index has none)."""

    timestamp: int
    offset: int
    leader_epoch: int = -1


class TimeIndex(IndexFile):
    """Time index of one segment; threads as `IndexFile` says."""

    ENTRY: ClassVar[Struct] = Struct(">qi")
    ENTRY_SIZE: ClassVar[int] = 12
    SPARE_SLOTS: ClassVar[int] = 1

    __slots__ = ("_last",)
    _last: TimestampOffset

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, (−1, base offset) when there is none."""
        if self._count < 0:
            self._open_view()
        return self._last

    def maybe_append(self, timestamp: int, offset: int, skip_full_check: bool = False) -> bool:
        """Append an entry if its timestamp is above the last one's, else do nothing. True if no other fits but the one that the
        roll needs. Writer; one frame of Python in most cases.

        InvalidOffsetError when timestamp or offset step back; StorageError when the index is full (`skip_full_check`:
        the roll may use the last slot); OSError when the disk is.
        """
        if self._count >= self._ready and self.entries >= self.max_entries - (
            0 if skip_full_check else self.SPARE_SLOTS
        ):
            # A roll repeats the last entry when nothing newer came: that needs no slot.
            if skip_full_check and timestamp <= self._last.timestamp:
                return True
            raise StorageError(f"{self._path} is full with {self._count} entries")
        count, last = self._count, self._last
        if count and (offset < last[1] or timestamp < last[0]):
            raise InvalidOffsetError(f"{self._path}: ({timestamp}, {offset}) steps back behind the last entry {last}")
        if timestamp > last[0]:
            relative = offset - self.base_offset
            if not 0 <= relative <= MAX_RELATIVE_OFFSET:
                self._relative(offset)  # raises
            view = self._view if count < self._ready else self._writable_view(12)
            _pack_into(view, count * 12, timestamp, relative)  # type: ignore[arg-type]  # what is ready is mapped
            self._last = _new(TimestampOffset, (timestamp, offset, -1))
            self._count = count = count + 1
        return count >= self._ready and self.is_full

    def complete(self, largest: TimestampOffset) -> bool:
        """Append the entry that a roll adds, where the disk did not take it then. True if the file was rewritten for
        that.

        Of a closed segment: retention takes the last entry for its age. Durable; blocks. OSError.
        """
        try:
            if self.last_entry.timestamp >= largest.timestamp:
                return False
            entries = b"".join(self.ENTRY.pack(time, self._relative(offset)) for time, offset, _ in (*self, largest))
            self._file_system.write_atomically(self._path, entries)
        finally:
            self.close_map()
        return True

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The greatest entry with a timestamp ≤ `timestamp`, (−1, base offset) when there is none.

        Any thread, about 2 µs.
        """
        slot = self._floor_slot(_TIMESTAMP, 0, timestamp)
        return self.entry(slot) if slot >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimestampOffset:
        """The entry in `slot`, 0 ≤ slot < entries. Any thread."""
        timestamp, relative = self._entry_at(slot)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def __iter__(self) -> Iterator[TimestampOffset]:
        base = self.base_offset
        return (TimestampOffset(timestamp, base + relative) for timestamp, relative in self._raw_entries())

    def truncate_to(self, offset: int) -> None:
        """Remove the entries with offsets ≥ `offset`. Writer."""
        if self.entries:
            self._cut(self._floor_slot(_OFFSET, 8, offset - 1 - self.base_offset) + 1)

    def _load_last(self, view: memoryview, count: int) -> None:
        if count:
            timestamp, relative = self.ENTRY.unpack_from(view, (count - 1) * 12)
            self._last = TimestampOffset(timestamp, self.base_offset + relative)
        else:
            self._last = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def sanity_check(self) -> None:
        """Raise CorruptIndexError when size, first or last entry is impossible."""
        self._checked_size()
        if not self.entries:
            return
        first, last = self.entry(0), self._last
        if last.offset < self.base_offset or first.offset < self.base_offset:
            raise CorruptIndexError(f"{self._path}: {first} or {last} lies before the base offset {self.base_offset}")
        if first.timestamp < 0 or last.timestamp < first.timestamp or last.offset < first.offset:
            raise CorruptIndexError(f"{self._path}: last entry {last} is before the first one {first}")

    def verify(self) -> None:
        """`sanity_check` for every entry; reads the whole file. Any thread."""
        self.sanity_check()
        before = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        for slot, entry in enumerate(self):
            if entry.timestamp <= before.timestamp or entry.offset < before.offset:
                raise CorruptIndexError(f"{self._path}: entry {slot} {entry} does not rise above {before}")
            before = entry


assert TimeIndex.ENTRY.size == TimeIndex.ENTRY_SIZE
