"""Objects in a directory, on a real file system and on one that fails when told to."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from support.mock_time import MockTime
from support.store_conformance import Conformance
from tidelog.backup.store import AlreadyThere, Denied, NotThere, ObjectStore, StoreError, Unavailable, open_store, probe
from tidelog.backup.store.files import FileStore
from tidelog.storage.io.filesystem import RealFileSystem


class NoExclusiveRename(RealFileSystem):
    """A file system that has no rename that refuses, and no hard links."""

    def rename_new(self, source: object, target: object) -> None:  # type: ignore[override]
        raise OSError(errno.EOPNOTSUPP, "not here")


class HardLinks(RealFileSystem):
    """A network file system: hard links alone."""

    def rename_new(self, source: str, target: str) -> None:  # type: ignore[override]
        from tidelog.storage.io import filesystem

        filesystem._link_instead(source, target)


class TestFiles(Conformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return open_store(tmp_path.as_uri())


class TestFilesUnderALock(Conformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FileStore(str(tmp_path), NoExclusiveRename())


class TestFilesByHardLinks(Conformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FileStore(str(tmp_path), HardLinks())


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("/store")
    disk.sync_all()
    return disk


def test_paths_with_spaces_are_percent_encoded(tmp_path: Path) -> None:
    directory = tmp_path / "my backup"
    directory.mkdir()
    open_store(directory.as_uri()).create("a", b"1")
    assert (directory / "a").read_bytes() == b"1"


@pytest.mark.parametrize("url", ["file://nas/dir", "file://", "file:///x?y=1", "file:///x#y"])
def test_an_url_that_is_no_path(url: str) -> None:
    with pytest.raises(StoreError, match="three slashes"):
        open_store(url)


def test_a_directory_that_is_missing_is_not_made(tmp_path: Path) -> None:
    """A share that is not mounted would be written to the disk below it."""
    with pytest.raises(NotThere, match="mount what it is on"):
        open_store((tmp_path / "nas").as_uri())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_goes_away_or_becomes_another_is_told(tmp_path: Path) -> None:
    root = tmp_path / "nas"
    root.mkdir()
    store = open_store(root.as_uri())
    store.create("a/b", b"1")
    root.rename(tmp_path / "unmounted")
    calls: list[Callable[[], object]] = [
        lambda: store.create("c", b""),
        lambda: store.upload("c", 0, []),
        lambda: store.read("a/b"),
        lambda: list(store.list("")),
    ]
    for call in calls:
        with pytest.raises(Unavailable, match="is it mounted"):
            call()
    root.mkdir()
    for call in calls:
        with pytest.raises(Unavailable, match="another directory than at the start"):
            call()
    assert list(root.iterdir()) == []


def test_files_that_are_no_objects_are_not_listed(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    store.create("a", b"")
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / ".hidden").write_bytes(b"")
    assert [stored.key for stored in store.list("")] == ["a"]


def test_a_key_below_an_object(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    store.create("a", b"1")
    with pytest.raises(StoreError):
        store.create("a/b", b"2")
    with pytest.raises(NotThere):
        store.read("a/b")
    store.delete(["a/b"])
    store.create("c/d", b"")
    with pytest.raises(AlreadyThere, match="directory"):
        store.create("c", b"")
    with pytest.raises(NotThere):
        store.read("c")
    store.delete(["c"])
    assert [stored.key for stored in store.list("")] == ["a", "c/d"]


def test_processes_that_create_the_same_key(tmp_path: Path) -> None:
    """By each of the three ways; both processes wait for the same byte before they begin."""
    program = (
        "import sys; sys.path.insert(0, 'tests'); sys.path.insert(0, 'tests/unit/backup/store')\n"
        "import test_file_store as t\n"
        "from tidelog.backup.store.files import FileStore\n"
        "system = [t.RealFileSystem, t.HardLinks, t.NoExclusiveRename][int(sys.argv[2])]()\n"
        "store = FileStore(sys.argv[1], system); won = []\n"
        "sys.stdin.read(1)\n"
        "for n in range(60):\n"
        "    try: store.create(f'{sys.argv[2]}/{n}', sys.argv[3].encode() * 100); won.append(n)\n"
        "    except t.AlreadyThere: pass\n"
        "print(*won)\n"
    )
    for way in range(3):
        runs = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path), str(way), str(writer)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=Path(__file__).parents[4],
            )
            for writer in range(2)
        ]
        for run in runs:
            assert run.stdin is not None
            run.stdin.write(b"x")
            run.stdin.flush()
        won = [set(map(int, run.communicate()[0].split())) for run in runs]
        assert [run.returncode for run in runs] == [0, 0]
        assert won[0] | won[1] == set(range(60))
        assert not won[0] & won[1]
        for writer in range(2):
            for number in won[writer]:
                assert (tmp_path / str(way) / str(number)).read_bytes() == str(writer).encode() * 100
    assert [name for name in os.listdir(tmp_path / ".tmp") if name != "lock"] == []


def test_a_link_whose_answer_was_lost_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of NFS asks again, and is told that the name is there."""
    real = os.link

    def link(source: str, target: str) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists", target)

    monkeypatch.setattr(os, "link", link)
    store = FileStore(str(tmp_path), HardLinks())
    store.create("a", b"1")
    assert store.read("a") == b"1"
    assert os.listdir(tmp_path / ".tmp") == []


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (errno.EACCES, Denied, "right to read and write"),
        (errno.EROFS, Denied, "right to read and write"),
        (errno.ENOSPC, Unavailable, "make room"),
        (errno.EIO, Unavailable, "Input/output error"),
        (errno.ESTALE, Unavailable, "Stale"),
    ],
)
def test_errors_of_the_disk(disk: FakeFileSystem, code: int, kind: type[StoreError], text: str) -> None:
    store = FileStore("/store", disk)
    store.create("first", b"1")
    calls: list[Callable[[], object]] = [
        lambda: store.create("a/b", b"2"),
        lambda: store.upload("a/c", 1, [b"3"]),
        lambda: store.delete(["first"]),
    ]
    for call in calls:
        disk.fail_at(1, OSError(code, os.strerror(code)), repeat=True)
        with pytest.raises(kind, match=text) as caught:
            call()
        assert str(caught.value).startswith(f"{caught.value.operation} file:///store/")
        disk.heal()
    assert store.read("first") == b"1"
    for call in calls:
        call()
    assert [stored.key for stored in store.list("")] == ["a/b", "a/c"]
    assert disk.open_files == set()


