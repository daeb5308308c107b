from __future__ import annotations

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.segment.segment_list import SegmentList, floor_index


class Segment:
    """A base offset that counts how often it is looked at."""

    looks = 0

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset

    @property
    def base_offset(self) -> int:
        Segment.looks += 1
        return self._base_offset


def segments(*bases: int) -> tuple[LogSegment, ...]:
    return cast("tuple[LogSegment, ...]", tuple(Segment(base) for base in bases))


def bases(view: Any) -> list[int]:
    return [segment.base_offset for segment in view]


@given(st.sets(st.integers(0, 1000), min_size=1), st.integers(-5, 1100))
def test_floor_agrees_with_a_scan(offsets: set[int], target: int) -> None:
    view = segments(*sorted(offsets))
    expected = max((base for base in offsets if base <= target), default=None)
    index = floor_index(view, target)
    assert (view[index].base_offset if index >= 0 else None) == expected


def test_a_look_up_among_10_000_segments_touches_log_n_of_them() -> None:
    listing = SegmentList(segments(*range(0, 1_000_000, 100)))
    assert len(listing) == 10_000
    for target in (0, 99, 500_050, 999_999):
        Segment.looks = 0
        found = floor_index(listing.view, target)
        looks = Segment.looks
        assert listing.view[found].base_offset == target // 100 * 100
        assert looks <= 14  # 2^14 > 10,000


def test_readers_keep_the_snapshot_that_they_took() -> None:
    listing = SegmentList(segments(0, 10, 20))
    before = listing.view
    listing.append(segments(30)[0])
    listing.remove(before[:2])
    assert bases(before) == [0, 10, 20]
    assert bases(listing) == [20, 30]
    assert listing.active.base_offset == 30


def test_replacing_is_one_step() -> None:
    old = segments(0, 10, 20, 30)
    listing = SegmentList(old)
    listing.replace(old[1:3], segments(12))
    assert bases(listing.view) == [0, 12, 30]
    listing.remove(old)  # two of them are gone already: no error
    assert bases(listing.view) == [12]
