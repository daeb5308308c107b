"""ShareGroupDescribe, API key 77, version 1: share groups with their members, and what each of these reads (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..requests.access import requires_each
from ..requests.authorized_operations import operations_of
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType
from .consumer_group_describe import UNSEEN_TOPICS, assignment_of, described, may_describe_all
from .share_group_heartbeat import check_enabled

if TYPE_CHECKING:
    from ..groups.share.group import ShareMember
    from ..metadata.topics import TopicRegistry
    from ..requests.context import RequestContext

ASSIGNOR = "simple"


@api(
    ApiKey.SHARE_GROUP_DESCRIBE,
    (1, 1),
    ShareGroupDescribeRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is assigned"),
    ),
    many_names=True,
)
def share_group_describe(
    request: ShareGroupDescribeRequest, context: RequestContext
) -> ShareGroupDescribeResponse | ChunkedResult[ShareGroupDescribeResponse]:
    return run_in_chunks(described(request, context, _describe, ShareGroupDescribeResponse), context)


def _describe(group_id: str, tells_operations: bool, context: RequestContext) -> DescribedGroup:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    try:
        check_enabled(context.services)
        group = context.services.share.get().groups.describe(group_id)
    except ProtocolError as error:
        shown = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=shown)
    members = [_member(member, context.services.topics) for member in group.members.values()]
    if not may_describe_all(
        context, (row.topic_name for described in members for row in described.assignment.topic_partitions)
    ):
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=UNSEEN_TOPICS
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=members,
        authorized_operations=operations_of(context, ResourceType.GROUP, group_id, tells_operations),
    )


def _member(member: ShareMember, topics: TopicRegistry) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        assignment=assignment_of((member.assigned,), topics),
    )
