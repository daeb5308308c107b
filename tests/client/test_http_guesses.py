"""Who guesses by HTTP keeps nobody else out of it, and guesses no more there than by SASL."""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.inside import add_scram_user, node_of
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.broker.http import users as http_users
from tidelog.broker.http.connections import MAX_CONNECTIONS
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES, MOST_OF_ADDRESS
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.testing import Broker

TOKEN = "0123456789abcdef0123456789abcdef"
SCRAM = "SCRAM-SHA-256"


@pytest.fixture(autouse=True)
def patient_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of a password or a token may take as long as anything else: a slow machine else answers 503."""
    monkeypatch.setattr(http_users, "CHECK_TIMEOUT_S", PATIENCE_S)


def settings(tmp_path: Path, delay_ms: int) -> dict[str, object]:
    (tmp_path / "tokens").write_text(f"prometheus {TOKEN}\n")
    return {
        "http.listener": "127.0.0.1:0", "http.authentication": "basic,bearer", "http.tokens.file": tmp_path / "tokens",
        "http.users.read": "*", "connection.failed.authentication.delay.ms": delay_ms, "http.metrics.open": "false",
        "listeners": "INSIDE://127.0.0.1:0,SASL://127.0.0.1:0", "sasl.enabled.mechanisms": "PLAIN",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,SASL:SASL_PLAINTEXT",
    }  # fmt: skip


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def add_user(broker: Broker, name: str) -> None:
    add_scram_user(broker, name, f"{name}'s", (SCRAM,))


def ask(broker: Broker, path: str, authorization: str, source: str = "127.0.0.1") -> int:
    """The status of one request from one of this machine's own addresses."""
    host, _, port = broker.http_url.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S, source_address=(source, 0))
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Authorization": authorization})
        return connection.getresponse().status


@contextlib.contextmanager
def begun(broker: Broker, path: str, authorization: str, source: str) -> Iterator[socket.socket]:
    """A request whose answer nobody has read."""
    host, _, port = broker.http_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S, source_address=(source, 0)) as one:
        one.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: {authorization}\r\n\r\n".encode())
        yield one


@pytest.mark.parametrize("path", ["/metrics", "/topics", "/health"])
def test_clients_who_wait_for_their_refusal_take_no_lane(path: str, tmp_path: Path) -> None:
    """As many as may be connected guess at once, and each is answered ten minutes later, or never."""
    with Broker(settings(tmp_path, 600_000)) as broker, contextlib.ExitStack() as all_of_them:
        add_user(broker, "alice")
        http_server = node_of(broker).http
        assert http_server is not None
        assert http_server.gate is not None
        failures = http_server.gate.users.failures
        for number in range(MAX_CONNECTIONS):
            authorization = basic("alice", "wrong") if number % 2 else "Bearer wrong"
            all_of_them.enter_context(begun(broker, path, authorization, f"127.0.0.{number + 2}"))
        until(lambda: failures.failures == MAX_CONNECTIONS, "all have failed")
        assert ask(broker, path, f"Bearer {TOKEN}") == 200, "who has a token"
        assert ask(broker, path, basic("alice", "alice's")) == 200, "who has a password that was not checked before"


def by_sasl(broker: Broker, password: str) -> int:
    """The code that PLAIN is answered with."""
    host, _, port = broker.listener("SASL").rpartition(":")
    with WireClient((host, int(port))) as client:
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
        message = SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode())
        return client.ask(message, 2, SaslAuthenticateResponse).error_code


def test_guesses_by_http_and_by_sasl_are_counted_together_for_a_user_at_an_address(tmp_path: Path) -> None:
    with Broker(settings(tmp_path, 0)) as broker:
        for name in ("alice", "bob"):
            add_user(broker, name)
        for number in range(MOST_FAILURES):
            if number % 2:
                assert by_sasl(broker, "wrong") == ErrorCode.SASL_AUTHENTICATION_FAILED
            else:
                assert ask(broker, "/", basic("alice", "wrong")) == 401
        assert ask(broker, "/", basic("alice", "alice's")) == 429
        assert by_sasl(broker, "alice's") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert ask(broker, "/", basic("bob", "bob's")) == 200, "another user from there"
        assert ask(broker, "/", basic("alice", "alice's"), "127.0.0.2") == 200, "the user from elsewhere"


def test_whoever_tries_many_names_by_http_is_turned_away_with_all_from_there(tmp_path: Path) -> None:
    with Broker(settings(tmp_path, 0)) as broker:
        add_user(broker, "alice")
        answers = [ask(broker, "/", basic(f"name-{number}", "x"), "127.0.0.2") for number in range(MOST_OF_ADDRESS)]
        assert set(answers) == {401}
        assert ask(broker, "/", basic("alice", "alice's"), "127.0.0.2") == 429
        assert ask(broker, "/", f"Bearer {TOKEN}", "127.0.0.2") == 200, "nobody guesses with what is known"
        assert ask(broker, "/", basic("alice", "alice's")) == 200
