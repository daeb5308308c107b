"""tidelog.testing as its users have it: fixtures, a clock that moves, faults; with an unmodified asyncio client.

The tests use the fixtures of the installed plugin. What the same does to librdkafka is in tests/compat/test_testing.py.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from support.wire_client import WireClient, request_frame
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.testing import Broker, BrokerError, BrokerProcess, Rule, answer_error, process, request

AnyBroker = Broker | BrokerProcess


async def produce(broker: AnyBroker, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all") as producer:
        for key, value in records:
            await producer.send_and_wait(topic, value, key=key, partition=0)


async def read(broker: AnyBroker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Everything that a client gets, from the start to the end."""
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        start = (await consumer.beginning_offsets([partition]))[partition]
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.seek(partition, start)
        got = []
        while await consumer.position(partition) < end:
            batches = await consumer.getmany(partition, timeout_ms=1000)
            got += [(one.key, one.value) for batch in batches.values() for one in batch]
        return got


async def test_retention_takes_what_is_eight_days_old(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("orders", config={"retention.ms": 7 * 86_400_000})
    await produce(tidelog_broker, "orders", (None, b"old"))
    tidelog_broker.clock.advance(days=6)
    assert await read(tidelog_broker, "orders") == [(None, b"old")]
    tidelog_broker.clock.advance(days=2)
    assert await read(tidelog_broker, "orders") == []


async def test_a_tombstone_goes_when_its_horizon_has_passed(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("accounts", config={"cleanup.policy": "compact", "delete.retention.ms": 86_400_000})
    await produce(tidelog_broker, "accounts", (b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1"))
    assert tidelog_broker.clean("accounts")["superseded"] == 1
    assert await read(tidelog_broker, "accounts") == [(b"b", b"1"), (b"a", None), (b"c", b"1")]
    tidelog_broker.clock.advance(hours=23)
    tidelog_broker.clean("accounts")
    assert (b"a", None) in await read(tidelog_broker, "accounts")
    tidelog_broker.clock.advance(hours=2)
    tidelog_broker.clean("accounts")
    assert await read(tidelog_broker, "accounts") == [(b"b", b"1"), (b"c", b"1")]


async def test_one_advance_lets_the_cleaner_do_all_of_it_by_itself(tidelog_broker: Broker) -> None:
    """Roll by segment.ms, first pass with the horizon, second pass without the tombstone: each follows from the last."""
    config = {
        "cleanup.policy": "compact",
        "delete.retention.ms": 86_400_000,
        "segment.ms": 3_600_000,
        "max.compaction.lag.ms": 3_600_000,
        "min.cleanable.dirty.ratio": 0.01,
    }
    tidelog_broker.create_topic("accounts", config=config)
    await produce(tidelog_broker, "accounts", (b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1"))
    tidelog_broker.clock.advance(days=8)
    assert await read(tidelog_broker, "accounts") == [(b"b", b"1"), (b"c", b"1")]


async def test_a_member_that_is_not_heard_of_loses_its_session(tidelog_broker: Broker) -> None:
    """The client's heartbeats come in real time: two of its intervals here are years for the broker."""
    tidelog_broker.create_topic("orders")
    servers = tidelog_broker.bootstrap_servers
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()

    async def members() -> int:
        (answer,) = await admin.describe_consumer_groups(["g"])
        ((_, _, _, _, _, found, *_),) = answer.groups
        return len(found)

    try:
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="g", session_timeout_ms=45_000, heartbeat_interval_ms=20_000
        ) as consumer:
            assert consumer.assignment()
            tidelog_broker.clock.advance(seconds=20)
            assert await members() == 1
            tidelog_broker.clock.advance(seconds=46)
            assert await members() == 0
    finally:
        await admin.close()


async def test_offsets_expire_a_week_after_the_group_is_empty(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("orders")
    await produce(tidelog_broker, "orders", (None, b"1"))
    partition = TopicPartition("orders", 0)

    async def committed() -> int | None:
        async with AIOKafkaConsumer(bootstrap_servers=tidelog_broker.bootstrap_servers, group_id="g") as consumer:
            consumer.assign([partition])
            found: int | None = await consumer.committed(partition)
            return found

    async with AIOKafkaConsumer(bootstrap_servers=tidelog_broker.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([partition])
        await consumer.commit({partition: 1})
    tidelog_broker.clock.advance(days=6)
    assert await committed() == 1
    tidelog_broker.clock.advance(days=8)
    assert await committed() is None


async def test_a_transaction_that_is_left_open_is_aborted_when_its_time_is_up(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("orders")
    servers = tidelog_broker.bootstrap_servers
    producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t", transaction_timeout_ms=60_000)
    await producer.start()
    await producer.begin_transaction()
    await producer.send_and_wait("orders", b"never", partition=0)
    partition = TopicPartition("orders", 0)
    async with AIOKafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([partition])
        assert (await consumer.end_offsets([partition]))[partition] == 0  # of what is committed
        tidelog_broker.clock.advance(seconds=30)
        assert (await consumer.end_offsets([partition]))[partition] == 0
        tidelog_broker.clock.advance(seconds=60)
        assert (await consumer.end_offsets([partition]))[partition] == 2  # the record and the marker
        consumer.seek(partition, 0)
        assert await consumer.getmany(partition, timeout_ms=100) == {}
    with pytest.raises(KafkaError):
        await producer.commit_transaction()
    await producer.stop()


async def test_append_time_is_the_brokers(tidelog_broker: Broker) -> None:
    tidelog_broker.clock.advance(days=30)
    tidelog_broker.create_topic("orders", config={"message.timestamp.type": "LogAppendTime"})
    async with AIOKafkaProducer(bootstrap_servers=tidelog_broker.bootstrap_servers) as producer:
        sent = await producer.send_and_wait("orders", b"1")
    assert abs(sent.timestamp / 1000 - tidelog_broker.clock.now.timestamp()) < 60
    assert sent.timestamp / 1000 > time.time() + 29 * 86_400


async def test_a_client_tries_again_after_an_error_and_after_a_broken_connection(tidelog_broker: Broker) -> None:
    tidelog_broker.create_topic("orders")
    faults = [
        tidelog_broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", times=2),
        tidelog_broker.faults.disconnect("Produce", times=1),
        tidelog_broker.faults.delay("Produce", 0.01, times=1),
    ]
    await produce(tidelog_broker, "orders", (None, b"1"), (None, b"2"))
    assert [fault.hits for fault in faults] == [2, 1, 1]
    assert await read(tidelog_broker, "orders") == [(None, b"1"), (None, b"2")]


async def test_an_answer_that_is_lost_does_not_make_a_record_come_twice(tidelog_broker: Broker) -> None:
    """The broker has appended and the client can't know; its retry has the same sequence number."""
    tidelog_broker.create_topic("orders")
    fault = tidelog_broker.faults.disconnect("Produce", after_bytes=3)
    async with AIOKafkaProducer(
        bootstrap_servers=tidelog_broker.bootstrap_servers, enable_idempotence=True
    ) as producer:
        await producer.send_and_wait("orders", b"once", partition=0)
    assert fault.hits == 1
    assert await read(tidelog_broker, "orders") == [(None, b"once")]


@pytest.mark.tidelog(settings={"num.partitions": 3})
async def test_the_marker_sets_settings(tidelog_broker: Broker) -> None:
    async with AIOKafkaProducer(bootstrap_servers=tidelog_broker.bootstrap_servers) as producer:
        assert await producer.partitions_for("made-on-first-use") == {0, 1, 2}


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
async def test_a_topic_has_as_many_partitions_as_the_settings_say(kind: type[Broker | BrokerProcess]) -> None:
    with kind({"num.partitions": 3}) as broker:
        broker.create_topic("orders")
        broker.create_topic("one", 1)
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            assert await producer.partitions_for("orders") == {0, 1, 2}
            assert await producer.partitions_for("one") == {0}


@pytest.mark.tidelog(process=True, settings={"num.partitions": 2}, seed=7)
async def test_the_process_variant_has_all_of_it_and_can_be_killed(tidelog_broker: BrokerProcess) -> None:
    broker = tidelog_broker
    broker.create_topic("orders", config={"retention.ms": 86_400_000, "flush.messages": 1})
    fault = broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    await produce(broker, "orders", (None, b"1"))
    assert fault.hits == 1
    broker.faults.clear()
    address, ahead_s = broker.bootstrap_servers, broker.clock.ahead_s
    broker.kill()
    with pytest.raises(BrokerError, match="not open"):
        broker.clean("orders")
    broker.open()
    assert broker.bootstrap_servers == address
    assert await read(broker, "orders") == [(None, b"1")]
    broker.clock.advance(days=2)
    assert broker.clock.ahead_s == ahead_s + 2 * 86_400
    assert await read(broker, "orders") == []
    broker.restart()
    assert broker.clock.ahead_s == ahead_s + 2 * 86_400
    with pytest.raises(BrokerError, match="no topic nothing"):
        broker.clean("nothing")
    broker.delete_topic("orders")


async def test_async_life_without_pytest(tmp_path: Path) -> None:
    broker = await Broker.start({"num.partitions": 4}, directory=tmp_path)
    address = broker.bootstrap_servers
    await produce(broker, "kept", (None, b"1"))
    await asyncio.to_thread(broker.restart)
    assert broker.bootstrap_servers == address
    assert await read(broker, "kept") == [(None, b"1")]
    await broker.stop()
    await broker.stop()
    async with Broker(directory=tmp_path) as again:
        assert await read(again, "kept") == [(None, b"1")]


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"log\.retention\.msx"):
        Broker({"log.retention.msx": 1}).open()
    with pytest.raises(BrokerError, match=r"log\.retention\.msx"):
        BrokerProcess({"log.retention.msx": 1}).open()
    with Broker(directory=tmp_path) as broker:
        with pytest.raises(BrokerError, match="no topic nothing"):
            broker.clean("nothing")
        with pytest.raises(BrokerError, match="already"):
            broker.open()
        with pytest.raises(BrokerError, match="retention"):
            broker.create_topic("t", config={"retention.ms": -5})
        with pytest.raises(BrokerError, match="did not start"):
            Broker(directory=tmp_path).open()  # the directory is locked
        with pytest.raises(BrokerError, match="HTTP"):
            _ = broker.http_url
    with pytest.raises(BrokerError, match="not open"):
        broker.clock.advance(days=1)
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_other_listeners_are_there_when_asked_for(kind: type[Broker | BrokerProcess]) -> None:
    with kind({"http.listener": "127.0.0.1:0", "message.set.listeners": "tcp://127.0.0.1:0"}) as broker:
        assert [address.partition("://")[0] for address in broker.addresses] == ["PLAINTEXT", "tcp", "http"]
        assert broker.addresses[0].endswith(broker.bootstrap_servers)
        if isinstance(broker, Broker):
            assert broker.addresses[-1] == broker.http_url


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_a_restart_keeps_all_listeners_as_they_were(kind: type[Broker | BrokerProcess]) -> None:
    settings = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "http.listener": "127.0.0.1:0",
        "message.set.listeners": "tcp://127.0.0.1:0",
    }
    with kind(settings) as broker:
        before = broker.addresses
        assert [address.partition("://")[0] for address in before] == ["INSIDE", "OUTSIDE", "tcp", "http"]
        broker.restart()
        assert broker.addresses == before
        if isinstance(broker, BrokerProcess):
            broker.kill()
            broker.open()
            assert broker.addresses == before


def test_a_temporary_directory_goes_with_the_broker() -> None:
    with Broker() as broker:
        directory = broker.directory
        assert directory.is_dir()
    assert not directory.exists()


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_a_broker_that_is_opened_again_takes_its_new_directory_away_too(kind: type[Broker | BrokerProcess]) -> None:
    broker = kind()
    for _ in range(2):
        with broker:
            assert broker.directory.is_dir()
        assert not broker.directory.exists()


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_a_start_that_fails_takes_no_data_of_the_life_before(kind: type[Broker | BrokerProcess]) -> None:
    """Another program may have the port meanwhile, as where tests run side by side."""
    with kind() as broker, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        broker.create_topic("kept")
        end = broker._end
        broker._end = lambda: (end(), other.bind((broker.host, broker.port)), other.listen())  # type: ignore[assignment]
        with pytest.raises(BrokerError, match="did not start"):
            broker.restart()
        broker._end = end  # type: ignore[method-assign]
        other.close()
        assert broker.directory.is_dir()
        broker.open()
        assert create_topic(broker, "kept") == ErrorCode.TOPIC_ALREADY_EXISTS
        directory = broker.directory
    assert not directory.exists()


@pytest.mark.parametrize("kind", [Broker, BrokerProcess])
def test_faults_outlive_a_restart_of_their_broker(kind: type[Broker | BrokerProcess]) -> None:
    with kind() as broker:
        always = broker.faults.error("Metadata", "COORDINATOR_NOT_AVAILABLE", times=None)
        twice = broker.faults.error("CreateTopics", "NOT_CONTROLLER", times=2)
        once = broker.faults.disconnect("Fetch")
        broker.faults.remove(once)
        assert create_topic(broker) == ErrorCode.NOT_CONTROLLER
        broker.restart()
        assert (twice.hits, always.hits) == (1, 0)
        assert broker.faults.rules == [always, twice]
        assert [create_topic(broker) for _ in range(2)] == [ErrorCode.NOT_CONTROLLER, 0]
        assert twice.hits == 2
        assert broker.faults.rules == [always]
        broker.faults.remove(always)
        assert broker.faults.rules == []


def test_faults_of_a_killed_process_hold_in_the_next() -> None:
    with BrokerProcess() as broker:
        fault = broker.faults.error("CreateTopics", "NOT_CONTROLLER", times=2)
        assert create_topic(broker) == ErrorCode.NOT_CONTROLLER
        assert fault.hits == 1
        broker.kill()
        broker.open()
        assert [create_topic(broker) for _ in range(2)] == [ErrorCode.NOT_CONTROLLER, 0]
        assert fault.hits == 2


def create_topic(broker: Broker | BrokerProcess, name: str = "t") -> int:
    """The error code."""
    with WireClient((broker.host, broker.port)) as client:
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        return int(client.ask(request, 5, CreateTopicsResponse).topics[0].error_code)


def test_pytest_loads_the_plugin_and_nothing_else_of_ours(tmp_path: Path) -> None:
    """Those who have tidelog installed and do not use it pay for one small module."""
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n"
        "def test_theirs():\n"
        "    ours = sorted(name for name in sys.modules if name.startswith('tidelog.'))\n"
        "    assert ours == ['tidelog.testing', 'tidelog.testing.plugin'], ours\n"
        "    assert not {'asyncio', 'uvloop', 'socketserver'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist"]
    command += ["-p", "no:hypothesispytest", "-p", "no:anyio", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_faults_that_a_test_has_made_end_with_it(tmp_path: Path) -> None:
    """Also at the broker that it shares; those of a fixture for all tests stay."""
    (tmp_path / "test_theirs.py").write_text(
        "import pytest\n"
        "@pytest.fixture(scope='session')\n"
        "def slow(tidelog_session_broker):\n"
        "    return tidelog_session_broker.faults.delay('Fetch', 0.01)\n"
        "@pytest.fixture\n"
        "def address(tidelog_session_broker):\n"
        "    return tidelog_session_broker.bootstrap_servers\n"
        "def test_one(slow, tidelog_session_broker):\n"
        "    tidelog_session_broker.faults.error('Produce', 'NOT_LEADER_OR_FOLLOWER', times=None)\n"
        "    assert False\n"
        "def test_two(slow, address, tidelog_session_broker):\n"
        "    assert tidelog_session_broker.faults.rules == [slow]\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "assert False" in done.stdout


def test_who_starts_a_process_imports_no_daemon() -> None:
    """It is most of a start, and the child has it to do."""
    program = (
        "import sys\n"
        "from tidelog.testing import BrokerProcess\n"
        "BrokerProcess()\n"
        "ours = [name for name in sys.modules if name.startswith(('tidelog.broker', 'tidelog.storage', 'tidelog.config'))]\n"
        "assert ours == [], ours\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_takes_too_long_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(directory=tmp_path) as broker:
        done = threading.Event()
        monkeypatch.setattr("tidelog.testing.broker.SETTLE_TIMEOUT_S", 0.2)
        monkeypatch.setattr(
            "tidelog.storage.scheduler.ThreadPoolScheduler.settle", lambda _self, timeout_s: done.wait(timeout_s)
        )
        try:
            with pytest.raises(BrokerError, match=r"is not done after 0\.2 s"):
                broker.clock.advance(days=1)
        finally:
            done.set()


@pytest.mark.parametrize("by", ["faults", "schedule"])
def test_a_produce_that_waits_for_no_answer_gets_none(by: str) -> None:
    """Where it fails a broker can only end the connection; an answer would be taken for the next request's."""
    rules = [Rule(request("Produce"), answer_error("NOT_LEADER_OR_FOLLOWER"))] if by == "schedule" else None
    with Broker(faults=rules) as broker:
        broker.create_topic("t")
        if by == "faults":
            broker.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER")
        data = build_batch([Record(0, 1, None, b"v")])
        part = PartitionProduceData(index=0, records=data)
        produced = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=[part])])
        with WireClient((broker.host, broker.port)) as client:
            client.send(request_frame(produced, 9))
            assert client.is_closed_by_peer()
        with WireClient((broker.host, broker.port)) as client:
            client.send(request_frame(produced, 9))
            asked = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9, MetadataResponse)
            assert [topic.error_code for topic in asked.topics] == [0]


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("rubbish", "the argument is not JSON"),
        ("[1]", "the argument is an object"),
        ('{"settings": 5}', "the argument is an object, and so are the settings"),
        ('{"setings": {}}', "there is no option setings; there are ahead_ms, directory, seed, settings"),
    ],
)
def test_a_process_that_is_asked_for_something_else_says_so(
    argument: str, why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs in other languages start it."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdin", None)
    assert process.main(argument) == 1
    assert why in json.loads(capsys.readouterr().out)["failed"]
