"""The cleaner in a running daemon, seen by a client: what the documents promise, through Produce, Fetch and ListOffsets."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError
from support.clients.base import random_name
from support.clients.kafka_python import consumer, producer, take
from support.daemon import Daemon
from support.patience import PATIENCE_S, until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.backoff.ms": 50,
        "log.cleaner.dedupe.buffer.size": 1 << 20,
        "log.segment.bytes": 4096,
        "offsets.topic.segment.bytes": 4096,
        "offsets.topic.num.partitions": 1,
        "log.retention.ms": -1,
    }
    with Daemon(tmp_path_factory.mktemp("cleaner") / "data", settings) as running:
        yield running


SMALLEST_RECORD = 18
"""Bytes of a record of this file's in a batch, at least."""


def compacted_topic(daemon: Daemon, **configs: str) -> str:
    topic = random_name("compacted")
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    try:
        names = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "4096"} | {
            name.replace("_", "."): value for name, value in configs.items()
        }
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs=names)])
    finally:
        admin.close()
    return topic


def messages_below(daemon: Daemon, topic: str, end: int) -> list[tuple[int, bytes, bytes]]:
    """(offset, key, value) of everything up to offset `end`, which is still there."""
    partition = TopicPartition(topic, 0)
    found: list[tuple[int, bytes, bytes]] = []
    with closing(consumer(daemon.bootstrap)) as reader:
        reader.assign([partition])
        reader.seek(partition, 0)
        while not found or found[-1][0] < end:
            for batch in reader.poll(1000).values():
                found += [(m.offset, m.key, m.value) for m in batch]
    return found


def is_clean(daemon: Daemon, topic: str) -> bool:
    """True if the cleaner has been through all that it may: its checkpoint is where the active segment begins."""
    active = max(int(path.stem) for path in (daemon.directory / f"{topic}-0").glob("*.log"))
    entries = (daemon.directory / "cleaner-offset-checkpoint").read_text().splitlines()
    return f"{topic} 0 {active}" in entries


def test_a_topic_is_compacted_while_it_is_served(daemon: Daemon) -> None:
    topic = compacted_topic(daemon)
    p = producer(daemon.bootstrap)
    for number in range(2000):
        p.send(topic, key=b"key-%d" % (number % 20), value=b"%06d" % number)
    p.flush()
    last = p.send(topic, key=b"end", value=b"").get(PATIENCE_S).offset
    p.close()
    # Where the active segment begins depends on how the client made batches of its records: it may hold some 200 of them.
    until(lambda: is_clean(daemon, topic), "cleaned")
    found = messages_below(daemon, topic, last)
    assert len(found) <= 20 + 4096 // SMALLEST_RECORD + 1
    assert {key: value for _, key, value in found if key != b"end"} == {
        b"key-%d" % (number % 20): b"%06d" % number for number in range(1980, 2000)
    }
    # An offset that is gone stands for the next one that is there.
    reader = consumer(daemon.bootstrap)
    partition = TopicPartition(topic, 0)
    reader.assign([partition])
    present = [offset for offset, _, _ in found]
    gone = next(offset for offset in range(present[0]) if offset not in present)
    reader.seek(partition, gone)
    assert take(reader, 1)[0].offset == present[0]
    assert reader.beginning_offsets([partition]) == {partition: 0}
    assert reader.end_offsets([partition]) == {partition: last + 1}
    reader.close()

    daemon.restart()
    assert messages_below(daemon, topic, last) == found

    daemon.kill()
    daemon.start()
    assert messages_below(daemon, topic, last) == found


def ledger_of(daemon: Daemon, topic: str) -> Any:
    """`{"appended", "live", "removed"}`, once nothing has to be cleaned any more."""
    url = f"http://{daemon.http}/clean/{topic}?wait=5"
    request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        told = json.load(answer)
    assert (told["state"], told["errors"]) == ("done", {})
    return told["byPartition"]["0"]["ledger"]


