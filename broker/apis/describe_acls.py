"""DescribeAcls, API key 29, versions 1 to 3: there is no authorizer, so SECURITY_DISABLED, as Kafka says without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext

NO_AUTHORIZER = "No Authorizer is configured on the broker"


@api(ApiKey.DESCRIBE_ACLS, (0, 3), DescribeAclsRequest)
def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
