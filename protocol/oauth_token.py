"""Client side of OAUTHBEARER (RFC 7628): where a client's token comes from, how long it is kept, and how it is sent.

    sasl.oauthbearer.token.endpoint.url=https://issuer/token      and sasl.oauthbearer.client.credentials.client.id and
                                                                  ….client.secret: the client-credentials grant (RFC 6749, 4.4)
    sasl.oauthbearer.token.endpoint.url=file:///run/token         a token that somebody else renews; read each time
    sasl.oauthbearer.token=…                                      a token that stands here

Names are those of Kafka's clients (KIP-768, KIP-1139), of `sasl.jaas.config` as older ones have it (clientId, clientSecret,
scope) and of librdkafka. The broker checks tokens; here only their form is checked.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote_plus, unquote, urlencode, urlsplit

from .client_security import ClientSecurityError

_PREFIX = "sasl.oauthbearer."
URL, TOKEN = _PREFIX + "token.endpoint.url", _PREFIX + "token"
# Names of each part of the settings: Kafka's, by librdkafka, and as an option of sasl.jaas.config.
_CLIENT_ID = (_PREFIX + "client.credentials.client.id", _PREFIX + "client.id", "clientId")
_CLIENT_SECRET = (_PREFIX + "client.credentials.client.secret", _PREFIX + "client.secret", "clientSecret")
_SCOPE = (_PREFIX + "scope", "", "scope")
_AUTHORITIES = ("", "https.ca.location", "ssl.truststore.location")

TIMEOUT_S = 10.0
MAX_TOKEN_BYTES = 65_536
MAX_ANSWER_BYTES = 1 << 18
MAX_LIFETIME_S = 366 * 86_400
KEPT = 0.8
"""Share of a token's life during which it is reused; then a new one is fetched while the old one is still valid."""
MOST_KEPT = 16

_B64TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
_EXTENSION = re.compile(r"([A-Za-z]+)=([\x21-\x2b\x2d-\x7e][\x20-\x2b\x2d-\x7e]*)")
_PASSING = (408, 425, 429)


class TokenUnavailableError(ClientSecurityError):
    """The issuer can't be reached, or is overloaded: a retry may succeed."""


class ClientToken(NamedTuple):
    """A token. `ends_s`: its expiry in seconds since 1970; None when it names none."""

    text: str
    ends_s: float | None


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Settings for fetching a token; `repr` leaves secrets out. `authorities`: a PEM file, for the issuer's
    certificate.
    """

    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    token: str = field(default="", repr=False)
    authorities: str | None = None
    urlencodes: bool = False
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def who(self) -> str:
        """Owner of the token, as far as a client knows it."""
        return f"client {self.client_id!r}" if self.client_id else "the token's user"


def settings_of(found: Mapping[str, str], jaas: Mapping[str, str]) -> TokenSettings:
    """Read token settings; `jaas` are the options of sasl.jaas.config. ClientSecurityError, which shows no secret."""

    def value(names: tuple[str, str, str]) -> str:
        ours, librdkafkas, option = names
        return (found.get(ours) or found.get(librdkafkas) or jaas.get(option) or "").strip()

    _refuse_what_is_not_there(found, jaas)
    url, token = found.get(URL, "").strip(), found.get(TOKEN, "").strip()
    settings = TokenSettings(
        url,
        value(_CLIENT_ID),
        value(_CLIENT_SECRET),
        value(_SCOPE),
        token,
        value(_AUTHORITIES) or None,
        found.get(_PREFIX + "header.urlencode", "").strip().lower() == "true",
        _extensions(found, jaas),
    )
    if bool(url) == bool(token):
        raise ClientSecurityError(
            f"OAUTHBEARER needs {URL} (an issuer's https:// address, or file:///… with a token in it) or {TOKEN}, and not both"
        )
    if token:
        _checked(token, TOKEN)
        return settings
    parts = _parts(url)
    if parts.scheme != "file" and not (settings.client_id and settings.client_secret):
        missing = _CLIENT_SECRET if settings.client_id else _CLIENT_ID
        raise ClientSecurityError(f"OAUTHBEARER by the client-credentials grant: set {missing[0]}")
    return settings


def fetch(settings: TokenSettings, clock: Callable[[], float] = time.time) -> ClientToken:
    """Get a token: from settings, a file or an issuer. Blocks, for `TIMEOUT_S` at most. `clock`: seconds since 1970.

    ClientSecurityError, in which there is no secret; TokenUnavailableError where trying again may help.
    """
    if settings.token:
        return ClientToken(settings.token, _end_of(settings.token))
    parts = _parts(settings.url)
    if parts.scheme == "file":
        text = _read(unquote(parts.path))
        return ClientToken(text, _end_of(text))
    return _granted(settings, parts, clock())


class TokenCache:
    """Tokens shared by all connections of a process. Safe from any thread; one thread at a time asks the issuer.

    Attributes:
        kept: tokens of issuers, each with the time (seconds since 1970) until which it is given out again.
    """

    def __init__(
        self, get: Callable[[TokenSettings], ClientToken] = fetch, clock: Callable[[], float] = time.time
    ) -> None:
        """`clock` returns seconds since 1970."""
        self._get = get
        self._clock = clock
        self._lock = threading.Lock()
        self.kept: OrderedDict[TokenSettings, tuple[ClientToken, float]] = OrderedDict()

    def token(self, settings: TokenSettings) -> ClientToken:
        """As `fetch`, but cached. Only an issuer's token with an expiry is kept: reading files and settings is cheap."""
        with self._lock:
            found = self.kept.get(settings)
            now_s = self._clock()
            if found is not None and now_s < found[1]:
                return found[0]
            token = self._get(settings)
            self.kept.pop(settings, None)
            if settings.client_id and token.ends_s is not None:
                self.kept[settings] = (token, now_s + KEPT * (token.ends_s - now_s))
                if len(self.kept) > MOST_KEPT:
                    self.kept.popitem(last=False)
            return token

    def forget(self, settings: TokenSettings) -> None:
        """Drop a token that a broker refused: a new one may be accepted."""
        with self._lock:
            self.kept.pop(settings, None)


