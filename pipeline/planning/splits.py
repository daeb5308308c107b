"""Splits: what one task reads. A split is a range of offsets; where its bytes lie is a hint, planned again if it is stale.

    orders-0    |---- 00000.log ----|------- 81920.log -------|-- 99000.log (active) --|
    splits      [0 ..... 40 k)[40 k .. 81,920)[81,920 .. 90 k)[90 k ............... end)

Ranges of one partition touch and do not overlap, so that no record comes twice and none is left out, whatever happens to the
files between planning and reading. They begin where a segment or a batch of format 2 begins, at about even distances in bytes,
or wherever a caller wishes: then the task looks its place up.

Planning costs what it has splits, and not what the log has entries: sizes come from the listing; an index is searched only
where a split begins inside a segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from ...storage.io.filesystem import RealFileSystem
from ..reading.segment_files import SegmentFile, floor
from .sparse_index import Entry, SegmentIndex, batch_start

DEFAULT_SPLIT_BYTES = 64 << 20
LOOK_UP = -1
#: No split is made smaller to give every core something to do: what a task costs beside its bytes is about what it takes to
#: read so many.
_LEAST_BYTES = 4 << 20
#: Tasks of one read, beyond which splits become larger: a driver's memory and a scheduler's time follow them.
_MOST_TASKS = 10_000
#: Tasks for each core at least, where there is enough to read: one that comes late holds up half as much.
_TASKS_PER_CORE = 2


@dataclass(frozen=True, slots=True)
class Split:
    """Offsets [first_offset, end_offset) of a partition, which begin in `segment` at or behind byte `position`; with
    LOOK_UP, in that segment or a later one, and its index says where.

    Attributes:
        topic_id: of the topic that was planned with; a topic of that name with another id has other records. Empty: not known.
    """

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    segment: SegmentFile
    position: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class FetchSplit:
    """Offsets [first_offset, end_offset) of a partition, fetched from its leader at that time. `topic_id` as in `Split`."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    topic_id: str = ""


AnySplit = Split | FetchSplit


def of_topics(splits: Sequence[AnySplit], topic_ids: Mapping[str, str]) -> list[AnySplit]:
    """The splits with the ids of their topics, as far as they are known."""
    return [replace(split, topic_id=topic_ids.get(split.topic, "")) for split in splits]


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


