"""CreateAcls, API key 30, versions 1 to 3: there is no authorizer, so SECURITY_DISABLED for each rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from .describe_acls import NO_AUTHORIZER
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.CREATE_ACLS, (0, 3), CreateAclsRequest)
def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused] * len(request.creations))
