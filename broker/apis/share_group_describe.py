"""ShareGroupDescribe, API key 77, version 1: share groups with their members, and what each of these reads (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from .describe_groups import ALL_OPERATIONS, NOT_ASKED_FOR
from .registry import api
from .share_group_heartbeat import check_enabled

if TYPE_CHECKING:
    from ..modern_groups.share_group import ShareMember
    from ..request_context import RequestContext
    from ..topics import TopicRegistry

ASSIGNOR = "simple"


@api(ApiKey.SHARE_GROUP_DESCRIBE, (1, 1), ShareGroupDescribeRequest)
def share_group_describe(request: ShareGroupDescribeRequest, context: RequestContext) -> ShareGroupDescribeResponse:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    return ShareGroupDescribeResponse(
        groups=[_describe(group_id, operations, context) for group_id in request.group_ids]
    )


def _describe(group_id: str, operations: int, context: RequestContext) -> DescribedGroup:
    try:
        check_enabled(context.broker)
        group = context.broker.share.groups.describe(group_id)
    except ProtocolError as error:
        shown = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=shown)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(member, context.broker.topics) for member in group.members.values()],
        authorized_operations=operations,
    )


def _member(member: ShareMember, topics: TopicRegistry) -> Member:
    named = ((topics.by_id(topic_id), topic_id, indexes) for topic_id, indexes in member.assigned.items())
    rows = [
        TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes))
        for topic, topic_id, indexes in named
        if topic is not None
    ]
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        assignment=Assignment(topic_partitions=sorted(rows, key=lambda row: row.topic_name)),
    )
