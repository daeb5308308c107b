"""Kafka Connect as a distributed worker, with its three internal topics, and MirrorMaker 2; with `--whole-suites` alone."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.clients.base import random_name
from support.clients.programs import connect_command
from support.kafka_broker import free_port
from support.patience import until

LINES = [f"line {number}" for number in range(200)]


@pytest.fixture(autouse=True)
def whole(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--whole-suites"):
        pytest.skip("a worker takes longer to start than the other suites to end: --whole-suites")


@contextmanager
def running(program: str, settings: Mapping[str, object], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One of Connect's programs; killed at the end. Its log is beside its settings."""
    properties = directory / "worker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (directory / "worker.log").open("wb") as log:
        process = subprocess.Popen([*connect_command(), program, str(properties)], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


class Worker:
    """Connect's REST interface."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def ask(self, path: str, content: object = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, data, headers, method="PUT" if data else "GET")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def can(self, path: str, content: object = None) -> bool:
        try:
            self.ask(path, content)
        except (OSError, urllib.error.URLError):  # it starts, or rebalances
            return False
        return True

    def is_running(self, connector: str) -> bool:
        if not self.can(f"/connectors/{connector}/status"):
            return False
        status = self.ask(f"/connectors/{connector}/status")
        return [task["state"] for task in status["tasks"]] == ["RUNNING"]


def test_a_distributed_worker_from_file_to_file(bootstrap: str, tmp_path: Path) -> None:
    """Exactly once, over a kill of the worker: each line is in the topic, and in the other file, once."""
    stem, port = random_name("connect"), free_port()
    storage = {f"{kind}.storage.topic": f"{stem}-{kind}s" for kind in ("offset", "config", "status")}
    replicas = {f"{kind}.storage.replication.factor": 1 for kind in ("offset", "config", "status")}
    converter = "org.apache.kafka.connect.storage.StringConverter"
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": stem,
        "key.converter": converter,
        "value.converter": converter,
        **storage,
        **replicas,
        "offset.storage.partitions": 3,
        "offset.flush.interval.ms": 500,
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{port}",
    }
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    source.write_text("".join(f"{line}\n" for line in LINES[:100]))
    connectors = {
        "source": {"connector.class": "FileStreamSource", "file": str(source), "topic": stem, "tasks.max": 1},
        "sink": {"connector.class": "FileStreamSink", "file": str(target), "topics": stem, "tasks.max": 1},
    }
    worker = Worker(port)
    program = "org.apache.kafka.connect.cli.ConnectDistributed"
    with running(program, settings, tmp_path):
        for name, config in connectors.items():
            until(lambda n=name, c=config: worker.can(f"/connectors/{n}/config", c), f"{name} is made", 90)
        until(lambda: lines_of(target) >= 100, "the first half has arrived")
    with source.open("a") as more:
        more.write("".join(f"{line}\n" for line in LINES[100:]))
    with running(program, settings, tmp_path):
        for name in connectors:
            until(lambda n=name: worker.is_running(n), f"{name} goes on", 120)
        until(lambda: target.read_text().splitlines()[-1:] == LINES[-1:], "the second half has arrived")
    assert values(bootstrap, stem, len(LINES)) == LINES


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_mirror_maker(bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> None:
    """From the broker to itself, under the other cluster's name."""
    topic = make_topic("mirrored")
    producer = Producer({"bootstrap.servers": bootstrap})
    for line in LINES:
        producer.produce(topic, line.encode(), partition=0)
    assert producer.flush(30) == 0
    alias = random_name("a")
    replicas = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic", "offset.storage", "status.storage")
    settings = {
        "clusters": f"{alias}, b",
        f"{alias}.bootstrap.servers": bootstrap,
        "b.bootstrap.servers": bootstrap,
        f"{alias}->b.enabled": "true",
        f"{alias}->b.topics": topic,
        f"b->{alias}.enabled": "false",
        "replication.factor": 1,
        "config.storage.replication.factor": 1,
        **{f"{name}.replication.factor": 1 for name in replicas},
        "sync.topic.acls.enabled": "false",
        "emit.heartbeats.interval.seconds": 1,
    }
    with running("org.apache.kafka.connect.mirror.MirrorMaker", settings, tmp_path):
        assert values(bootstrap, f"{alias}.{topic}", len(LINES)) == LINES


def values(bootstrap: str, topic: str, count: int) -> list[str]:
    """The committed records of partition 0, once there are so many."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": random_name("reader"),
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[str] = []

    def more() -> bool:
        for message in consumer.consume(500, 1):
            if not message.error():  # the topic is not there yet
                value = message.value()
                assert value is not None
                found.append(value.decode())
        return len(found) >= count

    try:
        until(more, f"{count} records are in {topic}", 120)
    finally:
        consumer.close()
    return found
