"""Record batches of message format 2: their layout, and a reader in plain Python.

    batch    0            8        12       16    17     21           23              27
             +------------+--------+--------+-----+------+------------+---------------+----------------+
             | baseOffset | length | leader |magic| crc  | attributes | lastOffset-   | baseTimestamp  |
             |            |        | epoch  | = 2 |      |            | Delta         |                |
             +------------+--------+--------+-----+------+------------+---------------+----------------+
             35             43           51              53             57            61
             +--------------+------------+---------------+--------------+-------------+----------------+
             | maxTimestamp | producerId | producerEpoch | baseSequence | recordCount | records …      |
             +--------------+------------+---------------+--------------+-------------+----------------+
    All integers big-endian and signed, but the crc. `length` counts what follows it, so a batch is 12 + length bytes.
    crc is CRC-32C over everything from the attributes on. Attributes: see `attributes`; with the delete horizon bit,
    baseTimestamp is that horizon. A compacted batch may hold fewer records than lastOffsetDelta + 1, even none; its
    lastOffsetDelta, producer fields and baseSequence stay what the producer sent. maxTimestamp is −1 where no record
    has a timestamp. With a codec in the attributes, `records` is one compressed stream.

    record   length varint | attributes int8 = 0 | timestampDelta varlong | offsetDelta varint
             | keyLength varint | key | valueLength varint | value | headerCount varint | headers …
    header   keyLength varint | key (UTF-8, never null) | valueLength varint | value
    `length` counts what follows it. A length of −1 is null. Varints: see `varint`.

Formats 0 and 1 share only the first 17 bytes' outline (offset, size, and the magic at 16).

Stands in the middle of protocol.records. Storage's hot paths use the compiled `_kernel`, which says the same; here is
the form to read, the iterators for paths that are not hot, and the oracle that the kernel is tested against.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .attributes import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
)
from .compression import DEFAULT_MAX_BYTES, Compression, decompress
from .exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from .varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(
    ">"
    "q"  # baseOffset
    "i"  # length
    "i"  # partitionLeaderEpoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # lastOffsetDelta
    "q"  # baseTimestamp
    "q"  # maxTimestamp
    "q"  # producerId
    "h"  # producerEpoch
    "i"  # baseSequence
    "i"  # recordCount
)
OVERHEAD = struct.Struct(">qi")  # baseOffset, length: what precedes a batch's counted bytes in every format

BASE_OFFSET_AT = 0
LENGTH_AT = 8
PARTITION_LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57
RECORDS_AT = 61

LOG_OVERHEAD = 12
HEADER_UP_TO_MAGIC = 17
RECORD_BATCH_OVERHEAD = 61
assert OVERHEAD.size == LOG_OVERHEAD
assert HEADER.size == RECORD_BATCH_OVERHEAD == RECORDS_AT == RECORD_COUNT_AT + 4
# The smallest message of any format: format 0 with null key and value (crc, magic, attributes, two lengths).
MIN_MESSAGE_SIZE = 14

MAGIC_V2 = 2
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1

_INT64_MASK = 0xFFFF_FFFF_FFFF_FFFF


def to_int64(value: int) -> int:
    """Wrap `value` to 64 bits, as timestamps and offsets wrap in Kafka's arithmetic."""
    return ((value + 0x8000_0000_0000_0000) & _INT64_MASK) - 0x8000_0000_0000_0000


class Record(NamedTuple):
    """A record with offset and timestamp resolved.

    Attributes:
        offset: in the log.
        timestamp: milliseconds since the epoch; −1 for none; the batch's append time where that is the timestamp type.
        key: None for a null key.
        value: None for a tombstone.
        headers: in order, keys may repeat; values may be None.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class BatchHeader(NamedTuple):
    """Header of a V2 batch. Attributes as in the ruler above; `position` is where the batch starts in its buffer."""

    position: int
    size: int
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch was written with."""
        return to_int64(self.base_offset + self.last_offset_delta)

    @property
    def compression(self) -> int:
        """Codec id: a `Compression`, or 5 to 7, which are undefined."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        """Clock of the timestamps: the producer's or the broker's."""
        return TimestampType.LOG_APPEND_TIME if self.is_append_time else TimestampType.CREATE_TIME

    @property
    def is_append_time(self) -> bool:
        """True if every record has the batch's max timestamp, set by the broker."""
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        """True for a batch of a transaction, and for its marker."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """True for a marker, which applications do not see."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> bool:
        """True if the base timestamp is the time at which tombstones and markers of this batch may be removed."""
        return bool(self.attributes & DELETE_HORIZON_MASK)

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; wraps from 2³¹ − 1 to 0; −1 when the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF


def read_batch_header(buffer: Buffer, position: int = 0, end: int | None = None) -> BatchHeader:
    """Read the header of the batch at `position`, which must end before `end`. The checksum is not verified.

    Raises:
        CorruptRecordError: size or magic are impossible, or the batch is cut off.
        UnsupportedFormatError: message format 0 or 1.
    """
    limit = len(buffer) if end is None else end
    if position < 0 or limit > len(buffer) or limit - position < HEADER_UP_TO_MAGIC:
        raise CorruptRecordError(f"no batch header in the {limit - position} bytes at {position}")
    _, length = OVERHEAD.unpack_from(buffer, position)
    if length < MIN_MESSAGE_SIZE:
        raise CorruptRecordError(f"batch size {length} is less than any message has")
    magic = buffer[position + MAGIC_AT]
    if magic > MAGIC_V2:
        raise CorruptRecordError(f"no message format has the magic {magic}")
    if LOG_OVERHEAD + length > limit - position:
        raise CorruptRecordError(f"batch of {LOG_OVERHEAD + length} bytes is cut off after {limit - position}")
    if magic < MAGIC_V2:
        raise UnsupportedFormatError(f"message format {magic} where format 2 is required")
    if LOG_OVERHEAD + length < RECORD_BATCH_OVERHEAD:
        raise CorruptRecordError(f"batch of {LOG_OVERHEAD + length} bytes is less than a header")
    base_offset, length, *rest = HEADER.unpack_from(buffer, position)
    return BatchHeader(position, LOG_OVERHEAD + length, base_offset, *rest)


