from __future__ import annotations

import struct

import crc32c
import pytest
from support.broken_records import BROKEN, GOOD, batch_around
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch, recompress
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from tidelog.protocol.records.record_batch import (
    RECORDS_AT,
    Record,
    iterate_batches,
    iterate_records,
    read_batch_header,
)

RECORDS = [
    Record(0, 1000, b"k", b"v", ((b"h", b"1"), (b"h", None))),
    Record(1, 998, None, b"", ()),
    Record(2, 1003, b"", None, ()),
]


def by_hand() -> bytes:
    """A batch of one record, written out field by field."""
    record = bytes.fromhex(
        "18"  # 12 bytes follow
        "00"  # attributes
        "00"  # timestamp delta
        "00"  # offset delta
        "026b"  # key "k"
        "0476 76"  # value "vv"
        "02"  # one header
        "0268"  # its key "h"
        "01"  # its value: null
    )
    counted = struct.pack(">hiqqqhii", 0x10, 0, 5000, 5000, 77, 3, 9, 1) + record
    return struct.pack(">qiibI", 40, len(counted) + 9, 6, 2, crc32c.crc32c(counted)) + counted


def test_header_by_hand() -> None:
    data = b"xxx" + by_hand()
    header = read_batch_header(data, 3)
    assert header.position == 3
    assert header.size == len(data) - 3
    assert (header.base_offset, header.last_offset, header.last_offset_delta) == (40, 40, 0)
    assert (header.partition_leader_epoch, header.magic, header.attributes) == (6, 2, 0x10)
    assert (header.base_timestamp, header.max_timestamp) == (5000, 5000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (77, 3, 9, 9)
    assert header.record_count == 1
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert list(iterate_records(data, 3)) == [Record(40, 5000, b"k", b"vv", ((b"h", None),))]


def test_builder_writes_what_was_written_by_hand() -> None:
    record = Record(40, 5000, b"k", b"vv", ((b"h", None),))
    assert (
        build_batch(
            [record],
            base_offset=40,
            producer_id=77,
            producer_epoch=3,
            base_sequence=9,
            is_transactional=True,
            partition_leader_epoch=6,
        )
        == by_hand()
    )


@pytest.mark.parametrize("codec", Compression)
def test_records_of_every_codec(codec: Compression) -> None:
    data = build_batch(RECORDS, compression=codec, base_offset=7)
    assert read_batch_header(data).compression is not None
    assert list(iterate_records(data)) == [record._replace(offset=record.offset + 7) for record in RECORDS]


def test_append_time_is_every_records_timestamp() -> None:
    data = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=123)
    assert [record.timestamp for record in iterate_records(data)] == [123, 123, 123]


def test_delete_horizon_takes_the_base_timestamps_place() -> None:
    data = build_batch(RECORDS, delete_horizon=10**12)
    header = read_batch_header(data)
    assert header.has_delete_horizon
    assert header.base_timestamp == 10**12
    assert header.max_timestamp == 1003
    assert list(iterate_records(data)) == RECORDS


def test_sparse_and_empty_batches() -> None:
    data = build_batch(RECORDS, base_offset=100, offsets=[100, 105, 109], last_offset=120)
    assert [record.offset for record in iterate_records(data)] == [100, 105, 109]
    assert read_batch_header(data).last_offset == 120
    empty = build_batch([], base_offset=5, last_offset=9, compression=Compression.LZ4)
    assert list(iterate_records(empty)) == []
    assert read_batch_header(empty).last_offset == 9


def test_sequence_wraps() -> None:
    header = read_batch_header(build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0
    assert read_batch_header(build_batch(RECORDS)).last_sequence == -1


def test_iterate_batches_ends_at_a_cut_off_one() -> None:
    one, two = build_batch(RECORDS), build_batch(RECORDS, base_offset=3)
    data = one + two
    assert [header.base_offset for header in iterate_batches(data)] == [0, 3]
    for keep in range(len(one), len(data)):
        assert [header.base_offset for header in iterate_batches(data[:keep])] == [0]


@pytest.mark.parametrize(
    ("at", "patch", "error"),
    [
        (8, struct.pack(">i", 13), CorruptRecordError),
        (8, struct.pack(">i", 48), CorruptRecordError),  # whole, but shorter than a header
        (8, struct.pack(">i", -1), CorruptRecordError),
        (16, b"\x03", CorruptRecordError),
        (16, b"\xff", CorruptRecordError),
        (16, b"\x01", UnsupportedFormatError),
        (16, b"\x00", UnsupportedFormatError),
    ],
)
def test_impossible_headers(at: int, patch: bytes, error: type[Exception]) -> None:
    data = bytearray(build_batch(RECORDS))
    data[at : at + len(patch)] = patch
    with pytest.raises(error):
        read_batch_header(data)
    with pytest.raises(error):
        list(iterate_batches(data))


def test_positions_outside_of_the_buffer() -> None:
    data = build_batch(RECORDS)
    for position, end in ((-1, len(data)), (0, len(data) + 1), (len(data), None), (len(data) - 5, None)):
        with pytest.raises(CorruptRecordError):
            read_batch_header(data, position, end)


@pytest.mark.parametrize("payload", BROKEN.values(), ids=BROKEN)
def test_broken_records(payload: str) -> None:
    with pytest.raises(InvalidRecordError):
        list(iterate_records(batch_around(bytes.fromhex(payload))))


def test_the_smallest_record() -> None:
    assert list(iterate_records(batch_around(GOOD))) == [Record(0, -1, None, None)]


def test_broken_record_is_named() -> None:
    with pytest.raises(InvalidRecordError, match="record 2") as caught:
        list(iterate_records(batch_around(GOOD * 2 + b"\x01", 3)))
    assert caught.value.record_index == 2
    with pytest.raises(InvalidRecordError) as caught:
        list(iterate_records(batch_around(GOOD, -1)))
    assert caught.value.record_index == -1


def test_unknown_codec_and_bound() -> None:
    with pytest.raises(UnsupportedCompressionError):
        list(iterate_records(batch_around(b"abc", 1, attributes=5)))
    data = build_batch([Record(0, 0, None, bytes(5000))], compression=Compression.ZSTD)
    with pytest.raises(RecordTooLargeError):
        list(iterate_records(data, max_decompressed=5000))


def test_builder_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="does not rise"):
        build_batch(RECORDS, offsets=[0, 2, 2])
    with pytest.raises(ValueError, match="does not rise"):
        build_batch(RECORDS, base_offset=5, offsets=[4, 5, 6])
    with pytest.raises(ValueError, match="does not fit"):
        build_batch(RECORDS, last_offset=1)
    with pytest.raises(ValueError, match="does not fit"):
        build_batch(RECORDS, last_offset=1 << 31)
    with pytest.raises(ValueError, match="needs its last offset"):
        build_batch([])


def test_records_start_at_61() -> None:
    assert RECORDS_AT == 61


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_recompress(source: Compression, target: Compression) -> None:
    fields = {
        "base_offset": 70,
        "last_offset": 80,
        "producer_id": 5,
        "producer_epoch": 1,
        "base_sequence": 9,
        "is_transactional": True,
        "partition_leader_epoch": 4,
        "delete_horizon": 999,
    }
    batch = b"xy" + build_batch(RECORDS, compression=source, **fields)  # type: ignore[arg-type]
    again = recompress(batch, 2, len(batch), target)
    assert again == build_batch(RECORDS, compression=target, **fields)  # type: ignore[arg-type]
    empty = build_batch([], compression=source, last_offset=3)
    assert recompress(empty, 0, len(empty), target) == build_batch([], compression=target, last_offset=3)
