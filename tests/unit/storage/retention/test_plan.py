from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.config.log_config import LogConfig
from tidelog.storage.deletion_policy import LogFacts, NamedPolicy, find_policy
from tidelog.storage.retention.plan import plan_deletions
from tidelog.storage.values import SegmentView

NOW = 1_000_000
BUILT_IN = [find_policy("time"), find_policy("size")]


def views(*rows: tuple[int, int, int]) -> list[SegmentView]:
    """(base offset, size, largest timestamp) of each; the last one is active and ends 10 offsets after its base."""
    ends = [row[0] for row in rows[1:]] + [rows[-1][0] + 10]
    return [
        SegmentView(base, end, size, largest, index == len(rows) - 1)
        for index, ((base, size, largest), end) in enumerate(zip(rows, ends, strict=True))
    ]


def facts(segments: list[SegmentView], start: int = 0, high: int = 10**9, **settings: object) -> LogFacts:
    config = LogConfig(**{"retention_ms": -1, "retention_bytes": -1} | settings)
    return LogFacts("t", 0, config, NOW, sum(segment.size for segment in segments), start, high)


def deleted(
    segments: list[SegmentView], start: int = 0, high: int = 10**9, **settings: object
) -> list[tuple[int, str]]:
    plan = plan_deletions(segments, facts(segments, start, high, **settings), BUILT_IN)
    assert plan.failures == []
    return [(deletion.base_offset, deletion.policy) for deletion in plan.deletions]


THREE = views((0, 100, NOW - 300), (10, 100, NOW - 200), (20, 100, NOW - 100))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"retention_ms": 150}, [0, 10]),
        ({"retention_ms": 200}, [0]),
        ({"retention_ms": 50}, [0, 10, 20]),
        ({"retention_ms": 0}, [0, 10, 20]),
        ({"retention_bytes": 300}, []),
        ({"retention_bytes": 201}, []),
        ({"retention_bytes": 200}, [0]),
        ({"retention_bytes": 100}, [0, 10]),
        ({"start": 10}, [0]),
        ({"start": 29}, [0, 10]),
        ({"start": 10, "cleanup_policy": frozenset({"compact"})}, [0]),
        ({"retention_ms": 50, "cleanup_policy": frozenset({"compact"})}, []),
        ({"retention_ms": 50, "cleanup_policy": frozenset({"compact", "delete"})}, [0, 10, 20]),
    ],
)
def test_each_cause_stops_at_the_first_segment_that_it_spares(settings: dict[str, object], expected: list[int]) -> None:
    assert [base for base, _ in deleted(THREE, **settings)] == expected  # type: ignore[arg-type]


def test_one_call_deletes_all_that_more_calls_would() -> None:
    """KAFKA-12177: what size takes makes room for time to go on."""
    segments = views((0, 10, NOW - 900), (10, 500, NOW - 1), (20, 500, NOW - 900), (30, 500, NOW))
    once = deleted(segments, retention_ms=100, retention_bytes=1000)
    assert once == [(0, "time"), (10, "size"), (20, "time")]
    rest = [segment for segment in segments if segment.base_offset not in dict(once)]
    assert deleted(rest, retention_ms=100, retention_bytes=1000) == []


def test_nothing_at_or_above_the_high_watermark_is_deleted() -> None:
    assert [base for base, _ in deleted(THREE, high=19, retention_ms=0)] == [0]
    assert deleted(THREE, high=9, retention_ms=0) == []


def test_retention_bytes_below_segment_bytes_keeps_the_active_segment() -> None:
    for limit in (0, 1, 99):
        assert [base for base, _ in deleted(THREE, retention_bytes=limit)] == [0, 10]


def test_an_empty_active_segment_is_never_named() -> None:
    assert deleted(views((0, 0, 0)), retention_ms=0) == []


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(NOW - 400, NOW + 100)), min_size=1, max_size=8),
    st.integers(-1, 900),
    st.integers(-1, 400),
    st.integers(0, 80),
    st.integers(0, 90),
)
def test_deletion_is_idempotent_and_a_prefix(
    rows: list[tuple[int, int]], retention_bytes: int, retention_ms: int, start: int, high: int
) -> None:
    segments = views(*[(index * 10, size, largest) for index, (size, largest) in enumerate(rows)])
    settings = {"retention_bytes": retention_bytes, "retention_ms": retention_ms}
    gone = deleted(segments, start, high, **settings)
    assert [base for base, _ in gone] == [segment.base_offset for segment in segments[: len(gone)]]
    assert all(segment.next_base_offset <= high for segment in segments[: len(gone)])
    assert deleted(segments[len(gone) :], start, high, **settings) == []


# --- policies of others ---


