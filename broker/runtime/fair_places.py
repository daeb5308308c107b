"""FairPlaces: a limited number of places for work; those who wait queue by client, and the queues take turns.

A client with a thousand pieces of work waits for its own; a client with one waits for one piece of each other row. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class FairPlaces:
    """Loop thread.

    Attributes:
        free: places that nobody holds.
        waiting: how much waits for a place, with what nobody waits for any more and whose turn has not come.
    """

    __slots__ = ("_rows", "free", "waiting")

    def __init__(self, places: int) -> None:
        self.free = places
        # None is empty; the first is the next.
        self._rows: OrderedDict[str, deque[Callable[[], bool]]] = OrderedDict()
        self.waiting = 0

    def join(self, row: str, come: Callable[[], bool], *, first: bool = False) -> None:
        """Call `come` when there is a place, now or later; the work then holds the place until `leave`. If `come`
        returns False (the client is gone), the place is given up. `first`: ahead of the others in the row. `come` does
        not raise.
        """
        if self.free:
            self.free -= 1
            if not come():
                self.free += 1
            return
        waiting = self._rows.setdefault(row, deque())
        if first:
            waiting.appendleft(come)
        else:
            waiting.append(come)
        self.waiting += 1

    def leave(self) -> None:
        """Give up a place: the next in turn gets it."""
        while self._rows:
            name, row = self._rows.popitem(last=False)
            come = row.popleft()
            self.waiting -= 1
            if row:
                self._rows[name] = row  # at the end: all others are before it
            if come():
                return
        self.free += 1

    async def enter(self, row: str, *, first: bool = False) -> None:
        """Wait for a place in the row of that name; `first`: before all others of it. `leave` gives the place back. Whoever is
        cancelled has none."""
        entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def come() -> bool:
            if entered.done():  # cancelled
                return False
            entered.set_result(None)
            return True

        self.join(row, come, first=first)
        try:
            await entered
        except asyncio.CancelledError:
            if entered.done() and not entered.cancelled():  # the place came, and the client has gone
                self.leave()
            raise

    @asynccontextmanager
    async def place(self, row: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it within the context."""
        await self.enter(row)
        try:
            yield
        finally:
            self.leave()
