"""ExpireDelegationToken (40): ends a token, now or later (KIP-48).

Version 2 is flexible.
"""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, bytes_, int16, int32, int64


class ExpireDelegationTokenRequest(ApiMessage):
    """The token by its HMAC."""

    API_KEY = ApiKey.EXPIRE_DELEGATION_TOKEN
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    hmac: bytes = bytes_()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(ApiMessage):
    """New expiry time of the token, in ms."""

    API_KEY = ApiKey.EXPIRE_DELEGATION_TOKEN
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
