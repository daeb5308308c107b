"""A SASL exchange over a connection: which mechanism, then what both sides say, and for how long that holds (KIP-43, KIP-368)."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ...protocol.client_security import ClientSecurity, ClientSecurityError
from ...protocol.errors import ErrorCode
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.oauth_token import TokenUnavailableError
from ...protocol.schema import ApiMessage
from ..exceptions import AuthenticationError

ResponseT = TypeVar("ResponseT", bound=ApiMessage)


class Ask(Protocol):
    """Sends a request, waits for its answer."""

    def __call__(self, request: ApiMessage, response: type[ResponseT], *, up_to: int, at_least: int) -> ResponseT: ...


def authenticate(ask: Ask, broker: str, security: ClientSecurity) -> float | None:
    """Blocks. How many seconds the broker takes this for good, or None: as long as the connection lives.

    AuthenticationError: it does not let us in, or does not know the password itself, or an issuer gives no token.
    TokenUnavailableError: the issuer can't be reached; the broker has not been asked anything yet.
    """
    tokens = security.tokens()
    try:
        first = tokens(None)
    except TokenUnavailableError:
        raise
    except ClientSecurityError as error:
        raise AuthenticationError(str(error)) from None
    hello = ask(SaslHandshakeRequest(mechanism=security.mechanism), SaslHandshakeResponse, up_to=1, at_least=1)
    if hello.error_code:
        offered = ", ".join(hello.mechanisms) or "none"
        raise AuthenticationError(
            f"{broker} does not take kafka.sasl.mechanism={security.mechanism}; it offers {offered}"
        )
    token, lifetime_ms = first, 0
    try:
        while token is not None:
            request = SaslAuthenticateRequest(auth_bytes=token)
            answer = ask(request, SaslAuthenticateResponse, up_to=2, at_least=0)
            if answer.error_code:
                why = answer.error_message or ErrorCode.SASL_AUTHENTICATION_FAILED.text
                raise AuthenticationError(f"{broker} does not let {security.who} in: {why}")
            lifetime_ms = int(answer.session_lifetime_ms)
            token = tokens(answer.auth_bytes)
    except ClientSecurityError as error:
        raise AuthenticationError(f"{broker}: {error}") from None
    return lifetime_ms / 1000 if lifetime_ms > 0 else None
