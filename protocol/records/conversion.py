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
Records are read and written by the kernel (`_conversion.pyx`), which keeps no object for them and lets other threads run;
what is said here is which, and in what. Errors are those of `memory_records` and `legacy_record`, which read one record after
the other: the kernel finds the first fault, and they raise for the message that stands there.
Stands above `memory_records`; any thread may call. Bytes are new each time: nothing here changes its input.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from . import _kernel
from .attributes import Compression, TimestampType, attributes_of
from .builder import seal
from .compression import compress
from .exceptions import CorruptRecordError, InvalidRecordError, RecordError, UnsupportedCompressionError
from .legacy_record import (
    MAGIC_V0,
    inner_fault,
    is_intact,
    last_inner_offset,
    read_legacy_header,
    read_legacy_record,
    unwrap,
    wrapped,
)
from .record_batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    to_int64,
)

if TYPE_CHECKING:
    from ._conversion import Messages, Records
    from ._kernel import BatchInfo
    from .legacy_record import LegacyRecord
    from .record_batch import BatchHeader, Buffer

_BEFORE_ALL = -1

MAX_CONVERTED_BYTES = 32 << 20
"""Bytes that one batch may hold to be converted: less than where records are only looked at, since all of it is written anew, and
compressed."""


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
) -> bytes | bytearray:
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
    if header.magic == magic:
        return bytes(memoryview(buffer)[header.position : header.position + header.size])
    if header.is_control and magic < MAGIC_V2:
        return b""
    compression = _codec_for(magic, header.compression if compression is None else compression)
    records = _opened(buffer, header, max_decompressed)
    if not records.count:
        return b""
    if not records.rises:
        raise _does_not_rise(header)
    append_time = header.max_timestamp if header.is_append_time else None
    if magic < MAGIC_V2:
        return messages_of(records, magic, compression, level, append_time=append_time)
    return batch_of(records, compression, level, partition_leader_epoch, append_time=append_time)


def needs_conversion(buffer: Buffer, magic: int) -> bool:
    """True if `buffer`, a slice of a log from a batch's start, holds a whole batch of a newer format than `magic`.
    CorruptRecordError: a size is impossible.
    """
    from ._conversion import first_newer

    return first_newer(buffer, magic)[1]


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
    from ._conversion import plain_run

    parts: list[Buffer] = []
    view = memoryview(buffer)
    converted = 0
    next_offset = -1
    left = sys.maxsize if max_bytes is None else max_bytes
    position, limit = 0, len(buffer)
    while limit - position >= HEADER_UP_TO_MAGIC:
        length: int = OVERHEAD.unpack_from(buffer, position)[1]
        if length >= MIN_MESSAGE_SIZE and LOG_OVERHEAD + length > limit - position:
            break
        header = _read_header(buffer, position, limit)
        if left <= 0:
            break
        end = position + LOG_OVERHEAD + length
        last_offset = header.last_offset
        part: Buffer = b""
        if header.magic <= magic:
            if header.magic < MAGIC_V2:  # and those behind it
                end, last_offset = plain_run(buffer, position, limit, 0, magic, False, left)
            part = view[position:end]
        elif not (header.is_control and magic < MAGIC_V2):
            is_row = False
            if (
                header.magic < MAGIC_V2 and not header.compression
            ):  # those behind it are converted as well, each for itself
                run_end, _ = plain_run(buffer, position, limit, header.magic, header.magic, True)
                is_row = run_end > end
                end = max(end, run_end)
            try:
                compression = _codec_for(magic, header.compression)
                records = _opened(buffer, header, max_decompressed, end)
            except RecordError:
                if not parts:
                    raise
                break
            is_wrapped = compression is not Compression.NONE
            count = 0
            if is_wrapped and records.count_from(first_offset):
                if not records.rises:
                    raise _does_not_rise(header)
                append_time = header.max_timestamp if header.is_append_time else None
                part, count = messages_of(records, magic, compression, None, append_time=append_time), records.count
            # Else compaction took the batch's end: a wrapper that ends below what was asked for is no progress.
            if not is_wrapped or (len(part) > left and not parts):
                row = _unwrapped(records, header, magic, first_offset, left)
                part, count = row.data, row.message_count
                if not row.rises and not is_row:
                    raise _does_not_rise(header)
                if is_row:
                    last_offset = row.looked_at
                    # The limit was reached, or a damaged message, before the end of what can be read.
                    if row.looked_at_count < records.count or records.fault_index >= 0:
                        end = limit
                    _check_row(buffer, records, is_some_made=bool(part or parts))
            converted += count
        next_offset = last_offset + 1
        if part:
            parts.append(part)
            left -= len(part)
        position = end
    return ConvertedRecords(b"".join(parts), converted, next_offset)


def messages_of(
    records: Records,
    magic: int,
    compression: Compression,
    level: int | None,
    *,
    first_offset: int | None = None,
    append_time: int | None = None,
) -> bytes:
    """Write records as messages of format 0 or 1, in one wrapper where there is a codec. Headers are dropped.

    Args:
        records: at least one, whose offsets rise.
        magic: 0 or 1.
        compression: codec of the wrapper, which format `magic` has.
        level: for the codec, None for its default.
        first_offset: the messages count from it; None: they keep their offsets.
        append_time: ms, of all of them in format 1; None: each has its own.
    """
    is_append_time = append_time is not None and magic > MAGIC_V0
    is_wrapped = compression is not Compression.NONE
    base_offset = records.first_offset if first_offset is None else first_offset
    made = records.to_messages(
        magic,
        first_offset=-1 if first_offset is None else first_offset,
        relative_to=base_offset if is_wrapped and magic > MAGIC_V0 else 0,
        is_append_time=is_append_time,
        append_time=NO_TIMESTAMP if append_time is None else append_time,
    )
    if not is_wrapped:
        return made.data
    return wrapped(
        made.data, magic, made.last_offset, made.max_timestamp, compression, level, is_append_time=is_append_time
    )


