"""Requests with very many names, one at a time: read and answered beside the loop, handled in slices (ADR 46).

A request of 100,000 names takes some 40 MB once it is read, and half a second. One is in work; the others wait with their
bytes in their connections' buffers, which count for `queued.max.request.bytes`. Of those that wait the smallest and the oldest
are let in in turns: a client with a few hundred names does not wait for all who send very many, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, TypeVar

from ..network.fair_queue import Ticket
from ..runtime.exceptions import RequestDeferred
from ..runtime.garbage import pause_full_gc, resume_full_gc
from ..runtime.threads import lower_priority, shortened_switch_interval

if TYPE_CHECKING:
    from ..network.connection import Connection

T = TypeVar("T")

LONG_BYTES = 8192
"""A shorter request has some thousand names at most: these are read in milliseconds."""

LEFT_IN_HEAP = 64
"""Entries of requests that do not wait any more, beside as many as wait, that the heap may have before it is made anew."""


class BulkRequestLane:
    """Loop thread.

    Attributes:
        taken: permits given since the start.
    """

    __slots__ = ("_by_size", "_count", "_is_taken", "_loop", "_row", "_thread", "taken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread: ThreadPoolExecutor | None = None
        # Waiting requests, in the order in which they came: bytes of the request, and the callback of its connection.
        self._row: dict[int, tuple[int, Ticket]] = {}
        # A heap of (bytes, number in the row), since ten thousand may wait; of some that have left the row too.
        self._by_size: list[tuple[int, int]] = []
        self._count = 0
        self._is_taken = False
        self.taken = 0

    def __len__(self) -> int:
        """Number of requests that wait."""
        return len(self._row)

    def try_acquire(self) -> Permit | None:
        """A permit for one request, or None while another request holds it."""
        if self._is_taken:
            return None
        self._is_taken = True
        self.taken += 1
        pause_full_gc()
        return Permit(self)

    def join(self, size: int, go_on: Callable[[], None]) -> Ticket:
        """A ticket; `go_on` is called when the permit is free, and calls `try_acquire` again."""
        ticket = Ticket(go_on)
        self._count += 1
        self._row[self._count] = (size, ticket)
        heappush(self._by_size, (size, self._count))
        return ticket

    def admit(self, connection: Connection, size: int) -> Permit:
        """Acquire the lane for a request of `size` bytes of `connection`, as `try_acquire`. While another request holds it, the
        connection gets a place in the queue and RequestDeferred is raised; also while its client keeps too many answers unread.
        """
        if connection.hold_back():
            raise RequestDeferred
        permit = self.try_acquire()
        if permit is None:
            connection.mute_in(partial(self.join, size))
            raise RequestDeferred
        return permit

    async def aside(self, task: Callable[[], T]) -> T:
        """Runs `task` in a thread that gives way to the loop's."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "long-requests", lower_priority)
        return await self._loop.run_in_executor(self._thread, _with_short_switch_interval, task)

    def close(self) -> None:
        """Ends the thread, when no request is in work. Blocks until the thread is done."""
        if self._thread is not None:
            self._thread.shutdown()

    def released(self) -> None:
        """Called by the permit: resumes the smallest or the oldest waiting request, by turns. Passes over cancelled tickets."""
        self._is_taken = False
        resume_full_gc()
        while self._row and not self._is_taken:
            _, ticket = self._row.pop(self._next_place())
            ticket.resume()

    def _next_place(self) -> int:
        if self.taken % 2:
            while (place := heappop(self._by_size)[1]) not in self._row:
                pass
            return place
        if len(self._by_size) > 2 * len(self._row) + LEFT_IN_HEAP:
            self._by_size = [(size, place) for place, (size, _) in self._row.items()]
            heapify(self._by_size)
        return next(iter(self._row))


class Permit:
    """Held by the request that is in work. As a context: released at once where the request's task cannot be begun within, which
    there may be no memory for; else that task's end has to release it.
    """

    __slots__ = ("_requests",)

    def __init__(self, requests: BulkRequestLane) -> None:
        self._requests: BulkRequestLane | None = requests

    def __enter__(self) -> Permit:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.release()

    def release(self, _: object = None) -> None:
        """Lets the next request in. Harmless when called again."""
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.released()


def _with_short_switch_interval(task: Callable[[], T]) -> T:
    with shortened_switch_interval():
        return task()
