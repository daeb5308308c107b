"""Batches in a `.log` file: walks headers, finds batches by offset or by time. Reads with pread, writes nothing.

A file is a row of batches with nothing between them (layout: protocol/records/record_batch.py; legacy_record.py for the
messages of formats 0 and 1, each of which counts as a batch here). Walking reads headers in chunks of a few KiB and skips
the bodies of large batches; only a look-up by time opens a batch, and only the one that has the answer. `end` is always
where the caller knows whole batches to stop; bytes behind it are not looked at.

Any thread. Raises CorruptRecordError where a header cannot be one; the log's readers never meet that in bytes that recovery
has checked.

An index has no checksum, and is a hint. A look-up holds its entry against the batch that it names (`is_right`, `agrees`): a
wrong one would hide sound records. The entry before it serves then, and the index is made anew when retention comes by next
(`scan.rebuild_indexes`), or with the next start.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records import _kernel
from ...protocol.records.exceptions import CorruptRecordError
from ...protocol.records.legacy_record import LEGACY_HEADER_SIZE, read_legacy_header
from ...protocol.records.memory_records import iterate_records
from ...protocol.records.record_batch import (
    HEADER,
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    Record,
)
from ..exceptions import CorruptIndexError
from ..index.offset_index import OffsetIndex, OffsetPosition
from ..index.time_index import TimestampOffset
from ..values import NO_TIMESTAMP

if TYPE_CHECKING:
    from ..io.filesystem import File

CHUNK_BYTES = 8192
"""Read size: one index interval (4 KiB) and a small batch, which a look-up walks after the index."""


#: Of a batch header: base offset, batch length, last offset delta; leader epoch, magic, CRC, attributes are between.
_EXTENT = struct.Struct(">qi11xi")

_TRIES = 64
"""Number of index entries that are checked before the walk begins at the segment's start."""


class BatchPosition(NamedTuple):
    """Position and size of a batch in its file, and its last offset."""

    position: int
    size: int
    last_offset: int


def batch_at(file: File, position: int) -> BatchPosition | None:
    """The batch that starts at `position`; None at the end of the file."""
    head = file.pread(RECORD_BATCH_OVERHEAD, position)
    if len(head) >= LEGACY_HEADER_SIZE and head[MAGIC_AT] < MAGIC_V2:
        message = read_legacy_header(head)
        return BatchPosition(position, message.size, message.last_offset)
    if len(head) < RECORD_BATCH_OVERHEAD:
        return None
    base_offset, length, last_offset_delta = _EXTENT.unpack_from(head)
    return BatchPosition(position, LOG_OVERHEAD + length, base_offset + last_offset_delta)


def whole_batch_at(file: File, position: int, end: int, offset: int) -> BatchPosition | None:
    """The batch that starts at `position`; None unless it ends by `end` in the file, and at `offset` or later."""
    head = file.pread(RECORD_BATCH_OVERHEAD, position)
    try:
        found = _kernel.find_batch(head, 0, len(head), offset)
    except CorruptRecordError:
        return None
    if found is None or found[0] or position + found[1] > end:
        return None
    return BatchPosition(position, *found[1:])


def begins_from(file: File, position: int, offset: int) -> bool:
    """True if a batch seems to begin at `position`, with an offset from `offset` on. Any thread; OSError."""
    head = file.pread(HEADER_UP_TO_MAGIC, position)
    if len(head) < HEADER_UP_TO_MAGIC or head[MAGIC_AT] > MAGIC_V2:
        return False
    base_offset, length = OVERHEAD.unpack_from(head)
    return bool(length > 0 and base_offset >= offset)


