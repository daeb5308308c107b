"""Apache Kafka's own DumpLogSegments reads every file that the daemon wrote, and complains of nothing.

Kafka's jars come by Maven, as benchmarks/kafka_peer.py fetches them; one JVM looks at all files of a kind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.base import CODECS
from support.daemon import Daemon
from support.dump_log_segments import PASSED, SEGMENT_SUFFIXES, complaints, dump, files_of, first_offsets
from support.patience import PATIENCE_S

RECORDS = 400


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of ours after a clean stop: all codecs, headers, nulls, idempotence, many segments, a group."""
    directory = tmp_path_factory.mktemp("dumped") / "data"
    settings: dict[str, str | int] = {"group.initial.rebalance.delay.ms": 0, "log.index.interval.bytes": 512}
    with Daemon(directory, settings) as daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
        topic_settings = {"segment.bytes": "20000", "index.interval.bytes": "512", "retention.ms": "-1"}
        topics = [f"codec-{codec}" for codec in CODECS]
        new = [NewTopic(name, 1, 1, config=topic_settings) for name in topics]
        new.append(NewTopic("append-time", 1, 1, config={**topic_settings, "message.timestamp.type": "LogAppendTime"}))
        for future in admin.create_topics(new).values():
            future.result(PATIENCE_S)
        for codec in CODECS:
            produce(daemon.bootstrap, f"codec-{codec}", codec, idempotent=False)
            produce(daemon.bootstrap, f"codec-{codec}", codec, idempotent=True)
            produce(daemon.bootstrap, "append-time", codec, idempotent=True)
        consume(daemon.bootstrap, topics)
        daemon.restart()  # another leader epoch, and an active segment that was loaded
        produce(daemon.bootstrap, "codec-lz4", "lz4", idempotent=True)
    return directory


def produce(bootstrap: str, topic: str, codec: str, *, idempotent: bool) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "batch.num.messages": 17,
            "linger.ms": 5,
        }
    )
    randomness = random.Random(codec)
    for i in range(RECORDS):
        key = None if i % 3 == 0 else f"key {i % 50}".encode()
        value = None if i % 7 == 0 else randomness.randbytes(1 + i * 31 % 150).hex().encode()
        headers = [("one", b"1"), ("one", None), ("käse", b"")] if i % 5 == 0 else []
        producer.produce(topic, value, key, headers=headers, timestamp=1_700_000_000_000 + i * 100 - i % 11 * 350)
        producer.poll(0)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topics: Sequence[str]) -> None:
    """Commits an offset of each topic in a group, with members that come and go."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(list(topics))
    while not consumer.poll(5):
        pass
    consumer.commit(offsets=[TopicPartition(topic, 0, 5, metadata="why") for topic in topics], asynchronous=False)
    consumer.close()


def test_there_is_something_to_read(data: Path) -> None:
    for topic in (*(f"codec-{codec}" for codec in CODECS), "append-time"):
        assert len(list(data.glob(f"{topic}-0/*.log"))) >= 2, f"{topic} has one segment"
        assert list(data.glob(f"{topic}-0/*.snapshot")), f"{topic} has no snapshot"


def test_every_record_and_every_index_entry(data: Path) -> None:
    files = files_of(data, *SEGMENT_SUFFIXES)
    text = dump(files, "--deep-iteration", "--print-data-log")
    assert complaints(text, first_offsets(data)) == []
    assert text.count("Dumping ") == len(files)
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert len(offsets) >= RECORDS * (3 * len(CODECS) + 1)
    assert max(offsets) == RECORDS * len(CODECS) - 1  # append-time has the most
    for codec in CODECS:
        assert f"compresscodec: {codec}" in text
    assert "producerId: " in text
    assert "headerKeys: [one,one,käse]" in text
    assert "isvalid: true" in text


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_every_index(data: Path, option: str) -> None:
    files = files_of(data, ".index", ".timeindex")
    text = dump(files, option)
    assert complaints(text, first_offsets(data)) == []
    assert text.count("Dumping ") == len(files)
    if option == "--index-sanity-check":
        assert len([line for line in text.splitlines() if PASSED.fullmatch(line)]) == len(files)


def test_every_snapshot(data: Path) -> None:
    files = files_of(data, ".snapshot")
    text = dump(files)
    assert complaints(text) == []
    assert text.count("producerEpoch: 0") >= len(CODECS)


def test_committed_offsets(data: Path) -> None:
    files = [path for path in files_of(data, ".log") if path.stat().st_size and "__consumer_offsets-" in str(path)]
    text = dump(files, "--offsets-decoder")
    assert complaints(text) == []
    for codec in CODECS:
        committed = f'key: {{"type":"1","data":{{"group":"g","topic":"codec-{codec}","partition":0}}}} payload: '
        assert f'{committed}{{"version":"4","data":{{"offset":5,' in text


def test_a_fault_is_complained_of(data: Path, tmp_path: Path) -> None:
    """Else the tests above would pass whatever we write."""
    log = data / "codec-none-0" / "00000000000000000000.log"
    (tmp_path / log.name).write_bytes(log.read_bytes())
    index = bytearray(log.with_suffix(".index").read_bytes())
    index[-5] ^= 1  # the last entry's offset
    (tmp_path / "00000000000000000000.index").write_bytes(index)
    assert any(
        "Mismatches" in line
        for line in complaints(dump([tmp_path / "00000000000000000000.index"], "--verify-index-only"))
    )
    broken = bytearray(log.read_bytes())
    broken[17] ^= 1  # of the first batch's checksum: in a record it may be a length, at which the tool ends
    (tmp_path / log.name).write_bytes(broken)
    assert any("isvalid: false" in line for line in complaints(dump([tmp_path / log.name])))
