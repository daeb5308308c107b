"""A fair queue: connections whose requests take long have the loop one at a time, and between two of them all others are served.

A loop handles all sockets that have something, and then looks again. With many clients whose requests take milliseconds each, a
quick client would wait for all of them. So those connections take a ticket here, and each round of the loop calls one. Nothing is
lost by it: while there are only slow connections, the loop goes from one to the next. A new connection takes a ticket too while
others wait, or a thousand new connections with a long request each would be served in one round. Each client (a principal, or the
address of one that has not said who it is) has a row of its own, and the rows take turns: a client that opens a thousand
connections makes itself wait, and not the others.

After a ticket, the next one waits until others have had three times its processor time, or until a round of the loop had nothing
to do for others: tickets get a quarter of a busy loop, and all of an idle one. Tickets for requests that have not begun can be
held back: those of a client that leaves too much unread (`response_memory.py`). Loop thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Set
from time import thread_time_ns

#: Nanoseconds. A connection whose reads take the loop for longer than this in the mean takes a ticket for its next requests.
HEAVY_NS = 2_000_000
#: The newest read counts for one part in 2 ** MEAN_SHIFT of the mean: one that took long by chance makes nobody slow.
MEAN_SHIFT = 3
#: Nanoseconds after which a connection lets others go on, between two of its requests.
LONGEST_NS = 5_000_000
#: The same for a connection that takes tickets.
HEAVY_SLICE_NS = 1_000_000
#: Time that others get for that of a ticket, while they have something to do.
OTHERS_SHARE = 3
#: Nanoseconds. A ticket that took longer counts as this much: no request holds back all tickets for seconds.
LONGEST_COUNTED_NS = 20_000_000


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
        held_back: clients whose requests do not begin now; `release` is called with each that has left the set. Read only.
        put_off: requests that found their client held back, since the start.
    """

    __slots__ = (
        "_call_soon", "_debt_ns", "_held", "_is_scheduled", "_rows", "_seen", "_served", "_since", "_thread_now", "held_back",
        "put_off", "taken",
    )  # fmt: skip

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], asyncio.Handle],
        served: Callable[[], int] = int,
        held_back: Set[str] = frozenset(),
        thread_now: Callable[[], int] = thread_time_ns,
    ) -> None:
        """`served` returns a number that changes when a connection without a ticket has been served; `thread_now` nanoseconds of
        the loop's thread: the wall's clock has other processes' turns in it.
        """
        self._call_soon = call_soon
        self._served = served
        self._thread_now = thread_now
        self._rows: dict[str, deque[Ticket]] = {}  # none is empty; the first is the next
        self._held: dict[str, deque[Ticket]] = {}  # none is empty; each client is held back, or has a ticket in its row
        self._is_scheduled = False
        self.held_back = held_back
        self.taken = self.put_off = 0
        # What others are to have before the next ticket; where their time is counted from; what `served` said then.
        self._debt_ns = self._since = self._seen = 0

    def __len__(self) -> int:
        return sum(map(len, self._rows.values())) + sum(map(len, self._held.values()))

    @property
    def has_row(self) -> bool:
        """True while a ticket waits, or a client is held back."""
        return bool(self._rows or self.held_back)

    def join(self, client: str, go_on: Callable[[], None]) -> Ticket:
        """A ticket at the end of the client's row; `go_on` is called with it, in a later round of the loop."""
        ticket = Ticket(go_on)
        self._append(client, ticket)
        return ticket

    def join_to_begin(self, client: str, go_on: Callable[[], None]) -> Ticket:
        """As `join`, for a request that has not begun: it may be held back."""
        held = self._held.get(client)
        if held is None and client not in self.held_back:
            return self.join(client, go_on)
        self.put_off += 1
        ticket = Ticket(go_on)
        if held is None:
            self._held[client] = deque((ticket,))
        else:
            held.append(ticket)
        return ticket

    def holds(self, client: str) -> bool:
        """True while requests of the client are held back."""
        return client in self._held

    def release(self, client: str) -> None:
        """Lets the client's next request in that was held back, unless the client still is. Each has the next one follow, so that
        they stop when the client is held back again."""
        held = self._held.get(client)
        if held is None or client in self.held_back:
            return
        ticket = held.popleft()
        if not held:
            del self._held[client]
        self._append(client, ticket)

    def _append(self, client: str, ticket: Ticket) -> None:
        row = self._rows.get(client)
        if row is None:
            self._rows[client] = deque((ticket,))
        else:
            row.append(ticket)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next)

    def _others_first(self) -> bool:
        """True if the last ticket's time is not paid for yet, and this round of the loop had work for others."""
        if self._debt_ns <= 0:
            return False
        served = self._served()
        if served == self._seen:
            return False
        self._seen = served
        now = self._thread_now()
        self._debt_ns -= now - self._since
        self._since = now
        return self._debt_ns > 0

    def _next(self) -> None:
        """Calls one ticket, unless others come first. What its holder raises is the loop's to log."""
        if self._others_first():
            self._call_soon(self._next)
            return
        began = self._thread_now()
        try:
            self._call_one()
        finally:
            self._since = self._thread_now()
            self._debt_ns = OTHERS_SHARE * min(self._since - began, LONGEST_COUNTED_NS)
            self._seen = self._served()
            self._is_scheduled = bool(self._rows)
            if self._is_scheduled:
                self._call_soon(self._next)

    def _call_one(self) -> None:
        """Calls the next ticket. Cancelled ones are passed over, and cost no round."""
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
                self.release(client)
