"""A schema registry as its client meets it: what is asked how often, who is let in, and what else may come back."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.schema_registry import SchemaRegistry
from tidelog.clients.schemas import registry as module
from tidelog.clients.schemas.exceptions import RegistryError, SchemaError, UnknownSchemaError
from tidelog.clients.schemas.registry import Reference, RegisteredSchema, Registry, RegistrySettings, checked_url

TEXT = '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}'


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


class Clock:
    """Time passes by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def client(*urls: str, **settings: Any) -> tuple[Registry, Clock]:
    clock = Clock()
    return Registry(RegistrySettings(urls, **settings), clock=clock, sleep=clock.sleep), clock


def test_a_schema_is_asked_for_once_and_the_newest_each_time(server: SchemaRegistry) -> None:
    first = server.register("orders/value", TEXT)
    one, _ = client(server.url)
    wanted = RegisteredSchema(first, "AVRO", TEXT, ())
    assert [one.by_id(first), one.by_id(first), one.latest("orders/value"), one.by_version("orders/value", 1)] == [
        wanted
    ] * 4
    second = server.register("orders/value", '"int"')
    assert one.latest("orders/value").schema_id == second
    assert one.by_version("orders/value", 1) == wanted
    assert server.asked == [
        f"/schemas/ids/{first}",
        "/subjects/orders%2Fvalue/versions/latest",
        "/subjects/orders%2Fvalue/versions/1?deleted=true",
        "/subjects/orders%2Fvalue/versions/latest",
    ]


def test_what_is_unknown_is_asked_for_again_after_half_a_minute(server: SchemaRegistry) -> None:
    one, clock = client(server.url)
    for _ in range(5):
        with pytest.raises(UnknownSchemaError, match=r"the registry has no schema 100 \(http://127"):
            one.by_id(100)
    assert len(server.asked) == 1
    server.register("s", TEXT)
    clock.now = module.UNKNOWN_S
    assert one.by_id(100).text == TEXT
    with pytest.raises(UnknownSchemaError, match="the registry has no subject t"):
        one.latest("t")


def test_what_is_kept_has_bounds(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    monkeypatch.setattr(module, "MOST_UNKNOWN", 2)
    ids = [server.register("s", TEXT) for _ in range(5)]
    one, _ = client(server.url)
    for number in [*ids, ids[0]]:
        one.by_id(number)
    assert len(server.asked) == 6, "the first was not kept"
    assert len(one._kept) == 3
    assert one._kept_bytes == 3 * len(TEXT)
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 2 * len(TEXT))
    one.by_id(ids[1])
    assert (len(one._kept), one._kept_bytes) == (2, 2 * len(TEXT))
    for number in range(1000, 1010):
        with pytest.raises(UnknownSchemaError):
            one.by_id(number)
    assert len(one._unknown) == 2


def test_references_come_behind_what_they_refer_to(server: SchemaRegistry) -> None:
    server.register("d", "d")
    server.register("b", "b", references=[("D", "d", 1)])
    server.register("c", "c", references=[("D", "d", 1), ("B", "b", 1)])
    root = server.register("a", "a", references=[("C", "c", 1), ("B", "b", 1)])
    one, _ = client(server.url)
    found = one.closure(one.by_id(root))
    assert [name for name, _ in found] == ["D", "B", "C"]
    assert [schema.text for _, schema in found] == ["d", "b", "c"]
    assert len(server.asked) == 4


