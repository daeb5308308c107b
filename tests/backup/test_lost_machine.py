"""The machine is lost: kill -9 under load, the data directory wiped, and a restore from the backup, over and over.

A cut is all partitions at one moment. So with one writer that waits for each answer before it goes on to the next partition, what
comes back is a prefix of what it wrote, over all partitions together; of a transaction over all partitions there is all or
nothing; and what was acknowledged before the newest cut was taken is there, as are the offsets that a group had committed. Each
round goes on with what the round before brought back. `--lost-rounds N`, `--lost-seed S`; without rounds it is left out: a round
takes some seconds.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.daemon import Daemon
from support.object_stores import KEYS, Versitygw
from support.patience import PATIENCE_S, until
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store import ObjectStore, open_store

PARTITIONS = 4
PLAIN, TRANSACTED, TABLE = "plain", "transacted", "table"
GROUP = "readers"
QUIET = {"log_level": 0}
TOLD_MS = 1000
"""When more is lost it is told when the cuts before were taken."""


class Writer(threading.Thread):
    """One thread of load until the daemon dies. `acknowledged`: number of the value → wall clock, ms."""

    def __init__(self, bootstrap: str, start: int) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.next = start
        self.start_at = start
        self.acknowledged: dict[int, int] = {}
        self.stopped = threading.Event()
        self.failure = ""

    def run(self) -> None:
        try:
            self.write()
        except KafkaException:
            pass  # the daemon is gone
        except BaseException as error:
            self.failure = repr(error)
            raise

    def write(self) -> None:
        raise NotImplementedError

    def done(self, number: int) -> None:
        self.acknowledged[number] = time.time_ns() // 1_000_000


class PlainWriter(Writer):
    """Value n to partition n % PARTITIONS, when n - 1 was acknowledged; a row of the table for each."""

    def write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "linger.ms": 0,
                "enable.idempotence": True,
                "message.timeout.ms": 5000,
                **QUIET,
            }
        )
        while not self.stopped.is_set():
            answers: list[object] = []
            producer.produce(
                PLAIN,
                b"%d" % self.next,
                partition=self.next % PARTITIONS,
                on_delivery=lambda error, message, answers=answers: answers.append(error),  # type: ignore[misc]
            )
            while not answers:
                if self.stopped.is_set():
                    return
                producer.poll(0.05)
            if answers[0] is not None:
                return
            self.done(self.next)
            producer.produce(TABLE, b"%d" % self.next + bytes(300), key=b"%d" % (self.next % 7), partition=0)
            self.next += 1


class TransactionWriter(Writer):
    """Transactions over all partitions; every fifth is aborted."""

    def write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": "writer",
                "linger.ms": 0,
                "transaction.timeout.ms": 10_000,
                **QUIET,
            }
        )
        producer.init_transactions(30)
        while not self.stopped.is_set():
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(TRANSACTED, json.dumps([self.next, partition]).encode(), partition=partition)
            number = self.next
            self.next += 1
            if number % 5 == 4:
                producer.flush(2)
                producer.abort_transaction(2)
            else:
                producer.commit_transaction(2)
                self.done(number)


def read(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[list[bytes]]:
    """All committed values, by partition."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **QUIET,
        }
    )
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    left = set(range(partitions))
    reader.assign([TopicPartition(topic, partition, 0) for partition in left])
    deadline = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, f"{topic} {left} hold readers back"
        message = reader.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            left.discard(message.partition())
            continue
        found[message.partition()].append(message.value())
    reader.close()
    return found


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog.broker", *arguments], capture_output=True, text=True, check=False, timeout=600
    )


