from __future__ import annotations

import random

import pytest
from support.old_formats import old_logs
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.conversion import convert_batch, down_convert, needs_conversion
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.protocol.records.legacy_record import build_legacy_set, legacy_record_size
from tidelog.protocol.records.memory_records import is_intact, iterate_batches, iterate_records, read_header
from tidelog.protocol.records.record_batch import Record

RECORDS = [Record(offset, 1000 + offset, b"k", b"v" * 30, ((b"h", b"x"),)) for offset in range(4)]


def records_in(data: bytes) -> list[Record]:
    return [record for header in iterate_batches(data) for record in iterate_records(data, header.position)]


def offsets_in(data: bytes) -> list[int]:
    return [record.offset for record in records_in(data)]


def test_headers_producers_and_transactions_are_lost_on_the_way_down() -> None:
    batch = build_batch(
        RECORDS, producer_id=7, producer_epoch=1, base_sequence=3, is_transactional=True, partition_leader_epoch=9
    )
    for magic in (0, 1):
        down = convert_batch(batch, read_header(batch), magic)
        headers = list(iterate_batches(down))
        assert [h.last_offset for h in headers] == [0, 1, 2, 3]
        assert all(is_intact(down, h) and h.attributes == 0 for h in headers)
        assert records_in(down) == [r._replace(headers=(), timestamp=r.timestamp if magic else -1) for r in RECORDS]


def test_control_and_empty_batches_have_no_older_form() -> None:
    control = build_batch(RECORDS[:1], is_control=True, is_transactional=True, producer_id=1, producer_epoch=0)
    empty = build_batch([], base_offset=1, last_offset=5)
    data = build_batch(RECORDS[:1], base_offset=10)
    for magic in (0, 1):
        for batch in (control, empty):
            assert convert_batch(batch, read_header(batch), magic) == b""
        down = down_convert(control + empty + data, magic)
        assert (offsets_in(down.data), down.record_count, down.next_offset) == ([10], 1, 11)
        assert down_convert(control + empty, magic) == (b"", 0, 6)
    assert down_convert(control + data, 2) == (control + data, 0, 11)


def test_older_batches_go_as_they_are() -> None:
    old = build_legacy_set(RECORDS[:2], magic=0) + build_legacy_set(RECORDS[2:], magic=1, base_offset=2)
    assert down_convert(old, 1) == (old, 0, 4)
    down = down_convert(old, 0)
    assert (down.record_count, down.next_offset, offsets_in(down.data)) == (2, 4, [0, 1, 2, 3])
    assert {h.magic for h in iterate_batches(down.data)} == {0}


def test_a_slice_ends_in_mid_batch() -> None:
    one, two = build_batch(RECORDS), build_batch(RECORDS, base_offset=4)
    for length in range(len(one), len(one + two)):
        assert down_convert((one + two)[:length], 1).next_offset == 4
    assert down_convert(one[:-1], 1) == (b"", 0, -1)
    assert down_convert(b"", 1) == (b"", 0, -1)


