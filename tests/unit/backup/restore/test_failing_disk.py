"""Promise: whichever step of a restore a disk fails at, that is said in a sentence, no daemon starts there, and the same command
goes on to the very same files."""

from __future__ import annotations

import errno
import os
from concurrent.futures import Future

import pytest
from support.backups import BackedUpWorld, RestoredWorld, seen
from support.cleaning import Producer, put
from support.fake_filesystem import FakeFileSystem
from tidelog.backup.cut.vector import Vector
from tidelog.backup.restore import restore as module
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.restore.marker import refuse_unfinished
from tidelog.backup.restore.restore import RestoreError
from tidelog.backup.store.memory import MemoryStore
from tidelog.storage.exceptions import DataDirectoryError

DIRECTORIES = ("/new/a", "/new/b")
DATABASE = b"what metadata.db would have"
FAULTS = {
    errno.ENOSPC: "the disk is full; make room and give the same command again, which goes on where it was",
    errno.EIO: "see to the disk and give the same command again, which goes on where it was",
}


class WithMetadata(BackedUpWorld):
    """Its cuts have a database too."""

    def take(self, changes: int) -> Vector:
        found: Future[bytes | None] = Future()
        found.set_result(DATABASE)
        return super().take(changes)._replace(metadata=found)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> WithMetadata:
    monkeypatch.setattr(module, "THREADS", 1)  # the steps come in one order
    made = WithMetadata(MemoryStore(), 1)
    producer = Producer(7)
    for number in range(6):
        for topic in ("plain", "kept"):
            put(made.log(topic), f"k{number}", "v" * 200, timestamp=made.time.milliseconds())
        producer.send(made.log("kept"), (b"k", b"t"), timestamp=made.time.milliseconds())
    producer.end(made.log("kept"), commit=False, timestamp=made.time.milliseconds())
    made.log("kept").roll()
    made.log("kept").flush()
    put(made.log("kept"), "last", "one", timestamp=made.time.milliseconds())
    return made


def new_machine(world: BackedUpWorld) -> RestoredWorld:
    made = RestoredWorld(world.time, DIRECTORIES, "looked at by this test")
    made.log_config = world.log_config
    return made


def files(file_system: FakeFileSystem) -> dict[str, bytes]:
    """All files; but for the random ids of directories."""
    return {
        path: b"".join(line for line in data.splitlines(True) if not line.startswith((b"#", b"directory.id=")))
        for path, data in file_system.contents().items()
    }


def check(new: RestoredWorld, world: BackedUpWorld, name: str) -> None:
    """A start has what was seen when the cut was taken."""
    refuse_unfinished(new.file_system, DIRECTORIES)
    manager = new.start()
    assert {(log.topic, log.partition): seen(log) for log in manager.logs()} == world.last, name
    new.stop()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_restore_goes_on_after_a_disk_that_fails_at_any_step(world: WithMetadata, fault: int) -> None:
    cut = Catalog(world.store).cut(world.cut())
    whole = new_machine(world)
    whole.restore(world.store, cut)
    expected = files(whole.file_system)
    assert expected[f"{DIRECTORIES[0]}/metadata.db"] == DATABASE
    count = len(whole.file_system.trace)
    assert count > 100
    passed = set()
    for step in range(1, count + 1):
        new = new_machine(world)
        disk = new.file_system
        disk.fail_at(step, OSError(fault, os.strerror(fault), "/new/somewhere"), repeat=fault == errno.ENOSPC)
        name = f"step {step} of {count}: {whole.file_system.trace[step - 1]}"
        try:
            new.restore(world.store, cut)
        except RestoreError as error:
            told = str(error)
            assert FAULTS[errno.EIO] in told or FAULTS[fault] in told, f"{name}: {told}"
            assert told.startswith("/new/"), f"{name}: {told}"
            assert "\n" not in told, f"{name}: {told}"
        else:
            assert fault == errno.EIO or step == count, f"{name}: nothing was said"
            # What a start makes anew: a checkpoint's copy, an index.
            disk.heal()
            check(new, world, name)
            continue
        disk.heal()
        if any(path.endswith("/tidelog-restore") for path in disk.paths()):
            with pytest.raises(DataDirectoryError, match="has not come to its end"):
                refuse_unfinished(disk, DIRECTORIES)
            passed.add("refused")
        assert not disk.open_files, name
        new.restore(world.store, cut)
        assert files(disk) == expected, name
        refuse_unfinished(disk, DIRECTORIES)
    assert passed == {"refused"}
    check(whole, world, "at once")
