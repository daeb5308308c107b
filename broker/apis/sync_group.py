"""SyncGroup, API key 14, versions 0 to 5: a member asks what it owns; the leader says what everybody owns.

- 3: static members (KIP-345); 5: the member says which protocol it thinks the group has (KIP-559), and must.
- The answer comes when the leader's assignment is in the log. Others have their turn between parts of very many assignments.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..groups.classic.events import SyncRequest, SyncResult
from ..network.pending_response import map_maybe_awaitable
from ..requests.access import requires_field
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_Reply = SyncGroupResponse | Awaitable[SyncGroupResponse]


@api(
    ApiKey.SYNC_GROUP,
    (0, 5),
    SyncGroupRequest,
    requires=(requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),),
    many_names=True,
    waits_for_others=True,
)
def sync_group(request: SyncGroupRequest, context: RequestContext) -> _Reply | ChunkedResult[_Reply]:
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    answer = run_in_chunks(_steps(request, context), context)
    return answer  # noqa: RET504 -- mypy would take the whole for what is awaited


def _steps(request: SyncGroupRequest, context: RequestContext) -> Steps[_Reply]:
    assignments: dict[str, bytes] = {}
    for each in request.assignments:
        assignments[each.member_id] = each.assignment
        yield 1
    outcome = context.services.groups.sync(
        SyncRequest(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            assignments,
        )
    )
    return map_maybe_awaitable(outcome, _answer)


def _answer(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