def test_a_full_disk_leaves_no_temporary_files(disk: FakeFileSystem) -> None:
    store = FileStore("/store", disk)
    disk.free = 3 << 20
    with pytest.raises(Unavailable, match="make room"):
        store.upload("large", 10 << 20, (bytes(1 << 20) for _ in range(10)))
    with pytest.raises(Unavailable, match="make room"):
        store.create("large", bytes(10 << 20))
    assert disk.paths() == []


def test_what_a_crash_left_is_removed_a_day_later() -> None:
    time = MockTime()
    disk = FakeFileSystem(time=time)
    disk.put("/store/.tmp/old", b"x")
    disk.put("/store/.tmp/lock", b"")
    time.advance(23 * 3_600_000)
    disk.put("/store/.tmp/young", b"x")
    time.advance(2 * 3_600_000)
    FileStore("/store", disk, time).create("a", b"")
    assert disk.paths() == ["/store/.tmp/lock", "/store/.tmp/young", "/store/a"]


def test_media_that_are_only_read(disk: FakeFileSystem) -> None:
    FileStore("/store", disk).create("a/b", b"1")
    disk.fail_at(1, OSError(errno.EROFS, "read-only"), repeat=True)
    store = FileStore("/store", disk)
    assert [stored.key for stored in store.list("")] == ["a/b"]
    assert store.read("a/b") == b"1"


def test_a_lock_that_is_never_released(disk: FakeFileSystem) -> None:
    disk.renames_exclusively = False
    pauses: list[float] = []
    store = FileStore("/store", disk, pause=pauses.append)
    store.create("a", b"")
    disk.lock("/store/.tmp/lock")
    with pytest.raises(Unavailable, match="another process holds the lock"):
        store.create("b", b"")
    assert 5 <= sum(pauses) <= 20
    assert [stored.key for stored in store.list("")] == ["a"]


def test_the_probe_leaves_no_directory(tmp_path: Path) -> None:
    probe(open_store(tmp_path.as_uri()))
    assert [path.name for path in tmp_path.iterdir()] == [".tmp"]


def test_a_deletion_removes_directories_that_it_leaves_empty(disk: FakeFileSystem) -> None:
    store = FileStore("/store", disk)
    for key in ("a/b/c", "a/b/d", "a/e"):
        store.create(key, b"1")
    store.delete(["a/b/c"])
    assert disk.exists("/store/a/b")
    store.delete(["a/b/d"])
    assert not disk.exists("/store/a/b")
    assert [stored.key for stored in store.list("")] == ["a/e"]
    store.delete(["a/e"])
    assert disk.list_directory("/store") == [".tmp"]


@pytest.mark.parametrize("operation", ["create", "upload"])
def test_a_directory_that_another_process_removed_as_empty_is_made_again(disk: FakeFileSystem, operation: str) -> None:
    """The first process remembers that the directory is there and durable."""
    store, other = FileStore("/store", disk), FileStore("/store", disk)
    store.create("a/b/c", b"1")
    other.delete(["a/b/c"])
    assert not disk.exists("/store/a")
    if operation == "create":
        store.create("a/b/d", b"2")
    else:
        store.upload("a/b/d", 1, [b"2"])
    for _, state in disk.power_cut_states(5):
        assert FileStore("/store", state).read("a/b/d") == b"2"


def test_a_directory_that_is_removed_while_an_object_is_made(disk: FakeFileSystem) -> None:
    store, other = FileStore("/store", disk), FileStore("/store", disk)
    store.create("a/x", b"1")

    def blocks() -> Iterator[bytes]:
        yield b"2"
        other.delete(["a/x"])
        assert not disk.exists("/store/a")

    store.upload("a/y", 1, blocks())
    assert store.read("a/y") == b"2"
