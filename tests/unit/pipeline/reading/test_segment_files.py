"""A listing that is torn by a swap is never taken for the truth."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tidelog.pipeline.exceptions import DirectoryError
from tidelog.pipeline.reading.segment_files import SegmentLists, floor, list_segments


def make(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).write_bytes(b"x" * 7)


def log(base_offset: int, stage: str = "") -> str:
    return f"{base_offset:020d}.log{stage}"


def test_segments_come_in_order_and_other_files_are_left_alone(tmp_path: Path) -> None:
    make(
        tmp_path,
        log(90),
        log(7),
        log(20),
        log(3, ".deleted"),
        log(7, ".cleaned"),
        f"{7:020d}.index",
        "partition.metadata",
    )
    found = list_segments(tmp_path)
    assert [(one.base_offset, one.size) for one in found] == [(7, 7), (20, 7), (90, 7)]
    assert found[0].path == str(tmp_path / log(7))
    assert [floor(found, offset) for offset in (0, 7, 19, 20, 1000)] == [-1, 0, 0, 1, 2]


def test_a_swap_is_waited_for(tmp_path: Path) -> None:
    """The old segments are gone already, and what replaces them has no `.log` name yet."""
    make(tmp_path, log(0, ".swap"), log(50))
    waits = []

    def sleep(_: float) -> None:
        waits.append(len(list(tmp_path.iterdir())))
        if len(waits) == 3:
            (tmp_path / log(0, ".swap")).rename(tmp_path / log(0))

    assert [one.base_offset for one in list_segments(tmp_path, sleep=sleep)] == [0, 50]
    assert len(waits) == 3


def test_a_swap_goes_on_until_the_aborted_transactions_of_its_segments_are_there(tmp_path: Path) -> None:
    make(tmp_path, log(0), f"{0:020d}.txnindex.swap", f"{0:020d}.index.swap")
    waits = []

    def sleep(_: float) -> None:
        waits.append(0)
        (tmp_path / f"{0:020d}.txnindex.swap").rename(tmp_path / f"{0:020d}.txnindex")

    assert [one.base_offset for one in list_segments(tmp_path, sleep=sleep)] == [0]
    assert len(waits) == 1


def test_one_that_never_ends_is_told(tmp_path: Path) -> None:
    make(tmp_path, log(0, ".swap"))
    now = iter(range(0, 1000, 3))
    with pytest.raises(DirectoryError, match=r"in the middle of a swap.*start the daemon"):
        list_segments(tmp_path, sleep=lambda _: None, clock=lambda: float(next(now)))


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="no such directory"):
        list_segments(tmp_path / "t-0")


def test_a_listing_is_kept_until_its_directory_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept from when a later change must show: one in the same tick of the clock would not."""
    make(tmp_path, log(0), log(10))
    looks: list[object] = []
    real = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or real(path))  # type: ignore[func-returns-value]
    now = tmp_path.stat().st_mtime_ns + 1_000_000
    lists = SegmentLists(now_ns=lambda: now)
    for _ in range(2):
        lists.segments(str(tmp_path))
    assert len(looks) == 4, "changed a moment ago: it is listed each time"
    now += 10_000_000_000
    kept = lists.segments(str(tmp_path))
    assert (lists.segments(str(tmp_path)), len(looks)) == (kept, 6)
    with (tmp_path / log(10)).open("ab") as file:
        file.write(b"more")
    grown = lists.segments(str(tmp_path))
    assert [segment.size for segment in grown] == [kept[0].size, kept[1].size + 4]
    assert len(looks) == 6
    (tmp_path / log(0)).unlink()
    assert [segment.base_offset for segment in lists.segments(str(tmp_path))] == [10]
    shutil.rmtree(tmp_path)
    with pytest.raises(DirectoryError, match="no such directory"):
        lists.segments(str(tmp_path))


def test_a_kept_listing_is_dropped_when_its_last_segment_is_another_file(tmp_path: Path) -> None:
    """On a disk whose directories do not say that they changed."""
    make(tmp_path, log(0), log(10))
    then = tmp_path.stat().st_mtime - 60
    os.utime(tmp_path, (then, then))
    lists = SegmentLists()
    before = lists.segments(str(tmp_path))
    (tmp_path / "new").write_bytes(b"other")
    (tmp_path / "new").replace(tmp_path / log(10))
    os.utime(tmp_path, (then, then))
    after = lists.segments(str(tmp_path))
    assert after[-1].inode != before[-1].inode
    assert after[-1].size == 5
