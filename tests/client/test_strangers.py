"""Nothing that a client sees before it is let in tells which users there are: asked of a running daemon, by every mechanism,
on two listeners and over a restart; and guesses lock nobody out but where they come from.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from pathlib import Path

from support.inside import in_loop, services_of
from support.message_sets import message_set_address
from support.patience import PATIENCE_S
from support.wire_client import WireClient
from tidelog.broker.security.credentials import new_credential
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.message_set.wire import authenticate_request
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.testing import Broker

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = ("ONE", "TWO")
STRANGERS = [f"stranger-{number}" for number in range(20)]
SETTINGS = {
    "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
    "listener.security.protocol.map": "ONE:SASL_PLAINTEXT,TWO:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "connection.failed.authentication.delay.ms": 0,
}


def start(folder: Path) -> Broker:
    return Broker(SETTINGS, directory=folder)


def said(
    broker: Broker, listener: str, mechanism: str, message: bytes, source: str = "127.0.0.1"
) -> SaslAuthenticateResponse:
    """The answer to the first message of a mechanism, from that address. EOFError where there is none."""
    host, _, port = broker.listener(listener).rpartition(":")
    with WireClient((host, int(port)), source=source) as one:
        one.ask(SaslHandshakeRequest(mechanism=mechanism), 1, SaslHandshakeResponse)
        return one.ask(SaslAuthenticateRequest(auth_bytes=message), 2, SaslAuthenticateResponse)


def shown(broker: Broker, listener: str, mechanism: str, name: str) -> Mapping[str, str]:
    """The salt and the iterations of a name, as whoever asks sees them."""
    answer = said(broker, listener, mechanism, f"n,,n={name},r=nonce".encode())
    assert answer.error_code == ErrorCode.NONE
    fields = dict(part.partition("=")[::2] for part in answer.auth_bytes.decode().split(","))
    return {key: fields[key] for key in ("s", "i")}


def add_user(broker: Broker, name: str, iterations: int = 4096) -> None:
    users = services_of(broker).users.get()
    changes = {one: new_credential(one, f"{name}'s", (name + one).encode()[-16:], iterations) for one in MECHANISMS}
    in_loop(broker, lambda: users.change(name, changes))


def all_shown(broker: Broker) -> dict[str, dict[str, list[Mapping[str, str]]]]:
    return {
        name: {
            mechanism: [shown(broker, listener, mechanism, name) for listener in LISTENERS] for mechanism in MECHANISMS
        }
        for name in ("alice", *STRANGERS)
    }


def test_strangers_show_over_mechanisms_listeners_and_restarts_what_users_show(tmp_path: Path) -> None:
    with start(tmp_path) as broker:
        add_user(broker, "alice", 4096)
        add_user(broker, "bob", 8192)
        before = all_shown(broker)
    with start(tmp_path) as broker:
        assert all_shown(broker) == before, "after a restart"
    for name, by_mechanism in before.items():
        assert all(one == other for one, other in by_mechanism.values()), f"{name}: two listeners tell"
        salts = {one["s"] for one, _ in by_mechanism.values()}
        assert len(salts) == len(MECHANISMS), f"{name}: two mechanisms tell"
    seen = {one[0]["i"] for name in STRANGERS for one in before[name].values()}
    assert seen == {"4096", "8192"}


OTHER = "127.0.0.2"
"""Another address of this machine."""


def test_guesses_lock_a_user_out_where_they_come_from_on_every_listener_and_nowhere_else(tmp_path: Path) -> None:
    settings = {**SETTINGS, "message.set.listeners": "tcp://127.0.0.1:0", "message.set.authentication": "plain"}
    right = b"\0alice\0alice's"
    with Broker(settings, directory=tmp_path) as broker:
        for name in ("alice", "bob"):
            add_user(broker, name)
        assert said(broker, "ONE", "PLAIN", right).error_code == ErrorCode.NONE
        for number in range(MOST_FAILURES):
            if number % 2:
                assert (
                    said(broker, "ONE", "PLAIN", b"\0alice\0wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                )
            else:
                assert by_message_sets(broker, "alice", "wrong") == ErrorCode.SASL_AUTHENTICATION_FAILED
        away = said(broker, "TWO", "PLAIN", right)
        assert away.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "too many attempts have failed" in str(away.error_message)
        scram = said(broker, "ONE", "SCRAM-SHA-256", b"n,,n=alice,r=nonce")
        assert scram.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert by_message_sets(broker, "alice", "alice's") == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert by_message_sets(broker, "bob", "bob's") == ErrorCode.NONE, "another user from there"
        assert said(broker, "ONE", "PLAIN", right, OTHER).error_code == ErrorCode.NONE, "the user from elsewhere"
        assert by_message_sets(broker, "alice", "alice's", OTHER) == ErrorCode.NONE
        metrics = services_of(broker).socket_server.securities
        assert sum(one.turned_away for one in metrics.values()) == 3


def by_message_sets(broker: Broker, name: str, password: str, source: str = "127.0.0.1") -> int:
    """The code that AUTHENTICATE of the message-set protocol is answered with."""
    with socket.create_connection(message_set_address(broker), PATIENCE_S, source_address=(source, 0)) as one:
        one.sendall(authenticate_request(name, password))
        (size,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
        return int(struct.unpack_from(">h", one.recv(size, socket.MSG_WAITALL))[0])
