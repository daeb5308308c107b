"""Where a client's token comes from by its settings, for how long it is kept, how it is shown; and that secrets are not."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tidelog.protocol import client_security, http_exchange
from tidelog.protocol.client_security import ClientSecurityError
from tidelog.protocol.http_exchange import Answer, ExchangeError
from tidelog.protocol.oauth_token import (
    KEPT,
    MAX_LIFETIME_S,
    MOST_KEPT,
    BearerExchange,
    ClientToken,
    TokenCache,
    TokenSettings,
    TokenUnavailableError,
    fetch,
    librdkafka_callback,
)

URL = "https://issuer.example/token"
ASKED = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
PREFIX = "sasl.oauthbearer."
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
SECRET = "open sesame"


def jwt_that_ends(ends_s: object) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends_s}).encode()).decode().rstrip("=")
    return f"head.{claims}.signature"


def settings_of(**more: str) -> TokenSettings:
    named = {PREFIX + name.replace("_", "."): text for name, text in more.items()}
    security = client_security.security_of({**ASKED, **named})
    assert security.oauth is not None
    return security.oauth


def test_kafkas_newer_names_its_older_ones_and_librdkafkas_say_the_same() -> None:
    wanted = TokenSettings(URL, "me", SECRET, "a b")
    newer = settings_of(
        token_endpoint_url=URL, client_credentials_client_id="me", client_credentials_client_secret=SECRET, scope="a b"
    )
    theirs = settings_of(
        token_endpoint_url=URL, client_id="me", client_secret=SECRET, scope="a b", method="oidc",
        grant_type="client_credentials",
    )  # fmt: skip
    older = {
        **ASKED, PREFIX + "token.endpoint.url": URL, "sasl.login.callback.handler.class": "x.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f'{MODULE} clientId="me" clientSecret="{SECRET}" scope="a b";',
    }  # fmt: skip
    assert newer == theirs == client_security.security_of(older).oauth == wanted
    more = client_security.security_of(
        {
            **older,
            "sasl.jaas.config": f'{MODULE} clientId=me clientSecret=x extension_cluster="c-1" ssl.truststore.location="/a.pem";',
            PREFIX + "header.urlencode": "true",
            PREFIX + "extensions": "pool=p 1",
        }
    )
    assert more.oauth == TokenSettings(
        URL, "me", "x", authorities="/a.pem", urlencodes=True, extensions=(("pool", "p 1"), ("cluster", "c-1"))
    )
    assert (more.who, more.user, more.password) == ("client 'me'", "", "")


def test_no_secret_is_shown_and_all_is_pickled() -> None:
    for settings in (TokenSettings(URL, "me", SECRET), TokenSettings(token=SECRET)):
        assert "sesame" not in repr(settings)
        assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "needs sasl.oauthbearer.token.endpoint.url"),
        ({"token": "t", "token.endpoint.url": URL}, "and not both"),
        ({"token.endpoint.url": URL}, "set sasl.oauthbearer.client.credentials.client.id"),
        ({"token.endpoint.url": URL, "client.id": "me"}, "set sasl.oauthbearer.client.credentials.client.secret"),
        ({"token.endpoint.url": "issuer.example/token"}, "is no address that begins with"),
        ({"token.endpoint.url": "ftp://issuer.example/token"}, "is no address that begins with"),
        ({"token.endpoint.url": "https:///token"}, "is no address that begins with"),
        ({"token.endpoint.url": "https://h:port/"}, "is no address"),
        ({"token.endpoint.url": "http://[::1/"}, "is no address"),
        ({"token.endpoint.url": "file://elsewhere/token"}, "is no address that begins with"),
        ({"token.endpoint.url": "file:token"}, "is no address that begins with"),
        ({"token.endpoint.url": f"https://me:{SECRET}@h/"}, "has a user in it"),
        ({"token": SECRET}, "sasl.oauthbearer.token: that is no token"),
        ({"token": "t", "method": "aws"}, "method=aws: known is oidc"),
        ({"token": "t", "grant.type": "password"}, "known is client_credentials"),
        ({"token": "t", "jwt.retriever.class": "x.JwtBearerJwtRetriever"}, "not known here .JwtBearerJwtRetriever."),
        ({"token": "t", "assertion.file": "/a"}, "makes no assertions"),
        ({"token": "t", "config": SECRET}, "tokens that nobody signs"),
        ({"token": "t", "extensions": "auth=x"}, "extensions are name=value"),
        ({"token": "t", "extensions": f"a1={SECRET}"}, "extensions are name=value"),
        ({"token": "t", "extensions": "a=b\x01auth=Bearer x"}, "extensions are name=value"),
    ],
)
def test_what_is_missing_or_not_there_is_named(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ClientSecurityError, match=why) as caught:
        client_security.security_of({**ASKED, **{PREFIX + name: text for name, text in settings.items()}})
    assert "sesame" not in str(caught.value)
    with pytest.raises(ClientSecurityError, match="tokens that nobody signs"):
        client_security.security_of({**ASKED, "sasl.jaas.config": f"{MODULE} unsecuredLoginStringClaim_sub=a;"})


def test_by_http_a_token_needs_no_sasl() -> None:
    found = client_security.security_of({"sasl.mechanism": "OAUTHBEARER", PREFIX + "token": "t"})
    assert found.oauth == TokenSettings(token="t")
    assert "oauth_cb" not in found.librdkafka()
    assert client_security.security_of({"sasl.mechanism": "OAUTHBEARER"}).oauth is None


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    settings = settings_of(token_endpoint_url=path.as_uri())
    cache = TokenCache()
    for text in (jwt_that_ends(5e9), "b"):
        path.write_text(f"{text}\n")
        assert cache.token(settings).text == text
    for broken, why in (
        (b"", "there is no token in it"),
        (b"two words", "that is no token"),
        (b"x" * 65_537, "no token"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ClientSecurityError, match=why):
            fetch(settings)
    path.unlink()
    with pytest.raises(ClientSecurityError, match=r"file://.*a token can't be read: No such file"):
        fetch(settings)


@pytest.mark.parametrize(
    ("token", "ends_s"),
    [
        (jwt_that_ends(5e9), 5e9), (jwt_that_ends("5000000000"), 5e9), (jwt_that_ends("soon"), None),
        (jwt_that_ends(-1), None), (jwt_that_ends(1e400), None), (jwt_that_ends(True), None), ("a.b.c", None), ("a..c", None),
        ("opaque", None),
    ],
)  # fmt: skip
def test_when_a_token_ends_by_its_own_word(token: str, ends_s: float | None) -> None:
    assert fetch(TokenSettings(token=token)) == ClientToken(token, ends_s)


class Issuer:
    """What is asked of it, and what it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes | None]] = []
        self.answer: Answer | Exception = Answer(200, "OK", "", b"{}")

        def ask(
            _: object, method: str, headers: Any, *, body: bytes | None, timeout_s: float, max_bytes: int
        ) -> Answer:
            self.asked.append((method, dict(headers), body))
            assert timeout_s <= 10
            assert max_bytes <= 1 << 20
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        monkeypatch.setattr(http_exchange.Endpoint, "ask", ask)

    def says(self, status: int = 200, **content: object) -> None:
        self.answer = Answer(status, "reason", "", json.dumps(content).encode())


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Issuer:
    return Issuer(monkeypatch)


