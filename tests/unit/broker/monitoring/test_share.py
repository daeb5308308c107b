"""What share groups' state becomes in /metrics."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

from tidelog.broker.monitoring.transactions import share_metrics
from tidelog.broker.runtime.metric_family import Family, families_of
from tidelog.broker.share.sessions import MemberKey, ShareSessions, TopicIdPartition


def told(shares: Any) -> dict[str, dict[tuple[str, ...], float]]:
    families = [cast(Family, family) for family in families_of(share_metrics(), shares)]
    return {family.name.removeprefix("tidelog_share_"): dict(family.rows) for family in families}


def test_the_same_metrics_before_and_after_the_first_share_group() -> None:
    before = told(None)
    assert {value for rows in before.values() for value in rows.values()} == {0}
    coordinator = SimpleNamespace(partition_count=7, writes=8)
    sessions = ShareSessions(3)
    for name in ("ann", "bob"):
        wanted = [TopicIdPartition(b"t" * 16, index) for index in range(5)]
        sessions.opened(MemberKey("g", name), name, wanted, has_acknowledgements=False)
    shares = SimpleNamespace(
        sessions=sessions, partition_count=3, in_flight_records=40, coordinator=coordinator, acquired=50, expired=6,
        lost_sessions=1, acknowledged=Counter({1: 9, 4: 2}),
    )  # fmt: skip
    after = told(shares)
    assert after.keys() == before.keys()
    assert after["records_acknowledged"] == {
        ("gap",): 0, ("accept",): 9, ("release",): 0, ("reject",): 0, ("renew",): 2,
    }  # fmt: skip
    assert after["session_partitions"] == {(): 10}
    assert (after["sessions"], after["state_partitions"], after["locks_expired"]) == ({(): 2}, {(): 7}, {(): 6})
