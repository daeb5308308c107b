"""TLS and SASL over sockets: clients that know the way in get in as who they are, and the others learn nothing."""

from __future__ import annotations

import io
import json
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
import trustme
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from support.certificates import authority_in, write_identity
from support.inside import add_scram_user, alter_settings, in_loop, principals, services_of
from support.patience import PATIENCE_S, until
from support.wire_client import request_frame
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.schema import decode, encode
from tidelog.testing import Broker, BrokerError

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="bob\'s secret";'


class Secured(NamedTuple):
    broker: Broker
    folder: Path
    authority: trustme.CA

    def client(self, listener: str, **more: Any) -> dict[str, Any]:
        """Settings of a kafka-python client."""
        address = self.broker.listener(listener)
        settings: dict[str, Any] = {"bootstrap_servers": address, "security_protocol": listener, **more}
        if listener.endswith("SSL"):
            settings["ssl_cafile"] = str(self.folder / "ca.pem")
        return settings

    def principals(self) -> set[str]:
        return principals(self.broker)

    def expired(self) -> list[object]:
        connections = list(services_of(self.broker).socket_server.connections)
        return [one for one in connections if one.authentication is not None and one.authentication.expired]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = authority_in(folder)
    write_identity(authority, folder / "alice.pem", "alice@example.org", common_name="alice")
    settings = {
        "listeners": ",".join(
            f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT", "SHORT")
        ),
        "listener.security.protocol.map": "SHORT:SASL_PLAINTEXT",
        "ssl.keystore.location": folder / "server.pem",
        "ssl.truststore.location": folder / "ca.pem",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": r"RULE:^CN=([a-z]+).*$/$1/",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        "listener.name.short.connections.max.reauth.ms": "1000",
        "connection.failed.authentication.delay.ms": "1",
    }
    with Broker(settings) as broker:
        broker.create_topic("t")
        add_scram_user(broker, "alice", "alice's secret", ("SCRAM-SHA-256", "SCRAM-SHA-512"))
        yield Secured(broker, folder, authority)


def round_trip(settings: dict[str, Any], value: bytes) -> None:
    """Writes and reads one record by a real client."""
    producer = KafkaProducer(**settings)
    sent = producer.send("t", value).get(timeout=PATIENCE_S)
    consumer = KafkaConsumer(**settings)
    from kafka import TopicPartition

    partition = TopicPartition("t", 0)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    records = consumer.poll(timeout_ms=60_000)[partition]
    assert records[0].value == value
    producer.close()
    consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_user_gets_in_by_every_mechanism(secured: Secured, listener: str, mechanism: str) -> None:
    settings = secured.client(
        listener, sasl_mechanism=mechanism, sasl_plain_username="alice", sasl_plain_password="alice's secret"
    )
    round_trip(settings, f"{listener} {mechanism}".encode() * 100)


def test_a_user_of_the_settings_gets_in_on_that_listener_alone(secured: Secured) -> None:
    bob: Any = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "bob", "sasl_plain_password": "bob's secret"}
    round_trip(secured.client("SASL_SSL", **bob), b"x")
    with pytest.raises(KafkaError):
        KafkaAdminClient(**secured.client("SASL_PLAINTEXT", **bob), bootstrap_timeout_ms=2000)


def test_a_certificate_lets_in_whom_it_names(secured: Secured) -> None:
    settings = secured.client("SSL", ssl_certfile=str(secured.folder / "alice.pem"))
    consumer = KafkaConsumer("t", **settings)
    consumer.topics()
    assert "User:alice" in secured.principals()
    consumer.close()
    round_trip(settings, b"y" * 300_000)


class Raw:
    """A client that says what it likes."""

    def __init__(self, address: str, context: ssl.SSLContext | None = None) -> None:
        host, _, port = address.rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.sock = context.wrap_socket(plain, server_hostname="localhost") if context else plain

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, body: bytes) -> None:
        self.sock.sendall(struct.pack(">i", len(body)) + body)

    def request(self, request: Any, version: int) -> None:
        flexible = type(request).FLEXIBLE_FROM is not None and version >= type(request).FLEXIBLE_FROM
        header = struct.pack(">hhih", request.API_KEY, version, 1, -1) + (b"\0" if flexible else b"")
        self.send(header + encode(request, version))

    def answer(self) -> bytes:
        """One frame; b"" when the connection was closed."""
        head = self._exactly(4)
        return self._exactly(struct.unpack(">i", head)[0]) if head else b""

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            try:
                chunk = self.sock.recv(count - len(got))
            except ConnectionResetError:
                chunk = b""
            if not chunk:
                return b""
            got += chunk
        return got

    def authenticate(self, token: bytes) -> SaslAuthenticateResponse:
        self.request(SaslAuthenticateRequest(auth_bytes=token), 1)
        response: SaslAuthenticateResponse
        response, _ = decode(SaslAuthenticateResponse, 1, self.answer(), 4)
        return response


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_who_is_not_known_learns_nothing(secured: Secured, listener: str) -> None:
    context = ssl.create_default_context(cafile=str(secured.folder / "ca.pem")) if listener == "SASL_SSL" else None
    with Raw(secured.broker.listener(listener), context) as raw:
        raw.request(ApiVersionsRequest(), 0)
        assert raw.answer()
        raw.request(MetadataRequest(topics=None), 4)
        assert raw.answer() == b""


