from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tidelog.storage.io import page_cache
from tidelog.storage.io.filesystem import RealFile, RealFileSystem

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RealFile]:
    file = RealFileSystem().open(tmp_path / "f", create=True)
    file.append(os.urandom(2 * MIB))
    file.sync()
    yield file
    file.close()


def evict(file: RealFile) -> None:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if page_cache.resident_by_mincore(file.fileno(), 0, 2 * MIB) is not False:
        pytest.skip("this file system does not evict on advice (tmpfs keeps its pages)")


@pytest.mark.parametrize("probe", [page_cache.resident, page_cache.resident_by_mincore])
def test_residency_follows_the_page_cache(file: RealFile, probe: Callable[[int, int, int], bool | None]) -> None:
    assert probe(file.fileno(), 0, 2 * MIB) is True
    evict(file)
    assert probe(file.fileno(), 0, 2 * MIB) is False
    assert probe(file.fileno(), 5000, 100) is False
    file.prefetch(MIB, MIB)
    assert probe(file.fileno(), MIB, MIB) is True
    assert probe(file.fileno(), MIB + 5000, 100) is True


def test_is_cached_asks_no_further_than_the_end(file: RealFile) -> None:
    assert file.is_cached(0, 0) is True
    assert file.is_cached(2 * MIB - 10, MIB) is True
    assert file.is_cached(2 * MIB, MIB) is True


def test_the_last_partial_page_counts(tmp_path: Path) -> None:
    file = RealFileSystem().open(tmp_path / "f", create=True)
    file.append(b"x" * 5000)
    assert page_cache.resident(file.fileno(), 0, 5000) is True
    assert page_cache.resident_by_mincore(file.fileno(), 0, 5000) is True
    file.close()


def test_falls_back_to_mincore_once_where_cachestat_is_refused(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    real = page_cache.system_calls()
    asked = []

    def refuse(*args: object) -> int:
        asked.append(args)
        return -1

    fake = SimpleNamespace(**{**vars(real), "syscall": refuse, "cachestat_works": True})
    monkeypatch.setattr(page_cache, "system_calls", lambda: fake)
    assert page_cache.resident(file.fileno(), 0, MIB) is True
    assert page_cache.resident(file.fileno(), 0, MIB) is True
    assert len(asked) == 1


def test_says_nothing_where_nothing_can_be_asked(monkeypatch: pytest.MonkeyPatch, file: RealFile) -> None:
    real = page_cache.system_calls()
    fake = SimpleNamespace(**{**vars(real), "cachestat_works": False, "mmap": lambda *_: 2**64 - 1})
    monkeypatch.setattr(page_cache, "system_calls", lambda: fake)
    assert page_cache.resident(file.fileno(), 0, MIB) is None


def test_cold_ranges_are_the_pages_that_are_not_there(file: RealFile) -> None:
    assert page_cache.cold_ranges(file.fileno(), 0, 2 * MIB) == []
    evict(file)
    assert page_cache.cold_ranges(file.fileno(), 5000, 100) == [(4096, 4096)]
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    os.pread(file.fileno(), 4096, MIB)
    cold = page_cache.cold_ranges(file.fileno(), 0, 2 * MIB)
    assert cold[0][0] == 0
    assert cold[-1][0] + cold[-1][1] == 2 * MIB
    assert not any(start <= MIB < start + length for start, length in cold)
    assert page_cache.cold_ranges(file.fileno(), MIB, 100) == []


def without_dontcache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an older kernel, or tmpfs."""
    real = os.preadv

    def preadv(fd: int, buffers: list[memoryview], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)


@pytest.mark.parametrize("is_old", [False, True])
def test_reading_aside_leaves_the_page_cache_as_it_was(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, is_old: bool
) -> None:
    if is_old:
        without_dontcache(monkeypatch)
    expected = file.pread(2 * MIB, 0)
    evict(file)
    warm = RealFileSystem().open(file.path, writable=False)
    os.posix_fadvise(warm.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    warm.pread(4096, 300 * 4096)  # somebody else's
    before = page_cache.cold_ranges(file.fileno(), 0, 2 * MIB)
    buffer = bytearray(256 << 10)
    for position in range(0, 2 * MIB, len(buffer)):
        assert file.pread_aside(buffer, position) == len(buffer)
        assert buffer == expected[position : position + len(buffer)]
    assert page_cache.cold_ranges(file.fileno(), 0, 2 * MIB) == before
    assert file.pread_aside(buffer, 2 * MIB - 10) == 10
    assert file.pread_aside(buffer, 2 * MIB) == 0
    warm.close()


def test_reading_aside_drops_nothing_where_the_system_does_not_tell(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_dontcache(monkeypatch)
    monkeypatch.setattr(page_cache, "resident", lambda *_: None)
    advice: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: advice.append(arguments[3]))
    assert file.pread_aside(bytearray(100), 0) == 100
    assert advice == [os.POSIX_FADV_RANDOM]


def test_an_error_of_the_disk_is_no_reason_to_read_again(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def preadv(*arguments: object) -> int:
        asked.append(arguments)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(OSError, match="Input/output"):
        file.pread_aside(bytearray(100), 0)
    assert len(asked) == 1
