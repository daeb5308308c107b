"""Ours, with damage → Apache Kafka → ours: a directory with holes and files that only we know is served on both sides."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.daemon import Daemon
from support.kafka_broker import KEEP, QUIET, export, kafka
from support.patience import PATIENCE_S
from tidelog.storage.segment.names import SEGMENT_SUFFIXES

RECORDS = 40
TOPICS = ("first-gone", "middle-gone", "last-flipped", "whole")


def write(bootstrap: str, topic: str, *numbers: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET})
    for number in numbers:  # one batch each
        producer.produce(topic, b"%d" % number + b"." * 100)
        assert producer.flush(PATIENCE_S) == 0


def offsets(bootstrap: str) -> dict[str, list[int]]:
    """Of what is left; each record's value says its offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True, **QUIET})
    found: dict[str, list[int]] = {}
    for topic in TOPICS:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found[topic] = []
        while (message := consumer.poll(PATIENCE_S)) is not None and not message.error():
            value = message.value()
            assert value is not None
            assert int(value.split(b".")[0]) == message.offset()
            found[topic].append(message.offset())
        assert message is not None
    consumer.close()
    return found


def bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def remove(directory: Path, base: int) -> None:
    for suffix in (*SEGMENT_SUFFIXES, ".snapshot"):
        (directory / f"{base:020d}{suffix}").unlink(missing_ok=True)


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*.damaged")}


def test_kafka_serves_what_damage_has_left_and_so_do_we_afterwards(tmp_path: Path) -> None:
    root = tmp_path / "data"
    settings = {**KEEP, "offsets.topic.num.partitions": 1, "log.segment.bytes": 1000, "log.flush.interval.messages": 1}
    with Daemon(root, settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, **QUIET})
        for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
            future.result(PATIENCE_S)
        for topic in TOPICS:
            write(running.bootstrap, topic, *range(RECORDS))
    segments = bases(root / "first-gone-0")
    assert len(segments) > 4
    assert bases(root / "middle-gone-0") == bases(root / "last-flipped-0") == segments
    expected = {topic: list(range(RECORDS)) for topic in TOPICS}
    remove(root / "first-gone-0", 0)
    del expected["first-gone"][: segments[1]]
    remove(root / "middle-gone-0", segments[2])
    del expected["middle-gone"][segments[2] : segments[3]]
    with Daemon(root, settings) as running:
        assert offsets(running.bootstrap) == expected
    (root / ".kafka_cleanshutdown").unlink()
    last = root / "last-flipped-0" / f"{segments[-1]:020d}.log"
    data = bytearray(last.read_bytes())
    data[70] ^= 1
    last.write_bytes(data)
    expected["last-flipped"].remove(segments[-1])
    with Daemon(root, settings) as running:
        assert offsets(running.bootstrap) == expected
    holes = names(root)
    assert len(holes) == 3

    made = export(root)
    assert made.returncode == 0, made.stderr
    with kafka(tmp_path) as bootstrap:
        assert offsets(bootstrap) == expected
        for topic in TOPICS:
            write(bootstrap, topic, RECORDS)
            expected[topic].append(RECORDS)
        assert offsets(bootstrap) == expected
    assert names(root) == holes

    for _ in range(2):  # the second start follows on a clean stop of ours
        with Daemon(root, settings) as running:
            assert offsets(running.bootstrap) == expected
        assert names(root) == holes
