"""StreamsGroupDescribe, API key 89, version 0: streams groups with their topology, members and tasks (KIP-1071).

- UNSUPPORTED_VERSION as for heartbeats. A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND.
- The topology has the numbers of partitions that were decided; until the first heartbeat after a start, what the
  application said (0 where it left them to the broker).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.streams_group_describe import (
    Assignment,
    DescribedMember,
    DescribedStreamsGroup,
    DescribedSubtopology,
    DescribedTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ...protocol.messages.streams_group_heartbeat import KeyValue, TopicInfo
from ..groups.streams.group import StreamsGroup, StreamsMember
from ..groups.streams.tasks import NO_TASKS, Tasks, task_set
from ..groups.streams.topology import InternalTopic
from ..requests.access import requires_each
from ..requests.authorized_operations import operations_of
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType
from .consumer_group_describe import may_describe_all
from .streams_group_heartbeat import check_streams_enabled, endpoint_of, task_ids

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    (0, 0),
    StreamsGroupDescribeRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "each of its topology"),
    ),
    many_names=True,
)
def streams_group_describe(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse:
    tells_operations = request.include_authorized_operations
    return StreamsGroupDescribeResponse(groups=[_one(name, tells_operations, context) for name in request.group_ids])


def _one(group_id: str, tells_operations: bool, context: RequestContext) -> DescribedStreamsGroup:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedStreamsGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        check_streams_enabled(context.services)
        if not group_id:
            raise ProtocolError(ErrorCode.INVALID_GROUP_ID)
        group = context.services.groups.heartbeat_groups.read(group_id)
        if not isinstance(group, StreamsGroup):
            why = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a streams group."
            raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, why)
    except ProtocolError as error:
        return DescribedStreamsGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    topology = _topology(group)
    if topology is not None and not may_describe_all(context, _topics_in(topology)):
        return DescribedStreamsGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="this group uses topics that you may not describe",
        )
    return DescribedStreamsGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=topology,
        members=[_member(member, group.target.get(member_id, NO_TASKS)) for member_id, member in group.members.items()],
        authorized_operations=operations_of(context, ResourceType.GROUP, group_id, tells_operations),
    )


def _topics_in(topology: DescribedTopology) -> Iterator[str]:
    for each in topology.subtopologies or ():
        yield from each.source_topics
        yield from each.repartition_sink_topics
        for made in (*each.state_changelog_topics, *each.repartition_source_topics):
            yield made.name


def _topology(group: StreamsGroup) -> DescribedTopology | None:
    if group.topology is None:
        return None
    plan = group.configured
    decided = plan.subtopologies if plan is not None and plan.is_ready else None
    subtopologies = group.topology.subtopologies if decided is None else decided.values()
    return DescribedTopology(
        epoch=group.topology.epoch,
        subtopologies=[
            DescribedSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.sink_topics),
                state_changelog_topics=_topics(each.changelog_topics),
                repartition_source_topics=_topics(each.repartition_topics),
            )
            for each in subtopologies
        ],
    )


def _topics(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics)
    ]


def _member(member: StreamsMember, target: Tasks) -> DescribedMember:
    assigned = member.assigned
    return DescribedMember(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else endpoint_of(member.endpoint),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags],
        assignment=_assignment(Tasks(task_set(assigned.active), assigned.standby, assigned.warmup)),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=task_ids(tasks.active),
        standby_tasks=task_ids(tasks.standby),
        warmup_tasks=task_ids(tasks.warmup),
    )
