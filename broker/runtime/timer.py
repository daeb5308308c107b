"""Timers on the loop thread, as an argument, so that tests fire them by moving a clock.

Coordinators and purgatories take a `Timer`; the daemon passes `LoopTimer`, tests a `MockTimer` (tests/support).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A pending timer. Loop thread."""

    def cancel(self) -> None:
        """Prevent the callback; does nothing after it has run."""


class Timer(Protocol):
    """Loop thread only: callbacks run there, one at a time, never inside `call_later`."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once, `delay_ms` milliseconds from now."""


class LoopTimer:
    """Timers of the event loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)
