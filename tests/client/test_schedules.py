"""Schedules of faults over a real socket: what each rule does to the broker, and what its client is told."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from support.wire_client import WireClient, request_frame
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.testing import (
    Broker,
    Rule,
    Schedule,
    answer_error,
    bump_epoch,
    cut_after,
    cut_answer,
    cut_before,
    expire_records,
    jump_clock,
    late,
    leader_not_available,
    lose_answer,
    request,
    slow_answer,
    stuck,
    throttle,
    truncate_log,
    twice,
)

TOPIC = "orders"


@contextmanager
def broker_with(*rules: Rule) -> Iterator[Broker]:
    with Broker(faults=rules) as broker:
        broker.create_topic(TOPIC)
        yield broker


def client_of(broker: Broker) -> WireClient:
    return WireClient((broker.host, broker.port))


def produce(client: WireClient, value: bytes = b"1", topic: str = TOPIC) -> PartitionProduceResponse:
    batch = build_batch([Record(0, 0, None, value)])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    answer = client.ask(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=data), 9, ProduceResponse)
    return answer.responses[0].partition_responses[0]


def bounds(client: WireClient) -> tuple[int, int, int]:
    """Start and end of the log, and the epoch that its leader has now."""
    found = []
    for timestamp in (-2, -1):
        row = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        asked = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[row])])
        found.append(client.ask(asked, 6, ListOffsetsResponse).topics[0].partitions[0].offset)
    asked_for = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    metadata = client.ask(asked_for, 9, MetadataResponse)
    return found[0], found[1], metadata.topics[0].partitions[0].leader_epoch


def fetch(client: WireClient, offset: int = 0) -> FetchResponse:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    asked = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
    return client.ask(asked, 11, FetchResponse)


@pytest.mark.parametrize(("what", "ends"), [(cut_before(), 0), (lose_answer(), 1), (cut_answer(0.4), 1)])
def test_a_cut_connection_has_appended_or_not(what: object, ends: int) -> None:
    with broker_with(Rule(request("Produce"), what)) as broker:  # type: ignore[arg-type]
        with client_of(broker) as client, pytest.raises((EOFError, ConnectionError)):
            produce(client)
        with client_of(broker) as client:
            assert bounds(client)[:2] == (0, ends)


@pytest.mark.parametrize("by_rule", [True, False])
def test_nothing_follows_an_answer_that_was_cut(by_rule: bool) -> None:
    """A request behind it on the same connection was answered, and its answer went on where the cut one broke off."""
    with Broker(faults=[Rule(request("Heartbeat"), cut_answer(0.5))] if by_rule else None) as broker:
        if not by_rule:
            broker.faults.disconnect("Heartbeat", after_bytes=5)
        with client_of(broker) as client:
            client.send(request_frame(HeartbeatRequest(group_id="g"), 4) * 3)
            received = b""
            with contextlib.suppress(ConnectionError):
                while chunk := client.socket.recv(1000):
                    received += chunk
        assert 0 < len(received) < 12


def test_a_connection_that_is_cut_after_the_answer_has_all_of_it() -> None:
    with broker_with(Rule(request("Produce"), cut_after())) as broker, client_of(broker) as client:
        assert produce(client).base_offset == 0
        assert client.is_closed_by_peer()


def test_each_client_counts_its_own_requests_of_the_topic() -> None:
    rule = Rule(request("Produce", topic=TOPIC, nth=2), answer_error("NOT_LEADER_OR_FOLLOWER"), times=2)
    with broker_with(rule) as broker:
        broker.create_topic("other")
        with client_of(broker) as client:
            codes = [
                produce(client, topic=topic).error_code for topic in (TOPIC, "other", "other", TOPIC, TOPIC, TOPIC)
            ]
        leader = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert codes == [0, 0, 0, leader, leader, 0]
        assert broker.struck == (rule,)


def test_errors_are_answered_before_or_after_handling() -> None:
    rules = [
        Rule(request("Produce", nth=1), answer_error("REQUEST_TIMED_OUT")),
        Rule(request("Produce", nth=2), answer_error("REQUEST_TIMED_OUT", handled=True)),
        Rule(request("Heartbeat"), answer_error("NOT_COORDINATOR")),
    ]
    with broker_with(*rules) as broker, client_of(broker) as client:
        assert [produce(client).error_code for _ in range(3)] == [ErrorCode.REQUEST_TIMED_OUT] * 2 + [0]
        assert bounds(client)[1] == 2
        heartbeat = client.ask(HeartbeatRequest(group_id="g"), 4, HeartbeatResponse)
        assert heartbeat.error_code == ErrorCode.NOT_COORDINATOR


def test_metadata_keep_their_brokers_and_lose_their_leaders() -> None:
    with broker_with(Rule(request("Metadata"), leader_not_available())) as broker, client_of(broker) as client:
        answer = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9, MetadataResponse)
        assert [(node.host, node.port) for node in answer.brokers] == [(broker.host, broker.port)]
        (partition,) = answer.topics[0].partitions
        assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def test_a_throttled_answer_is_whole_and_says_so() -> None:
    rules = [Rule(request("Produce"), throttle(7)), Rule(request("Fetch"), throttle(9))]
    with broker_with(*rules) as broker, client_of(broker) as client:
        assert produce(client, b"x" * 100).base_offset == 0
        answer = fetch(client)
        assert answer.throttle_time_ms == 9
        records = answer.responses[0].partitions[0].records
        assert records is not None
        assert b"x" * 100 in bytes(records)


def test_an_error_in_a_fetch_leaves_its_session_and_offsets_alone() -> None:
    with (
        broker_with(Rule(request("Fetch"), answer_error("NOT_LEADER_OR_FOLLOWER"))) as broker,
        client_of(broker) as client,
    ):
        produce(client, b"a")
        first = fetch(client).responses[0].partitions[0]
        assert (first.error_code, bytes(first.records or b"")) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")
        second = fetch(client).responses[0].partitions[0]
        assert (second.error_code, second.high_watermark) == (0, 1)


def test_slow_and_stuck_requests_are_handled_in_the_end() -> None:
    rules = [Rule(request("Produce", nth=1), slow_answer(0.01)), Rule(request("Produce", nth=2), stuck(0.01))]
    with broker_with(*rules) as broker, client_of(broker) as client:
        assert [produce(client).base_offset for _ in range(3)] == [0, 1, 2]


def test_a_request_that_arrives_twice_is_answered_once() -> None:
    with broker_with(Rule(request("Produce"), twice())) as broker, client_of(broker) as client:
        assert [produce(client).base_offset for _ in range(2)] == [1, 2]


def test_a_late_request_arrives_after_the_one_that_it_waits_for() -> None:
    with broker_with(Rule(request("Produce"), late("ListOffsets"))) as broker:
        with client_of(broker) as client, pytest.raises((EOFError, ConnectionError)):
            produce(client, b"late")
        with client_of(broker) as client:
            assert produce(client, b"first").base_offset == 0
            assert bounds(client)[1] == 2
            assert "arrives after request 3" in str(broker.trace)


async def test_a_produce_that_arrives_after_its_end_txn_is_in_no_transaction() -> None:
    """The client's retry is committed; the late copy finds nothing to do, and no transaction that it would leave open."""
    with broker_with(Rule(request("Produce", nth=2), late("EndTxn"))) as broker:
        servers, partition = broker.bootstrap_servers, TopicPartition(TOPIC, 0)
        async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t", retry_backoff_ms=10) as producer:
            for value in (b"1", b"2", b"3"):
                async with producer.transaction():
                    await producer.send_and_wait(TOPIC, value, partition=0)
        options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(bootstrap_servers=servers, **options) as consumer:
            consumer.assign([partition])
            assert (await consumer.end_offsets([partition]))[partition] == 6  # three records, three markers
            values = [(await consumer.getone()).value for _ in range(3)]
        assert values == [b"1", b"2", b"3"]
        assert "arrives after request" in str(broker.trace)


