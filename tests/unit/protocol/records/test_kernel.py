from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import crc32c as crc32c_package
import pytest
from support.broken_records import BROKEN, GOOD, batch_around
from tidelog.protocol.records import _kernel as kernel
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.compression import compress
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from tidelog.protocol.records.record_batch import Record, iterate_records, read_batch_header

CODECS = list(Compression)
RECORDS = [
    Record(0, 1000, b"k", b"v", ((b"h", b"1"), (b"h", None))),
    Record(1, 998, b"", b"", ()),
    Record(2, 1003, b"key", None, ()),
    Record(3, 1003, b"key", None, ()),
]


@pytest.fixture(params=[True, False], ids=["hardware", "table"])
def crc_method(request: pytest.FixtureRequest) -> Iterator[bool]:
    used = kernel._use_hardware(request.param)
    if used != request.param:
        pytest.skip("this processor has no CRC-32C instruction")
    yield used
    kernel._use_hardware(True)


def test_crc32c_of_known_inputs(crc_method: bool) -> None:
    # RFC 3720 (iSCSI), appendix B.4.
    assert kernel.crc32c(bytes(32)) == 0x8A9136AA
    assert kernel.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert kernel.crc32c(bytes(range(32))) == 0x46DD794E
    assert kernel.crc32c(b"123456789") == 0xE3069283
    assert kernel.crc32c(b"") == 0


def test_crc32c_agrees_with_the_package(crc_method: bool) -> None:
    noise = random.Random(3).randbytes(50_000)
    view = memoryview(noise)
    lanes = [3 * lane for lane in (64, 512, 4096)]
    lengths = [*range(300), *(lane * n + d for lane in lanes for n in (1, 2) for d in (-9, -8, -1, 0, 1, 7, 8)), 49_000]
    for length in lengths:
        for start in (0, 1, 2, 3, 4, 5, 6, 7, 8):
            part = view[start : start + length]
            assert kernel.crc32c(part) == crc32c_package.crc32c(bytes(part)), (length, start)
            assert kernel.crc32c(part, 0xDEADBEEF) == crc32c_package.crc32c(bytes(part), 0xDEADBEEF), (length, start)


def validate(batch: bytes, **changes: object) -> tuple[kernel.BatchInfo, bytes]:
    """(header, bytes as patched); the batch lies between other bytes, which must not change."""
    buffer = bytearray(b"before" + batch + b"behind")
    arguments = {"base_offset": 500, "leader_epoch": 9, "append_time_ms": -1, "require_keys": False, **changes}
    try:
        info = kernel.validate_and_assign(buffer, 6, 6 + len(batch), **arguments)  # type: ignore[arg-type]
    except Exception:
        assert buffer == b"before" + batch + b"behind", "a refused batch must stay as it was"
        raise
    assert buffer.startswith(b"before")
    assert buffer.endswith(b"behind")
    return info, bytes(buffer[6:-6])


@pytest.mark.parametrize("codec", CODECS)
def test_offsets_and_epoch_are_assigned_outside_of_the_checksum(codec: Compression) -> None:
    batch = build_batch(RECORDS, compression=codec)
    info, stored = validate(batch)
    assert stored[21:] == batch[21:]
    assert stored[17:21] == batch[17:21]
    assert struct.unpack(">qii", stored[:16]) == (500, len(batch) - 12, 9)
    assert (info.position, info.size) == (6, len(batch))
    assert (info.base_offset, info.last_offset, info.partition_leader_epoch) == (500, 503, 9)
    assert info.records_max_timestamp == 1003
    assert info.records_min_timestamp == 998
    assert info.max_timestamp_delta == 2
    assert info.record_count == 4


@pytest.mark.parametrize("codec", CODECS)
def test_wrong_max_timestamp_is_corrected(codec: Compression) -> None:
    right = build_batch(RECORDS, compression=codec)
    wrong = bytearray(right)
    wrong[35:43] = struct.pack(">q", 77)
    seal(wrong)
    info, stored = validate(bytes(wrong))
    assert info.max_timestamp == 1003
    assert stored[17:] == right[17:]
    assert info.crc == crc32c_package.crc32c(stored[21:])


