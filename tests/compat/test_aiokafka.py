"""aiokafka."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError
from support.clients.asyncio_kafka import AiokafkaDriver, consumer, producer, take
from support.clients.base import CODECS, Job, Message, in_order, messages_of, random_name, sample_records
from support.patience import PATIENCE_S

MakeTopic = Callable[..., str]


async def produce_numbers(bootstrap: str, topic: str, partitions: int, start: int, stop: int) -> None:
    async with producer(bootstrap) as p:
        futures = [await p.send(topic, b"%d" % i, partition=i % partitions) for i in range(start, stop)]
        for future in futures:
            await future


async def read_all(bootstrap: str, topic: str, count: int) -> list[Message]:
    return await AiokafkaDriver(bootstrap).read_async(topic, count)


@pytest.mark.parametrize("codec", CODECS)
async def test_roundtrip(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    driver, topic, records = (
        AiokafkaDriver(bootstrap),
        make_topic("aio-roundtrip", 2),
        sample_records(200, full=False),
    )
    await driver.write_async(topic, [Job(1, codec, records)])
    assert await driver.read_async(topic, len(records)) == messages_of(1, records)


async def test_idempotence_keeps_order_and_counts(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, count = make_topic("aio-idempotence", 2), 2000
    async with producer(bootstrap, enable_idempotence=True, max_batch_size=500, linger_ms=0) as p:
        futures = [await p.send(topic, b"%d" % i, partition=i % 2) for i in range(count)]
        assert [(await f).offset for f in futures] == [i // 2 for i in range(count)]
    read = in_order(await read_all(bootstrap, topic, count))
    assert [m.value for m in read] == [b"%d" % i for i in [*range(0, count, 2), *range(1, count, 2)]]


async def test_group_goes_on_where_it_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, group = make_topic("aio-group", 3), random_name("aio-group")
    await produce_numbers(bootstrap, topic, 3, 0, 300)
    async with consumer(bootstrap, topic, group_id=group) as first:
        assert len({m.value for m in await take(first, 300)}) == 300
        await first.commit()
    await produce_numbers(bootstrap, topic, 3, 300, 330)
    async with consumer(bootstrap, topic, group_id=group) as second:
        assert {m.value for m in await take(second, 30)} == {b"%d" % i for i in range(300, 330)}
        assert [await second.committed(TopicPartition(topic, p)) for p in range(3)] == [100, 100, 100]


async def test_rebalance(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, group, seen = make_topic("aio-rebalance", 4), random_name("aio-rebalance"), set[bytes | None]()
    await produce_numbers(bootstrap, topic, 4, 0, 400)

    async def settle(*owned: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while tuple(len(c.assignment()) for c in members) != owned:
            assert time.monotonic() < deadline, f"not in time: {owned} partitions"
            for c in members:
                seen.update(m.value for m in await take(c, 1000, 0.05))

    members: list[AIOKafkaConsumer] = []
    for owned in ((4,), (2, 2)):
        members.append(consumer(bootstrap, topic, group_id=group, heartbeat_interval_ms=300))
        await members[-1].start()
        await settle(*owned)
    assert len(members[0].assignment() | members[1].assignment()) == 4
    await members.pop().stop()
    await settle(4)
    while len(seen) < 400:
        more = await take(members[0], 1, 10)
        assert more, f"only {len(seen)} records came"
        seen.update(m.value for m in more)
    await members[0].stop()


async def test_seek_by_time(bootstrap: str, make_topic: MakeTopic) -> None:
    partition = TopicPartition(make_topic("aio-time"), 0)
    async with producer(bootstrap) as p:
        for i in range(100):
            await p.send(partition.topic, b"%d" % i, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * i)
    async with consumer(bootstrap) as c:
        c.assign([partition])
        found = (await c.offsets_for_times({partition: 1_700_000_041_500}))[partition]
        assert (found.offset, found.timestamp) == (42, 1_700_000_042_000)
        assert (await c.offsets_for_times({partition: 1_800_000_000_000}))[partition] is None
        assert await c.beginning_offsets([partition]) == {partition: 0}
        assert await c.end_offsets([partition]) == {partition: 100}
        c.seek(partition, found.offset)
        assert (await take(c, 1))[0].value == b"42"


async def test_large_message(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, value = make_topic("aio-large"), random.Random(3).randbytes(900_000)
    async with producer(bootstrap) as p:
        assert (await p.send_and_wait(topic, value)).offset == 0
    assert (await read_all(bootstrap, topic, 1))[0].value == value


async def test_too_large_message_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("aio-too-large")
    async with producer(bootstrap, max_request_size=5_000_000) as p:
        with pytest.raises(MessageSizeTooLargeError):
            await p.send_and_wait(topic, bytes(1_200_000))
        assert (await p.send_and_wait(topic, bytes(1000))).offset == 0


async def test_many_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("aio-many", 200)
    await produce_numbers(bootstrap, topic, 200, 0, 1000)
    read = in_order(await read_all(bootstrap, topic, 1000))
    assert [(m.partition, m.offset, m.value) for m in read] == [
        (p, n, b"%d" % (p + 200 * n)) for p in range(200) for n in range(5)
    ]


async def test_admin(bootstrap: str) -> None:
    name, admin = random_name("aio-admin"), AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()

    async def partitions() -> int:
        topics = await admin.describe_topics([name])
        return len(topics[0]["partitions"])

    async def settle(count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while await partitions() != count:
            assert time.monotonic() < deadline, f"not in time: {count} partitions"

    try:
        created = NewTopic(name, 2, 1, topic_configs={"retention.ms": "123456789"})
        answer = await admin.create_topics([created])
        assert [code for _, code, *_ in answer.topic_errors] == [0]
        answer = await admin.create_topics([created])
        assert [code for _, code, *_ in answer.topic_errors] == [36]  # TOPIC_ALREADY_EXISTS
        await settle(2)
        described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
        assert "123456789" in str(described)
        await admin.create_partitions({name: NewPartitions(5)})
        await settle(5)
        await admin.delete_topics([name])
        # Asked for by its name, this client's old Metadata version would create it again.
        for _ in range(100):
            if name not in await admin.list_topics():
                break
            await asyncio.sleep(0.05)
        else:
            pytest.fail(f"{name} is still listed")
    finally:
        await admin.close()