class SplitSize(NamedTuple):
    """Wanted size of splits.

    Attributes:
        fixed: bytes that the user asked for; None: as it suits the cluster.
        least_tasks: `minPartitions`.
        cores: of the cluster, 0 if unknown.
    """

    fixed: int | None = None
    least_tasks: int = 0
    cores: int = 0

    def bytes_for(self, total: int) -> int:
        """Bytes of one split of a read of `total` bytes."""
        size = self.fixed
        if size is None:
            size = max(DEFAULT_SPLIT_BYTES, total // max(_MOST_TASKS, 4 * self.cores))
            if self.cores:
                size = min(size, max(total // (_TASKS_PER_CORE * self.cores), _LEAST_BYTES))
        if self.least_tasks:
            size = min(size, total // self.least_tasks)
        return max(size, 1)


def estimate(segments: Sequence[SegmentFile], first_offset: int, end_offset: int) -> int:
    """Bytes of [first_offset, end_offset), as if the records of a segment were of one size. Opens nothing.

    The last segment is taken to end at `end_offset`, if that lies in it.
    """
    total = 0
    following = [segment.base_offset for segment in segments[1:]]
    for segment, end in zip(segments, [*following, max(end_offset, segments[-1].base_offset + 1)], strict=True):
        low, high = max(first_offset, segment.base_offset), min(end_offset, end)
        if low < high:
            total += segment.size * (high - low) // (end - segment.base_offset)
    return total


def touched(segments: list[SegmentFile], first_offset: int, end_offset: int) -> list[SegmentFile]:
    """Segments in which [first_offset, end_offset) lies, or what is left of it; the first one, whose reader tells it, if that is
    nothing any more.
    """
    return segments[max(0, floor(segments, first_offset)) : max(0, floor(segments, end_offset - 1)) + 1]


def plan(
    topic: str, partition: int, segments: list[SegmentFile], first_offset: int, end_offset: int,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
) -> list[Split]:  # fmt: skip
    """Splits of about `split_bytes` for [first_offset, end_offset). Reads pages of indexes, and one header a split. Blocks."""
    if first_offset >= end_offset:
        return []
    segments = touched(segments, first_offset, end_offset)
    if not segments:
        return []
    begin = 0 if first_offset == segments[0].base_offset else LOOK_UP
    whole = Split(topic, partition, first_offset, end_offset, segments[0], begin)
    # Records may differ in size: a quarter leaves room for that, and whole segments are no guess.
    if estimate(segments, first_offset, end_offset) <= split_bytes // 4 or sum(s.size for s in segments) <= split_bytes:
        return [whole]
    low, high = _extent(segments, first_offset, end_offset)
    parts = round((high - low) / split_bytes)
    if parts <= 1:
        return [whole]
    starts = list(accumulate((segment.size for segment in segments), initial=0))
    splits = [whole]
    step, opened, least = (high - low) / parts, _Opened(), -1
    try:
        number = 0
        for part in range(1, parts):
            target = low + int(step * part)
            while starts[number + 1] <= target:
                number += 1
            if number < least:
                continue  # this boundary was not found before, and has become a segment's start
            if (found := _boundary(segments, starts, number, target, step, opened)) is None:
                continue
            at, offset, position = found
            least = max(least, at)
            if splits[-1].first_offset < offset < end_offset:
                splits[-1] = replace(splits[-1], end_offset=offset)
                splits.append(Split(topic, partition, offset, end_offset, segments[at], position))
    finally:
        opened.close()
    return splits


def _extent(segments: list[SegmentFile], first_offset: int, end_offset: int) -> tuple[int, int]:
    """Bytes [low, high) of the segments, one behind the other, between which the offsets lie."""
    low = 0
    if first_offset > segments[0].base_offset:
        with SegmentIndex(segments[0]) as index:
            below = index.floor(first_offset)
        low = 0 if below is None else below.position
    with SegmentIndex(segments[-1]) as index:
        above = index.ceiling(end_offset)
    before = sum(segment.size for segment in segments[:-1])
    high = before + (segments[-1].size if above is None else above.position)
    return min(low, high), high


class _Opened:
    """The segment, and its index, in which the last boundary was looked for: the next one is often in it too."""

    def __init__(self) -> None:
        self._segment: SegmentFile | None = None

    def find(self, segment: SegmentFile, position: int) -> tuple[int, int] | None:
        """(base offset, position) of a batch at `position` or soon behind it. None: no index tells of one."""
        if segment is not self._segment:
            self.close()
            try:
                self._file = RealFileSystem().open(segment.path, writable=False)
            except OSError:
                return None  # gone since the listing: the reader will see
            self._index = SegmentIndex(segment)
            self._segment = segment
        entry: Entry | None = self._index.at_position(position)
        base_offset = None if entry is None else batch_start(self._file, entry)
        return None if entry is None or base_offset is None else (base_offset, entry.position)

    def close(self) -> None:
        if self._segment is not None:
            self._file.close()
            self._index.__exit__()
            self._segment = None


def _boundary(
    segments: list[SegmentFile], starts: list[int], number: int, target: int, step: float, opened: _Opened
) -> tuple[int, int, int] | None:
    """Where a split may begin near byte `target`, which is in segment `number`: (segment, offset, position)."""
    behind, before = starts[number + 1] - target, target - starts[number]
    last = len(segments) - 1
    if before <= behind and before <= step / 4:
        return number, segments[number].base_offset, 0
    if behind <= step / 4:
        return (number + 1, segments[number + 1].base_offset, 0) if number < last else None
    if (found := opened.find(segments[number], before)) is not None:
        return number, *found
    return (number + 1, segments[number + 1].base_offset, 0) if number < last else None
