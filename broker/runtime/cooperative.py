"""Runs long work on the loop thread in chunks, between which all other clients get a turn.

A handler that looks at many names is written as a generator, which yields where it may be interrupted: the work done since the
last yield, in units of one name (some microseconds). A request of ordinary size is answered in one chunk, at the cost of a
generator. The size of a chunk is a number of units and not a time, so it does not depend on the machine's load. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

R = TypeVar("R")
T = TypeVar("T")
Steps = Generator[int, None, R]

SLICE_UNITS = 100
"""Units of work in a chunk of a request of many names, 2 to 8 µs each: what a light request waits for a heavy one."""

CHUNK_UNITS = 400
"""Topics and partitions of a Produce or a Fetch, or offsets of a commit, in a chunk: some 1 to 4 ms."""


MANY_ELEMENTS = 2 * CHUNK_UNITS
"""Number of topics and partitions above which Produce and Fetch requests are parsed and handled in chunks."""


class TakesTurns(Protocol):
    """The part of a request's context that is used here."""

    def next_turn(self) -> Awaitable[None]: ...


class Rounds:
    """The context of work that is done for no request: a turn is a round of the loop."""

    def next_turn(self) -> Awaitable[None]:
        return asyncio.sleep(0)


ROUNDS = Rounds()


class ChunkedResult(Generic[R]):
    """The rest of some work, of which the first chunk is done. Await it once, for the result.

    Attributes:
        busy_s: seconds of the loop thread that it took so far.
    """

    __slots__ = ("_context", "_steps", "busy_s")

    def __init__(self, steps: Steps[R], context: TakesTurns, busy_s: float) -> None:
        self._steps = steps
        self._context = context
        self.busy_s = busy_s

    def __await__(self) -> Generator[Any, None, R]:
        return self._run().__await__()

    async def _run(self) -> R:
        while True:
            await self._context.next_turn()
            began = perf_counter()
            done, result = _run_chunk(self._steps)
            self.busy_s += perf_counter() - began
            if done:
                return result  # type: ignore[return-value]


def run_in_chunks(steps: Steps[R], context: TakesTurns) -> R | ChunkedResult[R]:
    """Run the first chunk of `steps`: the result if that was all, else the rest to await. The first chunk raises here."""
    began = perf_counter()
    done, result = _run_chunk(steps)
    return result if done else ChunkedResult(steps, context, perf_counter() - began)  # type: ignore[return-value]


def run_at_once(steps: Steps[R]) -> R:
    """Run all of `steps` in one piece, which the caller knows to be short: the result."""
    while True:
        done, result = _run_chunk(steps)
        if done:
            return result  # type: ignore[return-value]


async def run_in_rounds(steps: Steps[R]) -> R:
    """The result of `steps`, which nobody's request is alone: run in chunks, with a round of the loop for others after each."""
    begun = run_in_chunks(steps, ROUNDS)
    return await begun if isinstance(begun, ChunkedResult) else begun


class Turns:
    """Cuts the work of a handler into chunks that is a coroutine anyhow.

    turns = Turns(context)
    for part in parts:
        if turns.spent():
            await turns.next()
    """

    __slots__ = ("_context", "_units")

    def __init__(self, context: TakesTurns) -> None:
        self._context = context
        self._units = 0

    def spent(self, units: int = 1) -> bool:
        """Count so many units before they are worked off. True if the chunk has no room for them: `next` is to be awaited
        first."""
        self._units += units
        if self._units <= SLICE_UNITS:
            return False
        self._units = units
        return True

    async def next(self) -> None:
        """Return when all other clients had a turn; the next chunk begins."""
        await self._context.next_turn()


def each_once(names: Iterable[str], tell: Callable[[str], T], units: Callable[[T], int]) -> Steps[list[T]]:
    """What `tell` says of each name, which is work of so many `units`. Of one that is named again it is told once: a request may
    have thousands of names, and what is told megabytes.
    """
    told: dict[str, T] = {}
    for name in names:
        yield 1
        if name not in told:
            told[name] = found = tell(name)
            yield units(found)
    return list(told.values())


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split `items` into lists of `size`, the last one shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def weighed_batches(items: Iterable[T], size: int, units: int, weight: Callable[[T], int]) -> Iterator[list[T]]:
    """`batches` of which each ends with the item that brings it to so many `units` by `weight`."""
    some: list[T] = []
    left = units
    for item in items:
        some.append(item)
        left -= weight(item)
        if len(some) == size or left <= 0:
            yield some
            some, left = [], units
    if some:
        yield some


def _run_chunk(steps: Steps[R]) -> tuple[bool, R | None]:
    """Run one chunk: (True, the result) if it was the last one, else (False, None)."""
    units = 0
    try:
        while units < SLICE_UNITS:
            units += next(steps)
    except StopIteration as end:
        return True, end.value
    return False, None