def read_headers(file: File, position: int, end: int) -> Iterator[BatchHeader]:
    """Iterate over headers of the whole batches in [position, end); a batch that `end` cuts off is left out.

    A message of format 0 or 1 is given as `read_legacy_header` says: of a wrapper only the last offset is known.
    """
    chunk, chunk_start, chunk_end = b"", position, position
    while end - position >= LEGACY_HEADER_SIZE:
        if position + RECORD_BATCH_OVERHEAD > chunk_end < end:
            chunk = file.pread(min(CHUNK_BYTES, end - position), position)
            chunk_start, chunk_end = position, position + len(chunk)
        at = position - chunk_start
        left = chunk_end - position
        if left < LEGACY_HEADER_SIZE:
            return  # the file was truncated under a reader
        if chunk[at + MAGIC_AT] < MAGIC_V2:
            header = read_legacy_header(chunk, at, position)
        else:
            if left < RECORD_BATCH_OVERHEAD:
                return
            base_offset, length, *rest = HEADER.unpack_from(chunk, at)
            header = BatchHeader(position, LOG_OVERHEAD + length, base_offset, *rest)
            if header.size < RECORD_BATCH_OVERHEAD or header.magic != MAGIC_V2:
                raise CorruptRecordError(
                    f"{file.path}: a batch of format {header.magic} and {header.size} bytes at {position}"
                )
        if header.size > end - position:
            return
        yield header
        position += header.size


def ends_at(head: bytes, last_offset: int) -> bool:
    """True if a batch, or message of format 0 or 1, begins at `head` whose last offset is `last_offset`, as an index
    entry claims.
    """
    size = len(head)
    if size >= RECORD_BATCH_OVERHEAD and head[MAGIC_AT] == MAGIC_V2:
        base_offset, _, last_offset_delta = _EXTENT.unpack_from(head)
        return bool(base_offset + last_offset_delta == last_offset)
    if size < LEGACY_HEADER_SIZE or head[MAGIC_AT] >= MAGIC_V2:
        return False
    try:
        return read_legacy_header(head).last_offset == last_offset
    except CorruptRecordError:
        return False  # any bytes: the entry may be wrong


def find_batch(
    file: File, position: int, end: int, target_offset: int, indexed: int | None = None
) -> BatchPosition | None:
    """The first whole batch in [position, end) whose last offset is >= `target_offset`; `position` is a batch's start.

    `indexed`: the last offset that an index says of the batch at `position`. CorruptIndexError: it is none that ends there.
    """
    while position < end:
        chunk = file.pread(min(CHUNK_BYTES, end - position), position)
        if indexed is not None:
            if not ends_at(chunk, indexed):
                raise CorruptIndexError(f"{file.path}: no batch that ends at offset {indexed} begins at {position}")
            indexed = None
        found = _kernel.find_batch(chunk, 0, len(chunk), target_offset)
        if found is not None:
            at, size, last = found
            return BatchPosition(position + at, size, last) if position + at + size <= end else None
        step = _kernel.next_batch_position(chunk, 0, len(chunk))
        if step == 0:  # not even a header is left
            return None
        position += step
    return None


def is_filled(file: File, position: int, end: int) -> bool:
    """True if batches fill [position, end), by what their headers say; `position` is a batch's start."""
    while position < end:
        chunk = file.pread(min(CHUNK_BYTES, end - position), position)
        step = _kernel.next_batch_position(chunk, 0, len(chunk))
        if step == 0:
            return False
        position += step
    return position == end


def last_offset(file: File, position: int, end: int) -> int | None:
    """Last offset of the last whole batch in [position, end)."""
    last: int | None = None
    for header in read_headers(file, position, end):
        last = header.last_offset
    return last


def count_records(file: File, position: int, end: int) -> int:
    """Number of records in [position, end), from batch headers; only wrappers of formats 0 and 1 are opened."""
    count = 0
    for header in read_headers(file, position, end):
        if header.magic >= MAGIC_V2:
            count += header.record_count
        else:
            count += sum(1 for _ in read_records(file, header)) if header.compression else 1
    return count


def largest_timestamp(file: File, position: int, end: int) -> TimestampOffset:
    """Largest batch timestamp, and the last offset of the first batch that has it: the content of a time index entry."""
    largest = TimestampOffset(NO_TIMESTAMP, -1)
    for header in read_headers(file, position, end):
        if header.max_timestamp > largest.timestamp:
            largest = TimestampOffset(header.max_timestamp, header.last_offset)
    return largest


def largest_timestamp_of_all(file: File, end: int) -> TimestampOffset | None:
    """`largest_timestamp` of the whole file, if batches fill it up to `end`; None where damage ends the walk."""
    largest, position = TimestampOffset(NO_TIMESTAMP, -1), 0
    try:
        for header in read_headers(file, 0, end):
            position = header.position + header.size
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
    except CorruptRecordError:
        return None
    return largest if position == end else None


