"""The contract of `FileSystem`, kept by the real one and by the fake one alike; then what only the real one does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import DirectoryLockedError, FileClosedError, StorageError
from tidelog.storage.io import platform
from tidelog.storage.io.filesystem import FileSystem, RealFileSystem


@pytest.fixture(params=["real", "fake"])
def system(request: pytest.FixtureRequest) -> FileSystem:
    return RealFileSystem() if request.param == "real" else FakeFileSystem()


@pytest.fixture
def home(system: FileSystem, tmp_path: Path) -> str:
    directory = str(tmp_path / "data")
    system.make_directory(directory)
    return directory


def test_append_read_truncate(system: FileSystem, home: str) -> None:
    file = system.open(f"{home}/a", create=True)
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"..world.."))[2:7])
    assert file.size() == 11
    assert file.pread(100, 0) == b"hello world"
    assert file.pread(5, 6) == b"world"
    assert file.pread(5, 11) == b""
    target = bytearray(20)
    assert file.pread_into(memoryview(target), 6) == 5
    assert target[:6] == b"world\0"
    file.truncate(5)
    file.append(b"!")
    file.sync()
    file.start_writeback(0, 0)
    assert file.pread(100, 0) == b"hello!"
    file.close()
    again = system.open(f"{home}/a", writable=False)
    assert (again.size(), again.pread(6, 0)) == (6, b"hello!")
    with pytest.raises(OSError):
        again.append(b"x")
    again.close()


def test_bytes_that_are_written_over_themselves_stay_what_they_are(system: FileSystem, home: str) -> None:
    file = system.open(f"{home}/f", create=True)
    file.append(b"0123456789")
    file.rewrite(file.pread(4, 3), 3)
    assert (file.size(), file.pread(99, 0)) == (10, b"0123456789")
    file.append(b"ab")
    assert file.pread(99, 0) == b"0123456789ab"
    file.close()
    reader = system.open(f"{home}/f", writable=False)
    with pytest.raises(OSError):
        reader.rewrite(b"0123", 0)
    reader.close()


def test_open_flags(system: FileSystem, home: str) -> None:
    with pytest.raises(FileNotFoundError):
        system.open(f"{home}/missing")
    system.open(f"{home}/a", exclusive=True).close()
    with pytest.raises(FileExistsError):
        system.open(f"{home}/a", exclusive=True)
    with pytest.raises(OSError):
        system.open(home)


def test_leases_keep_the_file_open_until_the_last_one_is_given_back(system: FileSystem, home: str) -> None:
    file = system.open(f"{home}/a", create=True)
    file.append(b"kept")
    reader = file.retain()
    file.close()
    file.close()  # closing twice gives back one lease
    system.unlink(f"{home}/a")
    assert not reader.closed
    assert reader.pread(4, 0) == b"kept"
    reader.release()
    assert file.closed
    with pytest.raises(FileClosedError):
        file.retain()


def test_write_atomically_replaces_whole_files(system: FileSystem, home: str) -> None:
    system.write_atomically(f"{home}/c", b"a longer first content")
    system.write_atomically(f"{home}/c", b"second")
    assert system.read_bytes(f"{home}/c") == b"second"
    assert system.list_directory(home) == ["c"]


def test_write_atomically_overwrites_a_leftover_temporary_file(system: FileSystem, home: str) -> None:
    system.write_new(f"{home}/c.tmp", b"leftover of a crash, longer than what comes")
    system.write_atomically(f"{home}/c", b"new")
    assert system.read_bytes(f"{home}/c") == b"new"


def test_write_new_refuses_an_existing_file(system: FileSystem, home: str) -> None:
    system.write_new(f"{home}/n", b"1")
    with pytest.raises(FileExistsError):
        system.write_new(f"{home}/n", b"2")
    assert system.read_bytes(f"{home}/n") == b"1"


def test_read_bytes_has_a_limit(system: FileSystem, home: str) -> None:
    system.write_new(f"{home}/big", bytes(100))
    assert len(system.read_bytes(f"{home}/big", limit=100)) == 100
    with pytest.raises(StorageError, match="100 bytes, more than the 99"):
        system.read_bytes(f"{home}/big", limit=99)


def test_directories(system: FileSystem, home: str) -> None:
    system.make_directory(f"{home}/t-0/deep")
    system.make_directory(f"{home}/t-0/deep")
    system.write_new(f"{home}/t-0/b", b"1")
    system.write_new(f"{home}/t-0/deep/a", b"22")
    assert system.list_directory(f"{home}/t-0") == ["b", "deep"]
    assert system.is_directory(f"{home}/t-0")
    assert not system.is_directory(f"{home}/t-0/b")
    system.rename(f"{home}/t-0", f"{home}/t-0-delete")
    system.sync_directory(home)
    assert not system.exists(f"{home}/t-0")
    assert system.stat(f"{home}/t-0-delete/deep/a").size == 2
    system.remove_tree(f"{home}/t-0-delete")
    system.remove_tree(f"{home}/t-0-delete")
    assert system.list_directory(home) == []
    with pytest.raises(FileNotFoundError):
        system.list_directory(f"{home}/nowhere")


def test_a_file_that_stays_keeps_no_other_one_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic's files went no further than the first one that a disk does not let go, with each start again."""
    system, unlink = RealFileSystem(), RealFileSystem.unlink
    for name in ("a", "b", "c", "sub/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    def refused(self: RealFileSystem, path: str, *, missing_ok: bool = False) -> None:
        if path.endswith("/b"):
            raise PermissionError(errno.EPERM, "immutable", path)
        unlink(self, path, missing_ok=missing_ok)

    monkeypatch.setattr(RealFileSystem, "unlink", refused)
    with pytest.raises(PermissionError):
        system.remove_tree(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
    monkeypatch.undo()
    system.remove_tree(tmp_path)
    assert not tmp_path.exists()


def test_rename_and_unlink(system: FileSystem, home: str) -> None:
    system.write_new(f"{home}/a", b"a")
    system.write_new(f"{home}/b", b"b")
    system.rename(f"{home}/a", f"{home}/b")
    assert system.read_bytes(f"{home}/b") == b"a"
    with pytest.raises(FileNotFoundError):
        system.rename(f"{home}/a", f"{home}/c")
    system.unlink(f"{home}/b")
    system.unlink(f"{home}/b", missing_ok=True)
    with pytest.raises(FileNotFoundError):
        system.unlink(f"{home}/b")


def test_modification_time(system: FileSystem, home: str) -> None:
    system.write_new(f"{home}/a", b"a")
    system.set_modified_ms(f"{home}/a", 1_234_567_890_123)
    assert system.stat(f"{home}/a").modified_ms == 1_234_567_890_123
    assert system.stat(f"{home}/a").inode != 0


def test_time_of_the_last_change(tmp_path: Path) -> None:
    """A backup tells by it that another file has got a segment's name."""
    system = RealFileSystem()
    path = f"{tmp_path}/a"
    system.write_new(path, b"a")
    made = system.stat(path).changed_ms
    system.set_modified_ms(path, 1_234_567_890_123)
    began = changed = system.stat(path).changed_ms
    assert began >= made > 1_600_000_000_000
    for number in range(1_000_000):  # the clock of file times ticks some hundred times a second
        system.rename(f"{tmp_path}/{'ab'[number % 2]}", path := f"{tmp_path}/{'ba'[number % 2]}")
        if (changed := system.stat(path).changed_ms) > began:
            break
    assert changed > began


def test_lock_excludes_a_second_one(system: FileSystem, home: str) -> None:
    lock = system.lock(f"{home}/.lock")
    with pytest.raises(DirectoryLockedError, match=r"stop that"):
        system.lock(f"{home}/.lock")
    lock.release()
    lock.release()
    system.lock(f"{home}/.lock").release()


def test_map_grows_shrinks_and_shows_writes(system: FileSystem, home: str) -> None:
    mapped = system.map(f"{home}/m", 64, writable=True)
    assert bytes(mapped.view) == bytes(64)
    mapped.reserve(0, 64)
    mapped.view[60:64] = b"tail"
    mapped.resize(128)
    assert bytes(mapped.view[60:68]) == b"tail\0\0\0\0"
    stale = mapped.view
    mapped.resize(62)
    with pytest.raises(ValueError, match="released"):
        stale[0]
    mapped.sync()
    mapped.resize(0)
    assert len(mapped.view) == 0
    mapped.resize(8)
    assert bytes(mapped.view) == bytes(8)
    mapped.view[0:1] = b"x"
    mapped.close()
    mapped.close()
    assert system.read_bytes(f"{home}/m") == b"x" + bytes(7)


def test_map_read_only(system: FileSystem, home: str) -> None:
    with pytest.raises(FileNotFoundError):
        system.map(f"{home}/m", writable=False)
    system.write_new(f"{home}/m", b"abc")
    mapped = system.map(f"{home}/m", writable=False)
    assert bytes(mapped.view) == b"abc"
    with pytest.raises(TypeError):
        mapped.view[0:1] = b"x"
    mapped.close()
    system.write_new(f"{home}/empty", b"")
    empty = system.map(f"{home}/empty", writable=False)
    assert bytes(empty.view) == b""
    empty.close()


def test_a_renamed_map_follows_its_file(system: FileSystem, home: str) -> None:
    mapped = system.map(f"{home}/m", 16, writable=True)
    system.rename(f"{home}/m", f"{home}/n")
    mapped.renamed(f"{home}/n")
    mapped.resize(8)
    mapped.sync()
    mapped.close()
    assert system.stat(f"{home}/n").size == 8
    assert not system.exists(f"{home}/m")


def test_free_bytes(system: FileSystem, home: str) -> None:
    assert system.free_bytes(home) > 0


# --- the real one ---


class _ShortWrites:
    """os.pwrite that takes at most `step` bytes, and fails after `budget`."""

    def __init__(self, step: int, budget: int) -> None:
        self.step, self.budget, self.real = step, budget, os.pwrite

    def __call__(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        if self.budget <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = self.real(fd, memoryview(data)[: min(self.step, self.budget)], offset)
        self.budget -= count
        return count


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFileSystem().open(tmp_path / "f", create=True)
    monkeypatch.setattr(os, "pwrite", _ShortWrites(step=3, budget=1000))
    file.append(b"0123456789")
    assert (file.size(), file.pread(99, 0)) == (10, b"0123456789")
    file.rewrite(b"2345678", 2)
    assert (file.size(), file.pread(99, 0)) == (10, b"0123456789")
    file.close()


def test_a_failed_append_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFileSystem().open(tmp_path / "f", create=True)
    file.append(b"first")
    monkeypatch.setattr(os, "pwrite", _ShortWrites(step=4, budget=6))
    with pytest.raises(OSError) as caught:
        file.append(b"0123456789")
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 5
    assert os.stat(tmp_path / "f").st_size == 5
    monkeypatch.undo()
    file.append(b" second")
    assert file.pread(99, 0) == b"first second"
    file.close()


def test_an_append_overwrites_what_a_failed_one_could_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_truncate(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    file = RealFileSystem().open(tmp_path / "f", create=True)
    file.append(b"first")
    monkeypatch.setattr(os, "pwrite", _ShortWrites(step=4, budget=6))
    monkeypatch.setattr(os, "ftruncate", no_truncate)
    with pytest.raises(OSError, match="No space"):
        file.append(b"0123456789")
    monkeypatch.undo()
    file.append(b" second")
    assert (tmp_path / "f").read_bytes() == b"first second"
    file.close()


def test_write_atomically_syncs_in_the_right_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-3968, KAFKA-9892: file before rename, directory after it."""
    calls: list[str] = []
    real_sync, real_rename, real_fsync = os.fdatasync, os.replace, os.fsync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (calls.append("sync file"), real_sync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("rename"), real_rename(a, b))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("sync directory"), real_fsync(fd))[1])
    RealFileSystem().write_atomically(tmp_path / "c", b"x")
    assert calls == ["sync file", "rename", "sync directory"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    system = RealFileSystem()
    system.write_atomically(tmp_path / "c", b"x")
    system.read_bytes(tmp_path / "c")
    system.lock(tmp_path / ".lock").release()
    mapped = system.map(tmp_path / "m", 4096, writable=True)
    mapped.resize(8192)
    mapped.reserve(0, 8192)
    mapped.sync()
    assert len(os.listdir("/proc/self/fd")) == before  # maps need none
    mapped.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_reserved_blocks_are_on_disk(tmp_path: Path) -> None:
    mapped = RealFileSystem().map(tmp_path / "m", 1 << 20, writable=True)
    assert os.stat(tmp_path / "m").st_blocks == 0
    mapped.reserve(0, 16384)
    assert os.stat(tmp_path / "m").st_blocks * 512 >= 16384
    mapped.reserve((1 << 20) - 100, 16384)  # never beyond the file
    assert os.stat(tmp_path / "m").st_size == 1 << 20
    mapped.close()


def test_preallocate_keeps_the_size(tmp_path: Path) -> None:
    file = RealFileSystem().open(tmp_path / "f", create=True)
    file.preallocate(1 << 20)
    file.append(b"x")
    assert (os.fstat(file.fileno()).st_size, file.size()) == (1, 1)
    assert os.fstat(file.fileno()).st_blocks * 512 >= 1 << 20
    file.close()


def test_lock_excludes_posix_locks_of_other_processes(tmp_path: Path) -> None:
    """Java's FileLock, and so Apache Kafka, takes POSIX locks."""
    attempt = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+')\n"
        "try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: sys.exit(7)"
    )
    system = RealFileSystem()
    lock = system.lock(tmp_path / ".lock")
    command = [sys.executable, "-c", attempt, str(tmp_path / ".lock")]
    assert subprocess.run(command, check=False).returncode == 7
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0


def test_leases_from_many_threads(tmp_path: Path) -> None:
    file = RealFileSystem().open(tmp_path / "f", create=True)

    def take_and_give() -> None:
        for _ in range(2000):
            file.retain()
            file.release()

    threads = [threading.Thread(target=take_and_give) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not file.closed
    file.close()
    assert file.closed
    with pytest.raises(FileClosedError):
        file.fileno()


def test_pages_that_are_being_read_are_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the kernel they are: who touched one on the loop would wait for the disk."""
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(1 << 20))
    file, other = RealFileSystem().open(path), RealFileSystem().open(path, writable=False)
    if other.is_cached(0, 1 << 20) is None:
        pytest.skip("this system does not tell what is in memory")
    assert file.identity == other.identity
    seen: list[list[bool | None]] = []

    def look(*_range: int) -> None:
        stretches = ((0, 100), (199_999, 2), (200_000, 10), (0, 1 << 20))
        seen.append([other.is_cached(position, length) for position, length in stretches])

    monkeypatch.setattr(platform, "will_read", look)
    file.prefetch(0, 200_000)
    look()
    assert seen == [[False, False, True, False], [True] * 4]
    monkeypatch.setattr(os, "preadv", Mock(side_effect=OSError("rot")))
    with pytest.raises(OSError, match="rot"):
        file.prefetch(0, 200_000)
    look()
    assert seen[-1] == [True] * 4, "nor is a read that fails under way for ever"
    file.close()
    other.close()
