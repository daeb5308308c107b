from __future__ import annotations

from typing import cast

from support.cleaning import CleaningWorld, Producer, put
from support.logs import World, append
from support.mock_time import START_MS
from tidelog.broker.monitoring.partitions import partition_metrics, seen
from tidelog.broker.runtime.metric_family import Family, families_of_each
from tidelog.storage.log.unified_log import UnifiedLog

PLACE = ("t", "0")


def told(log: UnifiedLog, now_ms: int) -> dict[str, dict[tuple[str, ...], float]]:
    families = [cast(Family, family) for family in families_of_each(partition_metrics(), seen([log], now_ms))]
    assert len({family.name for family in families}) == len(families)
    assert all(family.help.endswith(".") for family in families)
    return {family.name.removeprefix("tidelog_"): dict(family.rows) for family in families}


def test_an_open_transaction_and_what_it_holds() -> None:
    world = World()
    world.start()
    log = world.log()
    append(log, "a")
    assert told(log, START_MS)["oldest_transaction_age_seconds"] == {}
    began = world.time.milliseconds()
    producer = Producer(7)
    producer.send(log, (b"k", b"1"))
    world.time.advance(5000)
    producer.send(log, (b"k", b"2"))
    append(log, "b")
    found = told(log, world.time.milliseconds())
    assert found["last_stable_offset"] == {PLACE: 1}
    assert found["last_stable_offset_lag"] == {PLACE: 3}
    assert found["oldest_transaction_age_seconds"] == {PLACE: (world.time.milliseconds() - began) / 1000}
    assert found["oldest_transaction_first_offset"] == {PLACE: 1}
    assert found["oldest_transaction_producer_id"] == {PLACE: 7}
    # After a restart it is open still, at least since its last record.
    world.stop()
    world.time.advance(1000)
    world.start()
    again = told(world.log(), world.time.milliseconds())
    assert again["oldest_transaction_age_seconds"][PLACE] >= 1
    assert again["oldest_transaction_first_offset"] == {PLACE: 1}


def test_what_a_power_cut_could_take_and_for_how_long() -> None:
    world = World()
    world.start()
    log = world.log()
    log.flush()
    world.time.advance(60_000)
    nothing = told(log, world.time.milliseconds())
    assert (nothing["unsynced_records"], nothing["unsynced_age_seconds"]) == ({PLACE: 0}, {PLACE: 0})
    append(log, "a", "b")
    world.time.advance(1500)
    append(log, "c")
    found = told(log, world.time.milliseconds())
    assert (found["unsynced_records"], found["unsynced_age_seconds"]) == ({PLACE: 3}, {PLACE: 1.5})
    log.flush()
    assert told(log, world.time.milliseconds())["unsynced_age_seconds"] == {PLACE: 0}
    world.time.advance(1000)
    append(log, "d")
    world.time.advance(250)
    assert told(log, world.time.milliseconds())["unsynced_age_seconds"] == {PLACE: 0.25}


def test_what_retention_is_going_to_take() -> None:
    world = World()
    world.start(segment_bytes=100, retention_ms=10_000, retention_bytes=-1)
    log = world.log()
    for second in range(3):
        append(log, "x" * 50, timestamp=START_MS + 1000 * second)
    assert log.segment_count == 3
    found = told(log, START_MS + 5000)
    assert found["log_segments"] == {PLACE: 3}
    assert found["retention_due_bytes"] == {(*PLACE, "start-offset"): 0, (*PLACE, "time"): 0}
    assert found["retention_next_due_timestamp_seconds"] == {PLACE: (START_MS + 10_001) / 1000}
    found = told(log, START_MS + 11_001)
    assert found["retention_due_bytes"][*PLACE, "time"] == 2 * log.segments[0].size
    assert found["retention_next_due_timestamp_seconds"] == {PLACE: (START_MS + 12_001) / 1000}


def test_replaced_segments_count_while_a_reader_holds_them() -> None:
    world = CleaningWorld()
    world.start(segment_bytes=500)
    log = world.log()
    for _ in range(10):
        put(log, "k", "v")
    info = log.read(0, 100)
    held = log.segments[0]
    size = held.size
    world.roll_and_clean()
    found = told(log, START_MS)
    assert found["replaced_segments_held"] == {PLACE: 1}
    assert found["replaced_segments_held_bytes"] == {PLACE: size}
    del held
    info.release()
    assert told(log, START_MS)["replaced_segments_held"] == {}
