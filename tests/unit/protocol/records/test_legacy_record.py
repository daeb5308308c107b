from __future__ import annotations

import struct
import zlib

import pytest
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import compress
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from tidelog.protocol.records.legacy_record import (
    append_legacy_record,
    assign_offset,
    assign_timestamp,
    build_legacy_set,
    is_intact,
    iterate_legacy_messages,
    iterate_legacy_records,
    legacy_record_size,
    read_legacy_header,
    read_legacy_record,
)
from tidelog.protocol.records.record_batch import Record

RECORDS = [Record(7, 1000, b"k", b"v"), Record(8, 998, None, b""), Record(9, 1003, b"", None)]


def message(
    magic: int, offset: int, *, attributes: int = 0, timestamp: int = 5000, key: bytes = b"", value: bytes = b""
) -> bytes:
    """A message written out field by field; key and value with their lengths in front."""
    counted = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + key + value
    return struct.pack(">qiI", offset, len(counted) + 4, zlib.crc32(counted)) + counted


NULL = b"\xff\xff\xff\xff"


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@pytest.mark.parametrize(("magic", "smallest"), [(0, 26), (1, 34)])
def test_the_smallest_message(magic: int, smallest: int) -> None:
    """14 and 22 bytes, 26 and 34 with offset and size."""
    data = message(magic, 3, key=NULL, value=NULL)
    assert len(data) == smallest == legacy_record_size(magic, None, None)
    assert struct.unpack_from(">i", data, 8) == (smallest - 12,)
    record = read_legacy_record(data)
    assert (record.offset, record.key, record.value, record.magic) == (3, None, None, magic)
    assert record.timestamp == (5000 if magic else -1)
    for short in range(smallest - 12):
        with pytest.raises(CorruptRecordError):
            read_legacy_record(data[:8] + struct.pack(">i", short) + data[12:])
        with pytest.raises(CorruptRecordError):
            read_legacy_header(data[:8] + struct.pack(">i", short) + data[12:])


@pytest.mark.parametrize("magic", [0, 1])
def test_by_hand(magic: int) -> None:
    data = message(magic, 3, key=sized(b"key"), value=sized(b"value"))
    out = bytearray(b"before")
    append_legacy_record(out, magic, 3, 5000, b"key", b"value")
    assert out == b"before" + data
    record = read_legacy_record(bytes(out), 6)
    assert (bytes(record.key or b""), bytes(record.value or b"")) == (b"key", b"value")
    assert (record.position, record.size) == (6, len(data))
    assert is_intact(out, record)
    assert list(iterate_legacy_records(record)) == [Record(3, 5000 if magic else -1, b"key", b"value")]


@pytest.mark.parametrize("magic", [0, 1])
def test_checksum_covers_magic_to_value(magic: int) -> None:
    data = bytearray(message(magic, 3, key=sized(b"key"), value=sized(b"value")))
    record = read_legacy_record(data)
    for at in range(len(data)):
        data[at] ^= 1
        if at < 8:  # the broker assigns the offset
            assert is_intact(data, record)
        elif at >= 16:
            assert not is_intact(data, record)
        data[at] ^= 1


@pytest.mark.parametrize("magic", [0, 1])
def test_broken_lengths(magic: int) -> None:
    for key, value in [
        (struct.pack(">i", -2), NULL),
        (NULL, struct.pack(">i", -2)),
        (struct.pack(">i", 1), NULL),
        (NULL, struct.pack(">i", 1)),
        (struct.pack(">i", 2**31 - 1), NULL),
        (NULL, NULL + b"behind"),
    ]:
        with pytest.raises(CorruptRecordError):
            read_legacy_record(message(magic, 0, key=key, value=value))


