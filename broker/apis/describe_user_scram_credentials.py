"""DescribeUserScramCredentials, API key 50, version 0: which SCRAM credentials users have (KIP-554), never what they are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import SLICE_UNITS, ChunkedResult, Steps, batches, run_in_chunks
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..security.credentials import Users


@api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    (0, 0),
    DescribeUserScramCredentialsRequest,
    requires=(requires_cluster(AclOperation.DESCRIBE),),
    many_names=True,
)
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse | ChunkedResult[DescribeUserScramCredentialsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> Steps[DescribeUserScramCredentialsResponse]:
    users = context.services.users.get()
    times: Counter[str] = Counter()
    for some in batches((user.name for user in request.users or ()), SLICE_UNITS):
        yield SLICE_UNITS // 10
        times.update(some)
    is_asked = bool(times)
    if not is_asked:
        times = Counter(users.names())
    results = []
    for name, count in times.items():
        yield 1
        if not is_asked and not users.of(name):
            continue  # deleted since the last turn: nobody has asked for this one
        results.append(_result(name, count, users))
    return DescribeUserScramCredentialsResponse(results=results)


def _result(name: str, times: int, users: Users) -> DescribeUserScramCredentialsResult:
    from ..security.credentials import NUMBERS

    result = DescribeUserScramCredentialsResult(user=name)
    credentials = users.of(name)
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"user '{name}' is in the request {times} times"
    elif not credentials:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"user '{name}' has no SCRAM credentials"
    else:
        result.credential_infos = [
            CredentialInfo(mechanism=number, iterations=credentials[mechanism].iterations)
            for number, mechanism in NUMBERS.items()
            if mechanism in credentials
        ]
    return result
