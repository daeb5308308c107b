"""Turns: connections whose requests take long have the loop one at a time, and between two of them everybody else.

A loop handles all sockets that have something, and then looks again. With many clients whose requests take milliseconds each, a
quick one would wait for all of them; so those stand in a row here, and each round of the loop serves one. Nothing is lost by
it: while there are only such, the loop goes from one to the next. Who is new stands in the row too, if there is one: or a
thousand new connections with a long request each would be served in one round. There is a row for each client (a principal, or
the address of one that has not said who it is), and each round takes from the next row: one that opens a thousand connections
makes itself wait, and not the others. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

#: A connection that takes the loop for longer at a time, in the mean, whatever for, has its next requests in its turn.
HEAVY_NS = 2_000_000
#: Of the mean: the newest counts one part in two to the power of this. One time that took long by chance is no habit.
MEAN_SHIFT = 3
#: After so long a connection lets others go on, between two of its requests.
LONGEST_NS = 5_000_000


class Ticket:
    """A place in the row: what a connection's `mute` has in place of a timer."""

    __slots__ = ("_go_on",)

    def __init__(self, go_on: Callable[[], None]) -> None:
        self._go_on: Callable[[], None] | None = go_on

    def cancel(self) -> None:
        """The connection has gone, or has to wait for something else."""
        self._go_on = None

    def when(self) -> float:
        """Before any time that a connection may be muted until."""
        return 0.0

    def resume(self) -> bool:
        """Goes on; False: nobody is there any more."""
        go_on, self._go_on = self._go_on, None
        if go_on is None:
            return False
        go_on()
        return True


class FairQueue:
    """Loop thread.

    Attributes:
        taken: turns that there were.
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
        """Whether somebody waits."""
        return bool(self._rows)

    def join(self, client: str, go_on: Callable[[], None]) -> Ticket:
        """A place at the end of the client's row; `go_on` is called in its turn, after a look at the sockets."""
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
        """One turn; those that were given up cost nothing."""
        while self._rows:
            client, row = next(iter(self._rows.items()))
            came = row[0].resume()  # which may join the row again: it is still there
            row.popleft()
            del self._rows[client]
            if row:
                self._rows[client] = row
            if came:
                self.taken += 1
                break
        if self._rows:
            self._call_soon(self._next)
