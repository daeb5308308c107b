from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_disk import KeepNone
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptIndexError, InvalidOffsetError, StorageError
from tidelog.storage.index.time_index import TimeIndex, TimestampOffset
from tidelog.storage.io.filesystem import RealFileSystem

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/i.timeindex"
KAFKAS = [(1795253425829, 96), (1795253425882, 188), (1795253425923, 285), (1795253425957, 382)]


def pairs(index: TimeIndex) -> list[tuple[int, int]]:
    return [(entry.timestamp, entry.offset) for entry in index]


@pytest.fixture
def index() -> TimeIndex:
    index = TimeIndex(FakeFileSystem(), PATH, 100, 1200)
    for timestamp, offset in [(1000, 110), (2000, 120), (3000, 135)]:
        index.maybe_append(timestamp, offset)
    return index


def test_reads_what_kafka_wrote() -> None:
    index = TimeIndex(RealFileSystem(), GOLDEN / "00000000000000000095.timeindex", 95, writable=False)
    index.verify()
    assert pairs(index) == KAFKAS
    assert index.lookup(1795253425900) == TimestampOffset(1795253425882, 188)
    index.close()


def test_writes_the_bytes_that_kafka_wrote() -> None:
    system = FakeFileSystem()
    index = TimeIndex(system, PATH, 95)
    for timestamp, offset in KAFKAS:
        index.maybe_append(timestamp, offset)
    index.close()
    assert system.read_bytes(PATH) == (GOLDEN / "00000000000000000095.timeindex").read_bytes()


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (-1, 100)),
        (999, (-1, 100)),
        (1000, (1000, 110)),
        (1999, (1000, 110)),
        (2000, (2000, 120)),
        (2**62, (3000, 135)),
    ],
)
def test_lookup_is_the_greatest_entry_at_or_below(index: TimeIndex, timestamp: int, expected: tuple[int, int]) -> None:
    found = index.lookup(timestamp)
    assert (found.timestamp, found.offset) == expected


def test_an_entry_that_says_nothing_new_is_left_out(index: TimeIndex) -> None:
    index.maybe_append(3000, 140)
    index.maybe_append(3000, 135)
    assert pairs(index)[-1] == (3000, 135)
    assert index.entries == 3


def test_no_timestamp_makes_no_entry() -> None:
    index = TimeIndex(FakeFileSystem(), PATH, 100, 1200)
    index.maybe_append(-1, 105)
    assert index.entries == 0
    assert index.last_entry == TimestampOffset(-1, 100)


def test_time_zero_is_an_entry() -> None:
    index = TimeIndex(FakeFileSystem(), PATH, 100, 1200)
    index.maybe_append(0, 101)
    assert pairs(index) == [(0, 101)]


@pytest.mark.parametrize(("timestamp", "offset"), [(2999, 140), (4000, 134)])
def test_stepping_back_is_refused(index: TimeIndex, timestamp: int, offset: int) -> None:
    with pytest.raises(InvalidOffsetError, match="steps back"):
        index.maybe_append(timestamp, offset)


def test_the_last_slot_is_for_the_roll() -> None:
    index = TimeIndex(FakeFileSystem(), PATH, 0, 36)
    index.maybe_append(1, 1)
    assert not index.is_full
    index.maybe_append(2, 2)
    assert index.is_full
    with pytest.raises(StorageError, match="full"):
        index.maybe_append(3, 3)
    index.maybe_append(3, 3, skip_full_check=True)
    index.maybe_append(3, 3, skip_full_check=True)  # the roll repeats it
    with pytest.raises(StorageError, match="full"):
        index.maybe_append(4, 4, skip_full_check=True)
    assert pairs(index) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (110, 0), (111, 1), (120, 1), (135, 2), (136, 3)])
def test_truncate_to(index: TimeIndex, offset: int, left: int) -> None:
    index.truncate_to(offset)
    assert pairs(index) == [(1000, 110), (2000, 120), (3000, 135)][:left]
    index.maybe_append(5000, 140)
    assert index.last_entry == TimestampOffset(5000, 140)


def test_reset(index: TimeIndex) -> None:
    index.reset()
    assert index.last_entry.timestamp == -1
    index.maybe_append(9, 103)
    assert pairs(index) == [(9, 103)]


@pytest.mark.parametrize(
    "entries",
    [[(5, -3)], [(9, 1), (5, 2)], [(5, 9), (6, 1)], [(-7, 1)]],
    ids=["before base", "time", "offset", "negative"],
)
def test_sanity_check_finds(entries: list[tuple[int, int]]) -> None:
    system = FakeFileSystem()
    system.put(PATH, b"".join(TimeIndex.ENTRY.pack(*entry) for entry in entries))
    with pytest.raises(CorruptIndexError):
        TimeIndex(system, PATH, 100, writable=False).sanity_check()


@pytest.mark.parametrize("data", [b"", b"x", bytes(12), bytes(36), b"\xff" * 36, b"\x7f" * 24, b"\xff" * 13])
def test_sanity_check_never_fails_otherwise(data: bytes) -> None:
    system = FakeFileSystem()
    system.put(PATH, data)
    index = TimeIndex(system, PATH, 100, 1200)
    try:
        index.sanity_check()
        index.verify()
    except CorruptIndexError:
        pass
    else:
        assert not any(data)
    index.close_map()


def test_the_entry_that_a_disk_did_not_take_at_the_roll_is_added_durably() -> None:
    system = FakeFileSystem()
    system.put(PATH, TimeIndex.ENTRY.pack(1000, 10))
    index = TimeIndex(system, PATH, 100, writable=False)
    assert not index.complete(TimestampOffset(1000, 110))
    assert not system.trace
    assert index.complete(TimestampOffset(2000, 120))
    assert pairs(TimeIndex(system, PATH, 100, writable=False)) == [(1000, 110), (2000, 120)]
    assert system.rebuilt(KeepNone()).contents() == system.contents()
    assert not index.is_mapped


def test_where_the_disk_does_not_take_that_entry_the_error_is_raised_and_the_index_stays_as_it_was() -> None:
    system = FakeFileSystem()
    system.put(PATH, TimeIndex.ENTRY.pack(1000, 10))
    index = TimeIndex(system, PATH, 100, writable=False)
    for number in (28, 5):
        system.fail_at(1, OSError(number, "the disk"))
        with pytest.raises(OSError):
            index.complete(TimestampOffset(2000, 120))
    assert pairs(index) == [(1000, 110)]
    index.close()
