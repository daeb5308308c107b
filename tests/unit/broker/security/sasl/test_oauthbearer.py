from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.tokens import key_set, private_key, public_jwk, token_of
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES, Attempts, TurnedAway
from tidelog.broker.security.sasl.mechanism import Refusal
from tidelog.broker.security.sasl.oauthbearer import OAuthExchange, parse_message, verifier_of
from tidelog.broker.security.sasl.tokens import Token
from tidelog.config.exceptions import ConfigError

PREFIX = "sasl.oauthbearer."


class Verifier:
    def claimed_user(self, token: str) -> str:
        return f"who has {token}"

    async def verify(self, token: str) -> Token:
        if token != "good":
            raise Refusal("the token has expired")
        return Token("alice", 5000)


def exchange() -> OAuthExchange:
    one: Any = Verifier()
    return OAuthExchange(one)


@pytest.mark.parametrize(
    ("message", "identity", "extensions"),
    [
        (b"n,,\x01auth=Bearer a.b-c_d~e+f/g==\x01\x01", "", {}),
        (b"y,a=al=2Cice=3D,\x01auth=bearer  a.b-c_d~e+f/g==\x01\x01", "al,ice=", {}),
        (
            b"n,,\x01host=h\x01auth=BEARER a.b-c_d~e+f/g==\x01logicalCluster=lkc-1 =x\x01\x01",
            "",
            {"host": "h", "logicalCluster": "lkc-1 =x"},
        ),
    ],
)
def test_messages_are_read(message: bytes, identity: str, extensions: dict[str, str]) -> None:
    assert parse_message(message) == (identity, "a.b-c_d~e+f/g==", extensions)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"", "not OAUTHBEARER's message"),
        (b"\x01", "not OAUTHBEARER's message"),
        (b"n,,\x01auth=Bearer t\x01", "not OAUTHBEARER's message"),
        (b"p=tls-unique,,\x01auth=Bearer t\x01\x01", "not OAUTHBEARER's message"),
        (b"n,a=x=y,\x01auth=Bearer t\x01\x01", "not OAUTHBEARER's message"),
        (b"n,a=" + b"=2C" * 100_000 + b",\x01auth=Bearer t\x01\x01", "not OAUTHBEARER's message"),
        (b"n,,\x01auth=Bearer " + b"t" * 65_537 + b"\x01\x01", "the token has 65544 bytes; at most 65536 are read"),
        (b"n,,\x01auth=Bearer " + b" " * 400_000 + b"t\x01\x01", "at most 65536 are read"),
        (b"n,,\x01\x01", "without auth=Bearer TOKEN"),
        (b"n,,\x01auth=Basic t\x01\x01", "without auth=Bearer TOKEN"),
        (b"n,,\x01auth=Bearer t t\x01\x01", "without auth=Bearer TOKEN"),
        (b"n,,\x01auth=Bearer \x01\x01", "without auth=Bearer TOKEN"),
        (b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01", "there twice"),
        (b"n,,\x01auth=Bearer t\x01a1=x\x01\x01", "extension 'a1'"),
        (b"n,,\x01auth=Bearer t\x01a=\x01\x01", "extension 'a'"),
        (b"n,,\x01auth=Bearer t\x01a=\xc3\xa9\x01\x01", "extension 'a'"),
        (b"n,,\x01auth=Bearer t\x01\x01\x01", "extension ''"),
        (b"n,,\x01auth=Bearer t\x01" + b"a=b\x01" * 500_000 + b"\x01", "not OAUTHBEARER's message|there twice"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "not UTF-8"),
    ],
)
def test_messages_that_are_none_are_refused_without_the_token(message: bytes, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        parse_message(message)


async def test_a_good_token_is_one_step() -> None:
    assert await exchange().step(b"n,,\x01auth=Bearer good\x01x=y\x01\x01") == (b"", "alice", 5000, "")
    assert (await exchange().step(b"n,a=alice,\x01auth=Bearer good\x01\x01")).user == "alice"
    with pytest.raises(Refusal, match="only as the user that its token is of"):
        await exchange().step(b"n,a=bob,\x01auth=Bearer good\x01\x01")


async def test_a_bad_one_is_told_as_json_and_ends_with_the_next_message() -> None:
    one = exchange()
    step = await one.step(b"n,,\x01auth=Bearer bad\x01\x01")
    assert json.loads(step.reply) == {"status": "invalid_token", "error_description": "the token has expired"}
    assert (step.user, step.refused) == (None, "the token has expired")
    with pytest.raises(Refusal, match="has expired"):
        await one.step(b"\x01")
    with pytest.raises(Refusal, match="has expired"):
        await one.step(b"n,,\x01auth=Bearer good\x01\x01")


def settings(**more: Any) -> Any:
    values = {
        PREFIX + "jwks.endpoint.url": "file:///nowhere",
        PREFIX + "jwks.endpoint.refresh.ms": 3_600_000,
        PREFIX + "jwks.endpoint.retry.backoff.ms": 100,
        PREFIX + "jwks.endpoint.retry.backoff.max.ms": 10_000,
        PREFIX + "expected.audience": (),
        PREFIX + "expected.issuer": None,
        PREFIX + "allow.unverified.audience": True,
        PREFIX + "allow.unverified.issuer": True,
        PREFIX + "scope.claim.name": "scope",
        PREFIX + "sub.claim.name": "sub",
        PREFIX + "clock.skew.seconds": 30,
        "sasl.jaas.config": None,
        **more,
    }
    return values.__getitem__


async def test_settings_make_a_verifier_and_what_is_unwise_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(public_jwk(private_key())))
    one = verifier_of("OUT", settings(**{PREFIX + "jwks.endpoint.url": path.as_uri()}))
    for audience in (None, "another"):
        assert (await one.verify(token_of(aud=audience))).user == "alice"
    assert "expected.audience is not set" in caplog.text
    assert "expected.issuer is not set" in caplog.text
    strict = {PREFIX + "jwks.endpoint.url": path.as_uri(), PREFIX + "expected.audience": ("tidelog",)}
    with pytest.raises(Refusal, match="another audience"):
        await verifier_of("OUT", settings(**strict)).verify(token_of(aud="another"))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "jwks.endpoint.url of OUT: /nowhere can't be read"),
        ({PREFIX + "jwks.endpoint.url": "ftp://x"}, "is no address of keys"),
        (
            {
                PREFIX + "jwks.endpoint.url": "https://127.0.0.1:1/keys",
                "sasl.jaas.config": 'a.OAuthBearerLoginModule required ssl.truststore.location="/nowhere";',
            },
            "/nowhere: no authorities can be read",
        ),
        ({"sasl.jaas.config": "x"}, "listener OUT: sasl.jaas.config is not"),
    ],
)
def test_what_can_not_be_used_is_one_clear_line(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        verifier_of("OUT", settings(**values))


async def test_who_has_failed_too_often_is_turned_away_before_the_token_is_looked_into() -> None:
    verifier: Any = Verifier()
    attempts = Attempts(lambda: 0.0)
    for number in range(MOST_FAILURES):
        attempt = attempts.attempt("10.0.0.1")
        step = await OAuthExchange(verifier, attempt.claims).step(b"n,,\x01auth=Bearer bad\x01\x01")
        assert step.refused, number
        attempt.failed()
    with pytest.raises(TurnedAway):
        await OAuthExchange(verifier, attempts.attempt("10.0.0.1").claims).step(b"n,,\x01auth=Bearer bad\x01\x01")
    step = await OAuthExchange(verifier, attempts.attempt("10.0.0.1").claims).step(b"n,,\x01auth=Bearer good\x01\x01")
    assert step.user == "alice"
