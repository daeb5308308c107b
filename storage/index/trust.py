"""Decides which index entries to trust: those whose batch is where they say. An index has no checksum, and is a hint.

A look-up holds its entry against the batch that it names (`LogSegment`). One that is wrong would hide sound records; the entry
before it serves then, and the index is made anew when retention comes by next, or with the next start.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.records.record_batch import RECORD_BATCH_OVERHEAD
from ..segment import file_records
from ..segment import scan as segment_scan
from .offset_index import OffsetPosition

if TYPE_CHECKING:
    from ..io.filesystem import File
    from ..segment.files import LogDirectory, SegmentFiles
    from ..segment.log_segment import LogSegment
    from .time_index import TimestampOffset

logger = logging.getLogger(__name__)

_TRIES = 64
"""Number of entries that are checked before the walk begins at the segment's start."""


def is_right(file: File, entry: OffsetPosition) -> bool:
    """True if the batch at the entry's position ends at its offset. Any thread; OSError."""
    return file_records.ends_at(file.pread(RECORD_BATCH_OVERHEAD, entry.position), entry.offset)


def floor_position(files: SegmentFiles, offset: int, end: int) -> int:
    """Position of the batch named by the greatest right entry at or below `offset`; 0 if none of the last ones is
    right.
    """
    below = [entry for entry in files.offset_index if entry.offset <= offset and 0 <= entry.position < end]
    return next((entry.position for entry in below[: -_TRIES - 1 : -1] if is_right(files.file, entry)), 0)


def agrees(file: File, position: int, end: int, entry: TimestampOffset) -> bool:
    """True if the batch at the time index entry's offset, at or behind `position`, has the entry's timestamp as its
    largest.
    """
    found = file_records.find_batch(file, position, end, entry.offset)
    if found is None:
        return False
    headers = file_records.read_headers(file, found.position, found.position + found.size)
    return any(header.max_timestamp == entry.timestamp for header in headers)


def rebuild(directory: LogDirectory, segment: LogSegment) -> bool:
    """Rewrite both indexes of a closed segment, durably. Under the log's deletion lock; blocks. OSError.

    False: its log is damaged itself, so that they would be no better.
    """
    scanner = segment_scan.scan_segment(directory, segment, check_crc=False)
    if scanner.valid_bytes < segment.size:
        return False
    segment_scan.write_indexes(directory, segment, scanner, durable=True)
    segment.abandon()
    logger.info("%s: made the indexes of segment %d anew", directory.path, segment.base_offset)
    return True
