"""Threads that wait for disks: the syncs that answers wait for, in one group of threads per log directory; with one
thread, the appends to a directory that is slow (`append_offload.py`).

With `flush.messages=1` a sync is asked for with every append, so what a sync costs besides the disk counts: the work goes
to the threads through a C queue, and all that they finished until the loop looks comes back in one wake-up of it. The
directories have threads of their own so that a slow disk holds up nobody but its own partitions.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio

#: Threads per log directory. They sleep in fdatasync; that many syncs at once let a file system share its journal commits.
THREADS = 4

T = TypeVar("T")

#: Outcome of a sync: the offset up to which a log is durable, or why it failed.
Outcome: TypeAlias = "int | BaseException"


class DiskWorkers(Generic[T]):
    """Runs functions that block, and calls back on the loop thread. One per log directory.

    `submit` and `close`: loop thread. No more than one sync per log is under way, so the queue has at most one entry a
    partition; `AppendOffload` bounds its own. Functions start in their order; with one thread they end in it, and are
    told in it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, threads: int = THREADS) -> None:
        self._loop = loop
        self._name = name
        self._limit = threads
        self._threads: list[threading.Thread] = []
        self._work: SimpleQueue[tuple[Callable[[], T], Callable[[T | BaseException], None]] | None] = SimpleQueue()
        self._finished: deque[tuple[Callable[[T | BaseException], None], T | BaseException]] = deque()
        self._under_way = 0
        self._loop_is_woken = False
        self._closed = False

    def submit(self, sync: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """`sync` in a thread, then `done` with its outcome on the loop."""
        self._under_way += 1
        self._work.put((sync, done))
        if self._under_way > len(self._threads) < self._limit:
            thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """The threads end after what they have; what is finished after this is told to nobody."""
        self._closed = True
        for _ in self._threads:
            self._work.put(None)

    @property
    def dead_threads(self) -> int:
        """Threads that ended though nobody closed this. Any thread."""
        return 0 if self._closed else sum(not thread.is_alive() for thread in list(self._threads) if thread.ident)

    def join(self) -> None:
        """Waits until the threads have done what they had at `close`. Any thread but the loop's; blocks."""
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            sync, done = work
            try:
                outcome: T | BaseException = sync()
            except BaseException as error:  # handed to the loop thread, whoever it is meant for
                outcome = error
            self._finished.append((done, outcome))
            # Set here and cleared there before it looks, so that nothing finished is left lying.
            if not self._loop_is_woken and not self._closed:
                self._loop_is_woken = True
                with contextlib.suppress(RuntimeError):  # the loop was closed at this moment
                    self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._loop_is_woken = False
        while self._finished and not self._closed:
            done, outcome = self._finished.popleft()
            self._under_way -= 1
            done(outcome)
