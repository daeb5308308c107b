"""No digit that has changed in a checkpoint is believed, and what Apache Kafka has written is."""

from __future__ import annotations

import logging

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World, append
from support.mock_time import MockTime
from tidelog.storage.io.checkpoint import CleanShutdownFile, OffsetCheckpointFile
from tidelog.storage.io.checkpoint_copy import COPIED_CHECKPOINTS, mend_checkpoint, seal, unsealed, write_checkpoint
from tidelog.storage.io.checkpoint_room import without_room

OFFSETS = {("orders", 0): 42, ("t", 1): 7}
KAFKAS_MARK = b'{"version":0,"brokerEpoch":-1}'


def written(name: str) -> FakeFileSystem:
    system = FakeFileSystem(time=MockTime())
    system.make_directory(ROOT)
    write_checkpoint(system, ROOT, name, {("t", 1): 6})
    write_checkpoint(system, ROOT, name, OFFSETS)
    return system


def offsets(system: FakeFileSystem, name: str) -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(system, f"{ROOT}/{name}").read()


@pytest.mark.parametrize("is_ours", [True, False])
@pytest.mark.parametrize("name", COPIED_CHECKPOINTS)
def test_no_flipped_bit_of_a_checkpoint_or_its_copy_is_believed(name: str, is_ours: bool) -> None:
    for path in (f"{ROOT}/{name}", f"{ROOT}/tidelog-{name}"):
        good = written(name).contents()[path]
        # And the first bytes of the room behind it: test_checkpoint_room.py has the rest.
        for position in range(min(len(good), len(without_room(good)) + 8)):
            for bit in range(8):
                system = written(name)
                system.corrupt(path, position, bytes([good[position] ^ 1 << bit]))
                mend_checkpoint(system, ROOT, name, is_ours=is_ours)
                assert offsets(system, name) == OFFSETS, (path, position, bit)


def test_what_another_has_written_is_believed_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    for name in COPIED_CHECKPOINTS:
        system = written(name)
        for content in (b"0\n2\nt 1 7\norders 0 42\n", b"0\n2\norders 0 43\nt 1 7\n", b"0\n0\n", b""):
            system.put(f"{ROOT}/{name}", content)
            before = offsets(system, name)
            assert not mend_checkpoint(system, ROOT, name, is_ours=False)
            assert offsets(system, name) == before
    assert not caplog.records


def test_what_another_has_written_stays_believed() -> None:
    """A checkpoint that need not change is not written: the copy must agree before the next mark says that all was ours."""
    for name in COPIED_CHECKPOINTS:
        system = written(name)
        system.put(f"{ROOT}/{name}", b"0\n2\norders 0 43\nt 1 7\n")
        assert not mend_checkpoint(system, ROOT, name, is_ours=False)
        assert not mend_checkpoint(system, ROOT, name, is_ours=True)
        assert offsets(system, name) == {("orders", 0): 43, ("t", 1): 7}


def test_a_checkpoint_of_a_program_without_copies_gets_one_at_the_first_start() -> None:
    for name in COPIED_CHECKPOINTS:
        for copy in (None, b"", b"tidelog 1 00000000\n0\n0\n"):
            system = written(name)
            if copy is None:
                system.unlink(f"{ROOT}/tidelog-{name}")
            else:
                system.put(f"{ROOT}/tidelog-{name}", copy)
            mend_checkpoint(system, ROOT, name, is_ours=True)
            system.corrupt(f"{ROOT}/{name}", 2, b"3")
            assert mend_checkpoint(system, ROOT, name, is_ours=True)
            assert offsets(system, name) == OFFSETS


def test_where_there_is_no_room_for_a_copy_a_start_goes_on_and_leaves_none_that_contradicts() -> None:
    name = COPIED_CHECKPOINTS[0]
    system = written(name)
    system.put(f"{ROOT}/{name}", b"0\n1\nt 1 9\n")
    system.free = 0
    assert not mend_checkpoint(system, ROOT, name, is_ours=False)
    assert offsets(system, name) == {("t", 1): 9}
    assert not mend_checkpoint(system, ROOT, name, is_ours=True)
    assert offsets(system, name) == {("t", 1): 9}


