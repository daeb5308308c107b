"""CleanerPool: log.cleaner.threads threads, each of which cleans the log that most needs it, or waits.

The dedupe buffer is for all threads together: each gets its share, so a change of either number makes new maps. A resize lets
passes under way end where they are; they are taken up again at once, since a pass that began to swap is remembered. A stop
does the same and takes less than a second: passes ask between chunks, and those that wait for the throttle wake up.

Where walks run in processes (`process/`), each thread has one, from its first pass on until it has had none for a minute.

No exception ends a thread: what a log does wrong marks that log (`CleanerManager`), anything else is logged and waited out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .cleaning import Cleaner, PassResult
from .exceptions import CleaningAborted
from .process_counts import ProcessCounts
from .throttler import Throttler

if TYPE_CHECKING:
    from ..storage.clock import Time
    from .cleaner_manager import CleanerManager, Work
    from .cleaning import PassWalker

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 10.0
AFTER_ABORT_MS = 500
REST_STEP_MS = 15_000
"""Longest wait of an idle thread before it asks whether its process has rested long enough to end."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """The log.cleaner.* settings that concern threads and memory. Sizes in bytes."""

    threads: int = 1
    dedupe_buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 512 << 10
    io_bytes_per_second: float = float("inf")
    backoff_ms: int = 15_000
    in_processes: bool = False
    """Whether walks run in processes of their own, one for each thread: only where files are the machine's."""
    niceness: int = 19
    """Priority of those processes."""

    @property
    def of_threads(self) -> tuple[object, ...]:
        """The settings that a thread has when it begins."""
        return (
            self.threads,
            self.dedupe_buffer_bytes,
            self.load_factor,
            self.io_buffer_bytes,
            self.in_processes,
            self.niceness,
        )


class ThreadState(NamedTuple):
    """Current work of one cleaner thread: `log_name` is the log being cleaned, None while the thread waits."""

    number: int
    log_name: str | None
    is_alive: bool


class CleanerPool:
    """Started, resized and stopped by one thread at a time; counters may be read by any thread.

    Attributes:
        idle_ms, busy_ms: of all threads together, since the start.
        processes: in which walks run.
    """

    def __init__(
        self,
        manager: CleanerManager,
        settings: PoolSettings,
        *,
        time: Time,
        secret: Callable[[], bytes],
        lower_priority: Callable[[], None] = lambda: None,
    ) -> None:
        """`lower_priority` is called in each thread as it begins; `secret` is passed to each `Cleaner`."""
        self.manager = manager
        self.settings = settings
        self._time = time
        self.secret = secret
        self._lower_priority = lower_priority
        self.throttler = Throttler(settings.io_bytes_per_second, time)
        self.processes = ProcessCounts()
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self._looked = threading.Condition()
        self._round = 0  # of `settle`; under `_looked`
        self.is_running = False
        self.idle_ms = 0.0
        self.busy_ms = 0.0
        self.last_results: dict[int, PassResult] = {}

    def start(self) -> None:
        """Start the threads; does nothing when they run."""
        with self._lock:
            if not self.is_running:
                self.is_running = True
                self._start_workers()

    def _start_workers(self) -> None:
        settings = self.settings
        self._workers = [Worker(self, number) for number in range(settings.threads)]
        self.last_results = {n: r for n, r in self.last_results.items() if n < settings.threads}
        for worker in self._workers:
            worker.thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Abort running passes and join the threads. Blocks, for less than a second unless a disk hangs."""
        with self._lock:
            self.is_running = False
            self._stop_workers(timeout_s)

    def _stop_workers(self, timeout_s: float) -> None:
        for worker in self._workers:
            worker.stopping.set()
            worker.wake.set()
        with self._looked:
            self._looked.notify_all()
        for worker in self._workers:
            if worker.thread.ident is not None:
                worker.thread.join(timeout_s)
        self._workers = []

    def configure(self, settings: PoolSettings) -> None:
        """Apply new settings. A new rate takes effect during a pass; other changes restart the threads. Blocks as
        `stop` does.
        """
        with self._lock:
            old, self.settings = self.settings, settings
            if settings.io_bytes_per_second != old.io_bytes_per_second:
                self.throttler.set_rate(settings.io_bytes_per_second)
            if self.is_running and old.of_threads != settings.of_threads:
                self._stop_workers(STOP_TIMEOUT_S)
                self._start_workers()
            for worker in self._workers:
                worker.wake.set()

    def settle(self, timeout_s: float) -> bool:
        """Have every thread look for work now, and wait until none finds any; False on time-out. Blocks.

        A log whose pass fails does not hold it up: it waits for its next attempt. At once True where no thread runs.
        """
        with self._looked:
            self._round += 1
            workers, wanted = list(self._workers), self._round
            for worker in workers:
                worker.wake.set()
            return self._looked.wait_for(
                lambda: all(worker.idle_round >= wanted or worker.stopping.is_set() for worker in workers), timeout_s
            )

    def make_cleaner(self) -> Cleaner:
        """A Cleaner with one thread's share of the memory. Its `close` ends its process."""
        from .kernel.offset_map import make_map, memory_per_thread  # costs an idle daemon nothing

        settings = self.settings
        memory = memory_per_thread(settings.dedupe_buffer_bytes, settings.threads)
        buffer_bytes = settings.io_buffer_bytes // settings.threads // 2
        walker: PassWalker
        if settings.in_processes:
            from .process.walker import ProcessWalker, WalkerSettings

            walker = ProcessWalker(
                WalkerSettings(memory, settings.load_factor, buffer_bytes, niceness=settings.niceness), self.processes
            )
        else:
            from .walk import Walker

            walker = Walker(make_map(memory, settings.load_factor), buffer_bytes=buffer_bytes)
        return Cleaner(walker, throttler=self.throttler, time=self._time, secret=self.secret)

    # --- numbers: any thread ---

    @property
    def thread_count(self) -> int:
        return len(self._workers)

    @property
    def dead_threads(self) -> int:
        """Number of threads that have ended although the pool runs."""
        return sum(
            1 for worker in list(self._workers) if worker.thread.ident is not None and not worker.thread.is_alive()
        )

    def threads(self) -> list[ThreadState]:
        """State of each thread, in order of its number."""
        return [
            ThreadState(worker.number, worker.log_name, worker.thread.ident is None or worker.thread.is_alive())
            for worker in list(self._workers)
        ]

    def results(self) -> list[PassResult]:
        """The last pass of each thread that had one."""
        return list(self.last_results.values())


