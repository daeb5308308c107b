"""A Kafka Streams application, exactly once, over kill -9 of it, of the daemon and of both: it ends with the right counts.

What it computes is in streams/Orders.java: two repartition topics, a table, a join, counts, windows (whose changelog is
`compact,delete`), windows held back until they close. As every update is sent on, the counts of a key must be
1, 2, 3 … n as a read_committed consumer reads them, and a closed window comes once: a record handled twice, lost, or
handled with a store that was restored wrongly shows.

`--kill-rounds N` and `--kill-seed S`, as in test_kill.py.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from support.clients.librdkafka import consumer
from support.daemon import Daemon
from support.dump_log_segments import PEER, dump
from support.patience import PATIENCE_S
from support.streams_application import (
    ACCOUNTS,
    CLOSING_MS,
    WINDOW_MS,
    Application,
    Order,
    closing_orders,
    draw_order,
    expected,
    region_of,
    wrong,
)

TEST_TIMEOUT_S = 3600
PARTITIONS = 3
OUTPUTS = ("totals", "windows", "closed")
QUIET = {"log_level": 0}
#: Who is killed; together the first time, as every run has that.
VICTIMS = ("both", "application", "daemon")
#: How often a kill is followed by another before all is well again.
AGAIN = 0.3
#: What the application is told.
KINDS: dict[str, dict[str, str | int]] = {
    "classic": {"group.protocol": "classic"},
    "streams": {"group.protocol": "streams"},
    "static": {"group.protocol": "classic", "group.instance.id": "one"},
}
WAIT_S = 2 * PATIENCE_S
#: Of --kill-rounds.
DEFAULT_ROUNDS = 3


class Flow:
    """What goes into the application and what has come out of it so far."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._chance = random.Random(f"orders {seed}")
        now_ms = time.time_ns() // 1_000_000
        # The broker refuses what is far in the future, and Streams forgets windows that are long past.
        self.base_ms = now_ms - now_ms % WINDOW_MS - 60_000
        self.orders: list[Order] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5,
                "partitioner": "murmur2_random",  # as Streams partitions what it joins the table with
                "reconnect.backoff.max.ms": 200, "message.timeout.ms": 120_000, **QUIET,
            }
        )  # fmt: skip
        self._reader = consumer(
            bootstrap, "reader", isolation_level="read_committed", reconnect_backoff_max_ms=200, **QUIET
        )
        self._reader.assign([TopicPartition(topic, part, 0) for topic in OUTPUTS for part in range(PARTITIONS)])
        self.seen: dict[str, dict[str, list[str]]] = {topic: defaultdict(list) for topic in OUTPUTS}
        self.counts = dict.fromkeys(OUTPUTS, 0)

    def accounts(self) -> None:
        """The table is there before the first order is."""
        for account in range(ACCOUNTS):
            self._producer.produce(
                "accounts", region_of(account).encode(), f"account-{account}".encode(), timestamp=self.base_ms - 1000
            )
        assert self._producer.flush(60) == 0

    def order(self, *orders: Order) -> None:
        for order in orders:
            self.orders.append(order)
            self._producer.produce("orders", order.value, timestamp=order.timestamp_ms)
        self._producer.poll(0)

    def run(self, until: Callable[[], bool], what: str, *, ordering: bool = True) -> None:
        """Orders (some 300 a second) and reads what comes out, until it is so."""
        deadline = time.monotonic() + WAIT_S
        while not until():
            assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}; {self.counts} of {len(self.orders)}"
            if ordering:
                self.order(*(draw_order(self._chance, self.base_ms) for _ in range(3)))
            for message in self._reader.consume(500, 0.01):
                if message.error() is not None:
                    continue
                self.seen[message.topic()][message.key().decode()].append(message.value().decode())
                self.counts[message.topic()] += 1

    def close(self) -> None:
        assert self._producer.flush(60) == 0
        self._reader.close()


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """A round takes up to ten seconds: the default, which is made for shorter ones, stands for two."""
    given: int = pytestconfig.getoption("--kill-rounds")
    return given if given > DEFAULT_ROUNDS else 2


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings: dict[str, str | int] = {
        "group.initial.rebalance.delay.ms": 0, "transaction.state.log.num.partitions": 4,
        "offsets.topic.num.partitions": 4, "log.cleaner.backoff.ms": 500, "log.retention.check.interval.ms": 1000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # What SETTINGS of the application are in classic groups.
        "group.streams.session.timeout.ms": 6000, "group.streams.heartbeat.interval.ms": 1000,
        "group.streams.min.session.timeout.ms": 6000, "group.streams.min.heartbeat.interval.ms": 1000,
        "group.streams.initial.rebalance.delay.ms": 0,
    }  # fmt: skip
    with Daemon(tmp_path / "data", settings) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_exactly_once_over_kills(daemon: Daemon, tmp_path: Path, rounds: int, seed: int, kind: str) -> None:
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
    topics = [NewTopic(name, PARTITIONS) for name in ("accounts", "orders", *OUTPUTS)]
    for made in admin.create_topics(topics).values():
        made.result(PATIENCE_S)
    flow = Flow(daemon.bootstrap, seed)
    flow.accounts()
    application = Application(daemon.bootstrap, "orders-app", tmp_path / "application", KINDS[kind])
    chance = random.Random(f"kills {kind} {seed}")
    application.start()
    try:
        for number in range(rounds):
            goal = flow.counts["totals"] + 100 + chance.randrange(400)
            flow.run(lambda goal=goal: flow.counts["totals"] >= goal, f"{goal} counts (round {number})")
            time.sleep(chance.random() * 0.2)
            victims = ["both" if number == 0 else chance.choice(VICTIMS)]
            kill(victims[0], application, daemon)
            if chance.random() < AGAIN:  # while it starts, restores or rebalances
                later = time.monotonic() + chance.random() * 8
                flow.run(lambda later=later: time.monotonic() > later, "a second kill")
                victims.append(chance.choice(VICTIMS))
                kill(victims[-1], application, daemon)
            began, goal = time.monotonic(), len(flow.orders) + 1
            flow.run(lambda goal=goal: flow.counts["totals"] >= goal, f"counts after the kill of {victims}")
            print(f"{kind}, round {number}: {victims} killed, caught up after {time.monotonic() - began:.1f} s")
        check_internal_topics(flow, admin, daemon.bootstrap)
        count_all(flow, "totals", "windows")
        windows = expected(flow.orders).closed
        flow.order(*closing_orders(flow.base_ms))
        flow.run(lambda: flow.counts["closed"] >= len(windows), "closed windows", ordering=False)
        count_all(flow, "totals", "windows")
    finally:
        application.stop()
    flow.close()
    assert wrong(flow.seen, expected(flow.orders), flow.base_ms + CLOSING_MS) == []


