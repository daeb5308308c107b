from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.logs import World, append
from tidelog.broker.metrics import Family, _retention_families, _task_families
from tidelog.storage.scheduler import ThreadPoolScheduler

YEAR_2100 = 4_102_444_800_000


def rows(families: Any) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    found: list[Family] = list(families)
    return {family.name: list(family.rows) for family in found}


def test_what_retention_deleted_is_told_by_partition_and_policy() -> None:
    world = World()
    world.start(segment_bytes=100, retention_bytes=100, message_timestamp_after_max_ms=2**63 - 1)
    log, future = world.log("t", 3), world.log("future")
    for value in "abc":
        append(log, value * 50)
    append(future, "a", timestamp=YEAR_2100)
    log.delete_old_segments()
    told = rows(_retention_families([log, future], world.time.milliseconds()))
    assert told["tidelog_retention_deleted_segments"] == [(("t", "3", "size"), 2)]
    assert told["tidelog_retention_deleted_bytes"] == [(("t", "3", "size"), 2 * log.segments[0].size)]
    assert told["tidelog_retention_policy_failures"] == []
    assert told["tidelog_future_dated_bytes"] == [(("future", "0"), future.size)]
    assert told["tidelog_future_dated_offsets"] == [(("future", "0"), 1)]
    world.stop()


def test_background_work_is_told_by_the_tasks_name() -> None:
    scheduler = ThreadPoolScheduler(3)
    scheduler.schedule("delete-file", lambda: None, 3_600_000)
    scheduler.submit("log-retention", lambda: None).result(10)
    told = rows(_task_families(SimpleNamespace(scheduler=scheduler)))  # type: ignore[arg-type]
    scheduler.shutdown()
    assert told["tidelog_background_tasks_scheduled"] == [(("delete-file",), 1), (("log-retention",), 0)]
    assert told["tidelog_background_threads"] == [((), 3)]
    assert told.keys() >= {"tidelog_background_task_runs", "tidelog_background_task_failures"}