class Policy:
    """A policy out of a function."""

    def __init__(self, choose: Callable[[Iterable[SegmentView]], Iterable[SegmentView]], takes_active: bool = False):
        self._choose = choose
        self.takes_active = takes_active

    def choose(self, segments: Iterable[SegmentView], _log: LogFacts) -> Iterable[SegmentView]:
        return self._choose(segments)


def test_another_policy_is_asked_beside_the_built_in_ones() -> None:
    mine = NamedPolicy("first-two", Policy(lambda segments: takewhile(lambda s: s.base_offset < 20, segments)))
    plan = plan_deletions(THREE, facts(THREE, retention_bytes=200), [*BUILT_IN, mine])
    assert [(d.base_offset, d.policy) for d in plan.deletions] == [(0, "size"), (10, "first-two")]
    only_compacted = facts(THREE, cleanup_policy=frozenset({"compact"}))
    assert plan_deletions(THREE, only_compacted, [mine]) == ([], [])


def test_a_policy_is_offered_what_may_go_and_the_active_segment_when_it_asks_for_it() -> None:
    offered: list[int] = []

    def look(segments: Iterable[SegmentView]) -> Iterable[SegmentView]:
        offered.extend(segment.base_offset for segment in segments)
        return ()

    for takes_active, high, expected in (
        (False, 99, [0, 10]),
        (True, 99, [0, 10, 20]),
        (True, 29, [0, 10]),
        (True, 0, []),
    ):
        offered.clear()
        plan_deletions(THREE, facts(THREE, high=high), [NamedPolicy("look", Policy(look, takes_active))])
        assert offered == expected


def fail(_segments: Iterable[SegmentView]) -> Iterable[SegmentView]:
    raise OSError("its own")


def fail_late(segments: Iterable[SegmentView]) -> Iterator[SegmentView]:
    yield next(iter(segments))
    raise RuntimeError("late")


def for_ever(segments: Iterable[SegmentView]) -> Iterator[SegmentView]:
    while True:
        yield from segments
        yield THREE[-1]


@pytest.mark.parametrize(
    ("choose", "cause"),
    [
        (fail, "its own"),
        (fail_late, "late"),
        (for_ever, "segment 20, which it was not offered"),
        (lambda segments: list(segments)[1:], "segment 10, and segment 0 comes before"),
        (lambda segments: reversed(list(segments)), "segment 10, and segment 0 comes before"),
        (lambda _: THREE, "segment 20, which it was not offered"),
        (lambda _: [THREE[0]._replace(size=99)], "segment 0, and segment 0"),
        (lambda _: [0, 10], "named 0, and segment 0"),
        (lambda _: None, "NoneType"),
        (lambda _: 2, "int"),
        (lambda _: True, "bool"),
    ],
)
def test_a_broken_policy_deletes_nothing_and_the_others_go_on(
    choose: Callable[[Iterable[SegmentView]], Iterable[SegmentView]], cause: str
) -> None:
    broken = NamedPolicy("broken", Policy(choose))
    plan = plan_deletions(THREE, facts(THREE, high=29), [broken])
    assert plan.deletions == []
    assert [failure.policy for failure in plan.failures] == ["broken"]
    assert cause in plan.failures[0].cause
    plan = plan_deletions(THREE, facts(THREE, retention_bytes=200), [broken, *BUILT_IN])
    assert [(d.base_offset, d.policy) for d in plan.deletions] == [(0, "size")]


def test_nothing_goes_on_the_word_of_a_policy_that_fails_in_a_later_round() -> None:
    calls: list[int] = []

    def choose(segments: Iterable[SegmentView]) -> Iterable[SegmentView]:
        calls.append(1)
        if len(calls) > 1:
            raise ValueError("the second time")
        return [next(iter(segments))]

    plan = plan_deletions(THREE, facts(THREE), [NamedPolicy("broken", Policy(choose))])
    assert (plan.deletions, len(plan.failures)) == ([], 1)


def test_a_disk_that_fails_while_facts_are_read_is_nobodys_fault_but_the_disks() -> None:
    def segments() -> Iterator[SegmentView]:
        yield THREE[0]
        raise OSError("disk")

    def swallow(offered: Iterable[SegmentView]) -> Iterable[SegmentView]:
        try:
            return list(offered)
        except OSError:
            return ()

    for policy in (Policy(list), Policy(swallow)):
        with pytest.raises(OSError, match="disk"):
            plan_deletions(segments(), facts(THREE), [NamedPolicy("p", policy)])


def test_segments_are_read_no_further_than_the_first_one_that_stays() -> None:
    read: list[int] = []

    def segments() -> Iterator[SegmentView]:
        for segment in THREE:
            read.append(segment.base_offset)
            yield segment

    plan = plan_deletions(segments(), facts(THREE, retention_ms=250), BUILT_IN)
    assert ([d.base_offset for d in plan.deletions], read) == ([0], [0, 10])
