"""StateBatch: offsets of a partition that a share group treats alike, as they are kept in `__share_group_state`.

What is kept is a list of them, sorted, none overlapping another, neighbours that are alike made one. Offsets that are in
none were never delivered, or were with a member when that was written: after a start they can be had by anybody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

NO_OFFSET = -1


class RecordState(IntEnum):
    """What a share group does with a record; the numbers are Kafka's. ACQUIRED is never written."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Nobody gets the record any more."""
        return self >= RecordState.ACKNOWLEDGED


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, both included."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


def combined(before: Sequence[StateBatch], changes: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """`before` with `changes` on top of it, the later over the earlier, from `start_offset` on (-1: all).

    (Kafka has the higher delivery count win where two overlap. Changes are written in the order in which they happened, so
    that the later one is the truth, and its count is not the lower one.)
    """
    batches = list(before)
    for change in changes:
        _put(batches, change)
    kept: list[StateBatch] = []
    for batch in batches:
        if batch.last < start_offset:
            continue
        if batch.first < start_offset:
            batch = batch._replace(first=start_offset)
        if kept and _are_alike(kept[-1], batch):
            kept[-1] = kept[-1]._replace(last=batch.last)
        else:
            kept.append(batch)
    return tuple(kept)


def _are_alike(left: StateBatch, right: StateBatch) -> bool:
    return left.last + 1 == right.first and left[2:] == right[2:]


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    """Cuts what `new` covers out of the sorted list, and puts it there."""
    begin = bisect_left(batches, new.first, key=lambda batch: batch.last)
    end = begin
    parts: list[StateBatch] = []
    rest: list[StateBatch] = []
    while end < len(batches) and batches[end].first <= new.last:
        old = batches[end]
        if old.first < new.first:
            parts.append(old._replace(last=new.first - 1))
        if old.last > new.last:
            rest.append(old._replace(first=new.last + 1))
        end += 1
    batches[begin:end] = [*parts, new, *rest]
