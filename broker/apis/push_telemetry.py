"""PushTelemetry, API key 72, version 0: metrics of a client, as OpenTelemetry writes them (KIP-714).

They are decompressed, bounded, in the pool: what can't be is INVALID_RECORD, as a plug-in of Kafka's that fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ...protocol.records.compression import decompress
from ...protocol.records.exceptions import RecordError
from ..metadata.client_telemetry import MOST_GROWTH
from ..requests.registry import api
from .get_telemetry_subscriptions import attributes

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.PUSH_TELEMETRY, (0, 0), PushTelemetryRequest, requires=())
async def push_telemetry(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    services = context.services
    telemetry, metrics, codec = services.telemetry, request.metrics, request.compression_type
    try:
        telemetry.push(
            request.client_instance_id,
            attributes(context),
            request.subscription_id,
            codec,
            len(metrics),
            request.terminating,
        )
    except ProtocolError as error:
        return PushTelemetryResponse(error_code=error.code)
    if codec and metrics:
        try:
            await services.loop.run_in_executor(
                services.io_pool, decompress, codec, metrics, MOST_GROWTH * telemetry.max_bytes
            )
        except RecordError:
            telemetry.refused()
            return PushTelemetryResponse(error_code=ErrorCode.INVALID_RECORD)
    telemetry.taken(len(metrics))
    return PushTelemetryResponse()
