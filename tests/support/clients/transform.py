"""Consume, transform, produce, exactly once, as a program (aiokafka) that may be killed: from topic `in` to topic `out`.

`python transform.py HOST:PORT SEED` says "sent" before each commit and "end" when there is nothing left to read.
"""

from __future__ import annotations

import asyncio
import random
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

PLACE = TopicPartition("in", 0)


async def transform(bootstrap: str, chance: random.Random) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="transform")
    reader = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id="transform", enable_auto_commit=False, auto_offset_reset="earliest",
        isolation_level="read_committed",
    )  # fmt: skip
    await producer.start()
    await reader.start()
    reader.assign([PLACE])
    while found := (await reader.getmany(PLACE, timeout_ms=3000, max_records=1 + chance.randrange(20))).get(PLACE):
        await producer.begin_transaction()
        for record in found:
            await producer.send("out", record.value, partition=0)
        await producer.send_offsets_to_transaction({PLACE: found[-1].offset + 1}, "transform")
        print("sent", flush=True)
        await producer.commit_transaction()
    print("end", flush=True)
    await reader.stop()
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(transform(sys.argv[1], random.Random(sys.argv[2])))
