"""The cleaner's kernel against its twin, byte for byte, and its map against a dict, over random logs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import cleaner_reference as reference
from support.cleaner_logs import KEYS, NOW, RandomLog, random_logs
from tidelog.cleaner.kernel import _kernel as kernel
from tidelog.cleaner.kernel.results import FilterCounts, Stop
from tidelog.protocol.records.exceptions import RecordError
from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records

SECRET = bytes(range(16))
DAY = 86_400_000


def build(module: ModuleType, log: RandomLog, first: int, end: int, entries: int, chunk: int) -> tuple[Any, int, Any]:
    """(map, its end, transactions) after pass 1 in chunks."""
    map_ = module.OffsetMap(24 * entries, 1.0)
    map_.reset(SECRET)
    transactions = module.Transactions(log.aborted)
    position, size = 0, chunk
    while True:
        limit = min(position + size, len(log.data))
        step = map_.build(log.data, position, limit, first, end, transactions)
        position += step.consumed
        if step.stopped is Stop.MAP_FULL:
            return map_, step.full_at, transactions
        if step.stopped is Stop.END or position == len(log.data):
            return map_, end, transactions
        assert step.stopped is Stop.INPUT
        size = chunk if step.consumed else max(step.needed, size + 1)


def clean(
    module: ModuleType, log: RandomLog, built: tuple[Any, int, Any], room: int, chunk: int, **arguments: Any
) -> tuple[bytes, FilterCounts, Any]:
    """(survivors, counts, transactions) after pass 2 in chunks, with an output of `room` bytes that grows when it must."""
    map_, map_end, transactions = built
    record_filter = module.RecordFilter(map_, map_end, transactions, NOW, DAY, **arguments)
    output = bytearray(room)
    survivors = b""
    position, size = 0, chunk
    while position < len(log.data):
        limit = min(position + size, len(log.data))
        step = record_filter.filter(log.data, position, limit, output)
        survivors += output[: step.produced]
        position += step.consumed
        if step.stopped is Stop.OUTPUT:
            if step.produced == 0:
                assert step.needed > len(output)
                output = bytearray(step.needed)
        else:
            assert step.stopped is Stop.INPUT
            size = chunk if step.consumed else max(step.needed, size + 1)
    return survivors, record_filter.take_counts(), transactions


def all_records(data: bytes) -> Iterator[Record]:
    for header in iterate_batches(data):
        if not header.is_control:
            yield from iterate_records(data, header.position)


@settings(max_examples=120, deadline=None)
@given(
    random_logs(),
    st.data(),
    st.sampled_from([1, 2, 3, 5, 100]),
    st.sampled_from([61, 300, 1000, 100_000]),
    st.sampled_from([61, 1000, 100_000]),
)
def test_kernel_and_twin_leave_the_same_bytes(
    log: RandomLog, data: st.DataObject, entries: int, chunk: int, room: int
) -> None:
    first = data.draw(st.integers(0, log.end_offset))
    end = data.draw(st.integers(first, log.end_offset))
    bounds = [offset - 1 for offset in log.boundaries]
    arguments = {
        "keep_last_offset": data.draw(st.sampled_from([-1, *bounds])),
        "producers": [
            (producer, data.draw(st.sampled_from([-1, *bounds])), 0)
            for producer in data.draw(st.sets(st.sampled_from([1, 2])))
        ],
        "log_start_offset": data.draw(st.sampled_from([0, 0, 0, 3])),
    }
    ours = build(kernel, log, first, end, entries, chunk)
    twins = build(reference, log, first, end, entries, chunk)
    assert ours[1] == twins[1]
    assert (ours[0].entries, ours[0].latest_offset) == (twins[0].entries, twins[0].latest_offset)
    assert [ours[0].get(key) for key in KEYS] == [twins[0].get(key) for key in KEYS]
    survivors, counts, transactions = clean(kernel, log, ours, room, chunk, **arguments)
    twin_survivors, twin_counts, twin_transactions = clean(reference, log, twins, room, chunk, **arguments)
    assert survivors == twin_survivors
    assert counts == twin_counts
    assert transactions.open_producers() == twin_transactions.open_producers()
    assert transactions.take_kept_aborts() == twin_transactions.take_kept_aborts()
    assert counts.records_read == counts.records_kept + counts.removed


@pytest.fixture
def without_native_codecs() -> Iterator[None]:
    kernel._use_native(())
    yield
    kernel._use_native(kernel.native_codecs())


@pytest.mark.usefixtures("without_native_codecs")
def test_codec_packages_give_the_same_bytes_as_native_codecs() -> None:
    @settings(max_examples=30, deadline=None)
    @given(random_logs())
    def same(log: RandomLog) -> None:
        whole = (0, log.end_offset, 100, 100_000)
        ours, counts, _ = clean(kernel, log, build(kernel, log, *whole), 100_000, 1000)
        twins, twin_counts, _ = clean(reference, log, build(reference, log, *whole), 100_000, 1000)
        assert ours == twins
        assert counts == twin_counts

    same()


@settings(max_examples=50, deadline=None)
@given(random_logs())
def test_what_survives_is_the_last_record_of_each_key_that_was_not_aborted(log: RandomLog) -> None:
    """Told from the records alone: neither the twin nor the kernel's map has a say."""
    built = build(kernel, log, 0, log.end_offset, 1000, 100_000)
    survivors, _, _ = clean(kernel, log, built, 100_000, 100_000)
    final: dict[bytes, Record] = {}
    for header in iterate_batches(log.data):
        aborted = header.is_transactional and any(
            header.producer_id == producer and first <= header.base_offset <= last
            for producer, first, last in log.aborted
        )
        if aborted or header.is_control:
            continue
        for record in iterate_records(log.data, header.position):
            if record.key is None:
                continue
            final[record.key] = record
            if record.value is None and header.has_delete_horizon and header.base_timestamp <= NOW:
                del final[record.key]
    assert list(all_records(survivors)) == sorted(final.values(), key=lambda record: record.offset)


