"""Metrics and health over HTTP: what each path says, and a stop that comes at any moment."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.http_server import MAX_REQUESTS, REQUEST_TIMEOUT_S, HttpServer
from tidelog.storage.disk_space import DiskSpace


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[str, bytes]:
    """One request to the application, without a socket."""
    said: list[str] = []
    body = server._application(
        {"PATH_INFO": path, "REQUEST_METHOD": method}, lambda status, headers: said.append(status)
    )
    return said[0], b"".join(body)


@pytest.fixture
def server() -> Any:
    broker = SimpleNamespace(
        ready=False,
        logs=SimpleNamespace(spaces=[("/data", DiskSpace())]),
        cleaner=SimpleNamespace(problems=list),
    )
    made = HttpServer(broker, "127.0.0.1", 0)  # type: ignore[arg-type]
    yield made
    made.stop()


def test_health(server: HttpServer) -> None:
    assert ask(server, "/health/live") == ("200 OK", b"alive\n")
    assert ask(server, "/health/ready") == ("503 Service Unavailable", b"loading logs\n")
    server._broker.ready = True
    assert ask(server, "/health/ready") == ("200 OK", b"ready\n")


def test_who_connects_and_says_nothing_keeps_nobody_out(server: HttpServer) -> None:
    """Nor who begins a request and does not end it: those who came first make room, long before their time is up."""
    server.start()
    idle = [socket.create_connection((server.host, server.port)) for _ in range(2 * MAX_REQUESTS)]
    for connection in idle[::2]:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nX")
    began = time.monotonic()
    for _ in range(MAX_REQUESTS + 1):
        with urllib.request.urlopen(f"{server.url}/health/live", timeout=30) as answer:
            assert answer.read() == b"alive\n"
    assert time.monotonic() - began < REQUEST_TIMEOUT_S / 2
    for connection in idle:
        connection.close()


def test_other_paths_and_methods(server: HttpServer) -> None:
    assert ask(server, "/")[0] == "404 Not Found"
    assert ask(server, "/health/ready", "POST")[0] == "405 Method Not Allowed"
    assert ask(server, "/health/live", "HEAD")[0] == "200 OK"


def test_a_port_that_is_taken_is_named(server: HttpServer) -> None:
    with pytest.raises(OSError, match=rf"http.listener 127\.0\.0\.1:{server.port} can't be bound"):
        HttpServer(SimpleNamespace(), "127.0.0.1", server.port)  # type: ignore[arg-type]


def test_a_full_disk_is_told_and_is_no_reason_not_to_be_ready(server: HttpServer) -> None:
    """Consumers must still get at what makes room."""
    server._broker.ready = True
    ((_, space),) = server._broker.logs.spaces
    space.is_full = True
    assert ask(server, "/health/ready") == ("200 OK", b"ready\nappends are refused: /data is full\n")


def test_a_partition_that_cannot_be_cleaned_is_told(server: HttpServer) -> None:
    server._broker.ready = True
    server._broker.cleaner.problems = lambda: ["t-0 can't be cleaned, attempt 1: OSError: disk"]
    expected = b"ready\ndegraded: t-0 can't be cleaned, attempt 1: OSError: disk\n"
    assert ask(server, "/health/ready") == ("200 OK", expected)


def test_url() -> None:
    server = HttpServer(SimpleNamespace(), "::1", 0)  # type: ignore[arg-type]
    assert server.url == f"http://[::1]:{server.port}"
    server.stop()


@pytest.mark.parametrize("started", [False, True])
def test_a_stop_right_after_the_start_ends_the_thread_in_silence(
    started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that fails at once (no data directory) stops HTTP before its thread has come to serve."""
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    for _ in range(5):
        server = HttpServer(SimpleNamespace(ready=True), "127.0.0.1", 0)  # type: ignore[arg-type]
        if started:
            server.start()
        server.stop()
        assert not server._thread.is_alive()
    assert not failures
