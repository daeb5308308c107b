"""Appends and fetches that change a message format, off the loop thread.

Formats 0 and 1 are read and written in plain Python, some 7 µs a record: a set of a megabyte would hold up every client
for a tenth of a second. Such work is done by one thread; more would not be quicker, since each holds the interpreter, and
the loop would have to wait for all of them. While it works, threads take turns more often than Python's 5 ms.

An append is made ready there, and appended on the loop thread like any other (or by the slow directory's writer): offsets are
given then, so the log's order is that of the appends. A connection has one request at a time and stands still until it is
answered, so its order is kept too.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from ..protocol.records.attributes import COMPRESSION_MASK
from ..protocol.records.legacy_record import ATTRIBUTES_AT
from ..protocol.records.record_batch import ATTRIBUTES_AT as BATCH_ATTRIBUTES_AT
from ..protocol.records.record_batch import MAGIC_AT, MAGIC_V2
from .short_turns import short_turns

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ..storage.log_validator import PreparedRecords
    from ..storage.log_values import LogAppendInfo
    from .partition import Partition

T = TypeVar("T")

QUICK_BYTES = 4096
"""A set of plain messages up to this size is converted on the loop: 150 of them at most, a millisecond."""

TRIES = 3
"""Preparations of a set that other appends keep overtaking, before it is converted where nothing can overtake it."""


class Conversions:
    """The thread. Loop thread but for what is run in it.

    Attributes:
        under_way: how many conversions are running or waiting for the thread.
    """

    __slots__ = ("_loop", "_pool", "under_way")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(1, "convert")
        self.under_way = 0

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, once the thread has done it after all before it."""
        self.under_way += 1
        try:
            with short_turns():
                return await self._loop.run_in_executor(self._pool, work)
        finally:
            self.under_way -= 1

    def close(self) -> None:
        """What has not begun is dropped; waits for the one under way. Any thread."""
        self._pool.shutdown(cancel_futures=True)

    async def append(self, partition: Partition, data: bytearray) -> LogAppendInfo:
        """Appends the message set in `data`, or the batch for a topic of format 0 or 1. Raises as `Partition.append`."""
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
