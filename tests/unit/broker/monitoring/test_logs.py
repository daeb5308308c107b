from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.cleaning import Producer
from support.logs import World, append, batch
from support.slow_disks import SlowDisks
from tidelog.broker.monitoring.logs import (
    All,
    LogMetrics,
    deletion_metrics,
    pace_metrics,
    paces_of,
    shown_logs,
    space_metrics,
    sum_metrics,
)
from tidelog.broker.monitoring.partitions import offset_metrics, retention_metrics, seen
from tidelog.broker.runtime.metric_family import Family, families_of, families_of_each
from tidelog.config.log_config import LogConfig
from tidelog.storage.io.disk_space import DiskSpace

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
    told = rows(families_of_each(retention_metrics(), seen([log, future], world.time.milliseconds())))
    assert told["tidelog_retention_deleted_segments"] == [(("t", "3", "size"), 2)]
    assert told["tidelog_retention_deleted_bytes"] == [(("t", "3", "size"), 2 * log.segments[0].size)]
    assert told["tidelog_retention_policy_failures"] == []
    assert told["tidelog_future_dated_bytes"] == [(("future", "0"), future.size)]
    assert told["tidelog_future_dated_offsets"] == [(("future", "0"), 1)]
    world.stop()


def test_of_very_many_logs_the_largest_and_those_that_have_failed_are_told_one_by_one() -> None:
    def log(size: int, failure: object = None) -> Any:
        return SimpleNamespace(size=size, failure=failure)

    logs = [log(1), log(9), log(0, "failed"), log(5), log(9)]
    assert shown_logs(logs, 3) == [logs[1], logs[2], logs[4]], "in their order"
    assert shown_logs(logs, 5) == shown_logs(logs, 99) == logs
    assert shown_logs(logs, 0) == []


async def test_a_slow_directory_is_told_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = SlowDisks(monkeypatch)
    disks.write_s["/b"] = 0.25
    disks.ask({0: batch("a"), 1: batch("a")})
    waiting = asyncio.ensure_future(disks.ask({1: batch("b")}))
    await disks.turn()
    paces, directories = disks.machine.manager.paces, {"/b": disks.offloads[1]}
    told = rows(families_of_each(pace_metrics(), paces_of(paces, directories)))
    queued = told.pop("tidelog_log_directory_thread_queue_bytes")
    assert queued == [(("/a",), 0), (("/b",), len(batch("b")))]
    assert told == {
        "tidelog_log_directory_slow": [(("/a",), 0), (("/b",), 1)],
        "tidelog_log_directory_slow_writes": [(("/a",), 0), (("/b",), 1)],
        "tidelog_log_directory_longest_write_seconds": [(("/a",), 0), (("/b",), 0.25)],
        "tidelog_log_directory_thread_appends": [(("/a",), 0), (("/b",), 1)],
    }
    again = rows(families_of_each(pace_metrics(), paces_of(paces, directories)))
    assert again["tidelog_log_directory_longest_write_seconds"] == [(("/a",), 0), (("/b",), 0)]
    await disks.drain()
    await waiting
    disks.stop()


def test_logs_are_counted_by_what_an_answer_to_a_produce_says_of_the_disk() -> None:
    world = World()
    world.start()
    logs = [world.log(topic) for topic in ("t", "u", "v")]
    for log in logs[1:]:
        log.update_config(LogConfig(flush_messages=1))
    told = rows(families_of(sum_metrics(), All(logs, world.time.milliseconds())))
    assert told["tidelog_logs"] == [(("page cache",), 1), (("interval",), 0), (("ack after sync",), 2)]
    world.stop()


def test_sums_and_offsets() -> None:
    world = World()
    world.start()
    log, other = world.log("t", 1), world.log("empty")
    append(log, "a", "b")
    append(log, "c")
    log.increment_log_start_offset(1)
    world.time.advance(5000)
    told = rows(families_of(sum_metrics(), All([log, other], world.time.milliseconds())))
    assert told["tidelog_partitions"] == [((), 2)]
    assert told["tidelog_logs"] == [(("page cache",), 2), (("interval",), 0), (("ack after sync",), 0)]
    assert told["tidelog_segments"] == [((), 2)]
    assert told["tidelog_logs_bytes"] == [((), log.size)]
    assert told["tidelog_failed_partitions"] == [((), 0)]
    assert told["tidelog_max_unsynced_seconds"] == [((), 5)]
    assert told["tidelog_flush_behind_partitions"] == [((), 0)]
    offsets = rows(families_of_each(offset_metrics(), seen([log], world.time.milliseconds())))
    assert offsets == {
        "tidelog_log_bytes": [(("t", "1"), log.size)],
        "tidelog_log_start_offset": [(("t", "1"), 1)],
        "tidelog_log_end_offset": [(("t", "1"), 3)],
        "tidelog_high_watermark": [(("t", "1"), 3)],
    }
    world.stop()


def test_the_oldest_open_transaction_of_any_partition_is_told() -> None:
    """The alert of open transactions was blind for partitions beyond metrics.max.partitions, and with metrics.per.topic=false."""
    world = World()
    world.start()
    logs = [world.log("t", partition) for partition in range(3)]

    def told() -> Any:
        return rows(families_of(sum_metrics(), All(logs, world.time.milliseconds())))[
            "tidelog_max_open_transaction_seconds"
        ]

    append(logs[0], "a")
    assert told() == [((), 0)]
    producers = Producer(7), Producer(8)
    began = world.time.milliseconds()
    producers[0].send(logs[1], (b"k", b"1"))
    world.time.advance(5000)
    producers[1].send(logs[2], (b"k", b"1"))
    assert told() == [((), (world.time.milliseconds() - began) / 1000)]
    producers[0].end(logs[1], commit=True)
    assert 0 <= told()[0][1] < 5
    world.stop()


def test_what_retention_took_of_a_topic_that_is_deleted_still_counts() -> None:
    """A counter that falls is a restart to Prometheus: the next rise would be counted twice."""
    world = World()
    world.start(segment_bytes=100, retention_bytes=100)
    kept, deleted, metrics = world.log("kept"), world.log("deleted"), LogMetrics()
    for log in (kept, deleted):
        for value in "abc":
            append(log, value * 50)
        log.delete_old_segments()
    size = kept.segments[0].size

    def told(*logs: Any) -> Any:
        found = rows(families_of(deletion_metrics(), metrics.deletions(logs)))
        return found["tidelog_retention_segments"], found["tidelog_retention_bytes"]

    assert told(kept, deleted) == ([(("size",), 4)], [(("size",), 4 * size)])
    assert told(kept) == ([(("size",), 4)], [(("size",), 4 * size)])
    append(kept, "d" * 50)
    kept.delete_old_segments()
    assert told(kept) == ([(("size",), 5)], [(("size",), 5 * size)])
    world.stop()


def test_room_and_reserve_are_told_by_directory() -> None:
    world = World()
    space = DiskSpace(world.file_system, "/", 1000)
    space.sample()
    told = rows(families_of_each(space_metrics(), [(("/data",), space)]))
    assert told["tidelog_log_dir_free_bytes"] == [(("/data",), space.free_bytes)]
    assert told["tidelog_log_dir_reserve_bytes"] == [(("/data",), 1000)]
    assert told["tidelog_log_dir_full"] == [(("/data",), 0)]
