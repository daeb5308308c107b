"""Our own clients with an issuer's tokens: commands, by HTTP too, and the pipeline's client, all by one file. What goes through
librdkafka is in tests/compat/test_secured_clients.py."""

from __future__ import annotations

import base64
import json
import logging
import ssl
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trustme
from support.tokens import AUDIENCE, ISSUER, KeyServer, key_set, private_key, public_jwk, token_of
from tidelog.cli.main import main
from tidelog.cli.pipeline import security_options
from tidelog.pipeline.exceptions import AuthenticationError, BrokerUnreachableError
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol import oauth_token
from tidelog.protocol.client_security import ClientSecurityError
from tidelog.protocol.oauth_token import TokenSettings, TokenUnavailableError, fetch
from tidelog.testing import Broker

SECRET = "s3cr3t:of/mine"
SKEW_S = 1


class World:
    """A daemon that asks for tokens everywhere, and an issuer that has them for `me` and SECRET."""

    def __init__(self, folder: Path, issuer: KeyServer) -> None:
        self.folder = folder
        self.issuer = issuer
        self.lasts_s = 3600
        self.scopes: list[str] = []
        self.given: list[str] = []
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(folder / "ca.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
        issuer.speak_tls(context)
        issuer.answer = self.give
        self.url = issuer.url.replace("http:", "https:").replace("keys.json", "token")
        (folder / "keys.json").write_bytes(key_set(public_jwk(private_key())))
        self.broker = Broker(
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER",
                "http.listener": "127.0.0.1:0", "http.authentication": "oauthbearer", "http.users.read": "alice",
                "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE, "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.clock.skew.seconds": SKEW_S, "connection.failed.authentication.delay.ms": "1",
            }
        )  # fmt: skip

    def give(self, handler: BaseHTTPRequestHandler) -> None:
        """As RFC 6749, 4.4 has it."""
        form = parse_qs(self.issuer.posted.decode())
        basic = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
        if handler.headers["Authorization"] != basic or form["grant_type"] != ["client_credentials"]:
            wrong = {"error": "invalid_client", "error_description": f"{handler.headers['Authorization']} is not known"}
            self.issuer.send(handler, json.dumps(wrong).encode(), 401)
            return
        self.scopes += form.get("scope", [])
        token = token_of(exp=int(time.time()) + self.lasts_s)
        self.given.append(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lasts_s}
        self.issuer.send(handler, json.dumps(answer).encode())

    def settings(self, **more: str) -> dict[str, str]:
        given = {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "https.ca.location": str(self.folder / "ca.pem"),
        }  # fmt: skip
        return given | {name.replace("_", "."): text for name, text in more.items()}

    def by_token(self, **more: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "default.api.timeout.ms": "1000",
            **{f"sasl.oauthbearer.{name.replace('_', '.')}": text for name, text in more.items()},
        }  # fmt: skip

    def file(self, **more: str) -> str:
        path = self.folder / "client.properties"
        path.write_text("\n".join(f"{name}={text}" for name, text in self.settings(**more).items()))
        return str(path)

    def pipeline(self, given: dict[str, str]) -> KafkaClient:
        return KafkaClient(ClientSettings.parse(self.broker.bootstrap_servers, given))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with KeyServer(b"") as issuer:
        made = World(tmp_path_factory.mktemp("oauth"), issuer)
        with made.broker:
            made.broker.create_topic("t")
            yield made


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    oauth_token.CACHE.kept.clear()


