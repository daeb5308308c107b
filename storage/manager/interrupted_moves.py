"""Decides how a start continues moves between data directories that the last stop interrupted. Pure: names in,
decisions out.

the partition, and its future copy          go on with the one, make the other again
no partition, a future copy, and a          the change-over had begun (docs/adr/0032-moving-logs.md):
`-delete` of the same unique part           the copy is the log
a future copy alone                         left alone: the partition may lie on a disk that is missing today
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..io.checkpoint import TopicPartition
from ..segment.names import DirectoryState
from .data_directory import PartitionDirectory


class MovePlan(NamedTuple):
    """Future directories, by what a start does with them. Of several for one partition the first counts."""

    promoted: Sequence[PartitionDirectory]
    resumed: Sequence[PartitionDirectory]
    superfluous: Sequence[PartitionDirectory]
    """Further copies of a partition that already has one."""
    unknown: Sequence[PartitionDirectory]


def key_of(entry: PartitionDirectory) -> TopicPartition:
    """Topic and partition of a directory."""
    return entry.name.topic, entry.name.partition


def plan_moves(found: Iterable[PartitionDirectory]) -> MovePlan:
    """Sort the partition directories `found` in all data directories."""
    entries = list(found)
    live = {key_of(entry) for entry in entries if entry.name.state is DirectoryState.LIVE}
    # The topic's name may be cut in a deleted directory's: the unique part and the number tell.
    left = {(e.name.partition, e.name.unique) for e in entries if e.name.state is DirectoryState.DELETED}
    futures = [entry for entry in entries if entry.name.state is DirectoryState.FUTURE]
    promoted: dict[TopicPartition, PartitionDirectory] = {}
    for entry in futures:
        if key_of(entry) not in live and (entry.name.partition, entry.name.unique) in left:
            promoted.setdefault(key_of(entry), entry)
    resumed: dict[TopicPartition, PartitionDirectory] = {}
    superfluous, unknown = [], []
    for entry in futures:
        key = key_of(entry)
        if promoted.get(key) is entry:
            continue
        if key in promoted or key in resumed:
            superfluous.append(entry)
        elif key in live:
            resumed[key] = entry
        else:
            unknown.append(entry)
    return MovePlan(list(promoted.values()), list(resumed.values()), superfluous, unknown)
