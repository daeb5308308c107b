from __future__ import annotations

import inspect
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.connections import Server, Transport
from support.tokens import key_set, private_key, public_jwk
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.socket_server import Endpoint
from tidelog.broker.security.credentials import Users
from tidelog.broker.security.sasl.listener_security import ListenerSecurity, SaslCommons
from tidelog.broker.security.sasl.login_attempts import Guesses
from tidelog.broker.security.sasl.mechanism import Exchange, Refusal, Step
from tidelog.broker.security.sasl.oauthbearer import OAuthExchange
from tidelog.broker.security.sasl.plain import PlainExchange
from tidelog.broker.security.sasl.scram import ScramExchange
from tidelog.config.broker_config import BrokerConfig, broker_config
from tidelog.config.exceptions import ConfigError
from tidelog.config.setting import Value
from tidelog.protocol.errors import ErrorCode, ProtocolError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def config(tmp_path: Path, **more: Value) -> BrokerConfig:
    server = trustme.CA().issue_cert("localhost")
    server.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    return broker_config(
        {
            "listeners": ("IN://127.0.0.1:0", "OUT://127.0.0.1:0"),
            "listener.security.protocol.map": "IN:SASL_PLAINTEXT,OUT:SASL_SSL",
            "ssl.keystore.location": str(tmp_path / "server.pem"),
            "sasl.enabled.mechanisms": ("PLAIN", "SCRAM-SHA-512"),
            **more,
        }
    )


def security(one: BrokerConfig, listener: int = 0) -> ListenerSecurity:
    store: Any = None
    return ListenerSecurity(
        one.listeners[listener], one, SaslCommons.of(Users({}, store), b"secret", Guesses.of(ThreadPoolExecutor(1)))
    )


def exchange(one: ListenerSecurity, mechanism: str) -> Exchange:
    return one.exchange(mechanism, "10.0.0.1", one.attempt("10.0.0.1"))


async def plain(one: ListenerSecurity, name: str, password: str) -> Step:
    step = exchange(one, "PLAIN").step(f"\0{name}\0{password}".encode())
    return await step if inspect.isawaitable(step) else step


def test_a_listener_asks_what_its_settings_say(tmp_path: Path) -> None:
    one = config(
        tmp_path,
        **{
            "listener.name.out.sasl.enabled.mechanisms": ("PLAIN",),
            "listener.name.out.plain.connections.max.reauth.ms": 7,
            "connections.max.reauth.ms": 9,
            "listener.name.out.ssl.handshake.timeout.ms": 11,
        },
    )
    inside, outside = security(one), security(one, 1)
    assert (inside.sasl, inside.tls, inside.mechanisms) == (True, None, ("PLAIN", "SCRAM-SHA-512"))
    assert outside.tls_context is not None
    assert (outside.mechanisms, outside.handshake_timeout_ms) == (("PLAIN",), 11)
    assert [one.max_reauth_ms("PLAIN") for one in (inside, outside)] == [9, 7]
    assert isinstance(exchange(inside, "PLAIN"), PlainExchange)
    assert isinstance(exchange(inside, "SCRAM-SHA-512"), ScramExchange)
    with pytest.raises(Refusal):
        exchange(inside, "GSSAPI")


def test_oauthbearer_is_there_where_its_libraries_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys.json").write_bytes(key_set(public_jwk(private_key())))
    one = config(
        tmp_path,
        **{
            "listener.name.in.sasl.enabled.mechanisms": ("OAUTHBEARER",),
            "listener.name.in.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": ("a",),
            "sasl.oauthbearer.expected.issuer": "i",
        },
    )
    assert isinstance(exchange(security(one), "OAUTHBEARER"), OAuthExchange)
    assert security(one, 1).tokens is None
    with pytest.raises(Refusal):
        exchange(security(one, 1), "OAUTHBEARER")
    monkeypatch.setitem(sys.modules, "jwt", None)
    for name in ("oauthbearer", "jwks", "tokens"):
        monkeypatch.delitem(sys.modules, f"tidelog.broker.security.sasl.{name}")
    with pytest.raises(ConfigError, match=r"of IN has OAUTHBEARER.*\(jwt\): pip install 'tidelog\[oauth\]'"):
        security(one)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("listener.name.in.plain.sasl.jaas.config", f"{PLAIN} required user_x", "listener IN: sasl.jaas.config"),
        ("ssl.principal.mapping.rules", "RULE:(", "ssl.principal.mapping.rules of IN"),
    ],
)
def test_what_can_not_be_read_stops_the_start_with_one_line(tmp_path: Path, name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        security(config(tmp_path, **{name: value}))


async def test_users_of_the_settings_change_while_it_runs(tmp_path: Path) -> None:
    name = "listener.name.in.plain.sasl.jaas.config"
    inside = security(config(tmp_path, **{name: f'{PLAIN} required user_bob="b";'}))
    other = config(tmp_path, **{name: f'{PLAIN} required user_carol="c";'})
    inside.check(other)
    inside.use(other)
    assert (await plain(inside, "carol", "c")).user == "carol"
    with pytest.raises(Refusal):
        await plain(inside, "bob", "b")
    with pytest.raises(ProtocolError, match="a semicolon ends it"):
        inside.check(config(tmp_path, **{name: f"{PLAIN} required user_x=y"}))


def test_a_change_that_makes_no_context_is_refused_before_it_is_taken(tmp_path: Path) -> None:
    one = config(tmp_path)
    outside = security(one, 1)
    outside.check(one)
    broken = broker_config(
        {
            **{name: getattr(one, name.replace(".", "_")) for name in ("ssl.keystore.location",)},
            "listeners": ("OUT://127.0.0.1:0",),
            "listener.security.protocol.map": "OUT:SASL_SSL",
            "listener.name.out.ssl.keystore.location": "/nowhere",
        }
    )
    with pytest.raises(ProtocolError, match="/nowhere: can't be read") as caught:
        outside.check(broken)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    outside.use(broken)
    assert outside.tls_context is not None


@pytest.mark.parametrize(("muted_ms", "deadline_ms"), [(0, 30_000), (90_000, 120_000)])
async def test_a_client_that_is_made_to_wait_has_its_time_afterwards(
    tmp_path: Path, muted_ms: int, deadline_ms: int
) -> None:
    """max.connection.creation.rate: of a thousand that come again at once, those would be closed that wait for longest, and come
    again."""
    with ThreadPoolExecutor(1) as pool:
        server, (near, far) = Server(pool), socket.socketpair()
        near.setblocking(False)
        dispatcher: Any = None
        connection = Connection(server, Endpoint("IN", "SASL_PLAINTEXT", "127.0.0.1", 9092), dispatcher)  # type: ignore[arg-type]
        connection.connection_made(Transport(near))
        if muted_ms:
            connection.mute(muted_ms)
        before = server.loop.time()
        security(config(tmp_path)).expect(connection)
        timer = server.loop.timers[-1]
        assert 0 <= timer.when() - before - deadline_ms / 1000 < 1
        connection.connection_lost(None)
        near.close()
        far.close()
