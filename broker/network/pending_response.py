"""Answers that come later: `PendingResponse` waits for syncs; `map_maybe_awaitable` goes on with a value that is there or is
awaited.

With `flush.messages=1` every produce waits, and a coroutine with a gather was a third of what such a request cost. To its
connection a `PendingResponse` looks like a future; unlike one it calls back at once, when the last sync that it waits for has
ended.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar


class PendingResponse:
    """Made by a handler, which registers `one_done` with each thing to wait for; nothing of it may have ended when the
    handler returns. Loop thread.
    """

    __slots__ = ("_answer", "_callback", "_error", "_failure", "_finish", "_is_cancelled", "_left")

    def __init__(self, finish: Callable[[Exception | None], bytes], count: int) -> None:
        """`finish` makes the answer, from the first failure if there was one, after `count` calls of `one_done`."""
        self._finish = finish
        self._left = count
        self._failure: Exception | None = None
        self._callback: Callable[[PendingResponse], object] | None = None
        self._answer = b""
        self._error: Exception | None = None
        self._is_cancelled = False

    def one_done(self, failure: Exception | None) -> None:
        """Count one part as done: well (None), or with `failure`."""
        if failure is not None and self._failure is None:
            self._failure = failure
        self._left -= 1
        if self._left or self._is_cancelled:
            return
        try:
            self._answer = self._finish(self._failure)
        except Exception as error:
            self._error = error
        if self._callback is not None:
            self._callback(self)

    # Interface of futures that connections use.

    def add_done_callback(self, callback: Callable[[PendingResponse], object]) -> None:
        """Set the callback; one only, before the response is done."""
        self._callback = callback

    def cancel(self) -> None:
        """The client has gone: nobody is called."""
        self._is_cancelled = True
        self._callback = None

    def cancelled(self) -> bool:
        return self._is_cancelled

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> bytes:
        return self._answer

    def __await__(self) -> Generator[None, None, bytes]:
        if self._left:
            future = asyncio.get_running_loop().create_future()

            def wake(_: PendingResponse) -> None:
                if not future.done():
                    future.set_result(None)

            self.add_done_callback(wake)
            yield from future
        if self._error is not None:
            raise self._error
        return self._answer


T = TypeVar("T")
R = TypeVar("R")


def map_maybe_awaitable(outcome: T | Awaitable[T], finish: Callable[[T], R]) -> R | Coroutine[Any, Any, R]:
    """`finish(outcome)` now, or a coroutine of it when `outcome` has to be awaited. Loop thread."""
    if inspect.isawaitable(outcome):
        return _later(outcome, finish)
    return finish(outcome)


async def _later(outcome: Awaitable[T], finish: Callable[[T], R]) -> R:
    return finish(await outcome)