def test_the_ledger_adds_up_whenever_the_daemon_is_killed(daemon: Daemon) -> None:
    """appended = live + Σ removed, and what is live can be read; the cleaner is never at rest when the kill comes."""
    topic = compacted_topic(daemon)
    for turn in range(2):
        with closing(producer(daemon.bootstrap, linger_ms=0, batch_size=500)) as p:
            for number in range(600 * turn, 600 * turn + 600):
                p.send(topic, key=b"key-%d" % (number % 50), value=None if number % 17 == 0 else b"%040d" % number)
            p.flush()
        daemon.kill()
        daemon.start()
    with closing(producer(daemon.bootstrap)) as p:
        last = p.send(topic, key=b"end", value=b"").get(PATIENCE_S).offset
    ledger = ledger_of(daemon, topic)
    assert ledger["appended"] == last + 1 == ledger["live"] + sum(ledger["removed"].values())
    assert len(messages_below(daemon, topic, last)) == ledger["live"]
    assert set(ledger["removed"]) == {"superseded"}
    daemon.stop()
    verified = subprocess.run(
        [sys.executable, "-m", "tidelog.broker", "log", "verify", "--quiet", str(daemon.directory)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert verified.returncode == 0, verified.stdout
    daemon.start()
    assert ledger_of(daemon, topic) == ledger


def test_a_record_without_a_key_is_refused_by_index(daemon: Daemon) -> None:
    topic = compacted_topic(daemon)
    with (
        closing(producer(daemon.bootstrap)) as p,
        pytest.raises(KafkaError, match="record 0: a compacted topic") as caught,
    ):
        p.send(topic, value=b"no key").get(PATIENCE_S)
    assert caught.value.errno == 87
    with closing(producer(daemon.bootstrap)) as p:
        assert p.send(topic, key=b"k", value=b"v").get(PATIENCE_S).offset == 0


def thread_line(daemon: Daemon) -> str:
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(line for line in lines if line.startswith("tidelog_cleaner_threads "))


def test_the_broker_tells_of_its_cleaner_and_takes_new_settings(daemon: Daemon) -> None:
    admin = KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    try:
        for threads in ("2", "1"):
            resource = ConfigResource(
                ConfigResourceType.BROKER,
                "1",
                configs={"log.cleaner.threads": threads, "log.cleaner.io.max.bytes.per.second": "50000000"},
            )
            admin.alter_configs([resource])

            until(lambda threads=threads: thread_line(daemon).endswith(f" {threads}.0"), "new threads")
    finally:
        admin.close()
    with urllib.request.urlopen(f"http://{daemon.http}/health/ready", timeout=PATIENCE_S) as answer:
        assert json.load(answer) == {"status": "ready", "degraded": []}


def bytes_of_logs(directory: Path) -> float:
    """Infinite while a pass takes a segment away between the listing and the look at it."""
    try:
        return sum(path.stat().st_size for path in directory.glob("*.log"))
    except FileNotFoundError:
        return math.inf


def test_committed_offsets_survive_the_cleaning_of_their_topic(daemon: Daemon) -> None:
    topic, group = compacted_topic(daemon), random_name("group")
    p = producer(daemon.bootstrap)
    for number in range(300):
        p.send(topic, key=b"%d" % number, value=b"x")
    p.flush()
    p.close()
    reader = consumer(daemon.bootstrap, topic, group_id=group)
    assert reader.partitions_for_topic(topic)  # this client may else assign nothing, and leaves it at that
    for _ in range(300):
        take(reader, 1)
        reader.commit()
    position = reader.committed(TopicPartition(topic, 0))
    reader.close()
    offsets = daemon.directory / "__consumer_offsets-0"
    until(lambda: bytes_of_logs(offsets) < 12_000, "cleaned offsets")
    for end in (daemon.stop, daemon.kill):
        end()
        daemon.start()
        again = consumer(daemon.bootstrap, group_id=group)
        assert again.committed(TopicPartition(topic, 0)) == position
        again.close()
