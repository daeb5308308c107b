"""The conversion thread, for work that would hold the loop too long: appends and fetches that change a message format, and checks
of batches that grow a lot when they are decompressed. What it runs stands elsewhere: `storage/log/validator.py` for appends,
`protocol/records/conversion.py` for fetches, where `produce_fetch/legacy_fetch.py` and `message_set/fetch.py` call it.
`Partition.append` decides which appends go there, by the request's `LoopBudget`.

Formats 0 and 1 are read and written without the interpreter's lock (`protocol/records/_conversion.pyx`), some 0.1 µs a record and
1 ms a megabyte; codecs take ten to fifty times as long. A short set is converted on the loop, since handing it over would take
longer. What is long is done by one thread, beside the loop and on another core; the loop waits for what is left in Python, some
microseconds a batch. While it works, threads take turns more often than Python's 5 ms.

A compressed batch is checked on the loop for some milliseconds (`CHECK_NS`) and if it holds little
(`quick_expansion`): one of 4 KiB may hold 128 MiB, and looking at it would hold up everybody for a tenth of a second; one that
holds nothing may take as long, made of what is expensive to decompress. So a `LoopBudget` has, for one request:

    compressed batches   until the request has taken LOOP_NS, each for CHECK_NS at most, and what `quick_expansion` allows
    plain batches        of any number; large ones (TIMED_BYTES) until the request has taken LOOP_NS, very large ones never
    other formats        quick ones (`is_quick`), until `convertible` bytes are used up

An append is made ready on the thread, and appended on the loop thread like any other (or by the slow directory's writer): offsets
are given then, so the log's order is that of the appends. A connection has one request at a time and stands still until it is
answered, so its order is kept too; within a request, batches at the thread must not be overtaken: `LoopBudget.ahead` has their
partitions.

One piece of work at a time has the thread, and each client (a principal, or an address) has its turn: one that sends thousands of
small batches, or few that hold a lot, waits for its own, and others for one of them. A waiting batch is a copy of its bytes,
without a task. It is bounded in bytes, of which each batch takes `JOB_BYTES` more than it has, so that many small ones are
bounded too; more is refused for now, with an error that clients try again after. Answers that are made in memory have places of
their own (`answers`), since what is ready of one waits there for the rest of it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records.attributes import COMPRESSION_MASK
from ...protocol.records.legacy_record import ATTRIBUTES_AT
from ...protocol.records.record_batch import ATTRIBUTES_AT as BATCH_ATTRIBUTES_AT
from ...protocol.records.record_batch import MAGIC_AT, MAGIC_V2
from ..runtime.fair_places import FairPlaces
from ..runtime.garbage import malloc_trim
from ..runtime.threads import shortened_switch_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ...storage.values import LogAppendInfo
    from .partition import Partition

    Append = Callable[[Partition, bytearray, "_Turn"], Coroutine[Any, Any, LogAppendInfo]]
    #: Gets the partition and the batch; raises if the batch must not be appended any more. Loop thread.
    CheckAgain = Callable[[Partition, bytearray], None]

LOOP_NS = 20_000_000
"""Loop time for compressed batches of one client's requests that came together; further ones go to the conversion thread."""

CHECK_NS = 5_000_000
"""Loop time for one compressed batch; one that takes longer is checked again from its beginning by that thread."""

TIMED_BYTES = 64 << 10
"""Plain batches above this size are looked at by that thread too, behind `LOOP_NS`: smaller ones take microseconds."""

CONVERTIBLE_BYTES = 512 << 10
"""Bytes of one request, or of one chunk of a long one, that the loop may convert: half a millisecond of the smallest records."""


class LoopBudget:
    """Budget of loop time for one request. `Partition.append` reads and writes it; loop thread.

    Attributes:
        client: in whose turn the conversion thread has what is handed to it.
        since: when the loop began with what the client sent, by `perf_counter_ns`.
        convertible: bytes whose format the loop may still change.
        ahead: partitions of which the conversion thread has been handed a batch; None: it has nothing of this request.
        check_again: called right before a batch is appended that the thread has had; raises if it must not be any more.
    """

    __slots__ = ("ahead", "check_again", "client", "convertible", "since")

    def __init__(self, client: str, since: int, convertible: int = CONVERTIBLE_BYTES) -> None:
        self.client = client
        self.since = since
        self.convertible = convertible
        self.ahead: set[Partition] | None = None
        self.check_again: CheckAgain | None = None


T = TypeVar("T")
Appended = TypeVar("Appended", bound="LogAppendInfo | None")

QUICK_BYTES = 64 << 10
"""A set of plain messages up to this size is converted on the loop: 2,500 at most, 70 µs; handing it over takes longer."""

