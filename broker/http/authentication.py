"""Authentication of HTTP requests before anything else looks at them, if `http.authentication` is on; and the file of tokens.

    /health/live, /health/ready   nothing, unless http.health.open=false: one word, without what is wrong
    /metrics                      a user, unless http.metrics.open=true
    the console's style sheet, script and icon   nothing: they are the same everywhere
    POST /clean/…                 an admin
    everything else               a user who may read; what the console's actions need, `console/access.py` says

`HttpGate.admit` is called for each request by `server.py`, and puts the user into WSGI's environment as `USER`. Nobody is told
whether a path is there before that. Who a user is, and may do, is decided in `users.py`.

`TokenFile` reads `http.tokens.file`: users and their bearer tokens (RFC 6750), one a line.

    # user        the token, or sha256: and the SHA-256 of it in hexadecimal
    prometheus    0f3c9a…
    deploy        sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

Tokens are kept as their SHA-256 alone. That hash is fast, which does no harm: a token is long and random, not a password. The
file is looked at with every token that comes; one that can't be read leaves in force what was read before.

Any of HTTP's threads.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...config.exceptions import ConfigError
from ...config.listener_settings import HTTP
from ..security.open_listeners import is_loopback
from .user import SUBJECT, USER, HttpUser, Role
from .users import FORBIDDEN, UNAUTHORIZED, HttpUsers, NotLetInError, wait_for

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..security.credentials import Users
    from ..security.principal import MappingRule
    from ..security.sasl.login_attempts import Guesses
    from .connections import Peer
    from .users import Submit

log = logging.getLogger(__name__)

FEWEST_CHARACTERS = 16
"""Minimum length of a token: shorter ones can be guessed."""
MAX_FILE_BYTES = 1 << 20
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HASH = re.compile(r"sha256:([0-9a-fA-F]{64})")

_State = tuple[int, int, int, int]


def parse_tokens(text: str) -> dict[bytes, str]:
    """SHA-256 of each token → its user. ValueError names the line; it never quotes one."""
    found: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2:
            raise ValueError(f"line {number} is not a user, a blank and a token")
        user, token = words
        hashed = _HASH.fullmatch(token)
        if hashed is None and (not _TOKEN.fullmatch(token) or len(token) < FEWEST_CHARACTERS):
            raise ValueError(
                f"line {number}: a token has {FEWEST_CHARACTERS} characters or more, of A-Z a-z 0-9 . _ ~ + / -; "
                "`openssl rand -hex 32` makes one"
            )
        digest = hashlib.sha256(token.encode()).digest() if hashed is None else bytes.fromhex(hashed[1])
        if digest in found:
            raise ValueError(f"line {number} has the token of a line before it")
        found[digest] = user.removeprefix("User:")
    return found


class TokenFile:
    """Any thread; reads the file when it has changed."""

    def __init__(self, path: str) -> None:
        """Raises `ConfigError` for a file that can't be read or has a line that is none."""
        self.path = path
        self._lock = threading.Lock()
        self._state: _State | None = None
        self._tokens: Mapping[bytes, str] = {}
        try:
            self._state, self._tokens = _state(path), read_tokens(path)
        except (OSError, ValueError) as error:
            raise ConfigError([f"http.tokens.file={path}: {_reason(error)}"]) from None

    def user_of(self, token: str) -> str | None:
        """User of a token, or None. Looked up by hash, so that the time taken tells nothing about other tokens."""
        with self._lock:
            self._look()
            return self._tokens.get(hashlib.sha256(token.encode("utf-8", "replace")).digest())

    def _look(self) -> None:
        try:
            state = _state(self.path)
        except OSError:
            state = None
        if state == self._state:
            return
        self._state = state  # a file that can't be read is reported once
        try:
            self._tokens = read_tokens(self.path)
        except (OSError, ValueError) as error:
            log.error("http.tokens.file=%s: the tokens in use stay: %s", self.path, _reason(error))
        else:
            log.info("http.tokens.file=%s was read again: %d tokens", self.path, len(self._tokens))


def _state(path: str) -> _State:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def read_tokens(path: str) -> dict[bytes, str]:
    with open(path, encoding="utf-8") as file:
        text = file.read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    return parse_tokens(text)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):  # its text quotes what is in the file
        return "it is not UTF-8"
    return str(getattr(error, "strerror", None) or error)


SIGN_OUT = "/sign-out"
_PROBES = ("/health/live", "/health/ready")
ASSETS = ("/console.css", "/console.js", "/console.svg")


class HttpGate:
    """Authentication of one daemon's HTTP listener."""

    @classmethod
    def of(cls, config: BrokerConfig, users: Callable[[], Users | None], guesses: Guesses, submit: Submit) -> HttpGate:
        """Reads http.tokens.file, and the keys of tokens where they are a file. `users`: None while they have not been read.
        `guesses`, `submit`: as `HttpUsers` has them. Raises `ConfigError`."""
        tokens = verifier = None
        rules: tuple[MappingRule, ...] = ()
        if config.http_tokens_file is not None:
            tokens = TokenFile(config.http_tokens_file)
        if "oauthbearer" in config.http_authentication:
            from ..security.sasl.listener_security import token_verifier

            verifier = token_verifier(HTTP, config, "http.authentication")
        if "certificate" in config.http_authentication:
            from ..security.sasl.listener_security import mapping_rules

            rules = mapping_rules(HTTP, config)
        listener = config.http_listener
        if listener is not None and listener.security_protocol == "PLAINTEXT" and not is_loopback(listener.host):
            log.warning(
                "http.authentication without TLS: whoever listens on the wire reads passwords and tokens; set "
                "http.listener=https://%s:%d and ssl.keystore.location",
                listener.host, listener.port,
            )  # fmt: skip
        return cls(config, HttpUsers(config, users, guesses, submit, tokens=tokens, verifier=verifier, rules=rules))

    def __init__(self, config: BrokerConfig, users: HttpUsers) -> None:
        self.users = users
        open_paths = [*ASSETS, *(_PROBES if config.http_health_open else ())]
        self._open = frozenset([*open_paths, "/metrics"] if config.http_metrics_open else open_paths)

    def is_open(self, path: str) -> bool:
        """True for a path that is answered without authentication."""
        return path in self._open

    def admit(self, environ: dict[str, Any], peer: Peer | None = None) -> None:
        """Lets a request pass, with its user in its environment; reads nothing of its body. Raises `NotLetInError`, and `PutOut`
        where the connection `peer` made room for another meanwhile."""
        path, method = environ.get("PATH_INFO", "/"), environ.get("REQUEST_METHOD", "GET")
        if self.is_open(path) and method in ("GET", "HEAD"):
            return
        user = self.users.identify(
            environ.get("HTTP_AUTHORIZATION"),
            environ.get("REMOTE_ADDR", ""),
            environ.get(SUBJECT),
            wait_for if peer is None else peer.wait,
        )
        if path == SIGN_OUT:
            self._sign_out(user, environ)
        if path.startswith("/clean/") and method == "POST" and user.role < Role.ADMIN:
            raise NotLetInError(FORBIDDEN, f"{user.name} may only read: http.users.admin names the users that may act.")
        environ[USER] = user

    def _sign_out(self, user: HttpUser, environ: dict[str, Any]) -> None:
        """Browsers forget a password only when it is refused: that of the user who signs out is, another's is not."""
        from urllib.parse import parse_qs

        leaving = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True).get("user", [user.name])[-1]
        if leaving == user.name and not user.by_certificate:
            raise NotLetInError(UNAUTHORIZED, SIGNED_OUT, self.users.challenges)


SIGNED_OUT = "You are signed out."
