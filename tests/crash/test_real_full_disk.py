"""The reserve and a start without room on a real file system of 16 MiB; where no tmpfs can be mounted, the fake's tests stand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.logs import World, append, batch, read_records
from tidelog.storage.exceptions import DiskFullError, KafkaStorageError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import AppendOrigin

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", path], check=False, capture_output=True
        ).returncode
    ):
        pytest.skip("no tmpfs can be mounted here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def append_many(log: UnifiedLog, value: bytes) -> None:
    for _ in range(200):
        append(log, value)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for _ in range(300):
            file.write(bytes(64 * 1024))


def test_a_disk_runs_full_and_is_used_again(disk: Path) -> None:
    world = World(RealFileSystem(), directories=[str(disk / "data")], log_dir_reserve_bytes=str(8 * MIB))
    world.start(segment_bytes=MIB)
    world.log()
    world.manager.start()
    world.time.advance(0)
    log = world.log()
    value = os.urandom(100_000)
    with pytest.raises(DiskFullError):
        append_many(log, value)
    taken = log.log_end_offset
    assert taken > 70
    free = os.statvfs(disk)
    assert free.f_bavail * free.f_frsize >= 8 * MIB - 64 * 1024
    # Others take what is left: the disk itself says no now.
    filler = disk / "filler"
    with pytest.raises(OSError, match="No space"):
        fill(filler)
    data = batch(value)
    with pytest.raises(KafkaStorageError):
        log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)
    assert log.failure is None
    assert len(read_records(log, 0)) == taken
    # A start without room, after a stop that found none either.
    world.stop()
    world.start()
    assert len(read_records(world.log(), 0)) == taken
    world.manager.start()
    filler.unlink()
    world.log().increment_log_start_offset(taken - 5)
    world.manager.delete_old_segments()
    world.time.advance(seconds=70)
    assert append(world.log(), value) == taken
    world.stop()
