"""PushTelemetry (72): metrics of a client, as OpenTelemetry writes them (KIP-714)."""

from __future__ import annotations

from ..api_keys import ApiKey
from ..schema import ApiMessage, boolean, bytes_, int8, int16, int32, uuid


class PushTelemetryRequest(ApiMessage):
    """metrics may be compressed with any codec that was offered."""

    API_KEY = ApiKey.PUSH_TELEMETRY
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = bytes_()


class PushTelemetryResponse(ApiMessage):
    """Result of the push."""

    API_KEY = ApiKey.PUSH_TELEMETRY
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
