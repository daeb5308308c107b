"""The decoder into columns gives, for any batches and any wish, what the records say that were put into them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.columns import Row, rows_of
from support.record_strategies import TIMESTAMPS, batch_arguments, records
from tidelog.protocol.records._columns import ColumnBuilder
from tidelog.protocol.records._kernel import decode_records
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch, seal
from tidelog.protocol.records.exceptions import CorruptRecordError, InvalidRecordError
from tidelog.protocol.records.record_batch import (
    BASE_OFFSET_AT,
    BASE_TIMESTAMP_AT,
    LAST_OFFSET_DELTA_AT,
    RECORD_BATCH_OVERHEAD,
    RECORD_COUNT_AT,
    Record,
    iterate_records,
)

MOST_US, LEAST_US = 2**63 - 1, -(2**63)
_INT64 = struct.Struct(">q")
EXTREMES = st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**31, 2**63 - 3, 2**63 - 2, 2**63 - 1])
"""Offsets and times that only a forged or damaged batch has."""


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[bytes], list[Row]]:
    """Batches with gaps between and within them, and their rows."""
    batches, rows, end = [], [], draw(st.integers(0, 100))
    for _ in range(draw(st.integers(0, 5))):
        content = draw(records(min_size=0, max_size=12))
        deltas = sorted(draw(st.sets(st.integers(0, 40), min_size=len(content), max_size=len(content))))
        kind, append_time = draw(st.sampled_from(TimestampType)), draw(st.integers(0, 2**41))
        last = end + max([*deltas, 0])
        batches.append(
            build_batch(
                content,
                base_offset=end,
                offsets=[end + delta for delta in deltas],
                last_offset=last,
                timestamp_type=kind,
                append_time=append_time,
                delete_horizon=draw(st.none() | st.integers(0, 2**41)),
                **draw(batch_arguments()),
            )
        )
        for record, delta in zip(content, deltas, strict=True):
            time = append_time if kind is TimestampType.LOG_APPEND_TIME else record.timestamp
            us = min(max(time * 1000, LEAST_US), MOST_US)
            rows.append(Row(end + delta, us, int(kind), record.key, record.value, record.headers))
        end = last + 1 + draw(st.integers(0, 9))
    return batches, rows


@given(
    logs(), st.booleans(), st.booleans(), st.booleans(), st.integers(0, 200), st.integers(0, 200), TIMESTAMPS, st.data()
)
def test_columns_have_the_rows_that_are_wanted(
    log: tuple[list[bytes], list[Row]], keys: bool, values: bool, headers: bool, first: int, span: int, earliest: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    batches, rows = log
    whole = data.draw(st.booleans())
    limits = {} if whole else {"first_offset": first, "end_offset": first + span, "min_timestamp": earliest}
    latest = data.draw(st.none() | TIMESTAMPS)
    if latest is not None:
        limits["max_timestamp"] = latest
    timestamps = data.draw(st.booleans())
    builder = ColumnBuilder(keys=keys, values=values, headers=headers, timestamps=timestamps, **limits)
    found: list[Row] = []
    for batch in batches:
        before, after = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
        buffer = bytes(before) + batch + bytes(after)
        builder.add_batch(buffer, before, before + len(batch))
        if data.draw(st.booleans()):
            found += rows_of(builder.take())
    found += rows_of(builder.take())
    wanted = [
        row._replace(
            key=row.key if keys else None, value=row.value if values else None, headers=row.headers if headers else ()
        )
        for row in rows
        if whole or (first <= row.offset < first + span and row.timestamp >= min(earliest * 1000, MOST_US))
    ]
    if latest is not None:
        wanted = [row for row in wanted if row.timestamp <= min(latest * 1000, MOST_US)]
    if not timestamps:  # then they are zeros, or right
        found, wanted = ([row._replace(timestamp=0) for row in rows] for rows in (found, wanted))
    assert found == wanted


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 2), st.booleans()), min_size=1, max_size=8),
    st.integers(-5, 300), st.integers(0, 300), batch_arguments(),
)  # fmt: skip
def test_rows_from_headers_are_the_rows_of_the_records(
    shapes: list[tuple[int, int, bool]], first: int, span: int, arguments: dict[str, object]
) -> None:
    """Offsets alone, of batches with gaps and without, of both kinds of time, compressed or not."""
    batches, offsets, base = [], [], 0
    for count, gap, is_append_time in shapes:
        kind = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        there = [base + at * (1 + gap) for at in range(count)]
        own = [Record(offset, 1000 + offset, b"k", b"v") for offset in there]
        batches.append(
            build_batch(own, base_offset=base, offsets=there, timestamp_type=kind, append_time=5, **arguments)  # type: ignore[arg-type]
        )
        offsets += there
        base = there[-1] + 1
    builder = ColumnBuilder(keys=False, values=False, timestamps=False, first_offset=first, end_offset=first + span)
    for batch in batches:
        builder.add_batch(batch, 0, len(batch))
    assert [row.offset for row in rows_of(builder.take())] == [at for at in offsets if first <= at < first + span]


def forged(count: int, delta: int) -> bytes:
    """A batch of one record whose header says that there are `count`, sealed."""
    batch = bytearray(build_batch([Record(0, 1, b"k", b"v")], base_offset=0))
    struct.pack_into(">i", batch, RECORD_COUNT_AT, count)
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA_AT, delta)
    seal(batch)
    return bytes(batch)


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_a_count_for_which_there_is_no_room_is_no_count(count: int) -> None:
    builder = ColumnBuilder(keys=False, values=False, timestamps=False)
    with pytest.raises(InvalidRecordError, match=f"{count} records in"):
        builder.add_batch(forged(count, count - 1), 0, len(forged(count, count - 1)))
    assert builder.rows == 0


def test_a_damaged_batch_is_told_also_where_its_records_are_not_wanted() -> None:
    """Its header says that it is too old, or all that is asked for: the header may be what is damaged."""
    batch = bytearray(build_batch([Record(0, 1000, b"k", b"v")], base_offset=0))
    batch[-2] ^= 1
    for wish in ({"min_timestamp": 5000}, {"keys": False, "values": False, "timestamps": False}):
        with pytest.raises(CorruptRecordError, match="checksum"):
            ColumnBuilder(**wish).add_batch(batch, 0, len(batch))  # type: ignore[arg-type]


def test_batches_that_are_too_old_are_not_decompressed() -> None:
    """Content that no codec reads shows it: the checksum is right."""
    batch = bytearray(build_batch([Record(0, 1000, b"k", b"v" * 50)], base_offset=0, compression=Compression.ZSTD))
    batch[RECORD_BATCH_OVERHEAD:] = bytes(len(batch) - RECORD_BATCH_OVERHEAD)
    seal(batch)
    for wish in ({"min_timestamp": 1001}, {"keys": False, "values": False, "timestamps": False}):
        builder = ColumnBuilder(**wish)  # type: ignore[arg-type]
        builder.add_batch(batch, 0, len(batch))
        assert builder.rows == (0 if "min_timestamp" in wish else 1)
    with pytest.raises(CorruptRecordError):
        ColumnBuilder(min_timestamp=1000).add_batch(batch, 0, len(batch))


@given(EXTREMES, EXTREMES, st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4, unique=True).map(sorted))
@example(2**63 - 1, 0, [0])
@example(2**63 - 2, 0, [0, 1, 2])
@example(-(2**63), 2**63 - 1, [0])
def test_the_three_readers_find_the_same_records_at_the_ends_of_64_bits(
    base_offset: int, base_timestamp: int, deltas: list[int]
) -> None:
    """Wherever a header puts them, and where the sum wraps: a reader without bounds leaves nothing out."""
    made = build_batch([Record(0, 0, b"k", b"%d" % delta) for delta in deltas], base_offset=0, offsets=deltas)
    batch = bytearray(made)
    _INT64.pack_into(batch, BASE_OFFSET_AT, base_offset)
    _INT64.pack_into(batch, BASE_TIMESTAMP_AT, base_timestamp)
    seal(batch)
    wrapped = [(base_offset + delta + 2**63) % 2**64 - 2**63 for delta in deltas]
    expected = [(offset, b"%d" % delta) for offset, delta in zip(wrapped, deltas, strict=True)]
    builder = ColumnBuilder()
    assert builder.add_batch(batch, 0, len(batch)) == len(deltas)
    assert [(row.offset, row.value) for row in rows_of(builder.take())] == expected
    assert [(record.offset, record.value) for record in iterate_records(batch)] == expected
    assert [(record.offset, record.value) for record in decode_records(batch, 0, len(batch))] == expected
    assert {record.timestamp for record in iterate_records(batch)} == {base_timestamp}


@given(EXTREMES, st.integers(-3, 3))
def test_bounds_at_the_ends_of_64_bits_are_bounds(offset: int, span: int) -> None:
    """[first, end) as everywhere; only no end at all lets the last offset there is in."""
    end = max(min(offset + span, 2**63), -(2**63))
    builder = ColumnBuilder(first_offset=offset, end_offset=end)
    added = [
        at for at in range(max(offset - 3, -(2**63)), min(offset + 4, 2**63)) if builder.add_record(at, 0, 0, b"", b"")
    ]
    assert added == list(range(offset, end))
