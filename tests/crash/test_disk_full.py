"""No room at any single write, and a start on a full disk.

KAFKA-7866, for every file: after ENOSPC, or EDQUOT, at the n-th call that takes room the log has what was acknowledged and
nothing else, goes on when there is room, and comes up the same after a kill.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from support.fake_filesystem import Operation
from support.logs import ROOT, START_MS, World, append, batch, read_records, values_of
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.unified_log import UnifiedLog

NO_ROOM = pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT], ids=["ENOSPC", "EDQUOT"])
TAKES_ROOM = frozenset(("append", "create", "resize", "reserve", "mkdir", "rename"))


@dataclass
class NoRoom:
    """Fails the n-th call that takes room, or all from there on until `over`."""

    number: int
    at: int
    lasting: bool
    seen: int = 0
    hit: list[Operation] = field(default_factory=list)
    over: bool = False

    def __call__(self, operation: Operation) -> BaseException | None:
        if self.over or operation.kind not in TAKES_ROOM:
            return None
        self.seen += 1
        if self.seen == self.at or (self.lasting and self.seen > self.at):
            self.hit.append(operation)
            return OSError(self.number, os.strerror(self.number))
        return None


SETTINGS = {"segment_bytes": 900, "index_interval_bytes": 200, "segment_index_bytes": 240, "retention_bytes": 3000}


def work(world: World, acknowledged: dict[int, bytes], rounds: int, name: bytes) -> None:
    """Appends, rolls, flushes, retention and checkpoints, as a daemon that answers errors and goes on."""
    log = world.log()
    for number in range(rounds):
        value = (b"%s%d " % (name, number)).ljust(250, b".")
        try:
            acknowledged[append(log, value, producer_id=1, producer_epoch=0, base_sequence=number)] = value
        except StorageError:
            assert log.failure is None, "a full disk is no reason to give up a log"
        try:
            if number % 3 == 2:
                log.flush()
            if number % 5 == 4:
                log.delete_old_segments()
            world.time.advance(milliseconds=10)
        except (StorageError, OSError):
            pass  # the scheduler logs what its tasks raise
        world.manager.checkpoint_recovery_points()
        world.manager.checkpoint_log_start_offsets()


@NO_ROOM
@pytest.mark.parametrize("lasting", [False, True])
def test_no_room_at_any_single_write_loses_nothing_that_was_acknowledged(lasting: bool, number: int) -> None:
    """Each n until the run gets through without meeting it."""
    places = set()
    for at in range(1, 400):
        world = World()
        world.start(**SETTINGS)
        acknowledged: dict[int, bytes] = {}
        world.log()
        rule = NoRoom(number, at, lasting)
        world.fake.fail_when(rule)
        work(world, acknowledged, 12, b"a")
        if not rule.hit:
            break
        places |= {operation.path.rpartition(".")[2] for operation in rule.hit}
        rule.over = True
        log = world.log()
        assert log.failure is None
        end = log.log_end_offset
        for later in range(4):
            acknowledged[append(log, b"after %d" % later)] = b"after %d" % later
        assert min(offset for offset in acknowledged if offset >= end) == end
        for kill in (True, False):
            log = world.log()
            records = read_records(log, log.log_start_offset)
            assert [record.offset for record in records] == list(range(log.log_start_offset, log.log_end_offset))
            expected = [value for offset, value in sorted(acknowledged.items()) if offset >= log.log_start_offset]
            assert values_of(records) == expected, f"call {at}: {rule.hit[0]}"
            if kill:
                world.kill()
                world.start()
                faults = [f for f in verify(world.fake, ROOT) if f.is_fault and "replication-offset" not in f.path]
                assert not faults, f"call {at}: {rule.hit[0]}"
        world.stop()
    else:
        raise AssertionError("there is no end to it")
    assert places >= {"log", "tmp"} | ({"index", "timeindex"} if not lasting else set())


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_on_a_full_disk_serves_what_is_there(clean: bool) -> None:
    """operate-first#676: recovery failed again because growing an index needs room."""
    world = World()
    world.start(**SETTINGS | {"retention_bytes": -1})
    acknowledged: dict[int, bytes] = {}
    work(world, acknowledged, 14, b"a")
    if clean:
        world.stop()
    else:
        world.kill()
    world.fake.free = 0
    world.start()
    log = world.manager.get("t", 0)
    assert log is not None
    assert values_of(read_records(log, 0)) == [acknowledged[offset] for offset in sorted(acknowledged)]
    with pytest.raises(StorageError):
        append(log, b"x")
    assert log.failure is None
    world.fake.free = 1 << 30
    assert append(log, b"x") == len(acknowledged)
    world.kill()
    world.start()
    assert len(read_records(world.log(), 0)) == len(acknowledged) + 1


