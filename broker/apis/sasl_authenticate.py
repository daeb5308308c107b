"""SaslAuthenticate, API key 36, versions 0 to 2: one step of an authentication (KIP-152, KIP-368).

On a listener that asks for none: ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..requests.registry import api

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.SASL_AUTHENTICATE, (0, 2), SaslAuthenticateRequest, requires=())
async def sasl_authenticate(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    state = context.connection.authentication
    if state is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="this listener asks for no authentication"
        )
    return await state.authenticate(request.auth_bytes)
