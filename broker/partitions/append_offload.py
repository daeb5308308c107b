"""AppendOffload: takes clients' appends to one data directory off the loop thread while its disk is slow.

    inactive   the handler appends itself, on the loop thread: half as dear as asking a thread
    active     appends are copied and queued; one thread, the directory's writer, does them in the order in which they came

It becomes active when the first slow write ends, for which the loop has waited (`storage/io/write_pace.py`), and inactive when
writes are quick again and nothing is queued or under way, so an append never overtakes another, at neither switch. A connection
has one request at a time and stands still until it is answered, so its order is kept in any case; the queue keeps that of the
connections. No append is answered before it has been written, or has failed, however long the disk takes.

The bytes handed to the writer are bounded. Further appends wait here, and their connections with them; a client that goes away
takes its waiting appends with it, so that clients which give up and come again do not fill the memory.

Everything here happens on the loop thread but the work itself; the thread and its way back are `DiskWorkers`'s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

QUEUE_BYTES = 64 << 20
"""Limit of bytes handed to one writer: more than a disk writes in the 100 ms that make it slow, and little of the machine's
memory.
"""


class Threads(Protocol):
    """Interface of `DiskWorkers` with one thread."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """`work` after all before it, then `done` on the loop with what it returned or raised."""


class Pace(Protocol):
    """Interface of `WritePace`, the pace of a directory's writes; a move of a log has a pace of its own."""

    on_slow: Callable[[], None]

    @property
    def is_slow(self) -> bool: ...


class AppendOffload:
    """The offload of one data directory. Loop thread, but `active`, which the thread of any slow write sets.

    Attributes:
        active: appends have to go through `submit`.
        submitted: how much has gone through it since the start.
    """

    __slots__ = ("_bytes", "_limit", "_loop", "_pace", "_threads", "_under_way", "_waiting", "active", "submitted")

    def __init__(
        self, pace: Pace, threads: Threads, loop: asyncio.AbstractEventLoop, queue_bytes: int = QUEUE_BYTES
    ) -> None:
        self._pace = pace
        self._threads = threads
        self._loop = loop
        self._limit = queue_bytes
        self._bytes = 0
        self._under_way = 0
        self._waiting: deque[tuple[Callable[[], Any], int, Callable[[Any], None] | None, asyncio.Future[Any]]] = deque()
        self.active = pace.is_slow
        self.submitted = 0
        pace.on_slow = self._activate

    def _activate(self) -> None:
        self.active = True

    @property
    def queued_bytes(self) -> int:
        """Bytes that the writer has been handed and has not written."""
        return self._bytes

    def submit(
        self, work: Callable[[], T], size: int = 0, then: Callable[[T], None] | None = None
    ) -> asyncio.Future[T]:
        """Queue `work`, which holds `size` bytes of memory; the future has its outcome.

        `then` is called on the loop with what it returned, also when nobody waits for the future any more. Cancelling the
        future takes the work back as long as the writer has not been handed it.
        """
        future: asyncio.Future[T] = self._loop.create_future()
        self.submitted += 1
        self._waiting.append((work, size, then, future))
        self._hand_over()
        return future

    def _hand_over(self) -> None:
        while self._waiting:
            work, size, then, future = self._waiting[0]
            if future.cancelled():
                self._waiting.popleft()
                continue
            if self._bytes and self._bytes + size > self._limit:
                return
            self._waiting.popleft()
            self._bytes += size
            self._under_way += 1
            self._threads.submit(work, partial(self._finished, size, then, future))

    def _finished(
        self, size: int, then: Callable[[Any], None] | None, future: asyncio.Future[Any], outcome: Any
    ) -> None:
        self._bytes -= size
        self._under_way -= 1
        if isinstance(outcome, BaseException):
            if not future.done():
                future.set_exception(outcome)
        else:
            if then is not None:
                then(outcome)
            if not future.done():
                future.set_result(outcome)
        self._hand_over()
        if not self._under_way and not self._waiting and not self._pace.is_slow:
            self.active = False
