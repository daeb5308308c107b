"""ConsumerGroupDescribe, API key 69, versions 0 and 1: consumer groups with epochs, members and assignments (KIP-848).

- 1 says of each member whether it speaks the classic or the consumer protocol (KIP-1099).
- A group that is not there, or of another type, is GROUP_ID_NOT_FOUND. Topics that are gone are left out of assignments.
- What a member has to give up is shown with what it has: it may still use that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ..group_types import GroupType
from .consumer_group_heartbeat import check_enabled
from .describe_groups import ALL_OPERATIONS, NOT_ASKED_FOR
from .registry import api

if TYPE_CHECKING:
    from ..modern_groups.consumer_group import ConsumerGroup, ConsumerMember
    from ..request_context import RequestContext
    from ..topics import TopicRegistry

_CLASSIC, _CONSUMER = 0, 1


@api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), ConsumerGroupDescribeRequest)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    return ConsumerGroupDescribeResponse(
        groups=[_describe(group_id, operations, context) for group_id in request.group_ids]
    )


def _describe(group_id: str, operations: int, context: RequestContext) -> DescribedGroup:
    modern, topics = context.broker.groups.modern, context.broker.topics
    machine = modern.machine(GroupType.CONSUMER)
    try:
        check_enabled(context.broker)
        group: ConsumerGroup = machine.group(modern.read(group_id), group_id)
    except ProtocolError as error:
        shown = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=shown)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=machine.assignor(group),
        members=[_member(group, member, topics) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicRegistry) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.expression,
        assignment=_assignment((member.assigned, member.pending), topics),
        target_assignment=_assignment((group.target.get(member.member_id, {}),), topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(parts: Iterable[Mapping[bytes, Iterable[int]]], topics: TopicRegistry) -> Assignment:
    found: dict[bytes, set[int]] = {}
    for part in parts:
        for topic_id, partitions in part.items():
            found.setdefault(topic_id, set()).update(partitions)
    rows = []
    for topic_id, indexes in found.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            rows.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes)))
    return Assignment(topic_partitions=sorted(rows, key=lambda row: row.topic_name))
