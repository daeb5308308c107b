"""SaslHandshake (17): the mechanism that a client wants to authenticate with.

In version 1, SaslAuthenticate follows; in 0, bare tokens did (KIP-152).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, array, int16, string


class SaslHandshakeRequest(ApiMessage):
    """A mechanism by its name."""

    API_KEY = ApiKey.SASL_HANDSHAKE
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = None

    mechanism: str = string()


class SaslHandshakeResponse(ApiMessage):
    """The mechanisms that there are."""

    API_KEY = ApiKey.SASL_HANDSHAKE
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = None

    error_code: int = int16()
    mechanisms: Sequence[str] = array(STRING)
