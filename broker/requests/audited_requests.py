"""Audited requests in work: each runs to its end, even if its client disconnects.

Changes are written by a thread, and finished even if the client is gone. Were the rest of the work given up
with the connection, a client that resets it at the right moment would have its change without a line in the audit log, and memory
would not have what `metadata.db` has. So the connection lets go of the answer, and the work goes on. At a stop it is waited for.
Loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from ..runtime.exceptions import ConnectionAborted

T = TypeVar("T")

MOST = 10_000
"""Maximum number of them, some 10 KB each: clients that come and go leave no more than that."""


class Changes:
    """Audited requests that are running."""

    __slots__ = ("_loop", "_under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._under_way: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        return len(self._under_way)

    def check(self) -> None:
        """Called before one begins. Raises `ConnectionAborted` above the limit."""
        if len(self._under_way) >= MOST:
            raise ConnectionAborted(f"{MOST} changes are in work; try again")

    def keep(self, work: Coroutine[object, object, T]) -> tuple[asyncio.Task[T], asyncio.Future[T]]:
        """(task that does the work, future for the connection, which can be cancelled without ending the work)."""
        task = self._loop.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task, asyncio.shield(task)

    async def finish(self, timeout_s: float) -> None:
        """Wait for all of them, up to the time-out; those unfinished then are lost."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout_s)
        for task in self._under_way:
            task.cancel()
