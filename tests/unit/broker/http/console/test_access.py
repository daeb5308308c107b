"""Who may read and who may act, as a table; and what a form has to bring to be believed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tidelog.broker.http.console.access import FormTokens, Right, host_of, refusal
from tidelog.broker.http.console.page_request import PageRequest
from tidelog.broker.http.user import HttpUser, Role
from tidelog.broker.security.open_listeners import is_loopback
from tidelog.config.broker_config import BrokerConfig

HERE = PageRequest("GET", "/", peer="127.0.0.1", authority="localhost:9404")


@pytest.mark.parametrize(
    ("authority", "may"),
    [
        ("localhost:9404", True), ("LOCALHOST", True), ("127.0.0.1:9404", True), ("[::1]:9404", True),
        ("console.localhost", True),
        ("192.168.1.5:9404", True), ("[fe80::1]:9404", True), ("tidelog.lan:9404", True), ("Tidelog.Lan", True),
        ("localhost.:1", True),
        ("evil.example:9404", False), ("localhost.evil.example", False), ("127.0.0.1.evil.example", False), ("", False),
        (None, False), ("localhost@evil.example", False), ("localhost:9404, evil", False), ("[::1].evil.example", False),
        ("0x7f.1", False), ("localhost:9404\x00", False), ("tidelog.lan.evil.example", False),
    ],
)  # fmt: skip
def test_names_to_read_under(authority: str | None, may: bool) -> None:
    """A name that somebody else's page may have is none: it could be pointed here."""
    config = BrokerConfig(http_allowed_hosts=("TIDELOG.lan",))
    found = refusal(replace(HERE, authority=authority, peer="10.0.0.7"), Right.READ, config)
    assert (found is None) == may
    if found is not None:
        assert found.status.startswith("421")


@pytest.mark.parametrize(
    ("enabled", "peer", "authority", "is_forwarded", "may"),
    [
        (True, "127.0.0.1", "localhost:9404", False, True), (True, "::1", "[::1]:9404", False, True),
        (True, "::ffff:127.0.0.1", "127.0.0.1:9404", False, True), (True, "127.8.9.1", "127.0.0.1", False, True),
        (False, "127.0.0.1", "localhost:9404", False, False), (True, "10.0.0.7", "localhost:9404", False, False),
        (True, "127.0.0.1", "192.168.1.5:9404", False, False), (True, "127.0.0.1", "tidelog.lan", False, False),
        (True, "127.0.0.1", "evil.example", False, False), (True, "127.0.0.1", "localhost:9404", True, False),
        (True, "", "localhost:9404", False, False), (True, "::ffff:10.0.0.7", "localhost", False, False),
    ],
)  # fmt: skip
def test_who_may_act(enabled: bool, peer: str, authority: str, is_forwarded: bool, may: bool) -> None:
    config = BrokerConfig(http_admin_enable=enabled, http_allowed_hosts=("tidelog.lan",))
    request = PageRequest("POST", "/", peer=peer, authority=authority, is_forwarded=is_forwarded)
    assert (refusal(request, Right.ACT, config) is None) == may


def test_actions_are_off_unless_asked_for() -> None:
    found = refusal(HERE, Right.ACT, BrokerConfig())
    assert found is not None
    assert "http.admin.enable" in found.text


ALICE, BOB = HttpUser("alice", Role.ADMIN), HttpUser("bob", Role.READ)


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.7"])
@pytest.mark.parametrize("authority", ["localhost:9404", "10.0.0.1", "logs.example.com:443"])
@pytest.mark.parametrize("is_forwarded", [False, True])
def test_with_users_the_role_decides_and_nothing_else(peer: str, authority: str, is_forwarded: bool) -> None:
    config = BrokerConfig(http_authentication=("basic",), http_users_read=("*",), http_admin_enable=True)
    off = BrokerConfig(http_authentication=("basic",), http_users_read=("*",))

    def may(user: HttpUser | None, right: Right, settings: BrokerConfig = config) -> bool:
        request = PageRequest("GET", "/", peer=peer, authority=authority, is_forwarded=is_forwarded, user=user)
        return refusal(request, right, settings) is None

    assert [[may(user, right) for right in Right] for user in (None, BOB, ALICE)] == [
        [True, False, False], [True, True, False], [True, True, True],
    ]  # fmt: skip
    assert not may(ALICE, Right.ACT, off)


@pytest.mark.parametrize("authority", [None, "", "a b", "localhost@evil"])
def test_with_users_a_host_is_a_host_all_the_same(authority: str | None) -> None:
    config = BrokerConfig(http_authentication=("basic",), http_users_read=("*",), http_admin_enable=True)
    assert refusal(replace(HERE, user=ALICE, authority=authority), Right.READ, config) is not None


def test_hosts_and_addresses() -> None:
    assert host_of("[::1]:80") == "::1"
    assert host_of("a:99999999") is None
    assert [is_loopback(one) for one in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "128.0.0.1")] == [
        False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ({}, True), ({"fetch_site": None}, True), ({"origin": "https://localhost:9404"}, True),
        ({"origin": None}, False), ({"origin": "null"}, False), ({"origin": "http://evil.example"}, False),
        ({"origin": "http://localhost:9405"}, False), ({"fetch_site": "cross-site"}, False), ({"fetch_site": "same-site"},
        False),
        ({"cookie": ""}, False), ({"cookie": "x" * 32}, False), ({"form": {}}, False), ({"form": {"token": ""}}, False),
        ({"form": {"token": "0" * 64}}, False), ({"form": {"token": "ü"}}, False),
    ],
)  # fmt: skip
def test_forms(change: dict[str, object], may: bool) -> None:
    tokens = FormTokens()
    cookie, headers = tokens.cookie_for(HERE)
    assert headers[0][1].startswith(f"tidelog-console={cookie};")
    assert "SameSite=Strict" in headers[0][1]
    assert "HttpOnly" in headers[0][1]
    assert not headers[0][1].endswith("; Secure")
    assert tokens.cookie_for(replace(HERE, is_secure=True))[1][0][1].endswith("; Secure")
    sent = replace(
        HERE, method="POST", cookie=cookie, form={"token": tokens.token(cookie)}, origin="http://localhost:9404",
        fetch_site="same-origin"
    )  # fmt: skip
    assert (tokens.check(replace(sent, **change)) is None) == may  # type: ignore[arg-type]


def test_a_token_is_of_one_process_and_one_cookie() -> None:
    tokens, others = FormTokens(), FormTokens()
    cookie, _ = tokens.cookie_for(HERE)
    assert tokens.cookie_for(replace(HERE, cookie=cookie))[0] == cookie, (
        "two pages of one browser can both be confirmed"
    )
    assert tokens.cookie_for(replace(HERE, cookie="a b"))[0] != "a b"
    assert tokens.token(cookie) != others.token(cookie)
