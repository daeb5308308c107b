"""SaslHandshake, API key 17, versions 0 and 1: a client names its mechanism.

On a listener that asks for no authentication: ILLEGAL_SASL_STATE, as on Kafka's. Requests come here through the gate, and from
clients that authenticate again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ..requests.registry import api

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.SASL_HANDSHAKE, (0, 1), SaslHandshakeRequest, requires=())
def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    state = context.connection.authentication
    if state is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return state.handshake(request.mechanism, context.api_version)
