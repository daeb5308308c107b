"""Cleaning messages of formats 0 and 1: no format is converted, survivors keep their bytes and offsets."""

from __future__ import annotations

import itertools

import pytest
from tidelog.cleaner.kernel import mixed_formats as legacy
from tidelog.cleaner.kernel._kernel import OffsetMap, RecordFilter, Transactions
from tidelog.cleaner.kernel.results import FilterCounts, Stop
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.legacy_record import (
    build_legacy_set,
    iterate_legacy_messages,
    iterate_legacy_records,
    unwrap,
)
from tidelog.protocol.records.record_batch import Record, iterate_records

NOW = 1_700_000_000_000
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
OLD = list(itertools.product((0, 1), CODECS))
# a is superseded by offset 14, b by nothing, c is a tombstone, None is keyless.
RECORDS = [
    Record(10, 500, b"a", b"old"),
    Record(11, 900, b"b", b"stays"),
    Record(12, 400, b"c", None),
    Record(13, 999, None, b"keyless"),
    Record(14, 300, b"a", b"new"),
]


def filter_over(
    data: bytes, *, end: int = 100, entries: int = 50, retain_deletes: bool = True, room: int = 10_000, **arguments: int
) -> tuple[bytes, FilterCounts, int]:
    """(survivors, counts, the map's end) of one pass over `data`."""
    map_ = OffsetMap(24 * entries, 1.0)
    map_.reset(bytes(16))
    transactions = Transactions()
    built = legacy.build(map_, data, 0, len(data), 0, end, transactions)
    map_end = built.full_at if built.stopped is Stop.MAP_FULL else end
    mixed = legacy.MixedFilter(
        RecordFilter(map_, map_end, transactions, NOW, 1000, **arguments), map_, map_end, **arguments
    )
    mixed.retain_deletes = retain_deletes
    out, position = bytearray(room), 0
    survivors = b""
    while position < len(data):
        step = mixed.filter(data, position, len(data), out)
        survivors += out[: step.produced]
        position += step.consumed
        if step.stopped is Stop.OUTPUT and not step.produced:
            out = bytearray(step.needed)
    return survivors, mixed.take_counts(), map_end


def offsets_and_values(data: bytes) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for message in iterate_legacy_messages(data)
        for record in iterate_legacy_records(message)
    ]


@pytest.mark.parametrize(("magic", "codec"), OLD)
def test_survivors_keep_format_codec_offsets_and_their_very_bytes(magic: int, codec: Compression) -> None:
    data = build_legacy_set(RECORDS, magic=magic, base_offset=10, compression=codec)
    survivors, counts, _ = filter_over(data)
    assert offsets_and_values(survivors) == [(11, b"stays"), (12, None), (14, b"new")]
    messages = list(iterate_legacy_messages(survivors))
    assert {message.magic for message in messages} == {magic}
    assert {message.compression for message in messages} == {codec}
    if codec is Compression.NONE:
        inner_before, inner_after = data, survivors
    else:
        (wrapper,) = messages
        assert wrapper.offset == 14
        assert wrapper.timestamp == (900 if magic else -1)
        inner_before, inner_after = unwrap(next(iterate_legacy_messages(data))), unwrap(wrapper)
    before = [inner_before[m.position : m.position + m.size] for m in iterate_legacy_messages(inner_before)]
    after = [inner_after[m.position : m.position + m.size] for m in iterate_legacy_messages(inner_after)]
    assert after == [before[1], before[2], before[4]]
    assert (counts.superseded, counts.keyless, counts.removed, counts.records_kept) == (1, 1, 2, 3)
    assert (counts.last_offset, counts.tombstones_kept, counts.earliest_horizon) == (14, 1, -1)
    assert counts.max_timestamp == (900 if magic else -1)


@pytest.mark.parametrize(("magic", "codec"), OLD)
def test_when_the_last_of_a_wrapper_goes_the_offsets_of_the_others_stay(magic: int, codec: Compression) -> None:
    first = build_legacy_set(RECORDS[:2], magic=magic, base_offset=10, compression=codec)
    second = build_legacy_set([Record(0, 1, b"b", b"newer")], magic=magic, base_offset=12, compression=codec)
    survivors, _, _ = filter_over(first + second)
    assert offsets_and_values(survivors) == [(10, b"old"), (12, b"newer")]


