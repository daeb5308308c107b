"""The gate: who is not known gets nothing but the way in; a session ends; a refusal is late and last."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import Any

import pytest
from support.patience import PATIENCE_S
from tidelog.broker.network.sasl_gate import SaslGate
from tidelog.broker.network.socket_server import Endpoint
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.broker.security.principal import ANONYMOUS
from tidelog.broker.security.sasl.handshake import MAX_STEPS, Authentication
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES, Attempt, Attempts, TurnedAway
from tidelog.broker.security.sasl.mechanism import Refusal, Step
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode

OPEN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class Exchange:
    """Lets in who says the name twice, the second time with its lifetime."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt

    def step(self, message: bytes) -> Step:
        self.attempt.claims("mallory" if message == b"no" else message.decode())
        if message == b"no":
            raise Refusal("the password is wrong")
        if message == b"bad token":
            return Step(b"{}", refused="the token has expired")
        if message == b"more":
            return Step(b"go on")
        name, _, lifetime = message.decode().partition(":")
        return Step(b"welcome", name, int(lifetime) if lifetime else None)


class Security:
    def __init__(self) -> None:
        self.mechanisms = ("PLAIN", "SCRAM-SHA-256")
        self.max_receive_bytes = 1000
        self.failure_delay_ms = 0
        self.failures = self.successes = self.turned_away = 0
        self.reauth_ms = 0
        self.attempts = Attempts(lambda: 0.0)

    def attempt(self, peer: str, known: str | None) -> Attempt:
        return self.attempts.attempt(peer, known)

    def exchange(self, mechanism: str, peer: str, attempt: Attempt) -> Exchange:
        return Exchange(attempt)

    def max_reauth_ms(self, mechanism: str) -> int:
        return self.reauth_ms


class Connection:
    def __init__(self) -> None:
        self.authentication: Authentication | None = None
        self.principal = ANONYMOUS
        self.peer_host = "10.0.0.1"
        self.listener = Endpoint("IN", "SASL_SSL", "127.0.0.1", 1)
        self.dispatcher: object = None
        self.leaving = False
        self.refusal: str | None = None

    @property
    def user(self) -> str:
        return self.principal.partition(":")[2]

    def hand_to(self, dispatcher: object) -> None:
        self.dispatcher = dispatcher

    def clear_deadline(self) -> None:
        pass

    def authenticated_as(self, principal: str) -> str | None:
        if self.refusal is None:
            self.principal = principal
        return self.refusal

    def close_after_sending(self) -> None:
        self.leaving = True


class Dispatcher:
    def __init__(self) -> None:
        self.seen: list[int] = []

    quick = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Any) -> bytes:
        self.seen.append(struct.unpack_from(">h", buffer, start)[0])
        return b"answer"

    def answered(self, key: int, since: int) -> None:
        pass

    def name_of(self, key: int) -> str:
        return str(key)


