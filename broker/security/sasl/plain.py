"""PLAIN (RFC 4616): name and password in clear text. They are checked against `sasl.jaas.config`, and against the SCRAM
credentials of stored users, so that one user has one password for every mechanism.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ..credentials import check_password
from .mechanism import WRONG, Refusal, Step

if TYPE_CHECKING:
    from ..credentials import Users
    from .login_attempts import PasswordChecks

MAX_PASSWORD_BYTES = 1024


class PlainExchange:
    """PLAIN's single message. The password is checked on a thread, in its address's turn, since salting makes it slow
    on purpose.

    An unknown user costs as much as any other, by stored credentials as by those in the settings.
    """

    __slots__ = ("_checks", "_claims", "_failed", "_listed", "_peer", "_users")

    def __init__(
        self,
        listed: Mapping[str, str],
        users: Users,
        checks: PasswordChecks,
        peer: str = "",
        claims: Callable[[str], None] = lambda name: None,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        """`listed`: user → password, of the listener's settings. `peer`: the client's address. `claims` is told the name, and
        once more when its turn has come; it raises if the client has failed too often (`login_attempts.py`). `failed` is called
        where that is known before the turn has come."""
        self._listed = listed
        self._users = users
        self._checks = checks
        self._peer = peer
        self._claims = claims
        self._failed = failed

    async def step(self, message: bytes) -> Step:
        parts = message.split(b"\0", 3)
        if len(parts) != 3 or not parts[1] or len(parts[2]) > MAX_PASSWORD_BYTES:
            raise Refusal("that is not PLAIN's message: identity, NUL, user, NUL, password")
        try:
            identity, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise Refusal("a PLAIN message that is not UTF-8") from None
        if identity not in ("", name):
            raise Refusal("a client can act only as the user that it authenticates as")
        self._claims(name)
        if not password:  # as in Kafka: where a template of the settings has left one out, nobody is let in
            raise Refusal(WRONG)
        listed = self._listed.get(name)
        # By their hashes: comparing the texts would take a time that tells the length of what is listed.
        is_listed = hmac.compare_digest(_hashed(listed or ""), _hashed(password)) and listed is not None
        is_decided = listed is not None and not self._users.of(name)
        if is_decided and is_listed:
            return Step(b"", name)
        if is_decided:
            self._failed()  # now: guesses that came together would all be looked at before the first is refused
        async with self._checks.turn(self._peer) as run:
            if not is_decided:
                self._claims(name)  # others that were before it may have failed meanwhile
            users = self._users
            is_right = is_listed or await run(partial(check_password, dict(users.of(name)), password, users.rounds))
        if not is_right:
            raise Refusal(WRONG)
        return Step(b"", name)


def _hashed(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
