"""Users of HTTP: who sent a request, by Basic (RFC 7617), Bearer (RFC 6750) or a certificate, and what they may do.

Basic checks the SCRAM credentials of `metadata.db`, which is slow by design: a password that was right is remembered for a while
as a keyed hash, and only together with the very credentials that it fits, so that a change of the password holds at once. At
most `MAX_CHECKS` passwords are checked at a time, the delay after a wrong one included, so that guessing takes neither HTTP's
threads nor the processor. `Attempts` turns away who goes on.

Bearer is a token of `http.tokens.file`, or a JSON web token that `tokens.py` checks as it does for SASL. A signature costs less
than remembering would be worth; what may take long is reading keys again because of a key's name that nobody knows, and who
asks for that waits in one of the same few places. All bad tokens get one answer: why one is bad stands in the log.

The paths that are open to all, and what a request needs, are `http_gate.py`'s.
"""

from __future__ import annotations

import base64
import hmac
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait as wait_until_done
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..http_user import HttpUser, Role
from .attempts import Attempts
from .credentials import check_password
from .plain import MAX_PASSWORD_BYTES
from .principal import name_of

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from .credentials import Credential, Users
    from .jwks import Wait
    from .principal import MappingRule
    from .token_file import TokenFile
    from .tokens import TokenVerifier

MAX_HEADER_CHARACTERS = 8192
"""Of a password; tokens may have what HTTP's own bound of a line leaves (64 KiB)."""
BLANKS = " \t"
"""What may stand around a header's value (RFC 9110, 5.6.3); Python's own `strip` takes other bytes of Latin-1 too."""
MAX_CHECKS = 2
CHECK_TIMEOUT_S = 2.0
REMEMBERED_S = 300.0
MOST_REMEMBERED = 256


