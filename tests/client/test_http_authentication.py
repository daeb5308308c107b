"""HTTP's users over sockets, with TLS and without: the console, metrics, probes and commands."""

from __future__ import annotations

import base64
import http.client
import json
import logging
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from support.certificates import authority_in
from support.console_client import Browser
from support.inside import add_scram_user, alter_settings, forget_guesses, node_of
from support.patience import PATIENCE_S, until
from tidelog.broker.http import users as http_users
from tidelog.broker.http.connections import MAX_CONNECTIONS
from tidelog.broker.http.console.routes import ROUTES
from tidelog.cli.main import main
from tidelog.testing import Broker, BrokerError

TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def patient_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of a password or a token may take as long as anything else: a slow machine else answers 503."""
    monkeypatch.setattr(http_users, "CHECK_TIMEOUT_S", PATIENCE_S)


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


ALICE, BOB = basic("alice", "alice's secret"), basic("bob", "bob's secret")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Secured(NamedTuple):
    broker: Broker
    folder: Path
    authority: trustme.CA

    def ask(
        self, path: str, headers: dict[str, str] | None = None, method: str = "GET", body: bytes | None = None
    ) -> Any:
        """(status, headers, body) of one request by TLS."""
        _host, _, port = self.broker.http_url.removeprefix("https://").rpartition(":")
        connection = http.client.HTTPSConnection("localhost", int(port), timeout=PATIENCE_S, context=self.context())
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.pem"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("https")
    authority = authority_in(folder)
    (folder / "tokens").write_text(f"prometheus {TOKEN}\n")
    settings = {
        "http.listener": "https://127.0.0.1:0", "listener.name.http.ssl.keystore.location": folder / "server.pem",
        "http.authentication": "basic,bearer", "http.tokens.file": folder / "tokens", "http.admin.enable": "true",
        "http.users.read": "bob,prometheus", "http.users.admin": "alice", "connection.failed.authentication.delay.ms": "1",
        "log.cleaner.backoff.ms": 3_600_000,
    }  # fmt: skip
    with Broker(settings) as broker:
        broker.create_topic("t")
        for name in ("alice", "bob", "carol"):
            add_scram_user(broker, name, f"{name}'s secret")
        yield Secured(broker, folder, authority)


@pytest.fixture(autouse=True)
def forgiving(secured: Secured) -> None:
    """Failures of one test are not counted in the next."""
    forget_guesses(secured.broker)


PAGE = {"Accept": "text/html"}


def test_nothing_of_the_daemon_is_told_to_who_is_not_known(secured: Secured) -> None:
    for route in ROUTES:
        if not route.is_same:
            status, headers, body = secured.ask(route.example, PAGE)
            assert status == 401, route.example
            assert headers.get_all("WWW-Authenticate") == [
                'Basic realm="tidelog", charset="UTF-8"', 'Bearer realm="tidelog"',
            ]  # fmt: skip
            assert b"Sign in to see this." in body
            assert b"node 1" not in body
    for path in ("/metrics", "/health", "/why/t", "/nothing", "/clean/t"):
        assert secured.ask(path)[0] == 401
        assert secured.ask(path, basic("alice", "wrong"))[0] in (401, 429)
    assert json.loads(secured.ask("/why/t")[2]) == {"error": "Sign in to see this."}
    assert secured.ask("/metrics")[2] == b"Sign in to see this.\n"


def test_what_is_open(secured: Secured) -> None:
    assert json.loads(secured.ask("/health/live")[2]) == {"status": "alive"}
    assert json.loads(secured.ask("/health/ready")[2]) == {"status": "ready"}
    for route in ROUTES:
        if route.is_same:
            assert secured.ask(route.path)[0] == 200


def test_who_may_look_and_who_may_act(secured: Secured) -> None:
    for user in (ALICE, BOB, BEARER):
        assert b"tidelog_" in secured.ask("/metrics", user)[2]
        assert json.loads(secured.ask("/why/t", user)[2])["partitions"]
        assert secured.ask("/topics", user)[0] == 200
    assert secured.ask("/", basic("carol", "carol's secret"))[0] == 403
    clean = {"Content-Type": "application/json"}
    assert secured.ask("/clean/t", BOB | clean, "POST", b"{}")[0] == 403
    assert secured.ask("/clean/t?wait=5", ALICE | clean, "POST", b"{}")[0] in (200, 202)
    assert secured.ask("/clean/t", ALICE | clean | {"Origin": "https://evil.example"}, "POST", b"{}")[0] == 403


def test_the_console_shows_who_is_signed_in(secured: Secured) -> None:
    page = secured.ask("/", ALICE)[2].decode()
    assert "signed in as alice (admin)" in page
    assert "actions are on" in page
    assert 'href="/sign-out?user=alice"' in page
    page = secured.ask("/", BOB)[2].decode()
    assert "signed in as bob (read)" in page
    assert "shows only" in page
    status, headers, body = secured.ask("/sign-out?user=bob", BOB | PAGE)
    assert (status, "You are signed out." in body.decode()) == (401, True)
    status, headers, _ = secured.ask("/sign-out?user=bob", ALICE)
    assert (status, headers["Location"]) == (303, "/")


def test_an_admin_acts_from_elsewhere_and_under_any_name(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    """The peer is this machine here; that it does not matter is tests/unit/broker/http/console/test_access.py's."""
    caplog.set_level(logging.INFO, "tidelog")
    path = "/actions/log-level?logger=tidelog.broker.http.server&level=DEBUG"
    away = {"Host": "logs.example.com", "X-Forwarded-For": "10.1.1.1"}
    status, _, body = secured.ask(path, BOB | away | PAGE)
    assert (status, "bob may only read" in body.decode()) == (403, True)
    status, headers, body = secured.ask(path, ALICE | away)
    assert status == 200
    cookie = headers["Set-Cookie"].partition(";")[0]
    assert headers["Set-Cookie"].endswith("; Secure")
    inputs = {
        part.partition('name="')[2].partition('"')[0]: part.partition('value="')[2].partition('"')[0]
        for part in body.decode().split("<input")[1:]
    }
    form = "&".join(f"{name}={value}" for name, value in inputs.items() if name).encode()
    sent = ALICE | away | {"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie}
    assert secured.ask("/actions/log-level", sent | {"Origin": "https://evil.example"}, "POST", form)[0] == 403
    status, headers, body = secured.ask(
        "/actions/log-level", sent | {"Origin": "https://logs.example.com"}, "POST", form
    )
    assert status in (200, 303), body
    assert any("for alice from 127.0.0.1: " in record.message for record in caplog.records)
    assert (
        secured.ask("/actions/log-level", {**sent, **BOB, "Origin": "https://logs.example.com"}, "POST", form)[0] == 403
    )


def test_guessing_is_slowed_counted_and_ended(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    running = node_of(secured.broker)
    assert running.http is not None
    assert running.http.gate is not None
    before = running.http.gate.users.failures.failures
    answers = [secured.ask("/", basic("alice", f"guess {number}"))[0] for number in range(15)]
    assert answers == [401] * 10 + [429] * 5
    assert running.http.gate.users.failures.failures == before + 10
    assert secured.ask("/", BEARER)[0] == 200, "who is known by a token is not kept out by who guesses"
    text = secured.ask("/metrics", BEARER)[2].decode()
    assert 'tidelog_failed_authentications_total{listener="http"}' in text
    assert 'tidelog_certificate_expiry_timestamp_seconds{listener="http"}' in text
    assert len([one for one in caplog.records if "authentication failed" in one.message]) < 5


def test_what_is_no_tls_is_told_so(secured: Secured) -> None:
    port = int(secured.broker.http_url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        said = b""
        while chunk := plain.recv(4096):
            said += chunk
    assert said.endswith(b"This port speaks https.\n")


def test_who_connects_and_says_nothing_keeps_nobody_out(secured: Secured) -> None:
    port = int(secured.broker.http_url.rpartition(":")[2])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * MAX_CONNECTIONS)]
    for connection in idle[::2]:
        connection.sendall(b"\x16\x03\x01")  # a handshake begins
    for _ in range(9):
        assert secured.ask("/health/live")[0] == 200
    for connection in idle:
        connection.close()


def test_a_renewed_certificate_holds_for_who_comes_next(secured: Secured) -> None:
    running = node_of(secured.broker)
    https = running.http.https  # type: ignore[union-attr]
    assert https is not None
    before = https.tls.reloads
    renewed = secured.authority.issue_cert("localhost", "127.0.0.1")
    (secured.folder / "server.pem").write_bytes(renewed.private_key_and_cert_chain_pem.bytes())
    https.use(running.services.config)
    until(lambda: https.tls.reloads != before, "the new certificate")
    assert secured.ask("/health/live")[0] == 200


def test_settings_of_its_certificate_change_while_it_runs(secured: Secured) -> None:

    def alter(settings: dict[str, str]) -> None:
        alter_settings(secured.broker, settings)

    with pytest.raises(BrokerError, match="/nowhere: can't be read"):
        alter({"listener.name.http.ssl.keystore.location": "/nowhere"})
    with pytest.raises(BrokerError, match="HTTP has settings of TLS"):
        alter({"listener.name.http.max.connections": "5"})
    with pytest.raises(BrokerError, match="is read at the start"):
        alter({"http.users.admin": "mallory"})


def test_commands(secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = secured.broker.http_url.replace("127.0.0.1", "localhost")
    assert main(["why", "t", "--http", url]) == 1
    assert "the certificate of localhost is not good" in capsys.readouterr().err
    file = tmp_path / "client.properties"
    trust = f"ssl.truststore.location={secured.folder / 'ca.pem'}\n"
    arguments = ["--http", url, "--command-config", str(file)]
    file.write_text(trust)
    assert main(["why", "t", *arguments]) == 1
    assert "needs a user" in capsys.readouterr().err
    for who in (f"http.token={TOKEN}", "sasl.username=bob\nsasl.password=bob's secret"):
        file.write_text(f"{trust}{who}\n")
        assert main(["why", "t", *arguments]) == 0
        capsys.readouterr()
        assert main(["clean", "t", *arguments]) == 1
        assert "may only read: http.users.admin names the users that may act" in capsys.readouterr().err
    file.write_text(trust + "sasl.username=alice\nsasl.password=alice's secret\n")
    assert main(["clean", "t", "--wait", *arguments]) == 0
    plain = url.replace("https://", "")
    assert main(["why", "t", "--http", plain]) == 1
    assert "speaks TLS: use --http https://" in capsys.readouterr().err


def test_the_containers_health_check_speaks_tls_too(secured: Secured) -> None:
    """The program in the Dockerfile, as Docker runs it."""
    text = (Path(__file__).parents[2] / "Dockerfile").read_text()
    arguments = json.loads(
        text.partition("HEALTHCHECK")[2].partition("CMD ")[2].partition("\nENTRYPOINT")[0].replace("\\\n", "")
    )
    closed = {"TIDELOG_HTTP_LISTENER": secured.broker.http_url.replace("https", "http")}
    for environment, code in ({"TIDELOG_HTTP_LISTENER": secured.broker.http_url}, 0), (closed, 1):
        done = subprocess.run([sys.executable, *arguments[1:]], env=environment, check=False, timeout=PATIENCE_S)
        assert done.returncode == code


def test_without_tls_and_before_users_are_there(tmp_path: Path) -> None:
    """A daemon that nobody made a user for lets nobody in, and says how."""
    settings = {"http.listener": "127.0.0.1:0", "http.authentication": "basic", "http.users.read": "*"}
    with Broker(settings) as broker:
        browser = Browser(broker.http_url)
        answer = browser.get("/")
        assert answer.status == 401
        assert browser.get("/health/ready").status == 200
