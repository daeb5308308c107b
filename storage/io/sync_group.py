"""Syncs of many small files, several at a time.

A sync waits for the disk and not for a processor. File systems make one journal commit of all syncs that wait together, and a
disk flushes its cache once for them: eight threads are several times as quick as one. Where a burst of rolls has left
thousands of segments, each with five files to make durable, that is seconds instead of minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

FEW = 8
"""Number of items below which the caller's thread does them alone: making threads costs more than waiting."""


def sync_group(
    items: Sequence[T], sync: Callable[[T], object], at_once: int, done: Callable[[int], object] | None = None
) -> None:
    """Call `sync` with each of `items`, begun in their order, by up to `at_once` threads, the caller's among them; return when
    all calls have ended. Where the system gives no more threads, fewer do it.

    The first exception lets no further call begin, and is raised when those under way have ended. `done` is told after each call
    how many have ended, in one thread at a time. Blocks; any thread but the loop's.
    """
    if at_once <= 1 or len(items) < FEW:
        for count, item in enumerate(items, 1):
            sync(item)
            if done is not None:
                done(count)
        return
    group = _Group(items, sync, done)
    helpers = [
        threading.Thread(target=group.work, name=f"sync-group-{number}", daemon=True)
        for number in range(1, min(at_once, len(items)))
    ]
    started: list[threading.Thread] = []
    try:
        with suppress(RuntimeError):  # no more threads: of the system's limits, or at the interpreter's end
            for helper in helpers:
                helper.start()
                started.append(helper)
        group.work()
    finally:
        for helper in started:
            helper.join()
    if group.error is not None:
        raise group.error


class _Group:
    """Items that several threads share out among themselves."""

    __slots__ = ("_done", "_ended", "_lock", "_rest", "_sync", "error")

    def __init__(self, items: Sequence[T], sync: Callable[[T], object], done: Callable[[int], object] | None) -> None:
        self._rest = iter(items)
        self._sync = sync
        self._done = done
        self._ended = 0
        self._lock = threading.Lock()  # over the items that are left, and what `done` is told
        self.error: BaseException | None = None

    def work(self) -> None:
        while True:
            with self._lock:
                if self.error is not None:
                    return
                try:
                    item = next(self._rest)
                except StopIteration:
                    return
            try:
                self._sync(item)
            except BaseException as error:
                with self._lock:
                    self.error = self.error or error
                return
            with self._lock:
                self._ended += 1
                if self._done is not None:
                    self._done(self._ended)
