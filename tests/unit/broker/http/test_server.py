"""Metrics and health over HTTP: what each path says, and a stop that comes at any moment."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from support.nodes import fake_node
from support.patience import PATIENCE_S
from tidelog.broker.http import connections as http_connections
from tidelog.broker.http.connections import MAX_CONNECTIONS
from tidelog.broker.http.console.front import Console
from tidelog.broker.http.console.page_request import Page
from tidelog.broker.http.server import HttpServer
from tidelog.broker.http.user import PEER, USER, HttpUser, Role
from tidelog.broker.http.users import NotLetInError
from tidelog.broker.monitoring.collector import BrokerCollector
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.runtime.threads import SWITCH_INTERVAL_S
from tidelog.config.broker_config import BrokerConfig, broker_config
from tidelog.storage.io.disk_space import DiskSpace


def ask(
    server: HttpServer,
    path: str,
    method: str = "GET",
    host: str | None = "localhost",
    more: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, bytes]:
    """One request to the application, without a socket."""
    said: list[str] = []
    body = server.application(
        {"PATH_INFO": path, "REQUEST_METHOD": method, **({} if host is None else {"HTTP_HOST": host}), **more},
        lambda status, headers: said.append(status),
    )
    return said[0], b"".join(body)


@pytest.fixture
def broker() -> Any:
    return fake_node(
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


@pytest.fixture
def server(broker: Any) -> Iterator[HttpServer]:
    made = HttpServer(broker, "127.0.0.1", 0)
    yield made
    made.stop()


def test_health(server: HttpServer, broker: Any) -> None:
    """What it says and when is test_health.py's; here are paths, statuses and that the answer is JSON."""
    assert ask(server, "/health/live") == ("200 OK", b'{"status": "alive", "loopSilenceS": 0.0}\n')
    status, body = ask(server, "/health/ready")
    assert (status, json.loads(body)["status"]) == ("503 Service Unavailable", "loading")
    assert ask(server, "/health")[0] == "503 Service Unavailable"
    broker.ready = True
    assert ask(server, "/health/ready") == ("200 OK", b'{"status": "ready", "degraded": []}\n')
    status, body = ask(server, "/health")
    assert (status, json.loads(body)["status"]) == ("200 OK", "ok")


FORM_HEAD = (
    b"POST /actions/log-level HTTP/1.0\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 60000\r\nCookie: tidelog-console=%b\r\n\r\nx"
) % (b"c" * 32)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health/live HTTP/1.1\r\nX",
        b"POST /clean/t HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\nx",
        b"GET /metrics HTTP/1.0\r\nContent-Length: 60000\r\n\r\nx",
        b"HEAD /health HTTP/1.0\r\nContent-Length: 60000\r\n\r\nx",
        FORM_HEAD,
        b"GET /large HTTP/1.0\r\n\r\n",
    ],
    ids=["nothing", "head", "refused", "scrape", "probe", "form", "answer"],
)
def test_clients_that_drip_keep_nobody_out(
    server: HttpServer, broker: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They begin, and end nothing: their head, their body, or the taking of an answer. No time ends them in this test."""
    for name in ("REQUEST_TIMEOUT_S", "ANSWER_TIMEOUT_S", "LINGER_S"):
        monkeypatch.setattr(http_connections, name, 1e6)
    answer = Console.answer

    def with_large(console: Console, environ: dict[str, Any]) -> Page | None:
        is_large = environ["PATH_INFO"] == "/large"
        return Page("200 OK", "text/plain", bytes(1 << 25)) if is_large else answer(console, environ)

    monkeypatch.setattr(Console, "answer", with_large)
    monkeypatch.setattr(BrokerCollector, "families", lambda _: iter(()))
    broker.config = BrokerConfig(http_admin_enable=True)
    server.start()
    dripping = []
    for _ in range(2 * MAX_CONNECTIONS):
        dripping.append(socket.create_connection((server.host, server.port), PATIENCE_S))
        dripping[-1].sendall(sent)
    for path in ("/health/live", "/metrics", "/console.css") * 2:
        with urllib.request.urlopen(f"{server.url}{path}", timeout=PATIENCE_S) as found:
            assert found.status == 200, path
            found.read()
    for connection in dripping:
        connection.close()


EVIL = "evil.example:9404"


@pytest.mark.parametrize("path", ["/metrics", "/health", "/why/t", "/why/t/0", "/clean/t/1", "/clean/t"])
def test_a_page_of_another_site_reads_nothing_by_a_name_that_points_here(server: HttpServer, path: str) -> None:
    """DNS rebinding: its Host is the site's own name, whatever address that has now."""
    for method in ("GET", "HEAD", "POST"):
        for host in (EVIL, "", "localhost.evil.example", "127.0.0.1.evil.example", "localhost, evil.example"):
            status, body = ask(server, path, method, host)
            assert status == "421 Misdirected Request", (method, host)
            assert b"http.allowed.hosts" in body


def test_probes_answer_under_every_name_and_tell_a_strange_one_no_more_than_a_word(
    server: HttpServer, broker: Any
) -> None:
    broker.ready = True
    assert ask(server, "/health/live", "GET", EVIL) == ("200 OK", b'{"status": "alive"}\n')
    assert ask(server, "/health/ready", "GET", EVIL) == ("200 OK", b'{"status": "ready"}\n')
    assert ask(server, "/health/ready", "GET", "10.1.2.3:9404")[1] == b'{"status": "ready", "degraded": []}\n'


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:9404", "10.1.2.3", "[::1]:9404", "localhost", "a.localhost:1", "kafka.example.org", "Tidelog.LAN:9404", None,
     socket.gethostname()],
)  # fmt: skip
def test_who_asks_under_an_address_or_a_name_of_ours_is_answered(
    server: HttpServer, broker: Any, host: str | None
) -> None:
    """Prometheus by an address or a name of the settings, a health check of a balancer that sends no Host."""
    broker.ready = True
    broker.config = broker_config(
        {"advertised.listeners": ("PLAINTEXT://kafka.example.org:9092",), "http.allowed.hosts": ("tidelog.lan",)}
    )
    assert ask(server, "/health", "GET", host)[0] == "200 OK"


