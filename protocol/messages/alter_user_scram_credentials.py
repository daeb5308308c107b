"""AlterUserScramCredentials (51): sets or deletes SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, bytes_, int8, int16, int32, string


class ScramCredentialDeletion(Struct):
    """mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    """The password comes salted, never plain."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_()


class AlterUserScramCredentialsRequest(ApiMessage):
    """A user may be named once."""

    API_KEY = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    deletions: Sequence[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: Sequence[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    """Result for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterUserScramCredentialsResponse(ApiMessage):
    """One result for each user."""

    API_KEY = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    results: Sequence[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
