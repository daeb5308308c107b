"""Clients of 2013 to 2018 write and read topics of every message format, with every codec that they know.

What each writes, today's librdkafka reads; what today's librdkafka wrote, each reads, and its own; those with groups
commit, and find it again. By default one client of each format; all of them with --old-clients all.
"""

from __future__ import annotations

import re
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.base import Message, Record
from support.clients.old_clients import OLD_CLIENTS, OldClient, Where, has_python_2, old_client
from support.compatibility import table, write_table
from support.daemon import Daemon
from support.patience import PATIENCE_S

_FETCH_BYTES = re.compile(r'^tidelog_fetch_bytes_total\{path="(\w+)"\} (\S+)$', re.MULTILINE)
FORMATS = ("0.9.0", "0.10.2", "4.0")
CODECS = ("none", "gzip", "snappy", "lz4")
SHAPES: Sequence[tuple[bytes | None, bytes | None]] = (
    (b"key", b"value"),
    (bytes(range(256)), "größer".encode() * 40),
    (b"another", b"x" * 3000),
    (None, b"no key"),
    (b"deleted", None),
    (b"", b""),
)
PLAIN = [Record(*SHAPES[n % 3]) for n in range(60)]
NULLS = [Record(*SHAPES[n % len(SHAPES)]) for n in range(60)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--old-clients") == "all"
    clients = [client for client in OLD_CLIENTS if chosen or client.in_slice]
    if not has_python_2():
        clients = [client for client in clients if client.kind != "kafka-python-0.9"]
    if "reader" in metafunc.fixturenames:
        clients = [client for client in clients if client.reads]
    if "member" in metafunc.fixturenames:
        clients = [client for client in clients if client.reads and client.groups]
    for name in {"writer", "reader", "member"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, clients, ids=[client.name for client in clients])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with Daemon(tmp_path_factory.mktemp("old") / "data", settings) as running:
        yield running


class Written:
    """What was written, by topic and partition, and in which formats it has been."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.began_ms = time.time() * 1000
        self.records: dict[Where, list[Record]] = {}
        self.magics: dict[Where, int] = {}
        self._by: set[str] = set()
        #: Which tests a client has passed.
        self.done: defaultdict[str, set[str]] = defaultdict(set)

    def topics_of(self, stem: str) -> list[str]:
        return [f"{stem}-in-{version}" for version in FORMATS]

    def wheres(self, stem: str, codecs: Sequence[str]) -> list[Where]:
        return [(topic, CODECS.index(codec)) for topic in self.topics_of(stem) for codec in codecs]

    def _make(self, stem: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        new = [
            NewTopic(topic, len(CODECS), 1, config={"message.format.version": version, "segment.bytes": "30000"})
            for topic, version in zip(self.topics_of(stem), FORMATS, strict=True)
        ]
        for future in admin.create_topics(new).values():
            future.result(PATIENCE_S)

    def by(self, client: OldClient) -> list[Where]:
        """By an old client, once."""
        if client.stem not in self._by:
            self._by.add(client.stem)
            self._make(client.stem)
            records = NULLS if client.nulls else PLAIN
            sets = {}
            for topic, magic in zip(self.topics_of(client.stem), (0, 1, 2), strict=True):
                for codec in client.codecs:
                    where = topic, CODECS.index(codec)
                    sets[*where, codec] = records
                    self.records[where] = list(records)
                    self.magics[where] = min(magic, client.magic)
            client.write(self.bootstrap, sets)
        return self.wheres(client.stem, client.codecs)

    def by_today(self, *, nulls: bool) -> str:
        """By the newest librdkafka, once; the stem of its topics."""
        stem = "today" if nulls else "today-plain"
        if stem in self._by:
            return stem
        self._by.add(stem)
        self._make(stem)
        for codec in CODECS:
            producer = Producer({"bootstrap.servers": self.bootstrap, "compression.type": codec, "linger.ms": 20})
            for topic, magic in zip(self.topics_of(stem), (0, 1, 2), strict=True):
                where = topic, CODECS.index(codec)
                self.records[where] = NULLS if nulls else PLAIN
                self.magics[where] = magic
                for record in self.records[where]:
                    producer.produce(topic, record.value, record.key, where[1])
            assert producer.flush(30) == 0
        return stem

    def check(self, read: Mapping[Where, Sequence[Message]], reads_magic: int | None) -> None:
        """Every record is there, in its place; with its time, where every format that it has been in keeps it."""
        now = time.time() * 1000
        for where, messages in read.items():
            wanted = [(n, record.key, record.value) for n, record in enumerate(self.records[where])]
            assert [(message.offset, message.key, message.value) for message in messages] == wanted, where
            for message in messages if reads_magic is not None else ():
                assert reads_magic is not None
                if min(self.magics[where], reads_magic) > 0:
                    assert self.began_ms - 5000 < message.timestamp < now + 5000, (where, message)
                else:
                    assert message.timestamp == -1, (where, message)


@pytest.fixture(scope="module")
def written(daemon: Daemon) -> Written:
    return Written(daemon.bootstrap)


def read_today(bootstrap: str, counts: Mapping[Where, int]) -> dict[Where, list[Message]]:
    """By the newest librdkafka."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "today", "enable.auto.commit": False})
    consumer.assign([TopicPartition(*where, 0) for where in counts])
    messages: dict[Where, list[Message]] = {where: [] for where in counts}
    left, deadline = sum(counts.values()), time.monotonic() + PATIENCE_S
    while left > 0 and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            topic, partition = message.topic(), message.partition()
            assert topic is not None
            assert partition is not None
            kind, timestamp = message.timestamp()
            key, value = message.key(), message.value()
            assert not isinstance(key, str)
            assert not isinstance(value, str)
            time_ms = timestamp if kind else -1
            messages[topic, partition].append(Message(partition, message.offset() or 0, time_ms, key, value))
            left -= 1
    consumer.close()
    return messages


def test_what_it_writes_is_read_today(written: Written, writer: OldClient) -> None:
    wheres = written.by(writer)
    counts = {where: len(written.records[where]) for where in wheres}
    written.check(read_today(written.bootstrap, counts), 2)
    written.done[writer.name].add("writes")


def test_a_topic_is_made_for_it(written: Written, writer: OldClient) -> None:
    """Those of before 0.10 take an answer that does not know the topic for the last word."""
    where = f"made-for-{writer.stem}", 0
    writer.write(written.bootstrap, {(*where, "none"): PLAIN[:3]})
    written.records[where], written.magics[where] = PLAIN[:3], writer.magic
    written.check(read_today(written.bootstrap, {where: 3}), 2)


def test_it_reads_what_it_and_today_wrote(written: Written, reader: OldClient) -> None:
    wheres = written.by(reader) + written.wheres(written.by_today(nulls=reader.nulls), reader.codecs)
    read, _ = reader.read(written.bootstrap, {where: len(written.records[where]) for where in wheres})
    written.check(read, knows_times(reader))
    written.done[reader.name].add("reads")


def test_what_is_old_enough_is_not_copied(written: Written, daemon: Daemon) -> None:
    """A client of format 0 that reads format 0 gets the file's own bytes; what is newer is made for it in memory."""
    client = old_client("kafka-python", "0.8.2")
    wheres = written.by(client)
    for topic, is_copied in zip(written.topics_of(client.stem), (False, True, True), strict=True):
        counts = {where: len(written.records[where]) for where in wheres if where[0] == topic}
        before = fetched_bytes(daemon)
        client.read(written.bootstrap, counts)
        after = fetched_bytes(daemon)
        assert (after["copy"] > before["copy"], after["sendfile"] > before["sendfile"]) == (is_copied, not is_copied)


def fetched_bytes(daemon: Daemon) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {path: float(value) for path, value in _FETCH_BYTES.findall(text)}


def test_its_group_goes_on_where_it_was(written: Written, member: OldClient) -> None:
    wheres = written.by(member)
    counts = {
        (topic, partition): len(written.records.get((topic, partition), ()))
        for topic in written.topics_of(member.stem)
        for partition in range(len(CODECS))
        if (topic, partition) in wheres or member.kind not in ("kafka-python-0.9", "pykafka")
    }
    read, committed = member.read(written.bootstrap, counts, f"group-{member.stem}")
    written.check({where: messages for where, messages in read.items() if where in wheres}, knows_times(member))
    assert {where: committed[where] for where in wheres} == {where: len(written.records[where]) for where in wheres}
    written.done[member.name].add("group")


def knows_times(client: OldClient) -> int | None:
    """2 for a client that shows timestamps, 0 for one that knows none, None for one that fetches now so, now so."""
    if client.kind == "kafka-node":
        return None
    if client.kind in ("kafka-python-0.9", "pykafka") or client.version in (
        "0.8.2",
        "0.8.2.2",
        "0.9",
        "0.9.0",
        "0.9.0.1",
    ):
        return 0
    return 2


def test_the_table(written: Written, pytestconfig: pytest.Config) -> None:
    """Of what passed before it in this run."""
    rows = {}
    for client in OLD_CLIENTS:
        done = written.done[client.name]
        if done:
            cells = [
                str(client.magic),
                ", ".join(client.codecs),
                *(
                    "✓" if test in done else "–" if not possible else "✗"
                    for test, possible in (
                        ("writes", True),
                        ("reads", client.reads),
                        ("group", client.reads and client.groups),
                    )
                ),
            ]
            rows[client.name] = cells
    columns = ["writes format", "codecs", "written, read today", "reads its own and today's", "its group goes on"]
    made = table("client", columns, rows)
    print(made)
    if pytestconfig.getoption("--write-compatibility"):
        assert "✗" not in made
        write_table("clients", made)


def test_every_program_is_there(pytestconfig: pytest.Config) -> None:
    """What cannot be had is an error; but Python 2.7 is nowhere to be installed from."""
    for client in OLD_CLIENTS:
        if client.in_slice or pytestconfig.getoption("--old-clients") == "all":
            if client.kind == "kafka-python-0.9" and not has_python_2():
                continue
            assert Path(client.command("127.0.0.1:1")[0]).name
