"""Converts between message formats: batches of format 2, messages and wrappers of formats 0 and 1.

    what is lost          to 2          to 1                          to 0
        from 0            -             - (timestamp −1)              -
        from 1            -             -                             timestamps
        from 2            -             headers, producer, epoch,     the same, and timestamps
                                        control batches, empty ones
    what is kept          offsets, keys, values, the codec; timestamps and their type where both formats have them

A batch of format 2 is converted to the 0 or 1 of its topic's `message.format.version` (`convert_batch`), a fetch of an old
version to what its client can read (`down_convert`). Message sets of producers are converted, up too, where they are checked:
`storage/log/validator.py`.
Stands above `memory_records`; any thread may call. Bytes are new each time: nothing here changes its input.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from .attributes import Compression
from .builder import build_batch
from .exceptions import CorruptRecordError, InvalidRecordError, RecordError, UnsupportedCompressionError
from .legacy_record import build_legacy_set, legacy_record_size
from .memory_records import iterate_batches, iterate_records
from .record_batch import (
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    OVERHEAD,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .record_batch import BatchHeader, Buffer, Record

_BEFORE_ALL = -1

# A record that is converted becomes an object of some 250 bytes for a while, however small it is: so what one batch may
# hold is less than where records are only looked at.
MAX_CONVERTED_BYTES = 32 << 20


class ConvertedRecords(NamedTuple):
    """Result of `down_convert` for a slice of a log.

    Attributes:
        data: what the client gets; may be empty though the slice was not (control batches alone, say).
        record_count: records that were written anew; 0 when all were fit as they were.
        next_offset: offset behind the last batch that was looked at, dropped ones too: where to read on when `data` is
            empty. −1 when none was whole.
    """

    data: bytes
    record_count: int
    next_offset: int


def convert_batch(
    buffer: Buffer,
    header: BatchHeader,
    magic: int,
    *,
    compression: Compression | None = None,
    level: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    max_decompressed: int = MAX_CONVERTED_BYTES,
) -> bytes:
    """Convert one batch, wrapper or message to format `magic`, at the same offsets.

    From format 2 without a codec come as many messages as there are records. A control batch, and an empty one, has no
    form in formats 0 and 1: no bytes.

    Args:
        buffer: where it is.
        header: from `memory_records.iterate_batches`; its position is that in `buffer`.
        magic: 0, 1 or 2. The format that it has already gives a plain copy, whatever the other arguments say.
        compression: another codec for it; None keeps its own.
        level: for the codec, None for its default.
        partition_leader_epoch: of a batch made from older messages.
        max_decompressed: bytes that it may hold.

    Raises:
        UnsupportedCompressionError: zstd in format 0 or 1.
        CorruptRecordError, InvalidRecordError, RecordTooLargeError: it can't be read.
    """
    end = header.position + header.size
    if header.magic == magic:
        return bytes(memoryview(buffer)[header.position : end])
    if header.is_control and magic < MAGIC_V2:
        return b""
    compression = _codec_for(magic, header.compression if compression is None else compression)
    records = list(iterate_records(buffer, header.position, end, max_decompressed=max_decompressed))
    return _build(records, header, magic, compression, level, partition_leader_epoch)


def needs_conversion(buffer: Buffer, magic: int) -> bool:
    """True if `buffer`, a slice of a log from a batch's start, holds a whole batch of a newer format than `magic`.
    CorruptRecordError: a size is impossible.
    """
    position, end = 0, len(buffer)
    while end - position >= HEADER_UP_TO_MAGIC:
        _, length = OVERHEAD.unpack_from(buffer, position)
        if length < MIN_MESSAGE_SIZE:
            raise CorruptRecordError(f"a batch of {length} bytes at {position}")
        following = position + LOG_OVERHEAD + length
        if following > end:
            break
        if buffer[position + MAGIC_AT] > magic:
            return True
        position = following
    return False


def down_convert(
    buffer: Buffer,
    magic: int,
    first_offset: int = _BEFORE_ALL,
    *,
    max_bytes: int | None = None,
    max_decompressed: int = MAX_CONVERTED_BYTES,
) -> ConvertedRecords:
    """Convert a slice of a log for a client that knows formats up to `magic`: newer batches are converted, older ones
    copied.

    Fetch versions 0 and 1 want format 0, versions 2 and 3 format 1. A batch that the slice cuts off is left out.

    Args:
        buffer: the slice, from a batch's start.
        magic: the newest format that the client reads.
        first_offset: the offset that it asked for. Records below it in a batch without a codec are left out: as messages
            they would stand alone, and some clients (librdkafka) take them for new ones. Within a wrapper they stay,
            unless there are no others.
        max_bytes: what the client takes: there is no use in converting more, so that the answer ends with the message
            that reaches it. A wrapper that is larger than that comes unpacked, where it is the first: a client of that
            age is given no more than it asked for, and would not get past a wrapper that it gets the beginning of.
        max_decompressed: bytes that one batch may hold.

    Raises:
        UnsupportedCompressionError: a batch in zstd, which no client of that age can read.
        CorruptRecordError, InvalidRecordError, RecordTooLargeError: a batch can't be read.
        What stands before such a batch is returned first.
    """
    parts: list[bytes] = []
    converted = 0
    next_offset = -1
    left = sys.maxsize if max_bytes is None else max_bytes
    for header in iterate_batches(buffer):
        if left <= 0:
            break
        end = header.position + header.size
        if header.magic <= magic:
            part = bytes(memoryview(buffer)[header.position : end])
        elif header.is_control and magic < MAGIC_V2:
            part = b""
        else:
            try:
                compression = _codec_for(magic, header.compression)
                records = list(iterate_records(buffer, header.position, end, max_decompressed=max_decompressed))
            except RecordError:
                if not parts:
                    raise
                break
            wanted = [record for record in records if record.offset >= first_offset]
            if not wanted:
                records = []  # compaction took the batch's end: a wrapper that ends below what was asked for is no progress
            if compression is not Compression.NONE:
                part = _build(records, header, magic, compression, None, NO_PARTITION_LEADER_EPOCH)
            if compression is Compression.NONE or (len(part) > left and not parts and wanted):
                records = _up_to(left, wanted, magic)
                part = _build(records, header, magic, Compression.NONE, None, NO_PARTITION_LEADER_EPOCH)
            converted += len(records)
        next_offset = header.last_offset + 1
        if part:
            parts.append(part)
            left -= len(part)
    return ConvertedRecords(b"".join(parts), converted, next_offset)


def _up_to(max_bytes: int, records: list[Record], magic: int) -> list[Record]:
    """The first records, until they take `max_bytes` as uncompressed messages."""
    for index, record in enumerate(records):
        max_bytes -= legacy_record_size(magic, record.key, record.value)
        if max_bytes <= 0:
            return records[: index + 1]
    return records


def _codec_for(magic: int, codec: int) -> Compression:
    newest = Compression.ZSTD if magic >= MAGIC_V2 else Compression.LZ4
    if codec > newest:
        raise UnsupportedCompressionError(f"message format {magic} has no codec with the id {int(codec)}")
    return Compression(codec)


def _build(
    records: Sequence[Record],
    header: BatchHeader,
    magic: int,
    compression: Compression,
    level: int | None,
    partition_leader_epoch: int,
) -> bytes:
    if not records:
        return b""
    offsets = [record.offset for record in records]
    if offsets[0] < 0 or any(offset <= before for before, offset in pairwise(offsets)):
        raise InvalidRecordError(f"the offsets of the batch at {header.base_offset} do not rise")
    append_time = header.max_timestamp if header.is_append_time else NO_TIMESTAMP
    if magic < MAGIC_V2:
        return build_legacy_set(
            records,
            magic=magic,
            base_offset=offsets[0],
            offsets=offsets,
            compression=compression,
            level=level,
            timestamp_type=header.timestamp_type,
            append_time=append_time,
        )
    return build_batch(
        records,
        base_offset=offsets[0],
        offsets=offsets,
        compression=compression,
        level=level,
        timestamp_type=header.timestamp_type,
        append_time=append_time,
        partition_leader_epoch=partition_leader_epoch,
    )
