"""Authentication of HTTP requests before anything else looks at them, if `http.authentication` is on.

    /health/live, /health/ready   nothing, unless http.health.open=false: one word, without what is wrong
    /metrics                      a user, unless http.metrics.open=true
    the console's style sheet, script and icon   nothing: they are the same everywhere
    POST /clean/…                 an admin
    everything else               a user who may read; what the console's actions need, `console/access.py` says

Nobody is told whether a path is there before that. The user is put into WSGI's environment as `USER`. Any of HTTP's threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...config.listener_settings import HTTP
from ..runtime.hosts import is_loopback
from .user import SUBJECT, USER, HttpUser, Role
from .users import FORBIDDEN, UNAUTHORIZED, HttpUsers, NotLetInError, wait_for

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..security.credentials import Users
    from ..security.principal import MappingRule
    from ..security.sasl.password_checks import Guesses
    from .connections import Peer
    from .users import Submit

SIGN_OUT = "/sign-out"
_PROBES = ("/health/live", "/health/ready")
ASSETS = ("/console.css", "/console.js", "/console.svg")


log = logging.getLogger(__name__)


class HttpGate:
    """Authentication of one daemon's HTTP listener."""

    @classmethod
    def of(cls, config: BrokerConfig, users: Callable[[], Users | None], guesses: Guesses, submit: Submit) -> HttpGate:
        """Reads http.tokens.file, and the keys of tokens where they are a file. `users`: None while they have not been read.
        `guesses`, `submit`: as `HttpUsers` has them. Raises `ConfigError`."""
        tokens = verifier = None
        rules: tuple[MappingRule, ...] = ()
        if config.http_tokens_file is not None:
            from .token_file import TokenFile

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