GRANT = TokenSettings(URL, "me", "s:ö/ +")


def test_a_token_is_asked_for_as_rfc_6749_has_it(issuer: Issuer) -> None:
    issuer.says(access_token="t.t", expires_in=60)
    assert fetch(GRANT, lambda: 1000.0) == ClientToken("t.t", 1060.0)
    method, headers, body = issuer.asked[0]
    assert (method, body) == ("POST", b"grant_type=client_credentials")
    assert headers["Authorization"] == "Basic " + base64.b64encode("me:s:ö/ +".encode()).decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    fetch(TokenSettings(URL, "m e", "s+", "a&b c", urlencodes=True))
    _, headers, body = issuer.asked[1]
    assert body == b"grant_type=client_credentials&scope=a%26b+c"
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"m+e:s%2B").decode()


@pytest.mark.parametrize(
    ("expires_in", "ends_s"),
    [
        (60, 1060),
        ("60", 1060),
        (0.5, 1000.5),
        (1e12, 1000 + MAX_LIFETIME_S),
        (None, 5e9),
        (0, 5e9),
        (-5, 5e9),
        ("x", 5e9),
    ],
)
def test_how_long_it_lasts_by_the_issuers_word_or_its_own(issuer: Issuer, expires_in: object, ends_s: float) -> None:
    token = jwt_that_ends(5e9)
    issuer.says(access_token=token, expires_in=expires_in)
    assert fetch(GRANT, lambda: 1000.0) == ClientToken(token, ends_s)