class Machine:
    """A daemon with a backup, and what is known of what was written."""

    def __init__(self, directory: Path, url: str, store: ObjectStore) -> None:
        self.url = url
        self.store = store
        self.daemon = Daemon(
            directory,
            {
                "backup.url": url,
                "backup.interval.ms": 200,
                "log.segment.bytes": 64 << 10,
                "group.initial.rebalance.delay.ms": 0,
                "log.cleaner.backoff.ms": 100,
                "offsets.topic.num.partitions": 2,
                "transaction.state.log.num.partitions": 2,
            },
        )
        self.committed: dict[int, int] = {}
        self.losses: list[int] = []

    def prepare(self) -> None:
        self.daemon.start()
        admin = AdminClient({"bootstrap.servers": self.daemon.bootstrap, **QUIET})
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.bytes": str(32 << 10)}
        topics = [
            NewTopic(PLAIN, PARTITIONS, 1),
            NewTopic(TRANSACTED, PARTITIONS, 1),
            NewTopic(TABLE, 1, 1, config=compacted),
        ]
        for made in admin.create_topics(topics).values():
            made.result(30)

    def live(self, seconds: float, plain: int, transactions: int) -> tuple[PlainWriter, TransactionWriter]:
        """Load for some time, then kill -9 and no more directory."""
        writers = PlainWriter(self.daemon.bootstrap, plain), TransactionWriter(self.daemon.bootstrap, transactions)
        for writer in writers:
            writer.start()
        until(lambda: all(writer.acknowledged for writer in writers), "both writers are under way")
        group = Consumer(
            {"bootstrap.servers": self.daemon.bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUIET}
        )
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            offset = max(self.committed, default=0) + 1
            group.commit(offsets=[TopicPartition(PLAIN, 0, offset)], asynchronous=False)
            self.committed[offset] = time.time_ns() // 1_000_000
            writers[0].stopped.wait(0.01)
        self.daemon.kill()
        killed = time.time_ns() // 1_000_000
        for writer in writers:
            writer.stopped.set()
        group.close()
        for writer in writers:
            writer.join(PATIENCE_S)
            assert not writer.failure
        self.killed_ms = killed
        shutil.rmtree(self.daemon.directory)
        return writers

    def restore(self) -> int:
        """What a user does; returns the moment of the cut."""
        catalog = Catalog(self.store)
        taken = catalog.newest().header.taken_ms
        done = command("restore", "--from", self.url, str(self.daemon.directory))
        assert done.returncode == 0, done.stdout + done.stderr
        verified = command("log", "verify", str(self.daemon.directory))
        assert verified.returncode == 0, verified.stdout + verified.stderr
        loss = self.killed_ms - taken
        self.losses.append(loss)
        if loss > TOLD_MS:
            times = [catalog.header(number).taken_ms for number in catalog.numbers[-12:]]
            print(f"{loss} ms: cuts were taken {[self.killed_ms - at for at in times]} ms before the kill", flush=True)
        self.daemon.start()
        return taken

    def check(self, plain: PlainWriter, transactions: TransactionWriter, taken_ms: int) -> tuple[int, int]:
        """Holds what came back against what was written; returns the next numbers of both."""
        values = sorted(int(value) for partition in read(self.daemon.bootstrap, PLAIN) for value in partition)
        assert values == list(range(len(values))), "not one moment of all partitions"
        must = [number for number, at in plain.acknowledged.items() if at < taken_ms]
        assert len(values) > max(must, default=-1)
        found = read(self.daemon.bootstrap, TRANSACTED)
        whole = [{json.loads(value)[0] for value in partition} for partition in found]
        assert all(numbers == whole[0] for numbers in whole), "a torn transaction"
        assert [len(partition) for partition in found] == [len(whole[0])] * PARTITIONS, "twice"
        assert not [number for number in whole[0] if number % 5 == 4], "an aborted transaction"
        lost = [number for number, at in transactions.acknowledged.items() if at < taken_ms and number not in whole[0]]
        assert lost == []
        table = read(self.daemon.bootstrap, TABLE, 1)[0]
        newest = {int(value.rstrip(b"\0")) % 7: int(value.rstrip(b"\0")) for value in table}
        assert all(number < len(values) + 2 for number in newest.values())
        reader = Consumer({"bootstrap.servers": self.daemon.bootstrap, "group.id": GROUP, **QUIET})
        [position] = reader.committed([TopicPartition(PLAIN, 0)], timeout=60)
        reader.close()
        assert position.offset in self.committed
        assert all(at >= taken_ms for offset, at in self.committed.items() if offset > position.offset)
        self.committed = {offset: at for offset, at in self.committed.items() if offset <= position.offset}
        return len(values), transactions.next


@pytest.fixture(params=["file", "versitygw"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, ObjectStore]]:
    if request.param == "file":
        (tmp_path / "nas").mkdir()
        url = (tmp_path / "nas").as_uri()
        yield url, open_store(url)
        return
    with Versitygw(tmp_path / "versitygw") as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
        yield server.url, open_store(server.url, server.options)


def test_kills_and_restores(tmp_path: Path, place: tuple[str, ObjectStore], pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("--lost-rounds")), str(pytestconfig.getoption("--lost-seed"))
    if not rounds:
        pytest.skip("asked for by --lost-rounds")
    print(f"--lost-seed {seed}")
    chance = random.Random(seed)
    machine = Machine(tmp_path / "data", *place)
    machine.prepare()
    plain = transactions = 0
    try:
        for _ in range(rounds):
            written = machine.live(chance.uniform(0.3, 2.5), plain, transactions)
            taken = machine.restore()
            plain, transactions = machine.check(*written, taken)
        machine.daemon.stop()
        print(f"lost ms before the kill: {sorted(machine.losses)}")
    finally:
        machine.daemon.kill()
