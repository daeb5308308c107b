"""Walks and opens batches of every message format in one buffer, as a log or a fetch response holds them.

    iterate_batches   the headers, in order; a message of format 0 or 1 (a wrapper too) counts as a batch
    iterate_records   what is in one of them: a batch's records, a message, or the messages within a wrapper
    is_intact         its checksum, whichever its format has

Stands above `record_batch` (format 2, whose records the kernel decodes) and `legacy_record` (0 and 1), which have the
bytes. Any thread may call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._kernel import decode_records
from .compression import DEFAULT_MAX_BYTES
from .crc import crc32, crc32c
from .legacy_record import MAGIC_AT as LEGACY_CRC_FROM
from .legacy_record import iterate_legacy_records, read_legacy_header, read_legacy_record
from .record_batch import (
    ATTRIBUTES_AT,
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_SIZE,
    OVERHEAD,
    BatchHeader,
    Record,
    read_batch_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .record_batch import Buffer


def read_header(buffer: Buffer, position: int = 0, end: int | None = None) -> BatchHeader:
    """Read the header of the batch or message at `position`, which must end before `end`. No checksum is verified.

    For formats 0 and 1 see `legacy_record.read_legacy_header`: base_offset is the last offset there.

    Raises:
        CorruptRecordError: size or magic are impossible, or it is cut off.
    """
    limit = len(buffer) if end is None else end
    if _is_legacy(buffer, position, limit):
        read_legacy_record(buffer, position, limit)  # for its checks
        return read_legacy_header(buffer, position)
    return read_batch_header(buffer, position, limit)


def _is_legacy(buffer: Buffer, position: int, limit: int) -> bool:
    is_there = position >= 0 and limit <= len(buffer) and limit - position >= HEADER_UP_TO_MAGIC
    return is_there and buffer[position + MAGIC_AT] < MAGIC_V2


def iterate_batches(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
    """Iterate over headers of the whole batches and messages in [position, end), in order. A batch that is cut off ends
    the iteration, as the last one of a fetch response may be; an impossible size raises as in `read_header`.
    """
    limit = len(buffer) if end is None else end
    while limit - position >= HEADER_UP_TO_MAGIC:
        _, length = OVERHEAD.unpack_from(buffer, position)
        if length >= MIN_MESSAGE_SIZE and LOG_OVERHEAD + length > limit - position:
            return
        header = read_header(buffer, position, limit)
        yield header
        position += header.size


def iterate_records(
    buffer: Buffer, position: int = 0, end: int | None = None, *, max_decompressed: int = DEFAULT_MAX_BYTES
) -> Iterator[Record]:
    """Iterate over the records of the batch or message at `position`, decompressed, with their offsets in the log.

    The outer checksum is not looked at; those of messages within a wrapper are. Control records are given like others:
    the header says that they are.

    Raises:
        CorruptRecordError, InvalidRecordError: it, or something within it, is broken.
        UnsupportedCompressionError, RecordTooLargeError: as `decompress`.
    """
    limit = len(buffer) if end is None else end
    if _is_legacy(buffer, position, limit):
        message = read_legacy_record(buffer, position, limit)
        yield from iterate_legacy_records(message, max_decompressed=max_decompressed)
        return
    yield from decode_records(buffer, position, limit, max_decompressed)


def is_intact(buffer: Buffer, header: BatchHeader) -> bool:
    """True if the checksum is right: CRC-32C from the attributes on in format 2, CRC-32 from the magic on in 0 and 1.

    `header.position` is that in `buffer`. Lets other threads run while it works on a large batch.
    """
    view = memoryview(buffer)
    if header.magic < MAGIC_V2:
        return crc32(view[header.position + LEGACY_CRC_FROM : header.position + header.size]) == header.crc
    return crc32c(view[header.position + ATTRIBUTES_AT : header.position + header.size]) == header.crc
