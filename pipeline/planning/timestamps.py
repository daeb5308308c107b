"""The first record of a timestamp or later in segment files: what ListOffsets says, without a broker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...storage.index.time_index import TimeIndex
from ...storage.io.filesystem import RealFileSystem
from ...storage.segment.file_records import find_timestamp
from ...storage.segment.names import TIME_INDEX_SUFFIX, file_name
from .sparse_index import start_position

if TYPE_CHECKING:
    from ..reading.segment_files import SegmentFile


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
    """No record below this offset has that timestamp or a later one, says the time index."""
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
