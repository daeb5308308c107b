from __future__ import annotations

from dataclasses import replace

from support.cleaning import CleaningWorld, put
from tidelog.broker.cleaner_metrics import cleaner_families
from tidelog.broker.log_cleaner import LogCleaner
from tidelog.config.loader import load_config

KAFKAS_NINE = {
    "tidelog_cleaner_max_dirty_percent",
    "tidelog_cleaner_uncleanable_partitions",
    "tidelog_cleaner_uncleanable_bytes",
    "tidelog_cleaner_max_clean_time_seconds",
    "tidelog_cleaner_max_buffer_utilization_percent",
    "tidelog_cleaner_recopy_percent",
    "tidelog_cleaner_max_compaction_delay_seconds",
    "tidelog_cleaner_time_since_last_run_ms",
    "tidelog_cleaner_dead_threads",
}


def scrape(
    world: CleaningWorld, cleaner: LogCleaner, *, per_topic: bool = True
) -> dict[str, dict[tuple[str, ...], float]]:
    families = list(cleaner_families(cleaner, world.time.milliseconds(), per_topic=per_topic))
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
    assert scrape(world, cleaner)["tidelog_cleaner_time_since_last_run_ms"] == {(): 1234}


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
    assert found["tidelog_cleaner_state"] == {("t", "0", "uncleanable"): 1}
    (problem,) = cleaner.problems()
    assert problem.startswith("t-0 can't be cleaned, attempt 1: CorruptRecordError")


def test_lesson_26_the_set_of_metrics_survives_resizes() -> None:
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
