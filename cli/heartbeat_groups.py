"""Groups of the newer protocols as `tidelog groups describe` shows them: consumer (KIP-848), share (KIP-932)
and streams (KIP-1071).

A streams group's partitions are those that its active tasks read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .support.kafka_client import KafkaClient
    from .support.offsets import Partition


class ShownMember(NamedTuple):
    """A group member, and the partitions that it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None
    protocol: str = ""
    """Protocol of a consumer group's member: `classic` or `consumer`; `share` in a share group."""


class ShownGroup(NamedTuple):
    """A group. `protocol` is its assignor, if it has one of its own."""

    group_id: str
    group_type: str
    state: str
    protocol: str
    members: tuple[ShownMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


def streams_groups(client: KafkaClient, names: Sequence[str]) -> list[ShownGroup]:
    """Describe streams groups. KafkaFailure."""
    from ..clients.kafka.coordinators import CoordinatorKind
    from ..protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
    from .support.kafka_client import check

    found = []
    answer = client.ask_coordinator(
        CoordinatorKind.GROUP, names, StreamsGroupDescribeRequest(group_ids=names), StreamsGroupDescribeResponse
    )
    for group in answer.groups:
        check(f"group {group.group_id}", group.error_code, group.error_message)
        subtopologies = group.topology.subtopologies if group.topology is not None else None
        inputs = {
            each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
            for each in subtopologies or ()
        }
        members = tuple(
            ShownMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                tuple(
                    (topic, partition)
                    for tasks in member.assignment.active_tasks
                    for topic in inputs.get(tasks.subtopology_id, ())
                    for partition in tasks.partitions
                ),
            )
            for member in group.members
        )
        found.append(ShownGroup(group.group_id, "streams", group.group_state, "", members))
    return found


def consumer_groups(client: KafkaClient, names: Sequence[str]) -> list[ShownGroup]:
    """Describe consumer groups. KafkaFailure."""
    from ..clients.kafka.coordinators import CoordinatorKind
    from ..protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
    from .support.kafka_client import check

    found = []
    answer = client.ask_coordinator(
        CoordinatorKind.GROUP, names, ConsumerGroupDescribeRequest(group_ids=names), ConsumerGroupDescribeResponse
    )
    for group in answer.groups:
        check(f"group {group.group_id}", group.error_code, group.error_message)
        members = tuple(
            ShownMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                tuple(
                    (topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                ),
                member.member_epoch,
                "classic" if member.member_type == 0 else "consumer",
            )
            for member in group.members
        )
        found.append(
            ShownGroup(
                group.group_id,
                "consumer",
                group.group_state,
                group.assignor_name,
                members,
                group.group_epoch,
                group.assignment_epoch,
            )
        )
    return found


def share_groups(client: KafkaClient, names: Sequence[str]) -> list[ShownGroup]:
    """Describe share groups. KafkaFailure."""
    from ..clients.kafka.coordinators import CoordinatorKind
    from ..protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
    from .support.kafka_client import check

    found = []
    answer = client.ask_coordinator(
        CoordinatorKind.GROUP, names, ShareGroupDescribeRequest(group_ids=names), ShareGroupDescribeResponse
    )
    for group in answer.groups:
        check(f"group {group.group_id}", group.error_code, group.error_message)
        members = tuple(
            ShownMember(
                member.member_id,
                None,
                member.client_id,
                member.client_host,
                tuple(
                    (topic.topic_name, partition)
                    for topic in member.assignment.topic_partitions
                    for partition in topic.partitions
                ),
                member.member_epoch,
                "share",
            )
            for member in group.members
        )
        found.append(
            ShownGroup(
                group.group_id,
                "share",
                group.group_state,
                group.assignor_name,
                members,
                group.group_epoch,
                group.assignment_epoch,
            )
        )
    return found


def share_offsets(client: KafkaClient, group: str) -> dict[Partition, tuple[int | None, int | None]]:
    """Start offset of a share group in each partition that it has read, and its lag; None if not known yet.
    KafkaFailure.
    """
    from ..clients.kafka.coordinators import CoordinatorKind
    from ..protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        RequestGroup,
    )
    from .support.kafka_client import check

    request = DescribeShareGroupOffsetsRequest(groups=[RequestGroup(group_id=group, topics=None)])
    (answer,) = client.ask_coordinator(
        CoordinatorKind.GROUP, [group], request, DescribeShareGroupOffsetsResponse
    ).groups
    check(f"group {group}", answer.error_code, answer.error_message)
    return {
        (topic.topic_name, part.partition_index): (
            part.start_offset if part.start_offset >= 0 else None,
            part.lag if part.lag >= 0 else None,
        )
        for topic in answer.topics
        for part in topic.partitions
    }


#: By type, as ListGroups has it.
DESCRIBE: Mapping[str, Callable[[Any, Sequence[str]], list[ShownGroup]]] = {
    "consumer": consumer_groups,
    "share": share_groups,
    "streams": streams_groups,
}
