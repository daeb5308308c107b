"""Whatever the disks do: each producer's records are in the log in order and exactly once, at the offsets it was told; and
requests take effect in the order in which they came, whoever they are from.

Several connections produce to two partitions, each in a directory of its own, whose writes become slow and quick again at
random; threads get to work when they like; clients go away in mid-request and send again what was not answered, as idempotent
producers do.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logs import batch, read_records, values_of
from support.slow_disks import DIRECTORIES, SlowDisks, answers_of
from tidelog.storage.io.write_pace import QUIET_S

CLIENTS = 4

STEPS = st.one_of(
    st.tuples(
        st.just("produce"),
        st.integers(0, CLIENTS - 1),
        st.sampled_from([(0,), (1,), (0, 1), (1, 0)]),
        st.sampled_from([0, 1, -1]),
    ),
    st.tuples(st.just("disk"), st.integers(0, 1), st.sampled_from([0.0, 0.0, 0.3])),
    st.tuples(st.just("work"), st.integers(0, 3), st.integers(1, 3)),
    st.tuples(st.just("pass"), st.sampled_from([1.0, QUIET_S])),
    st.tuples(st.just("turn")),
    st.tuples(st.just("leave"), st.integers(0, CLIENTS - 1)),
)


@dataclass
class Client:
    """An idempotent producer, one request at a time."""

    number: int
    #: By partition: how many batches were made, and those that are not answered.
    made: list[int] = field(default_factory=lambda: [0, 0])
    unanswered: list[deque[int]] = field(default_factory=lambda: [deque(), deque()])
    told: dict[tuple[int, int], int] = field(default_factory=dict)
    pending: asyncio.Future[Any] | None = None
    asked: tuple[tuple[int, ...], int] = ((), 0)

    def value(self, partition: int, sequence: int) -> str:
        return f"{self.number}-{partition}-{sequence}"

    def request(self, partitions: tuple[int, ...]) -> dict[int, bytearray]:
        """To each partition the oldest batch that is not answered, or else a new one."""
        batches = {}
        for partition in partitions:
            waiting = self.unanswered[partition]
            if not waiting:
                waiting.append(self.made[partition])
                self.made[partition] += 1
            batches[partition] = batch(
                self.value(partition, waiting[0]),
                producer_id=self.number + 1,
                producer_epoch=0,
                base_sequence=waiting[0],
            )
        return batches

    def answered(self, answer: bytes | None) -> None:
        partitions, acks = self.asked
        if answer is not None:
            rows = answers_of(answer)
            assert [row.index for row in rows] == list(partitions)
            assert [row.error_code for row in rows] == [0] * len(partitions)
        assert (answer is None) == (acks == 0)
        for at, partition in enumerate(partitions):
            sequence = self.unanswered[partition].popleft()
            if answer is not None:
                self.told[partition, sequence] = rows[at].base_offset

    def look(self) -> None:
        """Takes the answer if it has come."""
        if self.pending is not None and self.pending.done():
            pending, self.pending = self.pending, None
            self.answered(pending.result())

    def produce(self, disks: SlowDisks, sent: list[list[str]], partitions: tuple[int, ...], acks: int) -> None:
        self.look()
        if self.pending is not None:
            return  # its connection stands still
        self.asked = partitions, acks
        batches = self.request(partitions)
        for partition in partitions:
            sent[partition].append(self.value(partition, self.unanswered[partition][0]))
        answer = disks.ask(batches, acks)
        if inspect.isawaitable(answer):
            self.pending = asyncio.ensure_future(answer)
        else:
            self.answered(answer)


async def run(steps: list[tuple[Any, ...]], flush_messages: int | None, queue_bytes: int) -> bool:
    """Plays the steps, then lets everything come to its end; True when both ways were gone."""
    with pytest.MonkeyPatch.context() as patch:
        settings = {} if flush_messages is None else {"flush_messages": flush_messages}
        disks = SlowDisks(patch, queue_bytes=queue_bytes, **settings)
        clients = [Client(number) for number in range(CLIENTS)]
        sent: list[list[str]] = [[], []]  # by partition, in the order in which the broker met them
        threads = [*disks.writers, *disks.syncers]
        for kind, *arguments in steps:
            match kind:
                case "produce":
                    number, partitions, acks = arguments
                    clients[number].produce(disks, sent, partitions, acks)
                case "disk":
                    disks.write_s[DIRECTORIES[arguments[0]]] = arguments[1]
                case "work":
                    threads[arguments[0]].run(arguments[1])
                case "pass":
                    disks.now += arguments[0]
                case "turn":
                    await disks.turn()
                case "leave":
                    client = clients[arguments[0]]
                    client.look()
                    if client.pending is not None:
                        client.pending.cancel()
                        client.pending = None
        while True:
            await disks.turn()
            await disks.drain()
            await disks.turn()
            for client in clients:
                client.look()
                assert client.pending is None
                client.produce(disks, sent, tuple(p for p in (0, 1) if client.unanswered[p]), 1)
            if not any(client.pending for client in clients) and not any(any(c.unanswered) for c in clients):
                break
        for number, partition in enumerate(disks.partitions):
            log = partition.log
            assert log.high_watermark == log.log_end_offset
            records = read_records(log, 0)
            assert [record.offset for record in records] == list(range(log.log_end_offset))
            values = [value.decode() for value in values_of(records)]
            sent_once = [value for value in sent[number] if sent[number].count(value) == 1]
            assert [value for value in values if value in sent_once] == sent_once
            for client in clients:
                own = [value for value in values if value.startswith(f"{client.number}-")]
                assert own == [client.value(number, n) for n in range(client.made[number])]
                for (to, sequence), offset in client.told.items():
                    if to == number:
                        assert values[offset] == client.value(to, sequence)
        for offload in disks.offloads:
            assert offload.queued_bytes == 0
        disks.stop()
        return any(offload.submitted for offload in disks.offloads)


@given(
    steps=st.lists(STEPS, max_size=60),
    flush_messages=st.sampled_from([None, 1, 3]),
    queue_bytes=st.sampled_from([1, 200, 1 << 20]),
)
def test_each_producers_records_are_there_in_order_and_once(
    steps: list[tuple[Any, ...]], flush_messages: int | None, queue_bytes: int
) -> None:
    asyncio.run(run(steps, flush_messages, queue_bytes))


@pytest.mark.parametrize("queue_bytes", [1, 1 << 20])
def test_order_is_kept_at_both_switches(queue_bytes: int) -> None:
    """The case that matters most, in plain steps: slow, several in the queue, quick again, one more at once."""
    steps: list[tuple[Any, ...]] = [("disk", 1, 0.3), ("produce", 0, (1,), 1), ("disk", 1, 0.0)]
    steps += [("produce", number, (1,), acks) for number, acks in ((0, 1), (1, 0), (2, -1))]
    steps += [
        ("turn",),
        ("pass", QUIET_S),
        ("work", 1, 1),
        ("turn",),
        ("produce", 0, (1,), 1),
        ("work", 1, 3),
        ("turn",),
    ]
    steps += [("produce", 1, (1, 0), 1), ("work", 1, 3), ("turn",), ("produce", 2, (1,), 1)]
    assert asyncio.run(run(steps, None, queue_bytes))