def rotten(how: str) -> World:
    """A log with segments at 0, 3 and 6 and eight records, stopped, and then damaged in one way."""
    world = World(damaged=f"{how}, and not recovered")
    world.start(segment_bytes=500)
    for value in "abcdefgh":
        append(world.log(), value * 80)
    world.log().increment_log_start_offset(1)
    world.stop()
    last = f"{ROOT}/t-0/{6:020d}"
    if how == "a batch is damaged":
        world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
        data = world.fake.contents()[f"{last}.log"]
        world.fake.corrupt(f"{last}.log", 75, bytes([data[75] ^ 1]))
    elif how == "the last segment is missing":
        world.fake.unlink(f"{last}.log")
    elif how == "a closed segment is missing":
        world.fake.unlink(f"{ROOT}/t-0/{3:020d}.log")
    elif how == "the first segment is missing":
        world.fake.unlink(f"{ROOT}/t-0/{0:020d}.log")
    else:
        world.fake.corrupt(f"{ROOT}/{how}", 4, b"\xff")
    world.fake.sync_all()
    return world


@NO_ROOM
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        "a batch is damaged",
        "the last segment is missing",
        "a closed segment is missing",
        "the first segment is missing",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
    ],
)
def test_a_start_that_has_to_mend_damage_without_room_says_what_to_do_and_loses_nothing(
    how: str, lasting: bool, number: int
) -> None:
    base = rotten(how)

    def started(world: World) -> tuple[int, int, list[int], tuple[int, ...]]:
        (log,) = world.start().logs()
        lost = tuple(offset for hole in log.holes for offset in range(hole.first_offset, hole.last_offset + 1))
        records = [record.offset for record in read_records(log, log.log_start_offset)]
        return log.log_start_offset, log.log_end_offset, records, lost

    def again(world: World) -> World:
        other = World(world.fake.kill(), damaged="not recovered")
        other.log_config = world.log_config
        return other

    expected = started(again(base))
    refused = 0
    for at in range(1, 100):
        world = again(base)
        rule = NoRoom(number, at, lasting)
        world.fake.fail_when(rule)
        try:
            found = started(world)
        except StorageError as error:
            refused += 1
            assert "no room" in str(error), (at, error)
            assert "make room and start again" in str(error), (at, error)
            rule.over = True
            found = started(again(world))
        assert found == expected, (at, rule.hit)
        if not rule.hit:
            break
    assert at > 2
    assert refused


def no_room_for_the_first_time_index(number: int) -> Callable[[Operation], OSError | None]:
    """Neither in its place, where a slot is to be reserved, nor for a new file."""

    def rule(operation: Operation) -> OSError | None:
        is_it = "/00000000000000000000.timeindex" in operation.path and operation.kind in ("reserve", "append")
        return OSError(number, os.strerror(number)) if is_it else None

    return rule


def of_two_times(world: World) -> UnifiedLog:
    """The log, with a record at 0 and one of 10 ms later at 1: the time index has the second one at its end alone."""
    log = world.log()
    append(log, b"early")
    world.time.advance(milliseconds=10)
    append(log, b"late", timestamp=START_MS + 10)
    return log


def check_later_is_found(world: World) -> None:
    found = world.log().lookup_by_timestamp(START_MS + 10)
    assert found is not None
    assert found.offset == 1


@NO_ROOM
def test_an_index_that_a_full_disk_left_short_is_whole_after_a_start(number: int) -> None:
    """Found by the simulator (seed 104): the recovery point passed such a segment, whose index a start then believed."""
    world = World()
    world.start(**SETTINGS)
    log = of_two_times(world)
    world.fake.fail_when(no_room_for_the_first_time_index(number))
    log.roll()
    assert log.flush() == 2, "what waits for the sync waits for no index"
    assert log.recovery_point == 0
    world.manager.checkpoint_recovery_points()
    world.fake.fail_when(None)
    world.kill()
    world.start(**SETTINGS)
    check_later_is_found(world)


