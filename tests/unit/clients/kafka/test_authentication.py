"""SASL over a connection: who is let in, what is said when nobody is, and sessions that end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fake_brokers import FakeBrokers
from tidelog.broker.security.credentials import new_credential
from tidelog.broker.security.sasl.disguise import Disguise
from tidelog.broker.security.sasl.scram import ScramExchange
from tidelog.clients.kafka.connection import Connection
from tidelog.pipeline.exceptions import AuthenticationError, BrokerUnreachableError
from tidelog.pipeline.wire.errors import explain
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol import oauth_token
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.oauth_token import ClientToken, TokenSettings, TokenUnavailableError

HERE = ("one", 9092)


class Users:
    def of(self, name: str) -> object:
        return {"SCRAM-SHA-256": new_credential("SCRAM-SHA-256", "pencil", b"salt", 4096)}


class Gate:
    """A broker that asks for SCRAM-SHA-256, or for PLAIN with the same password."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        self.lifetime_ms = lifetime_ms
        self.logins = 0
        self._scram: ScramExchange | None = None

    def __call__(self, request: Any, version: int) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            if request.mechanism not in ("PLAIN", "SCRAM-SHA-256"):
                return SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "SCRAM-SHA-256"])
            self._scram = None
            if request.mechanism == "SCRAM-SHA-256":
                self._scram = ScramExchange("SCRAM-SHA-256", Users(), Disguise(b"d"), lambda: "part")  # type: ignore[arg-type]
            return SaslHandshakeResponse()
        if isinstance(request, SaslAuthenticateRequest):
            if self._scram is None:
                if request.auth_bytes != b"\0alice\0pencil":
                    return SaslAuthenticateResponse(error_code=58, error_message="Authentication failed")
                self.logins += 1
                return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
            step = self._scram.step(request.auth_bytes)
            self.logins += step.user is not None
            lifetime = self.lifetime_ms if step.user is not None else 0
            return SaslAuthenticateResponse(auth_bytes=step.reply, session_lifetime_ms=lifetime)
        return MetadataResponse(cluster_id="let in")


