"""kill -9 under load: what was acknowledged is there after the restart, in order, unharmed.

One producer without idempotence (acks=all, one request in flight, so that its retries keep their order) and one with it
write numbered records through all rounds. Every round kills the daemon at a random moment and starts it again on the
same directory. `--kill-rounds N` and `--kill-seed S`: a failure is a seed plus a commit.
"""

from __future__ import annotations

import random
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from support.clients.base import Message, in_order
from support.clients.librdkafka import LibrdkafkaDriver, consumer, producer
from support.daemon import Daemon
from support.patience import PATIENCE_S

TEST_TIMEOUT_S = 7200  # of 400 rounds; in the slice pytest ends it long before
PARTITIONS = 4
SETTINGS: dict[str, str | int] = {
    "log.segment.bytes": 1 << 20,  # many rolls under load
    "log.index.interval.bytes": 1024,
    "num.partitions": PARTITIONS,
}
_HEAD = struct.Struct(">IIQ")  # CRC-32 of the rest, partition, number


def payload(noise: random.Random, partition: int, number: int) -> bytes:
    """A value that knows what it is: nothing but the whole record passes check()."""
    rest = _HEAD.pack(0, partition, number)[4:] + noise.randbytes(noise.randrange(900))
    return struct.pack(">I", zlib.crc32(rest)) + rest


def check(message: Message) -> int:
    """The record's number; AssertionError when a byte of it is not what was written."""
    assert message.value is not None
    crc, partition, number = _HEAD.unpack_from(message.value)
    assert crc == zlib.crc32(memoryview(message.value)[4:]), f"corrupt record at {message.partition}:{message.offset}"
    assert partition == message.partition
    return int(number)


@dataclass
class Load:
    """One producer in a thread of its own, writing numbers 0, 1, 2 … to each partition until it is told to stop."""

    topic: str
    producer: Producer
    noise: random.Random
    acknowledged: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    """By partition: number → offset."""
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self.topic)
        self._thread.start()

    def stop(self) -> None:
        """Ends the writing and waits for what is still on its way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(60)
        left = self.producer.flush(60)
        assert left == 0, f"{left} records of {self.topic} are still not acknowledged"

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for partition in range(PARTITIONS):
                self._send(partition, number)
            number += 1
            self.producer.poll(0)
            if number % 50 == 0:
                time.sleep(0.002)  # about 20,000 records/s at most: two cores serve daemon, producers and test

    def _send(self, partition: int, number: int) -> None:
        def delivered(error: object, message: object) -> None:
            if error is not None:
                self.errors.append(f"{partition}:{number}: {error}")
            else:
                self.acknowledged[partition][number] = message.offset()  # type: ignore[attr-defined]

        value = payload(self.noise, partition, number)
        while not self._stop.is_set():
            try:
                self.producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
            except BufferError:  # the daemon is down: wait until the queue has room
                self.producer.poll(0.05)
            else:
                return

    def count(self) -> int:
        return sum(len(offsets) for offsets in self.acknowledged)


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    return int(pytestconfig.getoption("--kill-rounds"))


@pytest.fixture
def own_daemon(data_directory: Path, server_command: Sequence[str]) -> Iterator[Daemon]:
    with Daemon(data_directory, SETTINGS, command=server_command, start_timeout_s=60, stop_timeout_s=60) as running:
        yield running


def ends(bootstrap: str, topic: str) -> list[int]:
    """The log end offset of each partition; waits while it has no leader, as clients do."""
    deadline = time.monotonic() + PATIENCE_S
    c = consumer(bootstrap, log_level=0)
    try:
        while True:
            try:
                return [c.get_watermark_offsets(TopicPartition(topic, p), 15)[1] for p in range(PARTITIONS)]
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                    raise
                assert time.monotonic() < deadline, error
    finally:
        c.close()


def verify(bootstrap: str, load: Load, *, exactly_once: bool) -> int:
    """Reads the whole topic and holds it against what was acknowledged; how many records are there."""
    total = sum(ends(bootstrap, load.topic))
    messages = in_order(LibrdkafkaDriver(bootstrap, 120).read(load.topic, total))
    assert len(messages) == total
    for partition in range(PARTITIONS):
        mine = [m for m in messages if m.partition == partition]
        assert [m.offset for m in mine] == list(range(len(mine)))
        numbers = [check(m) for m in mine]
        for number, offset in load.acknowledged[partition].items():
            assert offset < len(numbers), f"{load.topic}-{partition}: {number}, acknowledged at {offset}, is lost"
            assert numbers[offset] == number, f"{load.topic}-{partition}: not {number} at {offset}"
        first_seen = list(dict.fromkeys(numbers))
        assert first_seen == list(range(len(first_seen))), f"{load.topic}-{partition} is out of order or has holes"
        if exactly_once:
            assert len(first_seen) == len(numbers), f"{load.topic}-{partition} has duplicates"
    return total


def test_kill_9_under_load_loses_nothing_acknowledged(
    own_daemon: Daemon, rounds: int, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    moments = random.Random(seed)
    settings = {"delivery_timeout_ms": 300_000, "log_level": 0, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 50}
    bootstrap = own_daemon.bootstrap
    plain = Load(
        "plain",
        producer(bootstrap, max_in_flight_requests_per_connection=1, linger_ms=2, **settings),
        random.Random(seed + 1),
    )
    idempotent = Load(
        "idempotent",
        producer(bootstrap, enable_idempotence=True, compression_type="lz4", linger_ms=2, **settings),
        random.Random(seed + 2),
    )
    loads = (plain, idempotent)
    for load in loads:
        load.producer.list_topics(load.topic, 15)  # creates it
        load.start()
    try:
        for number in range(rounds):
            before = [load.count() for load in loads]
            deadline = time.monotonic() + PATIENCE_S
            while any(load.count() < start + 500 for load, start in zip(loads, before, strict=True)):
                assert time.monotonic() < deadline, f"round {number}: nothing is acknowledged any more"
                time.sleep(0.01)
            time.sleep(moments.uniform(0, 1.0))
            own_daemon.kill()
            acknowledged = [[max(list(a.values()), default=-1) for a in load.acknowledged] for load in loads]
            own_daemon.start()
            for load, highest in zip(loads, acknowledged, strict=True):
                for partition, end in enumerate(ends(bootstrap, load.topic)):
                    assert end > highest[partition], f"round {number}: {load.topic}-{partition} ends at {end}"
    finally:
        for load in loads:
            load.stop()
    for load in loads:
        assert not load.errors, load.errors[:3]
        assert load.count() >= rounds * 500
    assert verify(bootstrap, plain, exactly_once=False) >= plain.count()
    assert verify(bootstrap, idempotent, exactly_once=True) == idempotent.count()
    own_daemon.restart()
    assert verify(bootstrap, idempotent, exactly_once=True) == idempotent.count()
    with capsys.disabled():
        print(
            f"\nkill ring: {rounds} kills (--kill-seed {seed}), {plain.count():,} and {idempotent.count():,} records "
            "acknowledged, none lost, none doubled by the idempotent producer"
        )
