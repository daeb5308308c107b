"""Incremental fetch sessions: what is read, what is left out of the answer, who gets a slot."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.partitions import fetch_session
from tidelog.broker.partitions.fetch_session import EVICTION_MS, FetchContext, FetchPartition, FetchSessions
from tidelog.protocol.errors import ErrorCode


class ManualTime:
    def __init__(self) -> None:
        self.now = 0.0

    def milliseconds(self) -> int:
        return int(self.now)

    def monotonic_ms(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


def sessions(slots: int = 2) -> tuple[FetchSessions, ManualTime]:
    time = ManualTime()
    return FetchSessions(slots, time, random.Random(7)), time


def ask(
    cache: FetchSessions, session_id: int, epoch: int, wanted: dict[str, int], forgotten: Iterable[str] = ()
) -> FetchContext:
    pairs = [((topic, 0), FetchPartition(-1, offset, 1000)) for topic, offset in wanted.items()]
    return cache.resolve(session_id, epoch, pairs, [(topic, 0) for topic in forgotten], uses_topic_ids=False)


def test_a_request_outside_a_session_reads_what_it_names_and_opens_none() -> None:
    cache, _ = sessions()
    context = ask(cache, 0, -1, {"a": 5})
    assert (context.session_id, context.incremental, len(cache)) == (0, False, 0)
    assert list(context.partitions) == [("a", 0)]


def test_an_incremental_request_changes_only_what_it_names() -> None:
    cache, _ = sessions()
    first = ask(cache, 0, 0, {"a": 5, "b": 6, "c": 7})
    assert first.session_id > 0
    second = ask(cache, first.session_id, 1, {"b": 60, "d": 8}, forgotten=["a"])
    assert second.incremental
    assert {key[0]: wanted.offset for key, wanted in second.partitions.items()} == {"b": 60, "c": 7, "d": 8}


def test_epochs_must_come_one_after_the_other_and_wrap_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MAX_EPOCH", 2)
    cache, _ = sessions()
    opened = ask(cache, 0, 0, {"a": 5}).session_id
    assert ask(cache, opened, 2, {}).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(cache, opened, 1, {}).error is ErrorCode.NONE
    assert ask(cache, opened, 2, {}).error is ErrorCode.NONE
    assert ask(cache, opened, 3, {}).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(cache, opened, 1, {}).error is ErrorCode.NONE


def test_unknown_sessions_and_a_change_of_naming_are_refused() -> None:
    cache, _ = sessions()
    assert ask(cache, 99, 1, {}).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    opened = ask(cache, 0, 0, {"a": 5}).session_id
    context = cache.resolve(opened, 1, [], [], uses_topic_ids=True)
    assert context.error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_final_epoch_ends_the_session_and_an_emptied_one_gives_its_slot_back() -> None:
    cache, _ = sessions()
    opened = ask(cache, 0, 0, {"a": 5}).session_id
    ask(cache, opened, -1, {"a": 5})
    assert len(cache) == 0
    opened = ask(cache, 0, 0, {"a": 5}).session_id
    assert ask(cache, opened, 1, {}, forgotten=["a"]).session_id == 0
    assert len(cache) == 0


def test_slots_are_taken_only_from_sessions_that_idled_long_enough() -> None:
    cache, time = sessions(slots=1)
    old = ask(cache, 0, 0, {"a": 1}).session_id
    assert ask(cache, 0, 0, {"b": 1}).session_id == 0
    time.now += EVICTION_MS
    new = ask(cache, 0, 0, {"b": 1}).session_id
    assert new > 0
    assert ask(cache, old, 1, {}).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.evictions == 1


def test_no_slots_means_no_sessions() -> None:
    cache, _ = sessions(slots=0)
    assert ask(cache, 0, 0, {"a": 1}).session_id == 0


@given(st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=30))
def test_an_answer_leaves_out_exactly_what_the_client_knows(steps: list[tuple[int, int, int, bool]]) -> None:
    # Oracle: the client's own view, updated from the answers that it gets.
    partition = FetchPartition(-1, 0, 1000)
    known: tuple[int, int] | None = None
    for error, high_watermark, log_start, has_records in steps:
        told = partition.changed(error, high_watermark, log_start, has_records)
        assert told == (has_records or error != 0 or known != (high_watermark, log_start))
        known = None if error else (high_watermark, log_start)


def test_all_sessions_together_hold_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MAX_PARTITIONS", 10)
    cache, time = sessions(slots=5)
    first = ask(cache, 0, 0, {f"a{n}": 0 for n in range(6)}).session_id
    second = ask(cache, 0, 0, {f"b{n}": 0 for n in range(4)}).session_id
    assert first
    assert second
    full = ask(cache, 0, 0, {"c": 0})
    assert (full.session_id, full.error, list(full.partitions)) == (0, ErrorCode.NONE, [("c", 0)])
    grown = ask(cache, second, 1, {"more": 0})
    assert grown.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the client asks for everything, without a session"
    assert cache.partition_count == 6
    assert ask(cache, first, 1, {"more": 0}, forgotten=["a0"]).error is ErrorCode.NONE
    time.now += EVICTION_MS
    third = ask(cache, 0, 0, {f"c{n}": 0 for n in range(10)})
    assert third.session_id, "the silent one makes room"
    assert (cache.partition_count, len(cache), cache.evictions) == (10, 1, 1)
    ask(cache, third.session_id, -1, {})
    assert (cache.partition_count, len(cache)) == (0, 0)
    assert ask(cache, 0, 0, {f"d{n}": 0 for n in range(11)}).session_id == 0, "more than all may hold"


def test_requests_that_wait_count_beside_their_session_but_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a list of its partitions, and each partition knows of it: on thousands of connections with one session they were
    as many times its partitions, and counted for nothing."""
    monkeypatch.setattr(fetch_session, "MAX_PARTITIONS", 10)
    cache, _ = sessions()
    mine = ask(cache, 0, 0, {f"a{n}": 0 for n in range(4)}).session_id
    first = cache.hold(4, mine)
    assert first is not None, "it has no more than its session"
    assert cache.partition_count == 4
    second = cache.hold(4, mine)
    assert second is not None
    assert cache.partition_count == 8
    assert cache.hold(4, mine) is None
    assert cache.hold(3) is None
    alone = cache.hold(2)
    assert alone is not None
    cache.let_go(second)
    cache.let_go(alone)
    cache.let_go(first)
    assert cache.partition_count == 4
    assert cache.hold(4, mine) is not None
    assert cache.partition_count == 4


@pytest.mark.parametrize("how", ["ended", "shrunk", "grown"])
def test_a_request_that_waits_counts_on_while_its_session_changes(how: str) -> None:
    cache, _ = sessions()
    names = [f"a{n}" for n in range(6)]
    mine = ask(cache, 0, 0, dict.fromkeys(names, 0)).session_id
    held = cache.hold(6, mine)
    assert held is not None
    if how == "ended":
        ask(cache, mine, -1, {})
    elif how == "shrunk":
        ask(cache, mine, 1, {}, names[2:])
    else:
        ask(cache, mine, 1, {"b": 0})
    assert cache.partition_count == (7 if how == "grown" else 6)
    cache.let_go(held)
    assert cache.partition_count == {"ended": 0, "shrunk": 2, "grown": 7}[how]
    ask(cache, mine, -1, {})
    assert cache.partition_count == 0
