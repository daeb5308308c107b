from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from support.cleaning import CleaningWorld, put
from support.mock_time import START_MS
from support.patience import PATIENCE_S
from tidelog.broker.cleaning.service import LogCleaner
from tidelog.broker.monitoring.cleaner import cleaner_families
from tidelog.config.loader import load_config

YEAR_2100_MS = 4_102_444_800_000
KAFKAS_NINE = {
    "tidelog_cleaner_max_dirty_percent",
    "tidelog_cleaner_uncleanable_partitions",
    "tidelog_cleaner_uncleanable_bytes",
    "tidelog_cleaner_max_clean_time_seconds",
    "tidelog_cleaner_max_buffer_utilization_percent",
    "tidelog_cleaner_recopy_percent",
    "tidelog_cleaner_max_compaction_delay_seconds",
    "tidelog_cleaner_time_since_last_run_seconds",
    "tidelog_cleaner_dead_threads",
}


def scrape(
    world: CleaningWorld, cleaner: LogCleaner, *, per_topic: bool = True
) -> dict[str, dict[tuple[str, ...], float]]:
    told = {(log.topic, log.partition) for log in world.manager.logs()} if per_topic else None
    families = list(cleaner_families(cleaner, world.time.milliseconds(), told))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert all(len(labels) == len(family.labels) for labels, _ in family.rows)
    return {family.name: dict(family.rows) for family in families}


def world_and_cleaner() -> tuple[CleaningWorld, LogCleaner]:
    world = CleaningWorld()
    world.start(segment_bytes=500, min_cleanable_dirty_ratio=0.3)
    cleaner = LogCleaner(load_config(None, {}, []), world.manager, world.file_system, world.time)
    cleaner.manager = cleaner.pool.manager = world.cleaners
    return world, cleaner


def test_kafkas_gauges_and_ours() -> None:
    world, cleaner = world_and_cleaner()
    log = world.log()
    for number in range(50):
        put(log, f"k{number % 3}", "v")
    log.roll()
    world.cleaners.examine(log)
    first = scrape(world, cleaner)
    assert first.keys() >= KAFKAS_NINE
    place = ("t", "0")
    assert first["tidelog_cleaner_dirty_ratio"] == {place: 1.0}
    assert first["tidelog_cleaner_dirty_ratio_threshold"] == {place: 0.3}
    assert first["tidelog_cleaner_state"] == {(*place, "ratio"): 1}
    assert first["tidelog_cleaner_first_uncleanable_offset"] == {place: 50}
    (result,) = world.clean_all()
    cleaner.pool.last_results[0] = result
    second = scrape(world, cleaner)
    assert second["tidelog_cleaner_passes"] == {place: 1}
    assert second["tidelog_cleaner_last_pass_removed_records"][(*place, "superseded")] == 47
    assert second["tidelog_cleaner_state"] == {(*place, "clean"): 1}
    assert 0 < second["tidelog_cleaner_recopy_percent"][()] < 20
    world.time.advance(1234)
    assert scrape(world, cleaner)["tidelog_cleaner_time_since_last_run_seconds"] == {(): 1.234}


@pytest.mark.damaged("a batch is damaged")
def test_a_partition_that_cannot_be_cleaned_is_seen() -> None:
    world, cleaner = world_and_cleaner()
    log = world.log()
    for _ in range(20):
        put(log, "k", "v")
    log.roll()
    path = log.log_directory.file(0, ".log")
    world.fake.corrupt(path, 100, bytes([world.fake.contents()[path][100] ^ 1]))
    assert world.clean_once() is None
    world.cleaners.examine(log)
    found = scrape(world, cleaner)
    assert found["tidelog_cleaner_uncleanable_partitions"] == {(): 1}
    assert found["tidelog_cleaner_uncleanable_bytes"][()] > 0
    assert found["tidelog_cleaner_failed_attempts"] == {("t", "0"): 1}
    assert found["tidelog_cleaner_damaged_batches"] == {("t", "0"): 1}
    assert found["tidelog_cleaner_state"] == {("t", "0", "uncleanable"): 1}
    assert found["tidelog_cleaner_uncleanable"] == {("t", "0", "CorruptRecordError"): 1}
    since = found["tidelog_cleaner_uncleanable_since_timestamp_seconds"]["t", "0"]
    assert found["tidelog_cleaner_retry_timestamp_seconds"] == {("t", "0"): since + 15}
    ((name, failure),) = cleaner.manager.uncleanable()
    assert (name, failure.attempts, cleaner.pool.dead_threads) == ("t-0", 1, 0)
    assert failure.cause.startswith("CorruptRecordError")


