"""Metrics and health over HTTP: what each path says, and a stop that comes at any moment."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.http_server import MAX_REQUESTS, REQUEST_TIMEOUT_S, HttpServer
from tidelog.broker.request_metrics import RequestCounters
from tidelog.config.broker_config import BrokerConfig
from tidelog.storage.disk_space import DiskSpace


def ask(server: HttpServer, path: str, method: str = "GET") -> tuple[str, bytes]:
    """One request to the application, without a socket."""
    said: list[str] = []
    body = server._application(
        {"PATH_INFO": path, "REQUEST_METHOD": method, "HTTP_HOST": "localhost"},
        lambda status, headers: said.append(status),
    )
    return said[0], b"".join(body)


@pytest.fixture
def server() -> Any:
    broker = SimpleNamespace(
        ready=False,
        stopping=False,
        loop=SimpleNamespace(call_soon_threadsafe=lambda call: call()),
        recovery=SimpleNamespace(done_bytes=0, total_bytes=0),
        logs=SimpleNamespace(spaces=[("/data", DiskSpace())], logs=list, partitions_remaining=0),
        cleaner=SimpleNamespace(
            manager=SimpleNamespace(uncleanable=list),
            pool=SimpleNamespace(dead_threads=0, throttler=SimpleNamespace(total_bytes=0)),
        ),
        partitions=SimpleNamespace(dead_threads=0),
        time=SimpleNamespace(milliseconds=lambda: 0),
        config=BrokerConfig(),
        counters=RequestCounters(),
        socket_server=SimpleNamespace(received_bytes=0, send_counters=SimpleNamespace(sent_bytes=0), connections=set()),
    )
    made = HttpServer(broker, "127.0.0.1", 0)  # type: ignore[arg-type]
    yield made
    made.stop()


def test_health(server: HttpServer) -> None:
    """What it says and when is test_health.py's; here are paths, statuses and that the answer is JSON."""
    assert ask(server, "/health/live") == ("200 OK", b'{"status": "alive", "loopSilenceS": 0.0}\n')
    status, body = ask(server, "/health/ready")
    assert (status, json.loads(body)["status"]) == ("503 Service Unavailable", "loading")
    assert ask(server, "/health")[0] == "503 Service Unavailable"
    server._broker.ready = True
    assert ask(server, "/health/ready") == ("200 OK", b'{"status": "ready", "degraded": []}\n')
    status, body = ask(server, "/health")
    assert (status, json.loads(body)["status"]) == ("200 OK", "ok")


def test_who_connects_and_says_nothing_keeps_nobody_out(server: HttpServer) -> None:
    """Nor who begins a request and does not end it: those who came first make room, long before their time is up."""
    server.start()
    idle = [socket.create_connection((server.host, server.port)) for _ in range(2 * MAX_REQUESTS)]
    for connection in idle[::2]:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nX")
    began = time.monotonic()
    for _ in range(MAX_REQUESTS + 1):
        with urllib.request.urlopen(f"{server.url}/health/live", timeout=30) as answer:
            assert json.load(answer)["status"] == "alive"
    assert time.monotonic() - began < REQUEST_TIMEOUT_S / 2
    for connection in idle:
        connection.close()


@pytest.mark.parametrize("line", [b"x\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / / /\r\n"])
def test_a_first_line_that_is_no_request_is_answered(server: HttpServer, line: bytes) -> None:
    server.start()
    with socket.create_connection((server.host, server.port), 30) as client:
        client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answer:
            said = answer.read()
    assert b"Error code: 400" in said or b"Error code: 505" in said


def test_other_paths_and_methods(server: HttpServer) -> None:
    assert ask(server, "/nothing")[0] == "404 Not Found"
    assert ask(server, "/")[0] == "503 Service Unavailable", "the console says that logs are being loaded"
    assert ask(server, "/topics")[0] == "503 Service Unavailable"
    assert ask(server, "/health/ready", "POST")[0] == "405 Method Not Allowed"
    assert ask(server, "/health/live", "HEAD")[0] == "200 OK"


def test_a_port_that_is_taken_is_named(server: HttpServer) -> None:
    with pytest.raises(OSError, match=rf"http.listener 127\.0\.0\.1:{server.port} can't be bound"):
        HttpServer(SimpleNamespace(), "127.0.0.1", server.port)  # type: ignore[arg-type]


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
