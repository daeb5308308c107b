"""AlterUserScramCredentials, API key 51, version 0: refused, as no listener would ask for them.

A credential that nobody checks would be a promise not kept: SECURITY_DISABLED for each user who is to get one.
Deletions find none, RESOURCE_NOT_FOUND; a user who is named twice is DUPLICATE_RESOURCE.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), AlterUserScramCredentialsRequest)
def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    given = {upsertion.name for upsertion in request.upsertions}
    times = Counter((deletion.name, deletion.mechanism) for deletion in request.deletions)
    times.update((upsertion.name, upsertion.mechanism) for upsertion in request.upsertions)
    twice = {name for (name, _), count in times.items() if count > 1}
    names = dict.fromkeys(name for name, _ in times)
    return AlterUserScramCredentialsResponse(results=[_result(name, name in twice, name in given) for name in names])


def _result(name: str, twice: bool, given: bool) -> AlterUserScramCredentialsResult:
    if twice:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"user '{name}' is in the request twice with one mechanism"
    elif given:
        code, message = ErrorCode.SECURITY_DISABLED, "no listener of this broker asks for SCRAM credentials"
    else:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"user '{name}' has no SCRAM credentials"
    return AlterUserScramCredentialsResult(user=name, error_code=code, error_message=message)