TRIES = 3
"""Preparations of a set that other appends keep overtaking, before it is converted where nothing can overtake it."""


QUEUE_BYTES = 64 << 20
"""Limit of the bytes that wait for the thread, with `JOB_BYTES` for each batch."""
JOB_BYTES = 1024
"""Memory of a waiting batch beside its bytes, about: its place in the queue, its future, and its part of the answer."""
ANSWERS = 8
"""Fetches whose answers are made in memory at a time: up to 8 MiB each."""
CONVERTED_SLICE_BYTES = 1 << 20
"""Bytes of a log that a fetch has converted at once, except for a larger first batch: what was made waits in memory."""

QUICK_GROWTH = 16
LEAST_QUICK_BYTES, MOST_QUICK_BYTES = 256 << 10, 4 << 20


def quick_expansion(size: int) -> int:
    """Bytes that a compressed batch of `size` may hold to be checked on the loop. The time that was spent decides first; this
    bounds what one call of a codec may give, and the walk over the records: 2 ms a megabyte of the smallest."""
    return min(max(QUICK_GROWTH * size, LEAST_QUICK_BYTES), MOST_QUICK_BYTES)


class Conversions:
    """The thread. Loop thread but for what is run in it.

    Attributes:
        under_way: how many conversions are running or waiting for the thread.
        queued_bytes: what they hold of requests, and `JOB_BYTES` for each batch of them.
        answers: places of fetches that make their answers in memory.
        thread: its one place, which clients take in turn.
        checked: batches that were decompressed in the thread.
        refused: appends that found too much waiting.
    """

    __slots__ = ("_loop", "_pool", "_trimmed", "answers", "checked", "queued_bytes", "refused", "thread", "under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, "convert")
        self.thread = FairPlaces(1)
        self.answers = FairPlaces(ANSWERS)
        self.under_way = 0
        self.queued_bytes = self.checked = self.refused = self._trimmed = 0

    async def run(self, work: Callable[[], T], client: str) -> T:
        """Run `work` on the thread in the client's turn; returns or raises what it does."""
        self.under_way += 1
        try:
            async with self.thread.place(client):
                return await self._run(work)
        finally:
            self.under_way -= 1
            self._trim()

    async def _run(self, work: Callable[[], T]) -> T:
        """Run `work` on the thread; the caller holds its place."""
        with shortened_switch_interval():
            return await self._loop.run_in_executor(self._pool, work)

    def _trim(self) -> None:
        if self.checked != self._trimmed and not self.under_way:
            self._trimmed = self.checked
            with suppress(RuntimeError):  # closed: what a stop has cancelled comes to its end
                self._pool.submit(malloc_trim)

    def close(self) -> None:
        """Drop the work that has not begun and wait for the rest. Any thread."""
        self._pool.shutdown(cancel_futures=True)

    def append(
        self,
        partition: Partition,
        buffer: bytearray,
        start: int = 0,
        end: int | None = None,
        client: str = "",
        check_again: CheckAgain | None = None,
    ) -> asyncio.Future[LogAppendInfo]:
        """Appends the message set in buffer[start:end], or the batch for a topic of format 0 or 1. It is copied; the buffer
        is the caller's again at once. `client`: in whose turn; `check_again` as `LoopBudget` has it. Raises `ProtocolError`
        REQUEST_TIMED_OUT where too much waits; the future raises as `Partition.append`, and what `check_again` does."""
        end = len(buffer) if end is None else end
        return self._queued(partial(self._append, False, check_again), partition, buffer, start, end, client)

    def append_compressed(
        self,
        partition: Partition,
        buffer: bytearray,
        start: int,
        end: int,
        client: str = "",
        check_again: CheckAgain | None = None,
    ) -> asyncio.Future[LogAppendInfo]:
        """Check a compressed batch on the thread, then append it as `append` does."""
        return self._queued(partial(self._append, True, check_again), partition, buffer, start, end, client)

    def _queued(
        self, append: Append, partition: Partition, buffer: bytearray, start: int, end: int, client: str
    ) -> asyncio.Future[LogAppendInfo]:
        size = end - start + JOB_BYTES
        if self.queued_bytes and self.queued_bytes + size > QUEUE_BYTES:
            self.refused += 1
            raise ProtocolError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.queued_bytes} bytes wait to be converted or decompressed, {QUEUE_BYTES} may; try again",
            )
        with memoryview(buffer) as view:
            job = _Job(append, partition, bytearray(view[start:end]), client, self._loop.create_future())
        self.queued_bytes += size
        self.under_way += 1
        job.done.add_done_callback(partial(self._done, job))
        self.thread.join(client, partial(self._begin, job))
        return job.done

    def _begin(self, job: _Job) -> bool:
        """The thread is the job's; False: its client has gone."""
        self.queued_bytes -= JOB_BYTES
        if job.done.done() or job.data is None:
            return False  # a task that is cancelled before its first step would keep the place for ever
        job.task = self._loop.create_task(job.append(job.partition, job.data, _Turn(self, job.client)))
        job.task.add_done_callback(partial(_hand_over, job.done))
        return True

    def _done(self, job: _Job, done: asyncio.Future[LogAppendInfo]) -> None:
        """Appended, refused, or given up by its client."""
        assert job.data is not None
        self.queued_bytes -= len(job.data)
        job.data = None
        self.under_way -= 1
        if job.task is not None:
            job.task.cancel()
        self._trim()

    async def _append(
        self,
        checks: bool,
        check_again: CheckAgain | None,
        partition: Partition,
        data: bytearray,
        turn: _Turn,
    ) -> LogAppendInfo:
        """Make ready on the thread what is appended then, up to TRIES times while other appends overtake it, then where nothing
        can. `checks`: a batch that is not converted is decompressed to be checked."""
        log = partition.log
        is_batch = len(data) > MAGIC_AT and data[MAGIC_AT] >= MAGIC_V2
        append: Callable[[], LogAppendInfo | None]
        try:
            for _ in range(TRIES):
                if not is_batch or log.converts_batches:  # asked each time: settings change
                    prepared = await turn.run(lambda: log.prepare(data, 0, len(data)))
                    append, size = partial(log.append_prepared, prepared), prepared.size
                elif checks:
                    self.checked += 1
                    checked = await turn.run(lambda: log.check_batch(data, 0, len(data)))
                    append, size = partial(log.append_checked, checked), checked.size
                else:
                    break
                if check_again is not None:
                    check_again(partition, data)
                info = await _committed(partition.commit(append, size), turn)
                if info is not None:
                    return info
        finally:
            turn.leave()
        converts = not is_batch or log.converts_batches
        append_now = log.append_message_set if converts else log.append_as_leader
        if check_again is not None:
            check_again(partition, data)
        return await _committed(partition.commit(lambda: append_now(data, 0, len(data)), len(data)), turn)


