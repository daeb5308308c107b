"""RenewDelegationToken, API key 39, versions 1 and 2.

Tokens are for those who authenticated; listeners here ask nobody to, so DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from .create_delegation_token import token_refusal
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext


@api(ApiKey.RENEW_DELEGATION_TOKEN, (0, 2), RenewDelegationTokenRequest, asks=())
def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=token_refusal(context))
