"""Which listeners are told of as open to whoever reaches them, and where that is said."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tidelog.broker.security.open_listeners import is_this_machines, open_listeners
from tidelog.broker.server.node import Node
from tidelog.cli.doctor.checks import OK, WARN, examine, look
from tidelog.config.loader import load_config

KAFKA = "listeners=PLAINTEXT://0.0.0.0:9092"
TLS = ("listeners=SSL://0.0.0.0:9092", "ssl.keystore.location=/x.pem", "ssl.truststore.location=/ca.pem")
SASL = ("listeners=SASL_PLAINTEXT://0.0.0.0:9092", "sasl.enabled.mechanisms=PLAIN")
HTTP = "http.listener=0.0.0.0:9404"
USERS = ("http.authentication=basic", "http.users.read=*")
ACL = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETS = "message.set.listeners=tcp://0.0.0.0:9093"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ((), []),
        ((KAFKA,), ["PLAINTEXT://0.0.0.0:9092"]),
        (("listeners=PLAINTEXT://:9092",), ["PLAINTEXT://0.0.0.0:9092"]),
        (("listeners=PLAINTEXT://[::]:9092",), ["PLAINTEXT://[::]:9092"]),
        (("listeners=PLAINTEXT://127.3.2.1:9092",), []),
        (("listeners=PLAINTEXT://[::1]:9092",), []),
        (("listeners=PLAINTEXT://localhost:9092",), []),
        (("listeners=PLAINTEXT://kafka.example.org:9092",), ["PLAINTEXT://kafka.example.org:9092"]),
        (("listeners=IN://127.0.0.1:1,OUT://10.0.0.5:2", "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT"),
         ["OUT://10.0.0.5:2"]),
        (TLS, ["SSL://0.0.0.0:9092"]),
        ((*TLS, "ssl.client.auth=requested"), ["SSL://0.0.0.0:9092"]),
        ((*TLS, "ssl.client.auth=required"), []),
        ((*TLS, "listener.name.ssl.ssl.client.auth=required"), []),
        (SASL, []),
        ((KAFKA, ACL), []),
        ((SETS,), ["tcp://0.0.0.0:9093"]),
        ((SETS, "message.set.authentication=plain"), []),
        (("message.set.listeners=tcp://127.0.0.1:9093",), []),
        ((HTTP,), ["http://0.0.0.0:9404"]),
        (("http.listener=https://0.0.0.0:9404", "ssl.keystore.location=/x.pem"), ["https://0.0.0.0:9404"]),
        ((HTTP, *USERS), []),
        ((HTTP, ACL), ["http://0.0.0.0:9404"]),
        ((KAFKA, SETS, HTTP), ["PLAINTEXT://0.0.0.0:9092", "tcp://0.0.0.0:9093", "http://0.0.0.0:9404"]),
    ],
)  # fmt: skip
def test_which_are_open(settings: tuple[str, ...], told: list[str]) -> None:
    config = load_config(None, {}, list(settings))
    assert [one.address for one in open_listeners(config)] == told


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("LOCALHOST", True),
        ("::ffff:127.0.0.1", True), ("", False), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)  # fmt: skip
def test_which_addresses_are_this_machines_alone(host: str, own: bool) -> None:
    assert is_this_machines(host) is own


async def test_one_line_at_the_start_and_a_note_in_health_which_stays_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from tidelog.broker.monitoring.health import Health

    settings = ["listeners=PLAINTEXT://0.0.0.0:0", "http.listener=0.0.0.0:0", f"log.dirs={tmp_path}", f"{SETS[:-4]}0"]
    caplog.set_level(logging.WARNING)
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
    try:
        await node.start()
        verdict = await asyncio.to_thread(Health(node.state).whole)
    finally:
        await node.stop()
    (line,) = [message for message in caplog.messages if "has no authentication" in message]
    for address in ("PLAINTEXT://0.0.0.0:0", "tcp://0.0.0.0:", "http://0.0.0.0:0"):
        assert f"{address}" in line
    assert verdict.is_well
    assert (verdict.content["status"], verdict.content["reasons"]) == ("ok", [])
    assert [note["note"] for note in verdict.content["notes"]] == ["open_listener"] * 3
    assert "whoever reaches it may read and write everything" in verdict.content["notes"][0]["text"]


async def test_nothing_is_said_of_listeners_on_loopback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=127.0.0.1:0", f"log.dirs={tmp_path}"]
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
    try:
        await node.start()
    finally:
        await node.stop()
    assert "has no authentication" not in caplog.text


def test_the_doctor_says_so(tmp_path: Path) -> None:
    for settings, status in (([KAFKA, HTTP], WARN), ([], OK)):
        config = load_config(None, {}, [f"log.dirs={tmp_path}", *settings])
        (finding,) = [one for one in examine(look(config), config) if one.name == "open listeners"]
        assert finding.status == status
        if status == WARN:
            assert "PLAINTEXT://0.0.0.0:9092 has no authentication" in finding.value
            assert "http.authentication" in finding.advice
