from __future__ import annotations

import pytest
from tidelog.config.listener import Listener, parse_address, parse_address_limits, parse_listener, parse_protocol_map

PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "INTERNAL": "PLAINTEXT", "SSL": "SSL"}


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)),
        ("internal://broker.example:0", Listener("INTERNAL", "PLAINTEXT", "broker.example", 0)),
        ("PLAINTEXT://:9092", Listener("PLAINTEXT", "PLAINTEXT", "", 9092)),
        ("PLAINTEXT://[::1]:65535", Listener("PLAINTEXT", "PLAINTEXT", "::1", 65535)),
        ("SSL://[fe80::1%eth0]:1", Listener("SSL", "SSL", "fe80::1%eth0", 1)),
    ],
)
def test_a_listener_is_read(text: str, listener: Listener) -> None:
    assert parse_listener(text, PROTOCOLS) == listener


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("127.0.0.1:9092", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://127.0.0.1", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://::1:9092", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://a b:9092", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://host:-1", "is not NAME://HOST:PORT"),
        ("PLAINTEXT://host:65536", "a port is 0 … 65535"),
        ("EXTERNAL://host:1", "listener.security.protocol.map does not say what EXTERNAL speaks"),
    ],
)
def test_what_is_no_listener_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace(".", r"\.")):
        parse_listener(text, PROTOCOLS)


@pytest.mark.parametrize("text", ["127.0.0.1:9404", "http://127.0.0.1:9404", "HTTP://127.0.0.1:9404"])
def test_an_address_may_have_its_scheme(text: str) -> None:
    assert parse_address(text, "http") == Listener("http", "PLAINTEXT", "127.0.0.1", 9404)


@pytest.mark.parametrize("text", ["9404", "tcp://127.0.0.1:9404", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(text, "http")


def test_a_listener_is_written_as_it_is_read() -> None:
    for text in ("PLAINTEXT://[::1]:9092", "SSL://host:0", "PLAINTEXT://:1"):
        assert str(parse_listener(text, PROTOCOLS)) == text


def test_the_protocol_map_is_read() -> None:
    assert parse_protocol_map(" controller:PLAINTEXT, Client : ssl,") == {"CONTROLLER": "PLAINTEXT", "CLIENT": "SSL"}
    for wrong in ("CLIENT", "CLIENT:QUIC", ":SSL"):
        with pytest.raises(ValueError, match="NAME:PROTOCOL"):
            parse_protocol_map(wrong)


def test_limits_by_address() -> None:
    limits = parse_address_limits(" 10.0.0.7:200,[FD00::7]:50, localhost:10,fd00::8:5,")
    assert limits == {"10.0.0.7": 200, "fd00::7": 50, "127.0.0.1": 10, "::1": 10, "fd00::8": 5}
    assert parse_address_limits("") == {}
    assert parse_address_limits("::ffff:10.0.0.7:5,[::FFFF:10.0.0.8]:6") == {"10.0.0.7": 5, "10.0.0.8": 6}


@pytest.mark.parametrize("text", ["10.0.0.7", "10.0.0.7:", ":5", "10.0.0.7:-1", "10.0.0.7:x"])
def test_a_limit_without_its_parts_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ADDRESS:COUNT"):
        parse_address_limits(text)


def test_a_limit_for_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="names are not looked up"):
        parse_address_limits("broker.example:5")
