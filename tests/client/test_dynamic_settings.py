"""Every setting that can change while the daemon runs, changed over the wire: it holds at once, and ends when it is deleted.

`KAFKAS` is what Apache Kafka 4 calls dynamic; each is dynamic here too, or means nothing on one node without TLS.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from support.inside import node_of, services_of
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.broker.monitoring.collector import BrokerCollector, Family
from tidelog.cli.configs import RESOURCES, alter, described
from tidelog.cli.support.kafka_client import KafkaClient, KafkaFailure
from tidelog.config.definitions import BROKER_SETTINGS, HONOURED_BROKER, HONOURED_TOPIC, TOPIC_OF_BROKER, TOPIC_SETTINGS
from tidelog.config.setting import Setting, SettingType, Status
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tidelog.testing import Broker, BrokerError

KAFKAS = {
    *("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "max.connection.creation.rate"),
    *("num.io.threads", "num.network.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir"),
    *(
        "transaction.partition.verification.enable",
        "background.threads",
        "metric.reporters",
        "producer.id.expiration.ms",
        "cordoned.log.dirs",
    ),
    *("log.cleaner.threads", "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.load.factor"),
    *("log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.backoff.ms"),
    *("log.segment.bytes", "log.roll.ms", "log.roll.jitter.ms", "log.index.size.max.bytes", "log.index.interval.bytes"),
    *("log.flush.interval.messages", "log.flush.interval.ms", "log.retention.ms", "log.retention.bytes"),
    *("message.max.bytes", "log.cleaner.delete.retention.ms", "log.cleaner.min.compaction.lag.ms"),
    *("log.cleaner.max.compaction.lag.ms", "log.segment.delete.delay.ms", "log.cleaner.min.cleanable.ratio"),
    *("log.cleanup.policy", "unclean.leader.election.enable", "min.insync.replicas", "compression.type"),
    *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "log.preallocate"),
    *("log.message.timestamp.type", "log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms"),
    *("log.local.retention.ms", "log.local.retention.bytes", "remote.log.index.file.cache.total.size.bytes"),
    *("remote.fetch.max.wait.ms", "remote.log.manager.copy.max.bytes.per.second"),
    *("remote.log.manager.fetch.max.bytes.per.second", "remote.list.offsets.request.timeout.ms"),
}
CONNECTIONS = {
    *("max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "max.connection.creation.rate"),
}
CLEANER: Mapping[str, tuple[str, str, Any]] = {
    "log.cleaner.threads": ("2", "threads", 2),
    "log.cleaner.dedupe.buffer.size": ("4194304", "dedupe_buffer_bytes", 4 << 20),
    "log.cleaner.io.buffer.load.factor": ("0.5", "load_factor", 0.5),
    "log.cleaner.io.buffer.size": ("262144", "io_buffer_bytes", 256 << 10),
    "log.cleaner.io.max.bytes.per.second": ("1000000", "io_bytes_per_second", 1e6),
    "log.cleaner.backoff.ms": ("7000", "backoff_ms", 7000),
    # A broker of `tidelog.testing` starts no processes until it is told to.
    "log.cleaner.process.enable": ("true", "in_processes", True),
}
ROOMS = {
    "queued.max.request.bytes": ("receiving", "limit"),
    "request.receive.timeout.ms": ("receiving", "timeout_ms"),
    "queued.max.response.bytes": ("sending", "limit"),
    "queued.max.response.bytes.per.client": ("sending", "client_limit"),
    "response.send.timeout.ms": ("sending", "timeout_ms"),
    "fetch.cold.disk.percent": ("cold_reads", "percent"),
    "max.connections.per.principal": ("_config", "max_connections_per_principal"),
}
BOUNDS_OF_MAKERS = {
    "max.topics.per.principal": "most_topics_each",
    "max.partitions.per.principal": "most_partitions_each",
    "max.partitions": "most_partitions",
}
THREADS = {"background.threads", "num.recovery.threads.per.data.dir"}
METRICS = {"metrics.per.topic", "metrics.per.group", "metrics.max.partitions", "metrics.max.group.partitions"}
MOVES = "replica.alter.log.dirs.io.max.bytes.per.second"
SCRUB = "tidelog.log.scrub.bytes.per.second"
OTHERS = {
    "producer.id.expiration.ms",
    "cordoned.log.dirs",
    "transaction.partition.verification.enable",
    MOVES,
    SCRUB,
    *METRICS,
}
OF_TOPICS = sorted(row.name for row in HONOURED_BROKER if row.dynamic and row.name in TOPIC_OF_BROKER)
#: The one of them that has no other value.
ONE_VALUE = "min.insync.replicas"
TOPIC, BROKER = RESOURCES["topic"], RESOURCES["broker"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("follows")
        yield running


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaClient]:
    with KafkaClient(broker.bootstrap_servers) as client:
        yield client


def set_broker(admin: KafkaClient, name: str, value: str | None, node: str = "1") -> None:
    """None deletes it."""
    if value is None:
        alter(admin, BROKER, node, "broker", {}, [name])
    else:
        alter(admin, BROKER, node, "broker", {name: value})


def test_what_kafka_lets_change_can_change_here_or_means_nothing() -> None:
    for name in sorted(KAFKAS):
        row = BROKER_SETTINGS[name]
        assert row.dynamic or row.status is Status.NO_MEANING, name


def test_every_dynamic_setting_is_tried_here() -> None:
    tried = CONNECTIONS | ROOMS.keys() | BOUNDS_OF_MAKERS.keys() | CLEANER.keys() | THREADS | OTHERS | set(OF_TOPICS)
    elsewhere = {
        row.name
        for row in HONOURED_BROKER
        if row.dynamic and row.name.startswith(("transaction", "group.", "ssl.", "sasl."))
    }
    assert {row.name for row in HONOURED_BROKER if row.dynamic} - elsewhere == tried - elsewhere


@pytest.mark.parametrize("name", ROOMS)
def test_the_bounds_of_what_clients_have_under_way(broker: Broker, admin: KafkaClient, name: str) -> None:
    room, attribute = ROOMS[name]

    def found() -> int:
        return int(getattr(getattr(services_of(broker).socket_server, room), attribute))

    before, other = found(), 60 if name.endswith(".percent") else 123456789
    set_broker(admin, name, str(other))
    assert found() == other
    set_broker(admin, name, None)
    assert found() == before


@pytest.mark.parametrize("name", BOUNDS_OF_MAKERS)
def test_the_bounds_of_what_clients_may_make(broker: Broker, admin: KafkaClient, name: str) -> None:
    makers, attribute = services_of(broker).topics.makers, BOUNDS_OF_MAKERS[name]
    set_broker(admin, name, "12345")
    assert getattr(makers, attribute) == 12345
    set_broker(admin, name, None)
    assert getattr(makers, attribute) == 2**31 - 1


def test_what_is_read_at_the_start_is_refused_with_that(admin: KafkaClient) -> None:
    with pytest.raises(KafkaFailure, match="read at the start"):
        set_broker(admin, "log.retention.check.interval.ms", "1000")
    set_broker(admin, "num.io.threads", "16")  # taken, as Kafka's tools may set it; it means nothing
    set_broker(admin, "num.io.threads", None)


# --- settings of topics, by the broker and by the topic ---


def another_value(row: Setting) -> str:
    """A value that the row allows and that is not its default."""
    allowed = row.allowed
    words = {"deletion.policies": "size", "message.format.version": "1"}
    if (word := words.get(row.name.removeprefix("log."))) is not None:
        return word
    if row.type is SettingType.BOOLEAN:
        return "false" if row.default else "true"
    if allowed.choices:
        now = row.default if isinstance(row.default, tuple) else (row.default,)
        return next(choice for choice in allowed.choices if choice not in now)
    if row.type is SettingType.DOUBLE:
        return "0.25"
    low = int(allowed.low if allowed.low is not None else 0)
    high = int(allowed.high if allowed.high is not None else row.type.bounds[1])
    return str(next(value for value in (low + 4000, low + 3, low + 1) if value <= high and value != row.default))


def in_force(broker: Broker, admin: KafkaClient, name: str) -> tuple[Any, str | None]:
    """What the log goes by, and what DescribeConfigs says."""
    log = services_of(broker).logs.get("follows", 0)
    assert log is not None
    ((entry,),) = described(admin, [(TOPIC, "follows")], [name])
    return getattr(log.config, TOPIC_SETTINGS[name].attribute), entry.value


def test_more_copies_in_sync_than_there_are_are_refused_while_it_runs_too(broker: Broker, admin: KafkaClient) -> None:
    for node in ("1", ""):
        with pytest.raises(KafkaFailure, match="one node keeps one copy; leave it out or set it to 1"):
            set_broker(admin, ONE_VALUE, "2", node)


@pytest.mark.parametrize("name", [name for name in OF_TOPICS if name != ONE_VALUE])
def test_a_brokers_default_reaches_open_logs_at_once(broker: Broker, admin: KafkaClient, name: str) -> None:
    topic_name = TOPIC_OF_BROKER[name]
    before = in_force(broker, admin, topic_name)
    value = another_value(BROKER_SETTINGS[name])
    for node in ("1", ""):
        set_broker(admin, name, value, node)
        now = in_force(broker, admin, topic_name)
        assert now[1] == value
        assert now[0] != before[0]
        set_broker(admin, name, None, node)
        assert in_force(broker, admin, topic_name) == before


@pytest.mark.parametrize("row", [row for row in HONOURED_TOPIC if not row.internal], ids=lambda row: row.name)
def test_a_topics_own_value_holds_at_once(broker: Broker, admin: KafkaClient, row: Setting) -> None:
    before = in_force(broker, admin, row.name)
    value = another_value(row)
    alter(admin, TOPIC, "follows", "topic", {row.name: value})
    now = in_force(broker, admin, row.name)
    assert now[1] == value
    assert now[0] != before[0]
    alter(admin, TOPIC, "follows", "topic", {}, [row.name])
    assert in_force(broker, admin, row.name) == before


def test_kafkas_internal_name_for_small_segments(broker: Broker, admin: KafkaClient) -> None:
    log = services_of(broker).logs.get("follows", 0)
    assert log is not None
    alter(admin, TOPIC, "follows", "topic", {"internal.segment.bytes": "5000"})
    assert log.config.segment_bytes == 5000
    alter(admin, TOPIC, "follows", "topic", {}, ["internal.segment.bytes"])
    assert log.config.segment_bytes == 1 << 30


async def test_clients_see_the_new_values_with_their_next_request(broker: Broker, admin: KafkaClient) -> None:
    broker.create_topic("live", config={"retention.ms": -1})
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        sent = await producer.send_and_wait("live", b"x" * 500, timestamp_ms=1000)
        assert sent.timestamp == 1000
        set_broker(admin, "message.max.bytes", "400")
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send_and_wait("live", b"x" * 500)
        set_broker(admin, "message.max.bytes", None)
        set_broker(admin, "log.message.timestamp.type", "LogAppendTime")
        sent = await producer.send_and_wait("live", b"x" * 500, timestamp_ms=1000)
        assert sent.timestamp > 1000
        set_broker(admin, "log.message.timestamp.type", None)

        log = services_of(broker).logs.get("live", 0)
        assert log is not None
        segments = len(log.segments)
        alter(admin, TOPIC, "live", "topic", {"segment.bytes": "600"})
        await producer.send_and_wait("live", b"x" * 500, timestamp_ms=1000)
        assert len(log.segments) == segments + 1

        alter(admin, TOPIC, "live", "topic", {"cleanup.policy": "compact"})
        with pytest.raises(KafkaError):
            await producer.send_and_wait("live", b"no key")
        alter(admin, TOPIC, "live", "topic", {"cleanup.policy": "delete", "retention.ms": "1000"})
    broker.clock.advance(minutes=10)
    assert log.log_start_offset == log.log_end_offset


# --- the broker's own ---


def test_the_throttle_of_moves_to_other_directories(broker: Broker, admin: KafkaClient) -> None:
    mover = services_of(broker).mover.get()
    assert mover.bytes_per_second == math.inf
    set_broker(admin, MOVES, "1000")
    assert mover.bytes_per_second == 1000
    set_broker(admin, MOVES, None)
    assert mover.bytes_per_second == math.inf


def test_the_rate_of_the_scrubber(broker: Broker, admin: KafkaClient) -> None:
    scrubber = services_of(broker).scrubber

    def rates() -> set[int]:
        return {status.bytes_per_second for status in scrubber.statuses()}

    assert rates() == {1 << 20}
    set_broker(admin, SCRUB, "5000")
    assert rates() == {5000}
    set_broker(admin, SCRUB, "0")
    assert rates() == {0}
    set_broker(admin, SCRUB, None)
    assert rates() == {1 << 20}


def connected(broker: Broker) -> socket.socket:
    return socket.create_connection((broker.host, broker.port), timeout=PATIENCE_S)


def is_refused(broker: Broker) -> bool:
    with WireClient((broker.host, broker.port)) as client:
        try:
            client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        except (EOFError, ConnectionError):
            return True
        return False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max.connections", "{open}"),
        ("max.connections.per.ip", "{open}"),
        ("max.connections.per.ip.overrides", "127.0.0.1:{open}"),
        ("max.connections.per.ip.overrides", "10.9.8.7:500,localhost:{open}"),
    ],
)
def test_limits_of_connections(broker: Broker, admin: KafkaClient, name: str, value: str) -> None:
    server = services_of(broker).socket_server
    until(lambda: len(server.connections) == 1, "the connection of this test alone")
    set_broker(admin, name, value.format(open=1))
    assert is_refused(broker)
    set_broker(admin, name, value.format(open=2))
    assert not is_refused(broker)
    until(lambda: len(server.connections) == 1, "one connection again")
    set_broker(admin, name, value.format(open=1))
    assert is_refused(broker)
    set_broker(admin, name, None)
    assert not is_refused(broker)


def test_an_address_may_have_more_than_the_others(broker: Broker, admin: KafkaClient) -> None:
    set_broker(admin, "max.connections.per.ip", "1")
    assert is_refused(broker)
    set_broker(admin, "max.connections.per.ip.overrides", "127.0.0.1:100")
    assert not is_refused(broker)
    alter(admin, BROKER, "1", "broker", {}, ["max.connections.per.ip", "max.connections.per.ip.overrides"])
    for wrong in ("nonsense", "broker.example:5"):
        with pytest.raises(KafkaFailure, match=r"max\.connections\.per\.ip\.overrides"):
            set_broker(admin, "max.connections.per.ip.overrides", wrong)


def test_a_listeners_own_limit_of_connections() -> None:
    """Two listeners, of which one is full."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "listener.name.outside.max.connections": "0",
    }
    with Broker(settings) as broker:
        outside = next(one for one in broker.addresses if one.startswith("OUTSIDE")).rpartition("//")[2]
        host, _, port = outside.partition(":")

        def outsider() -> bool:
            with WireClient((host, int(port))) as client:
                try:
                    client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                except (EOFError, ConnectionError):
                    return False
                return True

        assert not outsider()
        assert not is_refused(broker)
        with KafkaClient(broker.bootstrap_servers) as admin:
            set_broker(admin, "listener.name.outside.max.connections", "1")
            assert outsider()
            set_broker(admin, "listener.name.outside.max.connections", None)
            assert not outsider(), "what it was started with holds again"
        counts = services_of(broker).socket_server.listeners
        assert (counts["OUTSIDE"].accepted, counts["OUTSIDE"].refused) == (1, 2)


