"""Messages of formats 0 and 1 (Kafka before 0.10 and before 0.11): the bytes, a reader and a writer.

    format 0    0        8      12    16    17           18
                +--------+------+-----+-----+------------+-----------+-----+-------------+-------+
                | offset | size | crc |magic| attributes | keyLength | key | valueLength | value |
                |        |      |     | = 0 |            |           |     |             |       |
                +--------+------+-----+-----+------------+-----------+-----+-------------+-------+
    format 1    0        8      12    16    17           18          26
                +--------+------+-----+-----+------------+-----------+-----------+-----+-------------+-------+
                | offset | size | crc |magic| attributes | timestamp | keyLength | key | valueLength | value |
                |        |      |     | = 1 |            |           |           |     |             |       |
                +--------+------+-----+-----+------------+-----------+-----------+-----+-------------+-------+
    All integers big-endian and signed, but the crc. `size` counts what follows it: at least 14 bytes in format 0 and 22 in
    format 1, so a message takes at least 26 and 34. A length of −1 is null. crc is CRC-32 (zlib's) over everything from
    the magic on. Attributes: bits 0–2 codec (0 none, 1 gzip, 2 snappy, 3 lz4); bit 3, in format 1 only, says that the
    timestamp is the log's append time. The rest is unused.

    wrapper     a message with a codec: its key is null, its value is one compressed stream of messages of the same
                format, none of which is a wrapper. Its offset is that of its last inner message in the log.
                                  format 0             format 1
        inner offsets             absolute             relative: wrapper.offset − last inner offset is to be added
        wrapper's timestamp       (none)               CreateTime: the greatest of the inner ones
                                                       LogAppendTime: the broker's; the inner ones mean nothing
        lz4 header check byte     the historical one   the right one; see `lz4_header`

    Format 2 shares the outline of the first 17 bytes (offset, size, and the magic at 16): see `record_batch`.

Stands beside `record_batch` and `builder` in protocol.records: `memory_records` walks a buffer that has all formats in
it, `conversion` makes one format of another, by its kernel: what is here reads and writes one by one, and says what is
wrong. Any thread may call: nothing here keeps state.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .attributes import COMPRESSION_MASK, TIMESTAMP_TYPE_MASK, Compression, TimestampType, attributes_of
from .compression import DEFAULT_MAX_BYTES, compress, decompress
from .crc import crc32
from .exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    RecordError,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from .lz4_header import with_historical_check, with_right_check
from .record_batch import (
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    OVERHEAD,
    BatchHeader,
    Record,
    to_int64,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .builder import RecordLike
    from .record_batch import Buffer

HEADER_V0 = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size
    "I"  # crc
    "B"  # magic
    "B"  # attributes
)
HEADER_V1 = struct.Struct(HEADER_V0.format + "q")  # timestamp
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_OFFSET = struct.Struct(">q")
_TIMESTAMP = struct.Struct(">q")

MAGIC_V0 = 0
MAGIC_V1 = 1

CRC_AT = 12
MAGIC_AT = 16
ATTRIBUTES_AT = 17
TIMESTAMP_AT = 18
KEY_LENGTH_AT = (18, 26)  # by magic

# `size` of a message with null key and null value, by magic.
RECORD_OVERHEAD = (14, 22)

assert HEADER_V0.size == KEY_LENGTH_AT[MAGIC_V0] == TIMESTAMP_AT
assert HEADER_V1.size == KEY_LENGTH_AT[MAGIC_V1]
assert LOG_OVERHEAD == OVERHEAD.size == CRC_AT
assert all(
    LOG_OVERHEAD + overhead == key_at + 2 * _LENGTH.size
    for overhead, key_at in zip(RECORD_OVERHEAD, KEY_LENGTH_AT, strict=True)
)
assert (LOG_OVERHEAD + RECORD_OVERHEAD[MAGIC_V0], LOG_OVERHEAD + RECORD_OVERHEAD[MAGIC_V1]) == (26, 34)
# So the fixed part of either format can be read wherever the smallest message fits.
LEGACY_HEADER_SIZE = HEADER_V1.size
assert LOG_OVERHEAD + RECORD_OVERHEAD[MAGIC_V0] >= LEGACY_HEADER_SIZE

_INT32_MAX = 0x7FFF_FFFF


class LegacyRecord(NamedTuple):
    """A message as it stands in a log or a message set: a record, or a wrapper around records.

    Attributes:
        position: where it starts in its buffer.
        size: bytes it takes there, offset and size fields included.
        offset: as written; of a message within a format 1 wrapper it is relative.
        magic: 0 or 1.
        crc: as written; see `is_intact`.
        attributes: as written.
        timestamp: ms since the epoch; −1 for none, and in format 0.
        key, value: views of the buffer; None for null.
    """

    position: int
    size: int
    offset: int
    magic: int
    crc: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None

    @property
    def compression(self) -> int:
        """Codec id: 0 to 3 are `Compression`; the other values are undefined in these formats."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_wrapper(self) -> bool:
        """True if the value holds compressed messages."""
        return self.compression != Compression.NONE

    @property
    def is_append_time(self) -> bool:
        """True if the broker set the timestamp, for all inner messages too. Never in format 0, where the bit is
        undefined.
        """
        return self.magic > MAGIC_V0 and bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """Clock of the timestamps; CREATE_TIME in format 0, which has no timestamps."""
        return TimestampType.LOG_APPEND_TIME if self.is_append_time else TimestampType.CREATE_TIME


