"""Secrets are shown nowhere: a daemon whose every secret is a marker, asked at each of its edges rightly and wrongly, while it
logs all it can; then everything that it said, and that commands said of it, is looked through."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import re
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from support.daemon import Daemon
from support.patience import PATIENCE_S
from support.tokens import key_set, private_key, public_jwk, token_of
from tidelog.broker.http.console.routes import ROUTES
from tidelog.cli.configs import RESOURCES, alter, described
from tidelog.cli.main import main
from tidelog.cli.support.kafka_client import KafkaClient, KafkaFailure
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.config.definitions import HONOURED_BROKER
from tidelog.protocol.message_set import MessageSetError

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_{0}="{1}";'


def marker(what: str) -> str:
    """A secret that can be told from all others, and from all else."""
    return f"MARK{what}kR7qZ"


KEY_PASSWORD, BROKER_JAAS, LISTENER_JAAS, SCRAM, TOKEN = map(
    marker, ("keypw", "jaas1", "jaas2", "scram", "token0000000")
)
CHANGED_JAAS, CHANGED_KEY, BAD_JAAS, WRONG, WRONG_TOKEN, GARBAGE, FORM = map(
    marker, ("jaas3", "keypw2", "badjaas", "wrong", "wrongtoken00000", "garbage", "form")
)
STORE_KEY, STORE_TOKEN = map(marker, ("storekey", "storetoken"))


def forms(secret: str) -> set[str]:
    """A secret as it may stand somewhere: plain, and within what was base64 of it, wherever it began."""
    found = {secret}
    for ahead in range(3):
        coded = base64.b64encode(b"x" * ahead + secret.encode() + b"yyy").decode()
        found.add(coded[4:-8])  # what does not depend on its neighbours
    return found | {secret.encode().hex()}


def leaks(said: dict[str, str], secrets: set[str]) -> list[tuple[str, str]]:
    """Where which secret shows."""
    return [(where, one) for one in secrets for form in forms(one) for where, text in said.items() if form in text]


def test_a_planted_leak_is_found() -> None:
    basic = base64.b64encode(f"alice:{SCRAM}".encode()).decode()
    said = {"a": f"x={TOKEN}.", "b": basic, "c": WRONG.encode().hex(), "d": "MARK"}
    assert leaks(said, {SCRAM, TOKEN, WRONG, FORM}) != []
    assert {where for where, _ in leaks(said, {SCRAM, TOKEN, WRONG, FORM})} == {"a", "b", "c"}


class World:
    """A daemon, and what was said so far, by who said it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: dict[str, str] = {}
        self.secrets = {
            KEY_PASSWORD, BROKER_JAAS, LISTENER_JAAS, SCRAM, TOKEN, CHANGED_JAAS, CHANGED_KEY, BAD_JAAS, WRONG, WRONG_TOKEN,
            GARBAGE, FORM, STORE_KEY, STORE_TOKEN,
        }  # fmt: skip
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        certificate = authority.issue_cert("localhost", "127.0.0.1")
        key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
        encrypted = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
        )
        chain = b"".join(one.bytes() for one in certificate.cert_chain_pems)
        (folder / "tokens").write_text(f"prometheus {TOKEN}\n")
        (folder / "keys.json").write_bytes(key_set(public_jwk(private_key())))
        for pem in (certificate.private_key_pem.bytes(), encrypted):
            self.secrets.add(pem.decode().splitlines()[2])
        self.settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "log.dirs": str(folder / "data"), "logging.level": "DEBUG",
            "http.listener": "127.0.0.1:0", "http.authentication": "basic,bearer,oauthbearer", "http.users.admin": "alice",
            "listener.name.http.sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
            "sasl.oauthbearer.allow.unverified.audience": "true", "sasl.oauthbearer.allow.unverified.issuer": "true",
            "http.users.read": "prometheus", "http.tokens.file": str(folder / "tokens"), "http.admin.enable": "true",
            "message.set.listeners": "tcp://127.0.0.1:0", "message.set.authentication": "plain",
            "ssl.keystore.certificate.chain": chain.decode(), "ssl.keystore.key": encrypted.decode(),
            "ssl.key.password": KEY_PASSWORD, "ssl.truststore.certificates": authority.cert_pem.bytes().decode(),
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.jaas.config": JAAS.format("broker", BROKER_JAAS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS.format("bob", LISTENER_JAAS),
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "",
            "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": "",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": "",
            "connection.failed.authentication.delay.ms": "1",
            # Nobody listens there: the store's errors, and its client's, are in what is looked through.
            "backup.url": "s3://bucket/prefix", "backup.endpoint": "http://127.0.0.1:9",
            "backup.access.key.id": "AKIDEXAMPLE", "backup.secret.access.key": STORE_KEY, "backup.session.token": STORE_TOKEN,
        }  # fmt: skip
        self.file = folder / "server.properties"
        self.write(self.file, {})
        self.command("make a user", "users", "create", "alice", "--config", str(self.file), typed=SCRAM)
        command = (sys.executable, "-m", "tidelog.broker", "serve", "--config", str(self.file))
        self.daemon = Daemon(folder / "data", command=command)
        # Ports are the file's; the listeners that `Daemon` would set are not enough.
        del self.settings["log.dirs"]

    def write(self, file: Path, changes: dict[str, str]) -> None:
        lines = [f"{name}={value}" for name, value in {**self.settings, **changes}.items()]
        file.write_text("\n".join(line.replace("\\", "\\\\").replace("\n", "\\n") for line in lines) + "\n")

    def command(self, what: str, *arguments: str, typed: str = "") -> int:
        """Runs a command here, and keeps what it says."""
        out, err, before = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.StringIO(typed + "\n")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(arguments)
        finally:
            sys.stdin = before
        self.said[what] = out.getvalue() + err.getvalue()
        return code

    def address(self, name: str) -> str:
        found = re.search(rf"\b{name}://(\S+:\d+)", self.daemon.ready_line)
        assert found is not None, self.daemon.ready_line
        return found[1]

    def ask(self, path: str, headers: dict[str, str], body: bytes | None = None) -> int:
        connection = http.client.HTTPConnection(self.daemon.http, timeout=PATIENCE_S)
        connection.request("GET" if body is None else "POST", path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        self.said[f"{path} as {headers.get('Authorization', 'nobody')[:6]}"] = f"{answer.headers}{text}"
        connection.close()
        return answer.status

    def garbage(self, address: str, data: bytes) -> None:
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection,
            contextlib.suppress(OSError),
        ):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.daemon.settings = {"listeners": made.settings["listeners"]}
    with made.daemon:
        yield made


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def sasl(world: World) -> None:
    for name, password, mechanism, is_right in (
        ("alice", SCRAM, "PLAIN", True), ("alice", SCRAM, "SCRAM-SHA-512", True), ("bob", LISTENER_JAAS, "PLAIN", True),
        ("alice", WRONG, "PLAIN", False), ("alice", WRONG, "SCRAM-SHA-256", False), (WRONG, WRONG, "PLAIN", False),
    ):  # fmt: skip
        file = world.folder / "client.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.username={name}\nsasl.password={password}\n"
        )
        what = f"topics list as {name[:5]} by {mechanism}, {is_right}"
        server = world.address("SASL_PLAINTEXT")
        code = world.command(what, "topics", "list", "--bootstrap-server", server, "--command-config", str(file))
        assert (code == 0) == is_right, world.said[what]
        # A client may show the name that it was given; the daemon may not, since passwords are typed there too.
        world.said[what] = world.said[what].replace(f"user '{WRONG}'", "")