class Worker:
    """One cleaner thread, and the PassControl of its passes."""

    def __init__(self, pool: CleanerPool, number: int) -> None:
        self._pool = pool
        self.number = number
        self.log_name: str | None = None
        self.stopping = threading.Event()
        self.wake = threading.Event()
        self.idle_round = 0
        self._cleaner: Cleaner | None = None
        self.thread = threading.Thread(target=self._run, name=f"cleaner-{number}", daemon=True)

    def check(self) -> None:
        if self.stopping.is_set():
            raise CleaningAborted("the cleaner stops")

    def wait(self, milliseconds: float) -> None:
        if self.stopping.wait(milliseconds / 1000):
            raise CleaningAborted("the cleaner stops")

    def _run(self) -> None:
        self._pool._lower_priority()
        try:
            self._work()
        finally:
            if self._cleaner is not None:
                self._cleaner.close()

    def _work(self) -> None:
        pool = self._pool
        while not self.stopping.is_set():
            begun_in = pool._round
            try:
                work = pool.manager.take_next()
                if work is not None:
                    # Allocated with the first work: most daemons never clean.
                    try:
                        self._cleaner = self._cleaner or pool.make_cleaner()
                    except BaseException:  # no memory for the map, no descriptor for a module
                        pool.manager.give_back(work)
                        raise
                    if not self._clean(work, self._cleaner):
                        # The next round takes this log again, or another. The cause of this abort may abort the next pass at
                        # once, so wait a little instead of spinning.
                        self.pause(min(pool.settings.backoff_ms, AFTER_ABORT_MS))
                    continue
            except Exception:  # CleanerManager.clean records errors of a log; no other error may end the thread
                logger.exception("the cleaner met an error and goes on")
            with pool._looked:
                self.idle_round = begun_in
                pool._looked.notify_all()
            self.pause(pool.settings.backoff_ms)

    def _clean(self, work: Work, cleaner: Cleaner) -> bool:
        pool = self._pool
        begun = pool._time.monotonic_ms()
        self.log_name = work.log.name
        try:
            result = pool.manager.clean(work, cleaner, self)
        finally:
            self.log_name = None
        if result is not None:
            pool.last_results[self.number] = result
        pool.busy_ms += pool._time.monotonic_ms() - begun
        return result is not None

    def pause(self, milliseconds: float) -> None:
        """Wait, until `wake` is set at most; the time counts as idle."""
        pool = self._pool
        begun, left = pool._time.monotonic_ms(), milliseconds
        while True:
            is_woken = self.wake.wait(min(left, REST_STEP_MS) / 1000)
            if self._cleaner is not None:
                self._cleaner.rest()
            left -= REST_STEP_MS
            if is_woken or left <= 0:
                break
        self.wake.clear()
        pool.idle_ms += pool._time.monotonic_ms() - begun