def legacy_record_size(magic: int, key: Buffer | None, value: Buffer | None) -> int:
    """Size in bytes of one message with this key and value, offset and size fields included."""
    return LOG_OVERHEAD + RECORD_OVERHEAD[magic] + len(key or b"") + len(value or b"")


def read_legacy_record(buffer: Buffer, position: int = 0, end: int | None = None) -> LegacyRecord:
    """Read the message at `position`, which must end before `end`. The checksum is not verified.

    Raises:
        CorruptRecordError: size, magic or lengths are impossible, or the message is cut off.
        UnsupportedFormatError: a batch of format 2.
    """
    limit = len(buffer) if end is None else end
    if position < 0 or limit > len(buffer) or limit - position < HEADER_UP_TO_MAGIC:
        raise CorruptRecordError(f"no message in the {limit - position} bytes at {position}")
    _, counted = OVERHEAD.unpack_from(buffer, position)
    magic = buffer[position + MAGIC_AT]
    if magic > MAGIC_V2:
        raise CorruptRecordError(f"no message format has the magic {magic}")
    if magic == MAGIC_V2:
        raise UnsupportedFormatError("message format 2 where format 0 or 1 is required")
    if counted < RECORD_OVERHEAD[magic]:
        raise CorruptRecordError(f"message size {counted} is less than any of format {magic} has")
    size = LOG_OVERHEAD + counted
    if size > limit - position:
        raise CorruptRecordError(f"message of {size} bytes is cut off after {limit - position}")
    timestamp = NO_TIMESTAMP
    if magic == MAGIC_V0:
        offset, _, crc, _, attributes = HEADER_V0.unpack_from(buffer, position)
    else:
        offset, _, crc, _, attributes, timestamp = HEADER_V1.unpack_from(buffer, position)
    view = memoryview(buffer)
    stop = position + size
    key, at = _read_nullable(view, position + KEY_LENGTH_AT[magic], stop - _LENGTH.size)
    value, at = _read_nullable(view, at, stop)
    if at != stop:
        raise CorruptRecordError(f"message has {stop - at} bytes behind its value")
    return LegacyRecord(position, size, offset, magic, crc, attributes, timestamp, key, value)


