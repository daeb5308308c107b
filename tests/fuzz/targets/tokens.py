"""OAUTHBEARER: the client's message, the token within, the keys that it is checked with; bearer tokens of HTTP; and what a client
of ours is told by an issuer, a file and a broker.

A stranger's token is cut open before its signature is looked at, and one of the issuer's may say anything: so what the input
says of header and claims is signed here with the right key, too. The key is always the same (RFC 8037, appendix A.1).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519
from fuzz.target import target
from tidelog.broker.http.authentication import parse_tokens, read_tokens
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.broker.security.sasl.jwks import Keys, Pauses, parse_keys
from tidelog.broker.security.sasl.mechanism import Refusal, Step
from tidelog.broker.security.sasl.oauthbearer import MAX_EXTENSIONS, OAuthExchange, parse_message
from tidelog.broker.security.sasl.tokens import MAX_LIFETIME_S, Token, TokenRules, TokenVerifier
from tidelog.protocol.client_security import ClientSecurityError
from tidelog.protocol.http_exchange import Answer, Endpoint
from tidelog.protocol.oauth_token import BearerExchange, ClientToken, TokenCache, TokenSettings, fetch

KEY = ed25519.Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)
NOW = 1_700_000_000
"""The verifier's clock. PyJWT looks at the machine's own for the claims: `LATER` is after any run."""
LATER = 32_503_680_000
RULES = TokenRules(("tidelog",), "https://issuer.example", "scope", "sub", 30)
P256 = {
    "kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}  # fmt: skip
RSA = {
    "kty": "RSA",
    "kid": "rsa",
    "alg": "RS256",
    "n": base64.urlsafe_b64encode(b"\xc5" * 256).decode()[:342],
    "e": "AQAB",
}
OUR_KEY = {**jwt.algorithms.OKPAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "one"}
SET = json.dumps({"keys": [OUR_KEY, P256, RSA]}).encode()
DIRECTORY = tempfile.TemporaryDirectory(prefix="fuzz-tokens-")
TOKENS, OWN_TOKEN = Path(DIRECTORY.name) / "tokens", Path(DIRECTORY.name) / "token"


class Source:
    """Keys that are there at once."""

    def read(self) -> bytes:
        return SET


def segment(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def signed(header: bytes, claims: bytes) -> str:
    text = f"{segment(header)}.{segment(claims)}"
    return f"{text}.{segment(KEY.sign(text.encode()))}"


def verifier() -> TokenVerifier:
    keys = Keys(Source(), Pauses(3600, 1, 10), lambda: 0.0, lambda work: work())
    keys.read_now()
    return TokenVerifier(keys, RULES, lambda: NOW)


HEADER = b'{"alg":"EdDSA","kid":"one"}'
CLAIMS = {"sub": "alice", "iss": RULES.issuer, "aud": "tidelog", "iat": NOW, "exp": LATER, "scope": ["a", "b"]}
VERIFIER = verifier()


def is_signed(token: str) -> bool:
    """Whether our key has signed it, looked up without the library that the daemon asks."""
    text, _, signature = token.rpartition(".")
    try:
        KEY.public_key().verify(unpadded(signature), text.encode())
    except Exception:
        return False
    return True


def let_in(token: str) -> Token:
    """Raises what the verifier refuses with; who is let in has a signature and the claims that are asked for."""
    found = asyncio.run(VERIFIER.verify(token))
    assert is_signed(token), "let in without the signature"
    claims = json.loads(unpadded(token.split(".")[1]))
    assert found.user == claims["sub"].strip() != ""
    assert found.user.isprintable()
    assert claims["iss"] == RULES.issuer
    assert "tidelog" in claims["aud"]
    assert 1 <= found.lifetime_ms <= (MAX_LIFETIME_S + RULES.skew_s) * 1000
    return found


def claim_sets() -> Iterator[bytes]:
    for changed in (
        {}, {"exp": NOW}, {"exp": 1e300}, {"aud": ["a", "tidelog"]}, {"sub": " b\0"}, {"scope": "a b"}, {"nbf": LATER},
        {"exp": "1"}, {"aud": {"tidelog": 1}}, {"iat": None}, {"sub": ["alice"]}, {"iss": ["https://issuer.example"]},
    ):  # fmt: skip
        yield HEADER + b"\0" + json.dumps({**CLAIMS, **changed}).encode()
    yield HEADER + b"\0" + json.dumps(CLAIMS).replace(str(LATER), "1e999").encode()
    yield b'{"alg":"EdDSA"}\0' + json.dumps(CLAIMS).encode()
    yield b'{"alg":"EdDSA","kid":["one"],"crit":["b64"],"b64":false}\0{}'
    yield b'{"alg":"none","kid":"one"}\0' + json.dumps(CLAIMS).encode()
    yield HEADER + b"\0" + b"[" * 1500


@target(Refusal, ConnectionAborted, seeds=claim_sets, extra=4 << 20, large=256 << 10)
def signed_tokens(data: bytes) -> None:
    """Any header and any claims, rightly signed: the issuer's own tokens, whatever they say."""
    header, _, claims = data.partition(b"\0")
    let_in(signed(header, claims))


def messages() -> Iterator[bytes]:
    good = signed(HEADER, json.dumps(CLAIMS).encode())
    yield f"n,,\1auth=Bearer {good}\1\1".encode()
    yield f"n,a=alice,\1host=h\1port=1\1auth=Bearer {good}\1x=y z\1\1".encode()
    yield b"n,a=o=2Cd=3D,\1auth=bearer a.b.c\1\1"
    yield b"y,,\1auth=Bearer e30.e30.\1\1"
    yield b"n,,\1auth=Bearer " + segment(b"[" * 900).encode() + b"..\1\1"
    yield b"\1"


