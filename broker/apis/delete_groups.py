"""DeleteGroups, API key 42, versions 0 to 3: forgets groups that have no members, and their offsets.

- 3 says in words why a group could not be deleted, for each such group (KIP-1331).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..groups.store.group import GroupType
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services


class _Outcome(NamedTuple):
    """What came of one group, with a sentence for an error where there is a better one than the code's."""

    code: ErrorCode
    message: str = ""


_Outcomes = dict[str, "ErrorCode | Awaitable[ErrorCode | _Outcome]"]
"""Outcome of each group; of some it is known later."""
_UNITS_OF_A_RECORD = 20
"""Work of a group that is there: a batch is written for it."""


@api(
    ApiKey.DELETE_GROUPS,
    (0, 3),
    DeleteGroupsRequest,
    requires=(requires_each(AclOperation.DELETE, ResourceType.GROUP),),
    audited=True,
    many_names=True,
)
def delete_groups(
    request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    outcomes = run_in_chunks(_steps(request, context), context)
    if isinstance(outcomes, ChunkedResult) or any(inspect.isawaitable(outcome) for outcome in outcomes.values()):
        return _later(outcomes)
    return _respond({name: _Outcome(code) for name, code in outcomes.items() if isinstance(code, ErrorCode)})


def _steps(request: DeleteGroupsRequest, context: RequestContext) -> Steps[_Outcomes]:
    services = context.services
    deletable = context.allowed(AclOperation.DELETE, ResourceType.GROUP, request.groups_names)
    shared = set(request.groups_names).intersection(services.groups.ids_of_type(GroupType.SHARE))
    outcomes: _Outcomes = {}
    for name in dict.fromkeys(request.groups_names):
        yield 1
        if name not in deletable:
            outcomes[name] = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif name in shared:
            outcomes[name] = _delete_shared(name, services)
        else:
            outcome = outcomes[name] = services.groups.delete_group(name)
            if outcome is not ErrorCode.GROUP_ID_NOT_FOUND:
                yield _UNITS_OF_A_RECORD
    return outcomes


async def _delete_shared(name: str, services: Services) -> _Outcome:
    """Delete a share group. Its delivery state goes first: a crash in between leaves a group that can be deleted again."""
    try:
        await services.share.get().groups.delete_state(name)
    except Exception as error:
        return _Outcome(*error_code(error))
    code = services.groups.delete_group(name)
    return _Outcome(code if isinstance(code, ErrorCode) else await code)


async def _later(outcomes: _Outcomes | ChunkedResult[_Outcomes]) -> DeleteGroupsResponse:
    done: dict[str, _Outcome] = {}
    for name, outcome in (await outcomes if isinstance(outcomes, ChunkedResult) else outcomes).items():
        found = outcome if isinstance(outcome, ErrorCode) else await outcome
        done[name] = _Outcome(found) if isinstance(found, ErrorCode) else found
    return _respond(done)


def _respond(outcomes: dict[str, _Outcome]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=name, error_code=code, error_message=(message or code.text) if code else None)
            for name, (code, message) in outcomes.items()
        ]
    )