@pytest.mark.parametrize("codec", CODECS)
def test_append_time(codec: Compression) -> None:
    info, stored = validate(build_batch(RECORDS, compression=codec), append_time_ms=123_456)
    assert info.is_append_time
    assert info.max_timestamp == 123_456
    assert info.records_max_timestamp == 1003
    assert [record.timestamp for record in iterate_records(stored)] == [123_456] * 4
    assert info.crc == crc32c_package.crc32c(stored[21:])
    assert stored == build_batch(
        [record._replace(offset=500 + record.offset) for record in RECORDS],
        base_offset=500,
        compression=codec,
        partition_leader_epoch=9,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time=123_456,
    )


def test_producers_append_time_as_kafka_takes_it() -> None:
    batch = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=5)
    info, stored = validate(batch)
    assert not info.is_append_time
    assert info.max_timestamp == 1003
    assert next(iterate_records(stored)).timestamp == 1000
    with pytest.raises(InvalidTimestampError):
        validate(batch, append_time_ms=5)
    with pytest.raises(InvalidTimestampError):
        validate(build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=-1))


def patched(batch: bytes, at: int, field: bytes) -> bytes:
    """`batch` with other bytes at `at`, its checksum made right."""
    out = bytearray(batch)
    out[at : at + len(field)] = field
    seal(out)
    return bytes(out)