class NotLetInError(Exception):
    """Becomes an answer: a status line, one line of text that tells nothing of secrets, and headers."""

    def __init__(self, status: str, text: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


UNAUTHORIZED = "401 Unauthorized"
FORBIDDEN = "403 Forbidden"
UNAVAILABLE = "503 Service Unavailable"
REALM = "tidelog"


class HttpUsers:
    """Any of HTTP's threads; blocks for as long as a password takes, and for a failure's delay.

    Attributes:
        attempts: failures, for metrics.
        successes: passwords that were checked and right; those that are remembered are not counted again, nor are tokens.
    """

    def __init__(
        self,
        config: BrokerConfig,
        users: Callable[[], Users | None],
        *,
        tokens: TokenFile | None = None,
        verifier: TokenVerifier | None = None,
        rules: Iterable[MappingRule] = (),
        attempts: Attempts | None = None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`users`: None while they have not been read. `rules`: make users of subjects. `now_s`: a clock that only rises."""
        self._mechanisms = config.http_authentication
        self._delay_s = config.connection_failed_authentication_delay_ms / 1000
        self._readers = _names(config.http_users_read)
        self._admins = _names(config.http_users_admin)
        self._users = users
        self._tokens = tokens
        self.verifier = verifier
        self._rules = tuple(rules)
        self.attempts = attempts or Attempts()
        self.successes = 0
        self._now_s = now_s
        self._sleep = sleep
        self._places = threading.BoundedSemaphore(MAX_CHECKS)
        self._lock = threading.Lock()
        self._key = secrets.token_bytes(32)
        # Keyed hash of name and password → the credentials that it was right for, and until when it is remembered.
        self._remembered: OrderedDict[bytes, tuple[Mapping[str, Credential], float]] = OrderedDict()

    @property
    def challenges(self) -> tuple[tuple[str, str], ...]:
        """Headers that say how to sign in; none where nothing but a certificate does."""
        return self._challenges()

    @property
    def asks_certificates(self) -> bool:
        """Whether a certificate says who sends a request."""
        return "certificate" in self._mechanisms

    def identify(self, authorization: str | None, peer: str, subject: str | None = None) -> HttpUser:
        """Who sends this Authorization header from that address, or without one shows a certificate with that subject.

        Raises `NotLetInError`.
        """
        if authorization is None:
            name = self._by_certificate(subject)
        else:
            scheme, _, rest = authorization.partition(" ")
            name = self._by_header(scheme.lower(), rest.strip(BLANKS), peer)
        role = self._role(name)
        if role is None:
            raise NotLetInError(
                FORBIDDEN, "You are known, and may do nothing here: http.users.read and http.users.admin have who may."
            )
        return HttpUser(name, role, by_certificate=authorization is None)

    # -- inside

    def _challenges(self, bearer_error: str = "") -> tuple[tuple[str, str], ...]:
        words = []
        if "basic" in self._mechanisms:
            words.append(f'Basic realm="{REALM}", charset="UTF-8"')
        if "bearer" in self._mechanisms or "oauthbearer" in self._mechanisms:
            words.append(f'Bearer realm="{REALM}"' + (f', error="{bearer_error}"' if bearer_error else ""))
        return tuple(("WWW-Authenticate", one) for one in words)

    def _by_certificate(self, subject: str | None) -> str:
        """Nothing is counted: a certificate that is not good has not come through the handshake."""
        name = name_of(subject, self._rules) if subject and self.asks_certificates else None
        if name:
            return name
        if not self.asks_certificates:
            text = "Sign in to see this."
        elif subject:
            text = "Your certificate names no user (ssl.principal.mapping.rules)."
        else:
            text = "Show a client certificate to see this" + (", or sign in." if self.challenges else ".")
        # HTTP's 401 has to say how to sign in; there is no word for a certificate.
        raise NotLetInError(UNAUTHORIZED if self.challenges else FORBIDDEN, text, self.challenges)

    def _by_header(self, scheme: str, rest: str, peer: str) -> str:
        if scheme == "basic" and "basic" in self._mechanisms and len(rest) <= MAX_HEADER_CHARACTERS:
            return self._by_password(rest, peer)
        if scheme == "bearer" and not {"bearer", "oauthbearer"}.isdisjoint(self._mechanisms):
            return self._by_token(rest, peer)
        raise self._refusal(peer, "the Authorization header is none of http.authentication")

    def _role(self, name: str) -> Role | None:
        if name in self._admins or "*" in self._admins:
            return Role.ADMIN
        return Role.READ if name in self._readers or "*" in self._readers else None

    def _by_password(self, encoded: str, peer: str) -> str:
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            colon = name = password = ""
        if not colon or not name or len(password.encode()) > MAX_PASSWORD_BYTES:
            raise self._refusal(peer, "the Basic credentials can't be read")
        users = self._users()
        if users is None:
            text = "The daemon has not read its users yet, or stops."
            raise NotLetInError(UNAVAILABLE, text, (("Retry-After", "1"),))
        credentials = dict(users.of(name))
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if self._is_remembered(digest, credentials):
            return name
        with self._place(peer):
            if not check_password(credentials, password, users.rounds):
                raise self._failure(peer, "the user or the password is wrong")
            self.successes += 1
        self._remember(digest, credentials)
        return name

    def _by_token(self, token: str, peer: str) -> str:
        name = self._tokens.user_of(token) if self._tokens is not None else None
        if name is not None:
            return name
        if self.verifier is None:
            raise self._refusal(peer, "the bearer token is wrong", "invalid_token")
        # With the libraries of tokens, which are there if there is a verifier.
        from ..connection import ConnectionAborted
        from .mechanism import Refusal

        try:
            return self.verifier.verify_blocking(token, lambda wait: self._wait_for_keys(wait, peer)).user
        except Refusal as refusal:
            raise self._refusal(peer, str(refusal), "invalid_token") from None
        except ConnectionAborted:
            raise NotLetInError(UNAVAILABLE, "No token can be checked yet.", (("Retry-After", "1"),)) from None

    def _wait_for_keys(self, wait: Wait, peer: str) -> None:
        """Holds this thread for a moment; old keys go on where that is too short. Raises `NotLetInError` for who asks for
        keys that would take longer: that says nothing against the token."""
        if not wait.is_asked_for:
            wait_until_done([wait.reading], CHECK_TIMEOUT_S)
            return
        with self._place(peer):
            if wait_until_done([wait.reading], CHECK_TIMEOUT_S).not_done:
                text = "The keys of tokens are being read. Try again."
                raise NotLetInError(UNAVAILABLE, text, (("Retry-After", "1"),))

    @contextmanager
    def _place(self, peer: str) -> Iterator[None]:
        """Held by who checks. Raises `NotLetInError` for who has failed too often, or would wait too long."""
        wait_s = self.attempts.wait_s(peer)
        if wait_s:
            headers = (("Retry-After", str(math.ceil(wait_s))),)
            raise NotLetInError("429 Too Many Requests", "Too many attempts have failed. Try again later.", headers)
        if not self._places.acquire(timeout=CHECK_TIMEOUT_S):
            raise NotLetInError(UNAVAILABLE, "Too many sign in at a time. Try again.", (("Retry-After", "1"),))
        try:
            yield
        finally:
            self._places.release()

    def _refusal(self, peer: str, what: str, bearer_error: str = "") -> NotLetInError:
        """As `_failure`, for what needs no check."""
        with self._place(peer):
            return self._failure(peer, what, bearer_error)

    def _failure(self, peer: str, what: str, bearer_error: str = "") -> NotLetInError:
        """Counts, waits, and gives what to raise: the same for an unknown user as for a wrong password."""
        self.attempts.failed(peer, what)
        self._sleep(self._delay_s)
        challenges = self._challenges(bearer_error)
        status = UNAUTHORIZED if challenges else FORBIDDEN
        return NotLetInError(status, "The user, the password or the token is wrong.", challenges)

    def _is_remembered(self, digest: bytes, credentials: Mapping[str, Credential]) -> bool:
        now = self._now_s()
        with self._lock:
            known = self._remembered.get(digest)
            if known is None or known[0] != credentials or known[1] < now:
                self._remembered.pop(digest, None)
                return False
            self._remembered[digest] = (credentials, now + REMEMBERED_S)
            self._remembered.move_to_end(digest)
            return True

    def _remember(self, digest: bytes, credentials: Mapping[str, Credential]) -> None:
        with self._lock:
            self._remembered[digest] = (credentials, self._now_s() + REMEMBERED_S)
            if len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.removeprefix("User:") for name in names)
