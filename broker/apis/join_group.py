"""JoinGroup, API key 11, versions 0 to 9: a member joins its group, or rejoins in a rebalance.

- 0 has no rebalance time-out: that of the session counts.
- 4: a new dynamic member is first given its id (MEMBER_ID_REQUIRED, KIP-394); 5: static members (KIP-345);
  7: the answer has the protocol's type; 8: a reason for the log; 9: a static leader may keep its assignment (KIP-814).
- The answer comes when all members have joined, or the rebalance time-out is over.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ..groups.classic.events import GroupProtocol, JoinRequest, JoinResult
from ..network.pending_response import map_maybe_awaitable
from ..requests.access import requires_field
from ..requests.authorized_operations import visible_topics
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.JOIN_GROUP,
    (0, 9),
    JoinGroupRequest,
    requires=(requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),),
)
def join_group(request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    version = context.api_version
    # As in Kafka, where a protocol's name is its key: of two by one name the first counts.
    protocols: dict[str, GroupProtocol] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, GroupProtocol(protocol.name, protocol.metadata))
    outcome = context.services.groups.join(
        JoinRequest(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            context.client_id or "",
            context.client_host,
            request.session_timeout_ms,
            request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms,
            request.protocol_type,
            tuple(protocols.values()),
            requires_known_member_id=version >= 4,
            supports_skip_assignment=version >= 9,
            reason=request.reason,
            visible=visible_topics(context),
        )
    )
    return map_maybe_awaitable(outcome, lambda result: _answer(result, version))


def _answer(result: JoinResult, version: int) -> JoinGroupResponse:
    # Null is a name only from version 7 on.
    no_name = None if version >= 7 else ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=no_name if result.protocol_name is None else result.protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
