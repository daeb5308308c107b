from __future__ import annotations

import errno
import logging

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World, append, batch, read_records, values_of
from tidelog.storage.exceptions import DiskFullError, KafkaStorageError
from tidelog.storage.io.disk_space import DiskSpace
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import AppendOrigin

RESERVE = 10_000


@pytest.fixture
def world() -> World:
    """A manager at work whose disk has 15,000 bytes left, 10,000 of them reserved."""
    world = World(log_dir_reserve_bytes=str(RESERVE))
    world.start(segment_bytes=2000, index_interval_bytes=500)
    log = world.log()
    append(log, b"first")
    world.fake.free = 15_000
    world.manager.start()
    world.time.advance(0)
    return world


def fill(log: UnifiedLog, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
    """Appends of 977 bytes until one is refused; how many were taken."""
    for count in range(100):
        data = batch(bytes(900))
        try:
            log.append_as_leader(data, 0, len(data), origin=origin)
        except DiskFullError as error:
            assert "log.dir.reserve.bytes=10000" in str(error)
            return count
    raise AssertionError("nothing was refused")


def test_clients_are_refused_before_the_reserve_is_touched(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Without asking the disk at each append: no time passes here."""
    log = world.log()
    end = log.log_end_offset
    count = fill(log)
    assert count == 5  # of 977 bytes into 5,000
    assert world.fake.free >= RESERVE
    assert log.log_end_offset == end + count
    assert log.failure is None
    for _ in range(3):
        with pytest.raises(KafkaStorageError):
            append(log, bytes(900))
    lines = [record for record in caplog.records if "appends are refused" in record.message]
    assert len(lines) == 1
    ((path, space),) = world.manager.spaces
    assert (path, space.is_full, space.refused) == (ROOT, True, 4)
    assert 14_900 < space.free_bytes <= 15_000


def test_everything_else_goes_on(world: World) -> None:
    log = world.log()
    count = fill(log)
    assert len(read_records(log, 0)) == count + 1
    log.increment_log_start_offset(3)
    log.delete_old_segments()
    assert log.log_start_offset == 3
    assert log.flush() == log.log_end_offset
    assert world.manager.checkpoint_recovery_points()
    world.stop()
    world.start()
    assert len(read_records(world.log(), 3)) == count - 2


def test_coordinators_may_use_half_of_the_reserve(world: World) -> None:
    """Consumers that commit drain the disk's topics; the other half is for what makes room."""
    log = world.log()
    fill(log)
    assert fill(log, AppendOrigin.COORDINATOR) == 5
    assert world.fake.free >= RESERVE // 2


def test_service_resumes_by_itself(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    log = world.log()
    fill(log)
    world.fake.free = RESERVE + 900  # not a tenth more: it would flap
    world.time.advance(seconds=2)
    with pytest.raises(DiskFullError):
        append(log, b"x")
    world.fake.free = RESERVE + 20_000
    world.time.advance(seconds=1)
    end = append(log, b"x")
    assert values_of(read_records(log, end)) == [b"x"]
    assert [record for record in caplog.records if "accepted" in record.message]
    assert not world.manager.spaces[0][1].is_full


def test_a_disk_that_others_fill_is_noticed_within_a_second(world: World) -> None:
    world.fake.free = RESERVE - 1
    world.time.advance(seconds=1)
    with pytest.raises(DiskFullError):
        append(world.log(), b"x")


def test_a_reserve_of_0_refuses_nothing() -> None:
    space = DiskSpace(FakeFileSystem(capacity=5), ROOT, 0)
    space.sample()
    assert space.left > 1 << 60
    assert not space.is_full


def test_a_look_that_fails_changes_nothing() -> None:
    class Broken(FakeFileSystem):
        def free_bytes(self, path: object) -> int:
            raise OSError(errno.EIO, "broken")

    space = DiskSpace(Broken(), ROOT, 10)
    space.sample()
    assert (space.is_full, space.free_bytes) == (False, -1)
    space.check(1, is_client=True)
