"""LeaveGroup, API key 13, versions 0 to 5: members leave, or are removed.

- Up to 2 it is the one member that asks, and its error is the answer's; from 3 on several, static ones by their
  instance id alone if an administrator removes them (KIP-345); 5 has a reason (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ..groups.classic.events import LeavingMember
from ..requests.access import requires_field
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.LEAVE_GROUP,
    (0, 5),
    LeaveGroupRequest,
    requires=(requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),),
    many_names=True,
    is_slow_change=True,
)
def leave_group(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    single = context.api_version <= 2
    members = (
        [LeavingMember(request.member_id)]
        if single
        else [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members]
    )
    code, left = context.services.groups.leave(request.group_id, members)
    if single:
        return LeaveGroupResponse(error_code=left[0].error if left else code)
    return LeaveGroupResponse(
        error_code=code,
        members=[
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=each.error)
            for each in left
        ],
    )
