"""librdkafka reads a directory that Apache Kafka wrote, from our daemon: each record, both isolation levels, its group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.daemon import Daemon
from support.kafka_sample import PARTITIONS, copy_sample, sample_log

Row = tuple[str, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
GROUP = "sample-group"  # it has read `mixed` and `client-lz4` to their ends


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = tmp_path_factory.mktemp("kafka") / "data"
    copy_sample(copied)
    return copied


@pytest.fixture(scope="module")
def kafkas(directory: Path) -> Iterator[Daemon]:
    # The sample's records are old: topics without a retention of their own would lose them.
    settings = {"log.retention.ms": -1, "log.cleaner.enable": "false", "group.initial.rebalance.delay.ms": 0}
    with Daemon(directory, settings) as running:
        yield running


def consumer(bootstrap: str, **settings: object) -> Consumer:
    fixed = {"bootstrap.servers": bootstrap, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({"group.id": GROUP, **fixed, **{name.replace("_", "."): value for name, value in settings.items()}})


def read(bootstrap: str, isolation: str) -> list[Row]:
    reader = consumer(bootstrap, isolation_level=isolation, enable_partition_eof=True)
    reader.assign([TopicPartition(topic, number, sample_log(topic, number).start) for topic, number in PARTITIONS])
    rows: list[Row] = []
    ended = 0
    while ended < len(PARTITIONS):
        message = reader.poll(20)
        assert message is not None
        if message.error():
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended += 1
            continue
        headers = tuple(message.headers() or ())
        place = (message.topic(), message.partition(), message.offset(), message.timestamp()[1])
        rows.append((*place, message.key(), message.value(), headers))
    reader.close()
    return sorted(rows, key=lambda row: row[:3])


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_record(kafkas: Daemon, isolation: str) -> None:
    expected: list[Row] = []
    for topic, number in PARTITIONS:
        log = sample_log(topic, number)
        for one in log.committed if isolation == "read_committed" else log.records:
            headers = tuple((key.decode(), value) for key, value in one.headers)
            expected.append((topic, number, one.offset, one.timestamp, one.key, one.value, headers))
    assert len(expected) > 9000
    assert read(kafkas.bootstrap, isolation) == expected


def test_an_open_transaction_is_the_end_for_readers_of_committed_data(kafkas: Daemon) -> None:
    log = sample_log("txn", 0)
    for isolation, end in (("read_uncommitted", log.end), ("read_committed", log.last_stable_offset)):
        reader = consumer(kafkas.bootstrap, isolation_level=isolation)
        assert reader.get_watermark_offsets(TopicPartition("txn", 0), 10) == (log.start, end)
        reader.close()


def test_the_group_goes_on_where_it_was(kafkas: Daemon) -> None:
    reader = consumer(kafkas.bootstrap)
    ends = [sample_log("mixed", number).end for number in range(3)]
    committed = reader.committed([TopicPartition("mixed", number) for number in range(3)], 10)
    assert [one.offset for one in committed] == ends
    reader.subscribe(["mixed"])
    producer = Producer({"bootstrap.servers": kafkas.bootstrap, "enable.idempotence": True})
    producer.produce("mixed", b"ours", b"key", partition=1)
    assert producer.flush(20) == 0
    message = reader.poll(20)
    assert message is not None
    assert (message.value(), message.partition(), message.offset()) == (b"ours", 1, ends[1])
    reader.close()
