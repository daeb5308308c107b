"""Who has a good token is whom it names, for as long as it says; every other token is refused, with the reason."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tokens import AUDIENCE, ISSUER, key_set, private_key, public_jwk, token_of
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.broker.security.sasl.jwks import Keys, Pauses, SourceError
from tidelog.broker.security.sasl.mechanism import Refusal
from tidelog.broker.security.sasl.tokens import MAX_LIFETIME_S, TokenRules, TokenVerifier

RULES = TokenRules(("other", AUDIENCE), ISSUER, "scope", "sub", 30)
NOW = 0.0


@pytest.fixture(autouse=True)
def _now() -> None:
    """Tokens are held against the real clock, which must not have gone on far from this one: not since the module was read."""
    global NOW
    NOW = time.time()


class Source:
    def __init__(self, *entries: dict[str, Any]) -> None:
        self.entries = entries

    def read(self) -> bytes:
        if not self.entries:
            raise SourceError("nothing there")
        return key_set(*self.entries)


def verifier(*entries: dict[str, Any], rules: TokenRules = RULES) -> TokenVerifier:
    source: Any = Source(*(entries or (public_jwk(private_key()),)))
    return TokenVerifier(Keys(source, Pauses(3600, 1, 10), run=lambda work: work()), rules, lambda: NOW)


def segment(value: object) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict[str, Any], key: bytes = b"") -> str:
    """A token with alice's claims, with no signature or one by HMAC."""
    claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": int(NOW), "exp": int(NOW) + 3600}
    text = f"{segment(header)}.{segment(claims)}"
    return f"{text}.{segment(hmac.digest(key, text.encode(), hashlib.sha256)) if key else ''}"


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("RSA", "RS256"), ("RSA", "PS512"), ("P-256", "ES256"), ("P-384", "ES384"), ("Ed25519", "EdDSA")],
)
async def test_good_tokens_of_each_kind_of_key(kind: str, algorithm: str) -> None:
    key = private_key(kind)
    token = await verifier(public_jwk(key)).verify(token_of(key, algorithm, exp=int(NOW) + 600))
    assert token.user == "alice"
    assert 599_000 <= token.lifetime_ms <= 600_000


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": int(time.time()) - 3600}, "has expired"),
        ({"exp": None}, "has no exp"),
        ({"iat": None}, "has no iat"),
        ({"exp": "soon"}, "can't be read"),
        ({"exp": float("nan")}, "can't be read"),
        ({"iat": int(time.time()) + 3600}, "not valid yet"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"aud": "somebody else"}, "another audience"),
        ({"aud": ["a", "b"]}, "another audience"),
        ({"aud": {"tidelog": 1}}, "another audience"),
        ({"aud": None}, "has no aud"),
        ({"iss": "https://issuer.example/"}, "another issuer"),
        ({"iss": None}, "has no iss"),
        ({"sub": None}, "no text as sub"),
        ({"sub": " "}, "no text as sub"),
        ({"sub": 5}, "no text as sub"),
        ({"sub": "alice\nroot"}, "characters that no name has"),
        ({"scope": 7}, "scope is neither"),
        ({"scope": ["a", "a"]}, "scope is neither"),
        ({"scope": ["a", ["b"]]}, "scope is neither"),
        ({"scope": " "}, "scope is neither"),
    ],
)
async def test_tokens_with_wrong_claims(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal, match=why):
        await verifier().verify(token_of(**claims))


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "None"}, {"alg": "NONE", "kid": "one"}, {"alg": ""}])
async def test_a_token_without_a_signature_is_refused(header: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match=r"no key|no algorithm"):
        await verifier().verify(forged(header))


@pytest.mark.parametrize("encoding", [Encoding.PEM, Encoding.DER])
@pytest.mark.parametrize("algorithm", ["HS256", "RS256"])
async def test_the_public_key_is_no_secret_to_sign_with(algorithm: str, encoding: Encoding) -> None:
    public = private_key().public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(Refusal, match=r"no key|not signed by the key"):
        await verifier().verify(forged({"alg": algorithm, "kid": "one"}, public))


async def test_a_secret_in_the_key_set_lets_nobody_in() -> None:
    secret = {"kty": "oct", "k": segment(b"s" * 32), "kid": "secret"}
    one = verifier(secret, public_jwk(private_key()))
    with pytest.raises(Refusal, match="no key 'secret'"):
        await one.verify(forged({"alg": "HS256", "kid": "secret"}, b"s" * 32))


async def test_a_key_of_another_issuer_or_name_is_refused() -> None:
    with pytest.raises(Refusal, match="not signed by the key"):
        await verifier().verify(token_of(private_key("RSA", 1)))
    with pytest.raises(Refusal, match="no key 'two'"):
        await verifier().verify(token_of(key_id="two"))
    with pytest.raises(Refusal, match=r"names no key \(kid\)"):
        await verifier(public_jwk(private_key()), public_jwk(private_key("RSA", 1), "two")).verify(
            token_of(key_id=None)
        )
    assert (await verifier().verify(token_of(key_id=None))).user == "alice"


