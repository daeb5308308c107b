"""PLAIN (RFC 4616): name and password as they are. They are checked against what `sasl.jaas.config` lists, and against
the SCRAM credentials of stored users, so that one user has one password for every mechanism."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from .credentials import MIN_ITERATIONS, Credential, is_password
from .mechanism import WRONG, Refusal, Step

if TYPE_CHECKING:
    from .credentials import Users

MAX_PASSWORD_BYTES = 1024


class PlainExchange:
    """One message. The password is checked on a pool thread: that is what salting is meant to make slow."""

    __slots__ = ("_listed", "_pool", "_users")

    def __init__(self, listed: Mapping[str, str], users: Users, pool: Executor) -> None:
        """`listed`: user → password, of the listener's settings."""
        self._listed = listed
        self._users = users
        self._pool = pool

    async def step(self, message: bytes) -> Step:
        parts = message.split(b"\0")
        if len(parts) != 3 or not parts[1] or len(parts[2]) > MAX_PASSWORD_BYTES:
            raise Refusal("that is not PLAIN's message: identity, NUL, user, NUL, password")
        try:
            identity, name, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise Refusal("a PLAIN message that is not UTF-8") from None
        if identity not in ("", name):
            raise Refusal("a client can act only as the user that it authenticates as")
        listed = self._listed.get(name)
        if listed is not None and hmac.compare_digest(listed.encode(), password.encode()):
            return Step(b"", name)
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._pool, is_password_of, dict(self._users.of(name)), password):
            raise Refusal(WRONG)
        return Step(b"", name)


def is_password_of(credentials: Mapping[str, Credential], password: str) -> bool:
    """Whether a user with these credentials has that password. Pool thread. Who is unknown costs as much as who is known."""
    if not credentials:
        is_password(Credential(b"-" * 16, b"", b"", MIN_ITERATIONS), "SCRAM-SHA-256", password)
        return False
    mechanism = min(credentials)
    return is_password(credentials[mechanism], mechanism, password)
