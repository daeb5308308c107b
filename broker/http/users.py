"""Users of HTTP: who sent a request, by Basic (RFC 7617), Bearer (RFC 6750) or a certificate, and what they may do.

Basic checks the SCRAM credentials of `metadata.db`, which is slow by design: a password that was right is remembered for a while
as a keyed hash, and only together with the very credentials that it fits, so that a change of the password holds at once. Others
are checked where SASL's are: one at a time, each address in its turn (`PasswordChecks`), so that guessing by whatever way
takes one thread of low priority and no more. `Attempts` turns away who goes on, by the same count as on other listeners.

Bearer is a token of `http.tokens.file`, or a JSON web token that `security/sasl/tokens.py` checks as it does for SASL. A
signature costs less than remembering would be worth; what may take long is reading keys again because of a key's name that nobody
knows. All bad tokens get one answer: why one is bad stands in the log. Failures count for the user that the token says it is of.

A refusal says how long the answer has to be held back; the thread that holds it back is the server's, which can end it.

The paths that are open to all, and what a request needs, are `authentication.py`'s.
"""

from __future__ import annotations

import base64
import hmac
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from ..security.credentials import check_password
from ..security.principal import name_of
from ..security.sasl.login_attempts import HttpFailures, TurnedAway
from ..security.sasl.plain import MAX_PASSWORD_BYTES
from .user import HttpUser, Role

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..security.credentials import Credential, Users
    from ..security.principal import MappingRule
    from ..security.sasl.jwks import Wait
    from ..security.sasl.login_attempts import Attempt, Guesses
    from ..security.sasl.tokens import TokenVerifier
    from .authentication import TokenFile

MAX_HEADER_CHARACTERS = 8192
"""Maximum length of a password; tokens may use what HTTP's own limit on a line leaves (64 KiB)."""
BLANKS = " \t"
"""Characters allowed around a header's value (RFC 9110, 5.6.3); Python's `strip` would remove other bytes of Latin-1
too.
"""
CHECK_TIMEOUT_S = 2.0
REMEMBERED_S = 300.0
MOST_REMEMBERED = 256


Submit = Callable[[Coroutine[Any, Any, bool]], Future[bool]]
WaitFor = Callable[[Future[Any], float], Any]


class NotLetInError(Exception):
    """Becomes an answer: a status line, one line of text that tells nothing of secrets, and headers. `delay_s`: the seconds by
    which it is held back."""

    def __init__(
        self, status: str, text: str, headers: tuple[tuple[str, str], ...] = (), *, delay_s: float = 0.0
    ) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers
        self.delay_s = delay_s


def wait_for(future: Future[Any], timeout_s: float) -> Any:
    """Block for a future's result. Raises TimeoutError."""
    return future.result(timeout_s)


UNAUTHORIZED = "401 Unauthorized"
FORBIDDEN = "403 Forbidden"
UNAVAILABLE = "503 Service Unavailable"
REALM = "tidelog"


