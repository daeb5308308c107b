"""The values that cross the borders of the storage engine: answers to an append, a read, a look-up, a load and a deletion.

All are immutable. Offsets are record offsets, positions and sizes are bytes, times are milliseconds since 1970 (UTC),
-1 where there is none.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .index.time_index import TimestampOffset as TimestampOffset

if TYPE_CHECKING:
    from .io.filesystem import File

NO_TIMESTAMP = -1
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
"""Indexes keep offset - baseOffset in 31 bits, so no segment spans more."""


class AppendOrigin(Enum):
    """Origin of an append. A client's batch is checked for sequence and duplicates, and comes alone."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class LogAppendInfo(NamedTuple):
    """The answer to an append.

    `log_append_time` is -1 under CreateTime. For a duplicate (`duplicate` is True, nothing was written) offsets and time
    are those of the batch that is in the log already.
    """

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    record_count: int
    size: int
    duplicate: bool


class LogOffsetMetadata(NamedTuple):
    """An offset, and the place in the files where a batch with that base offset starts (or will)."""

    offset: int
    segment_base_offset: int
    position: int


class FetchDataInfo(NamedTuple):
    """A slice of one segment file: whole batches from the one that holds `offset` on, the last perhaps cut by max_bytes.

    `file` is a lease on the open file, or None when there is nothing to read (`size` is 0 then). The caller calls
    `release()` exactly once when the bytes are sent; until then retention may unlink the file but its bytes stay readable.
    """

    offset: int
    file: File | None
    position: int
    size: int
    segment_base_offset: int = -1
    on_older_segment: bool = False
    """The read's limit lies in a later segment: what is asked for next is there already, whatever `size` is."""

    def release(self) -> None:
        """Give the lease back. Any thread."""
        if self.file is not None:
            self.file.release()


class SegmentView(NamedTuple):
    """Facts of a segment for retention, metrics and `why`; no handle on its files."""

    base_offset: int
    next_base_offset: int
    """Base offset of the segment after it; logEndOffset for the active one."""
    size: int
    largest_timestamp: int
    """Largest timestamp of its records; the file's modification time where no record has one."""
    is_active: bool
    modified_ms: int = NO_TIMESTAMP
    """Time of the last write to its `.log` file. Recovery, trimming and cleaning leave it as it was."""


class HeldSegments(NamedTuple):
    """Some of a log's segments: bytes of their `.log` files, and how many offsets they span."""

    bytes: int
    offsets: int


class RecoveryStats(NamedTuple):
    """Cost and findings of loading a log. `bytes_scanned` counts bytes of batches that were read and checked."""

    segments_recovered: int = 0
    bytes_scanned: int = 0
    bytes_truncated: int = 0
    segments_removed: int = 0
    indexes_rebuilt: int = 0
    holes: int = 0

    def plus(self, other: RecoveryStats) -> RecoveryStats:
        return RecoveryStats(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))