PLAIN = build_batch(RECORDS)
INT32 = struct.Struct(">i").pack
INT64 = struct.Struct(">q").pack


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (b"", InvalidRecordError),
        (PLAIN[:16], InvalidRecordError),
        (PLAIN[:-1], InvalidRecordError),
        (PLAIN + b"x", InvalidRecordError),
        (PLAIN + PLAIN, InvalidRecordError),
        (PLAIN[:8] + INT32(13) + PLAIN[12:], CorruptRecordError),
        (PLAIN[:8] + INT32(40) + PLAIN[12:52], CorruptRecordError),
        (PLAIN[:16] + b"\x03" + PLAIN[17:], CorruptRecordError),
        (PLAIN[:16] + b"\x01" + PLAIN[17:], UnsupportedFormatError),
        (PLAIN[:-1] + b"\x7f", CorruptRecordError),
        (PLAIN[:17] + bytes(4) + PLAIN[21:], CorruptRecordError),
        (patched(PLAIN, 0, INT64(1)), InvalidRecordError),
        (patched(PLAIN, 21, b"\x00\x05"), UnsupportedCompressionError),
        (patched(PLAIN, 21, b"\x00\x20"), InvalidRecordError),  # control
        (patched(PLAIN, 21, b"\x00\x40"), InvalidRecordError),  # delete horizon
        (patched(PLAIN, 21, b"\x00\x01"), CorruptRecordError),  # says gzip, is not
        (patched(PLAIN, 23, INT32(2)), InvalidRecordError),
        (patched(PLAIN, 23, INT32(4)), InvalidRecordError),
        (patched(PLAIN, 57, INT32(3)), InvalidRecordError),
        (patched(patched(PLAIN, 57, INT32(5)), 23, INT32(4)), InvalidRecordError),
        (patched(patched(PLAIN, 57, INT32(3)), 23, INT32(2)), InvalidRecordError),
        (patched(patched(PLAIN, 57, INT32(0)), 23, INT32(-1)), InvalidRecordError),
        (patched(PLAIN, 43, INT64(7)), InvalidRecordError),  # a producer id without a sequence
        (build_batch([], last_offset=0), InvalidRecordError),
        (build_batch(RECORDS, offsets=[0, 1, 2, 4]), InvalidRecordError),
    ],
)
def test_refused(batch: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        validate(batch)
    assert type(caught.value) is error


@pytest.mark.parametrize("codec", CODECS)
def test_offset_deltas_must_run_from_zero(codec: Compression) -> None:
    batch = bytearray(build_batch(RECORDS, offsets=[0, 1, 3, 4], compression=codec))
    batch[23:27] = INT32(3)
    seal(batch)
    with pytest.raises(InvalidRecordError, match="record 2") as caught:
        validate(bytes(batch))
    assert caught.value.record_index == 2


@pytest.mark.parametrize("codec", CODECS)
def test_keys_are_required_for_compacted_topics(codec: Compression) -> None:
    records = [Record(n, 1, None if n in (3, 5) else b"", b"v") for n in range(8)]
    batch = build_batch(records, compression=codec)
    assert validate(batch)[0].record_count == 8
    with pytest.raises(InvalidRecordError) as caught:
        validate(batch, require_keys=True)
    assert caught.value.record_index == 3
    assert [fault.record_index for fault in caught.value.faults] == [3, 5]
    assert all("key" in fault.message for fault in caught.value.faults)


def test_the_list_of_faults_is_bounded() -> None:
    batch = build_batch([Record(n, 1, None, None) for n in range(3000)])
    with pytest.raises(InvalidRecordError) as caught:
        validate(batch, require_keys=True)
    assert len(caught.value.faults) == 1000


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_out_of_range(codec: Compression) -> None:
    times = [100, -1, 99, 200, 201, 150]
    batch = build_batch([Record(n, time, None, b"v") for n, time in enumerate(times)], compression=codec)
    with pytest.raises(InvalidTimestampError) as caught:
        validate(batch, earliest_timestamp=100, latest_timestamp=200)
    assert caught.value.record_index == 2
    assert [fault.record_index for fault in caught.value.faults] == [2, 4]
    info, _ = validate(batch, earliest_timestamp=99, latest_timestamp=201)
    assert (info.records_min_timestamp, info.records_max_timestamp, info.max_timestamp_delta) == (99, 201, 4)
    validate(batch, earliest_timestamp=100, latest_timestamp=200, append_time_ms=7)


def test_a_wrong_time_outranks_a_missing_key() -> None:
    batch = build_batch([Record(0, 50, None, b"v"), Record(1, 9, b"k", b"v")])
    with pytest.raises(InvalidTimestampError) as caught:
        validate(batch, require_keys=True, earliest_timestamp=40)
    assert caught.value.record_index == 1
    assert [fault.record_index for fault in caught.value.faults] == [0, 1]


def test_no_timestamps_at_all() -> None:
    info, _ = validate(build_batch([Record(0, -1, None, b"v"), Record(1, -1, None, b"v")]), earliest_timestamp=100)
    assert (info.records_min_timestamp, info.records_max_timestamp, info.max_timestamp) == (-1, -1, -1)


def test_the_brokers_own_batches_may_do_more() -> None:
    marker = build_batch(
        [Record(7, 5, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3))],
        base_offset=7,
        is_control=True,
        is_transactional=True,
        producer_id=9,
        producer_epoch=1,
    )
    with pytest.raises(InvalidRecordError):
        validate(marker)
    info, _ = validate(marker, from_client=False)
    assert info.is_control
    assert info.is_transactional
    assert info.base_offset == 500


def test_decompression_is_bounded() -> None:
    batch = build_batch([Record(0, 1, None, bytes(100_000))], compression=Compression.ZSTD)
    assert len(batch) < 500
    with pytest.raises(RecordTooLargeError):
        validate(batch, max_decompressed=100_000)
    validate(batch, max_decompressed=100_100)


def test_large_batches_take_the_way_without_the_gil() -> None:
    records = [Record(n, n, b"key", bytes(100)) for n in range(1000)]
    for codec in CODECS:
        info, stored = validate(build_batch(records, compression=codec), append_time_ms=4)
        assert info.record_count == 1000
        assert info.crc == crc32c_package.crc32c(stored[21:])


