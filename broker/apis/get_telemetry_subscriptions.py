"""GetTelemetrySubscriptions, API key 71, version 0: what a client shall push, and how often (KIP-714).

A client without an instance id gets one. No metrics: it has nothing to push, and asks again after the interval.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ProtocolError
from ...protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ..metadata.client_telemetry import ACCEPTED_CODECS, attributes_of
from ..requests.registry import api

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, (0, 0), GetTelemetrySubscriptionsRequest, requires=())
def get_telemetry_subscriptions(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    telemetry = context.services.telemetry
    try:
        instance_id, subscription = telemetry.subscribe(
            request.client_instance_id, attributes(context), lambda: uuid.uuid4().bytes
        )
    except ProtocolError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=ACCEPTED_CODECS,
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=subscription.metrics,
    )


def attributes(context: RequestContext) -> dict[str, str]:
    """Attributes of the client that subscriptions can match."""
    connection = context.connection
    return attributes_of(context.client_id, connection.software, connection.peer_host, connection.peer_port)
