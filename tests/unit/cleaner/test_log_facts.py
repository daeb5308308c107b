from __future__ import annotations

from support.cleaning import CleaningWorld, put
from support.mock_time import START_MS
from tidelog.cleaner.eligibility import NO_LIMIT_MS
from tidelog.cleaner.log_facts import dirty_section, earliest_horizon, segment_facts
from tidelog.config.log_config import LogConfig

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))


def made() -> CleaningWorld:
    """Three closed segments of one record each and an active one, each a second after the one before."""
    world = CleaningWorld()
    world.start(segment_bytes=50)
    for number in range(4):
        put(world.log(), f"k{number}", "v", timestamp=START_MS + 1000 * number)
    assert [segment.base_offset for segment in world.log().segments] == [0, 1, 2, 3]
    return world


def test_ages_are_read_only_where_somebody_wants_them() -> None:
    segments = made().log().segments

    def ages(config: LogConfig, checkpoint: int | None) -> list[tuple[int, int]]:
        return [
            (max(-1, one.first_timestamp - START_MS), max(-1, one.largest_timestamp - START_MS))
            for one in segment_facts(segments, config, checkpoint)
        ]

    nothing = (-1, -1)
    assert ages(LogConfig(), None) == [nothing] * 4
    # Of the first dirty one, for metrics; of all dirty ones where a rule about age is set.
    assert ages(COMPACT, None) == [(0, -1), nothing, nothing, nothing]
    assert ages(COMPACT, 2) == [nothing, nothing, (2000, -1), nothing]
    limited = LogConfig(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=5)
    assert ages(limited, 1) == [nothing, (1000, -1), (2000, -1), (3000, -1)]
    young = LogConfig(min_compaction_lag_ms=5)
    assert young.max_compaction_lag_ms == NO_LIMIT_MS
    assert ages(young, 1) == [nothing, (-1, 1000), (-1, 2000), nothing]


def test_where_the_clean_part_ends_and_since_when_something_is_dirty() -> None:
    log = made().log()
    size = log.segments[0].size
    assert dirty_section(log, None) == (0, START_MS)
    assert dirty_section(log, 2) == (2 * size, START_MS + 2000)
    assert dirty_section(log, 3) == (3 * size, START_MS + 3000)
    assert dirty_section(log, 4) == (3 * size, -1), "nothing is dirty"
    log.roll()
    assert dirty_section(log, 4) == (4 * size, -1)
    assert dirty_section(log, 99) == (0, START_MS), "a checkpoint that says nothing usable"


def test_the_dirty_section_of_a_log_that_was_not_looked_at_is_not_read() -> None:
    world = made()
    log = world.restart()
    world.fake.reads.clear()
    assert dirty_section(log, 2).first_timestamp == -1
    assert not world.fake.reads
    world.cleaners.examine(log)
    assert dirty_section(log, None).first_timestamp == START_MS


def test_the_earliest_horizon_is_in_the_headers() -> None:
    world = CleaningWorld()
    world.start(delete_retention_ms=5000)
    put(world.log(), "k", None)
    world.roll_and_clean()
    log = world.log()
    assert earliest_horizon(log.segments[0]) == world.time.milliseconds() + 5000
    assert earliest_horizon(log.segments[-1]) is None
