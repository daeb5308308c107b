"""One blocking connection to one broker: a socket around `protocol.py`.

    connection.request(request, MetadataResponse, up_to=12)          one after the other
    ticket = connection.send(request, FetchResponse, up_to=12)       or the next one on its way before
    answer = connection.receive(ticket)                              the answer of the last is worked on

The broker's versions are asked for when the connection opens, and a request goes out in the highest that both sides and the
caller's code know. Where the settings ask for SASL, its exchange comes behind that, and again before the session that the
broker grants is over (KIP-368).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from ...protocol.client_security import ClientSecurity, ClientSecurityError
from ...protocol.errors import ErrorCode, ProtocolError, UnsupportedFieldError
from ...protocol.messages.api_versions import ApiVersionsResponse
from ...protocol.oauth_token import TokenUnavailableError
from ...protocol.schema import ApiMessage
from .conversations import MeantNode, SaslRefusedError, ask_versions, authenticate
from .protocol import ClientProtocol, NoCommonVersionError, Steps, Ticket, error_text, reading

Address = tuple[str, int]

#: The largest answer that is waited for. Kafka's own limit of a batch is 2 GiB, but a peer that sends one above this is not
#: Kafka.
MOST_ANSWER_BYTES = 1_100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Pickled with each task of a pipeline. Times in milliseconds, sizes in bytes; a buffer size of −1 leaves it to the system.

    Attributes:
        client_id: the name in the header of each request, for the broker's quotas and logs.
        software: this client's name, for the broker's statistics; "" to give none.
        most_answer_bytes: an answer that announces more ends the connection.
    """

    client_id: str = "tidelog"
    software: str = ""
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    most_answer_bytes: int = MOST_ANSWER_BYTES
    security: ClientSecurity = field(default_factory=ClientSecurity)


class Transport(Protocol):
    """Interface of a socket for a connection; calls take a bounded time and may raise OSError, TimeoutError among them."""

    def sendall(self, data: bytes | bytearray | memoryview, /) -> None:
        """Send all of `data`."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Waits for at least a byte; 0 at the end."""

    def close(self) -> None:
        """Close the socket."""


class TlsSettingsError(ClientSecurityError):
    """A file that TLS needs can't be used."""


