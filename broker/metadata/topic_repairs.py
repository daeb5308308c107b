"""Decides how a start makes `metadata.db` and the partition directories agree. Pure.

`topics.py` says in which order operations touch both, and carries this plan out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from .store import TopicRecord

NO_ID = UUID(int=0)
"""Topic id of a directory without `partition.metadata`."""


class FoundLog(NamedTuple):
    """A partition directory found at the start."""

    topic: str
    partition: int
    topic_id: UUID


class Repairs(NamedTuple):
    """Actions that make rows and directories agree."""

    adopt: tuple[tuple[str, UUID | None, int], ...]
    """(topic, id, partitions) of directories without a row; id None: assign one."""
    identify: tuple[tuple[str, UUID], ...]
    """(topic, id) of rows whose directories have another id."""
    grow: tuple[tuple[str, int], ...]
    """(topic, partitions) of rows with fewer partitions than directories."""
    create: tuple[tuple[str, int], ...]
    """Partitions with a row and without a directory."""
    finish_deleting: tuple[str, ...]
    """Rows of topics whose deletion was interrupted."""
    delete: tuple[tuple[str, int], ...]
    """Partitions of such topics that still have a directory."""


def plan_repairs(records: Iterable[TopicRecord], found: Iterable[FoundLog]) -> Repairs:
    """Compare rows with directories. Directories win, except for interrupted deletions."""
    by_topic: dict[str, dict[int, UUID]] = {}
    for item in found:
        by_topic.setdefault(item.topic, {})[item.partition] = item.topic_id
    adopt: list[tuple[str, UUID | None, int]] = []
    identify: list[tuple[str, UUID]] = []
    grow: list[tuple[str, int]] = []
    create: list[tuple[str, int]] = []
    finish: list[str] = []
    delete: list[tuple[str, int]] = []
    for record in records:
        partitions = by_topic.pop(record.name, {})
        if record.deleting:
            finish.append(record.name)
            mine = {p: i for p, i in partitions.items() if i in (record.topic_id, NO_ID)}
            delete.extend((record.name, partition) for partition in sorted(mine))
            # Directories with another id are another topic's, made after this one was deleted.
            if others := {p: i for p, i in partitions.items() if p not in mine}:
                by_topic[record.name] = others
            continue
        topic_id = _id_of(partitions)
        if topic_id is not None and topic_id != record.topic_id:
            identify.append((record.name, topic_id))
        count = max([record.partitions, *(partition + 1 for partition in partitions)])
        if count > record.partitions:
            grow.append((record.name, count))
        create.extend((record.name, partition) for partition in range(count) if partition not in partitions)
    for name, partitions in sorted(by_topic.items()):
        count = max(partitions) + 1
        adopt.append((name, _id_of(partitions), count))
        create.extend((name, partition) for partition in range(count) if partition not in partitions)
    return Repairs(tuple(adopt), tuple(identify), tuple(grow), tuple(create), tuple(finish), tuple(delete))


def _id_of(partitions: Mapping[int, UUID]) -> UUID | None:
    """Topic id in the directories: that of the first partition that has one."""
    return next((partitions[p] for p in sorted(partitions) if partitions[p] != NO_ID), None)
