from __future__ import annotations

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
