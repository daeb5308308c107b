"""Work on the loop thread that may be long, in slices: between two of them everybody else has a turn.

A handler that looks at each of many names is written as a generator that yields where it may stop, with what it did since in
units, one being the work of one name (some microseconds). So requests of ordinary size are answered in one go, at the price of a
generator; how much is a slice does not depend on the clock. Loop thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

R = TypeVar("R")
T = TypeVar("T")
Steps = Generator[int, None, R]

SLICE_UNITS = 400
"""Units of work in a chunk: some 2 to 4 ms."""


MANY_ELEMENTS = 2 * SLICE_UNITS
"""Number of topics and partitions above which Produce and Fetch requests are parsed and handled in chunks."""


class TakesTurns(Protocol):
    """The part of a request's context that is used here."""

    def next_turn(self) -> Awaitable[None]: ...


class Sliced(Generic[R]):
    """What is left to do of something; awaited once. The first slice has been done.

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
            done, result = _slice(self._steps)
            self.busy_s += perf_counter() - began
            if done:
                return result  # type: ignore[return-value]


def in_slices(steps: Steps[R], context: TakesTurns) -> R | Sliced[R]:
    """What `steps` returns, if that takes one slice; else what is left to await. The first slice raises here."""
    began = perf_counter()
    done, result = _slice(steps)
    return result if done else Sliced(steps, context, perf_counter() - began)  # type: ignore[return-value]


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split `items` into lists of `size`, the last one shorter."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def _slice(steps: Steps[R]) -> tuple[bool, R | None]:
    """One slice: whether that was the last, and then what came of it."""
    units = 0
    try:
        while units < SLICE_UNITS:
            units += next(steps)
    except StopIteration as end:
        return True, end.value
    return False, None