class TlsFailedError(OSError):
    """The broker was reached, and TLS with it was not agreed on; `error` says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(*error.args)
        self.error = error

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.error,), vars(self)  # by default it would be made of `args`


def open_transport(address: Address, settings: ConnectionSettings) -> Transport:
    """A connected socket. OSError, TlsFailedError among them; TlsSettingsError."""
    # In time to find no one there; what comes later has the request's time.
    opened = socket.create_connection(address, settings.connect_timeout_ms / 1000)
    try:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if settings.receive_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        if settings.send_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.security.has_tls:
            opened = _secured(opened, address[0], settings.security)
        opened.settimeout(settings.request_timeout_ms / 1000)
    except BaseException:
        opened.close()
        raise
    return opened


def is_alert(error: OSError) -> bool:
    """True if the peer has ended TLS with an alert; False for a failure of the network."""
    import ssl

    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _secured(plain: socket.socket, host: str, security: ClientSecurity) -> socket.socket:
    try:
        # Made for each connection: certificates are renewed while workers live.
        context = security.tls_context()
    except ClientSecurityError as error:
        raise TlsSettingsError(str(error)) from None
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except OSError as error:
        raise TlsFailedError(error) from error


ResponseT = TypeVar("ResponseT", bound=ApiMessage)
T = TypeVar("T")

#: Shares of a session's time: behind the first it is renewed when no answer is waited for, behind the second in any case.
_RENEW, _MUST_RENEW = 0.8, 0.95


class Doing(Enum):
    """Activity of a connection when it failed."""

    CONNECT = auto()
    SEND = auto()
    RECEIVE = auto()


class ConnectionLostError(Exception):
    """The connection is of no use any more, for a reason that is no other exception: one sentence."""


class MisroutedError(ConnectionLostError):
    """The address leads to another node than the one that is meant (KIP-1242): what is known of the cluster does not hold."""


class Failure(NamedTuple):
    """Failure of a connection, for the owner's `explain` to make an exception of.

    Attributes:
        fact: OSError, EOFError (the broker ended the connection), ProtocolError, NoCommonVersionError, ConnectionLostError,
            ClientSecurityError and those of `conversations.py` and `open_transport`.
        api_name: of the request that was sent last, "" before the first; `version`: in which version.
        is_known: whether the broker has answered anything but ApiVersions, which it answers to strangers too.
    """

    fact: Exception
    doing: Doing
    address: Address
    settings: ConnectionSettings
    api_name: str
    version: int
    is_known: bool


Explain = Callable[[Failure], Exception]
_FACTS = (
    OSError, EOFError, ProtocolError, NoCommonVersionError, ConnectionLostError, ClientSecurityError,
    SaslRefusedError,
)  # fmt: skip
#: Met before a byte of the request was sent.
_UNSENT = (NoCommonVersionError, UnsupportedFieldError)


class Connection:
    """Opened by the constructor; one thread at a time. A failure closes it, and answers that were to come are lost; only a
    request that is not sent, as no common version can say it, leaves it open.

    Each call raises what `explain` makes of a failure. Nothing is repeated. `meant`: the node that the address should lead to, if
    it is known; a broker from Kafka 4.4 on says if it is another one.

    Attributes:
        session: times of `clock` at which the SASL session is to be renewed, and at which it has to be; None: it has no end.
    """

    def __init__(
        self,
        address: Address,
        settings: ConnectionSettings,
        *,
        explain: Explain,
        meant: MeantNode | None = None,
        connect: Callable[[Address, ConnectionSettings], Transport] = open_transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self._settings = settings
        self._explain = explain
        self._clock = clock
        self.session: tuple[float, float] | None = None
        self._is_known = False
        self._doing = Doing.CONNECT
        self._asked = ("", 0)
        self._protocol = ClientProtocol(settings.client_id)
        self._transport: Transport | None = None
        try:
            self._transport = connect(address, settings)
            answer = _hold(ask_versions(settings.software, meant), self._exchange)
            if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and meant is not None:
                raise MisroutedError(f"it is not node {meant.node_id} of cluster {meant.cluster_id} any more")
            if answer.error_code:
                raise ConnectionLostError(f"it does not list its API versions: {error_text(answer.error_code)}")
            self._protocol.learn(answer)
            self._authenticate()
        except _FACTS as fact:
            self.close()
            self._fail(fact)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        """False from the first failure on, or from `close`."""
        return self._transport is not None

    @property
    def has_waiting(self) -> bool:
        """True while an answer to `send` is to come: then `request` has to wait, or to go by another connection."""
        return self._protocol.has_waiting

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """API key → lowest and highest version that the broker speaks."""
        return self._protocol.versions

    @property
    def features(self) -> dict[str, int]:
        """The cluster's finalized features and their levels (KIP-584); none before Kafka 2.7."""
        return self._protocol.features

    def close(self) -> None:
        """Gives the socket back; may be called again."""
        transport, self._transport = self._transport, None
        self._protocol.forget()
        if transport is not None:
            with contextlib.suppress(OSError):
                transport.close()

    def version_of(self, request: type[ApiMessage], up_to: int | None = None, at_least: int = 0) -> int:
        """The version that a request of that kind would have."""
        try:
            return self._protocol.version_of(request, up_to, at_least)
        except NoCommonVersionError as fact:
            self._fail(fact)

    def request(
        self, request: ApiMessage, response: type[ResponseT], *, up_to: int | None = None, at_least: int = 0
    ) -> ResponseT:
        """Sends and waits. Answers that are still to come from `send` must have been taken."""
        assert not self._protocol.has_waiting
        return self.receive(self.send(request, response, up_to=up_to, at_least=at_least))

    def send(
        self, request: ApiMessage, response: type[ResponseT], *, up_to: int | None = None, at_least: int = 0
    ) -> Ticket[ResponseT]:
        """Sends; `receive` takes the answer, in the order of sending. May renew the SASL session before."""
        try:
            if self.session is not None:
                self._keep_session(*self.session)
            return self._send(request, response, self._protocol.version_of(type(request), up_to, at_least))
        except _FACTS as fact:
            self._fail(fact)

    def receive(self, ticket: Ticket[ResponseT], buffer: bytearray | None = None) -> ResponseT:
        """Waits for the answer. It may look into `buffer`, when that has room for it: use it again once it is worked off."""
        try:
            return self._receive(ticket, buffer)
        except _FACTS as fact:
            self._fail(fact)
        except BaseException:
            self.close()  # interrupted: how much of the answer was read?
            raise

    def run(self, steps: Steps[T]) -> T:
        """Holds a conversation: a `request` for all that it yields. Returns what came of it."""
        return _hold(steps, self.request)

    # -- inside: facts are raised as they are

    def _exchange(
        self, request: ApiMessage, response: type[ResponseT], *, up_to: int | None = None, at_least: int = 0
    ) -> ResponseT:
        version = self._protocol.version_of(type(request), up_to, at_least)
        return self._receive(self._send(request, response, version), None)

    def _send(self, request: ApiMessage, response: type[ResponseT], version: int) -> Ticket[ResponseT]:
        if self._transport is None:
            raise ConnectionLostError("the connection is closed")
        self._doing, self._asked = Doing.SEND, (request.API_KEY.name, version)
        ticket, data = self._protocol.send(request, response, version)
        try:
            self._transport.sendall(data)
        except BaseException:
            self.close()  # also where a user interrupts it: nobody knows how much of the request is on its way
            raise
        return ticket

    def _receive(self, ticket: Ticket[ResponseT], buffer: bytearray | None) -> ResponseT:
        if self._transport is None or not self._protocol.is_next(ticket):
            # A failure in between has closed the connection.
            raise ConnectionLostError("the connection was closed before the answer came")
        self._doing, self._asked = Doing.RECEIVE, (ticket.response.API_KEY.name, ticket.version)
        answer = self._protocol.receive(ticket, self._read(self._transport, buffer))
        self._is_known = self._is_known or ticket.response is not ApiVersionsResponse
        return answer

    def _read(self, transport: Transport, buffer: bytearray | None) -> memoryview:
        steps = reading(self._settings.most_answer_bytes, buffer)
        room = next(steps)
        while True:
            got = transport.recv_into(room)
            if not got:
                raise EOFError("the connection was closed")
            try:
                room = steps.send(got)
            except StopIteration as end:
                frame: memoryview = end.value
                return frame

    def _authenticate(self) -> None:
        security = self._settings.security
        if not security.has_sasl:
            return
        began = self._clock()
        self.session = None
        seconds = _hold(authenticate(security.mechanism, security.tokens()), self._exchange)
        if seconds is not None:
            self.session = (began + _RENEW * seconds, began + _MUST_RENEW * seconds)

    def _keep_session(self, due: float, over: float) -> None:
        now = self._clock()
        if now >= due and not self._protocol.has_waiting:
            try:
                self._authenticate()
            except TokenUnavailableError:
                if now >= over:
                    raise
                # The session still holds; the issuer may be back by then.
                self.session = (now + (over - now) / 4, over)
            except BaseException:
                self.close()  # half of an exchange is behind it
                raise
        elif now >= over:
            # The broker would end the connection at the next request; the caller sends it again on a new one.
            raise ConnectionLostError("the session's time is over before its answers came")

    def _fail(self, fact: Exception) -> NoReturn:
        if not isinstance(fact, _UNSENT):
            self.close()
        failure = Failure(fact, self._doing, self.address, self._settings, *self._asked, self._is_known)
        explained = self._explain(failure)
        raise explained from None if explained is fact else fact


def _hold(steps: Steps[T], ask: Callable[..., ApiMessage]) -> T:
    """Run a conversation: `ask` answers its requests. Returns the conversation's result."""
    answer: ApiMessage | None = None
    while True:
        try:
            request, response, up_to, at_least = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        answer = ask(request, response, up_to=up_to, at_least=at_least)