def test_one_file_is_for_all_commands(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    kafka = ["--bootstrap-server", world.broker.bootstrap_servers, "--command-config", world.file(**{
        "sasl.oauthbearer.scope": "logs:read"
    })]  # fmt: skip
    http = ["--http", world.broker.http_url, *kafka[2:]]
    before = world.issuer.requests
    assert main(["topics", "list", *kafka]) == 0
    assert "t" in capsys.readouterr().out
    assert main(["why", "t", *http]) == 0
    assert world.scopes == ["logs:read"]
    assert world.issuer.requests == before + 1, "one token does for all that a process asks"


def test_what_is_wrong_is_told_without_secrets(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for more, why in (
        (
            {"sasl.oauthbearer.client.credentials.client.secret": "an0ther"},
            "gives client 'me' no token: 401, invalid_client",
        ),
        ({"https.ca.location": "/none.pem"}, "/none.pem: no authorities can be read from it"),
        ({"https.ca.location": ""}, "unable to get local issuer certificate"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/t"}, "127.0.0.1:1/t can't be reached"),
        ({"sasl.oauthbearer.assertion.file": "/a"}, "makes no assertions"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
    ):
        file = world.file(**more)
        for command in (
            ["topics", "list", "--bootstrap-server", world.broker.bootstrap_servers, "--command-config", file],
            ["why", "t", "--http", world.broker.http_url, "--command-config", file],
        ):
            assert main(command) == 1
            error = capsys.readouterr().err
            assert why in error
            assert len(error.splitlines()) == 1
            assert SECRET not in error
            assert "an0ther" not in error


def test_the_pipelines_client_gets_in_and_keeps_its_token(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    before = world.issuer.requests
    for _ in range(3):
        with world.pipeline(world.settings()) as client:
            assert client.metadata(["t"]).topics[0].name == "t"
    assert world.issuer.requests == before + 1
    file = world.file()
    options = type("Options", (), {"command_config": file})
    given = {name.removeprefix("kafka."): text for name, text in security_options(options).items()}
    with world.pipeline(given) as client:
        client.metadata(["t"])
    shown = "".join([*caplog.messages, repr(ClientSettings.parse("a", given)), str(world.pipeline(given))])
    secrets = (SECRET, base64.b64encode(f"me:{SECRET}".encode()).decode(), world.given[-1].rpartition(".")[2])
    assert not [one for one in secrets if one in shown]


def test_a_session_is_renewed_with_a_new_token_before_the_old_one_ends(world: World) -> None:
    world.lasts_s = 600
    try:
        with world.pipeline(world.settings()) as client:
            client.metadata(["t"])
            connection = client.any_connection()
            session, tokens = connection.session, len(world.given)
            assert session is not None, "a session ends with its token"
            connection.session = (session[0] - 600, session[1])
            (settings,) = oauth_token.CACHE.kept
            kept, _until_s = oauth_token.CACHE.kept[settings]
            oauth_token.CACHE.kept[settings] = (kept, 0.0)  # most of its life is over
            world.lasts_s = 3600
            client.metadata(["t"])
            assert client.any_connection() is connection
            assert len(world.given) == tokens + 1
            renewed = connection.session
            assert renewed is not None
            assert renewed[0] > session[0] + 600
    finally:
        world.lasts_s = 3600


def test_a_static_token_by_option_or_file_which_is_read_again(world: World, tmp_path: Path) -> None:
    with world.pipeline(world.by_token(token=token_of())) as client:
        client.metadata(["t"])
    path = tmp_path / "token"
    path.write_text(token_of(exp=int(time.time()) - SKEW_S - 60))
    with world.pipeline(world.by_token(token_endpoint_url=path.as_uri())) as client:
        with pytest.raises(AuthenticationError, match="the token has expired") as caught:
            client.metadata(["t"])
        assert path.read_text() not in str(caught.value)
        path.write_text(token_of())
        client.metadata(["t"])
        path.unlink()
    with (
        world.pipeline(world.by_token(token_endpoint_url=path.as_uri())) as client,
        pytest.raises(AuthenticationError, match="can't be read"),
    ):
        client.metadata(["t"])


def test_an_issuer_that_is_away_is_tried_again_until_the_time_is_over(world: World) -> None:
    answered = iter([503, 429])

    def busy(handler: BaseHTTPRequestHandler) -> None:
        status = next(answered, 200)
        if status == 200:
            world.give(handler)
        else:
            world.issuer.send(handler, b"", status)

    world.issuer.answer = busy
    with world.pipeline(world.settings()) as client:
        client.metadata(["t"])
    world.issuer.answer = lambda handler: world.issuer.send(handler, b"", 503)
    oauth_token.CACHE.kept.clear()
    try:
        with (
            world.pipeline(world.settings(default_api_timeout_ms="1")) as client,
            pytest.raises(BrokerUnreachableError, match="gives client 'me' no token: 503"),
        ):
            client.metadata(["t"])
    finally:
        world.issuer.answer = world.give


def test_what_an_issuer_sends_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth_token, "TIMEOUT_S", 0.3)
    settings = TokenSettings(world.url, "me", SECRET, authorities=str(world.folder / "ca.pem"))

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not world.issuer.leave.is_set():
            handler.wfile.write(b"x")
            time.sleep(0.02)

    try:
        world.issuer.answer = drip
        with pytest.raises(TokenUnavailableError, match=r"did not answer within 0\.3 s"):
            fetch(settings)
        monkeypatch.setattr(oauth_token, "TIMEOUT_S", 60)
        world.issuer.answer = lambda handler: world.issuer.send(handler, b"x" * 300_000)
        with pytest.raises(ClientSecurityError, match="more than 262144 bytes"):
            fetch(settings)
        world.issuer.answer = lambda handler: world.issuer.send(handler, b"", 307, Location="http://169.254.169.254/")
        with pytest.raises(ClientSecurityError, match="answers 307: redirects are not followed"):
            fetch(settings)
    finally:
        world.issuer.answer = world.give