def read_legacy_header(buffer: Buffer, position: int = 0, offset_in_file: int | None = None) -> BatchHeader:
    """Read the message at `position` as a BatchHeader, for code that walks over batches of all formats.

    Only LEGACY_HEADER_SIZE bytes of it need be there. The base offset is the *last* offset too: the first one of a
    wrapper is known only when it is opened. The record count is 1, of a wrapper −1: not known either. There is no
    producer and no epoch, and of the attributes only what the format defines is left.

    Args:
        buffer: holds the message's first bytes.
        position: where they begin.
        offset_in_file: becomes the header's `position`, where that is another.

    Raises:
        CorruptRecordError: size or magic are impossible, or there are too few bytes.
    """
    if position < 0 or len(buffer) - position < LEGACY_HEADER_SIZE:
        raise CorruptRecordError(f"no message in the {len(buffer) - position} bytes at {position}")
    offset, counted, crc, magic, attributes, timestamp = HEADER_V1.unpack_from(buffer, position)
    if magic > MAGIC_V1:
        raise CorruptRecordError(f"no message of format 0 or 1 has the magic {magic}")
    if counted < RECORD_OVERHEAD[magic]:
        raise CorruptRecordError(f"message size {counted} is less than any of format {magic} has")
    if magic == MAGIC_V0:
        timestamp = NO_TIMESTAMP
        attributes &= COMPRESSION_MASK
    else:
        attributes &= COMPRESSION_MASK | TIMESTAMP_TYPE_MASK
    return BatchHeader(
        position if offset_in_file is None else offset_in_file,
        LOG_OVERHEAD + counted,
        offset,
        NO_PARTITION_LEADER_EPOCH,
        magic,
        crc,
        attributes,
        0,
        timestamp,
        timestamp,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        -1 if attributes & COMPRESSION_MASK else 1,
    )


def is_intact(buffer: Buffer, record: LegacyRecord) -> bool:
    """True if the message's checksum is right. Releases the GIL for a large message."""
    return crc32(memoryview(buffer)[record.position + MAGIC_AT : record.position + record.size]) == record.crc