def test_retention_takes_what_the_consumer_stands_on() -> None:
    with broker_with(Rule(request("Fetch", nth=2), expire_records(0.5))) as broker, client_of(broker) as client:
        for _ in range(4):
            produce(client)
        assert [fetch(client).responses[0].partitions[0].error_code for _ in range(2)] == [
            0,
            ErrorCode.OFFSET_OUT_OF_RANGE,
        ]
        assert bounds(client) == (2, 4, 0)


def test_a_truncated_log_has_a_new_epoch_and_goes_on() -> None:
    with broker_with(Rule(request("Fetch"), truncate_log(3))) as broker, client_of(broker) as client:
        for _ in range(4):
            produce(client)
        assert fetch(client).responses[0].partitions[0].high_watermark == 1
        assert bounds(client) == (0, 1, 1)
        assert produce(client, b"new").base_offset == 1
        records = fetch(client, 1).responses[0].partitions[0].records
        assert records is not None
        assert b"new" in bytes(records)


def test_an_epoch_is_bumped_for_topics_that_metadata_name() -> None:
    with broker_with(Rule(request("Metadata"), bump_epoch(), times=2)) as broker, client_of(broker) as client:
        assert [bounds(client)[2] for _ in range(3)] == [1, 2, 2]


def test_the_clock_jumps_before_the_request() -> None:
    with broker_with(Rule(request("Produce"), jump_clock(3600))) as broker, client_of(broker) as client:
        produce(client)
        assert broker.clock.ahead_s == 3600


