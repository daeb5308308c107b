"""A list-append workload over kill -9: what transactions promise, as a checker in the style of Jepsen's Elle sees it.

Workers (librdkafka) write numbered values to random partitions of a topic, in transactions that they commit or abort at
random; the daemon is killed at random moments. In the end a read_committed consumer reads all partitions from the start:

- no torn transaction: of a transaction all values are there, or none;
- none lost, none aborted read: committed ones are there, aborted ones are not (one whose answer was lost may be either);
- no duplicated write: each value is there once;
- order: within a partition the values of one worker appear in the order in which it wrote them;
- no late produce in a later transaction: a value shows with its own transaction's, or not at all (it is torn otherwise).

`--kill-rounds N` and `--kill-seed S`, as in test_kill.py. Offsets are left to test_transactions.py: librdkafka, told as it is
by default, may not come back from send_offsets_to_transaction once all its connections were lost (docs/COMPATIBILITY.md).
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.librdkafka import consumer
from support.daemon import Daemon
from support.patience import PATIENCE_S, until

TEST_TIMEOUT_S = 1800
PARTITIONS = 3
WORKERS = 3
TOPIC = "list-append"
QUIET = {"log_level": 0}
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass
class Transaction:
    """What a worker did: the values by partition, the offset that it committed, and what it was told."""

    worker: int
    number: int
    values: list[int] = field(default_factory=list)
    """Partitions, one for each value, in the order of the writes."""
    outcome: str = UNKNOWN


class Worker(threading.Thread):
    """One transactional producer: it goes on over kills, with a new instance where it has to."""

    def __init__(self, bootstrap: str, number: int, seed: int, stop: threading.Event) -> None:
        super().__init__(name=f"worker-{number}")
        self._address = bootstrap
        self._number = number
        self._chance = random.Random(f"{seed} {number}")
        self._stop_event = stop
        self.history: list[Transaction] = []
        self.instances = 0
        self.failures: list[str] = []

    def run(self) -> None:
        try:
            while not self._stop_event.is_set():
                self._instance()
        except BaseException as error:
            self.failures.append(repr(error))
            raise

    def _instance(self) -> None:
        """Until an error that this instance does not survive."""
        self.instances += 1
        producer = Producer(
            {
                "bootstrap.servers": self._address, "transactional.id": f"worker-{self._number}", "linger.ms": 0,
                "transaction.timeout.ms": 20_000, "reconnect.backoff.max.ms": 200, **QUIET,
            }
        )  # fmt: skip
        self._retrying(lambda: producer.init_transactions(5))
        while not self._stop_event.is_set():
            if not self._transaction(producer):
                return

    @staticmethod
    def _retrying(call: Callable[[], None]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _transaction(self, producer: Producer) -> bool:
        """False: a new instance is needed."""
        done = Transaction(self._number, len(self.history))
        self.history.append(done)
        chance = self._chance
        asked = False
        try:
            producer.begin_transaction()
            for index in range(chance.randrange(1, 6)):
                partition = chance.randrange(PARTITIONS)
                value = json.dumps([self._number, done.number, index]).encode()
                done.values.append(partition)
                producer.produce(TOPIC, value, partition=partition)
                if chance.random() < 0.3:
                    producer.poll(0.01)
            if chance.random() < 0.3:
                self._retrying(lambda: producer.abort_transaction(5))
                done.outcome = ABORTED
            else:
                asked = True
                self._retrying(lambda: producer.commit_transaction(5))
                done.outcome = COMMITTED
        except KafkaException as failure:
            error = failure.args[0]
            if not asked:
                done.outcome = ABORTED
            if error.fatal():
                return False
            if error.txn_requires_abort():
                try:
                    self._retrying(lambda: producer.abort_transaction(5))
                except KafkaException:
                    return False
                done.outcome = ABORTED
                return True
            return False
        return True


def read_all(bootstrap: str) -> list[list[tuple[int, int, int]]]:
    """What a read_committed consumer gets, by partition."""
    reader = consumer(bootstrap, "reader", isolation_level="read_committed", enable_partition_eof=True, **QUIET)
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(PARTITIONS)]
    left = set(range(PARTITIONS))
    reader.assign([TopicPartition(TOPIC, partition, 0) for partition in left])
    deadline = time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, f"partitions {left} hold readers back"
        message = reader.poll(1)
        if message is None:
            continue
        if message.error() is not None:
            left.discard(message.partition())
            continue
        worker, number, index = json.loads(message.value())
        found[message.partition()].append((worker, number, index))
    reader.close()
    return found


def check(history: list[Transaction], found: list[list[tuple[int, int, int]]]) -> list[str]:
    """What is wrong, in words."""
    wrong: list[str] = []
    seen: dict[tuple[int, int], list[int]] = defaultdict(list)
    for partition, values in enumerate(found):
        by_worker: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for worker, number, index in values:
            seen[worker, number].append(index)
            by_worker[worker].append((number, index))
        for worker, order in by_worker.items():
            if order != sorted(set(order)):
                wrong.append(f"worker {worker} in partition {partition}: out of order, or twice")
    for done in history:
        indexes = sorted(seen.pop((done.worker, done.number), []))
        name = f"transaction {done.number} of worker {done.worker} ({done.outcome})"
        if indexes not in ([], list(range(len(done.values)))):
            wrong.append(f"{name} is torn: {indexes} of {len(done.values)}")
        elif done.outcome == COMMITTED and not indexes:
            wrong.append(f"{name} is lost")
        elif done.outcome == ABORTED and indexes:
            wrong.append(f"{name} is read")
        wrong += [
            f"{name}: value {index} is in another partition"
            for index in indexes
            if index >= len(done.values) or (done.worker, done.number, index) not in found[done.values[index]]
        ]
    wrong += [f"nobody wrote {key}" for key in seen]
    return wrong


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    given: int = pytestconfig.getoption("--kill-rounds")
    return given


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings: dict[str, str | int] = {
        "group.initial.rebalance.delay.ms": 0, "log.segment.bytes": 1 << 20,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000, "transaction.state.log.num.partitions": 4,
        "offsets.topic.num.partitions": 4,
    }  # fmt: skip
    with Daemon(tmp_path / "data", settings) as running:
        yield running


def test_list_append_over_kills(daemon: Daemon, rounds: int, seed: int) -> None:
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    stop = threading.Event()
    workers = [Worker(daemon.bootstrap, number, seed, stop) for number in range(WORKERS)]
    chance = random.Random(seed)
    for worker in workers:
        worker.start()
    try:
        for number in range(rounds):
            goal = sum(len(worker.history) for worker in workers) + 20 + chance.randrange(20)
            until(
                lambda goal=goal: sum(len(w.history) for w in workers) >= goal or any(w.failures for w in workers),
                f"{goal} transactions (round {number})",
            )
            time.sleep(chance.random() * 0.05)
            daemon.kill()
            daemon.start()
    finally:
        stop.set()
        for worker in workers:
            worker.join(120)
    assert [worker.failures for worker in workers] == [[]] * WORKERS
    history = [done for worker in workers for done in worker.history]
    found = read_all(daemon.bootstrap)
    outcomes = {name: sum(done.outcome == name for done in history) for name in (COMMITTED, ABORTED, UNKNOWN)}
    print(f"{len(history)} transactions, {outcomes}, {sum(worker.instances for worker in workers)} instances")
    assert check(history, found) == []
    assert outcomes[COMMITTED] >= 10 * rounds


@pytest.mark.parametrize(
    ("outcome", "found", "says"),
    [
        (COMMITTED, [[(0, 0, 0)], [(0, 0, 1)]], ""),
        (UNKNOWN, [[], []], ""),
        (COMMITTED, [[], []], "lost"),
        (ABORTED, [[(0, 0, 0)], [(0, 0, 1)]], "is read"),
        (UNKNOWN, [[(0, 0, 0)], []], "torn"),
        (COMMITTED, [[(0, 0, 0), (0, 0, 0)], [(0, 0, 1)]], "twice"),
        (COMMITTED, [[(0, 0, 1)], [(0, 0, 0)]], "another partition"),
        (COMMITTED, [[(0, 0, 0)], [(0, 0, 1), (7, 7, 0)]], "nobody wrote"),
    ],
)
def test_the_checker_finds(outcome: str, found: list[list[tuple[int, int, int]]], says: str) -> None:
    wrong = check([Transaction(0, 0, [0, 1], outcome)], found)
    assert any(says in text for text in wrong) if says else wrong == []
