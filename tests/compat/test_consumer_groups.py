"""Consumer groups of KIP-848 with librdkafka's consumers: assignment, migration both ways, kill -9 in mid-rebalance, and the
state in `__consumer_offsets` as Apache Kafka's own tool reads it. Java's consumer: tests/compat/test_java.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.librdkafka import producer
from support.daemon import Daemon
from support.dump_log_segments import dump
from support.patience import PATIENCE_S, until
from tidelog.cli.groups import describe
from tidelog.cli.support.kafka_client import KafkaClient

PARTITIONS = 6
SETTINGS: dict[str, str | int] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 3_000,
    "group.consumer.session.timeout.ms": 10_000,
    "offsets.topic.num.partitions": 1,
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon whose members send heartbeats often."""
    with Daemon(tmp_path_factory.mktemp("kip848"), settings=SETTINGS) as daemon:
        admin = AdminClient({"bootstrap.servers": bootstrap_of(daemon)})
        for made in admin.create_topics([NewTopic("t", PARTITIONS)]).values():
            made.result(PATIENCE_S)
        yield daemon


def bootstrap_of(daemon: Daemon) -> str:
    host, port = daemon.address
    return f"{host}:{port}"


class Members:
    """Consumers of one group, each polled when asked."""

    def __init__(self, daemon: Daemon, group: str, stack: ExitStack) -> None:
        self.daemon, self.group, self.stack = daemon, group, stack
        self.consumers: list[Consumer] = []

    def add(self, protocol: str = "consumer", topics: str = "t", **config: object) -> Consumer:
        """`topics`: one name, or a regular expression that begins with ^."""
        extra = {} if protocol == "consumer" else {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}
        made = Consumer(
            {
                "bootstrap.servers": bootstrap_of(self.daemon),
                "group.id": self.group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                **extra,
                **config,
            }
        )
        self.stack.callback(made.close)
        made.subscribe([topics])
        self.consumers.append(made)
        return made

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def poll(self) -> None:
        for each in self.consumers:
            each.poll(0.05)

    def shares(self) -> list[int]:
        self.poll()
        return sorted(len(each.assignment()) for each in self.consumers)

    def settle(self, *expected: int) -> None:
        until(lambda: self.shares() == sorted(expected), f"shares {expected}")
        places = [(p.topic, p.partition) for each in self.consumers for p in each.assignment()]
        assert len(set(places)) == len(places) == PARTITIONS

    def described(self) -> dict[str, object]:
        with KafkaClient(bootstrap_of(self.daemon)) as client:
            (found,) = describe(client, [self.group])
        return found


def test_members_share_and_leave(own: Daemon) -> None:
    with ExitStack() as stack:
        members = Members(own, "sharing", stack)
        first = members.add()
        members.settle(6)
        members.add()
        members.add(**{"group.remote.assignor": "range"})
        members.settle(2, 2, 2)
        described = members.described()
        assert (described["type"], described["state"], described["protocol"]) == ("consumer", "Stable", "range")
        members.remove(first)
        members.settle(3, 3)


def test_a_group_migrates_there_and_back(own: Daemon) -> None:
    with ExitStack() as stack:
        members = Members(own, "migrating", stack)
        members.add("classic", **{"partition.assignment.strategy": "cooperative-sticky"})
        members.settle(6)
        assert members.described()["type"] == "classic"
        new = members.add()
        members.settle(3, 3)
        described = members.described()
        assert described["type"] == "consumer"
        assert {each["protocol"] for each in described["members"]} == {"classic", "consumer"}  # type: ignore[attr-defined]
        members.remove(new)
        members.settle(6)
        until(lambda: members.described()["type"] == "classic", "a classic group again")


def test_kill_in_mid_rebalance(own: Daemon) -> None:
    p = producer(bootstrap_of(own))
    for i in range(60):
        p.produce("t", b"%d" % i, partition=i % PARTITIONS)
    assert p.flush(20) == 0
    with ExitStack() as stack:
        members = Members(own, "killed", stack)
        members.add()
        members.add()
        members.settle(3, 3)
        before = members.described()["epoch"]
        third = members.add()
        until(lambda: bool(members.poll()) or members.described()["epoch"] != before, "a rebalance begins")
        own.kill()
        own.start()
        members.settle(2, 2, 2)
        (mine, *_) = third.assignment()
        (done,) = third.commit(offsets=[TopicPartition(mine.topic, mine.partition, 1)], asynchronous=False)
        assert done.error is None
        described = members.described()
        assert len(described["members"]) == 3  # type: ignore[arg-type]
        assert described["epoch"] == described["assignment_epoch"]


def test_kafkas_tool_reads_the_state(own: Daemon) -> None:
    with ExitStack() as stack:
        members = Members(own, "dumped", stack)
        members.add()
        expression = members.add(topics="^t{1}$")
        members.settle(3, 3)
        files = sorted(own.directory.glob("__consumer_offsets-0/*.log"))
        text = dump(files, "--offsets-decoder")
        members.remove(expression)
        members.settle(6)
        text_afterwards = dump(files, "--offsets-decoder")
    found = [line for line in text.splitlines() if '"dumped"' in line]
    for kind in (3, 5, 6, 7, 8, 16):
        assert any(f'key: {{"type":"{kind}"' in line for line in found), (kind, found[:8])
    (resolved,) = (line for line in found if 'key: {"type":"16"' in line)
    assert '"regularExpression":"(^t{1}$)"' in resolved  # librdkafka's parentheses
    assert '"topics":["t"]' in resolved
    forgotten = [line for line in text_afterwards.splitlines() if '"dumped"' in line and '"type":"16"' in line][-1]
    assert forgotten.endswith("payload: <DELETE>"), forgotten
    assert "Error" not in text + text_afterwards
