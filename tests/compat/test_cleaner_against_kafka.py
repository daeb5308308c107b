"""Our cleaner and Apache Kafka's on the same files: what survives one pass is the same, record for record.

Kafka writes random logs (keys that repeat, tombstones, aborted and committed transactions, every codec), and makes a first
pass over some topics, whose tombstones are past their horizon by the time of the second. Our daemon gets a copy of the
directory; then each side makes one pass from the same checkpoint over the same segments, and stops.

Differences by intent, none of which shows in which records one pass leaves:

- A horizon that is due makes a log eligible with us whatever its dirty share; Kafka waits for new records. So ours may drop
  a tombstone or a marker a pass earlier. Here both have new records.
- Segments that cleaning replaced go at once with us, after `file.delete.delay.ms` with Kafka.
- A group in which nothing changes is left as it is with us and is written anew by Kafka; neither which segments are joined
  nor the bytes of a batch that was compressed again need be equal, and are not compared.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from support.clients.base import CODECS
from support.daemon import Daemon
from support.kafka_broker import KEEP, QUIET, export, kafka
from support.patience import PATIENCE_S, until
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records

HORIZON_MS = 4000
CHECKPOINT = "cleaner-offset-checkpoint"
FAR = [f"far-{codec}" for codec in CODECS]
PAST = [f"past-{codec}" for codec in CODECS]
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "15000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "86400000",
}
KAFKA = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
QUICK: dict[str, str | int] = {"log.cleaner.backoff.ms": 100, **KEEP}


class Survivor(NamedTuple):
    """A record or a transaction marker."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    producer: tuple[int, int]
    is_control: bool


def write(bootstrap: str, topic: str, chance: random.Random, count: int) -> None:
    """Batches of a plain, an idempotent and a transactional producer in turn."""
    codec = topic.rpartition("-")[2]
    common = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 2, **QUIET}
    plain = Producer({**common, "enable.idempotence": False})
    idempotent = Producer({**common, "enable.idempotence": True})
    transactional = Producer({**common, "transactional.id": f"{topic}-{chance.random()}"})
    transactional.init_transactions(20)
    while count > 0:
        producer = chance.choice([plain, idempotent, transactional])
        batch = chance.randint(1, 25)
        count -= batch
        if producer is transactional:
            producer.begin_transaction()
        for _ in range(batch):
            key = b"key %d" % int(chance.triangular(0, 150, 0))
            value = None if chance.random() < 0.25 else b"%x" % chance.getrandbits(chance.choice([8, 400, 2400]))
            headers = [("h", b"v"), ("h", None)] if chance.random() < 0.1 else []
            producer.produce(topic, value, key, headers=headers)
        assert producer.flush(20) == 0
        if producer is transactional:
            if chance.random() < 0.4:
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)


def bury(bootstrap: str, topic: str) -> None:
    """A key whose tombstone is its last word, whatever the random writes say after it."""
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    for value in (b"alive", None):
        producer.produce(topic, value, b"buried")
    assert producer.flush(20) == 0


def survivors(directory: Path, topic: str, below: int) -> Iterator[Survivor]:
    """Everything below an offset, from the files."""
    for path in sorted((directory / f"{topic}-0").glob("*.log")):
        data = path.read_bytes()
        for batch in iterate_batches(data):
            for one in iterate_records(data, batch.position):
                if one.offset < below:
                    producer = (batch.producer_id, batch.producer_epoch)
                    yield Survivor(
                        one.offset, one.timestamp, one.key, one.value, tuple(one.headers), producer, batch.is_control
                    )


def checkpoint(directory: Path) -> dict[str, int]:
    """Topic → the offset up to which it is clean."""
    try:
        lines = (directory / CHECKPOINT).read_text().splitlines()[2:]
    except FileNotFoundError:
        return {}
    return {topic: int(offset) for topic, _, offset in (line.split() for line in lines)}


def active_base(directory: Path, topic: str) -> int:
    return max(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log"))


def is_clean(directory: Path, ends: dict[str, int]) -> bool:
    clean = checkpoint(directory)
    return all(clean.get(topic, 0) >= end for topic, end in ends.items())


def ends_of(directory: Path, topics: list[str]) -> dict[str, int]:
    return {topic: active_base(directory, topic) for topic in topics}


def test_one_pass_leaves_the_same_records_as_apache_kafkas(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ours, theirs = tmp_path / "ours" / "data", tmp_path / "theirs" / "data"
    with Daemon(theirs, QUICK) as daemon:  # Kafka's first start finds topics there
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
        brief = {**SETTINGS, "delete.retention.ms": str(HORIZON_MS)}
        new = [NewTopic(topic, 1, 1, config=brief) for topic in PAST]
        new += [NewTopic(topic, 1, 1, config=SETTINGS) for topic in FAR]
        for future in admin.create_topics(new).values():
            future.result(PATIENCE_S)
    exported = export(theirs)
    assert exported.returncode == 0, exported.stderr

    with kafka(theirs.parent, log_cleaner_backoff_ms="100", **KAFKA) as bootstrap:
        for topic in PAST:
            bury(bootstrap, topic)
            write(bootstrap, topic, chance, 250)
        until(lambda: is_clean(theirs, ends_of(theirs, PAST)), "the first pass")
        stamped = time.monotonic()
    before = checkpoint(theirs)
    assert all(before[topic] > 0 for topic in PAST)

    with kafka(theirs.parent, log_cleaner_enable="false", **KAFKA) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        change = ConfigEntry("delete.retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
        resources = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change]) for topic in PAST]
        for changed in admin.incremental_alter_configs(resources).values():
            changed.result(PATIENCE_S)
        for topic in (*FAR, *PAST):
            write(bootstrap, topic, chance, 400)
    ends = ends_of(theirs, [*FAR, *PAST])
    written = {topic: list(survivors(theirs, topic, end)) for topic, end in ends.items()}
    time.sleep(max(0.0, stamped + HORIZON_MS / 1000 + 0.1 - time.monotonic()))
    shutil.copytree(theirs, ours)

    with kafka(theirs.parent, log_cleaner_backoff_ms="100", **KAFKA):
        until(lambda: is_clean(theirs, ends), "Kafka's pass")
    with Daemon(ours, QUICK):
        until(lambda: is_clean(ours, ends), "our pass")

    for topic, end in ends.items():
        mine, kafkas = list(survivors(ours, topic, end)), list(survivors(theirs, topic, end))
        assert mine == kafkas, topic
        assert len(mine) < len(written[topic]), topic
        dead = {one.offset for one in written[topic]} - {one.offset for one in mine}
        gone = [one for one in written[topic] if one.offset in dead and one.value is None]
        assert gone, f"{topic}: no tombstone went"
    for topic in PAST:  # those of the first pass are past their horizon, and the last of their keys some of them
        latest = {one.key: one.offset for one in written[topic] if not one.is_control}
        left = {one.offset for one in survivors(ours, topic, before[topic])}
        expired = [
            one.offset
            for one in written[topic]
            if one.offset < before[topic] and one.value is None and latest[one.key] == one.offset
        ]
        assert any(offset not in left for offset in expired), topic
