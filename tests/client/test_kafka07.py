"""Clients of Kafka 0.7 by wire: what they hear, what the log and the metrics say, and that nobody else is disturbed."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from support import kafka07 as old
from support.inside import add_scram_user, services_of
from support.message_sets import message_set_address
from support.patience import PATIENCE_S
from support.wire_client import WireClient
from tidelog.broker.monitoring.requests import connection_metrics
from tidelog.broker.runtime.metric_family import families_of
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.message_set import LATEST, MessageSetError, NewRecord
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.testing import Broker

HELLO = old.message(b"hello")
KAFKA, MESSAGE_SETS, SASL = "PLAINTEXT", "tcp", "IN"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,IN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "message.set.listeners": "tcp://127.0.0.1:0",
    }
    with Broker(settings) as made:
        made.create_topic("test")
        yield made


def address(broker: Broker, listener: str) -> tuple[str, int]:
    if listener == MESSAGE_SETS:
        return message_set_address(broker)
    host, _, port = broker.listener(listener).rpartition(":")
    return host, int(port)


def frame(kind: int, body: bytes) -> bytes:
    data = old.request(kind, body)
    return struct.pack(">i", len(data)) + data


def heard(broker: Broker, listener: str, data: bytes) -> bytes:
    """All that the client gets until its connection is closed."""
    got = b""
    with socket.create_connection(address(broker, listener), timeout=PATIENCE_S) as client:
        client.sendall(data)
        while True:
            try:
                chunk = client.recv(1 << 16)
            except ConnectionResetError:
                return got
            if not chunk:
                return got
            got += chunk


def counted(broker: Broker, listener: str) -> float:
    """`tidelog_listener_connections_kafka07` of a listener."""
    server: Any = services_of(broker).socket_server
    rows = next(
        family.rows
        for family in families_of(connection_metrics(), server)
        if family.name == "tidelog_listener_connections_kafka07"
    )
    return {labels[0]: value for labels, value in rows}.get(listener, 0)


UNKNOWN = bytes.fromhex("00000002 ffff")
LONG = "a.topic.with.a.name.that.is.no.version"
REQUESTS = {
    f"{name}-of-{len(topic)}": (frame(kind, body), answer)
    for topic in ("t", "ab", "abc", "test", "clicks", "impressions-1", LONG)
    for name, kind, body, answer in (
        ("produce", 0, old.produce(topic, -1, [HELLO]), b""),
        ("produce-zero", 0, old.produce(topic, 0, [old.message(b"x" * 251, magic=0)]), b""),
        ("produce-large", 0, old.produce(topic, 3, [old.message(bytes([n]) * 5000) for n in range(200)]), b""),
        ("fetch", 1, old.fetch(topic, 0, 0, 300_000), UNKNOWN),
        ("fetch-far", 1, old.fetch(topic, 0, 123_456_789_012, 300_000), UNKNOWN),
        ("multifetch", 2, old.many([old.fetch(topic, 0, 0, 300_000)] * 2), bytes.fromhex("0000000e ffff") + 2 * UNKNOWN),
        ("multifetch-one", 2, old.many([old.fetch(topic, 0, 0, 300_000)]), bytes.fromhex("00000008 ffff") + UNKNOWN),
        ("multifetch-long", 2, old.many([old.fetch(topic, n, 0, 300) for n in range(900)]), bytes.fromhex("0000151a ffff")
         + 900 * UNKNOWN),
        ("multiproduce", 3, old.many([old.produce(topic, -1, [HELLO])]), b""),
        ("multiproduce-zero", 3, old.many([old.produce(topic, 0, [HELLO])]), b""),
        ("multiproduce-large", 3, old.many([old.produce(topic, 0, [old.message(b"x" * 30_000)])] * 3), b""),
        ("offsets", 4, old.fetch(topic, 0, -1, 1), bytes.fromhex("00000006 ffff 00000000")),
    )
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_on_a_kafka_listener_each_request_ends_at_once_with_what_its_client_can_read(
    broker: Broker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    data, answer = REQUESTS[name]
    before = counted(broker, KAFKA)
    with caplog.at_level(logging.WARNING, "tidelog.broker"):
        assert heard(broker, KAFKA, data) == answer
    assert counted(broker, KAFKA) == before + 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert "as clients of Kafka 0.7 send it: use a client of Kafka 0.8 or newer" in line
    assert "127.0.0.1" in line
    assert ("message.set.listeners" in line) is bool(answer)


@pytest.mark.parametrize("body", [old.produce("test", -1, [HELLO]), old.produce("nowhere", 0, [HELLO, HELLO])])
def test_on_a_message_set_listener_a_set_of_0_7_ends_the_connection(
    broker: Broker, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted(broker, MESSAGE_SETS)
    assert heard(broker, MESSAGE_SETS, frame(0, body)) == bytes.fromhex("0000000a 0057 ffffffffffffffff")
    assert heard(broker, MESSAGE_SETS, frame(3, old.many([body, body]))) == bytes.fromhex("00000002 0057")
    assert counted(broker, MESSAGE_SETS) == before + 2
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert all("as clients of Kafka 0.7 send it: use a client of Kafka 0.8 or newer" in line for line in lines)
    with MessageSetClient(*message_set_address(broker)) as client:
        assert client.offsets("test", 0, LATEST) == [0], "nothing was appended"


def test_before_authentication_the_log_is_told_and_nobody_else(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    before = counted(broker, SASL)
    assert heard(broker, SASL, frame(1, old.fetch("test", 0, 0, 1))) == b""
    assert heard(broker, SASL, frame(0, old.produce("test", -1, [HELLO]))) == b""
    assert counted(broker, SASL) == before + 2
    assert all("Kafka 0.7" in record.getMessage() for record in caplog.records)


def test_where_message_set_clients_authenticate_a_set_of_0_7_is_told(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        "message.set.listeners": "tcp://127.0.0.1:0",
        "message.set.authentication": "plain",
        "connection.failed.authentication.delay.ms": 0,
    }
    with Broker(settings) as broker:
        add_scram_user(broker, "alice", "secret", ("SCRAM-SHA-256",))
        assert heard(broker, MESSAGE_SETS, frame(0, old.produce("test", -1, [HELLO]))) == b""
        assert counted(broker, MESSAGE_SETS) == 1
        assert "Kafka 0.7" in caplog.text
        # A FETCH is the same in both protocols: the answer is ours.
        assert heard(broker, MESSAGE_SETS, frame(1, old.fetch("test", 0, 0, 1))) == bytes.fromhex("00000002 0022")
        assert counted(broker, MESSAGE_SETS) == 1


def test_a_message_set_client_at_the_wrong_port_fails_at_once(broker: Broker) -> None:
    with MessageSetClient(*address(broker, KAFKA)) as client, pytest.raises(MessageSetError):
        client.offsets("test", 0, LATEST)


def test_others_go_on(broker: Broker) -> None:
    """Both protocols' clients, before and after one of 0.7; and what is only unsupported is told as that."""
    with WireClient(address(broker, KAFKA)) as kafka, MessageSetClient(*message_set_address(broker)) as sets:
        for _ in range(2):
            assert kafka.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
            sets.produce("test", 0, [NewRecord(b"value")])
            heard(broker, KAFKA, frame(1, old.fetch("test", 0, 0, 1)))
            heard(broker, MESSAGE_SETS, frame(0, old.produce("test", -1, [HELLO])))
        before = counted(broker, KAFKA)
        with socket.create_connection(address(broker, KAFKA), timeout=PATIENCE_S) as client:
            client.sendall(struct.pack(">ihhihq", 18, 4, 5, 7, -1, 0))  # LeaderAndIsr of version 5
            assert client.recv(100)[4:8] == struct.pack(">i", 7)
        assert counted(broker, KAFKA) == before
