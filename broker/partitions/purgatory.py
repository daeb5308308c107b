"""Requests that wait for something other than a client: new data for a fetch.

A waiting request is a future, a set of partitions that it watches and a delay. It costs no thread. It is looked at
again when the high watermark of a partition that it watches moves, and is answered with what there is when its time is
up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ..runtime.timer import Timer, TimerHandle


T = TypeVar("T")


class Watched(Protocol):
    """Source of wake-ups for waiting fetches: a partition, or a share group's part in one."""

    waiters: set[DelayedFetch[Any]]


class FetchPurgatory:
    """All fetches that wait. Loop thread."""

    __slots__ = ("_all", "loop", "timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, timer: Timer) -> None:
        self.loop = loop
        self.timer = timer
        self._all: set[DelayedFetch[Any]] = set()

    @property
    def waiting(self) -> int:
        """Number of fetches that wait."""
        return len(self._all)

    def expire_all(self) -> None:
        """Answers every waiting fetch with what there is: at a stop, nobody is left waiting."""
        for fetch in list(self._all):
            fetch.expire()

    def wait(
        self,
        partitions: Sequence[Watched],
        max_wait_ms: int,
        attempt: Callable[[bool], T | None],
    ) -> asyncio.Future[T]:
        """A future of the answer. `attempt(last)` makes it; None while there is too little (never when last)."""
        fetch: DelayedFetch[T] = DelayedFetch(self, partitions, max_wait_ms, attempt)
        self._all.add(fetch)
        return fetch.future

    def forget(self, fetch: DelayedFetch[Any]) -> None:
        """Called by a fetch that is done."""
        self._all.discard(fetch)


class DelayedFetch(Generic[T]):
    """One waiting fetch. It removes itself when its future is done, or cancelled by a lost connection."""

    __slots__ = ("_attempt", "_partitions", "_purgatory", "_scheduled", "_timer", "future")

    def __init__(
        self,
        purgatory: FetchPurgatory,
        partitions: Sequence[Watched],
        max_wait_ms: int,
        attempt: Callable[[bool], T | None],
    ) -> None:
        self._purgatory = purgatory
        self._partitions = partitions
        self._attempt = attempt
        self._scheduled = False
        self.future: asyncio.Future[T] = purgatory.loop.create_future()
        self.future.add_done_callback(self._done)
        self._timer: TimerHandle = purgatory.timer.call_later(max_wait_ms, self.expire)
        for partition in partitions:
            partition.waiters.add(self)

    def wake(self) -> None:
        """A watched partition has something new. Several in one turn of the loop are one look."""
        if not self._scheduled:
            self._scheduled = True
            self._purgatory.loop.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        self._complete(last=False)

    def expire(self) -> None:
        """Answer now: the fetch's time is up."""
        self._complete(last=True)

    def _complete(self, *, last: bool) -> None:
        if self.future.done():
            return
        try:
            answer = self._attempt(last)
        except Exception as error:
            self.future.set_exception(error)
            return
        if answer is not None:
            self.future.set_result(answer)

    def _done(self, future: asyncio.Future[T]) -> None:
        self._timer.cancel()
        self._purgatory.forget(self)
        for partition in self._partitions:
            partition.waiters.discard(self)
