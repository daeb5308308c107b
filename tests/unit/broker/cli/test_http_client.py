from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tidelog.broker.cli.http_client import HttpFailure, address_of, ask


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
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
        yield server.getsockname()[:2], seen
        thread.join()


def json_answer(status: str, body: bytes) -> bytes:
    return b"HTTP/1.0 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def test_where_the_daemon_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_HTTP_LISTENER", raising=False)
    assert address_of(None) == ("127.0.0.1", 9404)
    monkeypatch.setenv("TIDELOG_HTTP_LISTENER", "0.0.0.0:80")
    assert address_of(None) == ("127.0.0.1", 80)
    assert address_of("example.org:81") == ("example.org", 81)
    assert address_of("http://[::1]:82/") == ("::1", 82)
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
        address = closed.getsockname()[:2]
    with pytest.raises(
        HttpFailure, match=rf"no daemon answers at http://127\.0\.0\.1:{address[1]} \(Connection refused\)"
    ):
        ask(address, "GET", "/why/t")
    with (
        answering(json_answer("200 OK", b"<html>")) as (address, _),
        pytest.raises(HttpFailure, match="no tidelog daemon"),
    ):
        ask(address, "GET", "/why/t")
    with answering(b"\x00\x01\x02\r\n\r\n") as (address, _), pytest.raises(HttpFailure, match="no daemon answers"):
        ask(address, "GET", "/why/t")
