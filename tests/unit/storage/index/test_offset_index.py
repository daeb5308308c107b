from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptIndexError, InvalidOffsetError
from tidelog.storage.index.offset_index import OffsetIndex, OffsetPosition
from tidelog.storage.io.filesystem import RealFileSystem

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"
PATH = "/i.index"


@pytest.fixture
def index() -> OffsetIndex:
    index = OffsetIndex(FakeFileSystem(), PATH, 100, 1024)
    for offset, position in [(110, 1000), (120, 2000), (135, 3000)]:
        index.append(offset, position)
    return index


def test_reads_what_kafka_wrote() -> None:
    index = OffsetIndex(RealFileSystem(), GOLDEN / "00000000000000000095.index", 95, writable=False)
    index.verify(log_size=23978)
    assert list(index) == [
        (126, 1872),
        (156, 5388),
        (186, 7140),
        (208, 8873),
        (223, 11379),
        (253, 13432),
        (283, 15987),
        (305, 17167),
        (320, 18397),
        (350, 21312),
        (380, 22970),
    ]
    assert index.lookup(207) == OffsetPosition(186, 7140)
    index.close()


def test_writes_the_bytes_that_kafka_wrote() -> None:
    golden = (GOLDEN / "00000000000000000095.index").read_bytes()
    kafka = OffsetIndex(RealFileSystem(), GOLDEN / "00000000000000000095.index", 95, writable=False)
    system = FakeFileSystem()
    index = OffsetIndex(system, PATH, 95)
    for offset, position in kafka:
        index.append(offset, position)
    index.close()
    kafka.close()
    assert system.read_bytes(PATH) == golden


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (0, (100, 0)),
        (100, (100, 0)),
        (109, (100, 0)),
        (110, (110, 1000)),
        (119, (110, 1000)),
        (134, (120, 2000)),
        (135, (135, 3000)),
        (2**62, (135, 3000)),
    ],
)
def test_lookup_is_the_greatest_entry_at_or_below(index: OffsetIndex, target: int, expected: tuple[int, int]) -> None:
    assert index.lookup(target) == expected


@pytest.mark.parametrize("offset", [135, 134, 100])
def test_offsets_must_rise(index: OffsetIndex, offset: int) -> None:
    with pytest.raises(InvalidOffsetError, match="not above"):
        index.append(offset, 4000)
    assert index.entries == 3


@pytest.mark.parametrize("offset", [100 + 2**31, 2**62])
def test_offsets_must_fit_31_bits(index: OffsetIndex, offset: int) -> None:
    with pytest.raises(InvalidOffsetError, match=r"2\^31"):
        index.append(offset, 4000)
    largest = 100 + 2**31 - 1
    index.append(largest, 2**31 - 1)
    assert index.lookup(largest) == (largest, 2**31 - 1)


def test_an_offset_below_the_base_does_not_fit() -> None:
    index = OffsetIndex(FakeFileSystem(), PATH, 100, 1024)
    with pytest.raises(InvalidOffsetError):
        index.append(99, 1)
    assert index.entries == 0


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (110, 0), (111, 1), (120, 1), (135, 2), (136, 3), (10**6, 3)])
def test_truncate_to(index: OffsetIndex, offset: int, left: int) -> None:
    index.truncate_to(offset)
    assert list(index) == [(110, 1000), (120, 2000), (135, 3000)][:left]
    assert index.last_offset == [100, 110, 120, 135][left]
    index.append(136, 4000)


@pytest.mark.parametrize(
    ("end", "positions"),
    [(1000, []), (1001, [1000]), (2000, [1000]), (2001, [2000, 1000]), (3001, [3000, 2000]), (1 << 30, [3000, 2000])],
)
def test_entries_before_a_position(index: OffsetIndex, end: int, positions: list[int]) -> None:
    assert [entry.position for entry in index.before_position(end, 2)] == positions


def test_truncate_then_append_again(index: OffsetIndex) -> None:
    index.truncate_to(100)
    assert index.lookup(200) == (100, 0)
    index.append(101, 7)
    assert list(index) == [(101, 7)]


def test_the_warm_tail_and_what_lies_before_it_agree() -> None:
    index = OffsetIndex(FakeFileSystem(), PATH, 0, 1 << 16)
    for number in range(1, 5001):
        index.append(number * 3, number)
    for target in [0, 2, 3, 5000, 11_925, 11_926, 11_927, 11_928, 11_931, 14_998, 15_000]:
        assert index.lookup(target) == (target - target % 3, target // 3), target


@pytest.mark.parametrize(
    ("entries", "log_size", "why"),
    [
        ([(110, 1000)], 1000, "behind the log's end"),
        ([(50, 1000)], None, "before the segment"),
        ([(120, 1), (110, 2)], None, "not between"),
        ([(110, 5000), (120, 2)], None, "not between"),
    ],
)
def test_sanity_check_finds(entries: list[tuple[int, int]], log_size: int | None, why: str) -> None:
    system = FakeFileSystem()
    system.put(PATH, b"".join(OffsetIndex.ENTRY.pack(offset - 100, position) for offset, position in entries))
    with pytest.raises(CorruptIndexError, match=why):
        OffsetIndex(system, PATH, 100, writable=False).sanity_check(log_size)


def test_verify_finds_disorder_in_the_middle() -> None:
    system = FakeFileSystem()
    entries = [(1, 10), (5, 20), (4, 30), (9, 40)]
    system.put(PATH, b"".join(OffsetIndex.ENTRY.pack(*entry) for entry in entries))
    index = OffsetIndex(system, PATH, 0, writable=False)
    index.sanity_check(50)
    with pytest.raises(CorruptIndexError, match="entry 2"):
        index.verify(50)


def test_the_documents_example_23_is_sought_from_656() -> None:
    index = OffsetIndex(FakeFileSystem(), PATH, 0, 1024)
    for offset, position in [(6, 0), (14, 459), (22, 656), (26, 838), (31, 1050)]:
        index.append(offset, position)
    assert index.lookup(23).position == 656
    index.close()


def test_the_documents_example_of_the_base_offset_114514() -> None:
    """Entries are relative to the number in the file's name."""
    system = FakeFileSystem()
    path = "/00000000000000114514.index"
    index = OffsetIndex(system, path, 114514, 1024)
    index.append(114514 + 23, 656)
    assert index.lookup(114514 + 24) == OffsetPosition(114537, 656)
    index.close()
    assert system.read_bytes(path) == bytes.fromhex("00000017 00000290")
