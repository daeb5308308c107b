"""What each client writes, with each codec, every other reads the same: keys, values, headers, timestamps, offsets."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from support.clients.asyncio_kafka import AiokafkaDriver
from support.clients.base import CODECS, Driver, Job, Message, Record, in_order, messages_of, sample_records
from support.clients.kafka_python import KafkaPythonDriver
from support.clients.librdkafka import LibrdkafkaDriver
from support.clients.programs import KcatDriver, ProgramDriver, go_command, java_command

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java", "franz-go", "kcat")
NOT_FULL = ("kafka-python", "aiokafka")
KCAT_RECORDS = [
    Record(b"key", b"value", (("h", b"1"),)),
    Record(b"a key", None, (("h", b"1"),)),
    Record(None, b"x" * 2000),
    Record(None, "значение".encode()),
] * 10


@pytest.fixture(scope="module")
def drivers(bootstrap: str, kcat_program: str) -> dict[str, Driver]:
    made: list[Driver] = [
        LibrdkafkaDriver(bootstrap),
        KafkaPythonDriver(bootstrap),
        AiokafkaDriver(bootstrap),
        ProgramDriver("java", java_command(), bootstrap),
        ProgramDriver("franz-go", go_command(), bootstrap),
        KcatDriver(bootstrap),
    ]
    return {driver.name: driver for driver in made}


@pytest.fixture(scope="module")
def written(drivers: dict[str, Driver], make_topic: Callable[..., str]) -> tuple[str, list[Message]]:
    """One topic, a partition for each client and codec; the messages that must be there, kcat's without their times."""
    topic, expected = make_topic("cross", len(CLIENTS) * len(CODECS)), list[Message]()
    for client, name in enumerate(CLIENTS):
        records = KCAT_RECORDS if name == "kcat" else sample_records(60, full=name not in NOT_FULL)
        jobs = [Job(client * len(CODECS) + i, codec, records) for i, codec in enumerate(CODECS)]
        drivers[name].write(topic, jobs)
        for job in jobs:
            expected += messages_of(job.partition, records)
    return topic, expected


@pytest.mark.parametrize("reader", CLIENTS)
def test_reads_what_all_wrote(drivers: dict[str, Driver], written: tuple[str, list[Message]], reader: str) -> None:
    topic, expected = written
    read = in_order(drivers[reader].read(topic, len(expected)))
    first_of_kcat = CLIENTS.index("kcat") * len(CODECS)
    now = time.time() * 1000
    for message in read:
        if message.partition >= first_of_kcat:
            assert now - 300_000 < message.timestamp <= now + 1000
    timeless = [m._replace(timestamp=0) if m.partition >= first_of_kcat else m for m in read]
    assert len(timeless) == len(expected)
    for got, wanted in zip(timeless, expected, strict=True):
        assert got == wanted