async def test_a_group_rebalances_in_the_middle_of_a_commit() -> None:
    from tidelog.testing import rebalance

    with broker_with(Rule(request("OffsetCommit"), rebalance())) as broker:
        servers, partition = broker.bootstrap_servers, TopicPartition(TOPIC, 0)
        async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait(TOPIC, b"1", partition=0)
        options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}
        async with AIOKafkaConsumer(TOPIC, bootstrap_servers=servers, group_id="g", **options) as consumer:
            await consumer.getone()
            await consumer.commit({partition: 1})
            assert await consumer.committed(partition) == 1
        assert "group g rebalances" in str(broker.trace)
        assert str(broker.trace).count("JoinGroup") >= 2


def run_by_seed(seed: int) -> tuple[str, str]:
    """The rules that struck, and the trace, of one client that does the same each time, whatever it is told."""
    with Broker(faults=Schedule(seed=seed, kinds=["lost answers", "cut requests", "leaders", "replicas"])) as broker:
        broker.create_topic(TOPIC)
        for number in range(12):
            with client_of(broker) as client:
                try:
                    produce(client, b"%d" % number)
                    fetch(client)
                except (EOFError, ConnectionError):
                    continue
        return repr(broker.struck), str(broker.trace).replace(str(broker.port), "PORT")


def test_the_same_seed_decides_the_same_for_the_same_requests() -> None:
    draws = random.Random(5)
    seeds = [draws.randrange(10_000) for _ in range(8)]
    told = [run_by_seed(seed) for seed in seeds]
    assert told == [run_by_seed(seed) for seed in seeds]
    assert len({struck for struck, _ in told}) > 1


def test_without_a_schedule_there_is_no_trace() -> None:
    with Broker() as broker, client_of(broker) as client:
        broker.create_topic(TOPIC)
        produce(client)
        assert broker.trace.steps == []


def test_a_producer_without_a_transactional_id_has_no_coordinator_that_could_move() -> None:
    """kafka-python asked for the coordinator of nobody then: no broker answers so."""
    rules = [Rule(request("InitProducerId"), answer_error("NOT_COORDINATOR"), times=2)]
    with broker_with(*rules) as broker, client_of(broker) as client:
        plain = client.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse)
        with_id = client.ask(InitProducerIdRequest(transactional_id="t"), 4, InitProducerIdResponse)
        assert (plain.error_code, with_id.error_code) == (0, ErrorCode.NOT_COORDINATOR)
