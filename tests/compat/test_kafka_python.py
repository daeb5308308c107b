"""kafka-python."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidConfigurationError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from support.clients.base import CODECS, Job, in_order, messages_of, random_name, sample_records
from support.clients.kafka_python import KafkaPythonDriver, consumer, producer, take
from support.patience import PATIENCE_S, until

MakeTopic = Callable[..., str]


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def produce_numbers(bootstrap: str, topic: str, partitions: int, start: int, stop: int) -> None:
    p = producer(bootstrap)
    futures = [p.send(topic, b"%d" % i, partition=i % partitions) for i in range(start, stop)]
    for future in futures:
        future.get(PATIENCE_S)
    p.close()


def group_member(bootstrap: str, topic: str, group: str) -> KafkaConsumer:
    """A member that knows the topic before it joins: this client may else assign nothing, and leaves it at that."""
    c = consumer(bootstrap, group_id=group, heartbeat_interval_ms=300)
    assert c.partitions_for_topic(topic)
    c.subscribe([topic])
    return c


@pytest.mark.parametrize("codec", CODECS)
def test_roundtrip(bootstrap: str, make_topic: MakeTopic, codec: str) -> None:
    driver, topic, records = (
        KafkaPythonDriver(bootstrap),
        make_topic("kp-roundtrip", 2),
        sample_records(200, full=False),
    )
    driver.write(topic, [Job(1, codec, records)])
    assert driver.read(topic, len(records)) == messages_of(1, records)


def test_idempotence_keeps_order_and_counts(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, count = make_topic("kp-idempotence", 2), 2000
    p = producer(bootstrap, enable_idempotence=True, batch_size=500, linger_ms=0)
    futures = [p.send(topic, b"%d" % i, partition=i % 2) for i in range(count)]
    assert [f.get(PATIENCE_S).offset for f in futures] == [i // 2 for i in range(count)]
    p.close()
    read = in_order(KafkaPythonDriver(bootstrap).read(topic, count))
    assert [m.value for m in read] == [b"%d" % i for i in [*range(0, count, 2), *range(1, count, 2)]]


def test_group_goes_on_where_it_committed(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, group = make_topic("kp-group", 3), random_name("kp-group")
    produce_numbers(bootstrap, topic, 3, 0, 300)
    first = group_member(bootstrap, topic, group)
    assert len({m.value for m in take(first, 300)}) == 300
    first.commit()
    first.close()
    produce_numbers(bootstrap, topic, 3, 300, 330)
    second = group_member(bootstrap, topic, group)
    assert {m.value for m in take(second, 30)} == {b"%d" % i for i in range(300, 330)}
    assert [second.committed(TopicPartition(topic, p)) for p in range(3)] == [100, 100, 100]
    second.close()


def test_rebalance(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, group, seen = make_topic("kp-rebalance", 4), random_name("kp-rebalance"), set[bytes]()
    produce_numbers(bootstrap, topic, 4, 0, 400)

    def owned(*members: KafkaConsumer) -> list[int]:
        for c in members:
            for batch in c.poll(timeout_ms=50).values():
                seen.update(m.value for m in batch)
        return [len(c.assignment()) for c in members]

    first = group_member(bootstrap, topic, group)
    until(lambda: owned(first) == [4], "the first member has all")
    second = group_member(bootstrap, topic, group)
    until(lambda: owned(first, second) == [2, 2], "both have half")
    assert len(first.assignment() | second.assignment()) == 4
    second.close()
    until(lambda: owned(first) == [4], "the first member has all again")
    until(lambda: bool(owned(first)) and len(seen) == 400, "every record is seen")
    first.close()


def test_seek_by_time(bootstrap: str, make_topic: MakeTopic) -> None:
    partition = TopicPartition(make_topic("kp-time"), 0)
    p = producer(bootstrap)
    for i in range(100):
        p.send(partition.topic, b"%d" % i, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * i)
    p.close()
    c = consumer(bootstrap)
    c.assign([partition])
    found = c.offsets_for_times({partition: 1_700_000_041_500})[partition]
    assert (found.offset, found.timestamp) == (42, 1_700_000_042_000)
    assert c.offsets_for_times({partition: 1_800_000_000_000})[partition] is None
    assert c.beginning_offsets([partition]) == {partition: 0}
    assert c.end_offsets([partition]) == {partition: 100}
    c.seek(partition, found.offset)
    assert take(c, 1)[0].value == b"42"
    c.close()


def test_large_message(bootstrap: str, make_topic: MakeTopic) -> None:
    topic, value = make_topic("kp-large"), random.Random(2).randbytes(900_000)
    p = producer(bootstrap)
    assert p.send(topic, value).get(PATIENCE_S).offset == 0
    p.close()
    assert KafkaPythonDriver(bootstrap).read(topic, 1)[0].value == value


def test_too_large_message_is_refused(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("kp-too-large")
    # An idempotent producer of this client takes any refused batch as fatal for itself.
    p = producer(bootstrap, max_request_size=5_000_000, enable_idempotence=False)
    with pytest.raises(MessageSizeTooLargeError):
        p.send(topic, bytes(1_200_000)).get(PATIENCE_S)
    assert p.send(topic, bytes(1000)).get(PATIENCE_S).offset == 0
    p.close()


def test_many_partitions(bootstrap: str, make_topic: MakeTopic, admin: KafkaAdminClient) -> None:
    topic = make_topic("kp-many", 200)
    produce_numbers(bootstrap, topic, 200, 0, 1000)
    read = in_order(KafkaPythonDriver(bootstrap).read(topic, 1000))
    assert [(m.partition, m.offset, m.value) for m in read] == [
        (p, n, b"%d" % (p + 200 * n)) for p in range(200) for n in range(5)
    ]
    admin.delete_topics([topic])


def test_admin(bootstrap: str, admin: KafkaAdminClient) -> None:
    name = random_name("kp-admin")
    admin.create_topics({name: {"num_partitions": 2, "configs": {"retention.ms": "123456789"}}})
    until(lambda: name in admin.list_topics(), "the topic is listed")
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({name: {"num_partitions": 2}})
    with pytest.raises(InvalidConfigurationError):
        admin.create_topics({random_name("kp-bad"): {"num_partitions": 1, "configs": {"retention.ms": "-7"}}})
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)], config_filter="all")
    assert "123456789" in str(described)
    admin.create_partitions({name: 5})
    until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 5, "five partitions")
    assert len(admin.describe_cluster()["brokers"]) == 1
    admin.delete_topics([name])
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([name])
    until(lambda: name not in admin.list_topics(), "the topic is gone")
