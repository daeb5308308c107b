"""CreateDelegationToken, API key 38, versions 1 to 3.

Tokens are for those who authenticated; listeners here ask nobody to, so DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext

ANONYMOUS = ("User", "ANONYMOUS")
"""The principal of whoever comes by a listener that asks for no credentials."""


@api(ApiKey.CREATE_DELEGATION_TOKEN, (0, 3), CreateDelegationTokenRequest)
def create_delegation_token(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=ANONYMOUS[0],
        principal_name=ANONYMOUS[1],
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if context.api_version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = ANONYMOUS
    return response
