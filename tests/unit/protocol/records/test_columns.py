"""What the decoder into columns refuses, and what is left of its columns then."""

from __future__ import annotations

import pytest
from support.broken_records import BROKEN, GOOD, batch_around
from support.columns import Row, rows_of
from tidelog.protocol.records._columns import ColumnBuilder
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError, InvalidRecordError, RecordTooLargeError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record

RECORDS = [Record(5, 1000, b"k", b"v", ((b"h", None), (b"", b"x"))), Record(6, 1001, None, None, ())]
BATCH = build_batch(RECORDS, base_offset=5)
ROWS = [Row(5, 1_000_000, 0, b"k", b"v", ((b"h", None), (b"", b"x"))), Row(6, 1_001_000, 0, None, None, ())]

NULLS = build_batch([Record(9, -1, None, None)], base_offset=9)
KEYED = bytes.fromhex("10 00 00 00 02 6b 02 76 00")


def test_an_empty_builder_gives_empty_columns() -> None:
    assert rows_of(ColumnBuilder(headers=True).take()) == []


@pytest.mark.parametrize("payload", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_record_leaves_the_columns_as_they_were(payload: str) -> None:
    """The first record of the batch is sound and has a key, so there is something to take back."""
    builder = ColumnBuilder(headers=True)
    builder.add_batch(BATCH, 0, len(BATCH))
    bad = batch_around(KEYED + bytes.fromhex(payload), count=2)
    with pytest.raises(InvalidRecordError):
        builder.add_batch(bad, 0, len(bad))
    builder.add_batch(NULLS, 0, len(NULLS))
    assert rows_of(builder.take()) == [*ROWS, Row(9, -1000, 0, None, None, ())]


def test_headers_that_nobody_wants_are_not_looked_at() -> None:
    bad = batch_around(bytes.fromhex(BROKEN["a null header key"]))
    assert ColumnBuilder().add_batch(bad, 0, len(bad)) == 1


@pytest.mark.parametrize("count", [-1, 2, 3, 2**31 - 1])
def test_a_count_that_the_bytes_do_not_bear_out_is_refused(count: int) -> None:
    data = bytearray(batch_around(GOOD, count=1))
    data[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(InvalidRecordError):
        ColumnBuilder().add_batch(data, 0, len(data), check_crc=False)


def test_bytes_behind_the_last_record_are_refused() -> None:
    data = batch_around(GOOD + b"\0", count=1)
    with pytest.raises(InvalidRecordError):
        ColumnBuilder().add_batch(data, 0, len(data))


def test_the_checksum_is_looked_at_unless_one_says_no() -> None:
    data = bytearray(BATCH)
    data[-3] ^= 1  # the value of the second header
    with pytest.raises(CorruptRecordError, match="offset 5"):
        ColumnBuilder().add_batch(data, 0, len(data))
    assert ColumnBuilder().add_batch(data, 0, len(data), check_crc=False) == 2


@pytest.mark.parametrize(
    ("start", "end"), [(0, len(BATCH) - 1), (1, len(BATCH)), (0, 60), (0, len(BATCH) + 1), (-1, 80)]
)
def test_what_is_no_whole_batch_is_refused(start: int, end: int) -> None:
    with pytest.raises(CorruptRecordError):
        ColumnBuilder().add_batch(BATCH, start, end)


def test_older_formats_come_by_record() -> None:
    old = build_legacy_set([Record(0, 1, b"k", bytes(50))], magic=1)
    builder = ColumnBuilder(headers=True, first_offset=5, end_offset=7, min_timestamp=1000)
    with pytest.raises(CorruptRecordError, match="format 2"):
        builder.add_batch(old, 0, len(old), check_crc=False)
    added = [
        builder.add_record(offset, timestamp, 0, record.key, record.value, record.headers)
        for record in RECORDS
        for offset, timestamp in ((record.offset, record.timestamp), (4, 1000), (7, 1000), (5, 999))
    ]
    assert added == [True, False, False, False] * 2
    assert rows_of(builder.take()) == ROWS


def test_a_timestamp_out_of_range_is_the_nearest_that_there_is() -> None:
    builder = ColumnBuilder()
    for timestamp in (2**62, -(2**62), 2**63 // 1000, -1):
        builder.add_record(0, timestamp, 0, None, None)
    assert [row.timestamp for row in rows_of(builder.take())] == [2**63 - 1, -(2**63), 2**63 // 1000 * 1000, -1000]


def test_a_bomb_is_not_unpacked() -> None:
    bomb = build_batch([Record(0, 0, None, bytes(10_000_000))], compression=Compression.ZSTD)
    with pytest.raises(RecordTooLargeError):
        ColumnBuilder().add_batch(bomb, 0, len(bomb), max_decompressed=1_000_000)