def http_pages(world: World) -> None:
    bearer, right = {"Authorization": f"Bearer {TOKEN}"}, basic("alice", SCRAM)
    issued = {name: token_of(aud=None, **claims) for name, claims in (("good", {}), ("old", {"exp": 1}))}
    world.secrets |= {token.rpartition(".")[2] for token in issued.values()}
    for path in ("/metrics", "/health", "/", "/why/t"):
        assert world.ask(path, basic("alice", WRONG)) in (401, 429)
        assert world.ask(path, {"Authorization": f"Bearer {WRONG_TOKEN}"}) in (401, 429)
        assert world.ask(path, {"Authorization": f"{GARBAGE} {GARBAGE}"}) in (401, 429)
        assert world.ask(path, {"Authorization": f"Bearer {issued['old']}"}) in (401, 429)
    for path in ("/metrics", "/health", "/health/ready"):
        assert world.ask(path, bearer) == 200
        assert world.ask(path, {"Authorization": f"Bearer {issued['good']}"}) == 200
    world.daemon.restart()  # whoever failed so often from here would not be looked at
    for route in ROUTES:
        world.ask(route.example, right)
    assert world.ask("/settings", right) == 200
    change = "/actions/config?kind=broker&name=1&do=set&setting="
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    secret = urllib.parse.quote(JAAS.format("x", FORM))
    for setting in (name, "ssl.key.password"):
        assert world.ask(f"{change}{setting}&value={secret}", right) == 200
        form = {**right, "Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{world.daemon.http}"}
        world.ask("/actions/config", form, f"kind=broker&name=1&do=set&setting={setting}&value={secret}".encode())


def message_sets(world: World) -> None:
    host, _, port = world.address("tcp").rpartition(":")
    with (
        MessageSetClient(host, int(port), user="alice", password=SCRAM) as client,
        pytest.raises(MessageSetError, match="UNKNOWN_TOPIC"),
    ):
        client.offsets("nothing", 0)
    with MessageSetClient(host, int(port), user=WRONG, password=WRONG) as client, pytest.raises(MessageSetError):
        client.offsets("nothing", 0)


