from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidelog.config.log_config import LogConfig
from tidelog.storage.deletion_policy import LogFacts, find_policy
from tidelog.storage.retention.outlook import KnownSegment, RetentionOutlook, outlook
from tidelog.storage.retention.plan import plan_deletions
from tidelog.storage.values import SegmentView

NOW = 1_000_000


def told(segments: list[KnownSegment], *, start: int = 0, high: int = 10**9, **settings: object) -> RetentionOutlook:
    config = LogConfig(**({"retention_ms": -1, "retention_bytes": -1} | settings))
    return outlook(segments, config, now_ms=NOW, log_start_offset=start, high_watermark=high)


def segments(*rows: tuple[int, int, int]) -> list[KnownSegment]:
    """(next base offset, size, largest timestamp); the last one is active."""
    return [KnownSegment(*row, is_active=number == len(rows) - 1) for number, row in enumerate(rows)]


THREE = segments((10, 100, NOW - 300), (20, 100, NOW - 200), (30, 100, NOW - 100))


def test_each_policy_by_itself() -> None:
    assert told(THREE) == ({"start-offset": 0}, None)
    assert told(THREE, start=25) == ({"start-offset": 200}, None)
    assert told(THREE, retention_ms=250) == ({"start-offset": 0, "time": 100}, NOW - 200 + 251)
    assert told(THREE, retention_ms=50) == ({"start-offset": 0, "time": 300}, None)
    assert told(THREE, retention_bytes=150) == ({"start-offset": 0, "size": 100}, None)
    assert told(THREE, retention_ms=50, cleanup_policy=frozenset({"compact"})) == ({"start-offset": 0}, None)


def test_nothing_is_said_of_what_is_not_known() -> None:
    """A segment whose times were not read yet, and policies that look at more than that."""
    unknown = segments((10, 100, -1), (20, 100, NOW - 200), (30, 100, NOW - 100))
    assert told(unknown, retention_ms=50) == ({"start-offset": 0, "time": 0}, None)
    assert told(THREE, retention_ms=50, deletion_policies=("append-time",)) == ({"start-offset": 0}, None)


def test_nothing_at_or_above_the_high_watermark_is_due() -> None:
    assert told(THREE, high=19, retention_ms=50, retention_bytes=0).due_bytes == {
        "start-offset": 0,
        "time": 100,
        "size": 100,
    }


@given(
    rows=st.lists(st.tuples(st.integers(1, 100), st.integers(-400, 400)), min_size=1, max_size=6),
    retention_ms=st.integers(-1, 500),
    retention_bytes=st.integers(-1, 300),
    start=st.integers(0, 60),
    high=st.integers(0, 70),
)
def test_it_is_what_a_run_would_delete(
    rows: list[tuple[int, int]], retention_ms: int, retention_bytes: int, start: int, high: int
) -> None:
    """Each policy alone, against the decision itself; and at `next_due_ms`, not before, one more goes."""
    known = segments(*((10 * (n + 1), size, NOW + age) for n, (size, age) in enumerate(rows)))
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)

    def deleted(policy: str | None, now_ms: int) -> int:
        views = [
            SegmentView(10 * n, one.next_base_offset, one.size, one.largest_timestamp, one.is_active, 0)
            for n, one in enumerate(known)
        ]
        facts = LogFacts("t", 0, config, now_ms, sum(one.size for one in known), 0 if policy else start, high)
        plan = plan_deletions(views, facts, [find_policy(policy)] if policy else [])
        return sum(deletion.size for deletion in plan.deletions)

    found = outlook(known, config, now_ms=NOW, log_start_offset=min(start, high), high_watermark=high)
    for policy, due in found.due_bytes.items():
        if policy != "start-offset":
            assert due == deleted(policy, NOW), policy
    if found.next_due_ms is not None:
        before, then = deleted("time", found.next_due_ms - 1), deleted("time", found.next_due_ms)
        assert before == found.due_bytes["time"] < then
