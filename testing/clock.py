"""Time that runs as usual and can be set forward by hand, and the moves of a whole broker through it.

`MovableTime` is the machine's clocks plus what they were advanced by: clients, which know nothing of it, go on as ever
(long polls end, heartbeats are sent), while the broker's retention, time-outs and horizons see the later time.
`MovableTimer` is the loop's timers on that clock. `Clock.advance` moves both in steps and lets the broker do at each step
what has become due; when it returns, all of that is done.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

#: An advance is made in at most this many steps, so that what follows from one event can follow from that in turn: a
#: tombstone gets its delete horizon in one step and goes in another. Tasks that are due in between run once, at the next.
STEPS = 16
SHORTEST_STEP_MS = 1000.0


class MovableTime:
    """A `tidelog.storage.clock.Time`. Any thread; moved forward only, by the loop thread."""

    __slots__ = ("_ahead_ms",)

    def __init__(self) -> None:
        self._ahead_ms = 0.0

    @property
    def ahead_ms(self) -> float:
        """Milliseconds by which this clock is ahead of the machine's."""
        return self._ahead_ms

    def move(self, milliseconds: float) -> None:
        """Move both clocks at once. ValueError if that would be backwards."""
        if not milliseconds >= 0:
            raise ValueError(f"a clock moves forward, not by {milliseconds} ms")
        self._ahead_ms += milliseconds

    def milliseconds(self) -> int:
        return time.time_ns() // 1_000_000 + int(self._ahead_ms)

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6 + self._ahead_ms

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead_ms / 1000


class _Delay:
    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class MovableTimer:
    """A `tidelog.broker.runtime.timer.Timer` on a `MovableTime`. Loop thread."""

    __slots__ = ("_handle", "_loop", "_numbers", "_time", "_waiting", "_wakes_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, time: MovableTime) -> None:
        self._loop = loop
        self._time = time
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, _Delay]] = []
        self._handle: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0  # in the movable time; of `_handle`

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Delay:
        delay = _Delay(callback)
        heapq.heappush(self._waiting, (self._time.monotonic_ms() + max(delay_ms, 0.0), next(self._numbers), delay))
        self._arm()
        return delay

    def run_due(self) -> int:
        """Calls what is due by now, in the order of the due times; returns how many that were."""
        if self._handle is not None:  # it was measured before the time was moved
            self._handle.cancel()
            self._handle = None
        now = self._time.monotonic_ms()
        due: list[_Delay] = []
        while self._waiting and (self._waiting[0][0] <= now or self._waiting[0][2].callback is None):
            due.append(heapq.heappop(self._waiting)[2])
        count = 0
        for delay in due:  # each may cancel a later one
            callback, delay.callback = delay.callback, None
            if callback is not None:
                count += 1
                try:
                    callback()
                except Exception as error:
                    self._loop.call_exception_handler({"message": "a timer's callback failed", "exception": error})
        self._arm()
        return count

    def _arm(self) -> None:
        if not self._waiting:
            return
        soonest = self._waiting[0][0]
        if self._handle is not None:
            if self._wakes_at <= soonest:
                return
            self._handle.cancel()
        self._wakes_at = soonest
        left_s = max(soonest - self._time.monotonic_ms(), 0.0) / 1000
        self._handle = self._loop.call_later(left_s, self._woken)

    def _woken(self) -> None:
        self._handle = None
        self.run_due()


class Ahead(Protocol):
    """A time that is ahead of the machine's. Any thread."""

    @property
    def ahead_ms(self) -> float: ...

    def milliseconds(self) -> int: ...


class Clock:
    """The broker's clock as a test sees it. Any thread but the broker's; plain calls, also in async tests."""

    __slots__ = ("_move", "_time")

    def __init__(self, time: Ahead, move: Callable[[float], object]) -> None:
        """`move` sets the time forward by milliseconds and returns when all is done that has become due. It blocks."""
        self._time = time
        self._move = move

    def advance(
        self,
        milliseconds: float = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Sets the broker's time forward and returns when it has done what became due by then.

        Retention, cleaning, delete horizons, sessions of group members, time-outs of transactions, expiry of offsets and
        producers: all of them. A span is passed in at most 16 steps; what recurs more often runs once a step. Clients keep
        the real time: records that are produced afterwards have timestamps of now, which for the broker is the past, unless
        the topic has message.timestamp.type=LogAppendTime. A clock never goes back: ValueError.
        """
        total = milliseconds + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        if not 0 <= total < float("inf"):
            raise ValueError(f"a clock moves forward, not by {total} ms")
        for step in steps_of(total):
            self._move(step)

    @property
    def now(self) -> datetime:
        """Current time of the broker."""
        return datetime.fromtimestamp(self._time.milliseconds() / 1000, UTC)

    @property
    def ahead_s(self) -> float:
        """Seconds by which it was advanced in all."""
        return self._time.ahead_ms / 1000


def steps_of(total_ms: float) -> list[float]:
    """The steps of an advance: as many as there may be, none shorter than a second; at least one."""
    count = min(max(int(total_ms // SHORTEST_STEP_MS), 1), STEPS)
    return [total_ms / count] * count
