from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.logs import World, append, batch
from support.slow_disks import SlowDisks
from tidelog.broker.metrics import Family, _pace_families, _retention_families, _task_families
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


async def test_a_slow_directory_is_told_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = SlowDisks(monkeypatch)
    disks.write_s["/b"] = 0.25
    disks.ask({0: batch("a"), 1: batch("a")})
    waiting = asyncio.ensure_future(disks.ask({1: batch("b")}))
    await disks.turn()
    paces, directories = disks.machine.manager.paces, {"/b": disks.directories[1]}
    told = rows(_pace_families(paces, directories))
    queued = told.pop("tidelog_log_directory_thread_queue_bytes")
    assert queued == [(("/a",), 0), (("/b",), len(batch("b")))]
    assert told == {
        "tidelog_log_directory_slow": [(("/a",), 0), (("/b",), 1)],
        "tidelog_log_directory_slow_writes": [(("/a",), 0), (("/b",), 1)],
        "tidelog_log_directory_longest_write_seconds": [(("/a",), 0), (("/b",), 0.25)],
        "tidelog_log_directory_thread_appends": [(("/a",), 0), (("/b",), 1)],
    }
    again = rows(_pace_families(paces, directories))
    assert again["tidelog_log_directory_longest_write_seconds"] == [(("/a",), 0), (("/b",), 0)]
    await disks.drain()
    await waiting
    disks.stop()


def test_background_work_is_told_by_the_tasks_name() -> None:
    scheduler = ThreadPoolScheduler(3)
    scheduler.schedule("delete-file", lambda: None, 3_600_000)
    scheduler.submit("log-retention", lambda: None).result(10)
    told = rows(_task_families(SimpleNamespace(scheduler=scheduler)))  # type: ignore[arg-type]
    scheduler.shutdown()
    assert told["tidelog_background_tasks_scheduled"] == [(("delete-file",), 1), (("log-retention",), 0)]
    assert told["tidelog_background_threads"] == [((), 3)]
    assert told.keys() >= {"tidelog_background_task_runs", "tidelog_background_task_failures"}
