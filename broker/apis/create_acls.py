"""CreateAcls, API key 30, versions 0 to 3: adds rules, which hold from the next request on. Needs ALTER on the cluster.

Each rule has a result of its own. A rule that exists already, or is in the request twice, is a success. Without an authorizer:
SECURITY_DISABLED for each. A host that is a range of addresses needs the level of metadata.version at which Kafka knows such
(UNSUPPORTED_VERSION).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ProtocolError
from ...protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ..metadata.features import METADATA_VERSION
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, batches
from ..runtime.error_codes import error_code
from ..security.acl.model import Acl, AclOperation
from .describe_acls import acl_authorizer

if TYPE_CHECKING:
    from ...protocol.messages.create_acls import AclCreation
    from ..requests.context import RequestContext


@api(
    ApiKey.CREATE_ACLS,
    (0, 3),
    CreateAclsRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
    audited=True,
    many_names=True,
)
async def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    try:
        from ..security.acl.rules import ADDRESS_RANGES_LEVEL

        authorizer = acl_authorizer(context)
        ranges = context.services.features.level(METADATA_VERSION) >= ADDRESS_RANGES_LEVEL
        rules: list[Acl | ProtocolError] = []
        for some in batches(request.creations, SLICE_UNITS):
            if rules:
                await context.next_turn()
            rules += [_rule(creation, ranges) for creation in some]
        created = iter(await authorizer.create([rule for rule in rules if isinstance(rule, Acl)]))
    except Exception as error:
        return CreateAclsResponse(results=[_result(error)] * len(request.creations))
    return CreateAclsResponse(results=[_result(next(created) if isinstance(rule, Acl) else rule) for rule in rules])


def _rule(creation: AclCreation, ranges: bool) -> Acl | ProtocolError:
    from ..security.acl.rules import new_rule

    try:
        return new_rule(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
            ranges=ranges,
        )
    except ProtocolError as error:
        return error


def _result(error: Exception | None) -> AclCreationResult:
    if error is None:
        return AclCreationResult()
    code, message = error_code(error)
    return AclCreationResult(error_code=code, error_message=message)