def read_records(file: File, header: BatchHeader) -> Iterator[Record]:
    """Iterate over the records of one batch of any format, decompressed; none if truncation has cut it off since its
    header was read.
    """
    batch = file.pread(header.size, header.position)
    return iterate_records(batch) if len(batch) == header.size else iter(())


def find_timestamp(
    file: File, position: int, end: int, timestamp: int, start_offset: int, limit_offset: int
) -> TimestampOffset | None:
    """The first record with a timestamp >= `timestamp` and an offset in [start_offset, limit_offset)."""
    for header in read_headers(file, position, end):
        if _begins_behind(header, limit_offset):
            return None
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        found = find_in_batch(file, header, timestamp, start_offset)
        if found is not None:
            return TimestampOffset(*found, header.partition_leader_epoch) if found[1] < limit_offset else None
    return None


def _begins_behind(header: BatchHeader, limit_offset: int) -> bool:
    """True if no record of the batch can lie below the limit; for a wrapper that shows only when it is opened."""
    return header.base_offset >= limit_offset and (header.magic >= MAGIC_V2 or not header.compression)


def find_in_batch(file: File, header: BatchHeader, timestamp: int, start_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the first record in the batch with a timestamp >= `timestamp` and an offset >= `start_offset`."""
    if header.magic >= MAGIC_V2:
        batch = file.pread(header.size, header.position)
        if len(batch) < header.size:  # truncation has cut it off since its header was read
            return None
        return _kernel.find_timestamp(batch, 0, len(batch), timestamp, start_offset)
    for record in read_records(file, header):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset
    return None


def find_largest_timestamp(
    file: File, position: int, end: int, start_offset: int, limit_offset: int
) -> TimestampOffset | None:
    """The first record that has the largest timestamp of those with an offset in [start_offset, limit_offset)."""
    best: TimestampOffset | None = None
    for header in read_headers(file, position, end):
        if _begins_behind(header, limit_offset):
            break
        if header.last_offset < start_offset:
            continue
        if best is not None and header.max_timestamp <= best.timestamp:
            continue
        for record in read_records(file, header):
            if start_offset <= record.offset < limit_offset and (best is None or record.timestamp > best.timestamp):
                best = TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return best


def is_right(file: File, entry: OffsetPosition) -> bool:
    """True if the batch at the entry's position ends at its offset. Any thread; OSError."""
    return ends_at(file.pread(RECORD_BATCH_OVERHEAD, entry.position), entry.offset)


def size_of_right(file: File, entry: OffsetPosition) -> int | None:
    """Bytes of the batch at the entry's position if it ends at the entry's offset; else None. Any thread; OSError."""
    found = batch_at(file, entry.position)
    return found.size if found is not None and found.last_offset == entry.offset else None


def floor_position(file: File, index: OffsetIndex, offset: int, end: int) -> int:
    """Position of the batch named by the greatest right entry at or below `offset`; 0 if none of the last ones is
    right.
    """
    below = [entry for entry in index if entry.offset <= offset and 0 <= entry.position < end]
    return next((entry.position for entry in below[: -_TRIES - 1 : -1] if is_right(file, entry)), 0)


def agrees(file: File, position: int, end: int, entry: TimestampOffset) -> bool:
    """True unless the batch at the time index entry's offset, at or behind `position`, has another largest timestamp than the
    entry. One whose checksum is wrong may have any, and contradicts nothing.
    """
    found = find_batch(file, position, end, entry.offset)
    if found is None:
        return False
    headers = read_headers(file, found.position, found.position + found.size)
    return any(header.max_timestamp == entry.timestamp for header in headers) or _is_damaged(file, found)


def _is_damaged(file: File, found: BatchPosition) -> bool:
    """True if the batch's checksum is wrong; False if it is larger than what is read for that."""
    from .batch_walk import LARGEST_BATCH, computed_crc, stored_crc  # hardly ever needed

    if found.size > LARGEST_BATCH:
        return False
    batch = file.pread(found.size, found.position)
    if len(batch) < found.size:  # truncation has cut it off since its header was read
        return False
    return stored_crc(batch, batch[MAGIC_AT]) != computed_crc(batch, batch[MAGIC_AT])