def test_buffers() -> None:
    with pytest.raises(BufferError):
        kernel.validate_and_assign(PLAIN, 0, len(PLAIN), 0, 0, -1, False)  # type: ignore[arg-type]
    with pytest.raises((TypeError, BufferError)):
        kernel.read_header("text", 0, 4)  # type: ignore[arg-type]
    buffer = bytearray(PLAIN)
    assert kernel.validate_and_assign(memoryview(buffer), 0, len(PLAIN), 3, 0, -1, False).base_offset == 3
    for position, end in ((-1, 10), (0, len(PLAIN) + 1), (20, 10)):
        for call in (
            lambda p, e: kernel.validate_and_assign(bytearray(PLAIN), p, e, 0, 0, -1, False),
            lambda p, e: kernel.read_header(PLAIN, p, e),
            lambda p, e: kernel.find_batch(PLAIN, p, e, 0),
            lambda p, e: kernel.next_batch_position(PLAIN, p, e),
            lambda p, e: kernel.find_timestamp(PLAIN, p, e, 0),
            lambda p, e: kernel.BatchScanner(1, 0).feed(PLAIN, p, e, 0),
        ):
            with pytest.raises(ValueError, match="not within a buffer"):
                call(position, end)


def test_header_fields_are_the_twins() -> None:
    batch = build_batch(
        RECORDS, base_offset=3, producer_id=5, producer_epoch=6, base_sequence=2**31 - 2, is_transactional=True
    )
    info, header = kernel.read_header(b"xy" + batch, 2, 2 + len(batch)), read_batch_header(b"xy" + batch, 2)
    for name in [*header._fields, "last_offset", "last_sequence", "compression", "is_transactional", "is_control"]:
        assert getattr(info, name) == getattr(header, name), name
    assert "offsets=3..6" in repr(info)
    with pytest.raises(TypeError):
        kernel.BatchInfo()
    with pytest.raises(AttributeError):
        info.base_offset = 4  # type: ignore[misc]


def test_find_batch() -> None:
    sizes, log = [], b""
    for base in (10, 14, 30):
        batch = build_batch([record._replace(offset=base + n) for n, record in enumerate(RECORDS)], base_offset=base)
        sizes.append(len(batch))
        log += batch
    second, third = sizes[0], sizes[0] + sizes[1]
    assert kernel.find_batch(log, 0, len(log), 0) == (0, sizes[0], 13)
    assert kernel.find_batch(log, 0, len(log), 13) == (0, sizes[0], 13)
    assert kernel.find_batch(log, 0, len(log), 14) == (second, sizes[1], 17)
    assert kernel.find_batch(log, second, len(log), 10) == (second, sizes[1], 17)
    assert kernel.find_batch(log, 0, len(log), 18) == (third, sizes[2], 33)
    assert kernel.find_batch(log, 0, len(log), 34) is None
    assert kernel.next_batch_position(log, 0, len(log)) == len(log)
    # The header is enough; and without a header the walk goes on from the next batch's place.
    assert kernel.find_batch(log, 0, third + 27, 18) == (third, sizes[2], 33)
    assert kernel.find_batch(log, 0, third + 26, 18) is None
    assert kernel.next_batch_position(log, 0, third + 26) == third
    assert kernel.next_batch_position(log, 0, third - 1) == third
    broken = log[:second] + bytes(100)
    with pytest.raises(CorruptRecordError):
        kernel.find_batch(broken, 0, len(broken), 99)


def test_find_batch_among_old_formats() -> None:
    # Offset, size, crc, magic, attributes, null key, null value: the smallest message there is.
    log = b"".join(struct.pack(">qiIbbii", offset, 14, 0, magic, 0, -1, -1) for offset, magic in ((5, 0), (8, 1)))
    assert kernel.find_batch(log, 0, 52, 5) == (0, 26, 5)
    assert kernel.find_batch(log, 0, 52, 6) == (26, 26, 8)
    assert kernel.find_batch(log, 0, 26 + 17, 6) == (26, 26, 8)
    assert kernel.find_batch(log, 0, 26 + 16, 6) is None
    assert kernel.next_batch_position(log, 0, 26 + 16) == 26
    assert kernel.next_batch_position(log, 0, 52) == 52


