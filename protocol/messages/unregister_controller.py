"""UnregisterController (94): forget a controller that has gone for good (Kafka 4.4)."""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, int16, int32, string


class UnregisterControllerRequest(ApiMessage):
    """Id of the controller."""

    API_KEY = ApiKey.UNREGISTER_CONTROLLER
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    controller_id: int = int32()


class UnregisterControllerResponse(ApiMessage):
    """Result of the one request."""

    API_KEY = ApiKey.UNREGISTER_CONTROLLER
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