class Rig:
    def __init__(self) -> None:
        self.security = Security()
        self.dispatcher = Dispatcher()
        self.gate = SaslGate(self.dispatcher, self.security)  # type: ignore[arg-type]
        self.connection = Connection()

    def send(self, frame: bytes) -> Any:
        return self.gate.dispatch(bytearray(b"--" + frame), 2, 2 + len(frame), self.connection)  # type: ignore[arg-type]

    def request(self, key: int) -> Any:
        return self.send(struct.pack(">hhi", key, 0, 7))

    async def session_ends(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.connection.dispatcher is not self.gate:  # noqa: ASYNC110 - the timer of the loop
                await asyncio.sleep(0.001)

    @property
    def state(self) -> Authentication:
        self.request(ApiKey.API_VERSIONS)
        assert self.connection.authentication is not None
        return self.connection.authentication


@pytest.mark.parametrize("key", sorted({*ApiKey, 999} - {*OPEN}))
def test_nothing_passes_before_authentication(key: int) -> None:
    rig = Rig()
    with pytest.raises(
        ConnectionAborted, match=r"before authentication: a client of this listener needs security\.pro"
    ):
        rig.request(key)
    assert rig.dispatcher.seen == []


@pytest.mark.parametrize("key", OPEN)
def test_the_way_in_passes(key: int) -> None:
    rig = Rig()
    assert rig.request(key) == b"answer"
    assert rig.dispatcher.seen == [key]


def test_what_is_large_or_short_is_not_read() -> None:
    rig = Rig()
    with pytest.raises(ConnectionAborted, match=r"a request of 1001 bytes before authentication.*max.receive.size"):
        rig.send(b"\0\x11" + bytes(999))
    with pytest.raises(ConnectionAborted, match="shorter than its header"):
        rig.send(b"\0\x12\0\0")


async def test_who_is_known_goes_to_the_dispatcher_and_stays_who_it_is() -> None:
    rig = Rig()
    state = rig.state
    assert state.handshake("PLAIN", 1).error_code == ErrorCode.NONE
    assert (await state.authenticate(b"more")).auth_bytes == b"go on"
    with pytest.raises(ConnectionAborted):
        rig.request(ApiKey.METADATA)
    answer = await state.authenticate(b"alice")
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.NONE, b"welcome", 0)
    assert (rig.connection.principal, rig.connection.dispatcher) == ("User:alice", rig.dispatcher)
    rig.request(ApiKey.METADATA)  # what had come with the last step, in one piece
    assert rig.dispatcher.seen[-1] == ApiKey.METADATA
    assert (rig.security.successes, rig.security.failures) == (1, 0)


async def test_a_refusal_is_counted_late_and_last() -> None:
    rig = Rig()
    rig.security.failure_delay_ms = 1
    state = rig.state
    state.handshake("PLAIN", 1)
    pending = asyncio.ensure_future(state.authenticate(b"no"))
    await asyncio.sleep(0)
    assert not pending.done()
    answer = await pending
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "PLAIN: the password is wrong"
    assert rig.connection.leaving
    assert rig.security.failures == 1
    with pytest.raises(ConnectionAborted):
        await state.authenticate(b"alice")