def batch_of(
    records: Records,
    compression: Compression,
    level: int | None,
    partition_leader_epoch: int,
    *,
    first_offset: int | None = None,
    append_time: int | None = None,
) -> bytearray:
    """Write records of format 0 or 1 as one batch of format 2; arguments as of `messages_of`.

    Raises:
        ValueError: the last offset is beyond 31 bits of the first.
    """
    base_offset = records.first_offset if first_offset is None else first_offset
    last_delta = records.count - 1 if first_offset is not None else records.last_offset - base_offset
    if last_delta >> 31:
        raise ValueError(f"last offset {base_offset + last_delta} does not fit a batch at {base_offset}")
    if append_time is None:
        kind, max_timestamp = TimestampType.CREATE_TIME, max(NO_TIMESTAMP, records.max_timestamp)
    else:
        kind, max_timestamp = TimestampType.LOG_APPEND_TIME, append_time
    number_from = -1 if first_offset is None else first_offset
    if compression is Compression.NONE:
        batch = records.to_batch(number_from)
    else:
        body = records.to_batch(number_from, header_size=0)
        batch = bytearray(RECORD_BATCH_OVERHEAD)
        batch += compress(compression, body, level)
    HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LOG_OVERHEAD, partition_leader_epoch, MAGIC_V2, 0,
        attributes_of(compression, kind), last_delta, records.first_timestamp, max_timestamp,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, records.count,
    )  # fmt: skip
    seal(batch)
    return batch


def open_wrapper(
    message: LegacyRecord, *, from_producer: bool, max_decompressed: int, most: int = sys.maxsize
) -> Records:
    """The records within a wrapper, at most `most` of them; arguments and errors as of `iterate_legacy_records`."""
    from ._conversion import open_messages, walk_wrapped

    data = unwrap(message, max_decompressed)
    stop, last = walk_wrapped(data)
    if stop < len(data):
        last_inner_offset(data, stop)
    base = 0
    if not from_producer:
        if message.magic == MAGIC_V0 and last != message.offset:
            raise InvalidRecordError(f"wrapper at offset {message.offset} ends with the message at offset {last}")
        if message.magic > MAGIC_V0:
            base = to_int64(message.offset - last)
    records = open_messages(
        data,
        0,
        len(data),
        message.magic,
        base_offset=base,
        one_timestamp=message.is_append_time,
        timestamp=message.timestamp,
        check_crc=True,
        must_rise=not from_producer,
        most=most,
    )
    if records.fault_index >= 0:
        raise inner_fault(message, data, records.fault_position, records.fault_index, base)
    return records


def _read_header(buffer: Buffer, position: int, limit: int) -> BatchHeader | BatchInfo:
    """As `memory_records.read_header`, of what is whole."""
    if buffer[position + MAGIC_AT] < MAGIC_V2:
        read_legacy_record(buffer, position, limit)  # for its checks
        return read_legacy_header(buffer, position)
    return _kernel.read_header(buffer, position, limit)


def _opened(buffer: Buffer, header: BatchHeader | BatchInfo, max_decompressed: int, end: int | None = None) -> Records:
    """The records of a batch or message, or of all messages up to `end` or the first damaged one; raises as
    `memory_records.iterate_records`, and CorruptRecordError where a checksum is wrong.
    """
    from ._conversion import open_batch, open_messages

    if header.magic >= MAGIC_V2:
        # What is written anew gets a new checksum, that would be right for damaged bytes too.
        counted = memoryview(buffer)[header.position + ATTRIBUTES_AT : header.position + header.size]
        if _kernel.crc32c(counted) != header.crc:
            raise _wrong_checksum(header)
        return open_batch(buffer, header, max_decompressed)
    end = header.position + header.size if end is None else end
    message = read_legacy_record(buffer, header.position, end)
    if message.is_wrapper:
        if not is_intact(buffer, message):
            raise _wrong_checksum(header)
        return open_wrapper(message, from_producer=False, max_decompressed=max_decompressed)
    records = open_messages(buffer, header.position, end, header.magic, check_crc=True)
    if records.fault_index == 0:
        raise _wrong_checksum(header)
    return records


def _check_row(buffer: Buffer, records: Records, *, is_some_made: bool) -> None:
    """CorruptRecordError if a damaged message ends the row, and nothing was made before it."""
    if records.fault_index >= 0 and not is_some_made:
        raise _wrong_checksum(read_legacy_header(buffer, records.fault_position))


def _unwrapped(
    records: Records, header: BatchHeader | BatchInfo, magic: int, first_offset: int, limit: int
) -> Messages:
    """The records from `first_offset` on as plain messages, until they take `limit` bytes."""
    is_append_time = header.is_append_time and magic > MAGIC_V0
    return records.to_messages(
        magic,
        is_append_time=is_append_time,
        append_time=header.max_timestamp if is_append_time else NO_TIMESTAMP,
        floor=first_offset,
        limit=limit,
    )


def _codec_for(magic: int, codec: int) -> Compression:
    newest = Compression.ZSTD if magic >= MAGIC_V2 else Compression.LZ4
    if codec > newest:
        raise UnsupportedCompressionError(f"message format {magic} has no codec with the id {int(codec)}")
    return Compression(codec)


def _wrong_checksum(header: BatchHeader | BatchInfo) -> CorruptRecordError:
    return CorruptRecordError(f"the checksum of the batch at {header.base_offset} does not match")


def _does_not_rise(header: BatchHeader | BatchInfo) -> InvalidRecordError:
    return InvalidRecordError(f"the offsets of the batch at {header.base_offset} do not rise")