@pytest.mark.parametrize("codec", CODECS)
def test_look_up_by_time(codec: Compression) -> None:
    batch = build_batch(RECORDS, base_offset=10, compression=codec)
    end = len(batch)
    assert kernel.find_timestamp(batch, 0, end, 0) == (1000, 10)
    assert kernel.find_timestamp(batch, 0, end, 1001) == (1003, 12)
    assert kernel.find_timestamp(batch, 0, end, 0, 11) == (998, 11)
    assert kernel.find_timestamp(batch, 0, end, 1003, 13) == (1003, 13)
    assert kernel.find_timestamp(batch, 0, end, 1004) is None
    assert kernel.find_timestamp(batch, 0, end, 0, 14) is None
    assert kernel.max_timestamp_record(batch, 0, end) == (1003, 12)
    assert kernel.max_timestamp_record(build_batch([], last_offset=3, compression=codec), 0, 61) is None


def test_look_up_by_append_time() -> None:
    batch = build_batch(RECORDS, base_offset=10, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=44)
    assert kernel.find_timestamp(batch, 0, len(batch), 44) == (44, 10)
    assert kernel.find_timestamp(batch, 0, len(batch), 45) is None
    assert kernel.max_timestamp_record(batch, 0, len(batch)) == (44, 10)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("payload", BROKEN.values(), ids=BROKEN)
def test_broken_records(payload: str, compressed: bool) -> None:
    """Behind the batch come bytes that would complete the record if they were read."""
    data = bytes.fromhex(payload)
    batch = batch_around(compress(Compression.GZIP, data) if compressed else data, attributes=1 if compressed else 0)
    for behind in (b"", bytes(40), b"\x01" * 40, b"\x02" * 40):
        buffer = bytearray(batch + behind)
        for call in (
            lambda: kernel.validate_and_assign(buffer, 0, len(batch), 5, 0, -1, False),  # noqa: B023
            lambda: kernel.max_timestamp_record(buffer, 0, len(batch)),  # noqa: B023
            lambda: kernel.decode_records(buffer, 0, len(batch)),  # noqa: B023
        ):
            with pytest.raises(InvalidRecordError) as caught:
                call()
            # Not the record is at fault but what is behind it: the kernel must not read on to complete a record.
            assert caught.value.record_index == (-1 if data.startswith(GOOD) else 0)
        assert buffer == batch + behind


def test_the_smallest_record() -> None:
    assert validate(batch_around(GOOD))[0].record_count == 1


@pytest.mark.parametrize("codec", CODECS)
def test_decode_records(codec: Compression) -> None:
    batch = build_batch(RECORDS, base_offset=10, compression=codec)
    assert kernel.decode_records(b"xy" + batch, 2, 2 + len(batch)) == [
        record._replace(offset=10 + record.offset) for record in RECORDS
    ]
    assert kernel.decode_records(build_batch([], last_offset=3, compression=codec), 0, 61) == []
    stamped = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=44, compression=codec)
    first = kernel.decode_records(stamped, 0, len(stamped))[0]
    assert type(first) is Record
    assert first.timestamp == 44
    large = build_batch([Record(0, 1, None, bytes(100_000))], compression=Compression.ZSTD)
    with pytest.raises(RecordTooLargeError):
        kernel.decode_records(large, 0, len(large), 100_000)


def test_extreme_timestamps() -> None:
    """Sums wrap as Kafka's do, and no extreme value is taken for "none"."""
    top, bottom = 2**63 - 1, -(2**63)
    info, _ = validate(build_batch([Record(0, top, None, None)]))
    assert (info.records_min_timestamp, info.records_max_timestamp) == (top, top)
    info, _ = validate(build_batch([Record(0, bottom, None, None)]))
    assert (info.records_min_timestamp, info.records_max_timestamp) == (bottom, -1)
    wrapping = patched(build_batch([Record(0, 1, None, None), Record(1, 2, None, None)]), 27, INT64(top))
    info, stored = validate(wrapping)
    assert [record.timestamp for record in iterate_records(stored)] == [top, bottom]
    assert (info.records_min_timestamp, info.records_max_timestamp) == (bottom, top)