class HttpUsers:
    """Any of HTTP's threads; blocks for as long as a password takes.

    Attributes:
        failures: what did not get in, for metrics.
        successes: passwords that were checked and right; those that are remembered are not counted again, nor are tokens.
    """

    def __init__(
        self,
        config: BrokerConfig,
        users: Callable[[], Users | None],
        guesses: Guesses,
        submit: Submit,
        *,
        tokens: TokenFile | None = None,
        verifier: TokenVerifier | None = None,
        rules: Iterable[MappingRule] = (),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`users`: None while they have not been read. `guesses`: what all listeners share, which belongs to the loop thread.
        `submit`: has that thread run a coroutine. `rules`: make users of subjects. `now_s`: a clock that only rises."""
        self._mechanisms = config.http_authentication
        self._delay_s = config.connection_failed_authentication_delay_ms / 1000
        self._readers = _names(config.http_users_read)
        self._admins = _names(config.http_users_admin)
        self._users = users
        self._tokens = tokens
        self.verifier = verifier
        self._rules = tuple(rules)
        self._guesses = guesses
        self._submit = submit
        self.failures = HttpFailures(now_s)
        self.successes = 0
        self._now_s = now_s
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
        """True if a client's certificate identifies it."""
        return "certificate" in self._mechanisms

    def identify(
        self, authorization: str | None, peer: str, subject: str | None = None, wait: WaitFor = wait_for
    ) -> HttpUser:
        """The user who sends this Authorization header from that address, or without one shows a certificate with that
        subject. `wait` blocks while others work for it, as `wait_for` does.

        Raises `NotLetInError`, and what `wait` raises but for TimeoutError.
        """
        if authorization is None:
            name = self._by_certificate(subject)
        else:
            scheme, _, rest = authorization.partition(" ")
            name = self._by_header(scheme.lower(), rest.strip(BLANKS), peer, wait)
        role = self._role(name)
        if role is None:
            raise NotLetInError(
                FORBIDDEN,
                "You are signed in, but may do nothing here: http.users.read and http.users.admin name the users that may.",
            )
        return HttpUser(name, role, by_certificate=authorization is None)

    # -- inside

    def _challenges(self, bearer_error: str = "") -> tuple[tuple[str, str], ...]:
        words = []
        if "basic" in self._mechanisms:
            words.append(f'Basic realm="{REALM}", charset="UTF-8"')
        if "bearer" in self._mechanisms or "oauthbearer" in self._mechanisms:
            words.append(f'Bearer realm="{REALM}"' + (f', error="{bearer_error}"' if bearer_error else ""))
        return tuple(("WWW-Authenticate", word) for word in words)

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

    def _by_header(self, scheme: str, rest: str, peer: str, wait: WaitFor) -> str:
        if scheme == "basic" and "basic" in self._mechanisms and len(rest) <= MAX_HEADER_CHARACTERS:
            return self._by_password(rest, peer, wait)
        if scheme == "bearer" and not {"bearer", "oauthbearer"}.isdisjoint(self._mechanisms):
            return self._by_token(rest, peer, wait)
        raise self._refusal(peer, "the Authorization header is none of http.authentication")

    def _role(self, name: str) -> Role | None:
        if name in self._admins or "*" in self._admins:
            return Role.ADMIN
        return Role.READ if name in self._readers or "*" in self._readers else None

    def _by_password(self, encoded: str, peer: str, wait: WaitFor) -> str:
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            colon = name = password = ""
        if not colon or not name or len(password.encode()) > MAX_PASSWORD_BYTES:
            raise self._refusal(peer, "the Basic credentials can't be read")
        users = self._users()
        if users is None:
            raise _unavailable("The daemon has not read its users yet, or stops.")
        credentials = dict(users.of(name))
        digest = hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")
        if self._is_remembered(digest, credentials):
            return name
        work = self._is_right(name, peer, partial(check_password, credentials, password, users.rounds))
        try:
            checked = self._submit(work)
        except RuntimeError:  # the loop has ended, and the process will
            work.close()
            raise _unavailable("The daemon stops.") from None
        try:
            is_right = wait(checked, CHECK_TIMEOUT_S)
        except TimeoutError:
            raise _unavailable("Too many sign in at a time. Try again.") from None
        except TurnedAway as away:
            raise self._turned_away(peer, away) from None
        finally:
            checked.cancel()
        if not is_right:
            raise self._failure(peer, "the user or the password is wrong")
        self.successes += 1
        self._remember(digest, credentials)
        return name

    async def _is_right(self, name: str, peer: str, check: Callable[[], bool]) -> bool:
        """Check a password or token in its address's turn. Loop thread. Raises `TurnedAway`."""
        attempt = self._guesses.attempts.attempt(peer)
        attempt.claims(name)
        async with self._guesses.checks.turn(peer) as run:
            attempt.claims(name)  # others that were before it may have failed meanwhile
            is_right = await run(check)
        if not is_right:
            attempt.failed()
        return is_right

    def _by_token(self, token: str, peer: str, wait: WaitFor) -> str:
        name = self._tokens.user_of(token) if self._tokens is not None else None
        if name is not None:
            return name
        if self.verifier is None:
            raise self._refusal(peer, "the bearer token is wrong", bearer_error="invalid_token")
        # With the libraries of tokens, which are there if there is a verifier.
        from ..runtime.exceptions import ConnectionAborted
        from ..security.sasl.mechanism import Refusal

        try:
            return self.verifier.verify_blocking(token, lambda keys: self._wait_for_keys(keys, wait)).user
        except Refusal as refusal:
            why = str(refusal)
        except ConnectionAborted:
            raise _unavailable("No token can be checked yet.") from None
        raise self._refusal(peer, why, name=self.verifier.claimed_user(token), bearer_error="invalid_token")

    def _wait_for_keys(self, keys: Wait, wait: WaitFor) -> None:
        """Holds this thread for a moment; old keys go on where that is too short. Raises `NotLetInError` if the keys would take
        longer: that says nothing against the token.
        """
        try:
            wait(keys.reading, CHECK_TIMEOUT_S)
        except TimeoutError:
            if keys.is_asked_for:
                raise _unavailable("The keys of tokens are being read. Try again.") from None

    def _refusal(self, peer: str, what: str, *, name: str = "", bearer_error: str = "") -> NotLetInError:
        """Counts what is wrong without a check, and gives what to raise. `name`: of the user that it says it is."""
        attempt: Attempt = self._guesses.attempts.attempt(peer)
        try:
            attempt.claims(name)
        except TurnedAway as away:
            return self._turned_away(peer, away)
        attempt.failed()
        return self._failure(peer, what, bearer_error)

    def _turned_away(self, peer: str, away: TurnedAway) -> NotLetInError:
        """The error for a client with too many failures."""
        self.failures.was_turned_away(peer)
        headers = (("Retry-After", str(math.ceil(away.wait_s))),)
        return NotLetInError("429 Too Many Requests", "Too many attempts have failed. Try again later.", headers)

    def _failure(self, peer: str, what: str, bearer_error: str = "") -> NotLetInError:
        """The error for a failed authentication, the same for an unknown user as for a wrong password."""
        self.failures.failed(peer, what)
        challenges = self._challenges(bearer_error)
        status = UNAUTHORIZED if challenges else FORBIDDEN
        text = "The user, the password or the token is wrong."
        return NotLetInError(status, text, challenges, delay_s=self._delay_s)

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


def _unavailable(text: str) -> NotLetInError:
    return NotLetInError(UNAVAILABLE, text, (("Retry-After", "1"),))


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.removeprefix("User:") for name in names)
