"""DescribeDelegationToken (41): tokens of some owners (KIP-48).

Version 2 is flexible, 3 tells who asked for them (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, bytes_, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    """A user."""

    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(ApiMessage):
    """owners null asks for all."""

    API_KEY = ApiKey.DESCRIBE_DELEGATION_TOKEN
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 10_000

    owners: Sequence[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    """User who may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    """One token; times in ms."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    renewers: Sequence[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(ApiMessage):
    """Tokens, or one error."""

    API_KEY = ApiKey.DESCRIBE_DELEGATION_TOKEN
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    error_code: int = int16()
    tokens: Sequence[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
