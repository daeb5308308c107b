"""Topics kept in message formats 0 and 1: today's clients write and read them, and Kafka's own tool finds no fault."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from support.daemon import Daemon
from support.dump_log_segments import complaints, dump, files_of, first_offsets
from support.patience import PATIENCE_S
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.schema import decode, encode

CODECS = ["none", "gzip", "snappy", "lz4"]
RECORDS = 60
START_MS = 1_700_000_000_000
#: Topic → the setting, the format, whether clients see timestamps.
TOPICS = {"zero": ("0.9.0", 0), "one": ("0.10.2", 1), "one-append": ("0.10.2", 1)}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("formats") / "data", {"group.initial.rebalance.delay.ms": 0}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        new = []
        for name, (version, _) in TOPICS.items():
            config = {
                "message.format.version": version,
                "message.timestamp.type": "LogAppendTime" if "append" in name else "CreateTime",
                "segment.bytes": "3000",
                "index.interval.bytes": "300",
                "retention.ms": "-1",
            }
            new.append(NewTopic(name, 1, 1, config=config))
        new.append(NewTopic("packed", 1, 1, config={"compression.type": "zstd", "retention.ms": "-1"}))
        for future in admin.create_topics(new).values():
            future.result(PATIENCE_S)
        for name in TOPICS:
            for codec in CODECS:
                write(running.bootstrap, name, codec)
        yield running


def value(i: int) -> bytes | None:
    return None if i % 7 == 0 else b"%03d " % i + b"." * (i % 90)


def write(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "batch.num.messages": 11, "linger.ms": 5}
    )
    failed: list[KafkaError] = []
    for i in range(RECORDS):
        key = None if i % 3 == 0 else b"key %d" % i
        producer.produce(
            topic,
            value(i),
            key,
            headers=[("lost", b"on the way")],
            timestamp=START_MS + i * 10,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failed == []


@pytest.mark.parametrize("topic", TOPICS)
def test_librdkafka_reads_what_it_wrote(daemon: Daemon, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(messages) < RECORDS * len(CODECS) and time.monotonic() < deadline:
        messages += consumer.consume(100, 0.5)
    consumer.close()
    assert [message.error() for message in messages] == [None] * len(messages)
    assert [message.offset() for message in messages] == list(range(RECORDS * len(CODECS)))
    for at, message in enumerate(messages):
        i = at % RECORDS
        assert message.value() == value(i)
        assert message.key() == (None if i % 3 == 0 else b"key %d" % i)
        assert not message.headers()
        if topic == "one":
            assert message.timestamp() == (1, START_MS + i * 10)
        elif topic == "one-append":
            assert message.timestamp()[0] == 2
            assert message.timestamp()[1] > START_MS + 10_000_000


def test_kafka_python_reads_them_too(daemon: Daemon) -> None:
    """But for format 0's lz4, for which it wants a package of its own."""
    for topic, (_, magic) in TOPICS.items():
        consumer = KafkaConsumer(
            topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", max_poll_records=20
        )
        wanted = RECORDS * (len(CODECS) if magic else len(CODECS) - 1)
        values: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(values) < wanted and time.monotonic() < deadline:
            values += [record.value for records in consumer.poll(500).values() for record in records]
        consumer.close()
        assert values[:wanted] == [value(i) for _ in range(wanted // RECORDS) for i in range(RECORDS)]


def test_offsets_by_time(daemon: Daemon) -> None:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": "times"})
    found = consumer.offsets_for_times([TopicPartition("one", 0, START_MS + 305)], timeout=PATIENCE_S)
    assert found[0].offset == 31
    consumer.close()


def test_idempotent_producers_are_told(daemon: Daemon) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "enable.idempotence": True})
    told: list[int] = []
    producer.produce("one", b"x", on_delivery=lambda error, _: told.append(error.code() if error else 0))
    with contextlib.suppress(KafkaException):
        producer.flush(20)
    assert told == [KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT]


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (10, ErrorCode.NONE)])
def test_zstd_is_for_clients_that_know_it(daemon: Daemon, version: int, code: ErrorCode) -> None:
    write(daemon.bootstrap, "packed", "none")
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="packed", partitions=[partition])
    body = encode(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), version)
    request = struct.pack(">hhih", ApiKey.FETCH, version, 7, -1) + body
    host, port = daemon.bootstrap.split(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(size)
    response, _ = decode(FetchResponse, version, answer, 4)
    told = response.responses[0].partitions[0]
    assert told.error_code == code
    assert bool(told.records) == (code == ErrorCode.NONE)


def test_dump_log_segments_is_content(daemon: Daemon) -> None:
    daemon.stop()
    data: Path = daemon.directory
    files = [path for path in files_of(data, ".log", ".index", ".timeindex") if path.parent.name[:-2] in TOPICS]
    text = dump(files, "--deep-iteration", "--print-data-log")
    assert complaints(text, first_offsets(data)) == []
    assert text.count("isvalid: true") >= len(TOPICS) * 10
    for magic in (0, 1):
        for codec in CODECS:
            assert f"magic: {magic} compresscodec: {codec}" in text
    assert "magic: 2" not in text
    assert len(list(data.glob("zero-0/*.log"))) >= 2
