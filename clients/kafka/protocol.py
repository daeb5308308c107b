"""One connection's side of Kafka's protocol, without a socket or a clock: requests become bytes, bytes become answers.

    protocol = ClientProtocol("my-client")
    ticket, data = protocol.send(request, MetadataResponse, protocol.version_of(MetadataRequest))
    frame = ...                                   # what `reading` returns, once it was told of all bytes
    answer = protocol.receive(ticket, frame)      # in the order of sending

A conversation that needs several requests is a generator (`Steps`): it yields an `Asked`, is sent the answer to it, and
returns what came of it. The owner of a socket drives it; a test needs none. Everything here belongs to one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ...protocol.errors import ERRORS, ErrorCode, MalformedRequest, unpickled
from ...protocol.framing import room_for_answer
from ...protocol.headers import RequestHeader, parse_response_header, request_header_bytes
from ...protocol.messages.api_versions import ApiVersionsResponse
from ...protocol.primitives import INT32, Buffer
from ...protocol.schema import ApiMessage, decode, encode_into

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
T = TypeVar("T")

_API_VERSIONS = int(ApiVersionsResponse.API_KEY)
#: Versions of ApiVersions that are asked before anything is known: every broker answers any, if only with UNSUPPORTED_VERSION
#: (KIP-511).
_KNOWN_AT_FIRST = {_API_VERSIONS: (0, 5)}
_UNSUPPORTED_VERSION = INT32.pack(ErrorCode.UNSUPPORTED_VERSION)[2:]  # an INT16


class AnnouncedSizeError(MalformedRequest):
    """A frame announces `size` bytes, which no answer can have: the other side may speak TLS, or another protocol."""

    def __init__(self, size: int) -> None:
        super().__init__(f"an answer of {size} bytes is announced")
        self.size = size


class WrongAnswerError(MalformedRequest):
    """An answer came to another request than the oldest one that waits."""


class NoCommonVersionError(Exception):
    """The broker speaks no version of a request that this side can use: `low` to `high`, or none where `high` is -1."""

    def __init__(self, request: type[ApiMessage], low: int, high: int, wanted: tuple[int, int]) -> None:
        there = f"versions {low} to {high} of it" if high >= 0 else "none of it"
        name = request.API_KEY.name
        super().__init__(f"the broker speaks {there}, and {name} {wanted[0]} to {wanted[1]} is needed")
        self.api_name = name

    def __reduce__(self) -> tuple[object, ...]:
        return unpickled, (type(self), self.args), vars(self)


@dataclass(frozen=True, slots=True)
class Ticket(Generic[ResponseT]):
    """A request whose answer has not been taken yet."""

    response: type[ResponseT]
    version: int
    correlation_id: int


class Asked(NamedTuple):
    """A request of a conversation, with the versions that the conversation's code knows; None: all that are declared."""

    request: ApiMessage
    response: type[ApiMessage]
    up_to: int | None = None
    at_least: int = 0


Steps = Generator[Asked, Any, T]


def error_text(code: int) -> str:
    """`NOT_COORDINATOR: another broker coordinates this`; a code that we don't know by its number."""
    error = ERRORS.get(code)
    return f"error {code}" if error is None else f"{error.name}: {error.text}"


def request_frame(request: ApiMessage, version: int, correlation_id: int, client_id: str | None) -> bytearray:
    """Encode the frame of a request, with its size and header."""
    out = bytearray(INT32.size)
    out += request_header_bytes(RequestHeader(int(request.API_KEY), version, correlation_id, client_id))
    encode_into(request, version, out)
    INT32.pack_into(out, 0, len(out) - INT32.size)
    return out


def reading(most_bytes: int, buffer: bytearray | None = None) -> Generator[memoryview, int, memoryview]:
    """Takes one frame: yields room for bytes, is sent how many came (at least one), returns the frame without its size.

    The frame is in `buffer` where that is large enough. Otherwise memory grows with what came, at most twice that or a mebibyte:
    a frame that only announces a gigabyte does not get it. AnnouncedSizeError for a size no answer has.
    """
    size_field = bytearray(INT32.size)
    with memoryview(size_field) as room:
        yield from _fill(room)
    size: int = INT32.unpack(size_field)[0]
    if not INT32.size <= size <= most_bytes:
        raise AnnouncedSizeError(size)
    if buffer is not None and len(buffer) >= size:
        frame = memoryview(buffer)[:size]
        yield from _fill(frame)
        return frame
    data = bytearray()
    while (have := len(data)) < size:
        data += bytes(room_for_answer(have, size) - have)
        with memoryview(data) as room, room[have:] as rest:
            yield from _fill(rest)
    return memoryview(data)


def _fill(room: memoryview) -> Generator[memoryview, int, None]:
    filled = 0
    while filled < len(room):
        with room[filled:] as rest:  # released at once, or the buffer below it could not grow
            filled += yield rest


class ClientProtocol:
    """Correlation ids, versions, and which answers are still to come.

    Attributes:
        versions: API key → lowest and highest version that the broker speaks; `learn` sets them.
        features: the cluster's finalized features and their levels (KIP-584); none before Kafka 2.7.
    """

    def __init__(self, client_id: str | None) -> None:
        self.versions: dict[int, tuple[int, int]] = dict(_KNOWN_AT_FIRST)
        self.features: dict[str, int] = {}
        self._client_id = client_id
        self._correlation_id = 0
        self._waiting: deque[Ticket[Any]] = deque()

    @property
    def has_waiting(self) -> bool:
        """True while an answer is still to come."""
        return bool(self._waiting)

    def learn(self, answer: ApiVersionsResponse) -> None:
        """Takes over what the broker says that it speaks."""
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    def version_of(self, request: type[ApiMessage], up_to: int | None = None, at_least: int = 0) -> int:
        """The highest version that the broker, the declared message and the caller know. NoCommonVersionError."""
        low, high = self.versions.get(int(request.API_KEY), (0, -1))
        own_low, own_high = request.VERSIONS
        most = own_high if up_to is None else up_to
        lowest, highest = max(low, at_least, own_low), min(high, most, own_high)
        if lowest > highest:
            raise NoCommonVersionError(request, low, high, (at_least, most))
        return highest

    def send(self, request: ApiMessage, response: type[ResponseT], version: int) -> tuple[Ticket[ResponseT], bytearray]:
        """The bytes to send, and the ticket that takes the answer."""
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        data = request_frame(request, version, self._correlation_id, self._client_id)
        ticket = Ticket(response, version, self._correlation_id)
        self._waiting.append(ticket)
        return ticket, data

    def is_next(self, ticket: Ticket[Any]) -> bool:
        """True if the next frame answers `ticket`; False after `forget`."""
        return bool(self._waiting) and self._waiting[0] is ticket

    def forget(self) -> None:
        """Gives up what is still to come: the connection is closed."""
        self._waiting.clear()

    def receive(self, ticket: Ticket[ResponseT], frame: Buffer) -> ResponseT:
        """The answer in `frame`, which it may look into. ProtocolError: it is malformed, or another request's."""
        assert self.is_next(ticket)
        self._waiting.popleft()
        response, version = ticket.response, ticket.version
        key = int(response.API_KEY)
        correlation_id, body = parse_response_header(frame, key, version)
        if correlation_id != ticket.correlation_id:
            raise WrongAnswerError(f"answer {correlation_id} came for request {ticket.correlation_id}")
        if key == _API_VERSIONS and version and frame[body : body + 2] == _UNSUPPORTED_VERSION:
            # Before Kafka 2.4 such an answer has version 0, whatever was asked: nothing behind its code can be relied on.
            return response(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return decode(response, version, frame, body)[0]