@target(Refusal, ConnectionAborted, seeds=messages, extra=4 << 20, large=256 << 10)
def oauthbearer(data: bytes) -> None:
    """The client's first message and, behind a bad token, its second: which is always the end."""

    async def run() -> Step:
        exchange = OAuthExchange(VERIFIER)
        step = await exchange.step(data)
        if step.user is None:
            assert json.loads(step.reply)["status"] == "invalid_token"
            assert step.refused
            await exchange.step(b"\1")
            raise AssertionError("a refused client goes on")
        return step

    first = parse_message(data)
    assert len(first.extensions) <= MAX_EXTENSIONS + 1
    assert "auth" not in first.extensions
    step = asyncio.run(run())
    assert let_in(first.token).user == step.user
    assert first.identity in ("", step.user)


def key_sets() -> Iterator[bytes]:
    yield SET
    yield json.dumps(
        {"keys": [{**OUR_KEY, "key_ops": ["sign"]}, {**P256, "alg": "ES256"}, {**P256, "crv": "P-384"}]}
    ).encode()
    yield json.dumps(
        {"keys": [{**RSA, "n": "AA"}, {**RSA, "e": ""}, {**OUR_KEY, "x": "AA"}, {"kty": "oct", "k": "AA"}]}
    ).encode()
    yield b'{"keys": 5}'
    yield b'{"keys": [1, null, {"kty": ["RSA"]}]}'


@target(ValueError, seeds=key_sets, extra=8 << 20, growth=4000)
def json_web_keys(data: bytes) -> None:
    """A key set: each key is a public one, and only for what its type can sign."""
    log = logging.getLogger("tidelog.broker.security.sasl.jwks")
    log.disabled = True
    try:
        keys = parse_keys(data)
    finally:
        log.disabled = False
    assert keys
    for one in keys:
        assert one.algorithms
        assert not any(name.startswith("HS") or name == "none" for name in one.algorithms)
        assert hasattr(one.key, "verify"), "not a public key"
        assert not hasattr(one.key, "sign"), "not a public key"


def token_files() -> Iterator[bytes]:
    yield b"# who\nprometheus 0123456789abcdef\nUser:deploy sha256:" + b"9f" * 32 + b"\n"
    yield b"a b c\n"
    yield b"a sha256:00\n"


@target(ValueError, seeds=token_files)
def http_tokens(data: bytes) -> None:
    """`http.tokens.file`; a refusal names the line and quotes nothing of it."""
    text = data.decode("utf-8", "replace")
    TOKENS.write_bytes(data)
    try:
        found = read_tokens(str(TOKENS))
        assert found == parse_tokens(text)
    except ValueError as error:
        assert all(word not in str(error) for line in text.splitlines() for word in line.split() if len(word) >= 16)
        raise
    assert all(len(digest) == hashlib.sha256().digest_size for digest in found)
    assert len(found) <= len(text.splitlines())


SECRET = "the client's secret"
GRANT = TokenSettings("https://issuer.example/token", "me", SECRET)
FILE = TokenSettings(OWN_TOKEN.as_uri())


def told_to_clients() -> Iterator[bytes]:
    good = signed(HEADER, json.dumps(CLAIMS).encode())
    yield b"\0" + json.dumps({"access_token": good, "expires_in": 60}).encode()
    yield b"\0" + json.dumps({"access_token": good}).encode()
    yield b'\0{"access_token":"a","expires_in":1e400}'
    yield b'\0{"access_token":"a","expires_in":"60"}'
    yield b'\0{"access_token":"e30.eyJleHAiOjFlNDAwfQ.x","expires_in":true}'
    yield b'\0{"access_token":"a\\u0001b"}'
    yield b"\0" + b"[" * 1500
    for status in (1, 2, 3):
        yield bytes([status]) + json.dumps({"error": "invalid_client", "error_description": f"no {SECRET}\n"}).encode()
    yield b"\4" + good.encode() + b"\n"
    yield b"\4 two words "
    yield b"\4a." + segment(b"[" * 900).encode() + b".b"
    yield b'\5{"status":"invalid_token","error_description":"the token has expired"}'
    yield b"\5"
    yield b"\5\xff"


@target(ClientSecurityError, seeds=told_to_clients, extra=4 << 20)
def client_tokens(data: bytes) -> None:
    """An issuer's answer with each kind of status, a file, a broker's answer: by the first byte. No refusal shows the secret."""
    kind, rest = data[0] % 6 if data else 0, data[1:]
    OWN_TOKEN.write_bytes(rest)
    try:
        if kind == 5:
            exchange = BearerExchange(GRANT, TokenCache(lambda _: ClientToken("t", None)))
            exchange(None)
            assert exchange(rest) == (b"\1" if rest else None)
            exchange(b"")
            assert not rest, "a broker that does not take the token is believed"
            return
        answer = Answer((200, 302, 401, 503, 200)[kind], "", "", rest)
        with patch.object(Endpoint, "ask", return_value=answer):
            found = fetch(FILE if kind == 4 else GRANT, lambda: NOW)
        assert kind in (0, 4)
        wanted = rest.decode().strip() if kind == 4 else json.loads(rest)["access_token"]
        assert found.text == wanted
        assert not set(found.text) & set(" \0\1\r\n,"), "a token that would be more than a token in a message"
        assert found.ends_s is None or 0 < found.ends_s < 1e15
    except ClientSecurityError as error:
        assert SECRET not in str(error)
        assert str(error).isprintable()
        raise
