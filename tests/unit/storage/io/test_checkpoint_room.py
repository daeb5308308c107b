"""Changes behind the copy of a checkpoint: each durable with one sync, and nothing that was torn is believed."""

from __future__ import annotations

import errno
from collections import Counter

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World, append
from tidelog.storage.io.checkpoint import LOG_START_OFFSET_CHECKPOINT, OffsetCheckpointFile
from tidelog.storage.io.checkpoint_copy import mend_checkpoint, room_of, seal, write_checkpoint
from tidelog.storage.io.checkpoint_room import ROOM_BYTES, SECTOR, CheckpointRoom, changes_in, with_room, without_room
from tidelog.storage.manager.upkeep import CHECKPOINT_AFTER_MS

NAME = LOG_START_OFFSET_CHECKPOINT
PATH, COPY = f"{ROOT}/{NAME}", f"{ROOT}/tidelog-{NAME}"
LONG_NAME = "n" * 249


def written(offsets: dict[tuple[str, int], int]) -> tuple[FakeFileSystem, CheckpointRoom]:
    system = FakeFileSystem()
    system.make_directory(ROOT)
    write_checkpoint(system, ROOT, NAME, offsets, must_copy=True)
    system.sync_all()
    room = room_of(system, ROOT, NAME)
    assert room is not None
    return system, room


def starts(system: FakeFileSystem) -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(system, PATH).read()


@pytest.mark.parametrize("size", [0, 1, SECTOR - 1, SECTOR, SECTOR + 1])
def test_a_room_begins_with_a_sector_and_does_not_touch_the_copy(size: int) -> None:
    sealed = seal(b"x" * size)
    data = with_room(sealed)
    assert without_room(data) == sealed
    assert len(data) % SECTOR == 0
    assert len(data) - len(sealed) > ROOM_BYTES
    assert changes_in(data, "") == {}


def test_what_is_noted_is_durable_with_one_sync_and_found_again() -> None:
    system, room = written({("t", 0): 4})
    system.trace.clear()
    assert room.add({("t", 0): 5, ("orders", 1): 7})
    assert Counter(operation.kind for operation in system.trace) == {"overwrite": 1, "sync": 1}
    assert room.add({("t", 0): 6})
    for name, left in system.power_cut_states(seeds=10):
        assert changes_in(left.read_bytes(COPY), COPY) == {("t", 0): 6, ("orders", 1): 7}, name
        mend_checkpoint(left, ROOT, NAME, is_ours=False)
        assert starts(left) == {("t", 0): 6, ("orders", 1): 7}, name


def test_a_power_cut_while_something_is_noted_takes_nothing_that_was_noted_before() -> None:
    system, room = written({})
    assert room.add({("t", 0): 5})
    later = {(LONG_NAME, number): number for number in range(5)}
    system.fail_at(2, OSError(errno.EIO, "the power goes"))  # the sync
    with pytest.raises(OSError, match="power"):
        room.add(later)
    for name, left in system.power_cut_states(seeds=50):
        found = changes_in(left.read_bytes(COPY), COPY)
        assert found.pop(("t", 0)) == 5, name
        assert found.items() <= later.items(), name


def test_no_flipped_bit_of_a_note_is_believed() -> None:
    system, room = written({("t", 0): 4})
    assert room.add({("t", 0): 5, ("orders", 1): 7})
    data = bytearray(system.read_bytes(COPY))
    begin = data.index(b"\0")
    begin += SECTOR - begin % SECTOR
    for position in range(begin, begin + 40):
        for bit in range(8):
            data[position] ^= 1 << bit
            assert changes_in(bytes(data), COPY) in ({}, {("t", 0): 5, ("orders", 1): 7}), (position, bit)
            data[position] ^= 1 << bit


