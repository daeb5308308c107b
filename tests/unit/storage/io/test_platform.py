"""What differs between systems is in one module, and what it does elsewhere is no weaker than on Linux."""

from __future__ import annotations

import ast
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidelog.storage.io import page_cache, platform
from tidelog.storage.io.filesystem import RealFileSystem

ROOT = Path(__file__).resolve().parents[4]
TOPS = ("backup", "broker", "cleaner", "cli", "clients", "config", "pipeline", "protocol", "storage", "testing")
#: Names of Python's modules that Linux has and macOS has not, or not alike.
LINUX_ALONE = {
    "fdatasync", "fsync", "posix_fadvise", "posix_fallocate", "memfd_create", "sendfile", "MSG_MORE", "RUSAGE_THREAD",
    "F_OFD_SETLK", "CLOCK_BOOTTIME", "splice", "copy_file_range", "eventfd", "prlimit", "sched_getaffinity",
    "sched_setaffinity", "sched_getscheduler", "setpriority",
}  # fmt: skip
#: Where else they may stand, and why.
ELSEWHERE = {
    "broker/runtime/threads.py": {"setpriority", "sched_getscheduler"},  # asks for the system first
}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


def test_nobody_else_calls_what_linux_alone_has() -> None:
    found: dict[str, set[str]] = {}
    for path in (path for top in TOPS for path in (ROOT / top).rglob("*.py")):
        names = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and node.attr in LINUX_ALONE
            if isinstance(node.value, ast.Name) and node.value.id in ("os", "socket", "resource", "fcntl", "time")
        }
        if names:
            found[str(path.relative_to(ROOT))] = names
    home = found.pop("storage/io/platform.py")
    assert found == ELSEWHERE
    assert {"fsync", "sendfile", "CLOCK_BOOTTIME"} <= home, "the search finds them"


@pytest.mark.parametrize("refused", [None, errno.ENOTSUP, errno.ENOTTY])
def test_a_sync_reaches_the_disk_or_is_as_strong_as_there_is(
    monkeypatch: pytest.MonkeyPatch, file: int, refused: int | None
) -> None:
    """macOS: F_FULLFSYNC, as fsync stops at the drive's own memory; fsync on file systems that have no such call."""
    calls: list[object] = []

    def full(fd: int, command: int) -> None:
        calls.append(("fcntl", fd, command))
        if refused:
            raise OSError(refused, os.strerror(refused))

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(platform, "_F_FULLFSYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", full)
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append(("fsync", fd)))
    platform.sync_data(file)
    assert calls == [("fcntl", file, 51), *([("fsync", file)] if refused else [])]


def test_a_sync_that_fails_is_not_hidden(monkeypatch: pytest.MonkeyPatch, file: int) -> None:
    def failing(fd: int, command: int) -> None:
        raise OSError(errno.EIO, "no")

    monkeypatch.delattr(os, "fdatasync")
    monkeypatch.setattr(platform, "_F_FULLFSYNC", 51)
    monkeypatch.setattr(fcntl, "fcntl", failing)
    with pytest.raises(OSError, match="no"):
        platform.sync_data(file)


@pytest.mark.parametrize("before", [0, 5, 65_536, 70_000, 200_000])
@pytest.mark.parametrize(("offset", "length"), [(0, 1), (3, 70_000), (65_536, 65_536), (100_000, 100_000)])
def test_blocks_are_there_without_posix_fallocate_and_no_byte_changes(
    monkeypatch: pytest.MonkeyPatch, file: int, before: int, offset: int, length: int
) -> None:
    content = bytes(range(1, 251)) * (before // 250 + 1)
    os.pwrite(file, content[:before], 0)
    monkeypatch.delattr(os, "posix_fallocate")
    platform.allocate(file, offset, length)
    size = max(before, offset + length)
    assert os.pread(file, size + 1, 0) == content[:before].ljust(size, b"\0")


def test_a_directory_is_locked_without_ofd_locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "_F_OFD_SETLK", None)
    files = RealFileSystem()
    held = files.lock(tmp_path / ".lock")
    with pytest.raises(Exception, match="another process has this data directory open"):
        files.lock(tmp_path / ".lock")
    held.release()
    files.lock(tmp_path / ".lock").release()


@pytest.mark.parametrize("memfd", [True, False])
def test_a_secret_is_in_a_file_for_its_user_alone_and_only_meanwhile(
    monkeypatch: pytest.MonkeyPatch, memfd: bool
) -> None:
    if not memfd:
        monkeypatch.delattr(os, "memfd_create")
    with platform.as_file("ключ") as path:
        assert Path(path).read_text(encoding="utf-8") == "ключ"
        if not memfd:
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert not os.path.exists(path)


def test_nothing_is_sent_where_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS sends the rest of the file for a count of 0."""
    monkeypatch.setattr(os, "sendfile", lambda *_: pytest.fail("asked"))
    assert platform.sendfile(1, 2, 0, 0) == 0


def test_the_age_of_the_process_is_known_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    by_proc = platform.process_age_s()

    def nothing(*_: Any, **__: Any) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", nothing)
    without = platform.process_age_s()
    assert 0 <= without <= by_proc + 1


def test_the_page_cache_is_not_asked_by_numbers_of_linux(monkeypatch: pytest.MonkeyPatch, file: int) -> None:
    """Elsewhere the number of cachestat(2) is another call's."""
    monkeypatch.setattr(page_cache, "LINUX", False)
    monkeypatch.setattr(page_cache, "system_calls", lambda: pytest.fail("asked"))
    os.pwrite(file, bytes(10_000), 0)
    assert page_cache.resident(file, 0, 10_000) is None
    assert page_cache.cold_ranges(file, 0, 10_000) == []
    page_cache.start_writeback(file, 0, 0)
    page_cache.reserve_blocks(file, 10_000)


def test_the_limit_of_descriptors_is_raised_as_far_as_macos_lets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls its limit infinite and takes OPEN_MAX."""
    asked: list[tuple[int, int]] = []

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        if limits[0] > 10_240:
            raise ValueError("current limit exceeds maximum limit")

    infinite = 2**63 - 1
    monkeypatch.setattr(platform, "LINUX", False)
    monkeypatch.setattr(platform.resource, "getrlimit", lambda _: (256, infinite))
    monkeypatch.setattr(platform.resource, "setrlimit", set_limit)
    platform.raise_descriptor_limit()
    assert asked == [(infinite, infinite), (10_240, infinite)]
