"""GetTelemetrySubscriptions (71): which metrics of its own a client shall push, and how often (KIP-714)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT8, STRING, ApiMessage, array, boolean, int16, int32, uuid


class GetTelemetrySubscriptionsRequest(ApiMessage):
    """A client without an id sends zeros, and gets one."""

    API_KEY = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(ApiMessage):
    """Metrics by prefix of their names; an empty text stands for all."""

    API_KEY = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: Sequence[int] = array(INT8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: Sequence[str] = array(STRING)
