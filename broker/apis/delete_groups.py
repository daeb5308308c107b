"""DeleteGroups, API key 42, versions 0 to 2: forgets groups that have no members, and their offsets."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..groups.store.group import GroupType
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services


@api(
    ApiKey.DELETE_GROUPS,
    (0, 2),
    DeleteGroupsRequest,
    requires=(requires_each(AclOperation.DELETE, ResourceType.GROUP),),
    audited=True,
    many_names=True,
)
def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    services = context.services
    deletable = context.allowed(AclOperation.DELETE, ResourceType.GROUP, request.groups_names)
    shared = set(request.groups_names).intersection(services.groups.ids_of_type(GroupType.SHARE))
    outcomes = {
        name: ErrorCode.GROUP_AUTHORIZATION_FAILED
        if name not in deletable
        else _delete_shared(name, services)
        if name in shared
        else services.groups.delete_group(name)
        for name in dict.fromkeys(request.groups_names)
    }
    if any(inspect.isawaitable(outcome) for outcome in outcomes.values()):
        return _later(outcomes)
    return _respond({name: code for name, code in outcomes.items() if isinstance(code, ErrorCode)})


async def _delete_shared(name: str, services: Services) -> ErrorCode:
    """Delete a share group. Its delivery state goes first: a crash in between leaves a group that can be deleted again."""
    try:
        await services.share.get().groups.delete_state(name)
    except Exception as error:
        return error_code(error)[0]
    outcome = services.groups.delete_group(name)
    return outcome if isinstance(outcome, ErrorCode) else await outcome


async def _later(outcomes: dict[str, ErrorCode | Awaitable[ErrorCode]]) -> DeleteGroupsResponse:
    return _respond({name: code if isinstance(code, ErrorCode) else await code for name, code in outcomes.items()})


def _respond(codes: dict[str, ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=code) for name, code in codes.items()]
    )
