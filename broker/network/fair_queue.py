"""A fair queue: connections whose requests take long have the loop one at a time, and between two of them all others are served.

A loop handles all sockets that have something, and then looks again. With many clients whose requests take milliseconds each, a
quick client would wait for all of them. So those connections take a ticket here, and each round of the loop calls one. Nothing is
lost by it: while there are only slow connections, the loop goes from one to the next. A new connection takes a ticket too while
others wait, or a thousand new connections with a long request each would be served in one round. Each client (a principal, or the
address of one that has not said who it is) has a row of its own, and the rows take turns: a client that opens a thousand
connections makes itself wait, and not the others. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: Nanoseconds. A connection whose reads take the loop for longer than this in the mean takes a ticket for its next requests.
HEAVY_NS = 2_000_000
#: The newest read counts for one part in 2 ** MEAN_SHIFT of the mean: one that took long by chance makes nobody slow.
MEAN_SHIFT = 3
#: Nanoseconds after which a connection lets others go on, between two of its requests.
LONGEST_NS = 5_000_000


class Ticket:
    """A place in the queue. To a connection that is muted it looks like a timer handle."""

    __slots__ = ("_go_on",)

    def __init__(self, go_on: Callable[[], None]) -> None:
        self._go_on: Callable[[], None] | None = go_on

    def cancel(self) -> None:
        """Gives the place up: the connection has gone, or waits for something else."""
        self._go_on = None

    def when(self) -> float:
        """Always 0: a timed mute outlasts a queue ticket."""
        return 0.0

    def resume(self) -> bool:
        """Lets its holder go on; False if the ticket was cancelled."""
        go_on, self._go_on = self._go_on, None
        if go_on is None:
            return False
        go_on()
        return True


class FairQueue:
    """Loop thread.

    Attributes:
        taken: tickets whose holders went on, since the start.
    """

    __slots__ = ("_call_soon", "_rows", "taken")

    def __init__(self, call_soon: Callable[[Callable[[], None]], asyncio.Handle]) -> None:
        self._call_soon = call_soon
        self._rows: dict[str, deque[Ticket]] = {}  # none is empty; the first is the next
        self.taken = 0

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    @property
    def has_row(self) -> bool:
        """True while a ticket waits."""
        return bool(self._rows)

    def join(self, client: str, go_on: Callable[[], None]) -> Ticket:
        """A ticket at the end of the client's row; `go_on` is called with it, in a later round of the loop."""
        ticket = Ticket(go_on)
        row = self._rows.get(client)
        if row is not None:
            row.append(ticket)
            return ticket
        if not self._rows:
            self._call_soon(self._next)
        self._rows[client] = deque((ticket,))
        return ticket

    def _next(self) -> None:
        """Calls one ticket. Cancelled ones are passed over, and cost no round. What its holder raises is the loop's to log."""
        came = False
        while self._rows and not came:
            client, row = next(iter(self._rows.items()))
            came = True  # also if its holder fails: nobody else's turn may be lost
            try:
                came = row[0].resume()  # which may join the row again: it is still there
            finally:
                row.popleft()
                del self._rows[client]
                if row:
                    self._rows[client] = row
                self.taken += came
                if came and self._rows:
                    self._call_soon(self._next)
