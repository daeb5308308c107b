"""Reads of old records from the disk, paced so that they leave room for who writes and reads at the end of a log.

A fetch of records that are not in memory has their pages read by a thread before they are sent (`outbound.py`). A consumer that
catches up asks for such pages as fast as they come; unbounded, its reads fill the device's queue, and each append, sync and read
at a log's tail waits behind them. So the reads of each device are bounded here:

- one at a time, in the order in which they were asked for, by a thread of the device's own: a disk that hangs holds up the cold
  readers of that disk, and nobody else;
- each as large as the disk reads in some milliseconds: half as large after one that took long, larger again after quick ones;
- after each, a pause in proportion to what it took, while producers write: the disk is free for others for at least that part of
  the time. A disk that others keep busy reads slowly, and so makes the pauses longer.

With `fetch.cold.disk.percent=100` catching up goes first: several reads at a time, and no pauses. Loop thread.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...storage.io.filesystem import File

#: Bytes of one read, at most and at least.
MOST_BYTES = 1 << 20
LEAST_BYTES = 128 << 10
#: Seconds. A read that took longer is followed by smaller ones; one that took less than half of it by larger ones.
LONG_S = 0.008
#: Seconds. The pause after a read that took very long, at most.
LONGEST_PAUSE_S = 1.0
#: Seconds after the last produced byte was seen for which reads are paced.
WRITTEN_S = 1.0
#: Reads of one device at a time where catching up goes first.
THREADS = 4

Done = Callable[[int, BaseException | None], None]
"""Told how many bytes were read, or what went wrong."""


class Threads(Protocol):
    """Executor of one device."""

    def submit(self, task: Callable[[], float], done: Callable[[float, BaseException | None], None]) -> None:
        """Run `task`, which returns the seconds that it took, in a thread; then `done` on the loop thread."""

    def close(self) -> None:
        """Begin nothing more."""


class _DeviceThreads:
    """Threads that are made when first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, device: int) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(THREADS, f"cold-reads-{os.major(device)}:{os.minor(device)}")

    def submit(self, task: Callable[[], float], done: Callable[[float, BaseException | None], None]) -> None:
        def told(future: asyncio.Future[float]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            done(0.0 if error is not None else future.result(), error)

        self._loop.run_in_executor(self._pool, task).add_done_callback(told)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Device:
    """Reads of one device: those that wait, in their order, and what is under way."""

    __slots__ = ("size", "threads", "timer", "under_way", "waiting")

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        self.waiting: deque[tuple[File, int, int, Done]] = deque()
        self.under_way = 0
        self.size = MOST_BYTES
        self.timer: asyncio.TimerHandle | None = None


class ColdReads:
    """Loop thread.

    Attributes:
        percent: of the time that a disk may be kept busy by these reads while producers write; 100: they go first.
        written: returns a number that changes when producers have written something.
        reads, read_bytes: totals since the start.
        read_s, paused_s: seconds that disks took for them; that they were made to wait after one another.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        percent: int,
        *,
        threads_of: Callable[[asyncio.AbstractEventLoop, int], Threads] = _DeviceThreads,
        device_of: Callable[[File], int] = lambda file: os.fstat(file.fileno()).st_dev,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._loop = loop
        self.percent = percent
        self.written: Callable[[], int] = int
        self.reads = self.read_bytes = 0
        self.read_s = self.paused_s = 0.0
        self._threads_of = threads_of
        self._device_of = device_of
        self._clock = clock
        self._devices: dict[int, _Device] = {}
        self._seen = 0
        self._written_at = -WRITTEN_S
        self._closed = False

    def __len__(self) -> int:
        """Reads that wait."""
        return sum(len(device.waiting) for device in self._devices.values())

    def read(self, file: File, position: int, count: int, done: Done) -> None:
        """Have the pages of `count` bytes from `position` read, or of the first of them; then call `done` with how many. The file
        is kept open until then."""
        number = self._device_of(file)
        device = self._devices.get(number)
        if device is None:
            device = self._devices[number] = _Device(self._threads_of(self._loop, number))
        file.retain()
        device.waiting.append((file, position, count, done))
        self._go_on(device)

    def close(self) -> None:
        """Reads that wait are told to nobody any more. Those under way end by themselves."""
        self._closed = True
        for device in self._devices.values():
            if device.timer is not None:
                device.timer.cancel()
            while device.waiting:
                device.waiting.popleft()[0].release()
            device.threads.close()

    def _go_on(self, device: _Device) -> None:
        most = THREADS if self.percent >= 100 else 1
        while device.waiting and device.under_way < most and device.timer is None and not self._closed:
            file, position, count, done = device.waiting.popleft()
            count = min(count, device.size if most == 1 else MOST_BYTES)
            device.under_way += 1
            device.threads.submit(
                partial(_read, self._clock, file, position, count), partial(self._finished, device, count, done)
            )

    def _finished(self, device: _Device, count: int, done: Done, took_s: float, error: BaseException | None) -> None:
        device.under_way -= 1
        if self._closed:
            return
        if error is None:
            self.reads += 1
            self.read_bytes += count
            self.read_s += took_s
            if took_s > LONG_S:
                device.size = max(device.size // 2, LEAST_BYTES)
            elif took_s < LONG_S / 2:
                device.size = min(device.size * 2, MOST_BYTES)
            pause_s = self._pause_after(took_s)
            if pause_s > 0 and device.timer is None:
                self.paused_s += pause_s
                device.timer = self._loop.call_later(pause_s, self._pause_is_over, device)
        try:
            done(count, error)
        finally:
            self._go_on(device)

    def _pause_after(self, took_s: float) -> float:
        """Seconds for which the device is left to others after a read of `took_s`."""
        if self.percent >= 100:
            return 0.0
        written, now = self.written(), self._clock()
        if written != self._seen:
            self._seen, self._written_at = written, now
        elif now - self._written_at >= WRITTEN_S:
            return 0.0
        return min(took_s * (100 - self.percent) / self.percent, LONGEST_PAUSE_S)

    def _pause_is_over(self, device: _Device) -> None:
        device.timer = None
        self._go_on(device)


def _read(clock: Callable[[], float], file: File, position: int, count: int) -> float:
    """Read pages into the page cache, and give the caller's reference back. Returns the seconds. A thread of the device."""
    began = clock()
    try:
        file.prefetch(position, count)
    finally:
        file.release()
    return clock() - began
