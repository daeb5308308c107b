"""Keys and values of `__consumer_offsets`, byte for byte as Apache Kafka 4.3 writes and reads them.

    key     0       2
            +-------+--------------------------------------------------------------------------+
            |version| fields                                                                   |
            +-------+--------------------------------------------------------------------------+
            0, 1    OffsetCommitKey      group string, topic string, partition int32   (0 is read only)
            2       GroupMetadataKey     group string
            3 …     the newer group protocols' keys: not read here, left where they are

    OffsetCommitValue, version 4 (flexible), the usual one
            0       2              10            14                      k          k+8
            +-------+--------------+-------------+-----------------------+----------+------------------------------+
            |  4    | offset int64 | epoch int32 | metadata compact str  | commit   | tag count, or 1, tag 0, 16,  |
            |       |              |             |                       | ms int64 | topic id (16 bytes)          |
            +-------+--------------+-------------+-----------------------+----------+------------------------------+
            0, 2    offset, metadata string, commit ms
            1       offset, metadata string, commit ms, expire ms    (written when the client sets a retention time)
            3       offset, epoch, metadata string, commit ms

    GroupMetadataValue, version 3, the one written: protocol type, generation, protocol?, leader?, state change ms,
            members (id, instance id?, client id, host, rebalance ms, session ms, subscription, assignment). 0 to 4 are
            read: state change ms from 2, rebalance ms from 1, instance id from 3, compact types in 4.

string = int16 length + UTF-8 (nullable ones -1), bytes = int32 length + bytes, compact ones a varint of length + 1.
All integers big-endian. A null value is a tombstone.

The codec is written by hand because a start reads a million of these; the tests hold it equal to the declared schema in
`protocol/messages/consumer_offsets.py` and to bytes from a real broker. Any thread.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

GROUP_KEY_VERSION = 2
OFFSET_VALUE_VERSION = 4
OFFSET_VALUE_WITH_EXPIRY_VERSION = 1
NO_TIMESTAMP = -1
LAST_TIMESTAMP = 2**63 - 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_HEAD_V4 = struct.Struct(">hqi")
_TOPIC_ID_TAG = b"\x01\x00\x10"  # one tagged field, number 0, 16 bytes
assert _OFFSET_HEAD_V4.size == 14
#: A version 4 value whose metadata is empty, up to its tagged fields.
_OFFSET_PLAIN_V4 = struct.Struct(">hqibq")
assert _OFFSET_PLAIN_V4.size == 23


class OffsetsRecordError(ValueError):
    """A key or value that is not what its version says."""


class OffsetAndMetadata(NamedTuple):
    """One committed offset. Times are wall clock milliseconds; `expire_timestamp_ms` is -1 unless a client set one."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes | None = None


class OffsetKey(NamedTuple):
    """Key of an offset's record: group and partition."""

    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Key of a group's record."""

    group: str


# -- writing


def string_bytes(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return b"\x00\x01" + string_bytes(group) + string_bytes(topic) + _INT32.pack(partition)


def group_key(group: str) -> bytes:
    return b"\x00\x02" + string_bytes(group)


def offset_value(committed: OffsetAndMetadata) -> bytes:
    """Version 4; version 1, which has no leader epoch and no topic id, when the client set a time of expiry."""
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return b"".join(
            (
                _INT16.pack(OFFSET_VALUE_WITH_EXPIRY_VERSION),
                _INT64.pack(committed.offset),
                string_bytes(committed.metadata),
                _INT64.pack(committed.commit_timestamp_ms),
                _INT64.pack(committed.expire_timestamp_ms),
            )
        )
    metadata = committed.metadata.encode()
    topic_id = committed.topic_id
    return b"".join(
        (
            _OFFSET_HEAD_V4.pack(OFFSET_VALUE_VERSION, committed.offset, committed.leader_epoch),
            _unsigned_varint(len(metadata) + 1),
            metadata,
            _INT64.pack(committed.commit_timestamp_ms),
            b"\x00" if topic_id is None else _TOPIC_ID_TAG + topic_id,
        )
    )


# -- reading


def read_key(key: bytes) -> OffsetKey | GroupKey | None:
    """Decode a record's key; None for a key of a newer group protocol."""
    reader = RecordReader(key)
    version = reader.int16()
    if version in (0, 1):
        return OffsetKey(reader.string(), reader.string(), reader.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    if version < 0:
        raise OffsetsRecordError(f"key version {version}")
    return None


def read_offset_value(value: bytes) -> OffsetAndMetadata:
    if len(value) >= 24 and value[1] == 4 and value[14] == 1 and value[0] == 0:
        # Version 4 without metadata: nearly all of them.
        _, offset, epoch, _, commit_ms = _OFFSET_PLAIN_V4.unpack_from(value)
        if value[23] == 0:
            return OffsetAndMetadata(offset, epoch, "", commit_ms)
        if len(value) == 42 and value[23:26] == _TOPIC_ID_TAG:
            return OffsetAndMetadata(offset, epoch, "", commit_ms, NO_TIMESTAMP, value[26:])
    return _read_offset_value(value)


def _read_offset_value(value: bytes) -> OffsetAndMetadata:
    reader = RecordReader(value)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise OffsetsRecordError(f"OffsetCommitValue version {version} is not known")
    reader.flexible = version == 4
    offset = reader.int64()
    epoch = reader.int32() if version >= 3 else -1
    metadata = reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else NO_TIMESTAMP
    topic_id = reader.tagged_fields().get(0) if reader.flexible else None
    if topic_id is not None and len(topic_id) != 16:
        raise OffsetsRecordError(f"a topic id of {len(topic_id)} bytes")
    return OffsetAndMetadata(offset, epoch, metadata, commit_ms, expire_ms, topic_id)


class RecordReader:
    """Takes fields off the front; whatever lies outside of the buffer is an OffsetsRecordError."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.flexible = False

    def take(self, size: int) -> bytes:
        start = self.position
        if size < 0 or size > len(self.data) - start:
            raise OffsetsRecordError(f"{size} bytes at {start} are not within {len(self.data)}")
        self.position = start + size
        return self.data[start : start + size]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise OffsetsRecordError("a varint of more than five bytes")

    def nullable_string(self) -> str | None:
        length = self.unsigned_varint() - 1 if self.flexible else self.int16()
        if length == -1:
            return None
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise OffsetsRecordError(f"a string that is not UTF-8: {error}") from None

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise OffsetsRecordError("null where a string has to be")
        return text

    def blob(self) -> bytes:
        return self.take(self.unsigned_varint() - 1 if self.flexible else self.int32())

    def count(self, least_size: int) -> int:
        count = self.unsigned_varint() - 1 if self.flexible else self.int32()
        if not 0 <= count <= (len(self.data) - self.position) // least_size:
            raise OffsetsRecordError(f"a count of {count} in {len(self.data)} bytes")
        return count

    def tagged_fields(self) -> dict[int, bytes]:
        return {self.unsigned_varint(): self.take(self.unsigned_varint()) for _ in range(self.unsigned_varint())}