@pytest.mark.parametrize(
    ("status", "data", "passes", "why"),
    [
        (401, b'{"error": "invalid_client", "error_description": "wrong: s:\\u00f6/ +"}', False, "401, invalid_client: wrong: …"),
        (400, b"", False, "gives client 'me' no token: 400$"),
        (403, b"<html>", False, "403$"),
        (400, b'{"error": "a\\nb\\u001b[31m"}', False, r"400, a b \[31m$"),
        (400, json.dumps({"error": "x" * 5000}).encode(), False, "400, x{300}$"),
        (429, b"", True, "429$"), (503, b'{"error": 5}', True, "503$"),
        (302, b"", False, "answers 302: redirects are not followed"),
        (200, b"", False, "an answer without access_token"), (200, b"[]", False, "without access_token"),
        (200, b"[" * 100_000, False, "without access_token"),
        (200, b'{"access_token": 5}', False, "without access_token"),
        (200, b'{"access_token": ""}', False, "there is no token in it"),
        (200, b'{"access_token": "a b"}', False, "that is no token"),
        (200, b'{"access_token": "a\\u0001auth=Bearer b"}', False, "that is no token"),
    ],
)  # fmt: skip
def test_what_issuers_answer_instead(issuer: Issuer, status: int, data: bytes, passes: bool, why: str) -> None:
    issuer.answer = Answer(status, "reason", "", data)
    with pytest.raises(ClientSecurityError, match=why) as caught:
        fetch(GRANT)
    assert isinstance(caught.value, TokenUnavailableError) == passes
    assert "s:ö/ +" not in str(caught.value)


def test_an_issuer_that_can_not_be_reached_may_be_another_time(issuer: Issuer) -> None:
    issuer.answer = ExchangeError("https://issuer.example/token can't be reached: Connection refused")
    with pytest.raises(TokenUnavailableError, match="can't be reached"):
        fetch(GRANT)
    with pytest.raises(ClientSecurityError, match=r"/none\.pem: no authorities can be read"):
        fetch(TokenSettings(URL, "me", "s", authorities="/none.pem"))


class Source:
    """Tokens with a number, each of which lasts for 100 s."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked = 0
        self.ends = True
        self.cache = TokenCache(self.get, lambda: self.now)

    def get(self, _settings: TokenSettings) -> ClientToken:
        self.asked += 1
        return ClientToken(f"t{self.asked}", self.now + 100 if self.ends else None)


def test_a_token_is_kept_for_most_of_its_life() -> None:
    source = Source()
    assert [source.cache.token(GRANT).text for _ in range(3)] == ["t1"] * 3
    source.now += 100 * KEPT - 1
    assert source.cache.token(GRANT).text == "t1"
    source.now += 1
    assert source.cache.token(GRANT).text == "t2"
    source.cache.forget(GRANT)
    assert source.cache.token(GRANT).text == "t3"
    assert source.cache.token(TokenSettings(URL, "another", "s")).text == "t4"
    source.ends = False
    source.cache.forget(GRANT)
    assert [source.cache.token(GRANT).text for _ in range(2)] == ["t5", "t6"]


def test_few_are_kept() -> None:
    source = Source()
    for number in range(2 * MOST_KEPT):
        source.cache.token(TokenSettings(URL, f"c{number}", "s"))
    assert len(source.cache.kept) == MOST_KEPT


def test_a_good_token_is_one_message() -> None:
    exchange = BearerExchange(TokenSettings(URL, "me", "s", extensions=(("a", "b c"),)), Source().cache)
    assert exchange(None) == b"n,,\x01auth=Bearer t1\x01a=b c\x01\x01"
    assert exchange(b"") is None


def test_one_that_is_not_taken_is_forgotten_and_the_exchange_ended() -> None:
    source = Source()
    exchange = BearerExchange(GRANT, source.cache)
    exchange(None)
    assert exchange(b'{"status": "invalid_token", "error_description": "the token has expired"}') == b"\x01"
    with pytest.raises(ClientSecurityError, match="not taken: invalid_token: the token has expired"):
        exchange(b"")  # a broker that then says that all is well
    assert source.cache.token(GRANT).text == "t2"
    garbled = BearerExchange(GRANT, source.cache)
    garbled(None)
    assert garbled(b"\xff") == b"\x01"
    with pytest.raises(ClientSecurityError, match="does not say why"):
        garbled(b"")


def test_librdkafka_gets_an_end_that_it_takes() -> None:
    source = Source()
    callback = librdkafka_callback(GRANT, source.cache, lambda: source.now)
    assert callback("") == ("t1", 1100.0)
    source.cache.forget(GRANT)
    source.ends = False
    assert callback("") == ("t2", 4600.0)
    old = TokenSettings(token=jwt_that_ends(5), extensions=(("a", "b"),))
    assert librdkafka_callback(old, clock=lambda: 1000.0)("") == (old.token, 1060.0, "", {"a": "b"})
