"""Users of HTTP: who sent a request, by Basic (RFC 7617) or Bearer (RFC 6750), and what they may do.

Basic checks the SCRAM credentials of `metadata.db`, which is slow by design: a password that was right is remembered for a while
as a keyed hash, and only together with the very credentials that it fits, so that a change of the password holds at once. At
most `MAX_CHECKS` passwords are checked at a time, the delay after a wrong one included, so that guessing takes neither HTTP's
threads nor the processor. `Attempts` turns away who goes on.

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
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..http_user import HttpUser, Role
from .attempts import Attempts
from .plain import MAX_PASSWORD_BYTES, is_password_of

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from .credentials import Credential, Users
    from .token_file import TokenFile

MAX_HEADER_CHARACTERS = 8192
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
        attempts: Attempts | None = None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`users`: None while they have not been read. `now_s`: a clock that only rises."""
        self._mechanisms = config.http_authentication
        self._delay_s = config.connection_failed_authentication_delay_ms / 1000
        self._readers = _names(config.http_users_read)
        self._admins = _names(config.http_users_admin)
        self._users = users
        self._tokens = tokens
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
        """Headers that say how to sign in."""
        words = {"basic": f'Basic realm="{REALM}", charset="UTF-8"', "bearer": f'Bearer realm="{REALM}"'}
        return tuple(("WWW-Authenticate", words[one]) for one in sorted(self._mechanisms))

    def identify(self, authorization: str | None, peer: str) -> HttpUser:
        """Who sends this Authorization header from that address. Raises `NotLetInError`."""
        if authorization is None:
            raise NotLetInError(UNAUTHORIZED, "Sign in to see this.", self.challenges)
        scheme, _, rest = authorization.partition(" ")
        scheme, rest = scheme.lower(), rest.strip()
        if scheme not in self._mechanisms or len(rest) > MAX_HEADER_CHARACTERS:
            raise self._refusal(peer, "the Authorization header is none of http.authentication")
        name = self._by_password(rest, peer) if scheme == "basic" else self._by_token(rest, peer)
        role = self._role(name)
        if role is None:
            raise NotLetInError(
                FORBIDDEN, "You are known, and may do nothing here: http.users.read and http.users.admin have who may."
            )
        return HttpUser(name, role)

    # -- inside

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
            if not is_password_of(credentials, password):
                raise self._failure(peer, "the user or the password is wrong")
            self.successes += 1
        self._remember(digest, credentials)
        return name

    def _by_token(self, token: str, peer: str) -> str:
        name = self._tokens.user_of(token) if self._tokens is not None else None
        if name is None:
            raise self._refusal(peer, "the bearer token is wrong")
        return name

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

    def _refusal(self, peer: str, what: str) -> NotLetInError:
        """As `_failure`, for what needs no check."""
        with self._place(peer):
            return self._failure(peer, what)

    def _failure(self, peer: str, what: str) -> NotLetInError:
        """Counts, waits, and gives what to raise: the same for an unknown user as for a wrong password."""
        self.attempts.failed(peer, what)
        self._sleep(self._delay_s)
        return NotLetInError(UNAUTHORIZED, "The user, the password or the token is wrong.", self.challenges)

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
