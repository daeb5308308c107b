"""Retention through real sockets: who is in mid-fetch is not disturbed, and deletion shows in files, offsets and metrics."""

from __future__ import annotations

import os
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from support.clients.kafka_python import producer
from support.daemon import Daemon, DaemonError
from support.patience import PATIENCE_S, until
from support.policies import install_policies
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.schema import decode, encode

MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    plugins = tmp_path_factory.mktemp("plugins")
    install_policies(plugins)
    settings = {
        "log.retention.check.interval.ms": 50,
        "log.initial.task.delay.ms": 0,
        "log.segment.delete.delay.ms": 0,
        "auto.create.topics.enable": "false",
    }
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(plugins)
    try:
        running = Daemon(tmp_path_factory.mktemp("retention") / "data", settings).start()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    with running:
        yield running


@pytest.fixture
def admin(daemon: Daemon) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    yield client
    client.close()


def make(admin: KafkaAdminClient, name: str, **settings: object) -> None:
    configs = {key.replace("_", "."): str(value) for key, value in settings.items()}
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=configs)])


def write(daemon: Daemon, topic: str, values: list[bytes]) -> None:
    client = producer(daemon.bootstrap, max_request_size=2 * MIB, batch_size=0, linger_ms=0)
    for future in [client.send(topic, value, partition=0) for value in values]:
        future.get(PATIENCE_S)
    client.close()


def metric(daemon: Daemon, line: str) -> float | None:
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
        for found in answer.read().decode().splitlines():
            if found.startswith(line + " "):
                return float(found.rpartition(" ")[2])
    return None


def counter(name: str, topic: str, policy: str) -> str:
    return f'tidelog_retention_{name}_total{{partition="0",policy="{policy}",topic="{topic}"}}'


def logs_of(daemon: Daemon, topic: str) -> list[Path]:
    return sorted(daemon.directory.glob(f"{topic}-0/*.log"))


def fetch(address: tuple[str, int], topic: str, offset: int, max_bytes: int) -> socket.socket:
    """A consumer with a small window that has asked and does not read."""
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[
            FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)])],
    )  # fmt: skip
    body = b"\x00\x01\x00\x0b\x00\x00\x00\x07\xff\xff" + encode(request, 11)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(address)
    client.sendall(len(body).to_bytes(4, "big") + body)
    return client


def read_exactly(client: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = client.recv(min(65536, count - len(data)))
        assert chunk, f"the connection ended {count - len(data)} bytes early"
        data += chunk
    return bytes(data)


def test_a_slow_consumer_in_mid_send_keeps_its_bytes(daemon: Daemon, admin: KafkaAdminClient) -> None:
    make(admin, "slow", segment_bytes=16 * MIB, max_message_bytes=2 * MIB)
    write(daemon, "slow", [os.urandom(MIB) for _ in range(17)])
    first, second = logs_of(daemon, "slow")
    original = first.read_bytes()
    assert len(original) > 14 * MIB
    with fetch(daemon.address, "slow", 0, 64 * MIB) as client:
        client.settimeout(PATIENCE_S)
        size = int.from_bytes(read_exactly(client, 4), "big")
        assert size > len(original)
        admin.delete_records({TopicPartition("slow", 0): -1})
        until(lambda: not first.exists() and not list(daemon.directory.glob("slow-0/*.deleted")), "the files are gone")
        answer = read_exactly(client, size)
    response, _ = decode(FetchResponse, 11, answer, 4)
    (topic,) = response.responses
    assert bytes(topic.partitions[0].records) == original
    assert second.exists()
    assert metric(daemon, counter("deleted_segments", "slow", "start-offset")) == 1
    assert metric(daemon, counter("deleted_bytes", "slow", "start-offset")) == len(original)
    until(lambda: metric(daemon, 'tidelog_background_task_runs_total{task="delete-file"}'), "the removal is counted")


def test_policies_of_packages_and_broken_ones(daemon: Daemon, admin: KafkaAdminClient) -> None:
    make(admin, "three", segment_bytes=1000, deletion_policies="newest-three")
    make(admin, "broken", segment_bytes=1000, deletion_policies="broken")
    for topic in ("three", "broken"):
        write(daemon, topic, [b"x" * 900 for _ in range(8)])
    until(lambda: len(logs_of(daemon, "three")) == 3, "three segments are left")
    failures = counter("policy_failures", "broken", "broken")
    until(lambda: metric(daemon, failures), "the broken policy is counted")
    assert len(logs_of(daemon, "broken")) == 8
    assert metric(daemon, counter("deleted_segments", "three", "newest-three")) == 5
    until(lambda: "broken-0: deletion policy broken deletes nothing" in daemon.stderr(), "it is logged")


def test_background_threads_change_while_it_runs_and_stay(daemon: Daemon, admin: KafkaAdminClient) -> None:
    assert metric(daemon, "tidelog_background_threads") == 10
    admin.alter_configs([ConfigResource(ConfigResourceType.BROKER, "1", {"background.threads": "3"})])
    assert metric(daemon, "tidelog_background_threads") == 3
    admin.close()  # it would try to connect meanwhile, and leave the sockets of its tries behind
    daemon.restart()
    assert metric(daemon, "tidelog_background_threads") == 3


def test_a_start_with_a_policy_that_is_not_installed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DaemonError, match="no deletion policy 'newest-nine' is installed; there are: append-time, size, time"
    ):
        Daemon(tmp_path / "data", {"log.deletion.policies": "time,newest-nine"}).start()
