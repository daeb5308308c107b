"""What a client of any age writes, by either protocol, a client of any other reads, by either: every cell of the matrix.

Kafka's protocol is spoken by clients of that time, the message-set protocol by this package's own, in the format of that
time. A cell is green when all records come back in order with what the formats on the way can hold, for each codec that both
know, from topics of every message format.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.base import CODECS, Message, Record
from support.clients.old_clients import OldClient, Where, old_client
from support.compatibility import table, write_table
from support.daemon import Daemon
from support.patience import PATIENCE_S
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.message_set import NewRecord
from tidelog.protocol.records.attributes import Compression

RECORDS = [Record(b"key %d" % n, b"%d " % n + bytes(range(n % 200)) * (n % 9)) for n in range(60)]
_TCP = re.compile(r"\btcp://(\S+):(\d+)")


class End(NamedTuple):
    """One writer and reader: an age and a protocol. `client` is None where the program is this one."""

    age: str
    protocol: str
    magic: int
    client: OldClient | None = None

    @property
    def name(self) -> str:
        return f"{self.age}, {self.protocol}"

    def topic(self, topic_format: int) -> str:
        return f"by-{self.age}-{self.protocol.replace(' ', '-')}-in-{topic_format}"

    @property
    def codecs(self) -> Sequence[str]:
        return CODECS if self.age == "current" else CODECS[:4]

    def sets(self) -> list[tuple[int, str]]:
        """(topic's format, codec) of what it writes: formats 0 and 1 have no zstd."""
        return [
            (topic_format, codec) for topic_format in range(3) for codec in self.codecs[: 5 if topic_format == 2 else 4]
        ]


#: message.format.version, by format.
VERSIONS = ("0.9.0", "0.10.2", "4.0")
ENDS = (
    End("0.8", "Kafka", 0, old_client("kafka-python", "0.8.2")),
    End("0.10", "Kafka", 1, old_client("java", "0.10.2.2")),
    End("1.0", "Kafka", 2, old_client("java", "1.0.2")),
    End("current", "Kafka", 2),
    End("0.8", "message set", 0),
    End("0.10", "message set", 1),
    End("1.0", "message set", 2),
    End("current", "message set", 2),
)


class Matrix:
    """The daemon, what was written, and what was read by each reader."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.began_ms = time.time() * 1000
        self.read: dict[tuple[str, str, str], list[Message]] = {}
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
        new = [
            NewTopic(end.topic(magic), len(CODECS), 1, config={"message.format.version": version})
            for end in ENDS
            for magic, version in enumerate(VERSIONS)
        ]
        for future in admin.create_topics(new).values():
            future.result(PATIENCE_S)

    def message_sets(self) -> MessageSetClient:
        found = _TCP.search(self.daemon.ready_line)
        assert found is not None, self.daemon.ready_line
        return MessageSetClient(found[1], int(found[2]))

    def write(self, end: End) -> None:
        if end.client is not None:
            end.client.write(
                self.daemon.bootstrap,
                {(end.topic(magic), CODECS.index(codec), codec): RECORDS for magic, codec in end.sets()},
            )
        elif end.protocol == "Kafka":
            for magic, codec in end.sets():
                producer = Producer({"bootstrap.servers": self.daemon.bootstrap, "compression.type": codec})
                for record in RECORDS:
                    producer.produce(end.topic(magic), record.value, record.key, CODECS.index(codec))
                assert producer.flush(30) == 0
        else:
            with self.message_sets() as client:
                for magic, codec in end.sets():
                    new = [NewRecord(key=record.key, value=record.value) for record in RECORDS]
                    for at in range(0, len(new), 20):
                        client.produce(
                            end.topic(magic),
                            CODECS.index(codec),
                            new[at : at + 20],
                            magic=end.magic,
                            compression=Compression[codec.upper()],
                        )

    def read_by(self, reader: End) -> None:
        """All topics, in every codec that both know."""
        counts = {
            (writer.topic(magic), CODECS.index(codec)): len(RECORDS)
            for writer in ENDS
            for magic, codec in writer.sets()
            if codec in reader.codecs
        }
        if reader.client is not None:
            found, _ = reader.client.read(self.daemon.bootstrap, counts)
        elif reader.protocol == "Kafka":
            found = _read_today(self.daemon.bootstrap, counts)
        else:
            with self.message_sets() as client:
                found = {
                    (topic, partition): [
                        Message(partition, record.offset, record.timestamp, record.key, record.value)
                        for record in client.read(topic, partition, fetch_size=700)
                    ]
                    for topic, partition in counts
                }
        for (topic, partition), messages in found.items():
            self.read[reader.name, topic, CODECS[partition]] = messages

    def cell(self, writer: End, reader: End) -> str:
        """The number of codecs; AssertionError that names what is wrong."""
        sets = [(magic, codec) for magic, codec in writer.sets() if codec in reader.codecs]
        now = time.time() * 1000
        for magic, codec in sets:
            messages = self.read[reader.name, writer.topic(magic), codec]
            what = f"written by {writer.name} in {codec} to a topic of format {magic}, read by {reader.name}"
            got = [(message.offset, message.key, message.value) for message in messages]
            assert got == [(n, record.key, record.value) for n, record in enumerate(RECORDS)], what
            for message in messages:
                if min(writer.magic, magic, reader.magic) == 0:
                    assert message.timestamp == -1, what
                else:
                    assert self.began_ms - 5000 < message.timestamp < now + 5000, what
        return f"✓ {len({codec for _, codec in sets})}"


def _read_today(bootstrap: str, counts: Mapping[Where, int]) -> dict[Where, list[Message]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "today", "enable.auto.commit": False})
    consumer.assign([TopicPartition(*where, 0) for where in counts])
    found: dict[Where, list[Message]] = {where: [] for where in counts}
    left, deadline = sum(counts.values()), time.monotonic() + PATIENCE_S
    while left > 0 and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            kind, timestamp = message.timestamp()
            where = str(message.topic()), int(message.partition() or 0)
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            assert isinstance(value, bytes)
            found[where].append(Message(where[1], message.offset() or 0, timestamp if kind else -1, key, value))
            left -= 1
    consumer.close()
    return found


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    settings = {"message.set.listeners": "tcp://127.0.0.1:0", "message.set.max.magic": "2"}
    with Daemon(tmp_path_factory.mktemp("matrix") / "data", settings) as daemon:
        made = Matrix(daemon)
        for end in ENDS:
            made.write(end)
        for reader in ENDS:
            if reader.protocol == "message set" and daemon.settings["message.set.max.magic"] != str(reader.magic):
                daemon.settings["message.set.max.magic"] = str(reader.magic)
                daemon.restart()
            made.read_by(reader)
        yield made


@pytest.mark.parametrize("reader", ENDS, ids=lambda end: f"read by {end.name}")
@pytest.mark.parametrize("writer", ENDS, ids=lambda end: f"written by {end.name}")
def test_cell(matrix: Matrix, writer: End, reader: End) -> None:
    assert matrix.cell(writer, reader)


def test_the_table(matrix: Matrix, pytestconfig: pytest.Config) -> None:
    rows = {writer.name: [matrix.cell(writer, reader) for reader in ENDS] for writer in ENDS}
    made = table("written by ↓, read by →", [reader.name for reader in ENDS], rows)
    print(made)
    if pytestconfig.getoption("--write-compatibility"):
        write_table("written by, read by", made)
