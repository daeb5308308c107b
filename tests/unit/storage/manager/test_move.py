"""One log on its way to another data directory; what the power can do to it is in tests/crash/test_move_ring.py."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable

import pytest
from support.logs import ROOT, World, append, batch, read_records, values_of
from support.mock_time import START_MS, Delay, MockScheduler, MockTime
from tidelog.storage.exceptions import DiskFullError, KafkaStorageError, MoveCancelledError
from tidelog.storage.io.write_pace import SLOW_S
from tidelog.storage.manager.move import LogMove, MoveState
from tidelog.storage.values import AppendOrigin

ONE, TWO = f"{ROOT}/one", f"{ROOT}/two"


def free(_bytes: int) -> None:
    """Nobody has to wait."""


@pytest.fixture
def world() -> World:
    world = World(directories=(ONE, TWO))
    world.start(segment_bytes=700, index_interval_bytes=300)
    for number in range(6):
        append(world.log(), b"%d" % number + b"." * 300)
    world.time.advance(seconds=1)
    return world


def begun(world: World) -> LogMove:
    move = world.manager.new_move("t", 0, TWO)
    assert move is not None
    move.begin()
    return move


def committed(world: World) -> LogMove:
    move = begun(world)
    assert move.copy(free) == 0
    move.commit()
    world.manager.end_move(move)
    return move


def contents(world: World, directory: str) -> dict[str, bytes]:
    prefix = f"{directory}/"
    return {
        path.removeprefix(prefix): data.rstrip(b"\0") if path.endswith("index") else data
        for path, data in world.fake.contents().items()
        if path.startswith(prefix)
    }


def test_every_file_is_the_same_there(world: World) -> None:
    world.stop()
    world.start(segment_bytes=700, index_interval_bytes=300)
    before = contents(world, f"{ONE}/t-0")
    committed(world)
    assert contents(world, f"{TWO}/t-0") == before
    assert not world.fake.exists(f"{ONE}/t-0")
    assert world.manager.moves() == []


def test_times_of_files_go_with_them(world: World) -> None:
    first = f"{ONE}/t-0/{0:020d}.log"
    world.file_system.set_modified_ms(first, 12_000)
    committed(world)
    assert world.file_system.stat(first.replace(ONE, TWO)).modified_ms == 12_000


def test_the_log_goes_on_there(world: World) -> None:
    log = world.log()
    committed(world)
    assert world.log() is log
    assert log.directory == f"{TWO}/t-0"
    for number in range(6, 12):
        append(log, b"%d" % number + b"." * 300)
    log.complete_sync(log.flush())
    assert [value[:2].strip(b".") for value in values_of(read_records(log, 0))] == [b"%d" % n for n in range(12)]
    world.stop()
    assert not [path for path in world.fake.paths() if path.startswith(f"{ONE}/t-0/")]
    world.start()
    assert world.log().directory == f"{TWO}/t-0"
    assert world.log().log_end_offset == 12


class Lane(MockScheduler):
    """Takes notes of what is scheduled in it."""

    def __init__(self, time: MockTime) -> None:
        super().__init__(time)
        self.names: list[str] = []

    def schedule(self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None) -> Delay:
        self.names.append(name)
        return super().schedule(name, task, delay_ms, period_ms)


def test_the_work_on_a_moved_log_is_done_in_the_lane_of_its_new_directory(world: World) -> None:
    """A disk that hangs holds up its own logs only."""
    log, move = world.log(), begun(world)
    move.target.scheduler = lane = Lane(world.time)
    move.copy(free)
    move.commit()
    world.manager.end_move(move)
    lane.names.clear()
    log.roll()
    assert lane.names == ["flush-log"]
    log.increment_log_start_offset(1)
    assert len(log.delete_old_segments()) == 1
    assert lane.names == ["flush-log", "delete-file"]


def test_the_appends_of_a_moved_log_count_for_the_room_in_its_new_directory(world: World) -> None:
    log = world.log()
    committed(world)
    spaces = dict(world.manager.spaces)
    left, size = {path: space.left for path, space in spaces.items()}, log.size
    append(log, b"." * 100)
    assert {path: before - spaces[path].left for path, before in left.items()} == {ONE: 0, TWO: log.size - size}
    spaces[ONE].left = 0
    append(log, b"." * 100)
    spaces[TWO].left = 0
    with pytest.raises(DiskFullError):
        append(log, b"." * 100)


def test_the_writes_of_a_moved_log_are_timed_for_its_new_directory(world: World) -> None:
    """A disk that has become slow is to take this log's appends through its thread, and no others'."""
    log = world.log()
    committed(world)
    paces = dict(world.manager.paces)
    paces[TWO].clock = itertools.count(step=SLOW_S).__next__
    append(log, b"." * 100)
    assert {path: pace.slow_writes for path, pace in paces.items()} == {ONE: 0, TWO: 1}
    assert log.log_directory.pace is paces[TWO]


def test_readers_keep_what_they_have_and_others_find_it_there(world: World) -> None:
    info = world.log().read(0, 1)
    committed(world)
    world.time.advance(seconds=120)  # what was left behind is removed
    assert not [path for path in world.fake.paths() if "-delete" in path]
    assert info.file is not None
    assert len(info.file.pread(info.size, info.position)) == info.size
    info.release()
    assert len(read_records(world.log(), 0)) == 6


def test_appends_between_the_rounds_are_told_and_come_too(world: World) -> None:
    move = begun(world)
    move.copy(free)
    assert (move.offset_lag, move.copied_bytes) == (0, world.log().size)
    append(world.log(), b"." * 100)
    assert move.offset_lag == 1
    append(world.log(), b"." * 600)
    move.commit()
    world.manager.end_move(move)
    assert len(read_records(world.log(), 0)) == 8


def test_producers_are_known_there_after_a_crash(world: World) -> None:
    data = batch(b"mine", producer_id=7, producer_epoch=0, base_sequence=0)
    world.log().append_as_leader(bytearray(data), 0, len(data))
    committed(world)
    world.kill()
    world.start()
    again = world.log().append_as_leader(bytearray(data), 0, len(data), origin=AppendOrigin.CLIENT)
    assert again.duplicate
    assert again.first_offset == 6


def test_a_gap_that_compaction_left_is_no_loss_there(world: World) -> None:
    """The new directory's recovery point covers it before the log is there."""
    log = world.log()
    log.flush()
    world.manager.checkpoint_recovery_points()
    committed(world)
    recovery_points = world.fake.contents()[f"{TWO}/recovery-point-offset-checkpoint"].decode()
    assert f"t 0 {log.recovery_point}\n" in recovery_points


