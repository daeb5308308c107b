"""AlterUserScramCredentials, API key 51, version 0: sets and deletes SCRAM credentials of users (KIP-554).

Passwords come salted, so the broker never sees them. A user's changes hold together or not at all; users are independent.
As in Kafka, a salted password has any length and a salt may be empty; an empty salted password, which Kafka fails over
(UNKNOWN_SERVER_ERROR), is UNACCEPTABLE_CREDENTIAL here, and so are a name or a salt of more than 1024.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ..requests.access import requires_request
from ..requests.registry import api
from ..runtime.cooperative import batches
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ...protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
    from ..requests.context import RequestContext
    from ..security.credentials import Credential, Users

MAX_NAME = 1024
MAX_SALT_BYTES = 1024

_AT_ONCE = 100
"""Users that are changed together."""


@api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    (0, 0),
    AlterUserScramCredentialsRequest,
    requires=(requires_request(AclOperation.ALTER, ResourceType.CLUSTER),),
    audited=True,
    many_names=True,
)
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    is_allowed = context.allows(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    times = Counter((deletion.name, deletion.mechanism) for deletion in request.deletions)
    times.update((upsertion.name, upsertion.mechanism) for upsertion in request.upsertions)
    twice = {name for (name, _), count in times.items() if count > 1}
    names = dict.fromkeys(name for name, _ in times)
    if not is_allowed:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterUserScramCredentialsResponse(
            results=[
                AlterUserScramCredentialsResult(user=name, error_code=code, error_message=code.text) for name in names
            ]
        )
    users = context.services.users.get()
    deletions: dict[str, list[ScramCredentialDeletion]] = {}
    for deletion in request.deletions:
        deletions.setdefault(deletion.name, []).append(deletion)
    upsertions: dict[str, list[ScramCredentialUpsertion]] = {}
    for upsertion in request.upsertions:
        upsertions.setdefault(upsertion.name, []).append(upsertion)
    results: list[AlterUserScramCredentialsResult] = []
    for some in batches(names, _AT_ONCE):
        if results:
            await context.next_turn()
        changes = [
            _result(name, name in twice, deletions.get(name, []), upsertions.get(name, []), users) for name in some
        ]
        results += await asyncio.gather(*changes)
    return AlterUserScramCredentialsResponse(results=results)


async def _result(
    name: str,
    twice: bool,
    deletions: list[ScramCredentialDeletion],
    upsertions: list[ScramCredentialUpsertion],
    users: Users,
) -> AlterUserScramCredentialsResult:
    result = AlterUserScramCredentialsResult(user=name)
    try:
        if twice:
            raise ProtocolError(
                ErrorCode.DUPLICATE_RESOURCE, f"user '{name}' is in the request twice with one mechanism"
            )
        if not name or len(name) > MAX_NAME:
            raise ProtocolError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a user's name has 1 to {MAX_NAME} characters")
        changes: dict[str, Credential | None] = {}
        for deletion in deletions:
            mechanism = _mechanism(deletion.mechanism)
            if mechanism not in users.of(name):
                raise ProtocolError(ErrorCode.RESOURCE_NOT_FOUND, f"user '{name}' has no {mechanism} credential")
            changes[mechanism] = None
        for upsertion in upsertions:
            changes[_mechanism(upsertion.mechanism)] = _credential(upsertion)
        await users.change(name, changes)
    except Exception as error:
        result.error_code, result.error_message = error_code(error)
    return result


def _mechanism(number: int) -> str:
    from ..security.credentials import NUMBERS

    if number not in NUMBERS:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {number}; 1 is SHA-256, 2 is SHA-512"
        )
    return NUMBERS[number]


def _credential(upsertion: ScramCredentialUpsertion) -> Credential:
    from ..security.credentials import MAX_ITERATIONS, MIN_ITERATIONS, credential_of

    mechanism = _mechanism(upsertion.mechanism)
    if not MIN_ITERATIONS <= upsertion.iterations <= MAX_ITERATIONS:
        raise ProtocolError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{upsertion.iterations} iterations; allowed: {MIN_ITERATIONS} … {MAX_ITERATIONS}",
        )
    if len(upsertion.salt) > MAX_SALT_BYTES:
        raise ProtocolError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a salt has at most {MAX_SALT_BYTES} bytes")
    # A client that has another way from a password to its key than the hash's may keep a key of any length: it gets in with it.
    if not upsertion.salted_password:
        raise ProtocolError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salted password is empty")
    return credential_of(mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations)
