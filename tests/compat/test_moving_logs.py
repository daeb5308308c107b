"""A partition goes to another log directory by Apache Kafka's own tool, while clients write and read."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from support.daemon import Daemon
from support.dump_log_segments import PEER
from support.patience import PATIENCE_S, until

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SET = AlterConfigOpType.SET
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"


def tool(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(PEER), "tool", name, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    paths = [tmp_path / "one", tmp_path / "two"]
    settings: dict[str, str | int] = {"log.dirs": ",".join(map(str, paths)), "log.segment.delete.delay.ms": 0}
    with Daemon(tmp_path / "one", settings) as running:
        yield running


class Writer(threading.Thread):
    """Writes numbered records until it is stopped; `acked` are those that the daemon has."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self.stopping = threading.Event()
        self.acked: list[int] = []
        self.errors: list[object] = []

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            self.producer.produce("moving", b"%d" % number, on_delivery=self.delivered)
            self.producer.poll(0.002)
            number += 1
        self.producer.flush(60)

    def delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acked.append(int(message.value()))  # type: ignore[attr-defined]


def place(daemon: Daemon) -> dict[str, object]:
    """Where the partition is, and whether a copy of it is under way, by Kafka's tool."""
    said = tool(LOG_DIRS, "--bootstrap-server", daemon.bootstrap, "--describe", "--topic-list", "moving")
    (line,) = [line for line in said.splitlines() if line.startswith("{")]
    return {
        directory["logDir"]: partition["isFuture"]
        for directory in json.loads(line)["brokers"][0]["logDirs"]
        for partition in directory["partitions"]
    }


def reassign(daemon: Daemon, plan: Path, *arguments: str) -> str:
    return tool(REASSIGN, "--bootstrap-server", daemon.bootstrap, "--reassignment-json-file", str(plan), *arguments)


@pytest.fixture
def writer(daemon: Daemon) -> Iterator[Writer]:
    made = Writer(daemon.bootstrap)
    yield made
    made.stopping.set()


def test_kafkas_tool_moves_a_partition_that_is_written_to(daemon: Daemon, writer: Writer, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    admin.create_topics([NewTopic("moving", 1, 1, config={"segment.bytes": "65536"})])["moving"].result(PATIENCE_S)
    (home,) = place(daemon)
    other = str(tmp_path / ("two" if home.endswith("one") else "one"))
    filler = Producer({"bootstrap.servers": daemon.bootstrap, "compression.type": "none"})
    for _ in range(300):
        filler.produce("moving", b"-" + bytes(1000))
    filler.flush(30)
    writer.start()
    plan = tmp_path / "plan.json"
    partition = {"topic": "moving", "partition": 0, "replicas": [1], "log_dirs": [other]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    said = reassign(daemon, plan, "--execute", "--replica-alter-log-dirs-throttle", "1000")
    assert "Successfully started moving log directory" in said, said
    assert place(daemon) == {home: False, other: True}
    assert "is still in progress" in reassign(daemon, plan, "--verify", "--preserve-throttles")
    lifted = ConfigEntry("replica.alter.log.dirs.io.max.bytes.per.second", str(1 << 30), incremental_operation=SET)
    broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[lifted])
    admin.incremental_alter_configs([broker])[broker].result(PATIENCE_S)
    until((Path(other) / "moving-0").is_dir, "the partition lies in the other directory")
    assert "is complete" in reassign(daemon, plan, "--verify")
    before = len(writer.acked)
    until(lambda: len(writer.acked) > before + 50, "writing goes on there")
    writer.stopping.set()
    writer.join(60)
    assert not writer.errors
    until(lambda: not list(Path(home).glob("moving-0*")), "what was left behind is removed")
    for _ in range(2):
        assert read_all(daemon, len(writer.acked)) == sorted(writer.acked)
        daemon.kill()
        daemon.start()
    assert place(daemon) == {other: False}


def read_all(daemon: Daemon, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition("moving", 0, 0)])
    numbers: list[int] = []
    try:
        while len(numbers) < count:
            for message in consumer.consume(500, 10):
                assert not message.error(), message.error()
                value = message.value()
                assert value is not None
                if not value.startswith(b"-"):
                    numbers.append(int(value))
    finally:
        consumer.close()
    return numbers
