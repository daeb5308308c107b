"""HTTP's users by an issuer's tokens and by certificates, over TLS: the console, metrics and commands."""

from __future__ import annotations

import http.client
import logging
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from support.certificates import authority_in, write_identity
from support.inside import forget_guesses, node_of
from support.patience import PATIENCE_S
from support.tokens import AUDIENCE, ISSUER, KeyServer, key_set, private_key, public_jwk, token_of
from tidelog.broker.http import users as http_users
from tidelog.broker.security.sasl import jwks
from tidelog.cli.main import main
from tidelog.testing import Broker, BrokerError

OLD, NEW = public_jwk(private_key(), "old"), public_jwk(private_key("P-256"), "new")
INVALID = 'Bearer realm="tidelog", error="invalid_token"'


@pytest.fixture(autouse=True)
def patient_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of a password or a token may take as long as anything else: a slow machine else answers 503."""
    monkeypatch.setattr(http_users, "CHECK_TIMEOUT_S", PATIENCE_S)


class Answer(NamedTuple):
    status: int
    challenges: list[str]
    text: str


class World(NamedTuple):
    broker: Broker
    folder: Path
    keys: KeyServer

    def context(self, certificate: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if certificate:
            context.load_cert_chain(self.folder / certificate)
        return context

    def ask(
        self, path: str, token: str = "", certificate: str = "", method: str = "GET", accept: str = "*/*"
    ) -> Answer:
        port = int(self.broker.http_url.rpartition(":")[2])
        connection = http.client.HTTPSConnection(
            "localhost", port, timeout=PATIENCE_S, context=self.context(certificate)
        )
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        with closing(connection):
            connection.request(method, path, headers=headers, body=b"{}" if method == "POST" else None)
            answer = connection.getresponse()
            content = answer.read().decode()
        return Answer(answer.status, answer.headers.get_all("WWW-Authenticate") or [], content)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tokens")
    authority, stranger = authority_in(folder), trustme.CA()
    for issuer, name, file in (
        (authority, "alice", "alice.pem"), (authority, "bob", "bob.pem"), (authority, "Carol", "carol.pem"),
        (stranger, "alice", "stranger.pem"),
    ):  # fmt: skip
        write_identity(issuer, folder / file, f"{name}@example.com", common_name=name)
    with KeyServer(key_set(OLD)) as keys:
        settings = {
            "http.listener": "https://127.0.0.1:0", "ssl.keystore.location": folder / "server.pem",
            "ssl.truststore.location": folder / "ca.pem", "listener.name.http.ssl.client.auth": "requested",
            "listener.name.http.ssl.principal.mapping.rules": r"RULE:^(?:.*,)?CN=([a-z]+)(?:,.*)?$/$1/",
            "http.authentication": "oauthbearer,certificate", "http.users.read": "bob", "http.users.admin": "alice",
            "listener.name.http.sasl.oauthbearer.jwks.endpoint.url": keys.url,
            "listener.name.http.sasl.oauthbearer.expected.audience": AUDIENCE,
            "listener.name.http.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            "connection.failed.authentication.delay.ms": "1", "http.admin.enable": "true",
        }  # fmt: skip
        with Broker(settings) as broker:
            broker.create_topic("t")
            yield World(broker, folder, keys)


@pytest.fixture(autouse=True)
def forgiving(world: World) -> None:
    """Failures of one test are not counted in the next."""
    forget_guesses(world.broker)


def test_nobody_is_let_in_without_either(world: World) -> None:
    for path in ("/", "/metrics", "/health", "/why/t", "/nothing"):
        answer = world.ask(path)
        assert (answer.status, answer.challenges) == (401, ['Bearer realm="tidelog"'])
        assert "Show a client certificate to see this, or sign in." in answer.text


def test_whom_a_token_names(world: World) -> None:
    alice, bob = token_of(key_id="old"), token_of(key_id="old", sub="bob")
    for token, role in ((alice, "alice (admin)"), (bob, "bob (read)")):
        assert f"signed in as {role}" in world.ask("/", token).text
        assert world.ask("/topics", token, accept="text/html").status == 200
        metrics = world.ask("/metrics", token).text
        assert 'tidelog_token_key_reads_total{listener="http"}' in metrics
    assert world.ask("/", token_of(key_id="old", sub="mallory")).status == 403
    assert world.ask("/clean/t", bob, method="POST").status == 403
    assert world.ask("/clean/t?wait=5", alice, method="POST").status in (200, 202)


def test_bad_tokens_get_one_answer_and_are_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tidelog")
    good = token_of(key_id="old")
    bad = [
        token_of(key_id="old", exp=1), token_of(key_id="old", aud="another"), token_of(private_key("RSA", 1), key_id="old"),
        good[:-6] + "AAAAAA", "garbage", good + "." + good,
    ]  # fmt: skip
    answers = {str(world.ask("/metrics", token)) for token in bad}
    (answer,) = {str(world.ask("/metrics", "x")), *answers}
    assert answer == str(Answer(401, [INVALID], "The user, the password or the token is wrong.\n"))
    # A certificate that comes with one does not mend it.
    assert world.ask("/metrics", "x", "alice.pem").status == 401
    line = 'tidelog_failed_authentications_total{listener="http"}'
    counted = next(one for one in world.ask("/metrics", good).text.splitlines() if one.startswith(line))
    assert float(counted.split()[-1]) >= len(bad) + 2
    assert not any(token in message for token in (good, *bad[:4]) for message in caplog.messages)
    assert [world.ask("/", "x").status for _ in range(8)][-1] == 429
    assert world.ask("/", good).status == 200


def test_who_a_certificate_names(world: World) -> None:
    for file, role in (("alice.pem", "alice (admin)"), ("bob.pem", "bob (read)")):
        page = world.ask("/", certificate=file).text
        assert f"signed in as {role} by a certificate" in page
        assert "sign-out" not in page
        assert "tidelog_" in world.ask("/metrics", certificate=file).text
    assert world.ask("/clean/t", certificate="bob.pem", method="POST").status == 403
    assert world.ask("/clean/t", certificate="alice.pem", method="POST").status in (200, 202)
    assert world.ask("/sign-out?user=bob", certificate="bob.pem").status == 303
    # A token goes before the certificate.
    assert "signed in as bob (read), " in world.ask("/", token_of(key_id="old", sub="bob"), "alice.pem").text
    answer = world.ask("/", certificate="carol.pem")
    assert (answer.status, "names no user (ssl.principal.mapping.rules)" in answer.text) == (401, True)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        world.ask("/", certificate="stranger.pem")


def test_commands(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = world.broker.http_url.replace("127.0.0.1", "localhost")
    file = tmp_path / "client.properties"
    trust = f"ssl.truststore.location={world.folder / 'ca.pem'}\n"
    arguments = ["--http", url, "--command-config", str(file)]
    for who in (f"ssl.keystore.location={world.folder / 'alice.pem'}", f"http.token={token_of(key_id='old')}"):
        file.write_text(f"{trust}{who}\n")
        assert main(["why", "t", *arguments]) == 0
        assert main(["clean", "t", "--wait", *arguments]) == 0
    capsys.readouterr()
    file.write_text(f"{trust}http.token={token_of(key_id='old', exp=1)}\n")
    assert main(["why", "t", *arguments]) == 1
    assert "needs a user (The user, the password or the token is wrong.)" in capsys.readouterr().err


def test_a_rotated_key_is_found_by_the_first_token_that_names_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.keys.serve(key_set(NEW))
    users = node_of(world.broker).http.gate.users  # type: ignore[union-attr]
    assert users.verifier is not None
    monkeypatch.setattr(jwks, "BETWEEN_S", 0.0)  # as if the keys had been read long ago
    new = token_of(private_key("P-256"), "ES256", "new")
    assert world.ask("/metrics", new).status == 200
    assert world.ask("/metrics", token_of(key_id="old")).status == 401


def test_wishes_that_do_not_fit_stop_the_start(tmp_path: Path) -> None:
    settings = {
        "http.listener": "127.0.0.1:0", "http.authentication": "oauthbearer", "http.users.read": "a",
        "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE, "sasl.oauthbearer.expected.issuer": ISSUER,
    }  # fmt: skip
    with pytest.raises(BrokerError, match=r"of http: .*keys\.json can't be read"), Broker(settings):
        pass
