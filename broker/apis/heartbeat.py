"""Heartbeat, API key 12, versions 0 to 4: a member is alive; the answer tells it of a rebalance.

3 has static members (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..requests.access import requires_field
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.HEARTBEAT,
    (0, 4),
    HeartbeatRequest,
    requires=(requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),),
)
def heartbeat(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    code = context.services.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=code)
