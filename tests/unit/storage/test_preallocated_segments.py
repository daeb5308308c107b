"""`preallocate`: a segment has its full size on disk while it is written to, and no longer."""

from __future__ import annotations

import errno

import pytest
from support.fake_disk import BLOCK
from support.fake_filesystem import FakeFileSystem, Operation
from support.logs import World, append
from support.mock_time import START_MS
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.segment.names import LOG_SUFFIX

SEGMENT_BYTES = 1 << 20


@pytest.fixture
def world() -> World:
    world = World()
    world.start(preallocate=True, segment_bytes=SEGMENT_BYTES)
    return world


def path_of(log: UnifiedLog, segment: LogSegment) -> str:
    return log.log_directory.file(segment.base_offset, LOG_SUFFIX)


def held(world: World, log: UnifiedLog) -> list[int]:
    """Bytes on disk of each segment's log file."""
    return [world.fake.stat(path_of(log, segment)).allocated_bytes for segment in log.segments]


def test_only_the_segment_that_is_written_to_holds_its_full_size(world: World) -> None:
    log = world.log()
    for _ in range(3):
        append(log, "x" * 5000)
        log.roll()
    world.time.advance(seconds=1)
    assert held(world, log) == [2 * BLOCK, 2 * BLOCK, 2 * BLOCK, SEGMENT_BYTES]
    assert log.segments[0].synced_size == log.segments[0].size


def test_a_segment_that_was_synced_whole_before_its_roll_gives_back_too(world: World) -> None:
    log = world.log()
    append(log, "x")
    log.flush()
    log.roll()
    world.time.advance(seconds=1)
    assert held(world, log) == [BLOCK, SEGMENT_BYTES]


def test_a_clean_stop_leaves_no_segment_with_more_than_was_written(world: World) -> None:
    log = world.log()
    append(log, "x")
    log.roll()
    append(log, "y")
    world.stop()
    assert held(world, log) == [BLOCK, BLOCK]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_what_a_crash_left_reserved_is_given_back_at_the_start(world: World, power: bool) -> None:
    log = world.log()
    append(log, "x")
    log.roll()  # no time for the flush after it
    append(log, "y")
    if power:
        world.fake.sync_all()
        world.cut_power(3)
    else:
        world.kill()
    assert held(world, log) == [SEGMENT_BYTES, SEGMENT_BYTES]
    world.start(preallocate=False)
    assert held(world, world.log()) == [BLOCK, BLOCK]
    world.stop()
    assert held(world, log) == [BLOCK, BLOCK]


def test_a_clean_stop_gives_back_what_an_idle_log_held_from_before(world: World) -> None:
    """The stop that came before was another program's: it left blocks and the mark of a clean stop."""
    log = world.log()
    append(log, "x")
    path = path_of(log, log.segments[0])
    world.stop()
    file = world.fake.open(path)
    file.preallocate(SEGMENT_BYTES)
    file.close()
    world.start(preallocate=True, segment_bytes=SEGMENT_BYTES)
    assert world.manager.had_clean_shutdown
    assert held(world, world.log()) == [BLOCK]
    append(world.log(), "y")
    assert held(world, world.log()) == [SEGMENT_BYTES]


def test_the_files_time_stays_which_retention_goes_by_where_records_have_none(world: World) -> None:
    log = world.log()
    append(log, "x", timestamp=-1, step=0)
    written = world.fake.stat(path_of(log, log.segments[0])).modified_ms
    assert written == START_MS
    log.roll()
    world.time.advance(seconds=100)
    stat = world.fake.stat(path_of(log, log.segments[0]))
    assert (stat.modified_ms, stat.allocated_bytes) == (written, BLOCK)


def test_truncation_gives_back_what_it_cuts_and_keeps_the_active_segments_room(world: World) -> None:
    log = world.log()
    append(log, "x" * 5000)
    append(log, "y" * 5000)
    log.truncate_to(1)
    assert held(world, log) == [SEGMENT_BYTES]
    log.roll()
    append(log, "y")
    world.time.advance(seconds=1)
    log.truncate_to(1)
    assert len(log.segments) == 2
    log.truncate_to(0)
    assert held(world, log) == [SEGMENT_BYTES]
    world.stop()
    assert held(world, log) == [0]


def test_a_file_system_that_refuses_to_give_back_stops_no_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    log = world.log()
    append(log, "x")
    log.roll()

    def refuse(operation: Operation) -> BaseException | None:
        is_log = operation.path.endswith(LOG_SUFFIX)
        return OSError(errno.EIO, "I/O error") if is_log and operation.kind == "truncate" else None

    world.fake.fail_when(refuse)
    world.time.advance(seconds=1)
    world.fake.heal()
    assert log.failure is None
    assert log.recovery_point == 1
    assert "could not be given back" in caplog.text
    append(log, "y")


def test_without_preallocation_nothing_is_cut_anywhere() -> None:
    world = World(FakeFileSystem())
    world.start(segment_bytes=SEGMENT_BYTES)
    log = world.log()
    for _ in range(3):
        append(log, "x" * 5000)
        log.roll()
    world.time.advance(seconds=1)
    world.stop()
    world.start()
    assert not [one for one in world.fake.trace if one.kind == "truncate" and one.path.endswith(".log")]
