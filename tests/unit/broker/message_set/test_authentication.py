"""The gate of the message-set protocol: who passes, who does not, and what is said to whom."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable
from typing import Any

import pytest
from tidelog.broker.message_set.authentication import MessageSetGate
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES, Attempt, Attempts
from tidelog.broker.security.sasl.mechanism import WRONG, Refusal, Step
from tidelog.protocol.message_set.wire import RequestType, authenticate_answer, authenticate_request, refusal_answer

IN_AUTHENTICATE = RequestType.AUTHENTICATE
IN, STATE, VERSION, INVALID, FAILED = 0, 34, 35, 42, 58


class Connection:
    def __init__(self) -> None:
        self.authentication: Any = None
        self.principal = "User:ANONYMOUS"
        self.peer_host = "10.0.0.1"
        self.dispatcher: object = None
        self.last_active = 5
        self.pending_key = self.pending_since = 0
        self.leaving = False
        self.is_timed = True
        self.refusal: str | None = None

    @property
    def user(self) -> str:
        return self.principal.partition(":")[2]

    def hand_to(self, dispatcher: object) -> None:
        self.dispatcher = dispatcher

    def clear_deadline(self) -> None:
        self.is_timed = False

    def authenticated_as(self, principal: str) -> str | None:
        if self.refusal is None:
            self.principal = principal
        return self.refusal

    def close_after_sending(self) -> None:
        self.leaving = True

    def __str__(self) -> str:
        return "a connection"


class Security:
    """Knows alice and bob, whose passwords are their names backwards."""

    failure_delay_ms = 0
    max_receive_bytes = 200
    failures = successes = turned_away = 0
    lifetime_ms = 0

    def __init__(self) -> None:
        self.attempts = Attempts(lambda: 0.0)

    def attempt(self, peer: str, known: str | None) -> Attempt:
        return self.attempts.attempt(peer, known)

    def max_reauth_ms(self, mechanism: str) -> int:
        assert mechanism == "PLAIN"
        return self.lifetime_ms

    def exchange(self, mechanism: str, peer: str, attempt: Attempt) -> Security:
        assert mechanism == "PLAIN"
        self.claims = attempt.claims
        return self

    async def step(self, message: bytes) -> Step:
        identity, name, password = message.decode().split("\0")
        assert identity == ""
        self.claims(name)
        if name not in ("alice", "bob") or password != name[::-1]:
            raise Refusal(WRONG)
        return Step(b"", name)


class Handler:
    def __init__(self) -> None:
        self.seen: list[int] = []

    quick = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Any) -> bytes:
        self.seen.append(struct.unpack_from(">h", buffer, start)[0])
        return b"answer"

    def answered(self, key: int, since: int) -> None:
        self.seen.append(-key)

    def name_of(self, key: int) -> str:
        return str(key)


class Rig:
    def __init__(self) -> None:
        self.security = Security()
        self.handler = Handler()
        self.gate = MessageSetGate(self.handler, self.security)  # type: ignore[arg-type]
        self.connection = Connection()

    async def send(self, frame: bytes) -> Any:
        """The answer to what follows a frame's size."""
        answer = self.gate.dispatch(bytearray(b"--" + frame), 2, 2 + len(frame), self.connection)  # type: ignore[arg-type]
        return await answer if isinstance(answer, Awaitable) else answer

    async def authenticate(self, user: str, password: str) -> Any:
        return await self.send(authenticate_request(user, password)[4:])


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 6, -1, 77])
async def test_nothing_passes_before_authenticate(kind: int, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    assert await rig.send(struct.pack(">h", kind) + b"body") == refusal_answer(kind, STATE)
    assert (rig.handler.seen, rig.connection.leaving, rig.security.failures) == ([], True, 1)
    assert caplog.records[0].getMessage().endswith(" came before AUTHENTICATE")


async def test_a_frame_without_a_type_is_answered_too() -> None:
    rig = Rig()
    assert await rig.send(b"\0") == refusal_answer(-1, STATE)


async def test_who_is_known_is_handed_on() -> None:
    rig = Rig()
    assert await rig.authenticate("alice", "ecila") == authenticate_answer(IN, 0)
    connection = rig.connection
    assert (connection.principal, connection.dispatcher, connection.is_timed) == ("User:alice", rig.handler, False)
    assert (connection.pending_key, connection.pending_since) == (RequestType.AUTHENTICATE, 5)
    assert (rig.security.successes, rig.security.failures, connection.leaving) == (1, 0, False)
    assert await rig.send(struct.pack(">h", 1)) == b"answer", "it came in one piece with the first"
    rig.gate.answered(5, 0)
    assert rig.handler.seen == [1, -5]


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", "x"), ("", ""), ("alice\0alice", ""), ("alice", "x\0ecila")]
)
async def test_who_is_not_is_told_nothing_more(user: str, password: str, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    assert await rig.authenticate(user, password) == authenticate_answer(FAILED, 0)
    assert (rig.connection.principal, rig.connection.dispatcher) == ("User:ANONYMOUS", None)
    assert (rig.connection.leaving, rig.security.failures, rig.connection.is_timed) == (True, 1, True)
    assert [record.getMessage() for record in caplog.records] == [f"a connection: refused: {WRONG}"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", INVALID), (b"\0", INVALID), (b"\0\0", INVALID), (b"\0\0\0\5alice", INVALID), (b"\0\0\0\1a\0\6secre", INVALID),
        (b"\0\0\0\1a\0\1b!", INVALID), (b"\0\0\xff\xffa", INVALID), (b"\0\0\0\1\xff\0\0", INVALID), (b"\0\1whatever", VERSION),
        (b"\xff\xff", VERSION),
    ],
)  # fmt: skip
async def test_what_cannot_be_read(body: bytes, code: int, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    assert await rig.send(struct.pack(">h", RequestType.AUTHENTICATE) + body) == authenticate_answer(code, 0)
    assert rig.connection.leaving
    assert "secre" not in caplog.text


async def test_a_large_request_of_somebody_unknown_ends_the_connection() -> None:
    rig = Rig()
    with pytest.raises(ConnectionAborted, match=r"a request of 201 bytes before authentication; at most 200 are read"):
        await rig.send(struct.pack(">h", RequestType.AUTHENTICATE) + bytes(199))


async def test_a_user_who_may_have_no_more_connections() -> None:
    rig = Rig()
    rig.connection.refusal = "too many of alice"
    with pytest.raises(ConnectionAborted, match="too many of alice"):
        await rig.authenticate("alice", "ecila")
    assert rig.connection.dispatcher is None


async def test_a_session_ends_and_only_the_same_user_goes_on() -> None:
    for user, password, answer in (
        ("alice", "ecila", authenticate_answer(IN, 1)), ("bob", "bob"[::-1], authenticate_answer(FAILED, 0)),
    ):  # fmt: skip
        rig = Rig()
        rig.security.lifetime_ms = 1
        assert await rig.authenticate("alice", "ecila") == authenticate_answer(IN, 1)
        while rig.connection.dispatcher is not rig.gate:  # noqa: ASYNC110 - a timer of a millisecond
            await asyncio.sleep(0)
        assert await rig.authenticate(user, password) == answer
        rig.connection.authentication.cancel()
    rig = Rig()
    rig.security.lifetime_ms = 1
    await rig.authenticate("alice", "ecila")
    while rig.connection.dispatcher is not rig.gate:  # noqa: ASYNC110 - a timer of a millisecond
        await asyncio.sleep(0)
    assert await rig.send(struct.pack(">h", 1)) == refusal_answer(1, STATE)
    assert rig.handler.seen == []


async def test_who_fails_too_often_is_turned_away_and_is_not_counted_again() -> None:
    attempts = Attempts(lambda: 0.0)
    for number in range(MOST_FAILURES + 3):
        rig = Rig()
        rig.security.attempts = attempts
        assert await rig.authenticate("alice", "wrong") == refusal_answer(IN_AUTHENTICATE, FAILED)
        assert (rig.security.failures, rig.security.turned_away) == ((1, 0) if number < MOST_FAILURES else (0, 1))
    rig = Rig()
    rig.security.attempts = attempts
    assert await rig.authenticate("alice", "ecila") == refusal_answer(IN_AUTHENTICATE, FAILED), "the right one too"
    assert await rig.authenticate("bob", "bob"[::-1]) == authenticate_answer(IN, 0)
    while not attempts.of_addresses.wait_s("10.0.0.1", 0.0):
        attempts.attempt("10.0.0.1").failed()
    rig = Rig()
    rig.security.attempts = attempts
    with pytest.raises(ConnectionAborted, match="turned away with all from its address"):
        await rig.authenticate("bob", "bob")
