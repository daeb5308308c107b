"""Pages of records against a list of what is in the log, whatever was produced, compacted, aborted or broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleaning import CleaningWorld, data_records, put
from tidelog.broker.http.console.pages import record_reader
from tidelog.broker.http.console.pages.record_reader import (
    ABORTED,
    COMMITTED,
    OPEN,
    WINDOW_BYTES,
    Budget,
    RecordReader,
    Shown,
    Slice,
    Unread,
)
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.producers.transaction_marker import TransactionMarker, marker_batch
from tidelog.storage.values import AppendOrigin


class LogToRead:
    """One log, and a list of the records that are in it."""

    def __init__(self, **settings: Any) -> None:
        self.world = CleaningWorld()
        self.world.start(segment_bytes=2000, **settings)
        self.log = self.world.log()

    def append(
        self, records: Sequence[tuple[bytes | None, bytes | None]], codec: Compression = Compression.NONE, **more: Any
    ) -> None:
        now = self.world.time.milliseconds()
        given = [Record(number, now, key, value) for number, (key, value) in enumerate(records)]
        batch = bytearray(build_batch(given, compression=codec, **more))
        self.log.append_as_leader(batch, 0, len(batch))

    def mark(self, producer_id: int, *, is_commit: bool) -> None:
        batch = marker_batch(producer_id, 0, TransactionMarker(is_commit, 0), self.world.time.milliseconds())
        self.log.append_as_leader(batch, 0, len(batch), origin=AppendOrigin.COORDINATOR)

    def reader(self, *, is_committed: bool = False) -> RecordReader:
        return RecordReader(self.log, is_committed=is_committed)


def offsets(slice_: Slice) -> list[int]:
    return [one.record.offset for one in slice_.entries if isinstance(one, Shown)]


@pytest.fixture
def make() -> Any:
    made: list[LogToRead] = []

    def one(**settings: Any) -> LogToRead:
        made.append(LogToRead(**settings))
        return made[-1]

    yield one
    for shown in made:
        shown.world.stop()


KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
BATCHES = st.lists(
    st.tuples(st.lists(st.tuples(KEYS, st.binary(max_size=40) | st.none()), min_size=1, max_size=8),
    st.sampled_from(Compression)),
    min_size=1, max_size=25,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    BATCHES,
    st.booleans(),
    st.integers(1, 12),
    st.integers(0, 100),
    st.integers(0, 60),
    st.sampled_from([100, 700, 1 << 19]),
)
def test_pages_are_those_of_a_list(
    batches: list[tuple[list[tuple[bytes, bytes | None]], Compression]],
    is_cleaned: bool,
    count: int,
    at: int,
    deleted: int,
    window: int,
) -> None:
    """Forward and back from anywhere, newest of each key, one alone; over compaction's gaps and a log start, in small steps."""
    shown = LogToRead()
    for records, codec in batches:
        shown.append(records, codec)
    if is_cleaned:
        shown.log.roll()
        shown.world.clean_all()
    shown.log.increment_log_start_offset(min(deleted, shown.log.high_watermark))
    with mock.patch.multiple(record_reader, WINDOW_BYTES=window, SLICE_BYTES=window):
        _check(shown, count, at)
    shown.world.stop()


def _check(shown: LogToRead, count: int, at: int) -> None:
    reader = shown.reader()
    everything = reader.forward(0, 10_000, Budget())
    oracle = _all(shown)
    assert [one.record for one in everything.entries if isinstance(one, Shown)] == oracle
    assert everything.next_offset == reader.limit == shown.log.high_watermark
    forward = reader.forward(at, count, Budget())
    wanted = [one.offset for one in oracle if one.offset >= at][:count]
    assert offsets(forward) == wanted
    back = reader.back(at, count, Budget())
    wanted = [one.offset for one in oracle if one.offset < at][-count:]
    assert offsets(back) == wanted
    newest = {one.key: one.offset for one in oracle if one.offset < max(at, reader.start)}
    latest = reader.latest(at, count, Budget())
    assert offsets(latest) == sorted(newest.values(), reverse=True)[:count]
    one = reader.one(at)
    assert (isinstance(one, Shown) and one.record.offset) == (at if at in {r.offset for r in oracle} else False)