def test_who_has_signed_in_may_use_any_name_and_what_is_open_may_not(server: HttpServer, broker: Any) -> None:
    """A page of another name has nobody's password; with http.metrics.open it needs none."""

    def admit(environ: dict[str, Any], peer: Any) -> None:
        if environ["HTTP_HOST"] == "proxy.example":
            environ[USER] = HttpUser("alice", Role.READ)

    broker.ready = True
    server.gate = SimpleNamespace(admit=admit, is_open=lambda path: path == "/metrics")  # type: ignore[assignment]
    assert ask(server, "/health", "GET", "proxy.example")[0] == "200 OK"
    assert ask(server, "/metrics", "GET", EVIL)[0] == "421 Misdirected Request"


def test_who_is_refused_is_answered_before_the_body_comes(server: HttpServer, broker: Any) -> None:
    """By paths that take no body, methods that take none, and a console that does not act."""
    broker.ready, broker.logs.node_id = True, 1
    server.start()
    heads = {
        "POST /clean/t HTTP/1.0\r\nContent-Type: application/json\r\nOrigin: http://evil.example": b"403",
        "POST /clean/t HTTP/1.0\r\nContent-Type: text/plain": b"415",
        "DELETE /metrics HTTP/1.0": b"405",
        "GET /health/live HTTP/1.0": b"200",
        "POST /nothing HTTP/1.0": b"405",
        "POST /actions/log-level HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded": b"403",
    }
    for head, status in heads.items():
        with socket.create_connection((server.host, server.port), PATIENCE_S) as client:
            client.sendall(f"{head}\r\nContent-Length: 60000\r\n\r\n".encode())
            with client.makefile("rb") as answer:
                assert answer.readline().split()[1] == status, head
                answer.read()  # not reset: it ends


