"""Parts of the socket server that need no socket."""

from __future__ import annotations

from ipaddress import IPv4Network
from types import SimpleNamespace

import pytest
from tidelog.broker.container import ContainerNetwork
from tidelog.broker.socket_server import POOLED_BUFFER_BYTES, BufferPool, Endpoint, SocketServer
from tidelog.config.loader import load_config


def test_pooled_buffers_fit_are_reused_and_bounded() -> None:
    pool = BufferPool()
    first = pool.take(100_000)
    assert len(first) >= 100_000
    pool.give(first)
    assert pool.take(70_000) is first, "131,072 serves both"
    assert pool.take(70_000) is not first
    for _ in range(10):
        pool.give(bytearray(4 << 20))
    kept = sum(len(buffer) for buffers in pool._free.values() for buffer in buffers)
    assert kept == POOLED_BUFFER_BYTES
    pool.give(None)


def server(container: ContainerNetwork | None = None, **settings: bool) -> SocketServer:
    config = load_config(None, {}, [f"{name.replace('_', '.')}={value}" for name, value in settings.items()])
    made = SocketServer(SimpleNamespace(), config, None, None, None)  # type: ignore[arg-type]
    made._container = container
    return made


DOCKER = ContainerNetwork(frozenset({"172.17.0.1"}), (IPv4Network("172.17.0.0/16"),))
BOUND = Endpoint("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 9092)
OTHER = Endpoint("A", "PLAINTEXT", "::", 1, ("kafka.example", 2))
MINE = ("172.17.0.2", 9092)


def test_a_client_is_told_the_address_that_it_dialled_unless_another_is_set() -> None:
    assert server().told(BOUND, ("10.1.2.3", 9092), "10.1.2.1") == ("10.1.2.3", 9092)
    assert server().told(BOUND, ("::ffff:10.1.2.3", 9092), "10.1.2.1") == ("10.1.2.3", 9092)
    assert server().told(OTHER, ("::1", 1), "::1") == ("kafka.example", 2)
    assert str(Endpoint("A", "PLAINTEXT", "::1", 1)) == "A://[::1]:1"


def test_in_a_container_a_client_from_the_gateway_is_told_localhost() -> None:
    assert server(DOCKER).told(BOUND, MINE, "172.17.0.1") == ("localhost", 9092)
    assert server(DOCKER).told(BOUND, MINE, "::ffff:172.17.0.1") == ("localhost", 9092)
    assert server(DOCKER).told(BOUND, MINE, "172.17.0.3") == MINE, "another container"
    assert server(DOCKER).told(OTHER, MINE, "172.17.0.1") == ("kafka.example", 2)
    assert server(DOCKER, container_gateway_localhost=False).told(BOUND, MINE, "172.17.0.1") == MINE


def test_a_client_from_beyond_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    made = server(DOCKER)
    caplog.set_level("WARNING", "tidelog")
    for _ in range(3):
        assert made.told(BOUND, MINE, "203.0.113.7") == MINE
    (record,) = caplog.records
    assert "203.0.113.7" in record.getMessage()
    assert "advertised.listeners=PLAINTEXT://HOST:PORT" in record.getMessage()


def test_the_ready_line_has_a_hint_in_a_container_only() -> None:
    inside, outside = server(DOCKER), server()
    inside.endpoints, outside.endpoints = [BOUND], [BOUND]
    assert "advertised.listeners" in inside.hint
    assert outside.hint == ""
    inside.endpoints = [OTHER]
    assert inside.hint == ""
    inside.endpoints = [Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)]
    assert inside.hint == "", "nobody comes from outside"
