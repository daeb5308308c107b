"""What both indexes share, tried on the offset index: room, zero tail, reopening, full disk, other threads."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem, Operation
from tidelog.storage.exceptions import CorruptIndexError, StorageError
from tidelog.storage.index.offset_index import OffsetIndex, OffsetPosition
from tidelog.storage.index.time_index import TimeIndex
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.io.page_cache import resident_by_mincore

PATH = "/log/00000000000000000100.index"


@pytest.fixture
def system() -> FakeFileSystem:
    system = FakeFileSystem()
    system.make_directory("/log")
    return system


def filled(system: FakeFileSystem, count: int, max_index_size: int = 1024) -> OffsetIndex:
    index = OffsetIndex(system, PATH, 100, max_index_size)
    for number in range(count):
        index.append(101 + number * 10, (number + 1) * 4000)
    return index


def test_sizes_are_rounded_down_to_whole_entries(system: FakeFileSystem) -> None:
    index = OffsetIndex(system, PATH, 100, 67).open()
    assert system.stat(PATH).size == 64
    assert (index.max_entries, index.entries, index.is_full) == (8, 0, False)
    with pytest.raises(ValueError, match="no room for one entry"):
        OffsetIndex(system, PATH, 100, 7)
    index.close()


def test_nothing_is_opened_before_it_is_needed(system: FakeFileSystem) -> None:
    index = OffsetIndex(system, PATH, 100)
    assert not index.is_mapped
    assert not system.exists(PATH)
    assert index.lookup(500) == OffsetPosition(100, 0)
    assert index.is_mapped
    index.close()


def test_a_full_index_refuses_and_says_so_before(system: FakeFileSystem) -> None:
    index = filled(system, 8, 67)
    assert index.is_full
    with pytest.raises(StorageError, match="full with 8 entries"):
        index.append(10_000, 1)
    assert index.entries == 8
    index.close()


def test_close_trims_and_reopening_finds_the_same(system: FakeFileSystem) -> None:
    index = filled(system, 5)
    index.close()
    assert not index.is_mapped
    assert not system.maps
    assert system.stat(PATH).size == 40
    again = OffsetIndex(system, PATH, 100, writable=False)
    assert list(again) == [OffsetPosition(101 + n * 10, (n + 1) * 4000) for n in range(5)]
    assert again.last_offset == 141
    again.close()


def test_an_empty_index_is_trimmed_to_nothing_and_sane(system: FakeFileSystem) -> None:
    index = OffsetIndex(system, PATH, 100, 1024).open()
    index.seal()
    assert system.stat(PATH).size == 0
    index.sanity_check(0)
    assert (index.entries, index.lookup(200), list(index)) == (0, OffsetPosition(100, 0), [])
    index.close()


def test_sealed_indexes_are_read_only_and_lazy(system: FakeFileSystem) -> None:
    index = filled(system, 3)
    index.seal()
    assert not system.maps
    assert system.stat(PATH).size == 24
    assert index.lookup(115) == OffsetPosition(111, 8000)
    assert len(system.maps) == 1
    with pytest.raises(StorageError, match="full"):
        index.append(1000, 5)
    with pytest.raises(TypeError):
        next(iter(system.maps)).view[0] = 1
    index.close_map()
    assert not system.maps
    assert index.entries == 3  # remembered
    assert not system.maps


def test_unseal_gives_the_room_back(system: FakeFileSystem) -> None:
    index = filled(system, 3)
    index.seal()
    index.unseal()
    assert system.stat(PATH).size == 1024
    index.append(500, 20_000)
    assert index.entries == 4
    index.close()


def test_the_zeros_that_a_crash_leaves_are_no_entries(system: FakeFileSystem) -> None:
    index = filled(system, 5)
    after = system.kill()
    index.close_map()
    assert after.stat(PATH).size == 1024
    for writable in (True, False):
        again = OffsetIndex(after, PATH, 100, 1024, writable=writable)
        assert again.entries == 5
        assert again.last_offset == 141
        assert again.lookup(10_000) == OffsetPosition(141, 20_000)
        again.sanity_check(30_000)
        again.close_map()


@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_the_border_to_the_zeros_is_found(system: FakeFileSystem, count: int) -> None:
    filled(system, count, 64).close_map()
    again = OffsetIndex(system, PATH, 100, 64)
    assert again.entries == count
    again.close_map()


def test_opening_a_preallocated_index_touches_little_of_it(tmp_path: Path) -> None:
    """2,560 pages of zeros would otherwise cost a broker of many partitions its memory."""
    index = OffsetIndex(RealFileSystem(), tmp_path / "x.index", 0)
    for number in range(1, 3001):  # 24,000 bytes: 6 pages
        index.append(number, number)
    index.flush()
    index.close_map()
    with (tmp_path / "x.index").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        again = OffsetIndex(RealFileSystem(), tmp_path / "x.index", 0)
        assert again.entries == 3000
        pages = range(0, 10 * 1024 * 1024, 4096)
        touched = sum(resident_by_mincore(file.fileno(), page, 4096) is True for page in pages)
    assert touched < 20  # what is used and the last page, no read-ahead
    again.close()


def test_reset_empties_whatever_was_there(system: FakeFileSystem) -> None:
    system.put(PATH, b"\xff" * 61)
    index = OffsetIndex(system, PATH, 100, 1024)
    with pytest.raises(CorruptIndexError, match="61 bytes"):
        index.sanity_check()
    index.reset()
    assert (index.entries, system.stat(PATH).size) == (0, 1024)
    assert system.read_bytes(PATH) == bytes(1024)
    index.append(100, 5)
    assert index.lookup(100) == OffsetPosition(100, 5)
    index.close()


def test_a_full_disk_is_an_error_and_not_a_signal(system: FakeFileSystem) -> None:
    index = filled(system, 3)

    def full(operation: Operation) -> OSError | None:
        return OSError(errno.ENOSPC, "No space left") if operation.kind == "reserve" else None

    system.fail_when(full)
    index.append(500, 20_000)  # its blocks were taken with the first entry
    index.close_map()
    index = OffsetIndex(system, PATH, 100, 1024)
    with pytest.raises(OSError, match="No space"):
        index.append(600, 24_000)
    assert index.entries == 4
    system.heal()
    index.append(600, 24_000)
    assert index.lookup(9999) == OffsetPosition(600, 24_000)
    index.close()


def test_blocks_are_taken_in_steps(system: FakeFileSystem) -> None:
    index = OffsetIndex(system, PATH, 100, 1 << 20)
    for number in range(5000):  # 40,000 bytes
        index.append(101 + number, number + 1)
    assert [operation.detail for operation in system.trace if operation.kind == "reserve"] == [16384] * 3
    index.close()


def test_truncate_zeroes_what_it_removes(system: FakeFileSystem) -> None:
    """Else a crash before the next entry would bring it back to life."""
    index = filled(system, 5)
    index.truncate_to(121)
    after = system.kill()
    index.close()
    again = OffsetIndex(after, PATH, 100, 1024)
    assert list(again) == [(101, 4000), (111, 8000)]
    again.close()


def test_rename(system: FakeFileSystem) -> None:
    index = filled(system, 2)
    system.rename(PATH, PATH + ".deleted")
    index.moved_to(PATH + ".deleted")
    index.trim_to_valid_size()
    assert system.stat(PATH + ".deleted").size == 16
    index.flush()
    index.close()
    assert not system.maps


def test_flush_makes_entries_durable(system: FakeFileSystem) -> None:
    index = filled(system, 2)
    system.sync_directory("/log")
    system.sync_directory("/")
    index.flush()
    _, lost = next(system.power_cut_states())
    again = OffsetIndex(lost, PATH, 100, 1024)
    assert again.entries == 2
    again.close_map()
    index.close_map()


@pytest.mark.parametrize("data", [b"", b"x", b"\xff" * 8, b"\xff" * 80, bytes(7), bytes(80), b"\x7f" * 24])
def test_sanity_check_never_fails_otherwise(system: FakeFileSystem, data: bytes) -> None:
    system.put(PATH, data)
    index = OffsetIndex(system, PATH, 100, 1024)
    try:
        index.sanity_check(50)
        index.verify(50)
    except CorruptIndexError:
        pass
    else:
        assert not any(data)
    index.close_map()


def test_sanity_check_of_a_missing_file(system: FakeFileSystem) -> None:
    with pytest.raises(CorruptIndexError, match="missing"):
        OffsetIndex(system, PATH, 100, writable=False).sanity_check()


def test_lookups_survive_a_map_that_is_closed_and_resized_under_them(tmp_path: Path) -> None:
    """Real maps: what must not happen is a SIGBUS, which no test can report."""
    index = OffsetIndex(RealFileSystem(), tmp_path / "x.index", 0, 1 << 16)
    for number in range(1, 4001):
        index.append(number * 10, number)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        target = 0
        while not stop.is_set():
            target = (target + 7919) % 40_000
            found = index.lookup(target)
            if found != (target - target % 10, target // 10):
                wrong.append((target, found))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        index.resize(1 << 17)
        index.trim_to_valid_size()
        index.close_map()
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    index.close()


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_nobody_is_told_of_entries_before_the_last_one_is_loaded(
    system: FakeFileSystem, monkeypatch: pytest.MonkeyPatch, kind: type[OffsetIndex | TimeIndex]
) -> None:
    """Whoever finds the count without the lock asks for the last entry, which was not there: AttributeError, in retention."""
    index = kind(system, PATH, 100, 1024)
    index.maybe_append(5, 110) if isinstance(index, TimeIndex) else index.append(110, 5)
    index.close()
    index = kind(system, PATH, 100, writable=False)
    load_last, seen = kind._load_last, []

    def loaded(self: OffsetIndex | TimeIndex, *arguments: object) -> None:
        seen.append(repr(self))
        load_last(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "_load_last", loaded)
    assert index.entries == 1
    assert [told.endswith("entries=?)") for told in seen] == [True]
