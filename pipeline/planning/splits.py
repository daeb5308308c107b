"""Splits: what one task reads. A split is a range of offsets; where its bytes lie is a hint, planned again if it is stale.

    orders-0    |---- 00000.log ----|------- 81920.log -------|-- 99000.log (active) --|
    splits      [0 ..... 40 k)[40 k .. 81,920)[81,920 .. 90 k)[90 k ............... end)

Ranges of one partition touch and do not overlap, so that no record comes twice and none is left out, whatever happens to the
files between planning and reading. They begin where a batch of format 2 begins, at about even distances in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from ...protocol.records.record_batch import MAGIC_AT, MAGIC_V2, OVERHEAD, RECORD_BATCH_OVERHEAD
from ...storage.io.filesystem import RealFileSystem
from ..reading.segment_files import SegmentFile, floor
from .sparse_index import begins_batch, read_entries

DEFAULT_SPLIT_BYTES = 64 << 20
LOOK_UP = -1


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets [first_offset, end_offset) of a partition, which begin in `segment` at or behind byte `position`; with
    LOOK_UP, in that segment or a later one, and its index says where.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    segment: SegmentFile
    position: int


@dataclass(frozen=True, slots=True)
class FetchSplit:
    """Offsets [first_offset, end_offset) of a partition, fetched from its leader at that time."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int


AnySplit = Split | FetchSplit


def cut(split: AnySplit, most_offsets: int) -> list[AnySplit]:
    """The split in even parts of at most so many offsets. Splits of files find their place by the index."""
    first, end = split.first_offset, split.end_offset
    parts = -(-(end - first) // most_offsets)
    if parts <= 1:
        return [split]
    edges = [first + (end - first) * part // parts for part in range(parts + 1)]
    rest: list[AnySplit] = []
    for low, high in pairwise(edges[1:]):
        if isinstance(split, Split):
            rest.append(replace(split, first_offset=low, end_offset=high, position=LOOK_UP))
        else:
            rest.append(replace(split, first_offset=low, end_offset=high))
    return [replace(split, end_offset=edges[1]), *rest]


def plan(
    topic: str, partition: int, segments: list[SegmentFile], first_offset: int, end_offset: int,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
) -> list[Split]:  # fmt: skip
    """Splits of about `split_bytes` for [first_offset, end_offset). Reads indexes and a few headers. Blocks."""
    if not segments or first_offset >= end_offset:
        return []
    splits: list[Split] = []
    budget = 0
    for segment in segments[max(0, floor(segments, first_offset)) :]:
        if segment.base_offset >= end_offset:
            break
        for base_offset, position in _starts(segment, split_bytes):
            behind = position - budget
            if splits and (behind < split_bytes or not splits[-1].first_offset < base_offset < end_offset):
                continue
            start = max(first_offset, base_offset) if splits else first_offset
            if splits:
                splits[-1] = replace(splits[-1], end_offset=start)
            splits.append(Split(topic, partition, start, end_offset, segment, position))
            budget = position
        budget -= segment.size  # of the next segment's position 0 on
    return splits


def _starts(segment: SegmentFile, split_bytes: int) -> list[tuple[int, int]]:
    """(base offset, position) of batches at which a split may begin: the first, and some at even distances."""
    starts = [(segment.base_offset, 0)]
    if segment.size <= split_bytes // 2:
        return starts
    step = max(split_bytes // 4, 1)
    wanted = step
    try:
        file = RealFileSystem().open(segment.path, writable=False)
    except OSError:
        return starts  # gone since the listing: the reader will see
    try:
        for entry in read_entries(segment):
            if entry.position < wanted:
                continue
            head = file.pread(RECORD_BATCH_OVERHEAD, entry.position)
            # A wrapper of format 0 or 1 does not say where it begins.
            if len(head) == RECORD_BATCH_OVERHEAD and head[MAGIC_AT] >= MAGIC_V2 and begins_batch(file, entry):
                starts.append((OVERHEAD.unpack_from(head)[0], entry.position))
                wanted = entry.position + step
    finally:
        file.close()
    return starts
