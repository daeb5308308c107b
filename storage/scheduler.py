"""Scheduler: runs background work now, later or periodically, in a pool of threads.

Storage hands it what may block: fsync, deletion, checkpoints, cold reads. `Scheduler` is what code receives;
`ThreadPoolScheduler` the real one; tests drive a `MockScheduler` (tests/support/mock_time.py) by moving a clock.

Lanes keep a slow disk from holding up the others: each data directory's tasks run in a lane of its own, and a lane takes
no more than its share of the threads, however much waits in it.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeVar

from .clock import SystemTime, Time
from .exceptions import says_what_is_wrong

T = TypeVar("T")
logger = logging.getLogger(__name__)


class ScheduledTask(Protocol):
    """A task that waits for its time. Any thread."""

    def cancel(self) -> None:
        """Prevent further runs; a running one continues. Does nothing after the last run."""


class Scheduler(Protocol):
    """Runs tasks in threads. Any thread may call any method."""

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None
    ) -> ScheduledTask:
        """Run `task` in the pool `delay_ms` from now, then, with a period, every `period_ms`, never two runs at once.

        An exception is logged under `name`, with a traceback where it is a defect; a periodic task goes on with its next
        period. After shutdown nothing is scheduled.
        """

    def submit(self, name: str, task: Callable[[], T]) -> Future[T]:
        """Run `task` in the pool as soon as a thread is free; the Future has its result or exception.

        RuntimeError after shutdown.
        """


class LaneScheduler(Scheduler, Protocol):
    """A scheduler whose threads are shared out among lanes. Any thread."""

    def lane(self, key: str) -> Scheduler:
        """The lane of that name, created on first use. Its tasks never take more than its share of threads."""


class TaskCounts(NamedTuple):
    """Counts for the tasks of one name, since the start and now."""

    scheduled: int
    """Tasks waiting for their time."""
    waiting: int
    """Tasks waiting for a thread."""
    running: int
    runs: int
    """Finished runs, failed ones included."""
    failures: int


class _Counts:
    """Counts of a task, while they are gathered."""

    __slots__ = ("failures", "running", "runs", "scheduled", "waiting")

    def __init__(self) -> None:
        self.scheduled = self.waiting = self.running = self.runs = self.failures = 0

    @property
    def is_over(self) -> bool:
        return not self.scheduled + self.waiting + self.running


class _Lane:
    """Ready tasks of one lane, and the number that run."""

    __slots__ = ("ready", "running")

    def __init__(self) -> None:
        self.ready: deque[_Task] = deque()
        self.running = 0


class _Task:
    """A submitted task, or a scheduled one, which is an entry of the delay heap."""

    __slots__ = ("cancelled", "due", "lane", "name", "period_ms", "run")

    def __init__(self, name: str, run: Callable[[], object], lane: _Lane, due: float, period_ms: float | None) -> None:
        self.name = name
        self.run = run
        self.lane = lane
        self.due = due
        self.period_ms = period_ms
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class _LaneView:
    """A scheduler that puts its tasks into one lane of another."""

    __slots__ = ("_lane", "_pool")

    def __init__(self, pool: ThreadPoolScheduler, lane: _Lane) -> None:
        self._pool = pool
        self._lane = lane

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None
    ) -> ScheduledTask:
        return self._pool.schedule_in(self._lane, name, task, delay_ms, period_ms)

    def submit(self, name: str, task: Callable[[], T]) -> Future[T]:
        return self._pool.submit_in(self._lane, name, task)


class ThreadPoolScheduler:
    """Up to `threads` daemon threads, started when there is work for them; never fewer than there are lanes.

    Of n lanes each gets an n-th of the threads at most; tasks outside of any lane may take all of them.

    One idle thread (the leader) sleeps until the next due time, the others until they are told: a timer wakes one
    thread, and a broker with nothing due wakes none. All state is under one condition's lock.
    """

    def __init__(self, threads: int, *, time: Time | None = None, thread_name: str = "storage") -> None:
        self._check(threads)
        self._time = time if time is not None else SystemTime()
        self._limit = threads
        self._thread_name = thread_name
        self._numbers = itertools.count()
        self._condition = threading.Condition()
        self._timed: list[tuple[float, int, _Task]] = []
        self._open_lane = _Lane()
        self._lanes: dict[str, _Lane] = {}
        # Order of the lanes: the one that was served last stands last.
        self._turns: deque[_Lane] = deque([self._open_lane])
        self._counts: dict[str, _Counts] = {}
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._leader_due: float | None = None
        self._stopping = False
        self._watchers = 0

    def lane(self, key: str) -> Scheduler:
        with self._condition:
            lane = self._lanes.get(key)
            if lane is None:
                lane = self._lanes[key] = _Lane()
                self._turns.append(lane)
        return _LaneView(self, lane)

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None = None
    ) -> ScheduledTask:
        return self.schedule_in(self._open_lane, name, task, delay_ms, period_ms)

    def submit(self, name: str, task: Callable[[], T]) -> Future[T]:
        return self.submit_in(self._open_lane, name, task)

    def schedule_in(
        self, lane: _Lane, name: str, task: Callable[[], object], delay_ms: float, period_ms: float | None
    ) -> ScheduledTask:
        """`Scheduler.schedule` in that lane, for `_LaneView`. Any thread."""
        entry = _Task(name, task, lane, self._time.monotonic_ms() + max(delay_ms, 0.0), period_ms)
        with self._condition:
            if self._stopping:
                entry.cancel()
                logger.debug("%s was scheduled after shutdown and is ignored", name)
                return entry
            self._push(entry)
            self._ensure_thread()
        return entry

    def submit_in(self, lane: _Lane, name: str, task: Callable[[], T]) -> Future[T]:
        """`Scheduler.submit` in that lane, for `_LaneView`. Any thread; RuntimeError after a shutdown."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = task()
            except BaseException as error:
                future.set_exception(error)
                raise
            else:
                future.set_result(result)

        with self._condition:
            if self._stopping:
                raise RuntimeError(f"{name}: the scheduler is shut down")
            self._make_ready(_Task(name, run, lane, _SUBMITTED, None))
            self._ensure_thread()
            self._condition.notify()
        return future

    def resize(self, threads: int) -> None:
        """Set the maximum number of threads; surplus ones end after their task. ValueError below 1."""
        self._check(threads)
        with self._condition:
            self._limit = threads
            self._ensure_thread()
            self._condition.notify_all()

    def shutdown(self) -> None:
        """Drop scheduled tasks, finish submitted and running ones, and return when all threads have ended."""
        with self._condition:
            self._stopping = True
            for _, _, entry in self._timed:
                self._count(entry.name).scheduled -= 1
            self._timed.clear()
            threads = list(self._threads)
            self._condition.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def time_moved(self) -> None:
        """Called when a test's clock was set forward: starts what is due, without waiting for real time."""
        with self._condition:
            self._condition.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Wait until no task is due, waits for a thread or runs; False on time-out. Blocks.

        Not from a task of its own. Tasks that are scheduled for later do not count.
        """
        return self._wait_for(self._is_quiet, timeout_s)

    def finish(self, name: str, timeout_s: float) -> bool:
        """Wait until no task of this name is scheduled, waits for a thread or runs; False on time-out. Blocks."""
        return self._wait_for(lambda: name not in self._counts or self._counts[name].is_over, timeout_s)

    def _wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        with self._condition:
            self._watchers += 1
            try:
                return self._condition.wait_for(condition, timeout_s)
            finally:
                self._watchers -= 1

    @property
    def threads(self) -> int:
        """Number of threads that exist now."""
        return len(self._threads)

    @property
    def limit(self) -> int:
        """Threads that there may be: as set, but one for each lane at least."""
        return max(self._limit, len(self._lanes))

    def statistics(self) -> dict[str, TaskCounts]:
        """Counts of every task name seen so far."""
        with self._condition:
            return {
                name: TaskCounts(count.scheduled, count.waiting, count.running, count.runs, count.failures)
                for name, count in sorted(self._counts.items())
            }

    @staticmethod
    def _check(threads: int) -> None:
        if threads < 1:
            raise ValueError(f"a scheduler needs at least 1 thread, not {threads}")

    # --- under the lock ---

    def _is_quiet(self) -> bool:
        now = self._time.monotonic_ms()
        return not (
            any(lane.ready or lane.running for lane in self._turns)
            or any(due <= now and not task.cancelled for due, _, task in self._timed)
        )

    def _count(self, name: str) -> _Counts:
        counts = self._counts.get(name)
        if counts is None:
            counts = self._counts[name] = _Counts()
        return counts

    def _push(self, entry: _Task) -> None:
        self._count(entry.name).scheduled += 1
        heapq.heappush(self._timed, (entry.due, next(self._numbers), entry))
        if self._timed[0][2] is entry:
            # The leader, if any, sleeps for a later time; whichever thread wakes now takes over (see `_take`).
            self._condition.notify()

    def _make_ready(self, task: _Task) -> None:
        self._count(task.name).waiting += 1
        task.lane.ready.append(task)

    def _room(self, lane: _Lane) -> int:
        """Number of further tasks of the lane that may run now."""
        share = self.limit if lane is self._open_lane else max(1, self.limit // len(self._lanes))
        return share - lane.running

    def _ensure_thread(self) -> None:
        # An idle thread must be there for the delays, and one for each ready task that may run.
        if len(self._threads) >= self.limit:
            return
        ready = sum(min(len(lane.ready), max(self._room(lane), 0)) for lane in self._turns)
        if ready > self._idle or (self._timed and not self._idle):
            thread = threading.Thread(target=self._work, name=f"{self._thread_name}-{next(self._numbers)}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no more
                if not self._threads:
                    raise
                logger.debug("%d background threads do all work: %s", len(self._threads), error)
            else:
                self._threads.add(thread)  # it waits for the lock, which is held here

    def _next_ready(self) -> _Task | None:
        """The first ready task, from the first lane in turn that may run one."""
        for lane in self._turns:
            if lane.ready and self._room(lane) > 0:
                self._turns.remove(lane)
                self._turns.append(lane)
                task = lane.ready.popleft()
                lane.running += 1
                counts = self._count(task.name)
                counts.waiting -= 1
                counts.running += 1
                return task
        return None

    def _take(self) -> _Task | None:
        """The next task to run, or None when this thread shall end. Waits under the lock."""
        while True:
            if len(self._threads) > self.limit:
                return None
            now = self._time.monotonic_ms()
            while self._timed and (self._timed[0][0] <= now or self._timed[0][2].cancelled):
                entry = heapq.heappop(self._timed)[2]
                self._count(entry.name).scheduled -= 1
                if not entry.cancelled:
                    self._make_ready(entry)
            task = self._next_ready()
            if task is not None:
                return task
            if self._stopping and not any(lane.ready for lane in self._turns):
                return None
            due = self._timed[0][0] if self._timed else None
            self._idle += 1
            if due is None or (self._leader_due is not None and self._leader_due <= due):
                self._condition.wait()
            else:
                self._leader_due = due
                self._condition.wait((due - now) / 1000)
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
                    if self._timed or any(lane.ready for lane in self._turns):
                        # This thread may have been the leader: another one takes over the delays.
                        self._ensure_thread()
                        self._condition.notify()
                failed = self._run(task)
                with self._condition:
                    self._finished(task, failed)
                del task  # a closure must not live on, with what it refers to, while the thread sleeps
        finally:
            with self._condition:
                self._threads.discard(threading.current_thread())
                if self._stopping:
                    self._condition.notify_all()  # the last task of a lane may have kept others waiting
                elif self._timed or any(lane.ready for lane in self._turns):
                    self._ensure_thread()

    def _run(self, task: _Task) -> bool:
        """Run a task; True if it failed."""
        if task.cancelled:
            return False
        try:
            task.run()
        except BaseException as error:
            if task.due != _SUBMITTED:  # else its Future has it
                again = "" if task.period_ms is None else "; it runs again next time"
                is_told = says_what_is_wrong(error)
                logger.error("%s failed: %s%s", task.name, error, again, exc_info=not is_told)
            return True
        return False

    def _finished(self, task: _Task, failed: bool) -> None:
        task.lane.running -= 1
        counts = self._count(task.name)
        counts.running -= 1
        counts.runs += 1
        counts.failures += failed
        if task.period_ms is not None and not task.cancelled and not self._stopping:
            # A fixed delay from the moment it was due: no burst to catch up after a long run.
            task.due = max(task.due + task.period_ms, self._time.monotonic_ms())
            self._push(task)
        if self._watchers:
            self._condition.notify_all()


_SUBMITTED = float("-inf")
"""Due time of a submitted task, which is earlier than any scheduled one."""
