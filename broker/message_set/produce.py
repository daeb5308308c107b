"""PRODUCE and MULTIPRODUCE of the message-set protocol.

A set goes the way of a batch of Kafka's Produce with acks=1: validated and given offsets, in the log, and on the disk first
where `flush.messages` says so; `Partition.append` chooses the thread. The answer tells the base offset.

A set is one batch of format 2, or messages of format 0 or 1: any number of plain ones, or one wrapper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.message_set.wire import multi_produce_answer, produce_answer
from ...protocol.records.attributes import TRANSACTIONAL_MASK
from ...protocol.records.record_batch import MAGIC_AT, MAGIC_V2
from ..metadata.topics import INTERNAL_TOPICS
from ..partitions.conversion_thread import QUICK_BYTES, LoopBudget
from ..partitions.partition import CODEC_AT
from ..runtime.error_codes import error_code

if TYPE_CHECKING:
    from collections import Counter

    from ...protocol.message_set.wire import ProduceBody
    from ...storage.values import LogAppendInfo
    from ..partitions.partition import Partition
    from ..requests.services import Services

#: PRODUCE bodies in one MULTIPRODUCE: they are appended in one go, and others wait meanwhile.
MAX_PRODUCES = 1000

#: (error, base offset)
Row = tuple[int, int]
#: By topic and partition, an append that a thread makes ready: others must not overtake it.
Converting = dict[tuple[str, int], "asyncio.Future[Any]"]


class MessageSetAppends:
    """Appends and answers. Loop thread."""

    __slots__ = ("_errors", "_services")

    def __init__(self, services: Services, errors: Counter[tuple[str, int]]) -> None:
        """`errors`: where sets that are refused are counted."""
        self._services = services
        self._errors = errors

    def produce(
        self, buffer: bytearray, body: ProduceBody, denied: Container[str] = (), client: str = ""
    ) -> bytes | Awaitable[bytes]:
        """Appends the set that stands in `buffer`, which is the caller's again after the return. `denied`: the topics
        that the client may not write; `client`: in whose turn its sets are converted."""
        if body.topic in denied:
            return produce_answer(*self._denied())
        row = self._append(buffer, body, {}, _budget(client))
        if isinstance(row, tuple):
            return produce_answer(*row)
        return self._answer_later(row)

    async def _answer_later(self, row: asyncio.Future[Row]) -> bytes:
        return produce_answer(*await row)

    def multi_produce(
        self, buffer: bytearray, bodies: list[ProduceBody], denied: Container[str] = (), client: str = ""
    ) -> bytes | Awaitable[bytes]:
        """Append several sets in their order, each as `produce`. A refused set does not stop those behind it."""
        rows: list[Row | asyncio.Future[Row]] = []
        converting: Converting = {}
        budget = _budget(client)
        for body in bodies:
            if body.topic in denied:
                rows.append(self._denied())
                continue
            before = converting.get((body.topic, body.partition))
            if before is None:
                rows.append(self._append(buffer, body, converting, budget))
            else:
                data = bytearray(memoryview(buffer)[body.start : body.end])
                appended = self._services.loop.create_future()
                converting[body.topic, body.partition] = appended
                rows.append(asyncio.ensure_future(self._append_after(before, data, body, appended, client)))
        done = [row for row in rows if isinstance(row, tuple)]
        return multi_produce_answer(done) if len(done) == len(rows) else self._answer_all_later(rows)

    async def _append_after(
        self,
        before: asyncio.Future[Any],
        data: bytearray,
        body: ProduceBody,
        appended: asyncio.Future[None],
        client: str,
    ) -> Row:
        """Appends what must not overtake `before`, and says so with `appended`: the sync is not waited for there."""
        try:
            await asyncio.wait([before])
            converting: Converting = {}
            row = self._append(data, body._replace(start=0, end=len(data)), converting, _budget(client))
            if converting:
                await asyncio.wait(converting.values())
        finally:
            appended.set_result(None)
        return row if isinstance(row, tuple) else await row

    async def _answer_all_later(self, rows: list[Row | asyncio.Future[Row]]) -> bytes:
        waiting = [row for row in rows if not isinstance(row, tuple)]
        try:
            await asyncio.gather(*waiting)
        finally:
            for row in waiting:
                row.cancel()
        return multi_produce_answer([row if isinstance(row, tuple) else row.result() for row in rows])

    # -- one set

    def _append(
        self, buffer: bytearray, body: ProduceBody, converting: Converting, budget: LoopBudget
    ) -> Row | asyncio.Future[Row]:
        """The outcome, or a task for it when a thread or a sync has to be waited for.

        An append that the conversion thread makes ready is noted in `converting`.
        """
        size = body.end - body.start
        try:
            partition = self._admit(buffer, body)
            info = partition.append(buffer, body.start, body.end, budget, _is_set(buffer, body))
        except Exception as error:
            return self._failed(error)
        if not isinstance(info, asyncio.Future):
            return self._appended(partition, size, info)
        if budget.ahead is not None and partition in budget.ahead:
            converting[body.topic, body.partition] = info
        return asyncio.ensure_future(self._when_written(partition, size, info))

    def _admit(self, buffer: bytearray, body: ProduceBody) -> Partition:
        """The partition that takes this set, as far as can be told before its log is asked.

        Raises `ProtocolError`: the first of these checks that fails.
        """
        partition = self._services.partitions.get(body.topic, body.partition)
        if partition is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {body.topic}-{body.partition}")
        if body.topic in INTERNAL_TOPICS:
            raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{body.topic} is written by coordinators only")
        if (fence := self._services.partitions.fence) is not None and (why := fence()) is not None:
            raise ProtocolError(ErrorCode.NOT_ENOUGH_REPLICAS, why)
        is_batch = body.end - body.start > CODEC_AT and not _is_set(buffer, body)
        if is_batch and buffer[body.start + CODEC_AT] & TRANSACTIONAL_MASK:
            raise ProtocolError(ErrorCode.INVALID_TXN_STATE, "the message-set protocol has no transactions to write in")
        return partition

    def _appended(self, partition: Partition, size: int, info: LogAppendInfo) -> Row | asyncio.Future[Row]:
        self._count(size, info)
        wait = partition.durable(info.last_offset + 1)
        if wait is None:
            return ErrorCode.NONE, info.first_offset
        return asyncio.ensure_future(self._when_durable(wait, info))

    async def _when_written(self, partition: Partition, size: int, written: asyncio.Future[LogAppendInfo]) -> Row:
        try:
            info = await written
        except Exception as error:
            return self._failed(error)
        self._count(size, info)
        wait = partition.durable(info.last_offset + 1)
        return (ErrorCode.NONE, info.first_offset) if wait is None else await self._when_durable(wait, info)

    async def _when_durable(self, wait: asyncio.Future[None], info: LogAppendInfo) -> Row:
        try:
            await wait
        except Exception as error:
            return self._failed(error)
        return ErrorCode.NONE, info.first_offset

    def _count(self, size: int, info: LogAppendInfo) -> None:
        counters = self._services.counters
        counters.produced_bytes += size
        counters.produced_records += info.record_count

    def _denied(self) -> Row:
        return self._failed(ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    def _failed(self, error: Exception) -> Row:
        code = error_code(error)[0]
        self._errors["produce", code] += 1
        self._services.counters.produce_errors[code] += 1
        return code, -1


def _budget(client: str) -> LoopBudget:
    """Loop budget of one request. It may have many sets: quick ones are converted on the loop up to QUICK_BYTES together."""
    return LoopBudget(client, perf_counter_ns(), QUICK_BYTES)


def _is_set(buffer: bytearray, body: ProduceBody) -> bool:
    """Messages of format 0 or 1, or too little to tell: that is refused as such."""
    return body.end - body.start <= MAGIC_AT or buffer[body.start + MAGIC_AT] < MAGIC_V2