@settings(max_examples=50, deadline=None)
@given(random_logs())
def test_a_second_pass_changes_nothing_before_a_horizon_is_due(log: RandomLog) -> None:
    once, counts, _ = clean(kernel, log, build(kernel, log, 0, log.end_offset, 1000, 100_000), 100_000, 100_000)
    again = log._replace(data=once)
    twice, counts, _ = clean(kernel, again, build(kernel, again, 0, log.end_offset, 1000, 100_000), 100_000, 100_000)
    assert counts.removed == 0
    # A header that nobody asked to keep goes in the pass after; here none was asked for.
    assert twice == once


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 2**62)), max_size=120))
def test_the_map_is_a_dict_of_largest_offsets_with_so_many_entries(slots: int, puts: list[tuple[bytes, int]]) -> None:
    map_ = kernel.OffsetMap(24 * slots, 1.0)
    map_.reset(SECRET)
    expected: dict[bytes, int] = {}
    for key, offset in puts:
        fits = key in expected or len(expected) < slots
        assert map_.put(key, offset) is fits
        if fits:
            expected[key] = max(offset, expected.get(key, -1))
    assert map_.entries == len(expected)
    assert all(map_.get(key) == expected.get(key, -1) for key, _ in puts)
    assert map_.latest_offset == max(expected.values(), default=-1)


@settings(max_examples=60, deadline=None)
@given(
    random_logs(),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=6),
    st.booleans(),
)
def test_damaged_bytes_are_an_error_or_a_result_but_never_more_than_their_bounds(
    log: RandomLog, damage: list[tuple[int, int]], check_crc: bool
) -> None:
    """Without checksums every field may be anything; what goes wrong is told by a RecordError."""
    data = bytearray(log.data)
    for at, value in damage:
        data[at % len(data)] = value
    map_ = kernel.OffsetMap(24 * 50)
    map_.reset(SECRET)
    transactions = kernel.Transactions(log.aborted)
    limit = 1 << 20
    with contextlib.suppress(RecordError):
        map_.build(data, 0, len(data), 0, 2**62, transactions, check_crc=check_crc, max_decompressed=limit)
    record_filter = kernel.RecordFilter(
        map_, log.end_offset, transactions, NOW, DAY, check_crc=check_crc, max_decompressed=limit
    )
    output = bytearray(4 * len(data) + 1000)
    with contextlib.suppress(RecordError):
        step = record_filter.filter(data, 0, len(data), output)
        assert step.consumed <= len(data)
        assert not any(output[step.produced :]), "written beyond what was said"
