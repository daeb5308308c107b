"""Positions in a segment at which a batch begins, from its `.index` file, and the first record of a time, from its `.timeindex`.

The layout is `storage/index/offset_index.py`'s: an entry names the last offset of the batch that begins at its position. An index
may be missing, end in zeros (it is preallocated while its segment is active), be behind its file, or be that of the file
which cleaning has just replaced. So an entry counts only when the batch at its position says the same; without any, a
segment is read from its start.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.exceptions import RecordError
from ...storage.index.offset_index import OffsetIndex
from ...storage.index.time_index import TimeIndex
from ...storage.io.filesystem import RealFileSystem
from ...storage.segment.file_records import batch_at, find_timestamp
from ...storage.segment.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, file_name

if TYPE_CHECKING:
    from ...storage.io.filesystem import File
    from ..reading.segment_files import SegmentFile


_ENTRY: Struct = OffsetIndex.ENTRY


class Entry(NamedTuple):
    """The batch that begins at `position` ends with `last_offset`."""

    last_offset: int
    position: int


def read_entries(segment: SegmentFile) -> list[Entry]:
    """Entries that look sound, in order: offsets and positions rise, and lie within the file."""
    path = os.path.join(segment.directory, file_name(segment.base_offset, OFFSET_INDEX_SUFFIX))
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    entries: list[Entry] = []
    last, at = -1, -1
    for relative, position in _ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]):
        if relative <= last or position <= at or position >= segment.size:
            break
        entries.append(Entry(segment.base_offset + relative, position))
        last, at = relative, position
    return entries


def begins_batch(file: File, entry: Entry) -> bool:
    """True if the batch at the entry's position is the one that it names."""
    try:
        found = batch_at(file, entry.position)
    except RecordError:
        return False
    return found is not None and found.last_offset == entry.last_offset


def start_position(file: File, segment: SegmentFile, offset: int) -> int:
    """Position from which to read for `offset`: a batch begins there, and none that holds the offset lies before it."""
    below = [entry for entry in read_entries(segment) if entry.last_offset <= offset]
    return below[-1].position if below and begins_batch(file, below[-1]) else 0


def first_at(segments: Sequence[SegmentFile], timestamp: int, start: int, end: int) -> int | None:
    """Offset in [start, end) of the first record with a timestamp >= `timestamp` (ms); None if there is none. Reads
    headers and one batch. Blocks.
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
            position = start_position(file, segment, max(start, _behind(segment, timestamp)))
            found = find_timestamp(file, position, file.size(), timestamp, start, end)
        finally:
            file.close()
        if found is not None:
            return found.offset
    return None


def _behind(segment: SegmentFile, timestamp: int) -> int:
    """Offset below which no record has that timestamp or a later one, by the time index."""
    path = os.path.join(segment.directory, file_name(segment.base_offset, TIME_INDEX_SUFFIX))
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return segment.base_offset
    offset, last = segment.base_offset, -1
    for time, relative in TimeIndex.ENTRY.iter_unpack(data[: len(data) - len(data) % TimeIndex.ENTRY_SIZE]):
        if time <= last or time >= timestamp:  # the room that an active segment has reserved is zeros
            break
        offset, last = segment.base_offset + relative, time
    return offset