def test_an_answer_is_not_lost_for_a_body_that_nobody_read(server: HttpServer) -> None:
    server.start()
    with socket.create_connection((server.host, server.port), PATIENCE_S) as client:
        client.sendall(b"POST /clean/t HTTP/1.0\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60_000)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answer:
            assert answer.readline() == b"HTTP/1.0 503 Service Unavailable\r\n"
            assert answer.read().endswith(b"}\n")


def test_work_has_its_lanes_and_probes_need_none(server: HttpServer) -> None:
    """With everything taken by pages, /metrics and probes are answered; with scrapes too, probes are; each refusal says when."""
    with contextlib.ExitStack() as taken:
        for lane in (server.work, server.monitors):
            lane.wait_s = 0.0
        for _ in range(8):
            taken.enter_context(server.work.entered())
        assert ask(server, "/topics")[0] == "503 Service Unavailable"
        assert ask(server, "/clean/t", "POST")[1] == b"too many requests at a time; try again\n"
        assert server.lane_of("/metrics") is server.monitors
        for _ in range(2):
            taken.enter_context(server.monitors.entered())
        assert ask(server, "/metrics")[1] == b"too many requests at a time; try again\n"
        for path in ("/health/live", "/health/ready", "/health"):
            assert ask(server, path)[1].startswith(b"{")
    assert server.work.size + server.monitors.size <= MAX_CONNECTIONS - 8, "the rest is for probes and those who come"


@pytest.mark.parametrize("path", ["/why/orders", "/backup/status", "/", "/topics", "/metrics"])
def test_work_gives_the_interpreter_back_often(server: HttpServer, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network thread waits for a whole interval of each thread that is busy, and eight of these may be."""
    ordinary, seen = sys.getswitchinterval(), []

    def answer(*_: Any) -> list[bytes]:
        seen.append(sys.getswitchinterval())
        return []

    monkeypatch.setattr(server, "_answer", answer)
    server.application({"PATH_INFO": path, "REQUEST_METHOD": "GET"}, lambda *_: None)
    assert seen == [min(SWITCH_INTERVAL_S, ordinary)]
    assert sys.getswitchinterval() == ordinary


def test_who_is_not_let_in_yet_has_no_lane(server: HttpServer) -> None:
    """A password takes time to check, and a refusal is held back: neither is work that others wait for."""
    lanes = (server.work, server.monitors)
    free: list[bool] = []

    def admit(environ: dict[str, Any], peer: Any) -> None:
        with contextlib.ExitStack() as taken:
            for lane in lanes:
                lane.wait_s = 0.0
                for _ in range(lane.size // 2 if lane is server.work else 2):
                    taken.enter_context(lane.entered())
            free.append(True)
        raise NotLetInError("401 Unauthorized", "no", delay_s=5)

    server.gate = SimpleNamespace(is_open=lambda path: False, admit=admit)  # type: ignore[assignment]
    for path in ("/metrics", "/", "/health", "/clean/t"):
        assert ask(server, path)[0] == "401 Unauthorized"
    assert free == [True] * 4


def test_a_refusal_is_held_back_by_the_connection_that_hears_it(server: HttpServer) -> None:
    paused: list[float] = []

    def admit(environ: dict[str, Any], peer: Any) -> None:
        raise NotLetInError("401 Unauthorized", "no", delay_s=5)

    server.gate = SimpleNamespace(is_open=lambda path: False, admit=admit)  # type: ignore[assignment]
    environ = {"PATH_INFO": "/", "REQUEST_METHOD": "GET", PEER: SimpleNamespace(pause=paused.append)}
    server.application(environ, lambda *said: None)
    assert paused == [5]


def test_a_head_without_end_is_refused(server: HttpServer) -> None:
    server.start()
    with socket.create_connection((server.host, server.port), PATIENCE_S) as client:
        client.sendall(b"GET / HTTP/1.0\r\n" + b"".join(b"X%d: %b\r\n" % (n, b"x" * 60_000) for n in range(4)))
        with client.makefile("rb") as answer:
            assert b"431" in answer.readline()


def test_what_goes_wrong_within_stands_in_the_log_and_not_on_stderr(
    server: HttpServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("a\nb")

    monkeypatch.setattr(Console, "answer", fail)
    server.start()
    with pytest.raises(urllib.error.HTTPError, match="500"):
        urllib.request.urlopen(f"{server.url}/", timeout=PATIENCE_S)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "http: a request could not be answered"
    ]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("line", [b"x\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / / /\r\n"])
def test_a_first_line_that_is_no_request_is_answered(server: HttpServer, line: bytes) -> None:
    server.start()
    with socket.create_connection((server.host, server.port), PATIENCE_S) as client:
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


@pytest.mark.parametrize("version", ["0.0.4", "1.0.0", "1.0.0;q=0.5", "2", "x", "1.x", "", '"1.0.0"', "1" * 5000])
@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
def test_a_scrape_is_answered_whatever_version_it_accepts(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch, kind: str, version: str
) -> None:
    """One that is no number was a 500, and a traceback in the log for each request."""
    monkeypatch.setattr(BrokerCollector, "collect", lambda _: iter(()))
    accept = f"text/html;q=0.1, {kind}; version={version}"
    status, body = ask(server, "/metrics", more={"HTTP_ACCEPT": accept})
    assert status == "200 OK"
    assert b"# EOF" in body if (kind, version[:5]) == ("application/openmetrics-text", "1.0.0") else body


def test_the_head_of_a_scrape_is_that_of_its_answer(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerCollector, "collect", lambda _: iter(()))
    assert ask(server, "/metrics")[1]
    assert ask(server, "/metrics", "HEAD") == ("200 OK", b"")


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
    before = set(threading.enumerate())
    for _ in range(5):
        server = HttpServer(SimpleNamespace(ready=True), "127.0.0.1", 0)  # type: ignore[arg-type]
        if started:
            server.start()
        server.stop()
        assert set(threading.enumerate()) <= before
    assert not failures
