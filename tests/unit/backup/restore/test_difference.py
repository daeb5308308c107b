"""What an older cut brings back."""

from __future__ import annotations

from tidelog.backup.formats.entries import Cut, CutHeader, Partition
from tidelog.backup.restore.difference import difference
from tidelog.cli.log.backup.source import difference_lines

OLD_ID, NEW_ID = "a" * 32, "b" * 32


def cut(number: int, *partitions: Partition) -> Cut:
    header = CutHeader(number, 1, "5" * 16, "cluster", 1, number * 1000, "", "")
    return Cut(header, {partition.key: partition for partition in partitions})


OLDER = cut(
    1,
    Partition("orders", 0, OLD_ID, start=10, end=100),
    Partition("orders", 1, OLD_ID, start=0, end=50),
    Partition("gone", 0, OLD_ID, start=0, end=5),
    Partition("anew", 0, OLD_ID, start=0, end=5),
)
NEWEST = cut(
    9,
    Partition("orders", 0, OLD_ID, start=40, end=130),
    Partition("orders", 1, OLD_ID, start=70, end=70),
    Partition("anew", 0, NEW_ID, start=2, end=9),
    Partition("added", 0, OLD_ID, start=0, end=3),
)


def test_what_comes_back_and_what_is_missing() -> None:
    found = difference(OLDER, NEWEST)
    assert found.deleted_topics == ("gone", "anew")
    assert found.deleted == {"orders": 30 + 50}
    assert found.later == {"orders": 30 + 20, "anew": 7, "added": 3}


def test_it_is_told() -> None:
    assert list(difference_lines(OLDER, NEWEST)) == [
        "brings back topics that were deleted since: gone, anew",
        "brings back offsets that were deleted since: orders 80",
        "is without offsets that were written since: added 3, anew 7, orders 50",
    ]
    assert list(difference_lines(NEWEST, NEWEST)) == []
    many = cut(1, *(Partition(f"t{number}", 0, OLD_ID, end=5) for number in range(12)))
    (line,) = difference_lines(many, cut(2))
    assert line.endswith("t9 and 2 more")