class TokenGate:
    """A broker that asks for a token, "good" or "better"."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        self.lifetime_ms = lifetime_ms
        self.shown: list[bytes] = []

    def __call__(self, request: Any, version: int) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(error_code=0 if request.mechanism == "OAUTHBEARER" else 33)
        if isinstance(request, SaslAuthenticateRequest):
            self.shown.append(request.auth_bytes)
            if request.auth_bytes in (b"n,,\x01auth=Bearer good\x01\x01", b"n,,\x01auth=Bearer better\x01\x01"):
                return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
            if request.auth_bytes == b"\x01":
                return SaslAuthenticateResponse(error_code=58, error_message="OAUTHBEARER: the token has expired")
            return SaslAuthenticateResponse(auth_bytes=b'{"status": "invalid_token"}')
        return MetadataResponse(cluster_id="let in")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def connection(gate: Gate | TokenGate, clock: Any = None, **settings: str) -> Connection:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": "pencil"}
    given |= {name.replace("_", "."): text for name, text in settings.items()}
    brokers = FakeBrokers({HERE: gate})
    settings = ClientSettings.parse("one", given)
    return Connection(HERE, settings, explain=explain, connect=brokers.connect, clock=clock or Clock())


def ask(one: Connection) -> str | None:
    return one.request(MetadataRequest(topics=[]), MetadataResponse, up_to=5).cluster_id


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_who_knows_the_password_gets_in(mechanism: str) -> None:
    gate = Gate()
    one = connection(gate, sasl_mechanism=mechanism)
    assert ask(one) == "let in"
    assert gate.logins == 1


def test_who_does_not_is_told_so_and_the_connection_closed() -> None:
    with pytest.raises(
        AuthenticationError, match="one:9092 does not let user 'alice' in: Authentication failed"
    ) as caught:
        connection(Gate(), sasl_mechanism="PLAIN", sasl_password="secret of mine")
    assert "secret of mine" not in str(caught.value)
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-512; it offers PLAIN, SCRAM-SHA-256"):
        connection(Gate(), sasl_mechanism="SCRAM-SHA-512")


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    class Liar(Gate):
        def __call__(self, request: Any, version: int) -> Any:
            if isinstance(request, SaslAuthenticateRequest):
                return SaslAuthenticateResponse(auth_bytes=b"r=x,s=AA==,i=4096")
            return super().__call__(request, version)

    with pytest.raises(AuthenticationError, match="one:9092: the server's SCRAM message makes no sense"):
        connection(Liar(), sasl_mechanism="SCRAM-SHA-256")


def test_a_session_is_renewed_before_it_is_over() -> None:
    gate, clock = Gate(lifetime_ms=10_000), Clock()
    one = connection(gate, clock, sasl_mechanism="SCRAM-SHA-256")
    clock.now += 7.9
    ask(one)
    assert gate.logins == 1
    clock.now += 0.2
    ask(one)
    assert gate.logins == 2
    # With answers on their way there is no room for it: a little later will do, and at last a new connection must.
    ticket = one.send(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
    clock.now += 9
    second = one.send(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
    assert gate.logins == 2
    clock.now += 0.9
    with pytest.raises(BrokerUnreachableError, match="session's time is over"):
        one.send(MetadataRequest(topics=[]), MetadataResponse, up_to=5)
    assert not one.is_open
    assert ticket is not second


def with_token(gate: TokenGate, clock: Any = None, **settings: str) -> Connection:
    return connection(gate, clock, sasl_mechanism="OAUTHBEARER", **settings)


def test_who_has_a_token_gets_in() -> None:
    gate = TokenGate()
    assert ask(with_token(gate, sasl_oauthbearer_token="good")) == "let in"
    assert len(gate.shown) == 1


def test_who_has_another_is_told_why_and_the_token_is_not_shown() -> None:
    gate = TokenGate()
    with pytest.raises(AuthenticationError) as caught:
        with_token(gate, sasl_oauthbearer_token="mine.is.bad")
    assert str(caught.value) == "one:9092 does not let the token's user in: OAUTHBEARER: the token has expired"
    assert gate.shown[1:] == [b"\x01"]


def test_a_file_is_read_again_before_the_session_is_over(tmp_path: Path) -> None:
    path, gate, clock = tmp_path / "token", TokenGate(lifetime_ms=10_000), Clock()
    path.write_text("good")
    one = with_token(gate, clock, sasl_oauthbearer_token_endpoint_url=path.as_uri())
    path.write_text("better")
    clock.now += 7.9
    ask(one)
    assert len(gate.shown) == 1
    clock.now += 0.2
    ask(one)
    assert [b"Bearer better" in message for message in gate.shown] == [False, True]
    path.write_text("not a token")
    clock.now += 8.1
    with pytest.raises(AuthenticationError, match="that is no token"):
        ask(one)
    assert not one.is_open


def test_an_issuer_that_is_away_is_tried_again_while_the_session_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, clock = TokenGate(lifetime_ms=10_000), Clock()
    asked: list[float] = []

    def away(_settings: TokenSettings) -> ClientToken:
        asked.append(clock.now)
        if len(asked) > 1:
            raise TokenUnavailableError("the issuer can't be reached")
        return ClientToken("good", None)

    monkeypatch.setattr(oauth_token.CACHE, "_get", away)
    given = {"sasl_oauthbearer_token_endpoint_url": "https://i/t", "sasl_oauthbearer_client_id": "me"}
    one = with_token(gate, clock, **given, sasl_oauthbearer_client_secret="s")
    clock.now += 8
    assert (ask(one), ask(one), len(asked)) == ("let in", "let in", 2)
    clock.now += 0.5
    assert (ask(one), ask(one), len(asked)) == ("let in", "let in", 3)
    clock.now += 1
    with pytest.raises(BrokerUnreachableError, match="the issuer can't be reached"):
        ask(one)
    assert (one.is_open, len(gate.shown)) == (False, 1)
    with pytest.raises(BrokerUnreachableError, match="one:9092: the issuer can't be reached"):
        with_token(gate, clock, **given, sasl_oauthbearer_client_secret="s")
