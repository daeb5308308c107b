"""Queue for the thread that checks passwords: one check at a time, addresses in turn.

A check takes milliseconds by design. A hundred connections that guess from one address wait in one queue, and a client of another
address comes after one check of that queue, not after all. The queues are bounded by the connections: each has one request in
work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import NamedTuple

from ...runtime.fair_places import FairPlaces
from .login_attempts import Attempts, network_of

Run = Callable[[Callable[[], bool]], Awaitable[bool]]


class PasswordChecks:
    """Checks passwords on a thread, each address in its turn. Loop thread."""

    def __init__(self, pool: Executor) -> None:
        """`pool`: an executor with one thread, used for nothing else."""
        self._pool = pool
        self._places = FairPlaces(1)

    @property
    def waiting(self) -> int:
        """Number of checks that wait for their turn."""
        return self._places.waiting

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[Run]:
        """Wait for the turn of a client at that address; yields the function that runs its check on the thread."""
        async with self._places.place(network_of(peer)):
            loop = asyncio.get_running_loop()
            yield lambda check: loop.run_in_executor(self._pool, check)


class Guesses(NamedTuple):
    """Limits on guessing, shared by all listeners and HTTP: an address has one queue and one count."""

    attempts: Attempts
    checks: PasswordChecks

    @classmethod
    def of(cls, pool: Executor) -> Guesses:
        """Make the limits; `pool` as for `PasswordChecks`."""
        return cls(Attempts(), PasswordChecks(pool))
