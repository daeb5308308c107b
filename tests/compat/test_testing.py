"""tidelog.testing with librdkafka, and every example of docs/TESTING_WITH_TIDELOG.md."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from support.patience import PATIENCE_S, until
from tidelog.testing import Broker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "TESTING_WITH_TIDELOG.md"
LIMIT_S = PATIENCE_S
DAY_MS = 86_400_000


def produce(broker: Broker, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in records:
        producer.produce(topic, value, key=key, partition=0)
    assert producer.flush(LIMIT_S) == 0


def read(broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = []
    while True:
        message = consumer.poll(LIMIT_S)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return got
        got.append((message.key(), message.value()))


def test_retention_and_tombstones(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("both", config={"cleanup.policy": "compact,delete", "retention.ms": 20 * DAY_MS})
    produce(tidelog_broker, "both", (b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1"))
    tidelog_broker.clean("both")
    assert read(tidelog_broker, "both") == [(b"b", b"1"), (b"a", None), (b"c", b"1")]
    tidelog_broker.clock.advance(days=2)
    tidelog_broker.clean("both")
    assert read(tidelog_broker, "both") == [(b"b", b"1"), (b"c", b"1")]
    tidelog_broker.clock.advance(days=20)
    consumer = Consumer({"bootstrap.servers": tidelog_broker.bootstrap_servers, "group.id": "reader"})
    assert consumer.get_watermark_offsets(TopicPartition("both", 0)) == (4, 4)
    consumer.close()


def test_a_member_loses_its_session_and_joins_again_by_itself(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("orders")
    servers = tidelog_broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    lost: list[int] = []
    given: list[int] = []
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "g",
            "session.timeout.ms": 45_000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "range",
        }
    )
    consumer.subscribe(
        ["orders"],
        on_assign=lambda _, parts: given.append(len(parts)),
        on_revoke=lambda _, parts: lost.append(len(parts)),
        on_lost=lambda _, parts: lost.append(len(parts)),
    )

    def polled(condition: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: consumer.poll(0.05) is None and condition()

    until(polled(lambda: given == [1]), "partition 1 is given")
    tidelog_broker.clock.advance(seconds=46)
    until(polled(lambda: lost == [1] and given == [1, 1]), "partition 1 is lost and given again")
    described = admin.describe_consumer_groups(["g"])["g"].result(LIMIT_S)
    assert (described.state, len(described.members)) == (ConsumerGroupState.STABLE, 1)
    consumer.close()


def test_faults_are_met_and_survived(tidelog_broker: Broker) -> None:
    faults = tidelog_broker.faults
    tidelog_broker.create_topic("orders")
    struck = [
        faults.error("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2),
        faults.disconnect("Fetch", after_bytes=40),
        faults.error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2),
        faults.error("JoinGroup", "NOT_COORDINATOR"),
        faults.error("ListOffsets", "NOT_LEADER_OR_FOLLOWER"),
        faults.error("OffsetCommit", "REQUEST_TIMED_OUT", handled=True),
    ]
    produce(tidelog_broker, "orders", *((None, b"%d" % number) for number in range(100)))
    config = {
        "bootstrap.servers": tidelog_broker.bootstrap_servers,
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 20,
        "fetch.error.backoff.ms": 20,
    }
    consumer = Consumer(config)
    consumer.subscribe(["orders"])
    values = []
    deadline = time.monotonic() + LIMIT_S
    while len(values) < 100:
        assert time.monotonic() < deadline
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            values.append(message.value())
    assert values == [b"%d" % number for number in range(100)]
    consumer.commit(asynchronous=False)
    assert consumer.committed([TopicPartition("orders", 0)], LIMIT_S)[0].offset == 100
    consumer.close()
    assert [fault.hits for fault in struck] == [fault.times for fault in struck]


def examples() -> list[tuple[str, str]]:
    """(file name, source) of the page's Python blocks, in their order."""
    return re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.S)


def test_the_pages_examples_work(tmp_path: Path) -> None:
    assert [name for name, _ in examples()] == [
        "conftest.py",
        "conftest.py",
        "test_orders.py",
        "test_time.py",
        "test_async.py",
        "test_faults.py",
    ]
    for name, source in examples():  # the second conftest.py is the one after the switch
        compile(source, name, "exec")
        (tmp_path / name).write_text(source)
    (ini,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text(), re.S)
    without_partitions = ini.replace("    num.partitions=3\n", "")  # the examples write to partition 0
    asyncio_settings = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    (tmp_path / "pytest.ini").write_text(without_partitions + asyncio_settings)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-W", "error", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed" in done.stdout