def iterate_batches(buffer: Buffer, position: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
    """Iterate over headers of the whole batches in [position, end), in order. A batch that is cut off ends the
    iteration, as the last one of a fetch response may be; an impossible size raises as in `read_batch_header`.
    """
    limit = len(buffer) if end is None else end
    while limit - position >= HEADER_UP_TO_MAGIC:
        _, length = OVERHEAD.unpack_from(buffer, position)
        if length >= MIN_MESSAGE_SIZE and LOG_OVERHEAD + length > limit - position:
            return
        header = read_batch_header(buffer, position, limit)
        yield header
        position += header.size


class RawRecord(NamedTuple):
    """A record as it stands in the payload: deltas unresolved, nothing copied."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    value: memoryview | None
    headers: tuple[tuple[memoryview, memoryview | None], ...]


def iterate_raw_records(payload: Buffer, count: int, start: int = 0, end: int | None = None) -> Iterator[RawRecord]:
    """Iterate over the `count` records that fill payload[start:end] exactly.

    Raises:
        InvalidRecordError: a record breaks the ruler above, or bytes are left over; `record_index` says where.
    """
    view = memoryview(payload)
    position = start
    limit = len(view) if end is None else end
    for index in range(count):
        try:
            record = _read_record(view, position, limit)
        except InvalidRecordError as error:
            raise InvalidRecordError(f"record {index}: {error}", index) from None
        yield record
        position = record.end
    if position != limit:
        raise InvalidRecordError(f"{limit - position} bytes are left over behind the {count} records of the batch")


def payload_of(
    buffer: Buffer,
    header: BatchHeader,
    max_decompressed: int = DEFAULT_MAX_BYTES,
    is_due: Callable[[], bool] | None = None,
) -> tuple[Buffer, int, int]:
    """(buffer, start, end) of a batch's records, decompressed if needed; raises what `decompress` raises."""
    start, end = header.position + RECORDS_AT, header.position + header.size
    if header.compression == Compression.NONE or header.record_count == 0:  # an empty batch was never compressed
        return buffer, start, end
    if header.compression > Compression.ZSTD:
        raise UnsupportedCompressionError(f"no compression codec has the id {header.compression}")
    payload = decompress(header.compression, memoryview(buffer)[start:end], max_decompressed, is_due)
    return payload, 0, len(payload)


def iterate_records(
    buffer: Buffer, position: int = 0, end: int | None = None, *, max_decompressed: int = DEFAULT_MAX_BYTES
) -> Iterator[Record]:
    """Iterate over the records of the batch at `position`, decompressed; the checksum is not verified.

    Raises:
        CorruptRecordError, UnsupportedFormatError: as `read_batch_header`.
        InvalidRecordError: a record or the count is broken.
        UnsupportedCompressionError, RecordTooLargeError: as `decompress`.
    """
    header = read_batch_header(buffer, position, end)
    if header.record_count < 0:
        raise InvalidRecordError(f"record count {header.record_count}")
    if header.record_count == 0:  # what compaction leaves of a batch that must not vanish
        return
    payload, start, stop = payload_of(buffer, header, max_decompressed)
    for raw in iterate_raw_records(payload, header.record_count, start, stop):
        yield Record(
            to_int64(header.base_offset + raw.offset_delta),
            header.max_timestamp if header.is_append_time else to_int64(header.base_timestamp + raw.timestamp_delta),
            None if raw.key is None else bytes(raw.key),
            None if raw.value is None else bytes(raw.value),
            tuple((bytes(key), None if value is None else bytes(value)) for key, value in raw.headers),
        )


def _read_record(view: memoryview, start: int, limit: int) -> RawRecord:
    length, position = read_varint(view, start, limit)
    if length < 0 or length > limit - position:
        raise InvalidRecordError(f"claims {length} bytes where {limit - position} are left")
    end = position + length
    if length == 0:
        raise InvalidRecordError("is empty")
    position += 1  # attributes: none are defined
    timestamp_delta, position = read_varlong(view, position, end)
    offset_delta, position = read_varint(view, position, end)
    key, position = _read_nullable(view, position, end)
    value, position = _read_nullable(view, position, end)
    count, position = read_varint(view, position, end)
    if count < 0 or count > end - position:
        raise InvalidRecordError(f"claims {count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        header_key, position = _read_nullable(view, position, end)
        if header_key is None:
            raise InvalidRecordError("has a header with a null key")
        header_value, position = _read_nullable(view, position, end)
        headers.append((header_key, header_value))
    if position != end:
        raise InvalidRecordError(f"has {end - position} bytes behind its headers")
    return RawRecord(start, end, timestamp_delta, offset_delta, key, value, tuple(headers))


def _read_nullable(view: memoryview, position: int, end: int) -> tuple[memoryview | None, int]:
    length, position = read_varint(view, position, end)
    if length == -1:
        return None, position
    if length < 0 or length > end - position:
        raise InvalidRecordError(f"a field claims {length} bytes where {end - position} are left")
    return view[position : position + length], position + length
