"""SaslAuthenticate (36): one step of an authentication (KIP-152).

Version 1 tells how long the session lasts (KIP-368), 2 is flexible.
"""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, bytes_, int16, int64, string


class SaslAuthenticateRequest(ApiMessage):
    """Bytes of the SASL mechanism, from the client."""

    API_KEY = ApiKey.SASL_AUTHENTICATE
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(ApiMessage):
    """Bytes of the SASL mechanism, from the broker."""

    API_KEY = ApiKey.SASL_AUTHENTICATE
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64("1+", default=0, ignorable=True)
