"""Background work: now, later, or again and again, in a pool of threads.

Storage hands it what may block: fsync, deletion, checkpoints, cold reads. `Scheduler` is what code receives;
`ThreadPoolScheduler` the real one; tests drive a `MockScheduler` (tests/support/mock_time.py) by moving a clock.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from .clock import SystemTime, Time

T = TypeVar("T")
logger = logging.getLogger(__name__)


class ScheduledTask(Protocol):
    """A task that waits for its time. Any thread."""

    def cancel(self) -> None:
        """It is not started again; a run under way goes on. Harmless when it has run."""


class Scheduler(Protocol):
    """Any thread may call any method."""

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None
    ) -> ScheduledTask:
        """Runs `task` in the pool `delay_ms` from now, then, with a period, every `period_ms`, never two runs at once.

        An exception is logged under `name`; a periodic task goes on with its next period. After shutdown nothing is
        scheduled.
        """

    def submit(self, name: str, task: Callable[[], T]) -> Future[T]:
        """Runs `task` in the pool as soon as a thread is free; the Future has its result or exception.

        RuntimeError after shutdown.
        """

    def resize(self, threads: int) -> None:
        """Sets how many threads there may be; surplus ones leave when their task is done."""

    def shutdown(self) -> None:
        """Forgets what waits for its time, finishes what was submitted or runs, returns when all threads are gone."""


class _Timed:
    """An entry of the delay heap."""

    __slots__ = ("cancelled", "due", "name", "period_ms", "task")

    def __init__(self, name: str, task: Callable[[], object], due: float, period_ms: float | None) -> None:
        self.name = name
        self.task = task
        self.due = due
        self.period_ms = period_ms
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ThreadPoolScheduler:
    """Up to `threads` daemon threads, started when there is work for them.

    One idle thread (the leader) sleeps until the next due time, the others until they are told: a timer wakes one
    thread, and a broker with nothing due wakes none. All state is under one condition's lock.
    """

    def __init__(self, threads: int, *, time: Time | None = None, thread_name: str = "storage") -> None:
        if threads < 1:
            raise ValueError(f"a scheduler needs at least 1 thread, not {threads}")
        self._time = time if time is not None else SystemTime()
        self._limit = threads
        self._thread_name = thread_name
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._timed: list[tuple[float, int, _Timed]] = []
        self._ready: deque[tuple[str, Callable[[], None]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._leader_due: float | None = None
        self._stopping = False

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None
    ) -> ScheduledTask:
        entry = _Timed(name, task, self._time.monotonic_ms() + max(delay_ms, 0.0), period_ms)
        with self._condition:
            if self._stopping:
                entry.cancel()
                logger.debug("%s was scheduled after shutdown and is ignored", name)
                return entry
            self._push(entry)
            self._ensure_thread()
        return entry

    def submit(self, name: str, task: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = task()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._condition:
            if self._stopping:
                raise RuntimeError(f"{name}: the scheduler is shut down")
            self._ready.append((name, run))
            self._ensure_thread()
            self._condition.notify()
        return future

    def resize(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"a scheduler needs at least 1 thread, not {threads}")
        with self._condition:
            self._limit = threads
            self._ensure_thread()
            self._condition.notify_all()

    def shutdown(self) -> None:
        with self._condition:
            self._stopping = True
            self._timed.clear()
            threads = list(self._threads)
            self._condition.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    @property
    def threads(self) -> int:
        """How many threads exist now."""
        return len(self._threads)

    # --- under the lock ---

    def _push(self, entry: _Timed) -> None:
        heapq.heappush(self._timed, (entry.due, next(self._numbers), entry))
        if self._timed[0][2] is entry:
            # The leader, if any, sleeps for a later time; whichever thread wakes now takes over (see `_take`).
            self._condition.notify()

    def _ensure_thread(self) -> None:
        # One thread must be there for the delays, and one for each ready task that no idle thread will take.
        if len(self._threads) < self._limit and (not self._threads or len(self._ready) > self._idle):
            thread = threading.Thread(target=self._work, name=f"{self._thread_name}-{next(self._numbers)}", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _take(self) -> Callable[[], None] | None:
        """The next thing to run, or None when this thread shall end. Waits under the lock."""
        while True:
            if len(self._threads) > self._limit:
                return None
            while self._timed and self._timed[0][2].cancelled:
                heapq.heappop(self._timed)
            due = self._timed[0][0] if self._timed else None
            wait_ms = due - self._time.monotonic_ms() if due is not None else 0.0
            if due is not None and wait_ms <= 0:
                entry = heapq.heappop(self._timed)[2]
                return lambda: self._run_timed(entry)
            if self._ready:
                return self._ready.popleft()[1]
            if self._stopping:
                return None
            self._idle += 1
            if due is None or (self._leader_due is not None and self._leader_due <= due):
                self._condition.wait()
            else:
                self._leader_due = due
                self._condition.wait(wait_ms / 1000)
                if self._leader_due == due:
                    self._leader_due = None
            self._idle -= 1

    # --- in a pool thread ---

    def _work(self) -> None:
        try:
            while True:
                with self._condition:
                    task = self._take()
                    if task is None:
                        return
                    if self._timed or self._ready:
                        # This thread may have been the leader: another one takes over the delays.
                        self._ensure_thread()
                        self._condition.notify()
                task()
                del task  # a closure must not live on, with what it refers to, while the thread sleeps
        finally:
            with self._condition:
                self._threads.discard(threading.current_thread())
                if not self._stopping and (self._timed or self._ready):
                    self._ensure_thread()

    def _run_timed(self, entry: _Timed) -> None:
        if entry.cancelled:
            return
        try:
            entry.task()
        except Exception:
            logger.exception("%s failed%s", entry.name, "" if entry.period_ms is None else "; it runs again next time")
        if entry.period_ms is None or entry.cancelled:
            return
        # A fixed delay from the moment it was due: no burst to catch up after a long run.
        entry.due = max(entry.due + entry.period_ms, self._time.monotonic_ms())
        with self._condition:
            if not self._stopping:
                self._push(entry)
