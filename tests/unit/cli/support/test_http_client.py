from __future__ import annotations

import socket
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tidelog.cli.support.http_client import HttpDaemon, HttpFailure, address_of, ask, daemon_of
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[HttpDaemon, list[bytes]]]:
    """A server that answers one request with these bytes, whatever it is."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield HttpDaemon(*server.getsockname()[:2]), seen
        thread.join()


def json_answer(status: str, body: bytes) -> bytes:
    return b"HTTP/1.0 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def test_where_the_daemon_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_HTTP_LISTENER", raising=False)
    assert address_of(None) == ("127.0.0.1", 9404, False)
    monkeypatch.setenv("TIDELOG_HTTP_LISTENER", "0.0.0.0:80")
    assert address_of(None) == ("127.0.0.1", 80, False)
    assert address_of("example.org:81") == ("example.org", 81, False)
    assert address_of("http://[::1]:82/") == ("::1", 82, False)
    assert address_of("https://example.org:83") == ("example.org", 83, True)
    monkeypatch.setenv("TIDELOG_HTTP_LISTENER", "")
    with pytest.raises(HttpFailure, match=r"TIDELOG_HTTP_LISTENER is empty: that daemon has no http\.listener"):
        address_of(None)
    with pytest.raises(HttpFailure, match="--http: 'nowhere' is not HOST:PORT"):
        address_of("nowhere")


def test_an_answer_and_a_refusal() -> None:
    with answering(json_answer("200 OK", b'{"a": 1}')) as (address, seen):
        assert ask(address, "POST", "/clean/t") == {"a": 1}
    assert seen[0].startswith(b"POST /clean/t HTTP/1.1\r\n")
    assert b"Content-Type: application/json\r\n" in seen[0]
    with answering(json_answer("404 Not Found", b'{"error": "there is no topic"}')) as (address, _):
        with pytest.raises(HttpFailure, match=r"^there is no topic$") as caught:
            ask(address, "GET", "/why/t")
        assert caught.value.status == 404


def test_nobody_and_somebody_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = HttpDaemon(*closed.getsockname()[:2])
    with pytest.raises(
        HttpFailure, match=rf"no daemon answers at http://127\.0\.0\.1:{address.port} \(Connection refused\)"
    ):
        ask(address, "GET", "/why/t")
    with (
        answering(json_answer("200 OK", b"<html>")) as (address, _),
        pytest.raises(HttpFailure, match="no tidelog daemon"),
    ):
        ask(address, "GET", "/why/t")
    with answering(b"\x00\x01\x02\r\n\r\n") as (address, _), pytest.raises(HttpFailure, match="no daemon answers"):
        ask(address, "GET", "/why/t")


def options(config: Path | None = None, http: str | None = "127.0.0.1:1") -> Namespace:
    return Namespace(http=http, bootstrap_server=None, command_config=None if config is None else str(config))


def test_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_COMMAND_CONFIG", raising=False)
    assert daemon_of(options()).authorization is None
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=alice\nsasl.password=a:b c\n")
    found = daemon_of(options(file))
    assert found.authorization == "Basic YWxpY2U6YTpiIGM="
    assert "YWxp" not in repr(found)
    file.write_text("sasl.username=alice\nsasl.password=x\nhttp.token=0123456789abcdef\n")
    monkeypatch.setenv("TIDELOG_COMMAND_CONFIG", str(file))
    assert daemon_of(options()).authorization == "Bearer 0123456789abcdef"
    with pytest.raises(HttpFailure, match="can't be read: No such file"):
        daemon_of(options(tmp_path / "nowhere"))
    file.write_text("ssl.truststore.location=/nowhere\n")
    with pytest.raises(HttpFailure, match=r"ssl\.truststore\.location=/nowhere"):
        daemon_of(options(http="https://127.0.0.1:1"))


def test_a_daemon_that_asks_who_one_is() -> None:
    with answering(json_answer("401 Unauthorized", b'{"error": "Sign in to see this."}')) as (daemon, seen):
        with pytest.raises(HttpFailure, match=r"needs a user: --command-config FILE with") as caught:
            ask(daemon, "GET", "/why/t")
        assert caught.value.status == 401
    assert b"Authorization" not in seen[0]
    with (
        answering(json_answer("401 Unauthorized", b'{"error": "wrong"}')) as (daemon, seen),
        pytest.raises(HttpFailure, match=r"needs a user \(wrong\): "),
    ):
        ask(replace(daemon, authorization="Bearer x"), "GET", "/why/t")
    assert b"Authorization: Bearer x\r\n" in seen[0]
    with (
        answering(b"HTTP/1.0 400 Bad Request\r\n\r\nThis port speaks https.\n") as (daemon, _),
        pytest.raises(HttpFailure, match=r"speaks TLS: use --http https://"),
    ):
        ask(daemon, "GET", "/why/t")


class Told:
    """A daemon on `bootstrap` whose http.listener is `value`; None: it has no such setting."""

    def __init__(self, bootstrap: str, value: str | None) -> None:
        self.bootstrap = bootstrap
        self.value = value

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, request: Any, response: type[Any]) -> Any:
        if response is MetadataResponse:
            return MetadataResponse(brokers=[MetadataResponseBroker(node_id=7, host="h", port=1)])
        (resource,) = request.resources
        assert (resource.resource_type, resource.resource_name) == (4, "7")
        rows = [] if self.value is None else [DescribeConfigsResourceResult(name="http.listener", value=self.value)]
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=4, resource_name="7", configs=rows)]
        )


@pytest.mark.parametrize(
    ("bootstrap", "value", "url"),
    [
        ("127.0.0.1:9092", "127.0.0.1:9404", "http://127.0.0.1:9404"),
        ("localhost:9092", "127.0.0.1:81", "http://127.0.0.1:81"),
        ("10.0.0.5:9092", "0.0.0.0:9404", "http://10.0.0.5:9404"),
        ("[::1]:9092", "[::]:9404", "http://[::1]:9404"),
        ("10.0.0.5:9092", "10.0.0.6:9404", "http://10.0.0.6:9404"),
    ],
)
def test_a_daemon_tells_its_http_address(monkeypatch: pytest.MonkeyPatch, bootstrap: str, value: str, url: str) -> None:
    monkeypatch.setattr("tidelog.cli.support.kafka_client.client_of", lambda _options: Told(bootstrap, value))
    asked = options(http=None)
    asked.bootstrap_server = bootstrap
    assert daemon_of(asked).url == url


@pytest.mark.parametrize(
    ("bootstrap", "value", "said"),
    [
        ("127.0.0.1:9092", None, "127.0.0.1:9092 is no tidelog daemon: it has no setting http.listener"),
        ("127.0.0.1:9092", "", "has no http.listener, which this command needs"),
        ("10.0.0.5:9092", "127.0.0.1:9404", "is reached on that machine alone: run this there"),
    ],
)
def test_an_http_address_that_is_of_no_use_is_told_and_no_other_daemon_asked(
    monkeypatch: pytest.MonkeyPatch, bootstrap: str, value: str | None, said: str
) -> None:
    monkeypatch.setattr("tidelog.cli.support.kafka_client.client_of", lambda _options: Told(bootstrap, value))
    asked = options(http=None)
    asked.bootstrap_server = bootstrap
    with pytest.raises(HttpFailure, match=said):
        daemon_of(asked)