def test_the_rate_of_new_connections(broker: Broker, admin: KafkaClient) -> None:
    """Over the rate they are taken and wait for their turn. The clock is not the sockets': the wait is only asked for."""
    quotas = services_of(broker).quotas
    assert quotas.connected("10.0.0.1", "PLAINTEXT") == 0
    set_broker(admin, "max.connection.creation.rate", "1")
    waits = [quotas.connected(f"10.0.0.{number}", "PLAINTEXT") for number in range(40)]
    assert waits[0] == 0
    assert waits[-1] > 20_000
    set_broker(admin, "max.connection.creation.rate", None)
    assert quotas.connected("10.0.0.1", "PLAINTEXT") == 0
    assert not is_refused(broker)


@pytest.mark.parametrize("name", CLEANER)
def test_the_cleaner(broker: Broker, admin: KafkaClient, name: str) -> None:
    value, attribute, expected = CLEANER[name]
    pool = services_of(broker).cleaner.pool
    before = getattr(pool.settings, attribute)
    set_broker(admin, name, value)
    until(lambda: getattr(pool.settings, attribute) == expected, f"{attribute} is {expected}")
    until(lambda: pool.thread_count == pool.settings.threads, "its threads")
    set_broker(admin, name, None)
    until(lambda: getattr(pool.settings, attribute) == before, f"{attribute} is {before} again")