def test_what_is_no_message_of_these_formats() -> None:
    data = message(1, 0, key=NULL, value=NULL)
    with pytest.raises(CorruptRecordError, match="magic 3"):
        read_legacy_record(data[:16] + b"\x03" + data[17:])
    with pytest.raises(UnsupportedFormatError):
        read_legacy_record(build_batch(RECORDS, base_offset=7))
    with pytest.raises(CorruptRecordError):
        read_legacy_header(build_batch(RECORDS, base_offset=7))
    for length in range(len(data)):
        with pytest.raises(CorruptRecordError):
            read_legacy_record(data[:length])
        assert list(iterate_legacy_messages(data[:length])) == []
    assert [m.offset for m in iterate_legacy_messages(data + data[:20])] == [0]


def test_attribute_bits_beyond_the_format() -> None:
    """Format 0 knows the codec alone: an append time bit there means nothing."""
    old = read_legacy_record(message(0, 0, attributes=0xF8, key=NULL, value=NULL))
    assert not old.is_append_time
    assert not old.is_wrapper
    header = read_legacy_header(message(0, 4, attributes=0xF8, key=NULL, value=NULL))
    assert (header.attributes, header.is_append_time, header.is_control, header.is_transactional) == (
        0,
        False,
        False,
        False,
    )
    header = read_legacy_header(message(1, 4, attributes=0xFA, key=NULL, value=sized(b"x")))
    assert (header.attributes, header.is_append_time, header.record_count) == (0x0A, True, -1)
    assert (header.base_offset, header.last_offset, header.max_timestamp) == (4, 4, 5000)


# --- wrappers ---


def wrapper(
    magic: int,
    offset: int,
    inner: bytes,
    *,
    codec: int = 1,
    key: bytes = NULL,
    timestamp: int = 5000,
    attributes: int = 0,
) -> bytes:
    value = NULL if inner is None else sized(compress(codec, inner) if codec <= 4 else inner)
    return message(magic, offset, attributes=codec | attributes, timestamp=timestamp, key=key, value=value)


def opened(data: bytes, **arguments: bool) -> list[Record]:
    return list(iterate_legacy_records(read_legacy_record(data), **arguments))


def test_inner_offsets_are_absolute_in_format_0() -> None:
    inner = b"".join(message(0, offset, key=NULL, value=sized(b"%d" % offset)) for offset in (7, 9, 12))
    assert [(r.offset, r.value) for r in opened(wrapper(0, 12, inner))] == [(7, b"7"), (9, b"9"), (12, b"12")]
    for wrong in (0, 7, 11, 13):
        with pytest.raises(InvalidRecordError, match="offset"):
            opened(wrapper(0, wrong, inner))


def test_inner_offsets_are_relative_in_format_1() -> None:
    inner = b"".join(message(1, offset, timestamp=100 + offset, key=NULL, value=NULL) for offset in (0, 2, 5))
    assert [(r.offset, r.timestamp) for r in opened(wrapper(1, 12, inner))] == [(7, 100), (9, 102), (12, 105)]
    # What compaction leaves need not begin at 0.
    inner = b"".join(message(1, offset, key=NULL, value=NULL) for offset in (3, 4))
    assert [r.offset for r in opened(wrapper(1, 104, inner))] == [103, 104]


def test_what_a_producer_numbers_means_nothing() -> None:
    for magic in (0, 1):
        inner = message(magic, 0, key=NULL, value=NULL) * 3
        assert len(opened(wrapper(magic, 0, inner), from_producer=True)) == 3
        with pytest.raises(InvalidRecordError, match="rise"):
            opened(wrapper(magic, 0, inner))


def test_append_time_of_the_wrapper_is_that_of_all() -> None:
    inner = b"".join(message(1, offset, timestamp=100 + offset, key=NULL, value=NULL) for offset in range(3))
    assert [r.timestamp for r in opened(wrapper(1, 2, inner, attributes=8, timestamp=77))] == [77] * 3
    assert [r.timestamp for r in opened(wrapper(1, 2, inner, timestamp=77))] == [100, 101, 102]


