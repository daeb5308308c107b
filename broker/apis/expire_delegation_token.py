"""ExpireDelegationToken, API key 40, versions 0 to 2.

Delegation tokens are not built (KIP-48): authenticated clients are refused with DELEGATION_TOKEN_AUTH_DISABLED, others with
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ..requests.registry import api
from .create_delegation_token import token_refusal

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, (0, 2), ExpireDelegationTokenRequest, requires=())
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=token_refusal(context))