def test_a_cancelled_move_leaves_nothing(world: World) -> None:
    move = begun(world)
    move.copy(free)
    assert move.cancel()
    with pytest.raises(MoveCancelledError):
        move.check()
    with pytest.raises(MoveCancelledError):
        move.commit()
    world.manager.end_move(move)
    assert not [path for path in world.fake.paths() if "/t-0" in path and path.startswith(TWO)]
    assert world.manager.moves() == []
    append(world.log(), b"goes on")


def test_cancelling_comes_too_late_when_the_log_is_there(world: World) -> None:
    move = committed(world)
    assert not move.cancel()
    assert move.state is MoveState.DONE


@pytest.mark.parametrize("kind", ["append", "sync", "rename", "sync_directory"])
def test_a_disk_that_refuses_leaves_the_log_whole(world: World, kind: str) -> None:
    move = begun(world)
    move.copy(free)
    append(world.log(), b"the last one")
    world.fake.fail_when(
        lambda operation: OSError(errno.EIO, "broken") if operation.kind == kind and TWO in operation.path else None
    )
    with pytest.raises((OSError, KafkaStorageError)):
        move.commit()
    world.fake.fail_when(lambda _operation: None)
    world.manager.end_move(move)
    if world.log().failure is None:
        append(world.log(), b"goes on")
    end = world.log().log_end_offset
    world.kill()
    world.start(segment_bytes=700, index_interval_bytes=300)
    assert world.log().log_end_offset == end
    assert len(read_records(world.log(), 0)) == end


@pytest.mark.parametrize("kind", ["rename", "sync_directory"])
@pytest.mark.parametrize("ends_by", [World.stop, World.kill])
def test_what_was_deleted_stays_so_where_a_move_stops_half_way(
    world: World, ends_by: Callable[[World], None], kind: str
) -> None:
    """Checkpoints go on meanwhile, and the next start goes by those of the directory that has the copy."""
    world.log().increment_log_start_offset(3)
    world.manager.note_log_starts([("t", 0)])
    move = begun(world)
    move.copy(free)
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "broken")
            if operation.kind == kind and TWO in operation.path and not world.fake.exists(f"{ONE}/t-0")
            else None
        )
    )
    with pytest.raises(KafkaStorageError, match="half way"):
        move.commit()
    world.fake.fail_when(lambda _operation: None)
    world.manager.end_move(move)
    assert world.manager.checkpoint_log_start_offsets()
    ends_by(world)
    world.start(segment_bytes=700, index_interval_bytes=300)
    assert world.log().directory == f"{TWO}/t-0"
    assert (world.log().log_start_offset, world.log().log_end_offset) == (3, 6)


