"""DeleteAcls, API key 31, versions 0 to 3: deletes the rules that filters find. Needs ALTER on the cluster.

Each filter has a result of its own, with the rules that it found; what two of them find stands in both. Version 0 finds
literal rules alone. Without an authorizer: SECURITY_DISABLED for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ProtocolError
from ...protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, Turns, batches
from ..runtime.error_codes import error_code
from ..security.acl.model import Acl, AclOperation
from .describe_acls import acl_authorizer, checked_filter

if TYPE_CHECKING:
    from ...protocol.messages.delete_acls import DeleteAclsFilter
    from ..requests.context import RequestContext
    from ..security.acl.rules import AclFilter


@api(
    ApiKey.DELETE_ACLS,
    (0, 3),
    DeleteAclsRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
    audited=True,
    many_names=True,
)
async def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    filters: list[AclFilter | ProtocolError] = []
    turns = Turns(context)
    try:
        authorizer = acl_authorizer(context)
        for asked in request.filters:
            if turns.spent():
                await turns.next()
            filters.append(_filter(asked))
        deleted = iter(await authorizer.delete([wanted for wanted in filters if not isinstance(wanted, ProtocolError)]))
    except Exception as error:
        return DeleteAclsResponse(filter_results=[_failure(error)] * len(request.filters))
    results: list[DeleteAclsFilterResult] = []
    for wanted in filters:
        if turns.spent():
            await turns.next()
        if isinstance(wanted, ProtocolError):
            results.append(_failure(wanted))
            continue
        matching: list[DeleteAclsMatchingAcl] = []
        for some in batches(next(deleted), SLICE_UNITS):
            if turns.spent(len(some)):
                await turns.next()
            matching += [_deleted(rule) for rule in some]
        results.append(DeleteAclsFilterResult(matching_acls=matching))
    return DeleteAclsResponse(filter_results=results)


def _filter(wanted: DeleteAclsFilter) -> AclFilter | ProtocolError:
    try:
        return checked_filter(wanted)
    except ProtocolError as error:
        return error


def _failure(error: Exception) -> DeleteAclsFilterResult:
    code, message = error_code(error)
    return DeleteAclsFilterResult(error_code=code, error_message=message)


def _deleted(rule: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
