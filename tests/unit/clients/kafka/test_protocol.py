"""The client's core with bytes alone: frames in any pieces, versions, correlation ids, and conversations without a socket."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable
from typing import Any

import pytest
from tidelog.clients.kafka import conversations
from tidelog.clients.kafka.conversations import CoordinatorKind
from tidelog.clients.kafka.protocol import (
    AnnouncedSizeError,
    Asked,
    ClientProtocol,
    NoCommonVersionError,
    WrongAnswerError,
    error_text,
    reading,
    request_frame,
)
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.client_security import ClientSecurity, ClientSecurityError
from tidelog.protocol.errors import MalformedRequest
from tidelog.protocol.headers import parse_request_header, response_header_bytes
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tidelog.protocol.oauth_token import TokenUnavailableError
from tidelog.protocol.schema import ApiMessage, encode

MOST = 1 << 30


def fed(pieces: Iterable[bytes], most: int = MOST, buffer: bytearray | None = None) -> tuple[bytes, list[int]]:
    """The frame that these pieces make, and how large the rooms were that they were read into."""
    steps, rooms = reading(most, buffer), []
    room = next(steps)
    try:
        for piece in pieces:
            while piece:
                rooms.append(len(room))
                taken = min(len(room), len(piece))
                room[:taken] = piece[:taken]
                piece = piece[taken:]
                room = steps.send(taken)
    except StopIteration as end:
        return bytes(end.value), rooms
    raise EOFError


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("size", [4, 5, 100, 70_000])
@pytest.mark.parametrize("buffered", [False, True])
def test_a_frame_comes_whole_byte_by_byte_and_with_more_behind_it(size: int, buffered: bool) -> None:
    body = bytes(number % 251 for number in range(size))
    data = framed(body)
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))], [data[:3], data[3:9], data[9:] + b"next"]):
        assert fed(pieces, buffer=bytearray(size) if buffered else None)[0] == body


def test_room_is_for_what_came_and_not_for_what_was_announced() -> None:
    steps = reading(MOST)
    room = next(steps)
    room[:] = struct.pack(">i", 1_000_000_000)
    came, most_room = 0, 0
    room = steps.send(4)
    while came < 8 << 20:
        most_room = max(most_room, came + len(room))
        assert came + len(room) <= max(1 << 20, 2 * came)
        taken = len(room)
        came += taken
        room = steps.send(taken)
    assert most_room == 8 << 20


@pytest.mark.parametrize("size", [-1, 0, 3, 101, 0x48545450])
def test_a_size_that_no_answer_has_is_refused_before_it_comes(size: int) -> None:
    with pytest.raises(AnnouncedSizeError, match=f"an answer of {size} bytes is announced"):
        fed([struct.pack(">i", size)], most=100)


def protocol(**versions: tuple[int, int]) -> ClientProtocol:
    made = ClientProtocol("me")
    keys = [
        ApiVersion(api_key=ApiKey[name], min_version=low, max_version=high) for name, (low, high) in versions.items()
    ]
    made.learn(
        ApiVersionsResponse(api_keys=keys, finalized_features=[FinalizedFeatureKey(name="f", max_version_level=3)])
    )
    return made


def test_the_highest_version_that_all_three_know() -> None:
    one = protocol(METADATA=(2, 9))
    assert one.features == {"f": 3}
    assert one.version_of(MetadataRequest) == 9
    assert one.version_of(MetadataRequest, up_to=4) == 4
    for up_to, at_least in ((1, 0), (12, 10)):
        with pytest.raises(NoCommonVersionError, match=f"versions 2 to 9 of it, and METADATA {at_least} to {up_to} is"):
            one.version_of(MetadataRequest, up_to, at_least)
    with pytest.raises(NoCommonVersionError, match="none of it, and METADATA"):
        protocol().version_of(MetadataRequest)


def test_requests_have_rising_ids_and_the_clients_name() -> None:
    one = protocol()
    for number in (1, 2):
        _, data = one.send(MetadataRequest(topics=[]), MetadataResponse, 9)
        header, _ = parse_request_header(bytes(data[4:]))
        assert (header.correlation_id, header.client_id, header.api_version) == (number, "me", 9)
        assert struct.unpack_from(">i", data)[0] == len(data) - 4
    assert one.has_waiting
    header, _ = parse_request_header(bytes(request_frame(MetadataRequest(topics=[]), 9, 7, None)[4:]))
    assert (header.correlation_id, header.client_id) == (7, None)


def answer_to(correlation_id: int, answer: ApiMessage, version: int) -> bytes:
    return response_header_bytes(answer.API_KEY, version, correlation_id) + encode(answer, version)


def test_answers_are_taken_in_order() -> None:
    one = protocol()
    first, _ = one.send(MetadataRequest(topics=[]), MetadataResponse, 9)
    second, _ = one.send(MetadataRequest(topics=[]), MetadataResponse, 9)
    assert (one.is_next(first), one.is_next(second)) == (True, False)
    assert one.receive(first, answer_to(1, MetadataResponse(cluster_id="a"), 9)).cluster_id == "a"
    with pytest.raises(WrongAnswerError, match="answer 1 came for request 2"):
        one.receive(second, answer_to(1, MetadataResponse(), 9))
    ahead, _ = one.send(MetadataRequest(topics=[]), MetadataResponse, 9)
    with pytest.raises(WrongAnswerError, match="answer 4 came for request 3"):
        one.receive(ahead, answer_to(4, MetadataResponse(), 9))
    third, _ = one.send(MetadataRequest(topics=[]), MetadataResponse, 9)
    with pytest.raises(MalformedRequest):
        one.receive(third, b"\0\0\0\x03\0\xff")
    fourth, _ = one.send(MetadataRequest(topics=[]), MetadataResponse, 9)
    one.forget()
    assert not one.is_next(fourth)


def held(steps: Generator[Asked, Any, Any], answers: Iterable[Any]) -> tuple[Any, list[Asked]]:
    """What came of a conversation whose requests get these answers, and the requests."""
    asked, left = [next(steps)], list(answers)
    while True:
        try:
            asked.append(steps.send(left.pop(0)))
        except StopIteration as end:
            return end.value, asked


def test_versions_are_asked_for_once_more_before_2_4() -> None:
    new, old = ApiVersionsResponse(), ApiVersionsResponse(error_code=35)
    answer, asked = held(conversations.ask_versions("tester"), [new])
    assert (answer is new, asked[0].up_to, asked[0].request.client_software_name) == (True, 3, "tester")  # type: ignore[attr-defined]
    answer, asked = held(conversations.ask_versions("tester"), [old, new])
    assert (answer is new, [one.up_to for one in asked]) == (True, [3, 0])
    assert [one.up_to for one in held(conversations.ask_versions(""), [new])[1]] == [0]
    # Whom it means, it says in version 5 alone, and not once more to a broker that does not know that.
    meant, refused = conversations.MeantNode("c", 7), ApiVersionsResponse(error_code=129)
    for said in (new, refused):
        answer, asked = held(conversations.ask_versions("tester", meant), [said])
        assert (answer is said, [(one.at_least, one.up_to) for one in asked]) == (True, [(5, 5)])
        assert (asked[0].request.cluster_id, asked[0].request.node_id) == meant  # type: ignore[attr-defined]
    answer, asked = held(conversations.ask_versions("tester", meant), [old, old, new])
    assert (answer is new, [one.up_to for one in asked]) == (True, [5, 3, 0])
    assert [one.request.cluster_id for one in asked] == ["c", None, None]  # type: ignore[attr-defined]
    assert [one.up_to for one in held(conversations.ask_versions("", meant), [new])[1]] == [0]
    # An old broker's refusal has version 0 and may say nothing behind its code.
    one = ClientProtocol("me")
    ticket, _ = one.send(asked[0].request, ApiVersionsResponse, 3)
    assert one.receive(ticket, b"\0\0\0\x01\0\x23").error_code == 35


def login(answers: list[Any], tokens: Any = None) -> tuple[Any, list[Asked]]:
    plain = ClientSecurity("SASL_PLAINTEXT", "PLAIN", "alice", "pencil")
    return held(conversations.authenticate("PLAIN", tokens or plain.tokens()), answers)


def test_a_login_says_for_how_long_it_holds() -> None:
    seconds, asked = login([SaslHandshakeResponse(), SaslAuthenticateResponse(session_lifetime_ms=1500)])
    assert seconds == 1.5
    assert asked[0].request.mechanism == "PLAIN"  # type: ignore[attr-defined]
    assert asked[1].request.auth_bytes == b"\0alice\0pencil"  # type: ignore[attr-defined]
    assert login([SaslHandshakeResponse(), SaslAuthenticateResponse()])[0] is None


def test_a_login_that_fails_says_why() -> None:
    with pytest.raises(conversations.SaslRefusedError, match="offered: A, B"):
        login([SaslHandshakeResponse(error_code=33, mechanisms=["A", "B"])])
    with pytest.raises(conversations.SaslRefusedError, match="not you"):
        login([SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message="not you")])

    def lying(said: bytes | None) -> bytes:
        if said is None:
            return b"first"
        raise ClientSecurityError("no proof")

    with pytest.raises(conversations.ExchangeFailedError, match="no proof"):
        login([SaslHandshakeResponse(), SaslAuthenticateResponse()], lying)


def test_without_a_token_the_broker_is_asked_nothing() -> None:
    def away(_said: bytes | None) -> bytes:
        raise TokenUnavailableError("away")

    with pytest.raises(TokenUnavailableError):
        next(conversations.authenticate("OAUTHBEARER", away))


def test_coordinators_are_found_at_once_or_one_by_one() -> None:
    named = [Coordinator(key="a", node_id=1, host="h", port=5), Coordinator(key="b", error_code=15)]
    found, asked = held(
        conversations.find_coordinators(CoordinatorKind.GROUP, ["a", "b"], 4, 5),
        [FindCoordinatorResponse(coordinators=named)],
    )
    assert found == named
    assert [(asking.up_to, asking.at_least) for asking in asked] == [(5, 0)]
    answers = [FindCoordinatorResponse(node_id=1, host="h", port=5), FindCoordinatorResponse(error_code=15)]
    found, asked = held(conversations.find_coordinators(CoordinatorKind.TRANSACTION, ["a", "b", "c"], 3), answers)
    assert [one.key for one in found] == ["a", "b"]
    assert [(one.error_code, one.host, one.port) for one in found] == [(0, "h", 5), (15, "", 0)]
    assert [(asking.request.key, asking.up_to, asking.at_least) for asking in asked] == [("a", None, 1), ("b", None, 1)]  # type: ignore[attr-defined]


def test_errors_have_words() -> None:
    assert error_text(3).startswith("UNKNOWN_TOPIC_OR_PARTITION: there is no such topic")
    assert error_text(12345) == "error 12345"
