"""SegmentList: the segments of a log as one immutable tuple behind one attribute.

Readers take `view` and search it with no lock, for as long as they like; writers build a new tuple and publish it with one
assignment. So a reader sees the list before or after a change, never a half-made one. A look-up is a binary search: it
touches O(log n) entries of the snapshot.

Any thread may read. Changes happen under the log's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log_segment import LogSegment


def floor_index(view: tuple[LogSegment, ...], offset: int) -> int:
    """Index of the last segment whose base offset is <= `offset`; -1 when all are above."""
    low, high = 0, len(view)
    while low < high:
        middle = (low + high) >> 1
        if view[middle].base_offset <= offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


class SegmentList:
    """Segments of a log. Never empty once the log is loaded; base offsets rise strictly; the last segment is the active
    one.

    Attributes:
        view: The segments as they are now, in order: immutable, kept by readers for as long as they like. Any thread reads it,
            changes put another one in its place.
    """

    __slots__ = ("view",)

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self.view: tuple[LogSegment, ...] = ()
        self._publish(tuple(segments))

    @property
    def active(self) -> LogSegment:
        return self.view[-1]

    def __len__(self) -> int:
        return len(self.view)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.view)

    def append(self, segment: LogSegment) -> None:
        """Publish the list with a new active segment."""
        assert not self.view or self.view[-1].base_offset < segment.base_offset
        self.view = (*self.view, segment)

    def remove(self, segments: Iterable[LogSegment]) -> None:
        """Publish the list without these segments. Segments that are no longer in it are no error."""
        gone = {id(segment) for segment in segments}
        self._publish(tuple(segment for segment in self.view if id(segment) not in gone))

    def replace(self, old: Iterable[LogSegment], new: Iterable[LogSegment]) -> None:
        """Publish the list with `new` in the place of `old`, as one step for readers."""
        gone = {id(segment) for segment in old}
        kept = [segment for segment in self.view if id(segment) not in gone]
        self._publish(tuple(sorted([*kept, *new], key=lambda segment: segment.base_offset)))

    def _publish(self, view: tuple[LogSegment, ...]) -> None:
        assert all(low.base_offset < high.base_offset for low, high in pairwise(view))
        self.view = view
