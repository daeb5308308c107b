"""`event.loop=asyncio`: the standard library's loop serves as uvloop does. A slice of the ring against such a daemon."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from aiokafka import TopicPartition
from support.clients.asyncio_kafka import AiokafkaDriver, consumer, producer, take
from support.clients.base import CODECS, Job, in_order, messages_of, random_name, sample_records
from support.clients.librdkafka import LibrdkafkaDriver
from support.daemon import Daemon
from support.patience import until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings: dict[str, str | int] = {
        "event.loop": "asyncio",
        "group.initial.rebalance.delay.ms": 0,
        "num.partitions": 3,
        "log.retention.ms": -1,  # some of the records are years old
        "connections.max.idle.ms": 2000,
    }
    with Daemon(tmp_path_factory.mktemp("asyncio") / "data", settings) as running:
        yield running


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_roundtrip(daemon: Daemon, codec: str) -> None:
    driver, topic, records = LibrdkafkaDriver(daemon.bootstrap), random_name("loop"), sample_records(200)
    driver.write(topic, [Job(1, codec, records)])
    assert driver.read(topic, len(records)) == messages_of(1, records)


async def test_aiokafka_group(daemon: Daemon) -> None:
    topic, group = random_name("loop"), random_name("group")
    async with producer(daemon.bootstrap, enable_idempotence=True) as p:
        futures = [await p.send(topic, b"%d" % i, partition=i % 3) for i in range(3000)]
        for future in futures:
            await future
    async with consumer(daemon.bootstrap, topic, group_id=group) as one:
        assert {m.value for m in await take(one, 3000)} == {b"%d" % i for i in range(3000)}
        await one.commit()
    async with consumer(daemon.bootstrap, topic, group_id=group) as two:
        partitions = [TopicPartition(topic, p) for p in range(3)]
        assert [await two.committed(partition) for partition in partitions] == [1000] * 3
        assert set((await two.end_offsets(partitions)).values()) == {1000}
    read = in_order(await AiokafkaDriver(daemon.bootstrap).read_async(topic, 3000))
    assert [m.offset for m in read] == [i for _ in range(3) for i in range(1000)]


def test_answers_keep_the_order_of_requests_and_garbage_and_idleness_end(daemon: Daemon) -> None:
    host, port = daemon.address
    held = daemon.sockets()
    with socket.create_connection((host, port), timeout=60) as client:
        client.sendall(b"".join(struct.pack(">ihhih", 10, 18, 0, i, -1) for i in range(500)))
        stream = client.makefile("rb")
        for i in range(500):
            size, correlation_id = struct.unpack(">ii", stream.read(8))
            assert correlation_id == i
            stream.read(size - 4)
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stream.read() == b""
    with socket.create_connection((host, port), timeout=60) as client:
        assert client.recv(1) == b"", "closed after connections.max.idle.ms"
    until(lambda: daemon.sockets() <= held, "the daemon holds no more sockets than before")
