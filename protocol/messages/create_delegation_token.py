"""CreateDelegationToken (38): a token that others authenticate with (KIP-48).

Version 2 is flexible, 3 can make one for another user (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, bytes_, int16, int32, int64, string


class CreatableRenewers(Struct):
    """User, besides the owner, who may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(ApiMessage):
    """max_lifetime_ms -1 takes what the broker allows."""

    API_KEY = ApiKey.CREATE_DELEGATION_TOKEN
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 10_000

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: Sequence[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(ApiMessage):
    """The token, or an error; times in ms."""

    API_KEY = ApiKey.CREATE_DELEGATION_TOKEN
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    throttle_time_ms: int = int32()
