"""The producer over brokers that fail, move partitions and forget answers: what it leaves in the log, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.fake_brokers import Answer, FakeBrokers
from tidelog.clients.kafka.conversations import CoordinatorKind
from tidelog.pipeline.exceptions import BrokerError
from tidelog.pipeline.sink.producer import DeliveryError, Producer, ProducerId, RefusedError, end_transactions
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record

TOPIC = "t"


def address(node: int) -> tuple[str, int]:
    return f"node{node}", 9092


@dataclass
class Cluster:
    """Brokers that check sequence numbers as Kafka's do. `leaders`: of each partition, −1 for none; `errors`: answered for a
    partition, one after the other, in place of an append, with the words `said`; `down`: brokers that refuse connections."""

    leaders: list[int]
    nodes: Sequence[int] = (1, 2)
    errors: dict[int, list[ErrorCode]] = field(default_factory=dict)
    logs: dict[int, list[bytes]] = field(default_factory=dict)
    coordinators: dict[str, int] = field(default_factory=dict)
    said: str | None = None
    topic_errors: list[ErrorCode] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    ended: list[tuple[int, str]] = field(default_factory=list)
    metadata_asked: int = 0
    pauses: float = 0.0

    def __post_init__(self) -> None:
        self.brokers = FakeBrokers(
            {address(node): lambda request, version, node=node: self.handle(node, request) for node in self.nodes}  # type: ignore[misc]
        )
        self._next: dict[int, int] = {}

    def client(self) -> KafkaClient:
        settings = ClientSettings(tuple(address(node) for node in self.nodes))
        return KafkaClient(settings, connect=self.brokers.connect, clock=lambda: self.pauses, sleep=self.sleep)

    def producer(self, client: KafkaClient, transactional_id: str | None = None, **options: Any) -> Producer:
        return Producer(
            client,
            ProducerId(7, 0),
            transactional_id=transactional_id,
            clock=lambda: self.pauses,
            sleep=self.sleep,
            **options,
        )

    def sleep(self, seconds: float) -> None:
        self.pauses += seconds

    def values(self, partition: int) -> list[bytes | None]:
        return [record.value for data in self.logs.get(partition, ()) for record in iterate_records(data)]

    def handle(self, node: int, request: Any) -> Answer:
        if isinstance(request, MetadataRequest):
            self.metadata_asked += 1
            self.on_metadata()
            parts = [
                MetadataResponsePartition(partition_index=number, leader_id=leader)
                for number, leader in enumerate(self.leaders)
            ]
            return MetadataResponse(
                brokers=[MetadataResponseBroker(node_id=one, host=address(one)[0], port=9092) for one in self.nodes],
                topics=[self.topic(parts)] if request.topics else [],
            )
        if isinstance(request, FindCoordinatorRequest):
            at = [(key, self.coordinators.get(key, 1)) for key in request.coordinator_keys]
            found = [Coordinator(key=key, node_id=one, host=address(one)[0], port=9092) for key, one in at]
            return FindCoordinatorResponse(coordinators=found)
        if isinstance(request, EndTxnRequest):
            self.ended.append((node, request.transactional_id))
            return EndTxnResponse()
        if isinstance(request, AddPartitionsToTxnRequest):
            (added,) = request.v3_and_below_topics
            self.added += added.partitions
            results = [AddPartitionsToTxnPartitionResult(partition_index=number) for number in added.partitions]
            row = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=results)
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[row])
        assert isinstance(request, ProduceRequest)
        (topic,) = request.topic_data
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=TOPIC,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=part.index,
                            error_code=self._append(node, part.index, bytes(part.records or b"")),
                            error_message=self.said,
                        )
                        for part in topic.partition_data
                    ],
                )
            ]
        )

    def topic(self, parts: list[MetadataResponsePartition]) -> MetadataResponseTopic:
        code = self.topic_errors.pop(0) if self.topic_errors else 0
        return MetadataResponseTopic(name=TOPIC, error_code=code, partitions=[] if code else parts)

    def on_metadata(self) -> None:
        """For a test to have something happen."""

    def _append(self, node: int, partition: int, data: bytes) -> int:
        if self.leaders[partition] != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.errors.get(partition):
            return self.errors[partition].pop(0)
        (header,) = iterate_batches(data)
        expected = self._next.get(partition)
        if expected is not None and header.base_sequence < expected:
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        if expected is not None and header.base_sequence > expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        self._next[partition] = header.base_sequence + header.record_count
        self.logs.setdefault(partition, []).append(data)
        return 0


def batch(partition: int, sequence: int, *values: bytes) -> tuple[int, int, bytearray]:
    records = [Record(0, 1, None, value) for value in values]
    data = build_batch(records, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return partition, len(values), bytearray(data)


def test_a_partition_without_a_leader_is_waited_for_while_others_are_on_their_way() -> None:
    cluster = Cluster([1, -1])

    def elected() -> None:
        if cluster.metadata_asked > 3:
            cluster.leaders[1] = 2

    cluster.on_metadata = elected  # type: ignore[method-assign]
    with cluster.client() as client:
        producer = cluster.producer(client)
        assert producer.partitions(TOPIC) == 2
        producer.send(TOPIC, [batch(0, 0, b"a"), batch(1, 0, b"x")])
        producer.send(TOPIC, [batch(0, 1, b"b"), batch(1, 1, b"y")])
        producer.flush()
    assert cluster.values(0) == [b"a", b"b"]
    assert cluster.values(1) == [b"x", b"y"]


def test_partitions_are_added_to_a_transaction_while_others_are_on_their_way() -> None:
    """Before KIP-890 by requests to the coordinator, which may be the broker whose answers are to come."""
    cluster = Cluster([1, 1], nodes=(1,))
    with cluster.client() as client:
        producer = cluster.producer(client, "tx")
        producer.partitions(TOPIC)
        for sequence in range(3):
            producer.send(TOPIC, [batch(0, sequence, b"a")])
        producer.send(TOPIC, [batch(1, 0, b"x")])
        producer.flush()
    assert (cluster.values(0), cluster.values(1)) == ([b"a"] * 3, [b"x"])
    assert cluster.added == [0, 1]


def test_transactions_of_a_coordinator_that_has_just_gone_are_ended_at_the_next() -> None:
    cluster = Cluster([1], coordinators={"a": 1, "b": 2, "c": 2})
    with cluster.client() as client:
        assert client.coordinators(["a", "b", "c"], CoordinatorKind.TRANSACTION) == {"a": 1, "b": 2, "c": 2}
        del cluster.brokers.handlers[address(2)]
        cluster.coordinators = {"b": 1, "c": 1}
        named = [(name, ProducerId(number, 0)) for number, name in enumerate("abc")]
        assert end_transactions(client, named, commit=True) == [True] * 3
    assert sorted(cluster.ended) == [(1, "a"), (1, "b"), (1, "c")]


@pytest.mark.parametrize("moved_after", range(12))
def test_a_leader_that_moves_under_a_row_of_batches_gets_them_in_order(moved_after: int) -> None:
    cluster = Cluster([1])
    with cluster.client() as client:
        producer = cluster.producer(client)
        producer.partitions(TOPIC)
        for sequence in range(40):
            if sequence == moved_after:
                cluster.leaders[0] = 2
            producer.send(TOPIC, [batch(0, sequence, b"%d" % sequence)])
        producer.flush()
    assert cluster.values(0) == [b"%d" % sequence for sequence in range(40)]
    assert producer.acknowledged == {(TOPIC, 0): 40}


def test_what_was_accepted_beside_a_refused_batch_counts_as_written() -> None:
    cluster = Cluster([1, 1, 1, 1], nodes=(1,), errors={1: [ErrorCode.INVALID_RECORD]})
    with cluster.client() as client:
        producer = cluster.producer(client)
        producer.partitions(TOPIC)
        producer.send(TOPIC, [batch(number, 0, b"a", b"b") for number in range(4)])
        with pytest.raises(RefusedError, match="t-1: 2 records were refused: INVALID_RECORD"):
            producer.flush()
        producer.settle()
    assert producer.acknowledged == {(TOPIC, number): 2 for number in (0, 2, 3)}


def test_what_was_accepted_behind_a_refused_batch_counts_as_written() -> None:
    cluster = Cluster([1, 1, 1], nodes=(1,))
    with cluster.client() as client:
        producer = cluster.producer(client)
        producer.partitions(TOPIC)
        producer.send(TOPIC, [batch(number, 0, b"a") for number in range(3)])
        producer.flush()
        cluster.errors = {0: [ErrorCode.NOT_ENOUGH_REPLICAS], 1: [ErrorCode.INVALID_RECORD]}
        for partition, sequence in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)):
            producer.send(TOPIC, [batch(partition, sequence, b"b")])
        with pytest.raises(RefusedError, match="t-1: 1 records were refused: INVALID_RECORD"):
            producer.flush()
        producer.settle()
    written = {(TOPIC, number): len(cluster.values(number)) for number in range(3)}
    assert producer.acknowledged == written == {(TOPIC, 0): 1, (TOPIC, 1): 1, (TOPIC, 2): 3}


@pytest.mark.parametrize(
    ("said", "why"),
    [("the disk is full but for its reserve", "the disk is full"), (None, "KAFKA_STORAGE_ERROR: the disk")],
)
def test_who_waits_for_a_broker_that_takes_nothing_is_told_its_reason(said: str | None, why: str) -> None:
    """It was told that the leader was not ready, whatever the broker said."""
    cluster = Cluster([1], nodes=(1,), errors={0: [ErrorCode.KAFKA_STORAGE_ERROR] * 10_000}, said=said)
    waits: list[str] = []
    with cluster.client() as client:
        producer = cluster.producer(client, on_wait=waits.append)
        producer.partitions(TOPIC)
        producer.send(TOPIC, [batch(0, 0, b"a")])
        with pytest.raises(DeliveryError, match=f"were not taken within delivery.timeout.ms .*: {why}"):
            producer.flush()
    assert waits
    assert all(text.startswith(f"t-0: {why}") for text in waits)


def test_a_topic_in_the_making_is_waited_for_and_one_that_may_not_be_seen_is_told() -> None:
    cluster = Cluster([1, 2], topic_errors=[ErrorCode.LEADER_NOT_AVAILABLE] * 3)
    with cluster.client() as client:
        assert cluster.producer(client).partitions(TOPIC) == 2
        cluster.topic_errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        with pytest.raises(BrokerError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
            cluster.producer(client).partitions(TOPIC)
        cluster.topic_errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        with pytest.raises(DeliveryError, match="there is no topic t"):
            cluster.producer(client).partitions(TOPIC)
