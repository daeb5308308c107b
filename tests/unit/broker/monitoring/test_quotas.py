from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from support.topic_world import topic_world
from tidelog.broker.monitoring.limits import quota_metrics
from tidelog.broker.quotas.quota import CLIENT_ID, PRODUCER_BYTE_RATE
from tidelog.broker.runtime.metric_family import Family, families_of


async def test_waits_by_quota_and_pushes_by_result(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        await world.quotas.alter([(CLIENT_ID, "c")], {PRODUCER_BYTE_RATE: 1000.0}, False)
        world.quotas.produced("c", 12_500)
        world.telemetry.pushes, world.telemetry.failed = 3, 2
        families = {family.name: cast(Family, family) for family in families_of(quota_metrics(), cast(Any, world))}
        waits = dict(families["tidelog_quota_throttle_seconds"].rows)
        assert waits[PRODUCER_BYTE_RATE,] == 2.5
        assert sum(waits.values()) == 2.5
        assert dict(families["tidelog_telemetry_pushes"].rows) == {("taken",): 3, ("throttled",): 0, ("refused",): 2}
        assert families["tidelog_telemetry_clients"].rows == [((), 0)]
