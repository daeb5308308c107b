"""aiokafka as a driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from support.patience import PATIENCE_S

from .base import Job, Message


def producer(bootstrap: str, **settings: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(**{"bootstrap_servers": bootstrap, "acks": "all", "linger_ms": 20, **settings})


def consumer(bootstrap: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    """A consumer from the earliest offset, without automatic commits."""
    defaults = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return AIOKafkaConsumer(*topics, **{**defaults, **settings})


def message_of(m: Any) -> Message:
    return Message(
        m.partition, m.offset, m.timestamp, m.key, m.value, tuple((name, value) for name, value in m.headers)
    )


async def take(c: AIOKafkaConsumer, count: int, timeout_s: float = PATIENCE_S) -> list[Message]:
    """The next `count` messages; fewer when they do not come in time."""
    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < deadline:
        for batch in (await c.getmany(timeout_ms=300, max_records=count - len(messages))).values():
            messages += [message_of(m) for m in batch]
    return messages


class AiokafkaDriver:
    name = "aiokafka"

    def __init__(self, bootstrap: str, timeout_s: float = PATIENCE_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s

    def write(self, topic: str, jobs: Sequence[Job]) -> None:
        asyncio.run(self.write_async(topic, jobs))

    def read(self, topic: str, count: int) -> list[Message]:
        return asyncio.run(self.read_async(topic, count))

    async def write_async(self, topic: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            p = producer(self._bootstrap, compression_type=None if job.codec == "none" else job.codec)
            await p.start()
            try:
                futures = [
                    await p.send(topic, r.value, r.key, job.partition, r.timestamp, list(r.headers))
                    for r in job.records
                ]
                await asyncio.wait_for(asyncio.gather(*futures), self._timeout_s)
            finally:
                await p.stop()

    async def read_async(self, topic: str, count: int) -> list[Message]:
        c = consumer(self._bootstrap)
        await c.start()
        try:
            await c._client.force_metadata_update()
            c.assign([TopicPartition(topic, p) for p in sorted(c.partitions_for_topic(topic) or ())])
            return await take(c, count, self._timeout_s)
        finally:
            await c.stop()