def test_a_streams_group_of_two_instances(daemon: Daemon, tmp_path: Path, seed: int) -> None:
    """One of two instances is killed, and the other takes over; Kafka's own tool lists, describes, resets and deletes."""
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
    for made in admin.create_topics([NewTopic(name, PARTITIONS) for name in ("accounts", "orders", *OUTPUTS)]).values():
        made.result(PATIENCE_S)
    group = ConfigResource(ResourceType.GROUP, "orders-app")
    group.add_incremental_config(
        ConfigEntry("streams.num.standby.replicas", "1", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([group])[group].result(PATIENCE_S)
    flow = Flow(daemon.bootstrap, seed)
    flow.accounts()
    instances = [
        Application(daemon.bootstrap, "orders-app", tmp_path / name, KINDS["streams"]) for name in ("one", "two")
    ]
    try:
        for instance in instances:
            instance.start()
        flow.run(lambda: all(instance.is_up for instance in instances), "both instances", ordering=False)
        flow.run(lambda: flow.counts["totals"] >= 200, "the first counts")
        members = streams_tool(daemon, "--describe", "--group", "orders-app", "--members", "--verbose")
        assert members.count("StreamThread") == 4
        assert "STANDBY" in members
        instances[0].kill()
        goal = len(flow.orders) + 1
        flow.run(lambda: flow.counts["totals"] >= goal, "counts after the kill of an instance")
        count_all(flow, "totals", "windows")
        windows = expected(flow.orders).closed
        flow.order(*closing_orders(flow.base_ms))
        flow.run(lambda: flow.counts["closed"] >= len(windows), "closed windows", ordering=False)
        count_all(flow, "totals", "windows")
    finally:
        for instance in instances:
            instance.stop()
    flow.close()
    assert wrong(flow.seen, expected(flow.orders), flow.base_ms + CLOSING_MS) == []
    assert streams_tool(daemon, "--list", "--state").split() == ["GROUP", "STATE", "orders-app", "Empty"]
    reset = ("--reset-offsets", "--group", "orders-app", "--input-topic", "orders", "--to-earliest", "--execute")
    lines = [line.split() for line in streams_tool(daemon, *reset).splitlines()]
    assert sorted(line for line in lines if line[:1] == ["orders-app"]) == [
        ["orders-app", "orders", str(part), "0"] for part in range(PARTITIONS)
    ]
    assert "was successful" in streams_tool(daemon, "--delete", "--group", "orders-app")
    assert streams_tool(daemon, "--list").split() == []
    check_records(max(daemon.directory.glob("__consumer_offsets-*/*.log"), key=lambda path: path.stat().st_size))


def check_records(file: Path) -> None:
    """Kafka's decoder reads the group's records, of every kind, as ours does."""
    command = [sys.executable, "-m", "tidelog.broker", "log", "dump", "--decode", str(file)]
    ours = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout.splitlines()
    theirs = dump([file], "--offsets-decoder", "--print-data-log").splitlines()
    records = [line for line in theirs if line.startswith("| offset")]
    assert [line for line in ours if line.startswith("| offset")] == records
    kinds = {line.partition('"type":"')[2].partition('"')[0] for line in records}
    assert kinds >= {"17", "19", "20", "21", "22", "23"}


def streams_tool(daemon: Daemon, *arguments: str) -> str:
    """What kafka-streams-groups.sh prints."""
    command = [sys.executable, str(PEER), "tool", "org.apache.kafka.tools.streams.StreamsGroupCommand"]
    command += ["--bootstrap-server", daemon.bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill(victim: str, application: Application, daemon: Daemon) -> None:
    """Kills and starts again."""
    if victim != "daemon":
        application.kill()
    if victim != "application":
        daemon.kill()
        daemon.start()
    if victim != "daemon":
        application.start()


def count_all(flow: Flow, *topics: str) -> None:
    """Every order has been counted."""
    flow.run(lambda: all(flow.counts[topic] >= len(flow.orders) for topic in topics), "the last counts", ordering=False)


def check_internal_topics(flow: Flow, admin: AdminClient, bootstrap: str) -> None:
    """Streams made them as it wants them, and what it has consumed of the repartition topics goes (DeleteRecords)."""
    changelog = ConfigResource(ResourceType.TOPIC, "orders-app-windows-store-changelog")
    settings = admin.describe_configs([changelog])[changelog].result(PATIENCE_S)
    assert settings["cleanup.policy"].value == "compact,delete"
    # The store's retention (a window and its grace period) and a day.
    assert int(settings["retention.ms"].value) == (10 + 20 * 60 + 24 * 3600) * 1000
    reader = consumer(bootstrap, "unused", **QUIET)

    def purged(topic: str) -> bool:
        starts = [reader.get_watermark_offsets(TopicPartition(topic, part), 30)[0] for part in range(PARTITIONS)]
        return min(starts) > 0

    for topic in ("orders-app-by-account-repartition", "orders-app-by-region-repartition"):
        flow.run(lambda topic=topic: purged(topic), f"{topic} is purged")
    reader.close()


ORDERS = [Order(0, 5, 20_001), Order(8, 7, 29_999), Order(0, 1, 20_000), Order(0, 2, 90_000)]
TOTALS = {"account-0": ["1", "2", "3"], "account-8": ["1"]}
CLOSED = {"region-0@20000": ["3 13"]}


@pytest.mark.parametrize(
    ("totals", "windows", "closed", "says"),
    [
        (TOTALS, ["1 5", "2 12", "3 13"], CLOSED, ""),
        (TOTALS, ["1 1", "2 8", "3 13"], CLOSED, ""),
        ({**TOTALS, "account-0": ["1", "2", "2", "3"]}, ["1 5", "2 12", "3 13"], CLOSED, "totals: account-0"),
        ({"account-0": ["1", "2", "3"]}, ["1 5", "2 12", "3 13"], CLOSED, "totals: account-8"),
        (TOTALS, ["1 5", "3 13"], CLOSED, "windows: region-0@20000"),
        (TOTALS, ["1 5", "2 12", "3 17"], CLOSED, "the last of windows: region-0@20000"),
        (TOTALS, ["1 5", "2 12", "3 13"], {"region-0@20000": ["3 13", "3 13"]}, "closed: region-0@20000"),
        (TOTALS, ["1 5", "2 12", "3 13"], {}, "closed: region-0@20000"),
    ],
)  # fmt: skip
def test_the_oracle_finds(
    totals: dict[str, list[str]], windows: list[str], closed: dict[str, list[str]], says: str
) -> None:
    seen = {"totals": totals, "windows": {"region-0@20000": windows, "region-0@90000": ["1 2"]}, "closed": closed}
    found = wrong(seen, expected(ORDERS), 90_000)
    assert len(found) == bool(says)
    assert all(text.startswith(says) for text in found)