def test_references_in_a_circle_end_and_too_many_are_refused(
    server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.register("x", "x", references=[("Y", "y", 1)])
    server.register("y", "y", references=[("X", "x", 1)])
    one, _ = client(server.url)
    assert {name for name, _ in one.closure(one.by_version("x", 1))} == {"X", "Y"}
    twice = RegisteredSchema(1, "AVRO", "", (Reference("X", "x", 1), Reference("X", "y", 1)))
    with pytest.raises(SchemaError, match="X refers to versions that differ"):
        one.closure(twice)
    monkeypatch.setattr(module, "MOST_REFERENCES", 1)
    with pytest.raises(SchemaError, match="refers to more than 1 others"):
        one.closure(one.by_version("x", 1))


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({"user_info": "etl:geheim"}, "Basic " + base64.b64encode(b"etl:geheim").decode()),
        ({"bearer_token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_who_says_who_he_is_is_let_in(server: SchemaRegistry, settings: dict[str, str], header: str) -> None:
    number = server.register("s", TEXT)
    server.authorization = header
    assert client(server.url, **settings)[0].by_id(number).text == TEXT
    wrong = {name: f"{value}!" for name, value in settings.items()}
    for one, clock in (client(server.url), client(server.url, **wrong)):
        with pytest.raises(RegistryError, match=r"does not let us in \(401\): User cannot be authenticated") as caught:
            one.by_id(number)
        assert clock.now == 0, "another attempt is no better"
        assert not any(value in str(caught.value) for value in wrong.values())
    assert not any(value in repr(RegistrySettings(("u",), **settings)) for value in settings.values())  # type: ignore[arg-type]


def test_the_next_address_is_asked_when_one_is_away(server: SchemaRegistry) -> None:
    server.prefix = "/schemas-of/here"
    number = server.register("s", TEXT)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        one, clock = client(away, server.url)
        assert one.by_id(number).text == TEXT
        assert clock.now == 0
        alone, clock = client(away, patience_s=5.0)
        with pytest.raises(
            RegistryError,
            match=f"schema 7 cannot be had from the registry: {away}/schemas/ids/7 can't be reached: Connection refused",
        ):
            alone.by_id(7)
        assert 2 < clock.now <= 5


def test_a_registry_that_is_busy_is_asked_again(server: SchemaRegistry) -> None:
    number = server.register("s", TEXT)
    left = [(503, b"", {}), (429, b"", {}), (500, b"{}", {}), None]
    server.fail = lambda path: left.pop(0)
    one, clock = client(server.url)
    assert one.by_id(number).text == TEXT
    assert clock.now == pytest.approx(0.1 + 0.2 + 0.4)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((200, b"<html>", {}), "answers, but not as a schema registry does: b'<html>'"),
        ((200, b"[" * 100_000, {}), "answers, but not as a schema registry does"),
        ((200, b'{"schema": 5}', {}), "answer for schema 1 is no schema"),
        ((200, b'{"schema": "", "references": [{"name": "x"}]}', {}), "answer for schema 1 is no schema"),
        ((200, b'{"schema": "", "references": 5}', {}), "answer for schema 1 is no schema"),
        ((302, b"", {"Location": "http://127.0.0.1:1/elsewhere"}), "answers 302"),
        ((422, b'{"message": "no\\nsuch thing"}', {}), "answers 422: no such thing"),
    ],
)
def test_what_is_no_registrys_answer_is_told(server: SchemaRegistry, answer: Any, message: str) -> None:
    server.fail = lambda path: answer
    with pytest.raises(RegistryError, match=message):
        client(server.url)[0].by_id(1)
    assert len(server.asked) == 1


def test_a_proxys_404_does_not_make_a_schema_unknown(server: SchemaRegistry) -> None:
    """While it does not know where the registry is, records would be taken for damaged ones."""
    number = server.register("s", TEXT)
    left = [(404, b"default backend - 404", {}), (404, b'{"message": "no route"}', {}), (404, b"[" * 100_000, {}), None]
    server.fail = lambda path: left.pop(0)
    one, clock = client(server.url)
    assert one.by_id(number).text == TEXT
    assert clock.now == pytest.approx(0.1 + 0.2 + 0.4)
    server.fail = lambda path: (404, b"<html>", {})
    with pytest.raises(RegistryError, match="answers 404, but not as a schema registry does"):
        one.by_id(number + 1)


def test_a_path_that_a_registry_does_not_have_is_told_at_once(server: SchemaRegistry) -> None:
    one, clock = client(f"{server.url}/elsewhere")
    with pytest.raises(RegistryError, match="answers 404: HTTP 404 Not Found"):
        one.latest("s")
    assert clock.now == 0.0


def test_an_answer_without_end_is_not_kept(server: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ANSWER", 1000)
    server.fail = lambda path: (200, b" " * 2000, {})
    with pytest.raises(RegistryError, match="answers with more than 1000 bytes"):
        client(server.url, patience_s=0.0)[0].by_id(1)


def test_an_answer_that_never_comes_is_waited_for_no_longer_than_said() -> None:
    """One that sends its body byte by byte, each in time."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not done.wait(0.01):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with pytest.raises(RegistryError, match=r"did not answer within 0\.3 s"):
                client(url, attempt_s=0.3, patience_s=0.0)[0].by_id(1)
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    "wrong",
    [
        "", "localhost:8081", "ftp://host", "http://", "http://host:99999", "http://host/?a=b", "http://[::1", "http://host/a b",
        "http://host/sch\u00f6n", "http://host/\x7f", f"http://{64 * 'a'}.org", "http://a..org",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(SchemaError, match="is no address of a registry"):
        checked_url(wrong)


def test_a_password_in_an_address_is_refused() -> None:
    with pytest.raises(SchemaError, match="has no user in it") as caught:
        checked_url("http://etl:geheim@host")
    assert "geheim" not in str(caught.value)
    assert checked_url("https://host:8081/path/") == "https://host:8081/path"
    assert [checked_url(url) for url in ("http://[::1]:8081", "http://b\u00fccher.example/a%20b")] == [
        "http://[::1]:8081", "http://b\u00fccher.example/a%20b",
    ]  # fmt: skip
