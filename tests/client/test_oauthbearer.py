"""OAUTHBEARER over sockets: a real client with tokens that the test signs, and a key server that rotates, is slow, or silent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
from support.inside import principals, services_of
from support.patience import PATIENCE_S
from support.tokens import AUDIENCE, ISSUER, KeyServer, key_set, private_key, public_jwk, token_of
from support.wire_client import WireClient
from tidelog.broker.security.sasl import jwks
from tidelog.broker.security.sasl.jwks import MAX_BYTES, HttpSource, SourceError, source_of
from tidelog.config.exceptions import ConfigError
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.testing import Broker, BrokerError

OLD, NEW = public_jwk(private_key(), "old"), public_jwk(private_key("P-256"), "new")


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str, **more: str) -> None:
        super().__init__()
        self._token = token
        self._more = more

    def token(self) -> str:
        return self._token

    def extensions(self) -> dict[str, str]:
        return self._more


@pytest.fixture
def keys() -> Iterator[KeyServer]:
    with KeyServer(key_set(OLD)) as server:
        yield server


@pytest.fixture
def broker(keys: KeyServer) -> Iterator[Broker]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512",
        "sasl.oauthbearer.jwks.endpoint.url": keys.url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "1",
    }
    with Broker(settings) as one:
        one.create_topic("t")
        yield one


def client(broker: Broker, token: str, **more: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.listener("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(token, **more),
    }


def test_who_has_a_token_is_whom_it_names_and_a_rotated_key_is_found_at_once(
    broker: Broker, keys: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = KafkaProducer(**client(broker, token_of(key_id="old"), logicalCluster="lkc-1"))
    producer.send("t", b"x").get(timeout=PATIENCE_S)
    assert "User:alice" in principals(broker)
    producer.close()
    keys.serve(key_set(NEW))
    found = services_of(broker).socket_server.securities["SASL_PLAINTEXT"].tokens
    assert found is not None
    monkeypatch.setattr(jwks, "BETWEEN_S", 0.0)  # as if the keys had been read long ago
    producer = KafkaProducer(**client(broker, token_of(private_key("P-256"), "ES256", "new")))
    producer.send("t", b"y").get(timeout=PATIENCE_S)
    producer.close()
    assert keys.requests == 2


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": 1}, "the token has expired"),
        ({"aud": "another"}, "the token is for another audience (aud)"),
        ({"iss": "another"}, "the token is of another issuer (iss)"),
    ],
)
def test_who_has_another_is_told_why_and_disconnected(broker: Broker, claims: dict[str, Any], why: str) -> None:
    security = services_of(broker).socket_server.securities["SASL_PLAINTEXT"]
    before = security.failures
    token = token_of(key_id="old", **claims)
    host, _, port = broker.listener("SASL_PLAINTEXT").rpartition(":")
    with WireClient((host, int(port))) as wire:
        wire.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1, SaslHandshakeResponse)
        first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        told = wire.ask(SaslAuthenticateRequest(auth_bytes=first), 2, SaslAuthenticateResponse)
        assert told.error_code == ErrorCode.NONE
        assert json.loads(told.auth_bytes) == {"status": "invalid_token", "error_description": why}
        last = wire.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2, SaslAuthenticateResponse)
        assert (last.error_code, last.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, f"OAUTHBEARER: {why}")
        assert wire.is_closed_by_peer()
    assert security.failures == before + 1


def test_a_key_server_that_hangs_holds_up_nobody_but_who_needs_it() -> None:
    asked = threading.Event()
    with KeyServer(b"") as server:

        def hang(handler: BaseHTTPRequestHandler) -> None:
            asked.set()
            server.leave.wait()

        server.answer = hang
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": server.url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        with Broker(settings) as broker:
            assert asked.wait(PATIENCE_S)
            broker.create_topic("t")
            producer = KafkaProducer(bootstrap_servers=broker.listener("PLAINTEXT"))
            producer.send("t", b"x").get(timeout=PATIENCE_S)
            producer.close()
            assert server.requests == 1


def test_a_file_of_keys_that_is_not_there_stops_the_start_with_one_line(tmp_path: Path) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    with (
        pytest.raises((BrokerError, ConfigError), match=r"set sasl\.oauthbearer\.jwks\.endpoint\.url"),
        Broker(settings),
    ):
        pass
    settings["sasl.oauthbearer.jwks.endpoint.url"] = (tmp_path / "keys.json").as_uri()
    with pytest.raises(BrokerError, match=r"of SASL_PLAINTEXT: .*keys\.json can't be read"), Broker(settings):
        pass


# -- the source by itself


def hurried(server: KeyServer) -> HttpSource:
    assert isinstance(source_of(server.url), HttpSource)
    return HttpSource(urlsplit(server.url), timeout_s=0.3)


def test_keys_come_by_http() -> None:
    with KeyServer(key_set(OLD)) as server:
        assert json.loads(source_of(server.url).read()) == {"keys": [OLD]}
        server.serve(b"x" * (MAX_BYTES + 1))
        with pytest.raises(SourceError, match="more than"):
            source_of(server.url).read()
        server.answer = lambda handler: server.send(handler, b"", 302, Location="http://169.254.169.254/")
        with pytest.raises(SourceError, match="answers 302 and points elsewhere"):
            source_of(server.url).read()
        server.answer = lambda handler: server.send(handler, b"", 503)
        with pytest.raises(SourceError, match="answers 503"):
            source_of(server.url).read()
        server.answer = lambda handler: handler.wfile.write(b"\x00garbage\r\n\r\n")  # type: ignore[func-returns-value]
        with pytest.raises(SourceError, match="no answer that can be read"):
            source_of(server.url).read()
        server.answer = lambda handler: server.send(handler, b"short", 200, **{"Content-Length": "50"})
        with pytest.raises(SourceError, match="no answer that can be read"):
            source_of(server.url).read()
    with pytest.raises(SourceError, match="can't be reached"):
        source_of(server.url).read()


@pytest.mark.parametrize("part", ["nothing", "header", "body"])
def test_a_server_that_drips_is_left_in_time(part: str) -> None:
    with KeyServer(b"") as server:

        def drip(handler: BaseHTTPRequestHandler) -> None:
            if part == "body":
                handler.send_response(200)
                handler.send_header("Content-Length", "100000")
                handler.end_headers()
            elif part == "header":
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while part != "nothing" and not server.leave.is_set():
                handler.wfile.write(b"x")
                time.sleep(0.02)
            server.leave.wait()

        server.answer = drip
        with pytest.raises(SourceError, match=r"did not answer within 0\.3 s"):
            hurried(server).read()


def test_keys_come_by_https_from_whom_the_authorities_know(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with KeyServer(key_set(OLD)) as server:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
        server.speak_tls(context)
        url = server.url.replace("http:", "https:")
        assert json.loads(source_of(url, str(tmp_path / "ca.pem")).read()) == {"keys": [OLD]}
        with pytest.raises(SourceError, match="unable to get local issuer certificate"):
            source_of(url).read()