@pytest.mark.parametrize("magic", [0, 1])
def test_wrappers_that_break_the_rules(magic: int) -> None:
    inner = message(magic, 0, key=NULL, value=NULL)
    with pytest.raises(InvalidRecordError, match="key"):
        opened(wrapper(magic, 0, inner, key=sized(b"")))
    with pytest.raises(InvalidRecordError, match="no value"):
        opened(message(magic, 0, attributes=1, key=NULL, value=NULL))
    with pytest.raises(InvalidRecordError, match="holds no messages"):
        opened(wrapper(magic, 0, b""))
    with pytest.raises(InvalidRecordError, match="compressed itself"):
        opened(wrapper(magic, 0, wrapper(magic, 0, inner)))
    with pytest.raises(InvalidRecordError, match="format"):
        opened(wrapper(magic, 0, message(1 - magic, 0, key=NULL, value=NULL)))
    for codec in (4, 5, 6, 7):
        with pytest.raises(UnsupportedCompressionError):
            opened(wrapper(magic, 0, inner, codec=codec))
    with pytest.raises(CorruptRecordError, match="checksum"):
        opened(wrapper(magic, 0, inner[:12] + bytes(4) + inner[16:]))
    for cut in range(1, len(inner)):
        with pytest.raises(CorruptRecordError):
            opened(wrapper(magic, 0, inner[:cut]))
        with pytest.raises(CorruptRecordError):
            opened(wrapper(magic, 0, inner + inner[:cut]))
    with pytest.raises(CorruptRecordError):
        opened(message(magic, 0, attributes=1, key=NULL, value=sized(b"no gzip")))


def test_a_bomb_is_not_unpacked() -> None:
    inner = message(1, 0, key=NULL, value=sized(bytes(1 << 20)))
    record = read_legacy_record(wrapper(1, 0, inner))
    with pytest.raises(RecordTooLargeError):
        list(iterate_legacy_records(record, max_decompressed=1 << 16))


# --- building ---


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", list(Compression)[:4])
def test_build_and_open(magic: int, codec: Compression) -> None:
    data = build_legacy_set(RECORDS, magic=magic, base_offset=7, compression=codec)
    messages = list(iterate_legacy_messages(data))
    assert len(messages) == (3 if codec is Compression.NONE else 1)
    assert messages[-1].offset == 9
    if codec is not Compression.NONE:
        assert messages[0].timestamp == (1003 if magic else -1)
        assert messages[0].key is None
    expected = RECORDS if magic else [record._replace(timestamp=-1) for record in RECORDS]
    assert [record for m in messages for record in iterate_legacy_records(m)] == expected


def test_build_refuses() -> None:
    for arguments, error in [
        ({"magic": 2}, ValueError),
        ({"magic": 1, "compression": Compression.ZSTD}, UnsupportedCompressionError),
        ({"magic": 1, "offsets": [1, 1, 2]}, ValueError),
        ({"magic": 1, "base_offset": 2**63}, ValueError),
    ]:
        with pytest.raises(error):
            build_legacy_set(RECORDS, **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="without records"):
        build_legacy_set([], magic=1)


# --- patching ---


def test_the_broker_changes_time_and_offset() -> None:
    data = bytearray(build_legacy_set(RECORDS, magic=1, compression=Compression.GZIP))
    assign_offset(data, 0, 114516)
    record = read_legacy_record(data)
    assert is_intact(data, record)
    assert [r.offset for r in iterate_legacy_records(record)] == [114514, 114515, 114516]
    assign_timestamp(data, record, TimestampType.LOG_APPEND_TIME, 4711)
    record = read_legacy_record(data)
    assert is_intact(data, record)
    assert {r.timestamp for r in iterate_legacy_records(record)} == {4711}
    before = bytes(data)
    assign_timestamp(data, record, TimestampType.LOG_APPEND_TIME, 4711)
    assert data == before
    assign_timestamp(data, record, TimestampType.CREATE_TIME, 1003)
    record = read_legacy_record(data)
    assert is_intact(data, record)
    assert [r.timestamp for r in iterate_legacy_records(record)] == [1000, 998, 1003]
    old = bytearray(build_legacy_set(RECORDS, magic=0))
    with pytest.raises(UnsupportedFormatError):
        assign_timestamp(old, read_legacy_record(old), TimestampType.CREATE_TIME, 1)
