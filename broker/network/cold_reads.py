"""Reads of old records from the disk, paced so that they leave room for who writes and reads at the end of a log.

A fetch of records that are not in memory has their pages read by a thread before they are sent (`outbound.py`). A consumer that
catches up asks for such pages as fast as they come; unbounded, its reads fill the device's queue, and each append, sync and read
at a log's tail waits behind them. So the reads of each device are bounded here:

- one at a time, in the order in which they were asked for, by a thread of the device's own: a disk that hangs holds up the cold
  readers of that disk, and nobody else;
- each as large as the disk reads in some milliseconds: half as large after one that took long, larger again after quick ones;
- after each, a pause in proportion to what it took, while producers write: the disk is free for others for at least that part of
  the time. A disk that others keep busy reads slowly, and so makes the pauses longer.

Where nobody waits for a read, one is made *ahead* for a reader who takes one slice after the other (`read_ahead.py`): behind
its last slice, within the same bounds. Pages that are being read are not in memory (`File.is_cached`): who asks for them waits
for that read.

With `fetch.cold.disk.percent=100` catching up goes first: several reads at a time, larger ones ahead, and no pauses. Loop thread.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from ...storage.exceptions import FileClosedError
from .read_ahead import Streams

if TYPE_CHECKING:
    from ...storage.io.filesystem import File
    from .read_ahead import Stream

#: Bytes of one read, at first, at most and at least. A slice that is asked for has 1 MiB; ahead a quick disk reads more at once.
FIRST_BYTES = 1 << 20
MOST_BYTES = 4 << 20
LEAST_BYTES = 128 << 10
#: Bytes of one read ahead where catching up goes first: what the disk is busy with while slices are sent.
MOST_AHEAD_BYTES = 8 << 20
#: Bytes that may be read ahead for all streams together, on all devices.
MOST_AHEAD_OF_ALL = 64 << 20
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

Forget = Callable[[], None]
"""Takes a request back: nobody is told any more. Harmless when it was told already."""

_Asked = tuple["File", int, int, Done]
"""The file of which pages are asked for, where, how many bytes, and whom to tell. It may be another object than the read's, which
was opened anew meanwhile and has the same identity, and is leased for itself."""


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
        # What was begun ends by itself, and gives its file back: there are no more than `THREADS` of them.
        self._pool.shutdown(wait=False)


class Job:
    """A read that waits or is under way. It holds a lease on its file, which its thread gives back, and one on the file of each
    that has asked.

    Attributes:
        done: told at the end; None: it is made ahead.
        asked: who has asked for pages of it since it began.
    """

    __slots__ = ("asked", "begun", "count", "done", "file", "position", "stream")

    def __init__(self, file: File, position: int, count: int, stream: Stream, done: Done | None) -> None:
        self.file = file.retain()
        self.position = position
        self.count = count
        self.stream = stream
        self.done = done
        self.begun = False
        self.asked: list[_Asked] = []

    def forget_asked(self) -> None:
        """Tell nobody who has asked."""
        for file, *_ in self.asked:
            file.release()
        self.asked.clear()

    def brings(self, position: int, count: int) -> bool:
        """True if it is under way, and some of these pages are among its own."""
        return self.begun and self.position < position + count and position < self.position + self.count


class _Device:
    """Reads of one device: those that wait, in their order, and what is under way."""

    __slots__ = ("ahead", "size", "threads", "timer", "under_way", "waiting")

    def __init__(self, threads: Threads) -> None:
        self.threads = threads
        # By their order. Any of them may be taken out, of very many.
        self.waiting: OrderedDict[Job, None] = OrderedDict()
        self.ahead: OrderedDict[Job, None] = OrderedDict()  # one of each stream at most
        self.under_way: set[Job] = set()
        self.size = FIRST_BYTES
        self.timer: asyncio.TimerHandle | None = None


class ColdReads:
    """Loop thread.

    Attributes:
        percent: of the time that a disk may be kept busy by these reads while producers write; 100: they go first.
        written: returns a number that changes when producers have written something.
        reads, read_bytes: totals since the start, reads ahead included.
        ahead_bytes: of those, read ahead.
        read_s, paused_s: seconds that disks took for them; that they were made to wait after one another.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        percent: int,
        *,
        threads_of: Callable[[asyncio.AbstractEventLoop, int], Threads] = _DeviceThreads,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._loop = loop
        self.percent = percent
        self.written: Callable[[], int] = int
        self.reads = self.read_bytes = self.ahead_bytes = 0
        self.read_s = self.paused_s = 0.0
        self._threads_of = threads_of
        self._clock = clock
        self._devices: dict[int, _Device] = {}
        self._streams = Streams()
        self._seen = 0
        self._written_at = -WRITTEN_S
        self._closed = False

    def __len__(self) -> int:
        """Reads that wait, but for those that are made ahead."""
        return sum(len(device.waiting) for device in self._devices.values())

    def read(self, file: File, position: int, count: int, done: Done) -> Forget:
        """Have the pages of `count` bytes from `position` read, or of the first of them; then call `done` with how many. The file
        is kept open until then, or until who has asked takes it back."""
        identity = file.identity
        device = self._device(identity[0])
        stream, forgotten = self._streams.of(identity, position)
        if forgotten is not None:
            self._drop_ahead(forgotten)
        stream.position = position
        ahead = stream.job
        if ahead is not None and ahead.brings(position, count):
            ahead.asked.append(asked := (file.retain(), position, count, done))
            return partial(_forget_asked, ahead, asked)
        self._drop_ahead(stream)  # it may be as far as the reader is: what is waited for goes first
        stream.asked += 1
        device.waiting[job := Job(file, position, count, stream, done)] = None
        self._go_on(device)
        return partial(self._forget, device, job)

    def _forget(self, device: _Device, job: Job) -> None:
        """Read no more for who has gone, unless the disk is at it: then tell nobody."""
        job.done = _tell_nobody
        if job in device.waiting:
            del device.waiting[job]
            job.stream.asked -= 1
            job.file.release()

    def _drop_ahead(self, stream: Stream) -> None:
        """Take back what is to be read ahead for the stream, unless the disk is at it."""
        job = stream.job
        if job is not None and not job.begun:
            del self._device(job.file.identity[0]).ahead[job]
            job.file.release()
            stream.job = None

    def brought(self, file: File, position: int, count: int) -> int:
        """How many of `count` bytes from `position`, which are not all in memory, were read ahead and still are; 0: none."""
        stream = self._streams.find(file.identity, position)
        if stream is None:
            return 0
        end = stream.end if stream.job is None or not stream.job.begun else stream.job.position
        there = min(count, end - position)
        return there if there > 0 and file.is_cached(position, there) else 0

    def passed(self, file: File, position: int, count: int) -> None:
        """Note that `count` bytes from `position` are in memory and about to be sent, so that the next ones are read for a reader
        whose pages were read before."""
        if not len(self._streams):
            return
        identity = file.identity
        stream = self._streams.find(identity, position)
        if stream is not None:
            stream.position = position + count
            self._read_ahead(self._device(identity[0]), stream, file)

    def close(self) -> None:
        """Reads that wait are told to nobody any more. Those under way end by themselves."""
        self._closed = True
        for device in self._devices.values():
            if device.timer is not None:
                device.timer.cancel()
            for waiting in (device.waiting, device.ahead):
                while waiting:
                    waiting.popitem(last=False)[0].file.release()
            for job in device.under_way:
                job.forget_asked()
            device.threads.close()

    def _device(self, number: int) -> _Device:
        device = self._devices.get(number)
        if device is None:
            device = self._devices[number] = _Device(self._threads_of(self._loop, number))
        return device

    @property
    def _goes_first(self) -> bool:
        return self.percent >= 100

    def _read_ahead(self, device: _Device, stream: Stream, file: File) -> None:
        """Have a read made for the stream behind what was read for it, unless there is one, or enough was read."""
        if stream.job is not None or stream.asked or stream.is_forgotten or self._closed:
            return
        # Two such reads for each stream: one whose pages are being sent, and the next.
        most = MOST_AHEAD_BYTES if self._goes_first else max(device.size, FIRST_BYTES)
        most = min(most, MOST_AHEAD_OF_ALL // 2 // len(self._streams))
        start = max(stream.position, stream.end)
        limit = min(stream.position + 2 * most, file.size())
        while start < limit:
            step = min(FIRST_BYTES, limit - start)
            cached = file.is_cached(start, step)
            if cached is None:  # the system does not tell: what was read ahead would be read again
                return
            if not cached:
                break
            start += step
        stream.end = start
        count = min(limit - start, most)
        if count <= 0 or (count < most and limit < file.size()):  # not in small pieces, each time that a slice was sent
            return
        stream.job = job = Job(file, start, count, stream, None)
        device.ahead[job] = None
        self._go_on(device)

    def _go_on(self, device: _Device) -> None:
        most = THREADS if self._goes_first else 1
        while len(device.under_way) < most and device.timer is None and not self._closed:
            if device.waiting:
                job, _ = device.waiting.popitem(last=False)
            elif device.ahead:
                job, _ = device.ahead.popitem(last=False)
            else:
                return
            if not self._goes_first:
                job.count = min(job.count, device.size)
            job.begun = True
            if job.done is None:
                job.stream.end = job.position + job.count
            device.under_way.add(job)
            device.threads.submit(
                partial(_read, self._clock, job.file, job.position, job.count), partial(self._finished, device, job)
            )

    def _finished(self, device: _Device, job: Job, took_s: float, error: BaseException | None) -> None:
        device.under_way.discard(job)
        stream = job.stream
        if job.done is None:
            stream.job = None
        if self._closed:
            return
        if error is None:
            self._took(device, job, took_s)
        try:
            if job.done is None:
                self._ended_ahead(job, error)
            else:
                stream.asked -= 1
                if error is None:
                    stream.position = job.position + job.count
                    stream.end = max(stream.end, stream.position)
                job.done(job.count, error)
            if error is None:
                self._read_further(device, job)
        finally:
            self._go_on(device)

    def _read_further(self, device: _Device, job: Job) -> None:
        """Have what follows on a read made ahead, unless nobody has the file open any more."""
        try:
            file = job.file.retain()
        except FileClosedError:
            return
        try:
            self._read_ahead(device, job.stream, file)
        finally:
            file.release()

    def _took(self, device: _Device, job: Job, took_s: float) -> None:
        self.reads += 1
        self.read_bytes += job.count
        if job.done is None:
            self.ahead_bytes += job.count
        self.read_s += took_s
        if took_s > LONG_S:
            device.size = max(device.size // 2, LEAST_BYTES)
        elif took_s < LONG_S / 2:
            device.size = min(device.size * 2, MOST_BYTES)
        pause_s = self._pause_after(took_s)
        if pause_s > 0 and device.timer is None:
            self.paused_s += pause_s
            device.timer = self._loop.call_later(pause_s, self._pause_is_over, device)

    def _ended_ahead(self, job: Job, error: BaseException | None) -> None:
        """Tell those who have asked for pages of a read ahead while it was made. What they do not have by it is read for them."""
        if error is not None:
            job.stream.end = min(job.stream.end, job.position)
        while job.asked:  # one who is told may take back what another has asked for
            file, position, count, done = job.asked.pop(0)
            count_there = min(count, job.position + job.count - position)
            try:
                if error is None and count_there > 0 and file.is_cached(position, count_there):
                    job.stream.position = position + count_there
                    done(count_there, None)
                else:
                    self.read(file, position, count, done)
            finally:
                file.release()

    def _pause_after(self, took_s: float) -> float:
        """Seconds for which the device is left to others after a read of `took_s`."""
        if self._goes_first:
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


def _tell_nobody(count: int, error: BaseException | None) -> None:
    """For who has gone while the disk was at it."""


def _forget_asked(job: Job, asked: _Asked) -> None:
    if asked in job.asked:
        job.asked.remove(asked)
        asked[0].release()


def _read(clock: Callable[[], float], file: File, position: int, count: int) -> float:
    """Read pages into the page cache, and give the caller's reference back. Returns the seconds. A thread of the device."""
    began = clock()
    try:
        file.prefetch(position, count)
    finally:
        file.release()
    return clock() - began
