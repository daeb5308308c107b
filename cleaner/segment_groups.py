"""Groups neighbouring segments that a pass merges into one: a pure function of values.

Cleaning shrinks segments; without grouping a log would end as thousands of tiny files. A group is a row of segments whose
log bytes stay within segment.bytes and whose indexes each stay within segment.index.bytes, as they are before cleaning: what
comes out is never larger than that. And its last offset is within 2^31 - 1 of its first segment's base offset, since
indexes and batches keep offsets relative to it in 31 bits. An empty segment has no offsets to keep: it joins any group,
or a log with a gap of 2^31 offsets would keep empty segments between that are cleaned again for ever (KAFKA-12889).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_OFFSET_DISTANCE = 2**31 - 1


class SegmentSizes(NamedTuple):
    """Sizes of one segment for grouping, in bytes."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


def group_segments(
    segments: Sequence[SegmentSizes], end_offset: int, *, max_bytes: int, max_index_bytes: int
) -> list[range]:
    """Groups as ranges of indexes into `segments`, in order and without gaps; each has at least one segment.

    `segments` are in offset order and end before `end_offset`. A segment that alone passes a limit is a group of its own.
    """
    groups: list[range] = []
    start = 0
    size = index_size = time_index_size = 0
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        joins = number > start and (
            size + segment.size <= max_bytes
            and index_size + segment.index_size <= max_index_bytes
            and time_index_size + segment.time_index_size <= max_index_bytes
            and (segment.size == 0 or end - 1 - segments[start].base_offset <= MAX_OFFSET_DISTANCE)
        )
        if not joins:
            if number:
                groups.append(range(start, number))
            start, size, index_size, time_index_size = number, 0, 0, 0
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
    if segments:
        groups.append(range(start, len(segments)))
    return groups
