"""Verifies JSON web tokens (RFC 7519) that identify clients: signature, claims, user, lifetime."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt

from ...runtime.exceptions import ConnectionAborted
from .mechanism import Refusal

if TYPE_CHECKING:
    from .jwks import Keys, PublicKey, Wait

MAX_TOKEN_BYTES = 65_536
#: What a token that is none raises. Deeply nested JSON: releases of PyJWT before 2.13 let RecursionError out.
UNREADABLE = (jwt.PyJWTError, ValueError, RecursionError)
"""Longest token that is parsed. Tokens have a few kilobytes, with many groups some tens; parsing costs time before the
token is verified.
"""
MAX_LIFETIME_S = 366 * 86_400
"""Longest session, in seconds, whatever a token says: arithmetic of clients and timers must not overflow."""

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (jwt.ExpiredSignatureError, "the token has expired"),
    (jwt.ImmatureSignatureError, "the token is not valid yet: do the clocks agree?"),
    (jwt.InvalidAudienceError, "the token is for another audience (aud)"),
    (jwt.InvalidIssuerError, "the token is of another issuer (iss)"),
    (jwt.InvalidSignatureError, "the token is not signed by the key that it names"),
    (jwt.InvalidAlgorithmError, "the token is signed by an algorithm that its key is not for"),
    (jwt.InvalidKeyError, "the token's key is too short to be trusted"),
)


class TokenRules(NamedTuple):
    """Requirements for tokens. `audiences`: one of these; empty: none, or any where `any_audience`. `issuer` None: any."""

    audiences: tuple[str, ...]
    issuer: str | None
    scope_claim: str
    subject_claim: str
    skew_s: int
    any_audience: bool = False


class Token(NamedTuple):
    """A verified token. `lifetime_ms`: at least 1."""

    user: str
    lifetime_ms: int


class TokenVerifier:
    """Verifies tokens. A signature takes 0.1 ms; reading keys takes longer, and is awaited or blocks, as the method
    says.
    """

    def __init__(self, keys: Keys, rules: TokenRules, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970, for the rest of a token's life."""
        self.keys = keys
        self._rules = rules
        self._clock = clock

    async def verify(self, token: str) -> Token:
        """Verify on the loop thread. Raises `Refusal` with the reason, and `ConnectionAborted` if no keys could be
        read: the client may try again.
        """
        key_id, algorithm = _names_of(token)
        return self._verified(token, key_id, algorithm, await self.keys.find(key_id, algorithm))

    def verify_blocking(self, token: str, wait: Callable[[Wait], None]) -> Token:
        """Verify on any other thread; `wait` blocks while keys are read, and may raise."""
        key_id, algorithm = _names_of(token)
        return self._verified(token, key_id, algorithm, self.keys.find_blocking(key_id, algorithm, wait))

    def claimed_user(self, token: str) -> str:
        """User named in an unverified token; "" if unreadable."""
        if len(token) > MAX_TOKEN_BYTES:
            return ""
        try:
            claims = jwt.decode(token, options={"verify_signature": False})
        except UNREADABLE:
            return ""
        subject = claims.get(self._rules.subject_claim)
        return subject.strip().encode("utf-8", "replace").decode() if isinstance(subject, str) else ""

    # -- inside

    def _verified(self, token: str, key_id: str | None, algorithm: str, key: PublicKey | None) -> Token:
        if key is None:
            if not self.keys.known:
                raise ConnectionAborted("the token can't be checked, as no keys could be read yet")
            if key_id is None:
                raise Refusal(f"the token names no key (kid), and not exactly one is for {algorithm[:20]!r}")
            raise Refusal(f"there is no key {key_id[:100]!r} for the algorithm {algorithm[:20]!r}")
        return self._token_of(self._claims(token, key.key, key.algorithms))

    def _claims(self, token: str, key: Any, algorithms: tuple[str, ...]) -> dict[str, Any]:
        """Verified claims. `algorithms` are the key's, never the token's own."""
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(algorithms),
                audience=self._rules.audiences or None,
                issuer=self._rules.issuer,
                leeway=self._rules.skew_s,
                options={
                    "require": ["exp", "iat"],
                    "verify_aud": not self._rules.any_audience,
                    "verify_sub": False,  # the claim that counts is checked below, whatever its name
                    "verify_jti": False,
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.MissingRequiredClaimError as error:
            raise Refusal(f"the token has no {error.claim}") from None
        except UNREADABLE as error:
            why = next((text for kind, text in _REASONS if isinstance(error, kind)), "the token can't be read")
            raise Refusal(why) from None
        return claims

    def _token_of(self, claims: dict[str, Any]) -> Token:
        self._check_scopes(claims.get(self._rules.scope_claim, ""))
        subject = claims.get(self._rules.subject_claim)
        if not isinstance(subject, str) or not (name := subject.strip()):
            raise Refusal(f"the token names no user: it has no text as {self._rules.subject_claim}")
        if not name.isprintable():
            raise Refusal(f"the token's {self._rules.subject_claim} has characters that no name has")
        now_s = self._clock()
        left_s = min(int(claims["exp"]), now_s + MAX_LIFETIME_S) - now_s
        if left_s <= 0:  # it was let in by the skew, which is then all that is left
            left_s += self._rules.skew_s
        return Token(name, max(1, int(left_s * 1000)))

    def _check_scopes(self, scopes: object) -> None:
        """Check the form of the scopes: one text, or a list of different ones. No scope is required: access control
        decides.
        """
        items = [] if scopes == "" else scopes if isinstance(scopes, list) else [scopes]
        if not all(isinstance(item, str) and item.strip() for item in items) or len({*items}) < len(items):
            raise Refusal(f"the token's {self._rules.scope_claim} is neither a text nor a list of different ones")


def _names_of(token: str) -> tuple[str | None, str]:
    """Key id and algorithm named in a token's header. Raises `Refusal`."""
    if len(token) > MAX_TOKEN_BYTES:
        raise Refusal(f"the token has {len(token)} bytes; at most {MAX_TOKEN_BYTES} are read")
    try:
        header = jwt.get_unverified_header(token)
    except UNREADABLE:
        raise Refusal("that is not a signed JSON web token") from None
    algorithm = header.get("alg")
    if not isinstance(algorithm, str):
        raise Refusal("the token names no algorithm (alg)")
    return header.get("kid"), algorithm