CACHE = TokenCache()


class BearerExchange:
    """The client's messages of one authentication: the token; after an error of the broker a second one that ends it,
    as RFC 7628 requires.
    """

    def __init__(self, settings: TokenSettings, cache: TokenCache = CACHE) -> None:
        self._settings = settings
        self._cache = cache
        self._why = ""

    def __call__(self, said: bytes | None) -> bytes | None:
        """The next message for the broker's last one (None: none yet); returns None when done. Raises as `fetch` does."""
        if said is None:
            token = self._cache.token(self._settings)
            pairs = "".join(f"\x01{name}={value}" for name, value in self._settings.extensions)
            return f"n,,\x01auth=Bearer {token.text}{pairs}\x01\x01".encode()
        if self._why:
            raise ClientSecurityError(f"the token is not taken: {self._why}")
        if not said:
            return None
        self._cache.forget(self._settings)
        self._why = _what_is_wrong(said, self._settings) or "the broker does not say why"
        return b"\x01"


def librdkafka_callback(
    settings: TokenSettings, cache: TokenCache = CACHE, clock: Callable[[], float] = time.time
) -> Callable[[str], tuple[Any, ...]]:
    """`oauth_cb` for confluent-kafka: token, expiry, and extensions where there are any. librdkafka calls it before the
    expiry.
    """

    def callback(_config: str) -> tuple[Any, ...]:
        token, now_s = cache.token(settings), clock()
        # It takes none that has ended by this machine's clock, or has no end; the broker decides, and says what is wrong.
        ends_s = max(token.ends_s if token.ends_s is not None else now_s + 3600, now_s + 60)
        return (token.text, ends_s, "", dict(settings.extensions)) if settings.extensions else (token.text, ends_s)

    return callback


# -- inside


def _refuse_what_is_not_there(found: Mapping[str, str], jaas: Mapping[str, str]) -> None:
    method, grant = (found.get(_PREFIX + name, "").strip().lower() for name in ("method", "grant.type"))
    retriever = found.get(_PREFIX + "jwt.retriever.class", "").strip().rpartition(".")[2]
    assertions = [name for name in found if name.startswith(_PREFIX + "assertion.")]
    if found.get(_PREFIX + "config") or any(option.startswith("unsecuredLogin") for option in jaas):
        what = "tokens that nobody signs are not made here"
    elif method not in ("", "oidc", "default"):
        what = f"{_PREFIX}method={method}: known is oidc"
    elif grant not in ("", "client_credentials"):
        what = f"{_PREFIX}grant.type={grant}: known is client_credentials"
    elif retriever not in ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"):
        what = f"{_PREFIX}jwt.retriever.class names a Java class that is not known here ({retriever[:100]})"
    elif assertions:
        what = f"{min(assertions)}: the client shows its id and secret, and makes no assertions"
    else:
        return
    raise ClientSecurityError(f"{what}; set {URL} with a client's id and secret, or file:///… with a token")