async def test_a_refusal_that_is_told_first_is_counted_once() -> None:
    rig = Rig()
    state = rig.state
    state.handshake("PLAIN", 1)
    told = await state.authenticate(b"bad token")
    assert (told.error_code, told.auth_bytes) == (ErrorCode.NONE, b"{}")
    assert rig.security.failures == 1
    assert not rig.connection.leaving
    with pytest.raises(ConnectionAborted):
        rig.request(ApiKey.METADATA)
    assert (await state.authenticate(b"no")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert rig.connection.leaving
    assert rig.security.failures == 1


async def test_handshakes_that_do_not_fit() -> None:
    rig = Rig()
    state = rig.state
    refused = state.handshake("GSSAPI", 1)
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refused.mechanisms == rig.security.mechanisms
    with pytest.raises(ConnectionAborted, match="before SaslHandshake"):
        await state.authenticate(b"alice")
    state.handshake("PLAIN", 1)
    assert state.handshake("PLAIN", 1).error_code == ErrorCode.ILLEGAL_SASL_STATE


async def test_an_endless_authentication_ends() -> None:
    rig = Rig()
    state = rig.state
    state.handshake("PLAIN", 1)
    for _ in range(MAX_STEPS):
        assert (await state.authenticate(b"more")).error_code == ErrorCode.NONE
    assert (await state.authenticate(b"more")).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_tokens_without_a_header_after_the_first_handshake() -> None:
    rig = Rig()
    state = rig.state
    state.handshake("PLAIN", 0)
    assert await rig.send(b"more") == struct.pack(">i", 5) + b"go on"
    assert await rig.send(b"alice") == struct.pack(">i", 7) + b"welcome"
    assert rig.connection.principal == "User:alice"
    other = Rig()
    other.state.handshake("PLAIN", 0)
    with pytest.raises(ConnectionAborted, match="authentication failed: the password is wrong"):
        await other.send(b"no")


@pytest.mark.parametrize(
    ("setting", "token", "lifetime"), [(5000, b"alice", 5000), (5000, b"alice:200", 200), (0, b"alice:200", 200)]
)
async def test_a_session_lasts_as_long_as_the_shorter_of_setting_and_token(
    setting: int, token: bytes, lifetime: int
) -> None:
    rig = Rig()
    rig.security.reauth_ms = setting
    state = rig.state
    state.handshake("PLAIN", 1)
    assert (await state.authenticate(token)).session_lifetime_ms == lifetime
    state.cancel()


async def test_after_the_sessions_end_only_authentication_helps_and_only_as_the_same_user() -> None:
    rig = Rig()
    rig.security.reauth_ms = 1
    state = rig.state
    state.handshake("PLAIN", 1)
    await state.authenticate(b"alice")
    await rig.session_ends()
    rig.security.reauth_ms = 60_000
    assert rig.connection.dispatcher is rig.gate
    with pytest.raises(ConnectionAborted, match="METADATA came after the session's end"):
        rig.request(ApiKey.METADATA)
    assert state.handshake("SCRAM-SHA-256", 1).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert state.handshake("PLAIN", 1).error_code == ErrorCode.NONE
    assert (await state.authenticate(b"alice")).error_code == ErrorCode.NONE
    assert rig.connection.dispatcher is rig.dispatcher
    # In good time, while requests go on.
    assert state.handshake("PLAIN", 1).error_code == ErrorCode.NONE
    rig.request(ApiKey.METADATA)
    answer = await state.authenticate(b"bob")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "another user" in str(answer.error_message)
    assert rig.connection.principal == "User:alice"
    assert rig.connection.leaving
    state.cancel()


async def test_who_has_too_many_connections_is_not_let_in() -> None:
    rig = Rig()
    rig.connection.refusal = "2 connections of User:alice are open (max.connections.per.principal)"
    state = rig.state
    state.handshake("PLAIN", 1)
    with pytest.raises(ConnectionAborted, match="2 connections of User:alice"):
        await state.authenticate(b"alice")
    assert not state.done
    assert rig.connection.dispatcher is None
    assert rig.connection.principal == "User:ANONYMOUS"


async def guess(attempts: Attempts, name: str) -> tuple[Rig, Any]:
    rig = Rig()
    rig.security.attempts = attempts
    state = rig.state
    state.handshake("PLAIN", 1)
    return rig, await state.authenticate(name.encode())


async def test_who_fails_too_often_hears_so_and_is_not_counted_again() -> None:
    attempts = Attempts(lambda: 0.0)
    for _ in range(MOST_FAILURES):
        rig, answer = await guess(attempts, "no")
        assert (answer.error_message, rig.security.failures) == ("PLAIN: the password is wrong", 1)
    for _ in range(3):
        rig, answer = await guess(attempts, "no")
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == "PLAIN: too many attempts have failed; try again in 60 s"
        assert (rig.security.failures, rig.security.turned_away, rig.connection.leaving) == (0, 1, True)
    rig, answer = await guess(attempts, "alice")
    assert (answer.error_code, rig.connection.principal) == (ErrorCode.NONE, "User:alice")


async def test_who_did_nothing_wrong_is_told_nothing_that_it_would_give_up_for() -> None:
    """Its address has failed too often: the connection ends without an answer, which clients try again after."""
    attempts = Attempts(lambda: 0.0)
    while not attempts.of_addresses.wait_s("10.0.0.1", 0.0):
        attempts.attempt("10.0.0.1").failed()
    with pytest.raises(ConnectionAborted, match="turned away with all from its address: too many attempts have failed"):
        await guess(attempts, "alice")


async def test_a_session_goes_on_where_somebody_at_its_address_guesses() -> None:
    rig = Rig()
    rig.security.reauth_ms = 1
    state = rig.state
    state.handshake("PLAIN", 1)
    await state.authenticate(b"alice")
    while not rig.security.attempts.of_addresses.wait_s("10.0.0.1", 0.0):
        attempt = rig.security.attempts.attempt("10.0.0.1", "nobody")
        with contextlib.suppress(TurnedAway):  # from some time on
            attempt.claims("alice")
        attempt.failed()
    for _ in range(2):
        await rig.session_ends()
        assert state.handshake("PLAIN", 1).error_code == ErrorCode.NONE
        assert (await state.authenticate(b"alice")).error_code == ErrorCode.NONE
