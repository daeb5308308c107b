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
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
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
def leave_group(
    request: LeaveGroupRequest, context: RequestContext
) -> LeaveGroupResponse | ChunkedResult[LeaveGroupResponse]:
    if context.api_version <= 2:
        code, left = context.services.groups.leave(request.group_id, [LeavingMember(request.member_id)])
        return LeaveGroupResponse(error_code=left[0].error if left else code)
    return run_in_chunks(_steps(request, context), context)


def _steps(request: LeaveGroupRequest, context: RequestContext) -> Steps[LeaveGroupResponse]:
    """All leave at once, as the group has to see it, also where the client goes meanwhile; what is before and after it is not."""
    leaving: list[LeavingMember] = []
    for each in request.members:
        leaving.append(LeavingMember(each.member_id, each.group_instance_id, each.reason))
        yield 1
    code, left = context.services.groups.leave(request.group_id, leaving)
    rows: list[MemberResponse] = []
    for gone in left:
        yield 1
        rows.append(
            MemberResponse(member_id=gone.member_id, group_instance_id=gone.group_instance_id, error_code=gone.error)
        )
    return LeaveGroupResponse(error_code=code, members=rows)