def iterate_legacy_messages(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[LegacyRecord]:
    """Iterate over the whole messages in [position, end), in order, wrappers unopened. A message that is cut off ends
    the iteration, as the last one of a fetch response may be; an impossible size raises as in `read_legacy_record`.
    """
    limit = len(buffer) if end is None else end
    while limit - position >= HEADER_UP_TO_MAGIC:
        _, counted = OVERHEAD.unpack_from(buffer, position)
        if counted >= RECORD_OVERHEAD[MAGIC_V0] and LOG_OVERHEAD + counted > limit - position:
            return
        record = read_legacy_record(buffer, position, limit)
        yield record
        position += record.size


def iterate_legacy_records(
    record: LegacyRecord, *, from_producer: bool = False, max_decompressed: int = DEFAULT_MAX_BYTES
) -> Iterator[Record]:
    """Iterate over the records of a message: itself, or those within the wrapper, in order. Verifies the checksums of
    inner messages, not that of the message itself.

    Args:
        record: from `read_legacy_record`.
        from_producer: the offsets of a wrapper and of what is in it were chosen by a client, many of which leave them 0:
            they are not checked, and mean nothing.
        max_decompressed: bytes that the wrapper may hold.

    Raises:
        InvalidRecordError: the wrapper breaks the ruler above; `record_index` names the inner message.
        CorruptRecordError: an inner message, or the compressed data, is broken.
        UnsupportedCompressionError, RecordTooLargeError: as `decompress`; zstd came with format 2.
    """
    if not record.is_wrapper:
        yield _as_record(record, record.offset, record.timestamp)
        return
    data = unwrap(record, max_decompressed)
    last = last_inner_offset(data)
    base = 0
    if not from_producer:
        if record.magic == MAGIC_V0 and last != record.offset:
            raise InvalidRecordError(f"wrapper at offset {record.offset} ends with the message at offset {last}")
        if record.magic > MAGIC_V0:
            base = record.offset - last
    previous = -1
    position = index = 0
    while position < len(data):
        inner = read_legacy_record(data, position)
        offset = to_int64(base + inner.offset)
        _check_inner(record, inner, data, index)
        if not from_producer:
            if offset <= previous or inner.offset < 0:
                raise _does_not_rise(offset, index)
            previous = offset
        yield _as_record(inner, offset, record.timestamp if record.is_append_time else inner.timestamp)
        position += inner.size
        index += 1


def append_legacy_record(
    out: bytearray,
    magic: int,
    offset: int,
    timestamp: int,
    key: Buffer | None,
    value: Buffer | None,
    attributes: int = 0,
) -> None:
    """Append one message with its checksum to `out`; format 0 leaves the timestamp out.

    Raises:
        ValueError: the message would be larger than 2 GiB, or a field exceeds its width.
    """
    size = legacy_record_size(magic, key, value)
    if size - LOG_OVERHEAD > _INT32_MAX:
        raise ValueError(f"a message of {size} bytes is too large for its format")
    start = len(out)
    try:
        if magic == MAGIC_V0:
            out += HEADER_V0.pack(offset, size - LOG_OVERHEAD, 0, magic, attributes)
        else:
            out += HEADER_V1.pack(offset, size - LOG_OVERHEAD, 0, magic, attributes, timestamp)
    except struct.error as error:
        raise ValueError(f"offset {offset} or timestamp {timestamp} beyond 64 bits: {error}") from None
    for data in (key, value):
        if data is None:
            out += _LENGTH.pack(-1)
        else:
            out += _LENGTH.pack(len(data))
            out += data
    with memoryview(out) as view:
        checksum = crc32(view[start + MAGIC_AT :])
    _CRC.pack_into(out, start + CRC_AT, checksum)


def build_legacy_set(
    records: Sequence[RecordLike],
    *,
    magic: int,
    base_offset: int = 0,
    offsets: Sequence[int] | None = None,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    append_time: int = NO_TIMESTAMP,
) -> bytes:
    """Build messages of format 0 or 1 from records, in one wrapper where there is a codec. Headers are dropped: these
    formats have none.

    Args:
        records: at least one, in offset order.
        magic: 0 or 1.
        base_offset: offset of the first record; offsets within a format 1 wrapper count from it.
        offsets: one per record, rising, all ≥ base_offset; None for consecutive ones.
        compression: codec of the wrapper.
        level: for the codec, None for its default.
        timestamp_type: whose clock; means nothing in format 0.
        append_time: ms, every timestamp under LOG_APPEND_TIME.

    Raises:
        ValueError: no records, offsets out of order, or a field beyond its width.
        UnsupportedCompressionError: zstd, or no such codec.
    """
    if magic not in (MAGIC_V0, MAGIC_V1):
        raise ValueError(f"format {magic} has no message sets")
    if compression > Compression.LZ4:
        raise UnsupportedCompressionError(f"message format {magic} knows no codec with the id {int(compression)}")
    if not records:
        raise ValueError("a message set without records")
    is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME and magic > MAGIC_V0
    plain = attributes_of(Compression.NONE, TimestampType.LOG_APPEND_TIME) if is_append_time else 0
    relative_to = base_offset if compression is not Compression.NONE and magic > MAGIC_V0 else 0
    out = bytearray()
    previous = base_offset - 1
    max_timestamp = NO_TIMESTAMP
    for index, record in enumerate(records):
        offset = base_offset + index if offsets is None else offsets[index]
        if offset <= previous:
            raise ValueError(f"offset {offset} of record {index} does not rise")
        timestamp = append_time if is_append_time else record.timestamp
        append_legacy_record(out, magic, offset - relative_to, timestamp, record.key, record.value, plain)
        max_timestamp = max(max_timestamp, timestamp)
        previous = offset
    if compression is Compression.NONE:
        return bytes(out)
    return wrapped(out, magic, previous, max_timestamp, compression, level, is_append_time=is_append_time)


def wrapped(
    messages: Buffer,
    magic: int,
    last_offset: int,
    timestamp: int,
    compression: Compression,
    level: int | None,
    *,
    is_append_time: bool,
) -> bytes:
    """Put a row of messages into a wrapper: its offset is that of the last of them, its timestamp the greatest."""
    stream = compress(compression, messages, level)
    if compression is Compression.LZ4 and magic == MAGIC_V0:
        stream = with_historical_check(stream)
    kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
    wrapper = bytearray()
    append_legacy_record(wrapper, magic, last_offset, timestamp, None, stream, attributes_of(compression, kind))
    return bytes(wrapper)


def assign_offset(buffer: bytearray | memoryview, position: int, offset: int) -> None:
    """Set the offset of the message at `position`, which the checksum does not cover. In a wrapper of format 1 that
    moves all inner messages; those of format 0 hold absolute offsets and would have to be rewritten.
    """
    _OFFSET.pack_into(buffer, position, offset)


def assign_timestamp(
    buffer: bytearray | memoryview, record: LegacyRecord, timestamp_type: TimestampType, timestamp: int
) -> None:
    """Set timestamp and timestamp type of a format 1 message in its buffer, and its checksum if they changed.

    Under LOG_APPEND_TIME that is all a wrapper needs; under CREATE_TIME `timestamp` is the greatest within.

    Raises:
        UnsupportedFormatError: format 0 has no room for one.
    """
    if record.magic == MAGIC_V0:
        raise UnsupportedFormatError("message format 0 has no timestamps")
    if (record.timestamp_type, record.timestamp) == (timestamp_type, timestamp):
        return
    bit = TIMESTAMP_TYPE_MASK if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    buffer[record.position + ATTRIBUTES_AT] = record.attributes & ~TIMESTAMP_TYPE_MASK | bit
    _TIMESTAMP.pack_into(buffer, record.position + TIMESTAMP_AT, timestamp)
    counted = memoryview(buffer)[record.position + MAGIC_AT : record.position + record.size]
    _CRC.pack_into(buffer, record.position + CRC_AT, crc32(counted))


def _read_nullable(view: memoryview, position: int, limit: int) -> tuple[memoryview | None, int]:
    # `limit` leaves room for what must follow, so the length itself is always within.
    (length,) = _LENGTH.unpack_from(view, position)
    position += _LENGTH.size
    if length == -1:
        return None, position
    if length < 0 or length > limit - position:
        raise CorruptRecordError(f"a field claims {length} bytes where {limit - position} are left")
    return view[position : position + length], position + length


def unwrap(record: LegacyRecord, max_decompressed: int = DEFAULT_MAX_BYTES) -> bytes | memoryview:
    """Decompress a wrapper: its inner messages as one buffer. Raises what `iterate_legacy_records` raises for the
    wrapper itself.
    """
    codec = record.compression
    if codec > Compression.LZ4:
        raise UnsupportedCompressionError(f"message format {record.magic} knows no codec with the id {codec}")
    if record.key is not None:
        raise InvalidRecordError("a wrapper has a key")
    if record.value is None:
        raise InvalidRecordError("a wrapper has no value")
    stream: Buffer = record.value
    if codec == Compression.LZ4 and record.magic == MAGIC_V0:
        stream = with_right_check(bytes(stream))
    data = decompress(codec, stream, max_decompressed)
    if not data:
        raise InvalidRecordError("a wrapper holds no messages")
    return data


def last_inner_offset(data: Buffer, position: int = 0) -> int:
    """Offset of the last message that a wrapper held, to which format 1 offsets are relative. Walks sizes only, from
    `position` on.

    Raises:
        CorruptRecordError: a size is impossible.
    """
    offset = 0
    while position < len(data):
        if len(data) - position < LOG_OVERHEAD:
            raise CorruptRecordError(f"{len(data) - position} bytes are left over in a wrapper")
        offset, counted = OVERHEAD.unpack_from(data, position)
        if not RECORD_OVERHEAD[MAGIC_V0] <= counted <= len(data) - position - LOG_OVERHEAD:
            raise CorruptRecordError(f"a message in a wrapper has the size {counted}")
        position += LOG_OVERHEAD + counted
    return offset


def inner_fault(wrapper: LegacyRecord, data: Buffer, position: int, index: int, base: int) -> RecordError:
    """Why the message at `position` of what `wrapper` held, its number `index`, is refused by `iterate_legacy_records`.

    It is returned, or raised. `base`: what is added to the offsets within.
    """
    inner = read_legacy_record(data, position)
    _check_inner(wrapper, inner, data, index)
    return _does_not_rise(to_int64(base + inner.offset), index)


def _does_not_rise(offset: int, index: int) -> InvalidRecordError:
    return InvalidRecordError(f"offset {offset} of message {index} in a wrapper does not rise", index)


def _check_inner(wrapper: LegacyRecord, inner: LegacyRecord, data: Buffer, index: int) -> None:
    if inner.magic != wrapper.magic:
        raise InvalidRecordError(f"message {index} in a wrapper of format {wrapper.magic} has {inner.magic}", index)
    if inner.is_wrapper:
        raise InvalidRecordError(f"message {index} in a wrapper is compressed itself", index)
    if not is_intact(data, inner):
        raise CorruptRecordError(f"message {index} in a wrapper has a wrong checksum")


def _as_record(message: LegacyRecord, offset: int, timestamp: int) -> Record:
    return Record(
        offset,
        timestamp,
        None if message.key is None else bytes(message.key),
        None if message.value is None else bytes(message.value),
    )
