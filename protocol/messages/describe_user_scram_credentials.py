"""DescribeUserScramCredentials (50): which SCRAM credentials users have (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int8, int16, int32, string


class UserName(Struct):
    """A user."""

    name: str = string()


class DescribeUserScramCredentialsRequest(ApiMessage):
    """users null or empty asks for all."""

    API_KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    users: Sequence[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    """mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    """Result for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    credential_infos: Sequence[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(ApiMessage):
    """One result for each user."""

    API_KEY = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: Sequence[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
