"""Conversations of several requests: the opening of a connection, and the look-up of coordinators.

    ask_versions       the versions that the broker speaks (KIP-511), and whether it is the broker that is meant (KIP-1242)
    authenticate       SASL: who asks (KIP-43, KIP-368)
    find_coordinators  coordinators of groups and transactional ids: one key at a time before version 4 (KIP-699)

Each is a generator (`protocol.Steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ...protocol.client_security import ClientSecurityError
from ...protocol.errors import ErrorCode, unpickled
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from .protocol import Asked, Steps


class SaslRefusedError(Exception):
    """The broker does not let this user in; or does not offer the mechanism: `offered` names those that it does, else it is None.
    `why` is the broker's own sentence, where it has one.
    """

    def __init__(self, code: int, why: str | None, offered: str | None = None) -> None:
        super().__init__(why or ErrorCode.SASL_AUTHENTICATION_FAILED.text)
        self.code = code
        self.why = why
        self.offered = offered

    def __reduce__(self) -> tuple[object, ...]:
        return unpickled, (type(self), self.args), vars(self)


class ExchangeFailedError(ClientSecurityError):
    """The broker's messages in the exchange don't prove that it knows the password, or are malformed."""


class MeantNode(NamedTuple):
    """Node that a connection is to reach, as metadata have named it."""

    cluster_id: str
    node_id: int


#: Version of ApiVersions from which on a broker can be told which node is meant: Kafka 4.4.
MEANT_FROM = 5


def ask_versions(software: str, meant: MeantNode | None = None) -> Steps[ApiVersionsResponse]:
    """Asks what the broker speaks. `software`: this client's name, for the broker's statistics; "" to give none.

    `meant`: another node than this one answers REBOOTSTRAP_REQUIRED (KIP-1242). Brokers of before Kafka 4.4 are asked once
    more, without it; so give it to those that are known to speak version 5. It needs a name.
    """
    if meant is not None and software:
        telling = ApiVersionsRequest(
            client_software_name=software,
            client_software_version="1",
            cluster_id=meant.cluster_id,
            node_id=meant.node_id,
        )
        checked: ApiVersionsResponse = yield Asked(telling, ApiVersionsResponse, MEANT_FROM, MEANT_FROM)
        if checked.error_code != ErrorCode.UNSUPPORTED_VERSION:
            return checked
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
    answer: ApiVersionsResponse = yield Asked(request, ApiVersionsResponse, 3 if software else 0)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and software:  # before Kafka 2.4
        answer = yield Asked(ApiVersionsRequest(), ApiVersionsResponse, 0)
    return answer


def authenticate(mechanism: str, tokens: Callable[[bytes | None], bytes | None]) -> Steps[float | None]:
    """Proves who asks, by `tokens` (see `ClientSecurity.tokens`). Returns for how many seconds the broker takes it for good, or
    None: as long as the connection lives.

    SaslRefusedError, ExchangeFailedError; and what the first call of `tokens` raises, before the broker
    has been asked anything: TokenUnavailableError, ClientSecurityError.
    """
    token = tokens(None)
    request = SaslHandshakeRequest(mechanism=mechanism)
    hello: SaslHandshakeResponse = yield Asked(request, SaslHandshakeResponse, 1, 1)
    if hello.error_code:
        offered = ", ".join(hello.mechanisms) or "none"
        raise SaslRefusedError(hello.error_code, f"offered: {offered}", offered)
    lifetime_ms = 0
    while token is not None:
        answer: SaslAuthenticateResponse = yield Asked(
            SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, 2
        )
        if answer.error_code:
            raise SaslRefusedError(answer.error_code, answer.error_message)
        lifetime_ms = int(answer.session_lifetime_ms)
        try:
            token = tokens(answer.auth_bytes)
        except ClientSecurityError as error:
            raise ExchangeFailedError(str(error)) from None
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


#: From this version on, one request asks for several keys.
_MANY_FROM = 4


class CoordinatorKind(IntEnum):
    """Kind of a coordinator's keys, by FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def label(self) -> str:
        """The kind as messages for people have it."""
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


def find_coordinators(
    kind: CoordinatorKind, keys: Sequence[str], version: int, up_to: int | None = None
) -> Steps[Sequence[Coordinator]]:
    """Looks for the coordinators of `keys`. `version`: of FindCoordinator, as the connection's `version_of` gives it for `up_to`.

    Each has its key, and an error code: without one, the broker's id and address. Before version 4, no key behind one with an
    error is asked for.
    """
    at_least = int(kind)  # version 0 knows groups only
    if version >= _MANY_FROM:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        answer: FindCoordinatorResponse = yield Asked(request, FindCoordinatorResponse, up_to, at_least)
        return answer.coordinators
    found = []
    for key in keys:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        single: FindCoordinatorResponse = yield Asked(request, FindCoordinatorResponse, up_to, at_least)
        found.append(
            Coordinator(
                key=key, error_code=single.error_code, node_id=single.node_id, host=single.host, port=single.port
            )
        )
        if single.error_code:
            break
    return found
