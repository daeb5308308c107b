"""The cleaner's kernel and its twin, promise by promise. Each test runs against both; the bytes that it expects it makes
itself."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest
from support import cleaner_reference as reference
from support.cleaner_logs import NOW, marker
from tidelog.cleaner.kernel import _kernel as kernel
from tidelog.cleaner.kernel.results import FilterCounts, Stop
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import compress
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.protocol.records.legacy_record import append_legacy_record
from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records, read_batch_header

SECRET = bytes(range(16))
DAY = 86_400_000


@pytest.fixture(params=[kernel, reference], ids=["kernel", "twin"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def rec(key: bytes | None, value: bytes | None = b"v", timestamp: int = NOW) -> Record:
    return Record(0, timestamp, key, value)


def run(
    module: ModuleType,
    data: bytes,
    *,
    aborted: Iterable[tuple[int, int, int]] = (),
    first: int = 0,
    end: int | None = None,
    entries: int = 1000,
    now: int = NOW,
    room: int = 1 << 20,
    **arguments: Any,
) -> tuple[bytes, FilterCounts, Any]:
    """(survivors, counts, transactions) of one pass over `data`."""
    limit = max((header.last_offset for header in iterate_batches(data)), default=-1) + 1 if end is None else end
    map_ = module.OffsetMap(24 * entries, 1.0)
    map_.reset(SECRET)
    transactions = module.Transactions(aborted)
    step = map_.build(data, 0, len(data), first, limit, transactions)
    map_end = step.full_at if step.stopped is Stop.MAP_FULL else limit
    record_filter = module.RecordFilter(map_, map_end, transactions, now, DAY, **arguments)
    out = bytearray(room)
    step = record_filter.filter(data, 0, len(data), out)
    assert step.consumed == len(data)
    return bytes(out[: step.produced]), record_filter.take_counts(), transactions


def offsets(data: bytes) -> list[int]:
    return [record.offset for header in iterate_batches(data) for record in iterate_records(data, header.position)]


# ---- hash and map ----


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_the_hash_is_siphash_2_4_128(length: int, expected: str) -> None:
    """Vectors of the reference implementation: key 00 … 0f, message 00 01 02 …"""
    assert kernel.hash128(SECRET, bytes(range(length))).hex() == expected


@pytest.mark.parametrize("lanes", [True, False])
def test_keys_hashed_four_at_a_time_have_the_hashes_of_one_at_a_time(lanes: bool) -> None:
    """`get` hashes one key, `build` and `filter` many: of one length, of mixed ones, and a remainder below four."""
    lengths = [*[length for length in range(41) for _ in range(4)], 1, 9, 1, 9, 1, 1, 3, 200, 3]
    keys = [bytes([n]) * length + b"%d" % n if n % 2 else b"%d" % n + bytes(length) for n, length in enumerate(lengths)]
    data = build_batch([rec(key) for key in keys]) + build_batch([rec(key) for key in keys], base_offset=len(keys))
    kernel._use_lanes(lanes)
    try:
        map_ = kernel.OffsetMap(24 * 1000)
        map_.reset(SECRET)
        map_.build(data, 0, len(data), 0, 2 * len(keys), kernel.Transactions())
        assert [map_.get(key) for key in keys] == list(range(len(keys), 2 * len(keys)))
        assert map_.entries == len(keys)
        survivors, counts, _ = run(kernel, data)
        assert counts.superseded == counts.records_kept == len(keys)
        assert len(offsets(survivors)) == len(keys)
    finally:
        kernel._use_lanes(True)


def test_codecs_of_the_packages_are_found_without_the_gil() -> None:
    """Not a promise of the daemon, but of its speed: lz4 at the least is native with the wheels that we are tested with."""
    assert Compression.LZ4 in kernel.native_codecs()


def test_a_map_of_1000_entries_cleans_100000_keys_in_100_partial_passes() -> None:
    data = b"".join(
        build_batch([rec(b"%d" % (n + i)) for i in range(500)], base_offset=n) for n in range(0, 100_000, 500)
    )
    map_ = kernel.OffsetMap(24 * 1000, 1.0)
    first, passes, ends = 0, 0, []
    while first < 100_000:
        map_.reset(SECRET)
        step = map_.build(data, 0, len(data), first, 100_000, kernel.Transactions())
        passes += 1
        if step.stopped is not Stop.MAP_FULL:
            break
        assert step.full_at == first + 1000
        assert map_.latest_offset == step.full_at - 1
        first = step.full_at
        ends.append(first)
    assert passes == 100
    assert ends == list(range(1000, 100_000, 1000))


def test_a_full_map_tells_the_exact_record_in_the_middle_of_a_batch(module: ModuleType) -> None:
    data = build_batch([rec(b"a"), rec(b"b"), rec(b"a"), rec(b"c"), rec(b"b")], base_offset=10)
    map_ = module.OffsetMap(24 * 2, 1.0)
    map_.reset(SECRET)
    step = map_.build(data, 0, len(data), 0, 15, module.Transactions())
    assert (step.stopped, step.full_at, step.consumed) == (Stop.MAP_FULL, 13, 0)
    assert (map_.get(b"a"), map_.get(b"b"), map_.get(b"c")) == (12, 11, -1)


def test_build_takes_what_is_in_the_range_and_nothing_else(module: ModuleType) -> None:
    data = build_batch([rec(b"%d" % n) for n in range(10)]) + build_batch([rec(b"late")], base_offset=10)
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    step = map_.build(data, 0, len(data), 3, 7, module.Transactions())
    assert step.stopped is Stop.END
    assert [map_.get(b"%d" % n) for n in range(10)] == [-1, -1, -1, 3, 4, 5, 6, -1, -1, -1]
    assert (map_.get(b"late"), map_.entries) == (-1, 4)


def test_a_cut_off_batch_asks_for_what_it_takes(module: ModuleType) -> None:
    data = build_batch([rec(b"k")])
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    assert map_.build(data, 0, 16, 0, 1, module.Transactions()) == (0, Stop.INPUT, 0, -1, 0)
    assert map_.build(data, 0, 60, 0, 1, module.Transactions()) == (0, Stop.INPUT, len(data), -1, 0)
    record_filter = module.RecordFilter(map_, 1, module.Transactions(), NOW, DAY)
    assert record_filter.filter(data, 0, 60, bytearray(100)) == (0, 0, Stop.INPUT, len(data))
    assert record_filter.counts() == FilterCounts()


# ---- what survives ----


@pytest.mark.parametrize("codec", list(Compression))
def test_survivors_keep_batch_fields_codec_offsets_and_times(module: ModuleType, codec: Compression) -> None:
    headers = ((b"h", b"1"), (b"h", None))
    records = [Record(0, NOW + 5, b"a", b"1"), Record(0, NOW - 3, b"b", b"2", headers), Record(0, NOW + 9, b"a", b"3")]
    arguments: dict[str, Any] = {
        "base_offset": 70,
        "compression": codec,
        "producer_id": 9,
        "producer_epoch": 3,
        "base_sequence": 41,
        "partition_leader_epoch": 6,
    }
    data = build_batch(records, **arguments) + build_batch([rec(b"a")], base_offset=73)
    survivors, counts, _ = run(module, data)
    before, after = read_batch_header(data), read_batch_header(survivors)
    changed = {"size", "crc", "record_count", "max_timestamp"}
    assert {name for name, old, new in zip(before._fields, before, after, strict=True) if old != new} <= changed
    assert after.record_count == 1
    assert after.max_timestamp == NOW - 3
    assert after.crc == crc32c(survivors[21 : after.size])
    assert list(iterate_records(survivors)) == [Record(71, NOW - 3, b"b", b"2", headers)]
    assert counts.superseded == 2
    assert (counts.last_offset, counts.max_timestamp, counts.offset_of_max_timestamp) == (73, NOW, 73)


def test_a_batch_that_keeps_all_is_copied_however_its_codec_would_write_it(module: ModuleType) -> None:
    data = build_batch([rec(b"a", b"x" * 500), rec(b"b")], compression=Compression.GZIP, level=1)
    survivors, counts, _ = run(module, data)
    assert survivors == data
    assert (counts.batches_copied, counts.batches_kept) == (1, 1)


def test_a_tombstone_gets_its_horizon_in_the_first_pass_and_goes_in_the_first_one_after_it(
    module: ModuleType,
) -> None:
    value = build_batch([Record(0, NOW - 9, b"k", b"v"), Record(0, NOW - 7, b"other", b"v")])
    tombstone = build_batch([Record(0, NOW - 5, b"k", None), Record(0, NOW - 4, b"x", b"y")], base_offset=2)
    once, counts, _ = run(module, value + tombstone)
    stamped = list(iterate_batches(once))[1]
    assert stamped.has_delete_horizon
    assert stamped.base_timestamp == counts.earliest_horizon == NOW + DAY
    assert [(r.offset, r.timestamp) for r in iterate_records(once, stamped.position)] == [(2, NOW - 5), (3, NOW - 4)]
    assert stamped.max_timestamp == NOW - 4
    assert (counts.superseded, counts.tombstones_kept) == (1, 1)
    # Before it is due nothing changes, a pass a second later moves it no further.
    same, counts, _ = run(module, once, now=NOW + DAY - 1)
    assert same == once
    assert counts.earliest_horizon == NOW + DAY
    gone, counts, _ = run(module, once, now=NOW + DAY)
    assert offsets(gone) == [1, 3]
    assert (counts.tombstones_expired, counts.earliest_horizon) == (1, -1)
    assert [r.timestamp for r in iterate_records(gone, list(iterate_batches(gone))[1].position)] == [NOW - 4]
    again, counts, _ = run(module, gone, now=NOW + 9 * DAY)
    assert again == gone


def test_a_horizon_under_append_time_leaves_the_times_as_they_were(module: ModuleType) -> None:
    data = build_batch(
        [rec(b"k", None)], timestamp_type=TimestampType.LOG_APPEND_TIME, append_time=NOW - 50, base_offset=4
    )
    survivors, _, _ = run(module, data)
    header = read_batch_header(survivors)
    assert (header.has_delete_horizon, header.is_append_time, header.max_timestamp) == (True, True, NOW - 50)
    assert [record.timestamp for record in iterate_records(survivors)] == [NOW - 50]


def test_a_horizon_rewrites_every_delta_however_many_bytes_it_takes(module: ModuleType) -> None:
    times = [NOW, NOW + DAY, NOW + DAY - 64, 0, -1, 2**62, NOW - 2**31]
    data = build_batch([Record(0, time, b"%d" % n, None if n == 2 else b"v" * 62) for n, time in enumerate(times)])
    survivors, _, _ = run(module, data)
    assert [record.timestamp for record in iterate_records(survivors)] == times
    assert read_batch_header(survivors).base_timestamp == NOW + DAY


def test_keyless_records_go_and_are_counted(module: ModuleType) -> None:
    data = build_batch([rec(None), rec(b"a"), rec(None), rec(b"")])
    survivors, counts, _ = run(module, data)
    assert offsets(survivors) == [1, 3]
    assert counts.keyless == 2


def test_nothing_at_or_above_the_maps_end_is_touched(module: ModuleType) -> None:
    inside = build_batch([rec(b"a"), rec(b"a")])
    across = build_batch([rec(b"a"), rec(None), rec(b"b", None), rec(None), rec(b"c", None), rec(b"a")], base_offset=2)
    beyond = build_batch([rec(None), rec(b"x", None), rec(b"x")], base_offset=8)
    survivors, counts, _ = run(module, inside + across + beyond, end=5)
    assert offsets(survivors) == [2, 4, 5, 6, 7, 8, 9, 10]
    assert survivors.endswith(beyond)
    # The tombstone at 4 waits for its horizon until the rest of its batch has been in a map: the one at 6 must outlive the
    # pass that removes what it deletes.
    assert not any(header.has_delete_horizon for header in iterate_batches(survivors))
    assert counts.earliest_horizon == -1


def test_records_below_the_log_start_go_and_are_counted_apart(module: ModuleType) -> None:
    data = build_batch([rec(b"a"), rec(b"b")]) + build_batch([rec(b"c"), rec(b"a"), rec(b"d")], base_offset=2)
    survivors, counts, _ = run(module, data, log_start_offset=3)
    assert offsets(survivors) == [3, 4]
    assert (counts.below_start, counts.superseded) == (3, 0)


# ---- empty batches ----


def test_the_last_batch_stays_when_everything_in_it_goes(module: ModuleType) -> None:
    horizon = build_batch(
        [rec(b"t", None)], base_offset=5, last_offset=8, delete_horizon=NOW, partition_leader_epoch=2,
        compression=Compression.LZ4,
    )  # fmt: skip
    survivors, counts, _ = run(module, build_batch([rec(b"a")]) + horizon, keep_last_offset=8)
    (_, empty) = iterate_batches(survivors)
    assert empty.size == 61
    assert (empty.base_offset, empty.last_offset, empty.record_count) == (5, 8, 0)
    assert (empty.attributes, empty.base_timestamp, empty.max_timestamp) == (0, -1, NOW)
    assert empty.partition_leader_epoch == 2
    assert empty.crc == crc32c(survivors[empty.position + 21 :])
    assert (counts.tombstones_expired, counts.last_offset, counts.earliest_horizon) == (1, 8, -1)
    # Once more and it stays as it is; when it is not the last any more, it goes.
    assert run(module, survivors, keep_last_offset=8)[0] == survivors
    assert offsets(run(module, survivors)[0]) == [0]
    assert len(list(iterate_batches(run(module, survivors)[0]))) == 1


def test_exactly_the_batch_with_the_producers_last_offset_stays(module: ModuleType) -> None:
    def batch(offset: int, sequence: int) -> bytes:
        return build_batch([rec(b"k")], base_offset=offset, producer_id=7, producer_epoch=1, base_sequence=sequence)

    data = batch(0, 0) + batch(1, 1) + batch(2, 0) + build_batch([rec(b"k")], base_offset=3)
    survivors, counts, _ = run(module, data, producers=[(7, 2, 1)])
    first, second = iterate_batches(survivors)
    assert (first.last_offset, first.record_count, first.producer_id, first.base_sequence) == (2, 0, 7, 0)
    assert second.base_offset == 3
    assert counts.superseded == 3
    assert len(list(iterate_batches(run(module, data, producers=[(8, 2, 1)])[0]))) == 1


def test_a_range_in_which_only_empty_batches_survive(module: ModuleType) -> None:
    data = b"".join(
        build_batch([rec(b"k%d" % n)], base_offset=n, producer_id=n, producer_epoch=0, base_sequence=0)
        for n in range(5)
    )
    later = b"".join(build_batch([rec(b"k%d" % n)], base_offset=5 + n) for n in range(5))
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    transactions = module.Transactions()
    map_.build(data + later, 0, len(data + later), 0, 10, transactions)
    record_filter = module.RecordFilter(map_, 10, transactions, NOW, DAY, producers=[(n, n, 0) for n in range(5)])
    out = bytearray(1000)
    step = record_filter.filter(data, 0, len(data), out)
    counts = record_filter.counts()
    assert step.produced == 5 * 61
    assert (counts.records_kept, counts.batches_kept, counts.last_offset) == (0, 5, 4)
    assert (counts.max_timestamp, counts.offset_of_max_timestamp) == (NOW, 0)


def test_an_empty_control_batch_goes_unless_it_must_stay(module: ModuleType) -> None:
    empty = build_batch(
        [], base_offset=3, last_offset=3, producer_id=7, producer_epoch=2, is_transactional=True, is_control=True
    )
    data = empty + build_batch([rec(b"a")], base_offset=4)
    assert offsets(run(module, data)[0]) == [4]
    assert run(module, data, producers=[(7, -1, 2)])[0] == data
    assert offsets(run(module, data, producers=[(7, -1, 3)])[0]) == [4]


# ---- transactions ----


def transaction(offset: int, producer: int, *records: Record) -> bytes:
    return build_batch(
        list(records),
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def test_aborted_records_supersede_nothing_and_go(module: ModuleType) -> None:
    data = build_batch([rec(b"k", b"committed")]) + transaction(1, 5, rec(b"k", b"aborted")) + marker(2, 5, 0, False)
    survivors, counts, transactions = run(module, data, aborted=[(5, 1, 2)])
    assert [r.value for r in iterate_records(survivors)] == [b"committed"]
    assert (counts.aborted, counts.markers_kept, counts.records_kept) == (1, 1, 2)
    assert transactions.take_kept_aborts() == [(5, 1, 2)]
    assert transactions.take_kept_aborts() == []


def test_aborted_is_a_matter_of_producer_and_offset(module: ModuleType) -> None:
    transactions = module.Transactions([(5, 10, 20), (5, 40, 50), (6, 0, 100)])
    hit = [offset for offset in range(0, 60, 5) if transactions.is_aborted(5, offset)]
    assert hit == [10, 15, 20, 40, 45, 50]
    assert not transactions.is_aborted(4, 15)
    assert not transactions.is_aborted(7, 15)
    plain = build_batch([rec(b"k")], base_offset=15, producer_id=5, producer_epoch=0, base_sequence=0)
    survivors, _, _ = run(module, plain, aborted=[(5, 10, 20)])
    assert survivors == plain, "idempotent, not transactional"


def test_a_marker_lives_while_a_record_of_its_transaction_does(module: ModuleType) -> None:
    data = transaction(0, 5, rec(b"k")) + marker(1, 5, 0, True) + build_batch([rec(b"j")], base_offset=2)
    survivors, counts, _ = run(module, data, now=NOW + 99 * DAY)
    assert survivors == data
    assert counts.earliest_horizon == -1
    # Its last record goes: the marker gets its horizon in this very pass, though the log may stay quiet from now on.
    data += build_batch([rec(b"k")], base_offset=3)
    once, counts, _ = run(module, data)
    stamped = next(iterate_batches(once))
    assert (stamped.is_control, stamped.has_delete_horizon, stamped.base_timestamp) == (True, True, NOW + DAY)
    assert [(r.timestamp, r.key) for r in iterate_records(once)] == [(NOW - 1000, b"\x00\x00\x00\x01")]
    assert counts.earliest_horizon == NOW + DAY
    assert run(module, once, now=NOW + DAY - 1)[0] == once
    gone, counts, _ = run(module, once, now=NOW + DAY)
    assert offsets(gone) == [2, 3]
    assert counts.markers_expired == 1


def test_state_is_carried_over_segments_and_a_copy_of_it_starts_again(module: ModuleType) -> None:
    parts = [transaction(n, 5, rec(b"%d" % n)) for n in range(4)] + [marker(4, 5, 0, True)]
    whole = b"".join(parts)
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    transactions = module.Transactions()
    map_.build(whole, 0, len(whole), 0, 5, transactions)
    record_filter = module.RecordFilter(map_, 5, transactions, NOW, DAY)
    out = bytearray(1000)
    for part in parts[:-1]:
        record_filter.filter(part, 0, len(part), out)
        assert transactions.open_producers() == [5]
    saved = transactions.copy()
    record_filter.filter(parts[-1], 0, len(parts[-1]), out)
    assert out[: len(parts[-1])] == parts[-1], "no horizon: its records live"
    assert transactions.open_producers() == []
    assert saved.open_producers() == [5]


def test_a_map_that_is_full_within_an_aborted_transaction(module: ModuleType) -> None:
    data = build_batch([rec(b"k"), rec(b"j")]) + transaction(2, 5, rec(b"k")) + build_batch([rec(b"m")], base_offset=3)
    data += transaction(4, 5, rec(b"j")) + marker(5, 5, 0, False)
    survivors, counts, transactions = run(module, data, aborted=[(5, 2, 5)], entries=2)
    # Full at 3: what was aborted below it goes, what was aborted beyond it waits, and so does the marker.
    assert offsets(survivors) == [0, 1, 3, 4, 5]
    assert counts.aborted == 1
    assert transactions.take_kept_aborts() == [(5, 2, 5)]
    survivors, counts, _ = run(module, survivors, aborted=[(5, 2, 5)], first=3)
    assert offsets(survivors) == [0, 1, 3, 5]


def test_a_marker_that_is_the_producers_last_word_becomes_an_empty_batch(module: ModuleType) -> None:
    data = marker(3, 5, 2, True, delete_horizon=NOW)
    survivors, counts, _ = run(module, data, producers=[(5, -1, 2)])
    (header,) = iterate_batches(survivors)
    assert (header.record_count, header.is_control, header.is_transactional, header.producer_epoch) == (
        0,
        True,
        True,
        2,
    )
    assert (counts.markers_expired, counts.records_kept) == (1, 0)
    assert run(module, data, producers=[(5, -1, 1)])[0] == b""


def test_other_control_records_stay(module: ModuleType) -> None:
    record = Record(0, NOW, struct.pack(">hh", 0, 2), b"leader change")
    data = build_batch([record], is_control=True, delete_horizon=NOW)
    survivors, counts, _ = run(module, data)
    assert survivors == data
    assert (counts.markers_kept, counts.earliest_horizon) == (1, -1)


# ---- buffers ----


def test_survivors_that_grow_when_they_are_compressed_again(module: ModuleType) -> None:
    """What is left is noise, and the batch was smaller than that because of what went."""
    noise = random.Random(1).randbytes(3000)
    data = build_batch([rec(b"a", noise), rec(b"b", noise)], compression=Compression.ZSTD, level=19)
    data += build_batch([rec(b"b")], base_offset=2)
    survivors, _, _ = run(module, data)
    assert [record.value for record in iterate_records(survivors)] == [noise]
    stamped = build_batch([rec(b"%d" % n, None) for n in range(300)])
    survivors, _, _ = run(module, stamped)
    assert len(survivors) > len(stamped)


def test_a_batch_larger_than_the_output_says_how_much_it_takes(module: ModuleType) -> None:
    data = build_batch([rec(b"a", b"x" * 5000)])
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    transactions = module.Transactions()
    map_.build(data, 0, len(data), 0, 1, transactions)
    record_filter = module.RecordFilter(map_, 1, transactions, NOW, DAY)
    step = record_filter.filter(data, 0, len(data), bytearray(1000))
    assert (step.consumed, step.produced, step.stopped) == (0, 0, Stop.OUTPUT)
    assert step.needed == len(data)
    assert record_filter.counts() == FilterCounts(), "nothing counts before it is written"
    out = bytearray(step.needed)
    assert record_filter.filter(data, 0, len(data), out).produced == len(data)
    assert out == data


def test_a_segment_of_aborted_batches_needs_no_output_at_all(module: ModuleType) -> None:
    data = b"".join(transaction(n, 5, rec(b"k", b"x" * 3000)) for n in range(50))
    survivors, counts, _ = run(module, data, aborted=[(5, 0, 60)], room=0)
    assert survivors == b""
    assert counts.aborted == 50


def test_output_that_is_full_goes_on_at_the_next_batch(module: ModuleType) -> None:
    batches = [build_batch([rec(b"%d" % n)], base_offset=n) for n in range(3)]
    data = b"".join(batches)
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    record_filter = module.RecordFilter(map_, 3, module.Transactions(), NOW, DAY)
    out = bytearray(2 * len(batches[0]) + 10)
    step = record_filter.filter(data, 0, len(data), out)
    assert (step.consumed, step.produced, step.stopped) == (2 * len(batches[0]), 2 * len(batches[0]), Stop.OUTPUT)
    step = record_filter.filter(data, step.consumed, len(data), out)
    assert bytes(out[: step.produced]) == batches[2]
    assert record_filter.take_counts().records_kept == 3


# ---- what cannot be cleaned ----


def damaged(data: bytes, at: int, reseal: bool) -> bytes:
    out = bytearray(data)
    out[at] ^= 0xFF
    if reseal:
        struct.pack_into(">I", out, 17, crc32c(bytes(out[21:])))
    return bytes(out)


BATCH = build_batch([rec(b"abc", b"defg"), rec(b"x")], base_offset=9)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (damaged(BATCH, 70, False), CorruptRecordError),
        (damaged(BATCH, 57, True), CorruptRecordError),  # count
        (damaged(BATCH, 16, False), CorruptRecordError),  # magic
        (BATCH[:8] + bytes(4) + BATCH[12:], CorruptRecordError),  # size
        (damaged(BATCH, 61, True), InvalidRecordError),  # the first record's length
        (damaged(BATCH, 64, True), InvalidRecordError),  # its offset delta
        (damaged(BATCH, 65, True), InvalidRecordError),  # its key's length
    ],
)
def test_a_broken_batch_is_an_error_in_both_passes_and_never_sealed_again(
    module: ModuleType, data: bytes, error: type[Exception]
) -> None:
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    with pytest.raises(error):
        map_.build(data, 0, len(data), 0, 100, module.Transactions())
    record_filter = module.RecordFilter(map_, 100, module.Transactions(), NOW, DAY)
    with pytest.raises(error):
        record_filter.filter(data, 0, len(data), bytearray(1000))
    assert record_filter.counts() == FilterCounts()


def test_offsets_are_held_against_those_around_the_batch(module: ModuleType) -> None:
    batches = b"".join(
        build_batch([Record(0, NOW, b"k", b"v"), Record(0, NOW, b"l", b"w")], base_offset=base) for base in (10, 12, 20)
    )
    size = len(batches) // 3
    assert module.check_offsets(batches, 0, len(batches), 10, 22) == 22
    assert module.check_offsets(batches, 0, len(batches) - 1, 3, 14) == 14  # of the last one not all is there
    assert module.check_offsets(batches, 2 * size, len(batches), 20, 22) == 22
    assert module.check_offsets(batches, 0, 0, 5, 6) == 5
    for lowest, limit in ((11, 100), (10, 21), (10, 13)):
        with pytest.raises(CorruptRecordError, match="belong"):
            module.check_offsets(batches, 0, len(batches), lowest, limit)
    swapped = batches[size : 2 * size] + batches[:size]
    with pytest.raises(CorruptRecordError, match="stands where offsets from 14 to 99 belong"):
        module.check_offsets(swapped, 0, len(swapped), 10, 100)
    backwards = bytearray(batches[:size])
    backwards[23:27] = b"\xff" * 4  # the last offset lies before the first
    with pytest.raises(CorruptRecordError):
        module.check_offsets(backwards, 0, size, 0, 100)


def test_offsets_of_old_messages_are_looked_at_too(module: ModuleType) -> None:
    messages = bytearray()
    for offset in (3, 4, 9):
        append_legacy_record(messages, 1, offset, NOW, b"k", b"v", 0)
    assert module.check_offsets(messages, 0, len(messages), 3, 10) == 10
    for lowest, limit in ((4, 10), (3, 9)):
        with pytest.raises(CorruptRecordError, match="belong"):
            module.check_offsets(messages, 0, len(messages), lowest, limit)


def test_codecs_that_do_not_exist_break_or_expand_too_far_are_errors(module: ModuleType) -> None:
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    unknown = bytearray(BATCH)
    unknown[22] |= 5
    struct.pack_into(">I", unknown, 17, crc32c(bytes(unknown[21:])))
    with pytest.raises(UnsupportedCompressionError):
        map_.build(unknown, 0, len(unknown), 0, 100, module.Transactions())
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        large = build_batch([rec(b"k", bytes(100_000))], compression=codec)
        with pytest.raises(RecordTooLargeError):
            map_.build(large, 0, len(large), 0, 100, module.Transactions(), max_decompressed=50_000)
        broken = bytearray(large)
        broken[-len(large) // 3] ^= 0xFF
        struct.pack_into(">I", broken, 17, crc32c(bytes(broken[21:])))
        try:
            map_.build(broken, 0, len(broken), 0, 100, module.Transactions())
        except (CorruptRecordError, InvalidRecordError):
            continue
        assert codec in (Compression.SNAPPY, Compression.LZ4), "these two carry no checksum of their own"


def test_old_formats_are_left_to_legacy(module: ModuleType) -> None:
    old = struct.pack(">qiIBBii", 5, 14, 0, 0, 0, -1, -1)
    data = build_batch([rec(b"a")]) + old
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    step = map_.build(data, 0, len(data), 0, 10, module.Transactions())
    assert (step.stopped, step.consumed) == (Stop.OLD_FORMAT, len(data) - len(old))
    record_filter = module.RecordFilter(map_, 10, module.Transactions(), NOW, DAY)
    step = record_filter.filter(data, 0, len(data), bytearray(1000))
    assert (step.stopped, step.consumed) == (Stop.OLD_FORMAT, len(data) - len(old))


def test_what_a_caller_gets_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="not within a buffer"):
        kernel.check_offsets(BATCH, 0, len(BATCH) + 1, 0, 100)
    map_ = kernel.OffsetMap(2400)
    with pytest.raises(ValueError, match="reset it first"):
        map_.build(BATCH, 0, len(BATCH), 0, 1, kernel.Transactions())
    map_.reset(SECRET)
    with pytest.raises(ValueError, match="not within a buffer"):
        map_.build(BATCH, 0, len(BATCH) + 1, 0, 1, kernel.Transactions())
    with pytest.raises(ValueError, match="not negative"):
        kernel.RecordFilter(map_, 1, kernel.Transactions(), -1, DAY)
    with pytest.raises(BufferError):
        kernel.RecordFilter(map_, 1, kernel.Transactions(), NOW, DAY).filter(BATCH, 0, len(BATCH), bytes(10))


def test_native_codecs_write_what_the_packages_write() -> None:
    """The same stream, byte for byte, around the sizes at which lz4 begins another block."""
    for codec in kernel.native_codecs():
        for size in (1, 100, 65_000, 65_536, 70_000, 200_000):
            value = (b"%d " % size) * size
            data = build_batch([rec(b"gone"), rec(b"k", value[:size])], compression=Compression(codec))
            data += build_batch([rec(b"gone")], base_offset=2)
            survivors, _, _ = run(kernel, data)
            twin, _, _ = run(reference, data)
            assert survivors == twin
            assert read_batch_header(survivors).record_count == 1


@pytest.mark.parametrize("native", [True, False])
def test_a_compressed_stream_of_nothing_is_broken_and_not_asked_for_again(module: ModuleType, native: bool) -> None:
    """Without native codecs the kernel took "nothing" for "not decompressed yet", for ever (found by fuzzing)."""
    batch = bytearray(build_batch([rec(b"a")], compression=Compression.ZSTD)[:61] + compress(Compression.ZSTD, b""))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    map_ = module.OffsetMap(2400)
    map_.reset(SECRET)
    kernel._use_native(kernel.native_codecs() if native else frozenset())
    try:
        with pytest.raises(InvalidRecordError):
            module.RecordFilter(map_, 1, module.Transactions(), NOW, DAY).filter(
                bytes(batch), 0, len(batch), bytearray(1000)
            )
    finally:
        kernel._use_native(kernel.native_codecs())
