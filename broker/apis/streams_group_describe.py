"""StreamsGroupDescribe, API key 89, versions 0 and 1: streams groups with their topology, members and tasks (KIP-1071).

- 1 tells on request the graph that a member described the topology by (KIP-1331), and the assignor (KIP-1357). A graph takes up
  to 1 MiB. A group is told once, however often it is named.
- The graph may name topics that the rest of the answer does not, those that only a sink writes. Where there is one that the
  client may not describe, the graph is not told (ERROR): Kafka tells it. Names of topics that are not there are no secret: a
  graph may have the names of internal topics without the application's id.
- UNSUPPORTED_VERSION as for heartbeats. A group that does not exist, or is of another type, is GROUP_ID_NOT_FOUND.
- The topology has the numbers of partitions that were decided; until the first heartbeat after a start, what the
  application said (0 where it left them to the broker).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.streams_group_describe import (
    Assignment,
    DescribedMember,
    DescribedStreamsGroup,
    DescribedSubtopology,
    DescribedTopology,
    DescriptionStatus,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ...protocol.messages.streams_group_heartbeat import KeyValue, TaskOffset, TopicInfo
from ...protocol.schema import EncodedStruct
from ...storage.exceptions import KafkaStorageError
from ..groups.streams.assignor import ASSIGNOR
from ..groups.streams.descriptions import is_kept, topics_of
from ..groups.streams.group import StreamsGroup, StreamsMember
from ..groups.streams.tasks import NO_OFFSETS, NO_TASKS, PackedOffsets, TaskOffsets, Tasks, task_set, unpacked_offsets
from ..groups.streams.topology import InternalTopic
from ..requests.access import requires_each
from ..requests.authorized_operations import operations_of
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, each_once, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType
from .consumer_group_describe import may_describe_all, units_of
from .streams_group_heartbeat import check_streams_enabled, endpoint_of, task_ids

if TYPE_CHECKING:
    from ...protocol.messages.streams_group_topology_description_update import TopologyDescription
    from ..metadata.topology_descriptions import TopologyDescriptions
    from ..requests.context import RequestContext

log = logging.getLogger(__name__)

UNSEEN_TOPICS = "the description of the topology names topics that you may not describe"


@api(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    (0, 1),
    StreamsGroupDescribeRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "each of its topology"),
    ),
    many_names=True,
)
def streams_group_describe(
    request: StreamsGroupDescribeRequest, context: RequestContext
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    described = run_in_chunks(_steps(request, context), context)
    return _with_descriptions(described, context) if request.include_topology_description else described


def _steps(request: StreamsGroupDescribeRequest, context: RequestContext) -> Steps[StreamsGroupDescribeResponse]:
    def tell(group_id: str) -> DescribedStreamsGroup:
        return _one(group_id, request.include_authorized_operations, context)

    def units(group: DescribedStreamsGroup) -> int:
        return units_of(group) + (0 if group.topology is None else 4 * len(group.topology.subtopologies or ()))

    return StreamsGroupDescribeResponse(groups=(yield from each_once(request.group_ids, tell, units)))


async def _with_descriptions(
    groups: StreamsGroupDescribeResponse | ChunkedResult[StreamsGroupDescribeResponse], context: RequestContext
) -> StreamsGroupDescribeResponse:
    """The answer with the descriptions of those groups that can be told of at all, one read after the other."""
    response = await groups if isinstance(groups, ChunkedResult) else groups
    kept = context.services.groups.descriptions
    finding = run_in_chunks(_with_one(response.groups, kept, context), context)
    found = await finding if isinstance(finding, ChunkedResult) else finding
    if kept is None or not kept.is_enabled:
        return response
    for described in found:
        try:
            description = await kept.read(described.group_id)
        except KafkaStorageError as error:
            log.warning("group %s: the description of its topology cannot be read: %s", described.group_id, error)
            described.topology_description_status = DescriptionStatus.ERROR
            continue
        if description is None:  # removed meanwhile
            continue
        if await _may_see(description, context):
            described.topology_description_status = DescriptionStatus.AVAILABLE
            # As it is stored: a description of very many nodes costs a copy.
            described.topology_description = cast("TopologyDescription", EncodedStruct(description))
        else:
            described.topology_description_status = DescriptionStatus.ERROR
            described.error_message = UNSEEN_TOPICS
    return response


def _with_one(
    groups: Iterable[DescribedStreamsGroup], kept: TopologyDescriptions | None, context: RequestContext
) -> Steps[list[DescribedStreamsGroup]]:
    """Groups that have a description. What all others say of theirs is set."""
    found: list[DescribedStreamsGroup] = []
    for described in groups:
        yield 1
        if described.error_code:
            continue
        described.topology_description_status = DescriptionStatus.NOT_STORED
        if kept is not None and kept.is_enabled and _is_kept(described, kept, context):
            found.append(described)
    return found


def _is_kept(described: DescribedStreamsGroup, kept: TopologyDescriptions, context: RequestContext) -> bool:
    group = context.services.groups.heartbeat_groups.read(described.group_id)
    topology = described.topology
    return isinstance(group, StreamsGroup) and topology is not None and is_kept(group, topology.epoch, kept)


async def _may_see(description: bytes, context: RequestContext) -> bool:
    """True if the client may describe every topic of the description that is there. The loop does not read it."""
    services = context.services
    if services.authorizer is None:
        return True
    names = await services.long_requests.aside(partial(topics_of, description))
    checked = run_in_chunks(_may_describe(names, context), context)
    return await checked if isinstance(checked, ChunkedResult) else checked


def _may_describe(names: Iterable[str], context: RequestContext) -> Steps[bool]:
    for name in names:
        yield 1
        if context.services.topics.get(name) is not None and not context.allows(
            AclOperation.DESCRIBE, ResourceType.TOPIC, name
        ):
            return False
    return True


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
        members=[
            _member(member, group.target.get(member_id, NO_TASKS), group.task_offsets.get(member_id, NO_OFFSETS))
            for member_id, member in group.members.items()
        ],
        authorized_operations=operations_of(context, ResourceType.GROUP, group_id, tells_operations),
        assignor_name=ASSIGNOR,
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


def _member(member: StreamsMember, target: Tasks, offsets: TaskOffsets) -> DescribedMember:
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
        task_offsets=_task_offsets(offsets.reached),
        task_end_offsets=_task_offsets(offsets.ends),
        assignment=_assignment(Tasks(task_set(assigned.active), assigned.standby, assigned.warmup)),
        target_assignment=_assignment(target),
    )


def _task_offsets(offsets: PackedOffsets) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=name, partition=partition, offset=offset)
        for name, partition, offset in unpacked_offsets(offsets)
    ]


def _assignment(tasks: Tasks) -> Assignment:
    return Assignment(
        active_tasks=task_ids(tasks.active),
        standby_tasks=task_ids(tasks.standby),
        warmup_tasks=task_ids(tasks.warmup),
    )
