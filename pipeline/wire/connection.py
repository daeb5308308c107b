"""One connection to one broker: requests out, answers in, in the same order.

    connection.request(request, MetadataResponse, up_to=12)          one after the other
    ticket = connection.send(request, FetchResponse, up_to=12)       or the next one on its way before
    answer = connection.receive(ticket)                              the answer of the last is worked on

The broker's versions are asked for when the connection opens (ApiVersions, KIP-511), and a request goes out in the highest
that both sides and the caller's code know. Where the settings ask for SASL, its exchange comes behind that, and again before the
session that the broker grants is over (KIP-368).
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.framing import room_for_answer
from ...protocol.headers import RequestHeader, parse_response_header, request_header_bytes
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.oauth_token import TokenUnavailableError
from ...protocol.primitives import INT32
from ...protocol.schema import ApiMessage, decode, encode_into
from ..exceptions import AuthenticationError, BrokerUnreachableError, UnsupportedBrokerError
from .authentication import authenticate
from .settings import Address, ClientSettings
from .transport import Transport, is_alert, open_transport

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

#: The largest answer that is waited for. Kafka's own limit of a batch is 2 GiB, but who sends one above this is not Kafka.
MOST_ANSWER_BYTES = 1_100_000_000
#: Shares of a session's time: behind the first it is renewed when no answer is waited for, behind the second in any case.
_RENEW, _MUST_RENEW = 0.8, 0.95
#: Kafka's errors by number.
ERRORS = {int(code): code for code in ErrorCode}
_SOFTWARE = "tidelog-pipeline"
_ASKS_FOR_MORE = "; a listener with TLS or SASL needs kafka.security.protocol"
_UNSUPPORTED_VERSION = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class Ticket(Generic[ResponseT]):
    """A request whose answer has not been taken yet."""

    response: type[ResponseT]
    version: int
    correlation_id: int


class Connection:
    """Opened by the constructor; one thread at a time. Any error closes it, and answers that were to come are lost.

    Raises BrokerUnreachableError (which is retriable) for whatever happens to the network or to the bytes on it,
    UnsupportedBrokerError when the broker does not speak what is asked, and AuthenticationError when it lets nobody in like this.

    Attributes:
        features: the cluster's finalized features and their levels (KIP-584); none before Kafka 2.7.
    """

    def __init__(
        self,
        address: Address,
        settings: ClientSettings,
        connect: Callable[[Address, ClientSettings], Transport] = open_transport,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self._settings = settings
        self._clock = clock
        self._session: tuple[float, float] | None = None
        self._is_known = False
        self._correlation_id = 0
        self._waiting: deque[Ticket[Any]] = deque()
        self._size = bytearray(INT32.size)
        self._transport: Transport | None = None
        try:
            self._transport = connect(address, settings)
        except OSError as error:
            self._fail(f"no connection ({_reason(error)})", error)
        try:
            self._versions, self.features = self._ask_versions()
            self._authenticate()
        except TokenUnavailableError as error:
            self._fail(str(error), error)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def close(self) -> None:
        """Again and again is fine."""
        transport, self._transport = self._transport, None
        self._waiting.clear()
        if transport is not None:
            with contextlib.suppress(OSError):
                transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def version_of(self, request: type[ApiMessage], up_to: int, at_least: int = 0) -> int:
        """The version that a request of that kind would have; UnsupportedBrokerError when there is none."""
        key = int(request.API_KEY)
        low, high = self._versions.get(key, (0, -1))
        lowest, highest = max(low, at_least, request.VERSIONS[0]), min(high, up_to, request.VERSIONS[1])
        if lowest > highest:
            there = f"versions {low} to {high} of it" if high >= 0 else "none of it"
            raise UnsupportedBrokerError(
                f"{self._name}: the broker speaks {there}, and {request.API_KEY.name} {at_least} to {up_to} is needed"
            )
        return highest

    def request(self, request: ApiMessage, response: type[ResponseT], *, up_to: int, at_least: int = 0) -> ResponseT:
        """Sends and waits. Answers that are still to come from `send` must have been taken."""
        assert not self._waiting
        return self.receive(self.send(request, response, up_to=up_to, at_least=at_least))

    def send(
        self, request: ApiMessage, response: type[ResponseT], *, up_to: int, at_least: int = 0
    ) -> Ticket[ResponseT]:
        """Sends; `receive` takes the answer, in the order of sending."""
        if self._session is not None:
            self._keep_session(*self._session)
        return self._send(request, response, self.version_of(type(request), up_to, at_least))

    def receive(self, ticket: Ticket[ResponseT], buffer: bytearray | None = None) -> ResponseT:
        """Waits for the answer. It may look into `buffer`, when that has room for it: use it again once it is worked off."""
        if self._transport is None or not self._waiting or self._waiting[0] is not ticket:
            # A failure in between has closed the connection.
            self._fail("the connection was closed before the answer came", None)
        frame = self._receive_frame(buffer)
        self._waiting.popleft()
        try:
            correlation_id, body = parse_response_header(frame, int(ticket.response.API_KEY), ticket.version)
            if correlation_id != ticket.correlation_id:
                self._fail(f"answer {correlation_id} came for request {ticket.correlation_id}", None)
            answer = decode(ticket.response, ticket.version, frame, body)[0]
        except ProtocolError as error:
            self._fail(f"an answer cannot be read ({error})", error)
        self._is_known = True
        return answer

    @property
    def _name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def _send(self, request: ApiMessage, response: type[ResponseT], version: int) -> Ticket[ResponseT]:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(int(request.API_KEY), version, self._correlation_id, self._settings.client_id)
        out = bytearray(INT32.size)
        out += request_header_bytes(header)
        encode_into(request, version, out)
        INT32.pack_into(out, 0, len(out) - INT32.size)
        if self._transport is None:
            self._fail("the connection is closed", None)
        try:
            self._transport.sendall(out)
        except OSError as error:
            self._fail(f"the connection broke ({_reason(error)})", error)
        ticket = Ticket(response, version, self._correlation_id)
        self._waiting.append(ticket)
        return ticket

    def _receive_frame(self, buffer: bytearray | None) -> memoryview:
        self._fill(memoryview(self._size))
        (size,) = INT32.unpack(self._size)
        if not INT32.size <= size <= MOST_ANSWER_BYTES:
            kind = "" if self._settings.security.has_tls else " without TLS (kafka.security.protocol)"
            self._fail(f"an answer of {size} bytes is announced; is this a Kafka listener{kind}?", None)
        if buffer is not None and len(buffer) >= size:
            frame = memoryview(buffer)[:size]
            self._fill(frame)
            return frame
        return memoryview(self._receive_growing(size))

    def _receive_growing(self, size: int) -> bytearray:
        """So many bytes; memory follows what has come, not what was announced."""
        data = bytearray()
        while (have := len(data)) < size:
            data += bytes(room_for_answer(have, size) - have)
            with memoryview(data) as room, room[have:] as rest:
                self._fill(rest)
        return data

    def _fill(self, view: memoryview) -> None:
        assert self._transport is not None
        filled = 0
        try:
            while filled < len(view):
                with view[filled:] as rest:  # released at once, or the buffer below it could not grow
                    got = self._transport.recv_into(rest)
                if not got:
                    hint = "" if self._settings.security.has_sasl or self._is_known else _ASKS_FOR_MORE
                    self._fail(f"the broker closed the connection before it answered{hint}", None)
                filled += got
        except OSError as error:
            if not self._is_known and is_alert(error):  # TLS 1.3 tells so behind the handshake
                self.close()
                raise AuthenticationError(
                    f"{self._name} does not take the client's certificate ({_reason(error)}); kafka.ssl.keystore.location "
                    "names one"
                ) from error
            self._fail(f"no answer ({_reason(error)})", error)

    def _ask_versions(self) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
        ask = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="1")
        self._send(ask, ApiVersionsResponse, 3)
        frame = self._receive_frame(None)
        self._waiting.popleft()
        if frame[4:6] == _UNSUPPORTED_VERSION:  # before Kafka 2.4: such an answer is of version 0
            answer = self.receive(self._send(ApiVersionsRequest(), ApiVersionsResponse, 0))
        else:
            try:
                answer = decode(ApiVersionsResponse, 3, frame, 4)[0]
            except ProtocolError as error:
                self._fail(f"its answer is not Kafka's ({error})", error)
        if answer.error_code:
            self._fail(f"it does not say what it speaks: {error_text(answer.error_code)}", None)
        versions = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        return versions, {one.name: one.max_version_level for one in answer.finalized_features}

    def _authenticate(self) -> None:
        security = self._settings.security
        if not security.has_sasl:
            return
        began = self._clock()
        self._session = None
        seconds = authenticate(self.request, self._name, security)
        if seconds is not None:
            self._session = (began + _RENEW * seconds, began + _MUST_RENEW * seconds)

    def _keep_session(self, due: float, over: float) -> None:
        now = self._clock()
        if now >= due and not self._waiting:
            try:
                self._authenticate()
            except TokenUnavailableError as error:
                if now >= over:
                    self._fail(str(error), error)
                # The session still holds; the issuer may be back by then.
                self._session = (now + (over - now) / 4, over)
            except BaseException:
                self.close()
                raise
        elif now >= over:
            # The broker would end the connection at the next request; whoever sends does it again on a new one.
            self._fail("the session's time is over before its answers came", None)

    def _fail(self, what: str, cause: BaseException | None) -> NoReturn:
        self.close()
        raise BrokerUnreachableError(f"{self._name}: {what}") from cause


def error_text(code: int) -> str:
    """`NOT_COORDINATOR: another broker coordinates this`; a code that we don't know by its number."""
    error = ERRORS.get(code)
    return f"error {code}" if error is None else f"{error.name}: {error.text}"


def _reason(error: OSError) -> str:
    return "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