def test_what_comes_in_one_piece_with_the_last_step_is_answered_after_it(secured: Secured) -> None:
    with Raw(secured.broker.listener("SASL_PLAINTEXT")) as raw:
        raw.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        raw.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice's secret"), 1)
        raw.request(MetadataRequest(topics=None), 4)
        answers = [raw.answer() for _ in range(3)]
    response, _ = decode(MetadataResponse, 4, answers[2], 4)
    assert [topic.name for topic in response.topics] == ["t"]


def test_tokens_without_headers_as_kafka_0_10_has_them(secured: Secured) -> None:
    with Raw(secured.broker.listener("SASL_PLAINTEXT")) as raw:
        raw.request(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        assert raw.answer()
        raw.send(b"\0alice\0alice's secret")
        assert raw._exactly(4) == b"\0\0\0\0"
        raw.request(MetadataRequest(topics=None), 4)
        assert raw.answer()


def test_a_session_ends_and_goes_on_when_the_client_authenticates_again(secured: Secured) -> None:
    token = b"\0alice\0alice's secret"
    address = secured.broker.listener("SHORT")
    with Raw(address) as lazy, Raw(address) as diligent:
        for raw in (lazy, diligent):
            raw.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            assert raw.answer()
            assert raw.authenticate(token).session_lifetime_ms == 1000
        until(lambda: len(secured.expired()) == 2, "the end of both sessions")
        lazy.request(MetadataRequest(topics=None), 4)
        assert lazy.answer() == b""
        # In one piece, so that however slow this process is, the new session has not ended by then.
        steps = (SaslHandshakeRequest(mechanism="PLAIN"), 1), (SaslAuthenticateRequest(auth_bytes=token), 1)
        diligent.sock.sendall(b"".join(request_frame(*step) for step in (*steps, (MetadataRequest(topics=None), 4))))
        assert all(diligent.answer() for _ in range(3))


def test_a_renewed_certificate_is_shown_to_whoever_comes_next(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=str(secured.folder / "ca.pem"))

    def serial() -> str:
        with Raw(secured.broker.listener("SASL_SSL"), context) as raw:
            certificate = raw.sock.getpeercert()  # type: ignore[union-attr]
            return str(certificate["serialNumber"])

    before = serial()
    renewed = secured.authority.issue_cert("localhost", "127.0.0.1")
    (secured.folder / "server.pem").write_bytes(renewed.private_key_and_cert_chain_pem.bytes())
    server = services_of(secured.broker).socket_server

    async def renew() -> None:
        server.renew_certificates()

    in_loop(secured.broker, renew)
    until(lambda: serial() != before, "the new certificate")


def test_settings_of_certificates_change_while_it_runs(secured: Secured) -> None:
    name, context = "listener.name.sasl_ssl.ssl.", ssl.create_default_context(cafile=str(secured.folder / "ca.pem"))

    def alter(settings: dict[str, str]) -> None:
        alter_settings(secured.broker, settings)

    def version() -> str | None:
        with Raw(secured.broker.listener("SASL_SSL"), context) as raw:
            return raw.sock.version()  # type: ignore[union-attr,no-any-return]

    assert version() == "TLSv1.3"
    alter({f"{name}enabled.protocols": "TLSv1.2"})
    until(lambda: version() == "TLSv1.2", "the setting")
    with pytest.raises(BrokerError, match="/nowhere: can't be read"):
        alter({f"{name}keystore.location": "/nowhere"})
    alter({})
    until(lambda: version() == "TLSv1.3", "the default again")


def test_commands_make_users_and_get_in_as_them(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first user on a stopped daemon, the next ones by the protocol; passwords show nowhere."""
    from tidelog.cli.main import main

    def call(*arguments: str, password: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
        code = main(arguments)
        return code, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    offline = ("--set", f"log.dirs={tmp_path / 'data'}")
    assert call("users", "create", "root", *offline, password="s3cret of root") == (0, "", "")
    code, _, error = call("users", "delete", "nobody", *offline)
    assert (code, error) == (1, "tidelog: user nobody has no password of that kind; there are users root\n")
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "log.dirs": tmp_path / "data",
        "ssl.keystore.location": secured.folder / "server.pem",
    }
    (tmp_path / "root.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=root\nsasl.password=s3cret of root\n"
        f"ssl.truststore.location={secured.folder / 'ca.pem'}\n"
    )
    with Broker(settings) as broker:
        asked = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", "root.properties")
        assert call("users", "create", "alice", *asked, password="pw")[0] == 0
        assert call("users", "create", "alice", *asked)[2].startswith("tidelog: the password is empty")
        listed = json.loads(call("users", "list", "--json", *asked)[1])
        assert listed == {name: {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192} for name in ("alice", "root")}
        assert call("users", "delete", "alice", *asked, "--mechanism", "SCRAM-SHA-256")[0] == 0
        assert call("users", "delete", "alice", *asked)[0] == 0
        assert list(json.loads(call("users", "list", "--json", *asked)[1])) == ["root"]
        assert call("users", "delete", "alice", *asked)[0] == 1
        code, _, error = call("users", "create", "root", *offline, password="x")
        assert code == 1
        assert "another process has this data directory open" in error
        (tmp_path / "root.properties").write_text(
            (tmp_path / "root.properties").read_text().replace("s3cret of root", "wrong one")
        )
        code, _, error = call("topics", "list", *asked)
        assert code == 1
        assert error.endswith("user 'root': SCRAM-SHA-512: authentication failed: the user or the password is wrong\n")
        code, _, error = call("topics", "list", "--bootstrap-server", broker.bootstrap_servers)
        assert "needs --command-config FILE" in error
    stored = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"s3cret" not in stored