async def test_an_algorithm_that_the_key_is_not_for_is_refused() -> None:
    one = verifier(public_jwk(private_key(), alg="RS256"))
    with pytest.raises(Refusal, match="no key 'one' for the algorithm 'PS256'"):
        await one.verify(token_of(algorithm="PS256"))


async def test_a_key_that_is_too_short_is_refused() -> None:
    weak = rsa.generate_private_key(65537, 1024)
    with pytest.warns(Warning, match="1024"):
        token = token_of(weak)
    with pytest.raises(Refusal, match="too short"):
        await verifier(public_jwk(weak)).verify(token)


async def test_what_the_skew_lets_in_lasts_for_what_is_left_of_it() -> None:
    token = await verifier().verify(token_of(exp=int(NOW) - 5))
    assert 24_000 <= token.lifetime_ms <= 25_000


@pytest.mark.parametrize("exp", [10**30, 10**400, 2**63])
async def test_a_token_for_ever_is_good_for_a_year(exp: int) -> None:
    assert (await verifier().verify(token_of(exp=exp))).lifetime_ms == MAX_LIFETIME_S * 1000


async def test_other_claims_may_say_who_it_is() -> None:
    rules = RULES._replace(subject_claim="azp", scope_claim="roles", audiences=(), issuer=None)
    token = token_of(aud=None, iss=None, azp=" app ", roles=["a", "b"], sub=7)
    assert (await verifier(rules=rules).verify(token)).user == "app"
    with pytest.raises(Refusal, match="another audience"):
        await verifier(rules=rules).verify(token_of(azp="app"))
    lifted = rules._replace(any_audience=True)
    for audience in ("somebody else", ["a", "b"], None, 7):
        assert (await verifier(rules=lifted).verify(token_of(azp="app", aud=audience))).user == "app"


async def test_giant_tokens_are_not_looked_at() -> None:
    with pytest.raises(Refusal, match="at most 65536 are read"):
        await verifier().verify(token_of(groups="g" * 100_000))
    assert (await verifier().verify(token_of(groups="g" * 40_000))).user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b",
        "a.b.c",
        "....",
        f"{segment([])}.e30.x",
        f"{segment(b'[' * 9000)}.e30.x",
        "e30.e30.e30",
        "\udcff.é.ü",
    ],
)
async def test_what_is_no_token(token: str) -> None:
    with pytest.raises(Refusal, match=r"not a signed JSON web token|no algorithm"):
        await verifier().verify(token)


async def test_a_token_too_deep_to_be_parsed_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyJWT before 2.13 lets the parser's RecursionError out: the client was neither refused nor counted as one that guesses."""

    def too_deep(*_: object, **__: object) -> None:
        raise RecursionError

    token = token_of()
    monkeypatch.setattr("jwt.decode", too_deep)
    assert verifier().claimed_user(token) == ""
    with pytest.raises(Refusal, match="can't be read"):
        await verifier().verify(token)
    monkeypatch.setattr("jwt.get_unverified_header", too_deep)
    with pytest.raises(Refusal, match="not a signed JSON web token"):
        await verifier().verify(token)


@pytest.mark.parametrize("more", [{"kid": 7}, {"crit": ["exp"]}, {"crit": "b64"}, {"b64": False, "crit": ["b64"]}])
async def test_headers_that_are_not_understood(more: dict[str, Any]) -> None:
    with pytest.raises(Refusal):
        await verifier().verify(forged({"alg": "RS256", "kid": "one", **more}, b"x"))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(), lambda one: st.lists(one, max_size=3)
)


@settings(max_examples=60)
@given(claims=st.dictionaries(st.sampled_from(["sub", "iss", "aud", "iat", "exp", "nbf", "scope", "jti"]), JSON))
async def test_no_claims_do_more_than_refuse(claims: dict[str, Any]) -> None:
    key = private_key("Ed25519")
    text = f"{segment({'alg': 'EdDSA', 'kid': 'one'})}.{segment(claims)}"
    token = f"{text}.{segment(key.sign(text.encode()))}"
    try:
        good = await verifier(public_jwk(key)).verify(token)
    except Refusal:
        return
    assert (claims["aud"], claims["iss"]) == (AUDIENCE, ISSUER)
    assert good.lifetime_ms >= 1


async def test_without_keys_the_client_is_not_told_that_its_token_is_wrong() -> None:
    source: Any = Source()
    one = TokenVerifier(Keys(source, Pauses(3600, 1, 10), run=lambda work: work()), RULES)
    with pytest.raises(ConnectionAborted, match="no keys could be read yet"):
        await one.verify(token_of())
