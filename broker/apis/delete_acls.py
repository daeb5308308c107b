"""DeleteAcls, API key 31, versions 1 to 3: there is no authorizer, so SECURITY_DISABLED for each filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from .describe_acls import NO_AUTHORIZER
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.DELETE_ACLS, (0, 3), DeleteAclsRequest)
def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
