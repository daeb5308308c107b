"""confluent-kafka (librdkafka), the most used client outside the JVM."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from support.clients.base import CODECS, Job, Message, in_order, messages_of, random_name, sample_records
from support.clients.librdkafka import Deliveries, LibrdkafkaDriver, consumer, message_of, producer
from support.patience import PATIENCE_S, until
from tidelog.testing import Broker

MakeTopic = Callable[..., str]


def produce_numbers(bootstrap: str, topic: str, partitions: int, start: int, stop: int) -> None:
    p = producer(bootstrap)
    for i in range(start, stop):
        p.produce(topic, b"%d" % i, partition=i % partitions)
    assert p.flush(20) == 0


def poll(c: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []

    def more() -> bool:
        messages.extend(message_of(m) for m in c.consume(500, 0.2))
        return len(messages) >= count

    until(more, f"{count} messages")
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_roundtrip(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    driver, topic, records = LibrdkafkaDriver(bootstrap), make_topic("rd-roundtrip", 2), sample_records(200)
    driver.write(topic, [Job(1, codec, records)])
    assert driver.read(topic, len(records)) == messages_of(1, records)


def test_a_client_that_does_its_work_has_nothing_to_tell() -> None:
    """It logs what it thinks that people should see: that it was asked for telemetry, for one."""
    heard = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    logger = logging.getLogger("librdkafka of this test")
    logger.addHandler(Heard())
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    with Broker() as broker:
        broker.create_topic("t")
        writer = Producer({"bootstrap.servers": broker.bootstrap_servers}, logger=logger)
        writer.produce("t", b"value")
        assert writer.flush(20) == 0
        reader = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"},
            logger=logger,
        )
        reader.subscribe(["t"])
        until(lambda: reader.poll(0.1) is not None, "the record")
        writer.poll(0)
        reader.close()
    assert not heard


@pytest.mark.parametrize("acks", ["0", "1"])
def test_fewer_acknowledgements(bootstrap: str, make_topic: MakeTopic, acks: str) -> None:
    topic = make_topic("rd-acks")
    p = producer(bootstrap, acks=acks)
    for i in range(100):
        p.produce(topic, b"%d" % i)
    assert p.flush(20) == 0
    assert [m.value for m in LibrdkafkaDriver(bootstrap).read(topic, 100)] == [b"%d" % i for i in range(100)]


def test_idempotence_keeps_order_and_counts(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, count, deliveries = make_topic("rd-idempotence", 2), 5000, Deliveries()
    p = producer(bootstrap, enable_idempotence=True, batch_num_messages=20, linger_ms=0)
    for i in range(count):
        p.produce(topic, b"%d" % i, partition=i % 2, on_delivery=deliveries)
    assert p.flush(20) == 0
    assert not deliveries.errors
    assert len(set(deliveries.offsets)) == count
    read = in_order(LibrdkafkaDriver(bootstrap).read(topic, count))
    assert [m.value for m in read] == [b"%d" % i for i in [*range(0, count, 2), *range(1, count, 2)]]


def test_group_goes_on_where_it_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, group = make_topic("rd-group", 3), random_name("rd-group")
    produce_numbers(bootstrap, topic, 3, 0, 300)
    first = consumer(bootstrap, group)
    first.subscribe([topic])
    assert len({m.value for m in poll(first, 300)}) == 300
    first.commit(asynchronous=False)
    first.close()
    produce_numbers(bootstrap, topic, 3, 300, 330)
    second = consumer(bootstrap, group)
    second.subscribe([topic])
    assert {m.value for m in poll(second, 30)} == {b"%d" % i for i in range(300, 330)}
    committed = second.committed([TopicPartition(topic, p) for p in range(3)], 10)
    assert [p.offset for p in committed] == [100, 100, 100]
    second.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_rebalance(bootstrap: str, make_topic: MakeTopic, strategy: str) -> None:
    topic, group, seen = make_topic("rd-rebalance", 4), random_name("rd-rebalance"), set[bytes]()
    produce_numbers(bootstrap, topic, 4, 0, 400)

    def member() -> Consumer:
        c = consumer(bootstrap, group, partition_assignment_strategy=strategy, heartbeat_interval_ms=300)
        c.subscribe([topic])
        return c

    def owned(*members: Consumer) -> list[int]:
        for c in members:
            seen.update(m.value() for m in c.consume(500, 0.05))
        return [len(c.assignment()) for c in members]

    first = member()
    until(lambda: owned(first) == [4], "the first member has all")
    second = member()
    until(lambda: owned(first, second) == [2, 2], "both have half")
    assert len({p.partition for c in (first, second) for p in c.assignment()}) == 4
    second.close()
    until(lambda: owned(first) == [4], "the first member has all again")
    until(lambda: bool(owned(first)) and len(seen) == 400, "every record is seen")
    first.close()


def test_static_member_comes_back_to_its_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, group, moved = make_topic("rd-static", 2), random_name("rd-static"), list[str]()

    def member(name: str, **callbacks: Callable[..., None]) -> Consumer:
        c = consumer(bootstrap, group, group_instance_id=name, heartbeat_interval_ms=300)
        c.subscribe([topic], **callbacks)
        return c

    def owned(*members: Consumer) -> list[int]:
        for c in members:
            c.poll(0.05)
        return [len(c.assignment()) for c in members]

    first = member("one", on_revoke=lambda *_: moved.append("revoked"))
    second = member("two")
    until(lambda: owned(first, second) == [1, 1], "one partition each")
    before, partition = len(moved), second.assignment()[0].partition
    second.close()
    second = member("two")
    until(lambda: owned(first, second) == [1, 1], "the static member is back")
    assert second.assignment()[0].partition == partition
    assert len(moved) == before
    first.close()
    second.close()


def test_seek_by_time(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, partition = make_topic("rd-time"), 0
    p = producer(bootstrap)
    for i in range(100):
        p.produce(topic, b"%d" % i, partition=partition, timestamp=1_700_000_000_000 + 1000 * i)
    assert p.flush(20) == 0
    c = consumer(bootstrap)
    found = c.offsets_for_times([TopicPartition(topic, partition, 1_700_000_041_500)], 10)[0]
    assert found.offset == 42
    assert c.offsets_for_times([TopicPartition(topic, partition, 1_800_000_000_000)], 10)[0].offset < 0
    assert c.get_watermark_offsets(TopicPartition(topic, partition), 10) == (0, 100)
    c.assign([found])
    assert poll(c, 1)[0].value == b"42"
    c.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    key = TopicPartition(topic, partition)
    newest = admin.list_offsets({key: OffsetSpec.max_timestamp()})[key].result(PATIENCE_S)
    assert (newest.offset, newest.timestamp) == (99, 1_700_000_099_000)


def test_large_message(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, value, deliveries = make_topic("rd-large"), random.Random(1).randbytes(900_000), Deliveries()
    p = producer(bootstrap)
    p.produce(topic, value, on_delivery=deliveries)
    assert p.flush(20) == 0
    assert deliveries.offsets == [(0, 0)]
    assert LibrdkafkaDriver(bootstrap).read(topic, 1)[0].value == value


def test_too_large_message_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, deliveries = make_topic("rd-too-large"), Deliveries()
    p = producer(bootstrap, message_max_bytes=5_000_000)
    p.produce(topic, bytes(1_200_000), on_delivery=deliveries)
    assert p.flush(20) == 0
    assert [e.code() for e in deliveries.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]
    p.produce(topic, bytes(1000), on_delivery=deliveries)
    assert p.flush(20) == 0
    assert deliveries.offsets == [(0, 0)]


def test_topic_limit_overrides_the_brokers(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, deliveries = make_topic("rd-limit", max_message_bytes=2000), Deliveries()
    p = producer(bootstrap)
    p.produce(topic, bytes(1000), on_delivery=deliveries)
    assert p.flush(20) == 0
    p.produce(topic, bytes(3000), on_delivery=deliveries)
    assert p.flush(20) == 0
    assert deliveries.offsets == [(0, 0)]
    assert [e.code() for e in deliveries.errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_many_partitions(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("rd-many", 200)
    produce_numbers(bootstrap, topic, 200, 0, 1000)
    read = in_order(LibrdkafkaDriver(bootstrap).read(topic, 1000))
    assert [(m.partition, m.offset, m.value) for m in read] == [
        (p, n, b"%d" % (p + 200 * n)) for p in range(200) for n in range(5)
    ]
    group = consumer(bootstrap, random_name("rd-many"))
    group.subscribe([topic])
    assert len({m.value for m in poll(group, 1000)}) == 1000
    group.commit(asynchronous=False)
    assert all(p.offset == 5 for p in group.committed([TopicPartition(topic, p) for p in range(200)], 10))
    group.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def test_admin(bootstrap: str) -> None:
    admin, name = AdminClient({"bootstrap.servers": bootstrap}), random_name("rd-admin")

    def code(call: Callable[[], object]) -> int:
        with pytest.raises(KafkaException) as caught:
            call()
        return int(caught.value.args[0].code())

    def create(topic: str, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        admin.create_topics([NewTopic(topic, 2, 1, config=settings)])[topic].result(PATIENCE_S)

    create(name, retention_ms="123456789")
    until(lambda: name in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is listed")
    assert code(lambda: create(name)) == KafkaError.TOPIC_ALREADY_EXISTS
    assert code(lambda: create(random_name("rd-bad"), retention_ms="-7")) == KafkaError.INVALID_CONFIG
    assert code(lambda: create(random_name("rd-bad"), no_such_setting="1")) == KafkaError.INVALID_CONFIG
    assert code(lambda: create("no good name")) == KafkaError.TOPIC_EXCEPTION

    resource = ConfigResource(ResourceType.TOPIC, name)
    config: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert config["retention.ms"].value == "123456789"
    assert config["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert config["cleanup.policy"].value == "delete"
    assert config["cleanup.policy"].is_default

    admin.create_partitions([NewPartitions(name, 5)])[name].result(PATIENCE_S)
    until(lambda: len(admin.list_topics(name, 10).topics[name].partitions) == 5, "five partitions")
    assert code(lambda: admin.create_partitions([NewPartitions(name, 5)])[name].result(PATIENCE_S)) in (
        KafkaError.INVALID_PARTITIONS,
    )

    cluster = admin.describe_cluster(request_timeout=PATIENCE_S).result(PATIENCE_S)
    assert len(cluster.nodes) == 1
    assert f"{cluster.nodes[0].host}:{cluster.nodes[0].port}" == bootstrap

    admin.delete_topics([name])[name].result(PATIENCE_S)
    assert code(lambda: admin.delete_topics([name])[name].result(PATIENCE_S)) == KafkaError.UNKNOWN_TOPIC_OR_PART
    until(lambda: name not in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is gone")


def test_long_poll_answers_at_once_when_data_comes(bootstrap: str, make_topic: MakeTopic) -> None:
    """A fetch that waits for 10 s must wake up on the append, not at its end (the time limit of poll is 5 s)."""
    topic = make_topic("rd-poll")
    c = consumer(bootstrap, fetch_wait_max_ms=10_000, socket_timeout_ms=15_000)
    c.assign([TopicPartition(topic, 0, 0)])
    assert c.poll(0.5) is None
    produce_numbers(bootstrap, topic, 1, 0, 1)
    message = c.poll(5)
    assert message is not None
    assert message_of(message).value == b"0"
    c.close()
