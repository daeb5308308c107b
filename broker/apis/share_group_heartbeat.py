"""ShareGroupHeartbeat, API key 76, version 1: members of share groups join, stay and leave (KIP-932).

- Members choose their ids. Epoch 0 joins, and must say what the member reads; -1 leaves.
- What the member is to read is answered when it is new to it. Of a topic that nobody in the group has read before, state is
  made first, so that the first answer has it already.
- UNSUPPORTED_VERSION where `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ..groups.heartbeat.group import JOINING_EPOCH, LEAVING_EPOCH
from ..groups.share.machine import ShareHeartbeat, ShareHeartbeatResult
from ..groups.store.member_memory import NEW_MEMBER, unusual
from ..metadata.features import SHARE_VERSION
from ..requests.access import requires_field, requires_request
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from .consumer_group_heartbeat import check_topics

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services


@api(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    (1, 1),
    ShareGroupHeartbeatRequest,
    requires=(
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_request(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is subscribed to"),
    ),
    many_names=True,
    is_slow_change=True,
)
async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: RequestContext
) -> ShareGroupHeartbeatResponse:
    try:
        check_enabled(context.services)
        _check(request)
        names = request.subscribed_topic_names
        check_topics(names, context)
        long_names = unusual(request.member_id, request.rack_id, context.client_id)
        said = names, long_names, NEW_MEMBER if request.member_epoch == JOINING_EPOCH else None
        context.services.groups.check_room(request.group_id, request.member_id, said)
        asked = ShareHeartbeat(
            request.group_id,
            request.member_id,
            request.member_epoch,
            request.rack_id,
            None if names is None else frozenset(names),
            context.client_id or "",
            context.client_host,
        )
        result = await context.services.share.get().groups.heartbeat(asked)
    except Exception as error:
        code, message = error_code(error)
        return ShareGroupHeartbeatResponse(error_code=code, error_message=message)
    return _answer(result)


def check_enabled(services: Services) -> None:
    """Raises ProtocolError UNSUPPORTED_VERSION while share groups are turned off."""
    if not services.features.level(SHARE_VERSION):
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "share.version is 0: there are no share groups")


def _check(request: ShareGroupHeartbeatRequest) -> None:
    problem = ""
    if not request.member_id:
        problem = "MemberId can't be empty."
    elif not request.group_id:
        problem = "GroupId can't be empty."
    elif request.rack_id == "":
        problem = "RackId can't be empty."
    elif request.member_epoch == JOINING_EPOCH and not request.subscribed_topic_names:
        problem = "SubscribedTopicNames must be set in first request."
    elif request.member_epoch < LEAVING_EPOCH:
        problem = "MemberEpoch is invalid."
    if problem:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, problem)


def _answer(result: ShareHeartbeatResult) -> ShareGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(result.assignment.items())
            ]
        )
    return ShareGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