def garbage_at_each_edge(world: World) -> None:
    data = GARBAGE.encode()
    frames = [
        data + b"\r\n\r\n", f"GET /?{GARBAGE} {GARBAGE} {GARBAGE}\r\n\r\n".encode(), struct.pack(">i", len(data)) + data,
        struct.pack(">ihhi", 8 + len(data), 36, 0, 1) + data, struct.pack(">ihhh", 4 + len(data) + 2, 5, 0, 200) + data,
        struct.pack(">ihhih", 10 + 7, 17, 0, 1, -1) + struct.pack(">h5s", 5, b"PLAIN") + struct.pack(">i", len(data)) + data,
    ]  # fmt: skip
    for address in (*map(world.address, ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "tcp")), world.daemon.http):
        for frame in frames:
            world.garbage(address, frame)
    host, _, port = world.address("SASL_SSL").rpartition(":")
    context = ssl.create_default_context(cafile=str(world.folder / "ca.pem"))
    with (
        socket.create_connection((host, int(port)), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(frames[2])


def settings_changed_while_it_runs(world: World) -> None:
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    key = "listener.name.sasl_ssl.ssl.key.password"
    broker = RESOURCES["broker"]
    with KafkaClient(world.address("PLAINTEXT")) as admin:
        for setting, value, is_right in (
            (name, JAAS.format("bob", CHANGED_JAAS), True), (name, f"{BAD_JAAS} required {BAD_JAAS}", False),
            (name, f'{BAD_JAAS} required user_x="{BAD_JAAS}";', False), (name, JAAS.format("x", BAD_JAAS) + '"', False),
            (key, CHANGED_KEY, False),
        ):  # fmt: skip
            error: KafkaFailure | None = None
            try:
                alter(admin, broker, "1", "broker", {setting: value})
            except KafkaFailure as failure:
                error = failure
            assert (error is None) == is_right, error
            world.said[f"altering {setting} to {value[:9]}"] = repr(error)
        (found,) = described(admin, [(broker, "1")])
    assert {one.name: one.is_sensitive for one in found}["ssl.key.password"]
    assert name in {one.name for one in found}
    world.said["DescribeConfigs"] = repr(found)
    for more in ((), ("--json",)):
        server = ("--bootstrap-server", world.address("PLAINTEXT"), *more)
        assert world.command(f"configs describe {more}", "configs", "describe", "--broker", "1", "--all", *server) == 0
        assert world.command(f"users list {more}", "users", "list", *server) == 0


def commands_and_starts_that_fail(world: World) -> None:
    for more in ((), ("--json",)):
        world.command(f"doctor {more}", "doctor", "--config", str(world.file), *more)
    file = world.folder / "wrong.properties"
    for what, changes in {
        "a name that is not known": {"num.partitionz": WRONG},
        "a listener that is not there": {"listener.name.nowhere.ssl.key.password": WRONG},
        "a wrong other setting": {"num.partitions": "many"},
    }.items():
        world.write(file, changes)
        assert world.command(what, "serve", "--config", str(file)) != 0
    for what, changes in {
        "a wrong password of the key": {"ssl.key.password": WRONG},
        "a key that is none": {"ssl.keystore.key": GARBAGE},
        "JAAS that is none": {"sasl.jaas.config": f"{BAD_JAAS} x {BAD_JAAS}"},
    }.items():
        world.write(file, {**changes, "log.dirs": str(world.folder / "other")})
        done = subprocess.run(
            [sys.executable, "-m", "tidelog.broker", "serve", "--config", str(file)],
            capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        )  # fmt: skip
        assert done.returncode != 0, what
        world.said[what] = done.stdout + done.stderr


def test_no_secret_shows(world: World) -> None:
    secret = {row.name for row in HONOURED_BROKER if row.sensitive}
    assert secret <= world.settings.keys(), "a setting that is a secret is not tried here"
    sasl(world)
    http_pages(world)
    message_sets(world)
    garbage_at_each_edge(world)
    settings_changed_while_it_runs(world)
    commands_and_starts_that_fail(world)
    world.daemon.stop()
    world.said["the log"] = world.daemon.stderr()
    world.said["the ready line"] = world.daemon.ready_line
    assert "DEBUG" in world.said["the log"]
    database = sqlite3.connect(world.folder / "data" / "metadata.db")
    stored = database.execute("SELECT value FROM resource_configs WHERE kind = 'scram'").fetchall()
    database.close()
    assert stored
    for (text,) in stored:
        world.secrets |= {part.partition("=")[2] for part in text.split(",") if "key" in part}
    assert (world.folder / "data" / "metadata.db").stat().st_mode & 0o777 == 0o600
    assert len(world.said) > 60, sorted(world.said)
    assert leaks(world.said, world.secrets) == []
    assert json.dumps(sorted(world.said))
