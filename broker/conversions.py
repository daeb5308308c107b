"""What is long to convert or to check, off the loop thread: appends and fetches that change a message format, and batches
that grow a lot when they are decompressed.

Formats 0 and 1 are read and written in plain Python, some 7 µs a record: a set of a megabyte would hold up every client
for a tenth of a second. Such work is done by one thread; more would not be quicker, since each holds the interpreter, and
the loop would have to wait for all of them. While it works, threads take turns more often than Python's 5 ms.

An append is made ready there, and appended on the loop thread like any other (or by the slow directory's writer): offsets are
given then, so the log's order is that of the appends. A connection has one request at a time and stands still until it is
answered, so its order is kept too.

A compressed batch is checked on the loop for some milliseconds (`CHECK_NS` of `apis/produce.py`) and if it holds little
(`quick_expansion`): one of 4 KiB may hold 128 MiB, and looking at it would hold up everybody for a tenth of a second; one that
holds nothing may take as long, made of what is expensive to decompress. What waits for the thread is bounded in bytes; more is
refused for now, with an error that clients try again after.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.records.attributes import COMPRESSION_MASK
from ..protocol.records.legacy_record import ATTRIBUTES_AT
from ..protocol.records.record_batch import ATTRIBUTES_AT as BATCH_ATTRIBUTES_AT
from ..protocol.records.record_batch import MAGIC_AT, MAGIC_V2
from .garbage import give_back
from .short_turns import short_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ..storage.log_validator import PreparedRecords
    from ..storage.log_values import LogAppendInfo
    from .partition import Partition

T = TypeVar("T")

QUICK_BYTES = 4096
"""A set of plain messages up to this size is converted on the loop: 150 of them at most, a millisecond."""

TRIES = 3
"""Preparations of a set that other appends keep overtaking, before it is converted where nothing can overtake it."""


QUEUE_BYTES = 64 << 20
"""What waits for the thread, as it came."""

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
        queued_bytes: what they hold of requests.
        checked: batches that were decompressed in the thread.
        refused: appends that found too much waiting.
    """

    __slots__ = ("_loop", "_pool", "_trimmed", "checked", "queued_bytes", "refused", "under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, "convert")
        self.under_way = 0
        self.queued_bytes = self.checked = self.refused = self._trimmed = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, once the thread has done it after all before it."""
        self.under_way += 1
        try:
            with short_turns():
                return await self._loop.run_in_executor(self._pool, work)
        finally:
            self.under_way -= 1
            if self.checked != self._trimmed and not self.under_way:
                self._trimmed = self.checked
                self._pool.submit(give_back)

    def close(self) -> None:
        """What has not begun is dropped; waits for the one under way. Any thread."""
        self._pool.shutdown(cancel_futures=True)

    def append(
        self, partition: Partition, buffer: bytearray, start: int = 0, end: int | None = None
    ) -> asyncio.Future[LogAppendInfo]:
        """Appends the message set in buffer[start:end], or the batch for a topic of format 0 or 1. It is copied; the buffer
        is the caller's again at once. Raises `ProtocolError` REQUEST_TIMED_OUT where too much waits; the future raises as
        `Partition.append`."""
        return self._queued(self._append, partition, buffer, start, len(buffer) if end is None else end)

    def append_compressed(
        self, partition: Partition, buffer: bytearray, start: int, end: int
    ) -> asyncio.Future[LogAppendInfo]:
        """The same for a compressed batch that is checked here."""
        return self._queued(self._append_compressed, partition, buffer, start, end)

    def _queued(
        self,
        append: Callable[[Partition, bytearray], Coroutine[Any, Any, LogAppendInfo]],
        partition: Partition,
        buffer: bytearray,
        start: int,
        end: int,
    ) -> asyncio.Future[LogAppendInfo]:
        size = end - start
        if self.queued_bytes and self.queued_bytes + size > QUEUE_BYTES:
            self.refused += 1
            raise ProtocolError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self.queued_bytes} bytes wait to be converted or decompressed, {QUEUE_BYTES} may; try again",
            )
        with memoryview(buffer) as view:
            future = asyncio.ensure_future(append(partition, bytearray(view[start:end])))
        self.queued_bytes += size
        future.add_done_callback(lambda _: self._done(size))
        return future

    def _done(self, size: int) -> None:
        self.queued_bytes -= size

    async def _append_compressed(self, partition: Partition, data: bytearray) -> LogAppendInfo:
        log = partition.log
        for _ in range(TRIES):
            if log.converts_batches:  # a setting has changed
                return await self._append(partition, data)
            self.checked += 1
            checked = await self.run(lambda: log.check_batch(data, 0, len(data)))
            directory = partition.directory
            if not directory.engaged:
                info = log.append_checked(checked)
                if info is not None:
                    partition.appended()
            else:
                info = await directory.submit(partial(log.append_checked, checked), checked.size)
                if info is not None:
                    partition.appended()
            if info is not None:
                return info
        return await self._append_now(partition, log.append_as_leader, data)

    async def _append(self, partition: Partition, data: bytearray) -> LogAppendInfo:
        log = partition.log
        is_batch = len(data) > MAGIC_AT and data[MAGIC_AT] >= MAGIC_V2
        for _ in range(TRIES):
            if is_batch and not log.converts_batches:  # a setting has changed
                return await self._append_now(partition, log.append_as_leader, data)
            prepared = await self.run(lambda: log.prepare(data, 0, len(data)))
            info = await self._append_prepared(partition, prepared)
            if info is not None:
                return info
        return await self._append_now(partition, log.append_message_set, data)

    async def _append_prepared(self, partition: Partition, prepared: PreparedRecords) -> LogAppendInfo | None:
        log, directory = partition.log, partition.directory
        if not directory.engaged:
            info = log.append_prepared(prepared)
            partition.appended()
            return info
        return await directory.submit(
            lambda: log.append_prepared(prepared), prepared.size, lambda _: partition.appended()
        )

    async def _append_now(
        self, partition: Partition, append: Callable[[bytearray, int, int], LogAppendInfo], data: bytearray
    ) -> LogAppendInfo:
        size = len(data)
        if not partition.directory.engaged:
            info = append(data, 0, size)
            partition.appended()
            return info
        return await partition.directory.submit(lambda: append(data, 0, size), size, lambda _: partition.appended())


def is_quick(buffer: bytearray, start: int, end: int, is_set: bool) -> bool:
    """Whether the message set, or the batch of format 2, in buffer[start:end] may be converted on the loop.

    What is compressed may hold any number of records.
    """
    at = start + (ATTRIBUTES_AT if is_set else BATCH_ATTRIBUTES_AT + 1)
    return end - start <= QUICK_BYTES and (at >= end or not buffer[at] & COMPRESSION_MASK)
