"""Turns at the thread that checks passwords: one check at a time, each address in its turn.

A check takes milliseconds by design. Who guesses by a hundred connections waits in one row, and a client of another address
comes after one check of that row, not after all of them. What waits is bounded by the connections: each has one request in work.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import NamedTuple

from .attempts import Attempts, network_of

Run = Callable[[Callable[[], bool]], Awaitable[bool]]


class PasswordChecks:
    """Loop thread.

    Attributes:
        waiting: checks that wait for their turn.
    """

    def __init__(self, pool: Executor) -> None:
        """`pool`: of one thread, which has nothing else to do."""
        self._pool = pool
        self._rows: OrderedDict[str, deque[asyncio.Future[None]]] = (
            OrderedDict()
        )  # none is empty; the first is the next
        self._is_busy = False
        self.waiting = 0

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[Run]:
        """Waits for the turn of a client at that address, and gives what runs its check on the thread."""
        await self._wait(network_of(peer))
        try:
            loop = asyncio.get_running_loop()
            yield lambda check: loop.run_in_executor(self._pool, check)
        finally:
            self._next()

    async def _wait(self, row: str) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rows.setdefault(row, deque()).append(come)
        self.waiting += 1
        try:
            await come
        except asyncio.CancelledError:
            if come.done() and not come.cancelled():  # the turn came, and the client has gone
                self._next()
            raise
        finally:
            self.waiting -= 1

    def _next(self) -> None:
        """Lets the next one go on; those whose clients have gone cost nothing."""
        while self._rows:
            name, row = self._rows.popitem(last=False)
            come = row.popleft()
            if row:
                self._rows[name] = row  # at the end: all others are before it
            if not come.done():
                come.set_result(None)
                return
        self._is_busy = False


class Guesses(NamedTuple):
    """What bounds guesses on all listeners, HTTP's too: an address has one row and one count, wherever it comes in."""

    attempts: Attempts
    checks: PasswordChecks

    @classmethod
    def of(cls, pool: Executor) -> Guesses:
        """`pool`: as `PasswordChecks` has it."""
        return cls(Attempts(), PasswordChecks(pool))
