from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.cleaner.cleaned_writer import SegmentSizes, group_segments

FAR = 2**31 + 5


def groups(*segments: SegmentSizes, end: int, max_bytes: int = 1000, max_index_bytes: int = 100) -> list[list[int]]:
    found = group_segments(segments, end, max_bytes=max_bytes, max_index_bytes=max_index_bytes)
    return [list(group) for group in found]


def segment(base: int, size: int = 100, index: int = 8, time_index: int = 12) -> SegmentSizes:
    return SegmentSizes(base, size, index, time_index)


def test_neighbours_join_up_to_segment_bytes() -> None:
    assert groups(segment(0, 400), segment(10, 600), segment(20, 1), end=30) == [[0, 1], [2]]
    assert groups(end=0) == []


@pytest.mark.parametrize("sizes", [(60, 12), (8, 60)])
def test_either_index_bounds_a_group(sizes: tuple[int, int]) -> None:
    assert groups(segment(0, 1, *sizes), segment(10, 1, *sizes), end=20) == [[0], [1]]


def test_a_segment_that_is_too_large_by_itself_is_a_group() -> None:
    assert groups(segment(0, 5000), segment(10), end=20) == [[0], [1]]


def test_offsets_2_31_apart_never_share_a_segment() -> None:
    assert groups(segment(0), segment(FAR), end=FAR + 1) == [[0], [1]]
    assert groups(segment(0), segment(5), end=2**31) == [[0, 1]]
    assert groups(segment(0), segment(5), end=2**31 + 1) == [[0], [1]]


def test_an_empty_segment_joins_whatever_its_distance() -> None:
    assert groups(segment(0), segment(5, 0), segment(FAR, 0), segment(FAR + 9), end=FAR + 20) == [[0, 1, 2], [3]]


@given(
    st.lists(st.tuples(st.sampled_from([1, 10, 2**30, 2**31]), st.integers(0, 400), st.integers(0, 40)), max_size=20),
    st.integers(1, 1000),
)
def test_groups_are_a_partition_within_the_limits(steps: list[tuple[int, int, int]], max_bytes: int) -> None:
    segments, base = [], 0
    for step, size, index in steps:
        segments.append(SegmentSizes(base, size, index, index))
        base += step
    found = group_segments(segments, base, max_bytes=max_bytes, max_index_bytes=64)
    assert [index for group in found for index in group] == list(range(len(segments)))
    ends = [segment.base_offset for segment in segments[1:]] + [base]
    for group in found:
        members = [segments[index] for index in group]
        if len(members) > 1:
            assert sum(member.size for member in members) <= max_bytes
            assert sum(member.index_size for member in members) <= 64
            full = [index for index in group if segments[index].size and index > group[0]]
            assert not full or ends[full[-1]] - 1 - members[0].base_offset < 2**31
