"""ExpireDelegationToken, API key 40, versions 1 and 2.

Tokens are for those who authenticated; listeners here ask nobody to, so DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from .create_delegation_token import token_refusal
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, (0, 2), ExpireDelegationTokenRequest, asks=())
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=token_refusal(context))