def _all(shown: LogToRead) -> list[Record]:
    """By the reader of the storage tests, not by the one under test."""
    return [one for one in data_records(shown.log) if one.offset >= shown.log.log_start_offset]


def _walk(step: Callable[[int], Slice], start: int, following: Callable[[Slice], int]) -> list[int]:
    found: list[int] = []
    at = start
    for _ in range(1000):
        slice_ = step(at)
        if following(slice_) == at:
            return found
        at = following(slice_)
        found += offsets(slice_)
    raise AssertionError("no end")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 120), st.integers(1, 9), st.integers(1, 3000), st.integers(1, 30))
def test_turning_pages_shows_each_record_once_whatever_a_page_may_cost(
    number: int, count: int, cost_bytes: int, cost_records: int
) -> None:
    shown = LogToRead()
    for one in range(number):
        put(shown.log, f"k{one % 4}", "v" * (one % 50))
    reader = shown.reader()

    def budget() -> Budget:
        return Budget(cost_bytes, cost_records)

    forward = _walk(lambda at: reader.forward(at, count, budget()), 0, lambda page: page.next_offset)
    assert forward == list(range(number))
    pages = _walk(lambda at: reader.back(at, count, budget()), reader.limit, lambda page: page.first_offset)
    assert sorted(pages) == list(range(number)), "each once"
    shown.world.stop()


def test_transactions(make: Callable[..., LogToRead]) -> None:
    shown = make(cleanup_policy=frozenset({"delete"}))
    for sequence, (producer, is_commit) in enumerate(((7, True), (7, False))):
        shown.append(
            [(b"k", b"v")], producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        shown.mark(producer, is_commit=is_commit)
    shown.append([(b"k", b"v")], producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    shown.append([(b"k", b"plain")])
    entries = [one for one in shown.reader().forward(0, 50, Budget()).entries if isinstance(one, Shown)]
    assert [one.transaction for one in entries] == [COMMITTED, "", ABORTED, "", OPEN, ""]
    assert [one.marker for one in entries] == [
        "", "commit marker, coordinator epoch 0", "", "abort marker, coordinator epoch 0", "", "",
    ]  # fmt: skip
    committed = shown.reader(is_committed=True)
    assert committed.limit == 4
    assert offsets(committed.forward(0, 50, Budget())) == [0]
    assert offsets(committed.back(99, 50, Budget())) == [0]
    assert offsets(committed.latest(99, 50, Budget())) == [0]
    assert offsets(shown.reader().latest(99, 50, Budget())) == [5], "a marker has no key of ours"


@pytest.mark.damaged("a batch is damaged")
def test_what_can_not_be_read_is_told_and_passed_over(make: Callable[..., LogToRead]) -> None:
    shown = make()
    for number in range(4):
        shown.append([(b"k%d" % number, b"v" * 30)] * 3, Compression.GZIP)
    broken = _break_second(shown)
    entries = shown.reader().forward(0, 50, Budget()).entries
    unread = [one for one in entries if isinstance(one, Unread)]
    assert len(unread) == 1
    assert (unread[0].offset, unread[0].last_offset) == broken
    assert "can't be read" in unread[0].why
    assert offsets(shown.reader().forward(0, 50, Budget())) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
    assert [type(one) for one in shown.reader().back(99, 4, Budget()).entries] == [Shown] * 4
    assert isinstance(shown.reader().one(4), Unread)


def _break_second(shown: LogToRead) -> tuple[int, int]:
    """Makes the compressed bytes of the second batch none; returns its first and last offset."""
    path = f"{shown.log.directory}/{0:020d}.log"
    size = 12 + int.from_bytes(shown.world.fake.read_bytes(path)[8:12], "big")
    shown.world.fake.corrupt(path, size + 61, b"\xee" * 12)
    return 3, 5


def test_steps_back_get_ahead(make: Callable[..., LogToRead]) -> None:
    shown = make()
    for number in range(100):
        put(shown.log, f"k{number}", "v" * 40)
    reader = shown.reader()
    end, steps = reader.limit, 0
    while end > reader.start:
        following = reader.step_back(end, 300)
        assert reader.start <= following < end
        end, steps = following, steps + 1
    assert 10 < steps < 60
    assert reader.step_back(50, WINDOW_BYTES) <= 49
