"""Before authentication a client learns which APIs there are and which SASL mechanisms, and nothing else: every API key in every
version, keys that do not exist, message sets and HTTP, on every listener that asks who a client is, at each stage of getting in.

All that comes back is kept, and looked through at the end for the names that this broker knows.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import struct
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from support.certificates import authority_in, write_identity
from support.inside import add_scram_user, node_of
from support.logs import batch
from support.message_sets import message_set_address
from support.patience import PATIENCE_S
from support.permission_case import TOPICS, made
from support.permission_cases import CASES
from support.wire_client import WireClient, request_frame
from tidelog.broker.http.console.routes import ROUTES
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.message_set import LATEST
from tidelog.protocol.message_set.wire import authenticate_request, fetch_request, offsets_request
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.schema import decode
from tidelog.testing import Broker

TOPIC, USER, GROUP, RECORD = "kept-topic", "kept-user", "kept-group", "kept-record"
SETTING = "kept-host.example"
"""Of a setting: where clients are told to connect to."""
OPEN = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
UNKNOWN_KEYS = (-32768, -1, 4, 5, 6, 7, 52, 95, 999, 32767)
MECHANISMS = ["PLAIN", "SCRAM-SHA-256"]
WRONG = f"\0{USER}\0wrong".encode()


class World(NamedTuple):
    broker: Broker
    folder: Path
    learnt: bytearray
    """All that came back, but the answers to ApiVersions."""

    @property
    def kept(self) -> tuple[str, ...]:
        """What nobody may learn before authentication."""
        return TOPIC, USER, GROUP, RECORD, SETTING, str(self.folder), "Python/"

    def connect(self, listener: str, certificate: str = "", timeout_s: float = PATIENCE_S) -> WireClient:
        host, _, port = self.broker.listener(listener).rpartition(":")
        client = WireClient((host, int(port)), timeout_s)
        if listener.endswith("SSL"):
            context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
            if certificate:
                context.load_cert_chain(self.folder / certificate)
            client.socket = context.wrap_socket(client.socket, server_hostname="localhost")
        return client

    def rest(self, client: WireClient) -> bytes:
        """All that comes until the connection ends, as it has to."""
        found = bytearray()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while chunk := client.socket.recv(65536):
                found += chunk
        self.learnt.extend(found)
        return bytes(found)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("unauthenticated")
    authority_in(folder)
    write_identity(trustme.CA(), folder / "stranger.pem", "alice@example.org", common_name="alice")
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")),
        "message.set.listeners": "tcp://127.0.0.1:0",
        "message.set.authentication": "plain",
        "http.listener": "127.0.0.1:0",
        "http.authentication": "basic",
        "http.users.read": USER,
        "ssl.keystore.location": folder / "server.pem",
        "ssl.truststore.location": folder / "ca.pem",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "advertised.listeners": f"PLAINTEXT://{SETTING}:9092",
        "connection.failed.authentication.delay.ms": "1",
    }
    with Broker(settings) as broker:
        broker.create_topic(TOPIC)
        produce = loaded(load_apis()[ApiKey.PRODUCE])
        rows = [{"name": TOPIC, "partition_data": [{"index": 0, "records": bytes(batch(RECORD))}]}]
        with WireClient((broker.host, broker.port)) as client:
            request = made(produce.request, {"acks": -1, "timeout_ms": 60_000, "topic_data": rows})
            assert not client.ask(request, 9, response_class(produce)).responses[0].partition_responses[0].error_code  # type: ignore[attr-defined]
        add_scram_user(broker, USER, "right")
        told = World(broker, folder, bytearray())
        yield told
        for name in told.kept:
            assert name.encode() not in told.learnt, f"{name} was learnt before authentication"


def requests(newest: bool = False) -> Iterator[tuple[int, int, bytes]]:
    """(API key, version, frame) of requests that would be answered to whoever is in, and of versions and keys that are none."""
    ids = dict.fromkeys((TOPIC, *TOPICS), bytes(16))
    for key, registration in load_apis().items():
        cls = loaded(registration).request
        versions = range(registration.min_version, registration.max_version + 1)
        for version in versions[-1:] if newest else versions:
            fitting = (case for case in CASES if case.key is key and case.first <= version <= case.last)
            if (case := next(fitting, None)) is None:
                frame = request_frame(cls(), version)
            else:
                names = (TOPIC, TOPIC) if case.names == TOPICS else case.names
                frame = request_frame(made(cls, case.fields(names, ids, bytes(batch("x")))), version)
            yield key, version, frame
        if not newest:
            for version in (registration.max_version + 1, -1):
                yield key, version, _bare(key, version)
    for key in UNKNOWN_KEYS:
        if key not in load_apis():
            yield key, 0, _bare(key, 0)


def _bare(key: int, version: int) -> bytes:
    header = struct.pack(">hhih", key, version, 7, -1)
    return struct.pack(">i", len(header) + 20) + header + bytes(20)


def _nothing(client: WireClient) -> None:
    """A connection that has said nothing."""


def _asked(client: WireClient) -> None:
    assert client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).api_keys


def _shaken(client: WireClient) -> None:
    answer = client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1, SaslHandshakeResponse)
    assert answer.mechanisms == MECHANISMS


def _half_way(client: WireClient) -> None:
    _shaken(client)
    first = SaslAuthenticateRequest(auth_bytes=f"n,,n={USER},r=nonce".encode())
    assert client.ask(first, 2, SaslAuthenticateResponse).auth_bytes


STAGES: tuple[Callable[[WireClient], None], ...] = (_nothing, _asked, _shaken, _half_way)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__.strip("_"))
def test_no_api_answers_before_authentication(world: World, stage: Callable[[WireClient], None]) -> None:
    """In every version on the wire in the clear; the first of these ends the connection without a byte."""
    count = 0
    for key, version, frame in requests():
        if key in OPEN:
            continue
        with world.connect("SASL_PLAINTEXT") as client:
            stage(client)
            client.send(frame)
            assert world.rest(client) == b"", (key, version)
        count += 1
    assert count > 400


@pytest.mark.parametrize("stage", [_nothing, _half_way], ids=lambda stage: stage.__name__.strip("_"))
def test_nor_by_tls(world: World, stage: Callable[[WireClient], None]) -> None:
    for key, version, frame in requests(newest=True):
        if key not in OPEN:
            with world.connect("SASL_SSL") as client:
                stage(client)
                client.send(frame)
                assert world.rest(client) == b"", (key, version)


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_nor_after_an_attempt_that_failed(world: World, listener: str) -> None:
    """Sent in one piece with the wrong password, and once it was refused."""
    handshake = request_frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    attempt = request_frame(SaslAuthenticateRequest(auth_bytes=WRONG), 2)
    for key, version, frame in requests(newest=True):
        with world.connect(listener) as client:
            client.send(handshake + attempt + frame)
            assert decode(SaslHandshakeResponse, 1, client.receive(), 4)[0].error_code == 0
            refused = client.receive()
            assert decode(SaslAuthenticateResponse, 2, refused, 5)[0].error_code == 58
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                client.send(frame)
            assert world.rest(client) == b"", (key, version)


def test_a_misrouted_client_learns_that_before_it_gives_its_password(world: World) -> None:
    """KIP-1242; and afterwards it may authenticate all the same."""
    name = {"client_software_name": "test", "client_software_version": "1"}
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        with world.connect(listener) as client:
            astray = ApiVersionsRequest(**name, cluster_id="another", node_id=1)
            assert client.ask(astray, 5, ApiVersionsResponse) == ApiVersionsResponse(error_code=129)
            assert client.ask(ApiVersionsRequest(**name), 5, ApiVersionsResponse).api_keys
            _shaken(client)


def test_what_is_open_tells_what_it_tells_everybody(world: World) -> None:
    """ApiVersions as to clients that are in, in each version; the handshake tells mechanisms; a token without one ends it."""
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        for key, version, frame in requests():
            if key not in OPEN or version < 0:
                continue
            with world.connect(listener) as client:
                client.send(frame)
                if key == ApiKey.SASL_AUTHENTICATE and version <= load_apis()[key].max_version:
                    assert world.rest(client) == b""
                    continue
                answer = client.receive()
                if key == ApiKey.API_VERSIONS:
                    with world.connect("PLAINTEXT") as known:
                        known.send(frame)
                        assert answer == known.receive()
                    assert not any(name.encode() in answer for name in (TOPIC, USER, GROUP, SETTING))
                    continue
                world.learnt.extend(answer)
                if key == ApiKey.SASL_HANDSHAKE and version <= load_apis()[key].max_version:
                    told = decode(
                        SaslHandshakeResponse, version, answer, len(response_header_bytes(ApiKey(key), version, 7))
                    )[0]
                    assert told.mechanisms == MECHANISMS


@pytest.mark.parametrize("certificate", ["", "stranger.pem"])
def test_without_a_certificate_that_counts_nothing_is_answered_by_tls(world: World, certificate: str) -> None:
    """Not even ApiVersions. With TLS 1.3 a client may send before it hears that it is refused."""
    for key, version, frame in requests(newest=True):
        try:
            with world.connect("SSL", certificate) as client:
                client.send(frame)
                assert world.rest(client) == b"", (key, version)
        except (ssl.SSLError, ConnectionError):
            continue


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_what_is_no_tls_gets_an_alert_at_most(world: World, listener: str) -> None:
    host, _, port = world.broker.listener(listener).rpartition(":")
    for key, version, frame in requests(newest=True):
        with WireClient((host, int(port))) as client:
            client.send(frame)
            with contextlib.suppress(ConnectionError):
                client.socket.shutdown(socket.SHUT_WR)
            found = world.rest(client)
            assert not found or (found[0] == 21 and len(found) <= 7), (key, version, found)


def test_message_sets_are_not_answered_before_or_after_a_wrong_password(world: World) -> None:
    address = message_set_address(world.broker)
    frames = [offsets_request(TOPIC, 0, LATEST, 1), fetch_request(TOPIC, 0, 0, 1 << 20)]
    frames += [struct.pack(">ih", 2 + 40, kind) + bytes(40) for kind in (*range(5), 6, 99, -1)]
    wrong = authenticate_request(USER, "wrong")
    for frame in frames:
        for ahead in (b"", wrong):
            with WireClient(address) as client:
                client.send(ahead + frame)
                told = world.rest(client)
                # Sizes and a code, and nothing behind it: no offsets, no records, no text.
                assert told == b"" or (
                    len(told) <= 16 and told[:3] == b"\0\0\0" and set(told[6:]) in (set(), {0}, {255})
                ), (frame, told)
        for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
            with world.connect(listener) as client:
                client.send(frame + bytes(64))
                assert world.rest(client) == b""


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL", "tcp"])
def test_what_a_stranger_announces_and_is_too_large_is_not_waited_for(world: World, listener: str) -> None:
    """sasl.server.max.receive.size is 512 KiB. A client that is let in may send 100 MiB, and takes as long as that needs."""
    timeout_s = 10.0  # a third of sasl.authentication.timeout.ms
    if listener == "tcp":
        client = WireClient(message_set_address(world.broker), timeout_s)
    else:
        client = world.connect(listener, timeout_s=timeout_s)
    with client:
        client.send(struct.pack(">ihhi", 1 << 20, ApiKey.SASL_AUTHENTICATE, 1, 7) + bytes(1000))
        assert world.rest(client) == b""


def test_http_tells_nobody_what_is_there(world: World) -> None:
    address = urllib.parse.urlsplit(node_of(world.broker).http.url).netloc  # type: ignore[union-attr]
    told: dict[str, set[bytes]] = {}
    for path in (
        *(route.example for route in ROUTES if not route.path.startswith("/console.")),
        "/metrics",
        "/health",
        f"/topics/{TOPIC}",
        f"/why/{TOPIC}",
        "/no/such/page",
    ):
        for method in ("GET", "HEAD", "POST", "PUT", "OPTIONS"):
            connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            assert answer.status in (401, 405, 501), (method, path, answer.status)
            told.setdefault(method, set()).add(body)
            world.learnt.extend(f"{answer.headers}".encode() + body)
    said = b"Sign in to see this."
    assert all(bodies <= {b"", said + b"\n", b'{"error": "' + said + b'"}\n'} for bodies in told.values()), told


def test_the_search_would_find_what_is_told_to_who_is_in(world: World) -> None:
    metadata: Any = loaded(load_apis()[ApiKey.METADATA])
    with world.connect("PLAINTEXT") as client:
        answer = client.ask(metadata.request(topics=None), 12, response_class(metadata))
    assert TOPIC in repr(answer)
    assert SETTING in repr(answer)
