"""An answer that is there, or comes later: the same code for both."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def then(outcome: T | Awaitable[T], finish: Callable[[T], R]) -> R | Coroutine[Any, Any, R]:
    """`finish(outcome)` now, or a coroutine of it when `outcome` has to be awaited. Loop thread."""
    if inspect.isawaitable(outcome):
        return _later(outcome, finish)
    return finish(outcome)


async def _later(outcome: Awaitable[T], finish: Callable[[T], R]) -> R:
    return finish(await outcome)
