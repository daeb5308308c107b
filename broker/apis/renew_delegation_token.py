"""RenewDelegationToken, API key 39, versions 0 to 2.

Delegation tokens are not built (KIP-48): authenticated clients are refused with DELEGATION_TOKEN_AUTH_DISABLED, others with
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from ..requests.registry import api
from .create_delegation_token import token_refusal

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.RENEW_DELEGATION_TOKEN, (0, 2), RenewDelegationTokenRequest, requires=())
def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=token_refusal(context))
