"""DescribeDelegationToken, API key 41, versions 0 to 3.

Delegation tokens are not built (KIP-48): authenticated clients are refused with DELEGATION_TOKEN_AUTH_DISABLED, others with
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..requests.registry import api
from .create_delegation_token import token_refusal

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(ApiKey.DESCRIBE_DELEGATION_TOKEN, (0, 3), DescribeDelegationTokenRequest, requires=(), many_names=True)
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=token_refusal(context))