class _Turn:
    """The thread's place while a batch is made ready. It is given up before a disk is waited for, and asked for again, before all
    else of its client, where the batch has to be made ready anew."""

    __slots__ = ("_client", "_conversions", "_has_place")

    def __init__(self, conversions: Conversions, client: str) -> None:
        """Begin with the place held."""
        self._conversions = conversions
        self._client = client
        self._has_place = True

    async def run(self, work: Callable[[], T]) -> T:
        if not self._has_place:
            await self._conversions.thread.enter(self._client, first=True)
            self._has_place = True
        return await self._conversions._run(work)

    def leave(self) -> None:
        """Harmless where there is no place."""
        if self._has_place:
            self._has_place = False
            self._conversions.thread.leave()


async def _committed(found: Appended | asyncio.Future[Appended], turn: _Turn) -> Appended:
    """Wait for `Partition.commit`; the thread's place is given up before a disk is waited for."""
    if isinstance(found, asyncio.Future):
        turn.leave()
        return await found
    return found


class _Job:
    """A batch that waits for the thread, or is in work. `data`: None when nobody waits for it any more."""

    __slots__ = ("append", "client", "data", "done", "partition", "task")

    def __init__(
        self,
        append: Append,
        partition: Partition,
        data: bytearray,
        client: str,
        done: asyncio.Future[LogAppendInfo],
    ) -> None:
        self.append = append
        self.partition = partition
        self.data: bytearray | None = data
        self.client = client
        self.done = done
        self.task: asyncio.Task[LogAppendInfo] | None = None


def _hand_over(done: asyncio.Future[LogAppendInfo], task: asyncio.Task[LogAppendInfo]) -> None:
    """Hand the task's outcome to the future that the caller waits for."""
    if task.cancelled():
        done.cancel()
    elif (error := task.exception()) is not None:
        if not done.done():
            done.set_exception(error)
    elif not done.done():
        done.set_result(task.result())


def is_quick(buffer: bytearray, start: int, end: int, is_set: bool) -> bool:
    """True if the message set, or the batch of format 2, in buffer[start:end] may be converted on the loop.

    Compressed ones may not: they may hold any number of records.
    """
    at = start + (ATTRIBUTES_AT if is_set else BATCH_ATTRIBUTES_AT + 1)
    return end - start <= QUICK_BYTES and (at >= end or not buffer[at] & COMPRESSION_MASK)
