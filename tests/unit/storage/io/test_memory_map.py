"""A map is the file, for writers and readers alike; views keep it from being closed; nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tidelog.storage.io._memory_map import MemoryMap


def mapped(path: Path, size: int, *, writable: bool = True) -> MemoryMap:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.ftruncate(descriptor, size)
        return MemoryMap(descriptor, size, writable)
    finally:
        os.close(descriptor)


def test_what_is_written_is_in_the_file_and_the_other_way_round(tmp_path: Path) -> None:
    one = mapped(tmp_path / "f", 10_000)
    one.expect_random_access()
    with memoryview(one) as view:
        assert (len(view), len(one), view.readonly) == (10_000, 10_000, False)
        view[5_000:5_003] = b"abc"
        assert (tmp_path / "f").read_bytes()[5_000:5_003] == b"abc"
        with (tmp_path / "f").open("r+b") as file:
            file.write(b"xyz")
        assert view[:3] == b"xyz"
    one.close()
    assert one.closed


def test_a_view_keeps_it_open(tmp_path: Path) -> None:
    one = mapped(tmp_path / "f", 100)
    view = memoryview(one)
    part = view[10:20]
    view.release()
    with pytest.raises(BufferError, match="1 views"):
        one.close()
    assert bytes(part) == bytes(10)
    part.release()
    one.close()
    one.close()  # twice is once
    with pytest.raises(ValueError, match="closed"):
        memoryview(one)


def test_a_read_only_map_is_not_written_to(tmp_path: Path) -> None:
    one = mapped(tmp_path / "f", 100, writable=False)
    view = memoryview(one)
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1
    view.release()
    one.close()


def test_what_cannot_be_mapped() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        MemoryMap(-1, 100, False)
    with pytest.raises(ValueError, match="no bytes"):
        MemoryMap(0, 0, False)


def test_no_map_and_no_descriptor_is_left(tmp_path: Path) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    descriptors = len(os.listdir("/proc/self/fd"))
    several = [mapped(tmp_path / str(number), 4096) for number in range(20)]
    assert maps() == 20
    assert len(os.listdir("/proc/self/fd")) == descriptors
    several[0].close()
    assert maps() == 19
    several.clear()
    assert maps() == 0