def test_dirt_has_an_age_and_the_rest_is_alive() -> None:
    world, cleaner = world_and_cleaner()
    log, place = world.log(), ("t", "0")
    for number in range(50):
        put(log, f"k{number % 3}", "v", timestamp=START_MS + number)
    log.roll()
    world.cleaners.examine(log)
    now_ms = world.time.milliseconds()
    first = scrape(world, cleaner)
    assert first["tidelog_cleaner_dirty_age_seconds"] == {place: (now_ms - START_MS) / 1000}
    assert first["tidelog_cleaner_max_dirty_age_seconds"] == {(): (now_ms - START_MS) / 1000}
    assert first["tidelog_cleaner_live_bytes"] == {place: 0}
    assert first["tidelog_cleaner_partitions"] == {
        ("in_work",): 0, ("due",): 1, ("waiting",): 0, ("clean",): 0, ("uncleanable",): 0,
    }  # fmt: skip
    assert first["tidelog_cleaner_first_uncleanable_cause"] == {(*place, "active"): 1}
    (result,) = world.clean_all()
    world.cleaners.examine(log)
    clean = scrape(world, cleaner)
    assert clean["tidelog_cleaner_dirty_age_seconds"] == {}
    assert clean["tidelog_cleaner_max_dirty_age_seconds"] == {(): 0}
    assert clean["tidelog_cleaner_live_bytes"] == {place: log.size}
    assert clean["tidelog_cleaner_partitions"][("clean",)] == 1
    assert clean["tidelog_cleaner_last_pass_map_keys"] == {place: 3}
    assert clean["tidelog_cleaner_last_pass_map_utilization"] == {place: 3 / result.map_capacity}
    assert clean["tidelog_cleaner_last_pass_timestamp_seconds"] == {place: world.time.milliseconds() / 1000}
    # The next record is dirty as it comes, before anybody looks.
    put(log, "k0", "v", timestamp=START_MS + 500)
    world.time.advance(10_000)
    age = (world.time.milliseconds() - START_MS - 500) / 1000
    assert scrape(world, cleaner)["tidelog_cleaner_dirty_age_seconds"] == {place: age}


def test_the_time_since_the_last_look_does_not_count_the_recovery_before_the_first() -> None:
    world = CleaningWorld()
    world.start()
    cleaner = LogCleaner(load_config(None, {}, []), world.manager, world.file_system, world.time)
    world.time.advance(3_600_000)  # logs are recovered
    cleaner.load()
    world.time.advance(5_000)
    assert scrape(world, cleaner)["tidelog_cleaner_time_since_last_run_seconds"] == {(): 5}


def test_a_future_date_that_holds_records_is_counted() -> None:
    world = CleaningWorld()
    world.start(segment_bytes=500, min_compaction_lag_ms=1000, message_timestamp_after_max_ms=2**63 - 1)
    cleaner = LogCleaner(load_config(None, {}, []), world.manager, world.file_system, world.time)
    cleaner.manager = cleaner.pool.manager = world.cleaners
    log = world.log()
    put(log, "k", "v", timestamp=YEAR_2100_MS)
    log.roll()
    world.time.advance(100_000)
    world.cleaners.examine(log)
    found = scrape(world, cleaner)
    assert found["tidelog_cleaner_future_dated_bytes"] == {("t", "0"): log.segments[0].size}
    assert found["tidelog_cleaner_first_uncleanable_cause"] == {("t", "0", "too_young"): 1}
    assert found["tidelog_cleaner_dirty_age_seconds"] == {("t", "0"): 0}


def test_one_manager_decides_and_threads_tell_what_they_do() -> None:
    world, cleaner = world_and_cleaner()
    log = world.log()
    for _ in range(20):
        put(log, "k", "v")
    log.roll()
    states: list[dict[tuple[str, ...], float]] = []

    def secret() -> bytes:  # asked for as a pass begins: in the thread
        states.append(scrape(world, cleaner)["tidelog_cleaner_thread_state"])
        states.append(scrape(world, cleaner)["tidelog_cleaner_partitions"])
        done.set()
        return bytes(16)

    done = threading.Event()
    cleaner.pool.secret = secret
    cleaner.pool.configure(replace(cleaner.pool.settings, threads=2, dedupe_buffer_bytes=48_000))
    cleaner.pool.start()
    try:
        assert done.wait(PATIENCE_S)
    finally:
        cleaner.stop()
    threads, partitions = states[:2]
    assert sorted(state for _, state in threads) == ["cleaning", "idle"]
    assert sorted(number for number, _ in threads) == ["0", "1"]
    assert partitions[("in_work",)] == 1


def test_the_set_of_metrics_survives_resizes() -> None:
    world, cleaner = world_and_cleaner()
    put(world.log(), "k", "v")
    world.cleaners.examine(world.log())
    names = scrape(world, cleaner).keys()
    cleaner.pool.start()
    try:
        for threads in (3, 1, 4, 2, 5):
            cleaner.pool.configure(replace(cleaner.pool.settings, threads=threads))
            found = scrape(world, cleaner)
            assert found.keys() == names
            assert found["tidelog_cleaner_threads"] == {(): threads}
            assert found["tidelog_cleaner_dead_threads"] == {(): 0}
    finally:
        cleaner.stop()


def test_partitions_are_left_out_where_metrics_per_topic_are_off() -> None:
    world, cleaner = world_and_cleaner()
    put(world.log(), "k", "v")
    world.cleaners.examine(world.log())
    assert not any("first_dirty" in name for name in scrape(world, cleaner, per_topic=False))
