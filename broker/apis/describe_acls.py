"""DescribeAcls, API key 29, versions 0 to 3: rules that a filter finds, by resource. Needs DESCRIBE on the cluster.

Version 0 finds literal rules alone, as it could not tell others apart. Without an authorizer: SECURITY_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ...protocol.messages.delete_acls import DeleteAclsFilter
    from ..requests.context import RequestContext
    from ..security.acl.authorizer import AclAuthorizer
    from ..security.acl.rules import AclFilter

NO_AUTHORIZER = "No Authorizer is configured; authorizer.class.name switches access rules on"


def acl_authorizer(context: RequestContext) -> AclAuthorizer:
    """The authorizer with its rules; whether the client may see or change them the dispatcher has asked.

    Raises `ProtocolError` SECURITY_DISABLED where there is none.
    """
    from ..security.acl.authorizer import AclAuthorizer

    authorizer = context.services.authorizer
    if not isinstance(authorizer, AclAuthorizer):
        raise ProtocolError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return authorizer


def checked_filter(wanted: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter that a request asks with. Raises `ProtocolError`."""
    from ..security.acl.rules import new_filter

    return new_filter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )


@api(
    ApiKey.DESCRIBE_ACLS,
    (0, 3),
    DescribeAclsRequest,
    requires=(requires_cluster(AclOperation.DESCRIBE),),
    many_names=True,
)
def describe_acls(
    request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse | ChunkedResult[DescribeAclsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: DescribeAclsRequest, context: RequestContext) -> Steps[DescribeAclsResponse]:
    try:
        authorizer = acl_authorizer(context)
        wanted = checked_filter(request)
    except ProtocolError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    rules = yield from authorizer.rules.find_in_steps(wanted)
    for rule in rules:
        yield 1
        key = (rule.resource_type, rule.resource_name, rule.pattern_type)
        resources.setdefault(key, []).append(
            AclDescription(
                principal=rule.principal, host=rule.host, operation=rule.operation, permission_type=rule.permission
            )
        )
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=rules)
            for (kind, name, pattern), rules in resources.items()
        ]
    )