def test_a_topic_whose_move_stopped_half_way_is_in_no_checkpoint_after_its_deletion(world: World) -> None:
    move = begun(world)
    move.copy(free)
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "broken") if operation.kind == "rename" and not world.fake.exists(f"{ONE}/t-0") else None
        )
    )
    with pytest.raises(KafkaStorageError, match="half way"):
        move.commit()
    world.fake.fail_when(lambda _operation: None)
    world.manager.end_move(move)
    with pytest.raises(KafkaStorageError):  # the next start does
        world.manager.delete("t", 0)
    assert world.manager.checkpoint_recovery_points()
    assert b"t 0 " not in world.fake.contents()[f"{TWO}/recovery-point-offset-checkpoint"]


def test_a_name_without_room_for_a_copys_is_refused(world: World) -> None:
    name = "t" * 249
    world.log(name)
    other = ({ONE, TWO} - {world.log(name).directory.rpartition("/")[0]}).pop()
    with pytest.raises(ValueError, match="too long"):
        world.manager.new_move(name, 0, other)


def test_only_what_is_here_can_be_moved_and_only_to_elsewhere(world: World) -> None:
    assert world.manager.new_move("t", 0, ONE) is None
    with pytest.raises(KafkaStorageError):
        world.manager.new_move("t", 1, TWO)
    with pytest.raises(KafkaStorageError):
        world.manager.new_move("t", 0, f"{ROOT}/three")


def test_a_move_that_a_stop_cut_short_is_named_by_the_next_start(world: World) -> None:
    begun(world).copy(free)
    world.stop()
    manager = world.start()
    assert manager.interrupted_moves == [("t", 0, TWO)]
    manager.start()
    world.time.advance(seconds=1)
    assert not [path for path in world.fake.paths() if "-future" in path]


def test_the_copy_of_a_topic_that_had_the_name_before_is_removed(world: World) -> None:
    move = begun(world)
    move.copy(free)
    metadata = f"{ONE}/t-0/partition.metadata"
    other = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    world.file_system.write_atomically(f"{move.path}/partition.metadata", other)
    assert world.fake.contents()[metadata] != other
    world.stop()
    manager = world.start()
    assert manager.interrupted_moves == []
    manager.start()
    world.time.advance(seconds=1)
    assert not [path for path in world.fake.paths() if "-future" in path]


def with_hole(world: World) -> str:
    """The world's log with 3 MiB put aside; the path of that file."""
    world.stop()
    name = "00000000000000000000.9.0-0.damaged"
    world.fake.put(f"{ONE}/t-0/{name}", b"\x55" * (3 << 20))
    world.start(segment_bytes=700, index_interval_bytes=300)
    assert [hole.name for hole in world.log().holes] == [name]
    return f"{ONE}/t-0/{name}"


def test_what_damage_left_comes_too_in_chunks_before_the_log_stands_still(world: World) -> None:
    path = with_hole(world)
    before = world.fake.contents()[path]
    move = begun(world)
    paid: list[int] = []
    move.copy(paid.append)
    reads = [read.detail for read in world.fake.reads if read.path == path]
    assert (sum(reads), max(reads)) == (3 << 20, 1 << 20)
    assert sum(paid) == (3 << 20) + world.log().size
    world.fake.reads.clear()
    move.copy(free)
    move.commit()
    world.manager.end_move(move)
    assert not [read for read in world.fake.reads if read.path == path]
    assert world.fake.contents()[path.replace(ONE, TWO)] == before


def test_what_damage_left_and_somebody_has_taken_note_of_does_not_come_back(world: World) -> None:
    path = with_hole(world)
    move = begun(world)
    move.copy(free)
    world.fake.unlink(path)
    move.copy(free)
    move.commit()
    world.manager.end_move(move)
    assert not world.fake.exists(path.replace(ONE, TWO))


def test_an_index_that_a_full_disk_left_short_is_whole_there_though_it_was_completed_during_the_move(
    world: World,
) -> None:
    """Retention goes by the last entry: without it a restart takes the segment for older than its newest record is."""
    log, newest = world.log(), START_MS + 1_000_000
    log.roll()
    append(log, b"early", timestamp=START_MS)
    append(log, b"late", timestamp=newest)
    closed = log.segments[-1]
    index = f"/{closed.base_offset:020d}.timeindex"
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.ENOSPC, "full")
            if index in operation.path and operation.kind in ("reserve", "append")
            else None
        )
    )
    log.roll()
    world.time.advance(0)
    assert not closed.indexes_synced
    move = begun(world)
    move.copy(free)
    world.fake.fail_when(None)
    log.flush()
    assert closed.indexes_synced
    move.commit()
    world.manager.end_move(move)
    world.stop()
    world.start()
    [there] = [segment for segment in world.log().segments if segment.base_offset == closed.base_offset]
    assert there.largest_timestamp() == newest
