"""Which process of a streams group can be asked for which partitions (interactive queries), as its members are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .group import StreamsMember
from .requests import EndpointPartitions
from .tasks import task_set

if TYPE_CHECKING:
    from ..modern.topic_image import TopicImage
    from .topology import ConfiguredTopology


def endpoints_of(
    members: Iterable[StreamsMember], plan: ConfiguredTopology, topics: TopicImage
) -> tuple[EndpointPartitions, ...]:
    """One for each member with an endpoint; none while the numbers of partitions are not decided."""
    if plan.subtopologies is None:
        return ()
    return tuple(
        EndpointPartitions(
            member.endpoint,
            _partitions(task_set(member.assigned.active), plan, topics),
            _partitions(member.assigned.standby, plan, topics),
        )
        for member in members
        if member.endpoint is not None
    )


def _partitions(
    tasks: Mapping[str, frozenset[int]], plan: ConfiguredTopology, topics: TopicImage
) -> list[tuple[str, list[int]]]:
    """Of the topics that these tasks read; a topic may have fewer partitions than its subtopology has tasks."""
    assert plan.subtopologies is not None
    found = []
    for name in sorted(tasks):
        subtopology = plan.subtopologies.get(name)
        for topic in sorted(set(subtopology.inputs)) if subtopology is not None else ():
            seen = topics.get(topic)
            if seen is not None:
                found.append((topic, sorted(part for part in tasks[name] if part < seen.partition_count)))
    return found
