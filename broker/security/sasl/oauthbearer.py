"""OAUTHBEARER (RFC 7628): the client sends a token. The error for a bad one is sent as JSON, which the client
acknowledges.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ....config.exceptions import ConfigError
from ....protocol.jaas import options_of
from .jwks import FileSource, Keys, Pauses, SourceError, source_of
from .mechanism import Refusal, Step
from .tokens import MAX_TOKEN_BYTES, TokenRules, TokenVerifier

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

NAME = "OAUTHBEARER"
MAX_EXTENSIONS = 100
MAX_IDENTITY = 4096
"""Most characters of the user that a client would act as, as it is written. Half a megabyte of it would take the loop 120 ms."""
_HEADER = re.compile(r"[ny],(?:a=((?:[^\x00=,]|=2C|=3D)+))?,")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER = re.compile(r"bearer +([-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


class ClientMessage(NamedTuple):
    """First message of a client. `identity` is "" if it requests none. Kafka's clients may send extensions (KIP-342)."""

    identity: str
    token: str
    extensions: dict[str, str]


def parse_message(message: bytes) -> ClientMessage:
    """Parse the message (RFC 7628, section 3.1). Raises `Refusal`, whose text has nothing of the token in it."""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise Refusal("an OAUTHBEARER message that is not UTF-8") from None
    header, *pairs = text.split("\x01", MAX_EXTENSIONS + 4)
    match = _HEADER.fullmatch(header) if len(header) <= MAX_IDENTITY + len("n,a=,") else None
    if match is None or len(pairs) < 2 or pairs[-2:] != ["", ""]:
        raise Refusal("that is not OAUTHBEARER's message: n,,^Aauth=Bearer TOKEN^A^A")
    values: dict[str, str] = {}
    for pair in pairs[:-2]:
        name, _, value = pair.partition("=")
        if not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value) or name in values:
            raise Refusal(f"extension {name[:50]!r} has a name or a value that is not allowed, or is there twice")
        values[name] = value
    auth = values.pop("auth", "")
    if len(auth) > MAX_TOKEN_BYTES + len("Bearer "):
        raise Refusal(f"the token has {len(auth)} bytes; at most {MAX_TOKEN_BYTES} are read")
    bearer = _BEARER.fullmatch(auth)
    if bearer is None:
        raise Refusal("an OAUTHBEARER message without auth=Bearer TOKEN")
    identity = (match[1] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientMessage(identity, bearer[1], values)


class OAuthExchange:
    """OAUTHBEARER exchange: one message, or two for a bad token, as the client gets the error and acknowledges it."""

    __slots__ = ("_claims", "_refused", "_verifier")

    def __init__(self, verifier: TokenVerifier, claims: Callable[[str], None] = lambda name: None) -> None:
        """`claims` is called with the user named in the unverified token, and raises for a user with too many failures."""
        self._claims = claims
        self._verifier = verifier
        self._refused: Refusal | None = None

    async def step(self, message: bytes) -> Step:
        """Verify a token. Extensions are checked in form and otherwise ignored, as Kafka's own validator does."""
        if self._refused is not None:
            raise self._refused
        first = parse_message(message)
        self._claims(self._verifier.claimed_user(first.token))
        try:
            token = await self._verifier.verify(first.token)
        except Refusal as refusal:
            self._refused = refusal
            answer = {"status": "invalid_token", "error_description": str(refusal)}
            return Step(json.dumps(answer).encode(), refused=str(refusal))
        if first.identity not in ("", token.user):
            raise Refusal("a client can act only as the user that its token is of")
        return Step(b"", token.user, token.lifetime_ms)


def verifier_of(listener: str, value: Callable[[str], Any]) -> TokenVerifier:
    """Make a listener's token verifier from its settings (`value` looks one up). Reads files; starts to fetch keys from
    an address.

    Raises `ConfigError` with one clear line.
    """
    url = str(value("sasl.oauthbearer.jwks.endpoint.url"))
    try:
        options = options_of(jaas, NAME) if (jaas := value("sasl.jaas.config")) else {}
    except ValueError as error:
        raise ConfigError([f"listener {listener}: {error}"]) from None
    pauses = Pauses(
        *(
            value(f"sasl.oauthbearer.jwks.endpoint.{name}.ms") / 1000
            for name in ("refresh", "retry.backoff", "retry.backoff.max")
        )
    )
    try:
        keys = Keys(source := source_of(url, options.get("ssl.truststore.location")), pauses)
        if isinstance(source, FileSource):
            keys.read_now()
        else:
            keys.begin()
    except SourceError as error:
        raise ConfigError([f"sasl.oauthbearer.jwks.endpoint.url of {listener}: {error}"]) from None
    audiences = value("sasl.oauthbearer.expected.audience")
    rules = TokenRules(
        audiences,
        value("sasl.oauthbearer.expected.issuer"),
        value("sasl.oauthbearer.scope.claim.name"),
        value("sasl.oauthbearer.sub.claim.name"),
        value("sasl.oauthbearer.clock.skew.seconds"),
        any_audience=not audiences and value("sasl.oauthbearer.allow.unverified.audience"),
    )
    for what, given in (("audience", rules.audiences), ("issuer", rules.issuer)):
        if not given:
            log.warning(
                "listener %s: sasl.oauthbearer.expected.%s is not set, so that tokens of any %s are let in that the keys signed",
                listener,
                what,
                what,
            )
    if url.startswith("http:") and not url.startswith(("http://localhost", "http://127.0.0.1")):
        log.warning(
            "listener %s: keys of tokens are fetched without TLS: whoever can change them can log in as anybody",
            listener,
        )
    return TokenVerifier(keys, rules)