def test_threads(broker: Broker, admin: KafkaClient) -> None:
    set_broker(admin, "background.threads", "3")
    assert services_of(broker).scheduler.limit == 3
    set_broker(admin, "num.recovery.threads.per.data.dir", "5")
    assert services_of(broker).logs._config.num_recovery_threads_per_data_dir == 5
    alter(admin, BROKER, "1", "broker", {}, ["background.threads", "num.recovery.threads.per.data.dir"])
    assert services_of(broker).scheduler.limit == 10


def test_producers_are_forgotten_earlier(broker: Broker, admin: KafkaClient) -> None:
    async def produce() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True) as producer:
            await producer.send_and_wait("idempotent", b"1")

    broker.create_topic("idempotent")
    asyncio.run(produce())
    log = services_of(broker).logs.get("idempotent", 0)
    assert log is not None
    broker.clock.advance(hours=2)
    assert len(log.last_records_of_producers()) == 1
    set_broker(admin, "producer.id.expiration.ms", "3600000")
    broker.clock.advance(minutes=30)
    assert log.last_records_of_producers() == []
    set_broker(admin, "producer.id.expiration.ms", None)


def test_checks_of_transactions(broker: Broker, admin: KafkaClient) -> None:
    """Read with each request: tests/unit/broker/produce_fetch/test_produce_admission.py has what it does."""
    name = "transaction.partition.verification.enable"
    set_broker(admin, name, "false")
    assert services_of(broker).config.transaction_partition_verification_enable is False
    set_broker(admin, name, None)
    assert services_of(broker).config.transaction_partition_verification_enable is True


