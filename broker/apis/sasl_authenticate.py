"""SaslAuthenticate, API key 36, versions 0 to 2: no listener here authenticates, so ILLEGAL_SASL_STATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.SASL_AUTHENTICATE, (0, 2), SaslAuthenticateRequest)
def sasl_authenticate(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="this listener asks for no authentication"
    )
