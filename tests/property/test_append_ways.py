"""Whichever ways a request's batches take to their logs, each partition has them in their order, once; clients leave meanwhile.

On the loop, by the writers of two directories that turn slow and quick, and through the conversion thread. Threads are real: a
seed makes the requests, and not what happens when.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from types import SimpleNamespace
from typing import Any

import pytest
from support.logs import World, batch, read_records, values_of
from support.mock_time import START_MS
from support.patience import PATIENCE_S
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import QUICK_BYTES, Conversions
from tidelog.broker.partitions.disk_workers import DiskWorkers
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.produce_fetch.produce_job import ProduceJob
from tidelog.broker.requests.counters import RequestCounters
from tidelog.protocol.messages.produce import ProduceResponse
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode

PARTITIONS = 4
FRESH = 1 << 62
"""When a request came that has not taken long."""


def flipped(value: bytes) -> bytes:
    data = bytearray(batch(value))
    data[-1] ^= 1
    return bytes(data)


def record(value: bytes, more: int = 0) -> list[Record]:
    return [Record(0, START_MS, None, value + bytes(more))]


KINDS: dict[str, Any] = {
    "plain": lambda value: bytes(batch(value)),
    "compressed": lambda value: build_batch(record(value), compression=Compression.GZIP),
    "holds much": lambda value: build_batch(record(value, 400_000), compression=Compression.GZIP),
    "set": lambda value: build_legacy_set(record(value), magic=1),
    "large set": lambda value: build_legacy_set(record(value, QUICK_BYTES), magic=1),
    "wrapper": lambda value: build_legacy_set(record(value), magic=0, compression=Compression.GZIP),
    "broken": flipped,
}


class Clients:
    """Requests on partitions of two directories, and what came of them."""

    def __init__(self, machine: World, seed: int) -> None:
        loop = asyncio.get_running_loop()
        self.random = random.Random(seed)
        self.paces = [SimpleNamespace(is_slow=False, on_slow=None) for _ in range(2)]
        self.threads: list[DiskWorkers[Any]] = [DiskWorkers(loop, f"writer-{number}", threads=1) for number in range(2)]
        self.offloads = [AppendOffload(*of, loop, 20_000) for of in zip(self.paces, self.threads, strict=True)]
        self.conversions = Conversions(loop)
        syncer: Any = SimpleNamespace()
        self.partitions = [
            Partition(machine.log("t", number), loop, syncer, self.offloads[number % 2], self.conversions)
            for number in range(PARTITIONS)
        ]
        self.count = 0
        self.given_up: set[bytes] = set()

    async def client(self, name: str) -> list[list[bytes]]:
        """Sends one request after the other; by partition, the values that were acknowledged."""
        told: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for _ in range(12):
            sent, buffer, parts = [], bytearray(b"--"), []
            for _ in range(self.random.randrange(1, 9)):
                self.count += 1
                index, kind, value = (
                    self.random.randrange(PARTITIONS),
                    self.random.choice([*KINDS]),
                    b"%08d" % self.count,
                )
                start = len(buffer)
                buffer += KINDS[kind](value)
                parts.append((index, start, len(buffer)))
                sent.append((index, kind, value))
            if self.random.random() < 0.3:
                self.offloads[self.random.randrange(2)].active = True
            table: Any = SimpleNamespace(fence=None, get=lambda _, index: self.partitions[index])
            since = self.random.choice([0, FRESH])
            job = ProduceJob(table, RequestCounters(), 2, 7, None, 1, name, since)
            job.append(buffer, [("t", parts)], None, None, None)
            answer = job.answer()
            buffer[:] = bytes(len(buffer))  # it is the next request's
            if inspect.isawaitable(answer):
                waiting = asyncio.ensure_future(answer)
                if not await self._waits(waiting):
                    self.given_up.update(value for _, _, value in sent)
                    continue
                answer = waiting.result()
            response, _ = decode(ProduceResponse, 2, answer, 8)
            ((_, rows),) = [(topic.name, topic.partition_responses) for topic in response.responses]
            assert [(row.index, bool(row.error_code)) for row in rows] == [
                (index, kind == "broken") for index, kind, _ in sent
            ]
            for index, kind, value in sent:
                if kind != "broken":
                    told[index].append(value)
        return told

    async def _waits(self, answer: asyncio.Future[Any]) -> bool:
        """False: the client left before the answer came."""
        if self.random.random() < 0.8:
            await answer
            return True
        await asyncio.sleep(self.random.choice([0, 0.0005]))
        answer.cancel()
        await asyncio.wait([answer])
        return not answer.cancelled()

    async def let_go(self) -> None:
        """Has slow directories be quick again from time to time; to be cancelled."""
        while True:
            await asyncio.sleep(0.002)
            for offload in self.offloads:
                if offload.active:
                    offload.submit(lambda: None)


@pytest.mark.parametrize("seed", range(6))
async def test_batches_are_in_their_order_once_and_nothing_is_kept_of_clients_that_left(seed: int) -> None:
    machine = World()
    machine.start()
    clients = Clients(machine, seed)
    letting_go = asyncio.ensure_future(clients.let_go())
    told = await asyncio.wait_for(
        asyncio.gather(*(clients.client(f"10.0.0.{number % 2}") for number in range(3))), PATIENCE_S
    )
    conversions = clients.conversions
    while conversions.under_way or any(offload.active for offload in clients.offloads):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    letting_go.cancel()
    assert (conversions.queued_bytes, [offload.queued_bytes for offload in clients.offloads]) == (0, [0, 0])
    assert await asyncio.wait_for(conversions.run(lambda: "free", ""), PATIENCE_S) == "free"
    for index, partition in enumerate(clients.partitions):
        stored = [value[:8] for value in values_of(read_records(partition.log, 0))]
        acknowledged = [value for of in told for value in of[index]]
        assert len(stored) == len(set(stored)) >= len(acknowledged)
        assert set(acknowledged) <= set(stored) <= {*acknowledged, *clients.given_up}
        for of in told:
            assert [value for value in stored if value in of[index]] == of[index]
    conversions.close()
    for thread in clients.threads:
        thread.close()
    machine.stop()