def test_a_cordoned_directory_gets_no_new_partitions(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    with Broker({"log.dirs": [one, two], "max.connections": 50}) as broker:
        with KafkaClient(broker.bootstrap_servers) as admin:

            def homes(topic: str) -> set[str]:
                return {
                    log.directory.rpartition("/")[0] for log in services_of(broker).logs.logs() if log.topic == topic
                }

            def cordoned() -> list[str]:
                answer = admin.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
                return [result.log_dir for result in answer.results if result.is_cordoned]

            broker.create_topic("both", 4)
            assert homes("both") == {one, two}
            set_broker(admin, "cordoned.log.dirs", one)
            assert cordoned() == [one]
            broker.create_topic("new", 4)
            assert homes("new") == {two}
            with pytest.raises(KafkaFailure, match=r"is not in log\.dirs"):
                set_broker(admin, "cordoned.log.dirs", "/elsewhere")
            set_broker(admin, "cordoned.log.dirs", "*")
            assert cordoned() == [one, two]
            with pytest.raises(BrokerError, match=r"cordoned\.log\.dirs"):
                broker.create_topic("nowhere", 1)
            set_broker(admin, "max.connections", "40")
        broker.restart()
        assert services_of(broker).config.cordoned_log_dirs == (one, two)
        assert services_of(broker).socket_server._config.max_connections == 40
        with KafkaClient(broker.bootstrap_servers) as admin:
            set_broker(admin, "cordoned.log.dirs", None)
            assert cordoned() == []
            broker.create_topic("nowhere", 2)
            assert homes("nowhere") == {one}  # it has fewer logs


def test_series_per_topic_come_and_go(broker: Broker, admin: KafkaClient) -> None:
    def topics() -> set[str]:
        families = BrokerCollector(node_of(broker).state).families()
        of_topics = [family for family in families if isinstance(family, Family) and "topic" in family.labels]
        return {labels[family.labels.index("topic")] for family in of_topics for labels, _ in family.rows}

    assert "follows" in topics()
    set_broker(admin, "metrics.per.topic", "false")
    assert topics() == set()
    set_broker(admin, "metrics.per.topic", None)
    assert "follows" in topics()
    set_broker(admin, "metrics.per.group", "false")
    assert (
        services_of(broker).config.metrics_per_group is False
    )  # which each scrape reads: tests/unit/broker/monitoring/test_groups.py
    set_broker(admin, "metrics.per.group", None)
    assert services_of(broker).config.metrics_per_group is True
    set_broker(admin, "metrics.max.partitions", "0")
    assert topics() == set()
    set_broker(admin, "metrics.max.partitions", None)
    assert "follows" in topics()
    set_broker(admin, "metrics.max.group.partitions", "7")
    assert services_of(broker).config.metrics_max_group_partitions == 7
    set_broker(admin, "metrics.max.group.partitions", None)