@NO_ROOM
@pytest.mark.parametrize("is_clean", [False, True])
def test_an_index_that_a_full_disk_left_short_where_all_was_synced_before_is_whole_after_a_start(
    number: int, is_clean: bool
) -> None:
    """The recovery point stood at the segment's end already, where the snapshot of the roll says that indexes are durable."""
    world = World()
    world.start(**SETTINGS)
    log = of_two_times(world)
    log.flush()
    world.fake.fail_when(no_room_for_the_first_time_index(number))
    log.roll()
    log.flush_rolled()
    if not is_clean:
        append(log, b"later", timestamp=START_MS + 20)
        log.flush()
    assert log.recovery_point == 2
    world.manager.checkpoint_recovery_points()
    if is_clean:
        world.stop()
    world.fake.fail_when(None)
    if not is_clean:
        world.kill()
    world.start(**SETTINGS)
    check_later_is_found(world)


@NO_ROOM
def test_an_index_that_a_full_disk_left_short_is_completed_when_there_is_room(number: int) -> None:
    world = World()
    world.start(**SETTINGS)
    log = world.log()
    append(log, b"one")
    world.fake.fail_when(no_room_for_the_first_time_index(number))
    log.roll()
    log.flush()
    world.fake.fail_when(None)
    log.flush()
    assert log.recovery_point == 1
    world.cut_power(1)
    world.start(**SETTINGS)
    assert world.log().lookup_by_timestamp(START_MS) is not None


@NO_ROOM
def test_the_active_segments_index_that_a_full_disk_left_short_at_a_stop_is_whole_after_a_start(number: int) -> None:
    world = World()
    world.start(**SETTINGS)
    of_two_times(world)
    world.fake.fail_when(no_room_for_the_first_time_index(number))
    world.stop()
    world.fake.fail_when(None)
    world.start(**SETTINGS)
    check_later_is_found(world)


@NO_ROOM
def test_an_index_that_a_full_disk_left_short_is_completed_where_the_log_moves_to(number: int) -> None:
    """Which is what one does about a full disk."""
    full, other = "/data1", "/data2"
    world = World(directories=(full, other))
    world.start()
    log = world.log()
    if log.directory.startswith(other):
        full, other = other, full
    of_two_times(world)
    no_room = no_room_for_the_first_time_index(number)
    world.fake.fail_when(lambda operation: no_room(operation) if operation.path.startswith(full) else None)
    log.roll()
    world.time.advance(milliseconds=10)
    append(log, b"later", timestamp=START_MS + 20)
    move = world.manager.new_move("t", 0, other)
    move.begin()
    move.copy(lambda _bytes: None)
    move.commit()
    world.manager.end_move(move)
    world.fake.fail_when(None)
    world.stop()
    world.start()
    check_later_is_found(world)


@NO_ROOM
@pytest.mark.parametrize("what", [".snapshot", "leader-epoch-checkpoint", "/00000000000000000000.timeindex"])
def test_a_producer_whose_snapshot_a_full_disk_refused_is_known_after_retention_and_a_kill(
    number: int, what: str
) -> None:
    """A roll's snapshot is not written where its index, or the epochs, are not either; retention took what else told of it."""
    world = World()
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=0, base_sequence=0)

    def rule(operation: Operation) -> OSError | None:
        is_it = what in operation.path and operation.kind in TAKES_ROOM
        return OSError(number, os.strerror(number)) if is_it else None

    world.fake.fail_when(rule)
    log.roll()
    for _ in range(3):
        with suppress(OSError, StorageError):
            world.time.advance(0)  # the roll's flush
    world.fake.heal()
    log.flush()
    world.time.advance(milliseconds=100)
    append(log, "other", timestamp=START_MS)
    log.flush()
    assert log.failure is None
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    world.kill()
    world.start()
    again = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    info = world.log("t2").append_as_leader(again, 0, len(again))
    assert (info.first_offset, info.duplicate) == (0, True)