def test_a_full_room_takes_no_more() -> None:
    system, room = written({})
    for number in range(ROOM_BYTES // SECTOR):
        assert room.add({("t", number): 1})
    system.trace.clear()
    assert not room.add({("t", 0): 2})
    assert system.trace == []
    assert len(changes_in(system.read_bytes(COPY), COPY)) == ROOM_BYTES // SECTOR
    assert room_of(system, ROOT, NAME) is None, "it is no room for a new run either"
    assert not written({})[1].add({(LONG_NAME, number): 1 for number in range(ROOM_BYTES // SECTOR + 1)})


def test_what_kafka_has_written_since_is_believed() -> None:
    system, room = written({("t", 0): 4})
    assert room.add({("t", 0): 9})
    OffsetCheckpointFile(system, PATH).write({("t", 0): 6})
    assert not mend_checkpoint(system, ROOT, NAME, is_ours=False)
    assert starts(system) == {("t", 0): 6}
    assert changes_in(system.read_bytes(COPY), COPY) == {}


def test_an_older_offset_does_not_come_back() -> None:
    system, room = written({("t", 0): 4})
    assert room.add({("t", 0): 9})
    assert room.add({("t", 0): 3})
    assert mend_checkpoint(system, ROOT, NAME, is_ours=False)
    assert starts(system) == {("t", 0): 9}
    assert not mend_checkpoint(system, ROOT, NAME, is_ours=False)


# --- a daemon's storage ---


def world_with(*topics: str) -> World:
    world = World()
    world.start()
    for topic in topics:
        for value in "abcdef":
            append(world.log(topic), value)
        world.log(topic).flush()
    return world


def delete(world: World, offset: int, topic: str = "t") -> list[str]:
    """As DeleteRecords does it; returns what was done to the disk before the answer."""
    world.log(topic).increment_log_start_offset(offset)
    world.fake.trace.clear()
    assert world.manager.note_log_starts([(topic, 0)]) == set()
    return [operation.kind for operation in world.fake.trace]


def test_after_the_first_one_deleted_records_wait_for_one_sync() -> None:
    world = world_with("t", "u")
    assert delete(world, 1).count("sync_directory") == 2
    assert delete(world, 2) == ["overwrite", "sync"]
    assert delete(world, 3, "u") == ["overwrite", "sync"]
    assert world.manager.note_log_starts([("t", 0), ("unknown", 0)]) == set()
    for name, left in world.fake.power_cut_states(seeds=10):
        found = {log.topic: log.log_start_offset for log in World(left, damaged="").start().logs()}
        assert found == {"t": 2, "u": 3}, name


def test_the_checkpoint_follows_once_for_many() -> None:
    world = world_with("t")
    delete(world, 1)
    world.time.advance(CHECKPOINT_AFTER_MS)
    for offset in (2, 3, 4):
        delete(world, offset)
        assert starts(world.fake) == {("t", 0): 1}
    world.fake.trace.clear()
    world.time.advance(CHECKPOINT_AFTER_MS)
    assert starts(world.fake) == {("t", 0): 4}
    assert [operation.kind for operation in world.fake.trace].count("rename") == 2, "file and copy"
    assert delete(world, 5) == ["overwrite", "sync"], "there is room again"


def test_a_clean_stop_leaves_it_in_the_checkpoint() -> None:
    world = world_with("t")
    delete(world, 1)
    delete(world, 2)
    world.stop()
    assert starts(world.fake) == {("t", 0): 2}
    assert changes_in(world.fake.read_bytes(COPY), COPY) == {}
    world.start()
    assert delete(world, 3) == ["overwrite", "sync"], "the room outlives a restart"


def check_the_successor_begins_at_zero(world: World, *, seeds: int) -> None:
    """Records of a topic made anew as `t` are all there after any power cut."""
    for value in "abcdef":
        append(world.log(), value)
    world.log().flush()
    for name, left in world.fake.power_cut_states(seeds=seeds):
        found = {log.topic: log.log_start_offset for log in World(left, damaged="").start().logs()}
        assert found.get("t", 0) == 0, name


def test_the_successor_of_a_deleted_topic_begins_where_it_begins() -> None:
    world = world_with("t", "u")
    delete(world, 1, "u")
    delete(world, 4)
    world.manager.delete("t", 0)
    check_the_successor_begins_at_zero(world, seeds=10)


def test_where_a_note_cannot_be_written_the_checkpoint_is() -> None:
    world = world_with("t")
    delete(world, 1)
    world.fake.fail_when(lambda step: OSError(errno.EIO, "a bad sector") if step.kind == "overwrite" else None)
    assert "rename" in delete(world, 2)
    assert starts(world.fake) == {("t", 0): 2}


def test_the_successor_of_a_topic_whose_start_was_noted_in_part_begins_where_it_begins() -> None:
    """Both the note and the checkpoint fail: nobody knows what is on the disk, and the topic's entry must go from there too."""
    world = world_with("t", "u")
    delete(world, 1, "u")
    failing = {"is": "sync"}  # the note itself gets to the disk, perhaps
    world.fake.fail_when(
        lambda step: (
            OSError(errno.EIO, "a bad sector") if step.kind == failing["is"] and "checkpoint" in step.path else None
        )
    )
    world.log("t").increment_log_start_offset(4)
    assert world.manager.note_log_starts([("t", 0)]) == {("t", 0)}
    failing["is"] = ""
    world.manager.delete("t", 0)
    check_the_successor_begins_at_zero(world, seeds=20)


def test_the_successor_of_a_topic_whose_start_has_no_copy_begins_where_it_begins() -> None:
    """The checkpoint was replaced, the copy was not: what the file says is not what the last success has written."""
    world = world_with("t")
    is_full = [True]
    world.fake.fail_when(
        lambda step: OSError(errno.ENOSPC, "no room") if is_full[0] and f"/tidelog-{NAME}" in step.path else None
    )
    world.log("t").increment_log_start_offset(4)
    assert world.manager.note_log_starts([("t", 0)]) == {("t", 0)}
    assert starts(world.fake) == {("t", 0): 4}
    is_full[0] = False
    world.manager.delete("t", 0)
    check_the_successor_begins_at_zero(world, seeds=20)


def test_nothing_is_noted_behind_a_damaged_copy() -> None:
    """A start believes nothing of it, and the checkpoint beside it is damaged too: nothing has made the copy anew."""
    system, _ = written({("t", 0): 4})
    data = bytearray(system.read_bytes(COPY))
    data[3] ^= 1
    system.write_atomically(COPY, bytes(data))
    assert room_of(system, ROOT, NAME) is None


def test_a_full_room_is_emptied_by_the_checkpoint() -> None:
    world = World()
    world.start()
    for value in range(2 * ROOM_BYTES // SECTOR):
        append(world.log(), str(value))
    kinds = [delete(world, offset) for offset in range(1, 2 * ROOM_BYTES // SECTOR)]
    assert [number for number, done in enumerate(kinds) if "rename" in done] == [0, ROOM_BYTES // SECTOR + 1]


def test_after_the_end_nothing_is_noted() -> None:
    world = world_with("t")
    delete(world, 1)
    world.manager._directories[0].end_checkpoints()
    world.log().increment_log_start_offset(2)
    assert world.manager.note_log_starts([("t", 0)]) == {("t", 0)}
