"""DescribeUserScramCredentials, API key 50, version 0: no user has any, as no listener authenticates.

All users are none; one that is asked for by name is RESOURCE_NOT_FOUND, and DUPLICATE_RESOURCE when asked for twice.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    times = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(results=[_result(name, count) for name, count in times.items()])


def _result(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"user '{name}' is in the request {times} times"
    else:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"user '{name}' has no SCRAM credentials"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