def _extensions(found: Mapping[str, str], jaas: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """SASL extensions (KIP-342), written as librdkafka has them (`a=b,c=d`), or as options `extension_a`."""
    pairs = [pair for pair in found.get(_PREFIX + "extensions", "").split(",") if pair.strip()]
    pairs += [f"{name[10:]}={value}" for name, value in jaas.items() if name.startswith("extension_")]
    extensions: dict[str, str] = {}
    for pair in pairs:
        match = _EXTENSION.fullmatch(pair.strip())
        if match is None or match[1] == "auth":
            raise ClientSecurityError(f"{_PREFIX}extensions are name=value, with letters in the name, apart by commas")
        extensions[match[1]] = match[2]
    return tuple(extensions.items())


def _parts(url: str) -> SplitResult:
    """Split `url`. ClientSecurityError for an invalid one, which is not shown: a secret may have been put in its place."""
    try:
        parts = urlsplit(url)
        is_address = parts.port != 0 and (parts.hostname if parts.scheme in ("https", "http") else not parts.netloc)
    except ValueError:
        raise ClientSecurityError(f"{URL} is no address") from None
    if parts.scheme not in ("https", "http", "file") or not is_address or not (parts.hostname or parts.path[:1] == "/"):
        raise ClientSecurityError(f"{URL} is no address that begins with https://, http:// or file:///")
    if parts.username is not None:
        raise ClientSecurityError(f"{URL} has a user in it: the client's id and secret are settings of their own")
    return parts


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return _checked(file.read(MAX_TOKEN_BYTES + 1).decode("ascii", "replace").strip(), f"{URL}=file://{path}")
    except OSError as error:
        raise ClientSecurityError(f"{URL}=file://{path} can't be read: {error.strerror}") from None


def _checked(token: str, where: str) -> str:
    if not token:
        raise ClientSecurityError(f"{where}: there is no token in it")
    if len(token) > MAX_TOKEN_BYTES or not _B64TOKEN.fullmatch(token):
        raise ClientSecurityError(f"{where}: that is no token (one word, at most {MAX_TOKEN_BYTES} bytes)")
    return token


def _granted(settings: TokenSettings, parts: SplitResult, now_s: float) -> ClientToken:
    from .http_exchange import Endpoint, ExchangeError

    name, secret = settings.client_id, settings.client_secret
    if settings.urlencodes:  # RFC 6749 wants it; many issuers do not undo it, so that Kafka leaves it to a setting
        name, secret = quote_plus(name), quote_plus(secret)
    form = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    headers = {
        "Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode(),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    try:
        endpoint = Endpoint(parts, settings.authorities)
    except ValueError as error:
        raise ClientSecurityError(str(error)) from None
    body = urlencode(form).encode()
    try:
        answer = endpoint.ask("POST", headers, body=body, timeout_s=TIMEOUT_S, max_bytes=MAX_ANSWER_BYTES)
    except ExchangeError as error:
        raise TokenUnavailableError(str(error)) from None
    if 300 <= answer.status < 400:
        raise ClientSecurityError(
            f"{endpoint} answers {answer.status}: redirects are not followed, say where tokens are"
        )
    if answer.status != 200:
        kind = TokenUnavailableError if answer.status >= 500 or answer.status in _PASSING else ClientSecurityError
        why = _what_is_wrong(answer.data, settings)
        raise kind(f"{endpoint} gives {settings.who} no token: {answer.status}{why and ', ' + why}")
    found = _object(answer.data)
    text, lasts_s = found.get("access_token"), _seconds(found.get("expires_in"))
    if not isinstance(text, str):
        raise ClientSecurityError(f"{endpoint} gives {settings.who} an answer without access_token")
    ends_s = _end_of(text) if lasts_s is None else now_s + min(lasts_s, MAX_LIFETIME_S)
    return ClientToken(_checked(text, f"{endpoint}, access_token"), ends_s)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(value: object) -> float | None:
    """A number of seconds; some issuers write numbers as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        return None
    return float(value)


def _end_of(token: str) -> float | None:
    """Expiry of a token that is a JSON web token, unverified: used for caching only, never to let anybody in."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except ValueError:
        return None
    return _seconds(_object(claims).get("exp"))


def _what_is_wrong(data: bytes, settings: TokenSettings) -> str:
    """The error in JSON of an issuer (RFC 6749, 5.2) or of a broker (RFC 7628, 3.2.2), for people; "" without one."""
    found = _object(data)
    words = [found.get(name) for name in ("error", "status", "error_description")]
    text = ": ".join(word for word in words if isinstance(word, str) and word)
    for secret in filter(None, (settings.client_secret, quote_plus(settings.client_secret), settings.token)):
        text = text.replace(secret, "…")
    return "".join(letter if letter.isprintable() else " " for letter in text[:300])
