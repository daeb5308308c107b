"""A clock that tests move, and the scheduler and timer that hang on it. One thread, no sleep.

    time = MockTime()
    scheduler = MockScheduler(time)
    scheduler.schedule("flush", log.flush, delay_ms=1000, period_ms=1000)
    time.advance(3500)      # runs it at 1000, 2000 and 3000; the clock shows each of those times during its run

`MockTime` is a `tidelog.storage.clock.Time`, `MockScheduler` a `tidelog.storage.scheduler.LaneScheduler` (its lanes are all
one), `MockTimer` a `tidelog.broker.runtime.timer.Timer`.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

START_MS = 1_700_000_000_000  # 2023-11-14: later than any record a test makes up by counting from 0


class Delay:
    """A callback waiting on a `MockTime`."""

    def __init__(self, name: str, callback: Callable[[], object], due: float, period_ms: float | None) -> None:
        self.name = name
        self.callback = callback
        self.due = due
        self.period_ms = period_ms
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class MockTime:
    """Both clocks stand still until `advance`, which runs what becomes due, in the order of the due times."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._wall_ms = start_ms
        self._monotonic_ms = 0.0
        self._numbers = itertools.count()
        self._delays: list[tuple[float, int, Delay]] = []

    def milliseconds(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def monotonic(self) -> float:
        return self._monotonic_ms / 1000

    def advance(self, milliseconds: float = 0, *, days: float = 0, hours: float = 0, seconds: float = 0) -> None:
        """Moves both clocks on, stopping at each due time to run what waits for it (delay 0 included)."""
        end = self._monotonic_ms + milliseconds + seconds * 1000 + hours * 3_600_000 + days * 86_400_000
        while self._delays and self._delays[0][0] <= end:
            due, _, delay = heapq.heappop(self._delays)
            self._move_to(due)
            if delay.cancelled:
                continue
            if delay.period_ms is not None:
                delay.due = max(due + delay.period_ms, due + 1)
                heapq.heappush(self._delays, (delay.due, next(self._numbers), delay))
            delay.callback()
        self._move_to(end)

    def set_wall_clock(self, milliseconds: int) -> None:
        """Steps the wall clock, back too; the monotonic clock and what waits on it notice nothing."""
        self._wall_ms = milliseconds

    def call_at(self, delay: Delay) -> None:
        heapq.heappush(self._delays, (delay.due, next(self._numbers), delay))

    def waiting(self) -> list[str]:
        """Names of what waits, soonest first."""
        return [delay.name for _, _, delay in sorted(self._delays) if not delay.cancelled]

    def _move_to(self, monotonic_ms: float) -> None:
        step = monotonic_ms - self._monotonic_ms
        if step > 0:
            self._wall_ms += round(step)
            self._monotonic_ms = monotonic_ms


class MockScheduler:
    """Runs scheduled tasks when its clock passes them; submitted ones at once, or with `manual` in `run_submitted`."""

    def __init__(self, time: MockTime, *, manual: bool = False) -> None:
        self.time = time
        self.manual = manual
        self.threads = 1
        self.stopped = False
        self._submitted: deque[tuple[str, Callable[[], None]]] = deque()
        self._delays: list[Delay] = []

    def schedule(self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None) -> Delay:
        delay = Delay(name, task, self.time.monotonic_ms() + max(delay_ms, 0.0), period_ms)
        if self.stopped:
            delay.cancel()
            return delay
        self._delays.append(delay)
        self.time.call_at(delay)
        return delay

    def submit(self, name: str, task: Callable[[], T]) -> Future[T]:
        if self.stopped:
            raise RuntimeError(f"{name}: the scheduler is shut down")
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = task()
            except Exception as error:  # a simulated power cut (BaseException) must stop the test's run instead
                future.set_exception(error)
            else:
                future.set_result(result)

        if self.manual:
            self._submitted.append((name, run))
        else:
            run()
        return future

    @property
    def submitted(self) -> list[str]:
        """Names of what waits for `run_submitted`."""
        return [name for name, _ in self._submitted]

    def run_submitted(self, count: int | None = None) -> int:
        """Runs the first `count` submitted tasks (all, and what they submit, by default); returns how many ran."""
        done = 0
        while self._submitted and (count is None or done < count):
            self._submitted.popleft()[1]()
            done += 1
        return done

    def lane(self, _key: str) -> MockScheduler:
        return self

    def resize(self, threads: int) -> None:
        self.threads = threads

    def shutdown(self) -> None:
        self.stopped = True
        for delay in self._delays:
            delay.cancel()
        self.run_submitted()


class MockTimer:
    """Calls back when its clock passes the delay, never inside `call_later`."""

    def __init__(self, time: MockTime) -> None:
        self.time = time

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Delay:
        delay = Delay("timer", callback, self.time.monotonic_ms() + max(delay_ms, 0.0), None)
        self.time.call_at(delay)
        return delay