@pytest.mark.parametrize(("magic", "codec"), OLD)
def test_what_keeps_all_it_has_is_copied(magic: int, codec: Compression) -> None:
    data = build_legacy_set(RECORDS[1:3], magic=magic, base_offset=11, compression=codec)
    survivors, counts, _ = filter_over(data)
    assert survivors == data
    assert counts.batches_copied == counts.batches_read == counts.batches_kept


@pytest.mark.parametrize(("magic", "codec"), OLD)
def test_tombstones_go_with_the_age_of_the_file(magic: int, codec: Compression) -> None:
    data = build_legacy_set(RECORDS, magic=magic, base_offset=10, compression=codec)
    survivors, counts, _ = filter_over(data, retain_deletes=False)
    assert offsets_and_values(survivors) == [(11, b"stays"), (14, b"new")]
    assert counts.tombstones_expired == 1


def test_append_time_of_a_wrapper_stays() -> None:
    data = build_legacy_set(
        RECORDS,
        magic=1,
        base_offset=10,
        compression=Compression.GZIP,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        append_time=77,
    )
    survivors, counts, _ = filter_over(data)
    (wrapper,) = iterate_legacy_messages(survivors)
    assert (wrapper.is_append_time, wrapper.timestamp, counts.max_timestamp) == (True, 77, 77)


def test_nothing_beyond_the_range_is_touched_and_the_last_record_stays() -> None:
    data = build_legacy_set(RECORDS, magic=1, base_offset=10, compression=Compression.GZIP)
    survivors, _, _ = filter_over(data, end=13)  # the new a at 14 is not in the map, nor is the keyless 13 looked at
    assert survivors == data
    survivors, counts, _ = filter_over(data, keep_last_offset=13)
    assert [offset for offset, _ in offsets_and_values(survivors)] == [11, 12, 13, 14]
    survivors, counts, _ = filter_over(data, log_start_offset=12)
    assert [offset for offset, _ in offsets_and_values(survivors)] == [12, 14]
    assert counts.below_start == 2


def test_a_full_map_ends_within_a_wrapper() -> None:
    data = build_legacy_set(RECORDS, magic=0, base_offset=10, compression=Compression.SNAPPY)
    survivors, _, map_end = filter_over(data, entries=2)
    assert map_end == 12
    assert survivors == data, "the new a lies beyond the map"


def test_all_formats_in_one_log() -> None:
    """A key of a format 2 batch supersedes one in format 0, and the other way round."""
    old = build_legacy_set([Record(0, 0, b"a", b"v0"), Record(0, 0, b"b", b"v0")], magic=0, base_offset=0)
    new = build_batch([Record(0, 5, b"a", b"v2"), Record(0, 5, b"d", b"v2")], base_offset=2)
    wrapped = build_legacy_set(
        [Record(0, 9, b"d", b"v1"), Record(0, 8, b"e", b"v1")], magic=1, base_offset=4, compression=Compression.LZ4
    )
    data = old + new + wrapped
    survivors, counts, _ = filter_over(data)
    assert survivors.startswith(old[len(old) // 2 :])
    assert survivors.endswith(wrapped)
    middle = survivors[len(old) // 2 : -len(wrapped)]
    assert [(record.offset, record.value) for record in iterate_records(middle)] == [(2, b"v2")]
    assert (counts.superseded, counts.records_read, counts.records_kept) == (2, 6, 4)
    assert (counts.max_timestamp, counts.offset_of_max_timestamp, counts.last_offset) == (9, 5, 5)
    assert counts.bytes_read == len(data)
    assert counts.bytes_kept == len(survivors)


def test_a_small_output_is_taken_up_where_it_was_full() -> None:
    data = b"".join(
        build_legacy_set([Record(0, 0, b"%d" % n, b"x" * 50)], magic=n % 2, base_offset=n) for n in range(20)
    )
    assert filter_over(data, room=10)[0] == filter_over(data, room=200)[0] == data


def test_a_broken_message_is_not_cleaned() -> None:
    data = bytearray(build_legacy_set(RECORDS, magic=1, base_offset=10))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="offset 14"):
        filter_over(bytes(data))
