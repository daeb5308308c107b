"""CreateDelegationToken, API key 38, versions 0 to 3.

Tokens are switched off, as they are in Kafka without delegation.token.secret.key: DELEGATION_TOKEN_AUTH_DISABLED. Clients that
have not authenticated are refused: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED (KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from ..requests.registry import api
from ..security.principal import ANONYMOUS

if TYPE_CHECKING:
    from ..requests.context import RequestContext


def token_refusal(context: RequestContext) -> ErrorCode:
    """Error code for every request about tokens, which are not supported, chosen as Kafka does: a client of SSL counts
    as authenticated if it has a name.
    """
    connection = context.connection
    protocol = connection.listener.security_protocol
    if protocol == "PLAINTEXT" or (protocol == "SSL" and connection.principal == ANONYMOUS):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@api(ApiKey.CREATE_DELEGATION_TOKEN, (0, 3), CreateDelegationTokenRequest, requires=(), many_names=True)
def create_delegation_token(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    kind, _, name = context.connection.principal.partition(":")
    requester = kind, name
    response = CreateDelegationTokenResponse(
        error_code=token_refusal(context),
        principal_type=requester[0],
        principal_name=requester[1],
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if context.api_version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    return response
