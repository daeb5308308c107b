"""UnregisterBroker (64): forgets a broker that has gone for good."""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, int16, int32, string


class UnregisterBrokerRequest(ApiMessage):
    """Id of the broker to remove."""

    API_KEY = ApiKey.UNREGISTER_BROKER
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    broker_id: int = int32()


class UnregisterBrokerResponse(ApiMessage):
    """Result of removing the broker's registration."""

    API_KEY = ApiKey.UNREGISTER_BROKER
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