def test_after_a_stop_of_ours_nobody_else_can_have_written() -> None:
    for name in COPIED_CHECKPOINTS:
        system = written(name)
        system.put(f"{ROOT}/{name}", b"0\n2\norders 0 43\nt 1 7\n")
        assert mend_checkpoint(system, ROOT, name, is_ours=True)
        assert offsets(system, name) == OFFSETS
        # In another order it says the same.
        system.put(f"{ROOT}/{name}", b"0\n2\nt 1 7\norders 0 42\n")
        assert not mend_checkpoint(system, ROOT, name, is_ours=True)


def test_a_crash_between_a_checkpoint_and_its_copy_loses_neither() -> None:
    for name in COPIED_CHECKPOINTS:
        system = FakeFileSystem()  # each write takes its time
        system.make_directory(ROOT)
        write_checkpoint(system, ROOT, name, {("t", 1): 6})
        OffsetCheckpointFile(system, f"{ROOT}/{name}").write(OFFSETS)
        assert not mend_checkpoint(system, ROOT, name, is_ours=False)
        assert offsets(system, name) == OFFSETS


def test_a_copy_that_cannot_be_written_does_not_stay_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    name = COPIED_CHECKPOINTS[0]
    system = written(name)
    write = system.write_atomically

    def refusing(path: str, data: bytes) -> None:
        if "tidelog-" in path:
            raise OSError(28, "No space left on device", path)
        write(path, data)

    monkeypatch.setattr(system, "write_atomically", refusing)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(system, ROOT, name, {("t", 1): 9})
    monkeypatch.undo()
    assert not mend_checkpoint(system, ROOT, name, is_ours=True)
    assert offsets(system, name) == {("t", 1): 9}


def test_a_removed_checkpoint_is_somebodys_wish_but_for_where_logs_start() -> None:
    for name in COPIED_CHECKPOINTS:
        system = written(name)
        system.unlink(f"{ROOT}/{name}")
        mend_checkpoint(system, ROOT, name, is_ours=True)
        assert offsets(system, name) == (OFFSETS if name.startswith("log-start") else {})


def test_sealed_bytes_are_what_was_sealed() -> None:
    data = seal(b"0\n0\n")
    assert unsealed(data) == b"0\n0\n"
    assert [unsealed(data[:end]) for end in range(len(data))] == [None] * len(data)


@pytest.mark.parametrize("how", ["flipped", "written over", "by Kafka"])
def test_a_start_believes_no_wrong_digit_of_where_a_log_starts(how: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.start()
    log = world.log()
    for value in "abcdef":
        append(log, value)
    log.increment_log_start_offset(4)
    world.stop()
    path = f"{ROOT}/log-start-offset-checkpoint"
    if how == "flipped":
        position = world.fake.contents()[path].index(b"t 0 4") + 4
        world.fake.corrupt(path, position, b"5")
    else:
        world.fake.put(path, b"0\n1\nt 0 5\n")
    if how == "by Kafka":
        world.fake.put(f"{ROOT}/.kafka_cleanshutdown", KAFKAS_MARK)
    again = World(world.fake.kill())
    with caplog.at_level(logging.WARNING):
        found = again.start().get("t", 0)
    assert found is not None
    assert found.log_start_offset == (5 if how == "by Kafka" else 4)
    assert [record.message for record in caplog.records if "made anew from its copy" in record.message] == [
        record.message for record in caplog.records
    ]
    assert bool(caplog.records) == (how != "by Kafka")


def test_records_that_kafka_deleted_stay_deleted_however_often_we_start() -> None:
    """The second start of ours follows on a clean stop of ours, which had nothing to write."""
    world = World()
    world.start()
    for value in "abcdef":
        append(world.log(), value)
    world.log().increment_log_start_offset(4)
    world.stop()
    world.fake.put(f"{ROOT}/log-start-offset-checkpoint", b"0\n1\nt 0 5\n")
    world.fake.put(f"{ROOT}/.kafka_cleanshutdown", KAFKAS_MARK)
    for _ in range(3):
        assert world.start().logs()[0].log_start_offset == 5
        world.stop()


def test_the_mark_of_a_stop_says_whose_it_was() -> None:
    system = FakeFileSystem()
    mark = CleanShutdownFile(system, "")
    assert not mark.is_ours()
    for content in (b"", KAFKAS_MARK, b'{"version":0,"brokerEpoch":12}', b"\xff"):
        system.put("/.kafka_cleanshutdown", content)
        assert not mark.is_ours()
    mark.write_ours()
    assert mark.is_ours()
    assert mark.read() is None
