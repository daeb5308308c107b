"""Rolling with no write arriving, retention and truncation as a log's own calls (more: test_unified_log, test_log_upkeep)."""

from __future__ import annotations

import pytest
from support.logs import World, append
from tidelog.storage.exceptions import OffsetOutOfRangeError

DAY = 86_400_000


def test_a_log_is_called_silent_only_when_nothing_came_between_two_looks() -> None:
    world = World()
    world.start(segment_ms=DAY)
    log = world.log()
    assert not log.roll_if_quiet()  # empty
    append(log, "a")
    world.time.advance(2 * DAY)
    assert not log.roll_if_quiet()  # something came since
    append(log, "b", timestamp=world.time.milliseconds() - 2 * DAY)
    assert not log.roll_if_quiet()
    assert log.roll_if_quiet()
    assert not log.roll_if_quiet()
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    world.stop()


def test_a_first_record_of_the_future_leaves_the_segments_own_age() -> None:
    world = World()
    world.start(segment_ms=DAY, message_timestamp_after_max_ms=2**63 - 1)
    log = world.log()
    append(log, "a", timestamp=4_102_444_800_000)
    log.roll_if_quiet()
    world.time.advance(DAY)
    assert not log.roll_if_quiet()
    world.time.advance(1)
    assert log.roll_if_quiet()
    world.stop()


def test_the_start_moves_up_to_the_high_watermark_and_not_beyond() -> None:
    world = World()
    world.start(segment_bytes=100, retention_ms=-1)
    log = world.log()
    for value in "abc":
        append(log, value * 50)
    assert log.increment_log_start_offset(2)
    assert not log.increment_log_start_offset(1)
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start_offset(4)
    assert [(d.base_offset, d.policy) for d in log.delete_old_segments()] == [(0, "start-offset"), (1, "start-offset")]
    world.stop()
