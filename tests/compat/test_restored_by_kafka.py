"""Promise: what a backup brings back, Apache Kafka opens after `export-kraft`: records, offsets, groups, what is committed.

The machine is lost with a transaction open. Kafka's own coordinator ends that one when its producer comes back, as ours would.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.daemon import Daemon
from support.kafka_broker import KEEP, QUIET, TIDELOG, export, kafka
from support.patience import PATIENCE_S, until

GROUP, GROUP_OF_TRANSACTIONS = "readers", "movers"
TOPICS: dict[str, dict[str, str]] = {
    "plain": {"segment.bytes": "20000"},
    "transacted": {"segment.bytes": "20000"},
    "table": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "10000"},
}
PARTITIONS = 2
Row = tuple[int, tuple[int, int], bytes | None, bytes | None]


class Seen(NamedTuple):
    """What clients see: rows by topic and partition under each isolation level, and committed offsets by group and partition."""

    all: dict[tuple[str, int], list[Row]]
    committed: dict[tuple[str, int], list[Row]]
    groups: dict[tuple[str, str, int], int]


def see(bootstrap: str) -> Seen:
    return Seen(rows(bootstrap, "read_uncommitted"), rows(bootstrap, "read_committed"), offsets(bootstrap))


def rows(bootstrap: str, level: str) -> dict[tuple[str, int], list[Row]]:
    """All rows up to the end, which with read_committed is before the first open transaction."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "isolation.level": level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    found: dict[tuple[str, int], list[Row]] = {
        (topic, partition): [] for topic in TOPICS for partition in range(PARTITIONS)
    }
    left = set(found)
    reader.assign([TopicPartition(topic, partition, 0) for topic, partition in left])
    deadline = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, f"{left} do not end"
        message = reader.poll(1)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF", message.error()
            left.discard(place)
            continue
        found[place].append((message.offset(), message.timestamp(), message.key(), message.value()))
    reader.close()
    return found


def offsets(bootstrap: str) -> dict[tuple[str, str, int], int]:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    found: dict[tuple[str, str, int], int] = {}
    for group in (GROUP, GROUP_OF_TRANSACTIONS):

        def ask(group: str = group) -> bool:
            [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
            try:
                partitions = answer.result(PATIENCE_S).topic_partitions
            except KafkaException as error:
                assert error.args[0].name() == "COORDINATOR_LOAD_IN_PROGRESS", error
                return False
            found.update(((group, one.topic, one.partition), one.offset) for one in partitions)
            return True

        until(ask, "the group's coordinator has loaded")
    return found


def transactional(bootstrap: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "mover",
            "transaction.timeout.ms": 600_000,
            "linger.ms": 0,
            **QUIET,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def transact(producer: Producer, what: str, *, end: str) -> None:
    """A transaction over all partitions, with offsets of a group; `end`: commit, abort, or leave open."""
    producer.begin_transaction()
    for number in range(20):
        producer.produce("transacted", f"{what} {number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    if end == "commit":
        reader = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": GROUP_OF_TRANSACTIONS, **QUIET})
        place = [TopicPartition("plain", 0, 17), TopicPartition("plain", 1, 18)]
        producer.send_offsets_to_transaction(place, reader.consumer_group_metadata(), PATIENCE_S)
        reader.close()
        producer.commit_transaction(PATIENCE_S)
    elif end == "abort":
        producer.abort_transaction(PATIENCE_S)


def fill(bootstrap: str) -> Producer:
    """Write what is to come back; the producer that is returned has a transaction open."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for made in admin.create_topics(
        [NewTopic(name, PARTITIONS, 1, config=own) for name, own in TOPICS.items()]
    ).values():
        made.result(PATIENCE_S)
    plain = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "enable.idempotence": True, **QUIET})
    for number in range(600):
        plain.produce("plain", b"%d " % number * 20, key=b"%d" % number, partition=number % PARTITIONS)
        plain.produce("table", b"%d " % number * 20, key=b"%d" % (number % 7), partition=number % PARTITIONS)
    assert plain.flush(PATIENCE_S) == 0
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUIET})
    place = [TopicPartition("plain", partition, 100 + partition) for partition in range(PARTITIONS)]
    until(lambda: reader.commit(offsets=place, asynchronous=False), "offsets are committed")
    reader.close()
    producer = transactional(bootstrap)
    transact(producer, "first", end="commit")
    transact(producer, "aborted", end="abort")
    transact(producer, "second", end="commit")
    transact(producer, "open", end="")
    return producer


def await_cut(daemon: Daemon) -> None:
    """Return when all that was acknowledged before is in the backup."""
    before = time.time()

    def is_covered() -> bool:
        with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        lag = [float(line.split()[1]) for line in lines if line.startswith("tidelog_backup_lag_seconds ")]
        return bool(lag) and time.time() - lag[0] > before + 0.05

    until(is_covered, "a cut has it all")


def command(*arguments: str) -> str:
    done = subprocess.run([*TIDELOG, *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def without_cleaned(rows: dict[tuple[str, int], list[Row]]) -> dict[tuple[str, int], list[Row]]:
    """All but the compacted topic, of which each side may have taken more; see `newest`."""
    return {place: found for place, found in rows.items() if place[0] != "table"}


def newest(seen: Seen) -> dict[tuple[int, bytes | None], Row]:
    """The compacted topic's last row of each key."""
    return {
        (partition, row[2]): row for (topic, partition), found in seen.all.items() if topic == "table" for row in found
    }


def test_kafka_opens_what_a_backup_brings_back(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    url = (tmp_path / "store").as_uri()
    settings = {
        "backup.url": url,
        "backup.interval.ms": 200,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.backoff.ms": 100,
        **KEEP,
    }
    daemon = Daemon(tmp_path / "machine", settings)
    with daemon:
        producer = fill(daemon.bootstrap)
        ours = see(daemon.bootstrap)
        await_cut(daemon)
        daemon.kill()
        shutil.rmtree(daemon.directory)
        # Its transaction ends with a daemon that is gone, and so not at all.
        del producer
        data = tmp_path / "data"
        command("restore", "--from", url, str(data))
        command("log", "verify", "--quiet", str(data))
    assert [len(ours.committed["transacted", partition]) for partition in range(PARTITIONS)] == [20, 20]
    assert [len(ours.all["transacted", partition]) for partition in range(PARTITIONS)] == [40, 40]
    assert set(ours.groups.values()) == {100, 101, 17, 18}
    done = export(data)
    assert done.returncode == 0, done.stderr
    with kafka(tmp_path) as bootstrap:
        theirs = see(bootstrap)
        assert without_cleaned(theirs.all) == without_cleaned(ours.all)
        assert without_cleaned(theirs.committed) == without_cleaned(ours.committed)
        assert newest(theirs) == newest(ours)
        assert theirs.groups == ours.groups
        again = transactional(bootstrap)  # the one that was open is aborted for it
        transact(again, "of Kafka", end="commit")
        values = [
            row[3] for found in (rows(bootstrap, "read_committed")["transacted", n] for n in (0, 1)) for row in found
        ]
    expected = [f"{what} {number}" for what in ("first", "second", "of Kafka") for number in range(20)]
    assert sorted(value.decode() for value in values if value is not None) == sorted(expected)