def test_from_the_middle_of_a_batch() -> None:
    """As single messages, what precedes the offset asked for would be taken for new; in a wrapper it is passed over."""
    plain, packed = build_batch(RECORDS), build_batch(RECORDS, compression=Compression.GZIP)
    assert offsets_in(down_convert(plain, 1, 2).data) == [2, 3]
    assert offsets_in(down_convert(packed, 1, 2).data) == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_what_is_behind_a_batchs_last_record_is_not_answered_with_that_record(codec: Compression) -> None:
    """Compaction took offsets 4 to 6: a client that has read 3 asks for 4, and must get on."""
    batch = build_batch(RECORDS, last_offset=6, compression=codec)
    for offset in (4, 6):
        assert down_convert(batch, 1, offset) == (b"", 0, 7)
    assert offsets_in(down_convert(batch, 1, 3).data)[-1] == 3


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_no_more_than_the_client_takes_is_converted(magic: int, codec: Compression) -> None:
    """The answer ends with the message that reaches the limit; a wrapper that is larger than it is unpacked."""
    many = [Record(n, 1000 + n, None, random.Random(n).randbytes(100)) for n in range(50)]
    size = legacy_record_size(magic, None, many[0].value)
    batches = build_batch(many, compression=codec) + build_batch(many, base_offset=50, compression=codec)
    for limit in (1, size - 1, size, size + 1, 7 * size):
        down = down_convert(batches, magic, 10, max_bytes=limit)
        messages = -(-limit // size)
        assert offsets_in(down.data) == list(range(10, 10 + messages))
        assert len(down.data) == messages * size
        assert down.record_count == messages
    whole = down_convert(batches, magic, max_bytes=len(down_convert(batches[: len(batches) // 2], magic).data))
    assert offsets_in(whole.data) == list(range(50))
    assert down_convert(batches, magic, max_bytes=1 << 20) == down_convert(batches, magic)
    # Behind the offset asked for nothing is left of the first batch.
    assert offsets_in(down_convert(build_batch(many) + batches[:0], magic, 50, max_bytes=9).data) == []


def test_what_needs_no_conversion() -> None:
    zero, one, two = build_legacy_set(RECORDS, magic=0), build_legacy_set(RECORDS, magic=1), build_batch(RECORDS)
    for data, newest in [(b"", -1), (zero, 0), (zero + one, 1), (one + two, 2), (zero + two[:-1], 0), (zero[:20], -1)]:
        assert [needs_conversion(data, magic) for magic in range(3)] == [magic < newest for magic in range(3)]
    with pytest.raises(CorruptRecordError):
        needs_conversion(bytes(40), 0)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_not_for_old_clients(magic: int) -> None:
    batch = build_batch(RECORDS, compression=Compression.ZSTD)
    with pytest.raises(UnsupportedCompressionError):
        down_convert(batch, magic)
    # What stands before it is told first.
    assert down_convert(build_batch(RECORDS) + batch, magic) == down_convert(build_batch(RECORDS), magic)
    # An append may be stored in another codec.
    down = convert_batch(batch, read_header(batch), magic, compression=Compression.LZ4)
    assert [(h.magic, h.compression) for h in iterate_batches(down)] == [(magic, 3)]
    assert offsets_in(down) == [0, 1, 2, 3]
    with pytest.raises(UnsupportedCompressionError):
        convert_batch(build_batch(RECORDS), read_header(build_batch(RECORDS)), magic, compression=Compression.ZSTD)


def test_unknown_codec() -> None:
    data = bytearray(build_batch(RECORDS))
    data[22] |= 5
    with pytest.raises(UnsupportedCompressionError):
        down_convert(data, 1)


def test_append_time_stays_append_time() -> None:
    batch = build_batch(
        RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=77, compression=Compression.GZIP
    )
    down = convert_batch(batch, read_header(batch), 1)
    up = convert_batch(down, read_header(down), 2, partition_leader_epoch=4)
    header = read_header(up)
    assert (header.is_append_time, header.max_timestamp, header.partition_leader_epoch) == (True, 77, 4)
    assert {record.timestamp for data in (down, up) for record in records_in(data)} == {77}


def test_a_delete_horizon_is_no_timestamp() -> None:
    batch = build_batch(RECORDS, delete_horizon=5_000_000)
    assert [r.timestamp for r in records_in(down_convert(batch, 1).data)] == [1000, 1001, 1002, 1003]


def test_damage_and_bombs() -> None:
    batch = build_batch([Record(0, 1, b"k", bytes(1 << 20))], compression=Compression.GZIP)
    with pytest.raises(RecordTooLargeError):
        down_convert(batch, 1, max_decompressed=1 << 16)
    with pytest.raises(CorruptRecordError):
        down_convert(batch[:70] + b"xxxx" + batch[74:], 1)


@pytest.mark.parametrize("name", old_logs())
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_logs_by_kafka_in_every_format(name: str, magic: int) -> None:
    log = old_logs()[name]
    if "zstd" in name and magic < 2:
        with pytest.raises(UnsupportedCompressionError):
            down_convert(log.data, magic)
        return
    out = b"".join(convert_batch(log.data, header, magic) for header in iterate_batches(log.data))
    lowest = {record.offset: min(batch.magic, magic) for batch in log.batches for record in batch.records}
    assert [record[:4] for record in records_in(out)] == [
        (r.offset, r.timestamp if lowest[r.offset] else -1, r.key, r.value) for r in log.records
    ]
    if name.startswith(f"v{magic}"):
        assert out == log.data


def test_a_batch_whose_offsets_do_not_rise_is_told_as_one() -> None:
    """Its checksum is right: somebody wrote it so."""
    batch = bytearray(build_batch([Record(0, 1, None, b"a"), Record(1, 1, None, b"b")]))
    second = batch.rindex(b"\x02", 61, len(batch) - 4)  # the offset delta, 1, zigzag
    batch[second] = 1  # -1
    seal(batch)
    for magic in (0, 1):
        with pytest.raises(InvalidRecordError, match="do not rise"):
            convert_batch(batch, read_header(batch), magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_damaged_batch_gets_no_new_checksum(magic: int) -> None:
    """What is before it is given, and then it is told, as to a client that needs no conversion."""
    damaged = bytearray(build_batch(RECORDS, base_offset=4))
    damaged[damaged.rindex(b"v")] ^= 1
    down = down_convert(build_batch(RECORDS) + damaged, magic)
    assert (offsets_in(down.data), down.next_offset) == ([0, 1, 2, 3], 4)
    with pytest.raises(CorruptRecordError, match="checksum of the batch at 4"):
        down_convert(damaged, magic, 4)


def test_a_damaged_message_among_others_gets_no_new_checksum() -> None:
    data = bytearray(build_legacy_set(RECORDS, magic=1))
    size = len(data) // 4
    data[3 * size - 1] ^= 1  # of offset 2
    down = down_convert(data, 0)
    assert (offsets_in(down.data), down.next_offset) == ([0, 1], 2)
    with pytest.raises(CorruptRecordError, match="checksum of the batch at 2"):
        down_convert(data[2 * size :], 0, 2)
    assert offsets_in(down_convert(data[3 * size :], 0, 3).data) == [3]
