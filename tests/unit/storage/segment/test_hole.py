"""Making a hole: the bytes are kept whatever happens meanwhile, and where there is no room nothing changes."""

from __future__ import annotations

import errno

import pytest
from support.fake_filesystem import FakeFileSystem, PowerCut
from support.logs import ROOT, World, append, read_records, values_of
from tidelog.storage.segment.hole import DamagedLogError
from tidelog.storage.segment.names import Hole, parse_hole

T = f"{ROOT}/t-0"
LOG = f"{T}/{0:020d}.log"
VALUES = [b"a" * 50, b"b" * 50, b"c" * 50]


def damaged(**options: str) -> World:
    """Three durable records in one segment, killed; a bit of the second one has flipped."""
    world = World(**options)
    world.start()
    log = world.log()
    for value in VALUES:
        append(log, value)
    size = log.segments[0].size // 3
    world.stop()
    world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    data = world.fake.contents()[LOG]
    world.fake.corrupt(LOG, size + 70, bytes([data[size + 70] ^ 4]))
    world.fake.sync_all()
    return world


def test_the_bytes_are_kept_and_the_rest_goes_on() -> None:
    world = damaged()
    before = world.fake.contents()[LOG]
    third = len(before) // 3
    log = world.start().get("t", 0)
    assert log is not None
    assert values_of(read_records(log, 0)) == [VALUES[0], VALUES[2]]
    assert read_records(log, 1)[0].offset == 2
    (hole,) = log.holes
    assert hole == Hole(0, third, 1, 1)
    contents = world.fake.contents()
    assert contents[f"{T}/{hole.name}"] == before[third : 2 * third]
    assert contents[LOG] == before[:third] + before[2 * third :]
    assert append(log, "next") == 3


def test_names_say_what_was_lost() -> None:
    hole = Hole(56, 1234, 60, 69)
    assert hole.name == "00000000000000000056.1234.60-69.damaged"
    assert parse_hole(hole.name) == hole
    for name in (
        "00000000000000000056.log",
        f"{hole.name}.tmp",
        "x.damaged",
        "00000000000000000056.1234.69-60.damaged",
    ):
        assert parse_hole(name) is None


@pytest.mark.parametrize("cut_power", [False, True])
@pytest.mark.damaged("a mend is cut off at each call")
def test_a_stop_at_any_call_loses_neither_the_bytes_nor_the_rest(cut_power: bool) -> None:
    first = damaged()
    before = first.fake.contents()[LOG]
    third = len(before) // 3
    call = 0
    while True:
        call += 1
        system = first.fake.kill()
        system.sync_all()
        system.fail_at(call, PowerCut())
        world = World(system)
        try:
            world.start()
        except PowerCut:
            pass
        else:
            break
        states: list[FakeFileSystem] = [system.power_cut(seed) for seed in range(3)] if cut_power else [system.kill()]
        for state in states:
            again = World(state)
            log = again.start().get("t", 0)
            assert log is not None
            assert values_of(read_records(log, 0)) == [VALUES[0], VALUES[2]]
            assert log.log_end_offset == 3
            (hole,) = log.holes
            assert state.contents()[f"{T}/{hole.name}"] == before[third : 2 * third]
            left = [name for name in state.paths() if name.endswith((".tmp", ".cleaned", ".swap", ".deleted"))]
            assert not left
    assert call > 15


def test_without_room_the_start_stops_and_says_what_to_do() -> None:
    world = damaged()
    before = {
        name: data for name, data in world.fake.contents().items() if name.startswith(T) and ".snapshot" not in name
    }

    def full(operation: object) -> OSError | None:
        is_copy = getattr(operation, "path", "").endswith((".tmp", ".cleaned"))
        return OSError(errno.ENOSPC, "No space left on device") if is_copy and "append" in str(operation) else None

    world.fake.fail_when(full)
    with pytest.raises(DamagedLogError, match=r"no room to put .* make room and start again, or set log.damage.policy"):
        world.start()
    world.fake.fail_when(None)
    after = world.fake.contents()
    assert {name: after.get(name) for name in before} == before, "all but snapshots, which are made anew"
    log = World(world.fake).start().get("t", 0)
    assert log is not None
    assert log.log_end_offset == 3
