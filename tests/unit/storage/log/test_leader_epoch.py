from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptCheckpointError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.leader_epoch import EpochEndOffset, EpochEntry, LeaderEpochCache

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/leader-epoch-checkpoint"


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(FakeFileSystem(), PATH, [EpochEntry(*entry) for entry in entries])


def test_reads_and_writes_kafkas_file() -> None:
    golden = LeaderEpochCache.load(RealFileSystem(), GOLDEN / "leader-epoch-checkpoint")
    assert golden.entries == ((0, 0),)
    assert not golden.is_dirty
    system = FakeFileSystem()
    copy = LeaderEpochCache(system, PATH, golden.entries)
    assert copy.flush()
    assert not copy.flush()
    assert system.read_bytes(PATH) == (GOLDEN / "leader-epoch-checkpoint").read_bytes()


def test_assign() -> None:
    epochs = cache()
    assert epochs.latest_epoch is None
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 50)  # goes on
    assert epochs.assign(4, 50)
    assert epochs.entries == ((2, 10), (4, 50))
    assert epochs.latest_epoch == 4


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        (6, 100, [(2, 10), (4, 50), (6, 100)]),
        (6, 50, [(2, 10), (6, 50)]),
        (6, 20, [(2, 10), (6, 20)]),
        (6, 0, [(6, 0)]),
        (4, 40, [(2, 10), (4, 40)]),
        (3, 100, [(2, 10), (3, 100)]),
        (2, 5, [(2, 5)]),
        (1, 100, [(1, 100)]),
    ],
)
def test_assigning_removes_what_contradicts(epoch: int, offset: int, expected: list[tuple[int, int]]) -> None:
    epochs = cache((2, 10), (4, 50))
    assert epochs.assign(epoch, offset)
    assert list(epochs.entries) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(0, 3), (2, 9)], [(0, 3), (2, 9), (4, 50)]),
        ([(2, 0)], [(2, 0), (4, 50)]),
        ([(0, 3), (2, 10)], [(0, 3), (2, 10), (4, 50)]),
        ([(0, 3), (3, 9)], [(0, 3), (2, 10), (4, 50)]),  # of damage: epochs never fall
        ([(0, 20)], [(2, 10), (4, 50)]),
        ([], [(2, 10), (4, 50)]),
    ],
)
def test_epochs_of_records_that_came_back_stand_in_front(
    found: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    epochs = cache((2, 10), (4, 50))
    assert epochs.precede([EpochEntry(*entry) for entry in found]) == (expected != [(2, 10), (4, 50)])
    assert list(epochs.entries) == expected


def test_negative_epochs_and_offsets_are_errors() -> None:
    with pytest.raises(ValueError, match="negative"):
        cache().assign(-1, 0)
    with pytest.raises(ValueError, match="negative"):
        cache().assign(0, -1)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (1, (1, 10)), (2, (2, 50)), (3, (2, 50)), (4, (4, 80)), (5, (4, 80)), (6, (6, 99)), (7, (-1, -1))],
)
def test_end_offset_for(epoch: int, expected: tuple[int, int]) -> None:
    epochs = cache((2, 10), (4, 50), (6, 80))
    assert epochs.end_offset_for(epoch, 99) == EpochEndOffset(*expected)
    assert cache().end_offset_for(epoch, 99) == EpochEndOffset(-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(0, None), (9, None), (10, 2), (49, 2), (50, 4), (10**9, 4)])
def test_epoch_for_offset(offset: int, epoch: int | None) -> None:
    assert cache((2, 10), (4, 50)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(100, [(2, 10), (4, 50)]), (51, [(2, 10), (4, 50)]), (50, [(2, 10)]), (11, [(2, 10)]), (10, []), (0, [])],
)
def test_truncate_from_end(offset: int, expected: list[tuple[int, int]]) -> None:
    epochs = cache((2, 10), (4, 50))
    assert epochs.truncate_from_end(offset) is (len(expected) < 2)
    assert list(epochs.entries) == expected


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (5, [(2, 10), (4, 50)]),
        (10, [(2, 10), (4, 50)]),
        (20, [(2, 20), (4, 50)]),
        (50, [(4, 50)]),
        (70, [(4, 70)]),
    ],
)
def test_truncate_from_start(offset: int, expected: list[tuple[int, int]]) -> None:
    epochs = cache((2, 10), (4, 50))
    assert epochs.truncate_from_start(offset) is (expected != [(2, 10), (4, 50)])
    assert list(epochs.entries) == expected


def test_flush_writes_what_changed_and_load_reads_it() -> None:
    system = FakeFileSystem()
    epochs = LeaderEpochCache.load(system, PATH)
    assert not epochs.flush()  # nothing to say, no file needed
    epochs.assign(0, 0)
    epochs.assign(3, 100)
    assert epochs.is_dirty
    assert epochs.flush()
    assert not epochs.is_dirty
    again = LeaderEpochCache.load(system, PATH)
    assert again.entries == ((0, 0), (3, 100))
    assert not again.flush()
    again.clear()
    assert again.flush()
    assert LeaderEpochCache.load(system, PATH).entries == ()


def test_every_prefix_is_refused_or_empty() -> None:
    system = FakeFileSystem()
    LeaderEpochCache(system, PATH, [EpochEntry(0, 0), EpochEntry(12, 3456)]).flush()
    whole = system.read_bytes(PATH)
    system.put(PATH, b"")
    assert LeaderEpochCache.load(system, PATH).entries == ()
    for length in range(1, len(whole)):
        system.put(PATH, whole[:length])
        with pytest.raises(CorruptCheckpointError):
            LeaderEpochCache.load(system, PATH)


@pytest.mark.parametrize("line", ["1 2 3", "1", "x 1", "1 -1", "2147483648 1", "0 5"])
def test_nonsense_is_refused(line: str) -> None:
    system = FakeFileSystem()
    system.put(PATH, f"0\n2\n0 1\n{line}\n".encode())
    with pytest.raises(CorruptCheckpointError):
        LeaderEpochCache.load(system, PATH)
