"""What is asked of a partition's leader: the versions of requests, what an answer means, and which errors pass."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.fake_kafka import ADDRESS, FakeKafka, FakeLog
from tidelog.pipeline.exceptions import BrokerError, UnsupportedBrokerError
from tidelog.pipeline.wire.partitions import (
    EARLIEST,
    LATEST,
    Fetch,
    fetched,
    leader_in,
    list_offsets,
    send_fetch,
    topic_now,
)
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tidelog.protocol.messages.list_offsets import ListOffsetsRequest
from tidelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

T0, U0 = ("t", 0), ("u", 0)
BATCH = bytes(build_batch([Record(0, 100, b"k", b"v")], base_offset=7))


@pytest.fixture
def kafka() -> FakeKafka:
    one = FakeKafka({T0: FakeLog([BATCH], start=3, stable=5), U0: FakeLog([])})
    one.topic_ids = {"t": UUID(int=17)}
    return one


def test_a_topic_is_told_with_its_id_and_leaders(kafka: FakeKafka) -> None:
    now = topic_now(kafka.client(), "t")
    assert now.topic_id == UUID(int=17).bytes
    assert leader_in(now, "t", 0) == 1
    assert topic_now(kafka.client(), "u").topic_id == bytes(16)


def test_what_no_broker_leads_may_be_asked_for_again_and_what_is_forbidden_may_not(kafka: FakeKafka) -> None:
    broker = MetadataResponseBroker(node_id=1, host=ADDRESS[0], port=ADDRESS[1])
    leaderless = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(leader_id=-1)])
    kafka.fail = lambda request: MetadataResponse(brokers=[broker], topics=[leaderless])
    now = topic_now(kafka.client(), "t")
    for partition in (0, 1):
        with pytest.raises(BrokerError, match=rf"t-{partition}: LEADER_NOT_AVAILABLE") as raised:
            leader_in(now, "t", partition)
        assert raised.value.retriable
    forbidden = MetadataResponseTopic(name="t", error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    kafka.fail = lambda request: MetadataResponse(brokers=[broker], topics=[forbidden])
    with pytest.raises(BrokerError, match=r"topic t: TOPIC_AUTHORIZATION_FAILED") as raised:
        topic_now(kafka.client(), "t")
    assert not raised.value.retriable


def test_offsets_of_many_partitions_are_one_request(kafka: FakeKafka) -> None:
    connection = kafka.client().any_connection()
    assert dict(list_offsets(connection, {T0: EARLIEST, U0: LATEST}, "here")) == {T0: 3, U0: 0}
    assert [type(request) for _, request in kafka.brokers.log] == [ListOffsetsRequest]
    assert dict(list_offsets(connection, {T0: LATEST}, "here")) == {T0: 8}
    assert dict(list_offsets(connection, {T0: LATEST}, "here", read_committed=True)) == {T0: 5}
    assert dict(list_offsets(connection, {T0: 100, U0: 100}, "here")) == {T0: 7, U0: None}


def test_a_fetch_says_what_it_is_given_and_its_answer_is_of_the_one_partition(kafka: FakeKafka) -> None:
    connection = kafka.client().any_connection()

    def fetch(wanted: Fetch) -> PartitionData | None:
        return fetched(connection.receive(send_fetch(connection, wanted)), wanted.topic, wanted.partition)

    found = fetch(Fetch("t", 0, 7, 1000, wait_ms=40, min_bytes=2))
    assert found is not None
    assert bytes(found.records or b"") == BATCH
    _, request = kafka.brokers.log[-1]
    assert isinstance(request, FetchRequest)
    part = request.topics[0].partitions[0]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level) == (40, 2, 1000, 0)
    assert (request.topics[0].topic, part.partition, part.fetch_offset, part.partition_max_bytes) == ("t", 0, 7, 1000)
    isolated = fetch(Fetch("t", 0, 7, 1000, read_committed=True))
    assert isolated is not None
    assert not isolated.records, "the stable offset is before it"
    assert fetch(Fetch("t", 0, 2, 1000)) is None, "out of range"


@pytest.mark.parametrize(
    ("answer", "said", "passes"),
    [
        (FetchResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)), "CLUSTER_AUTHORIZATION_FAILED", False),
        (
            FetchResponse(
                responses=[
                    FetchableTopicResponse(
                        topic="t", partitions=[PartitionData(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER))]
                    )
                ]
            ),
            "NOT_LEADER_OR_FOLLOWER",
            True,
        ),
        (FetchResponse(), "the broker told nothing of it", True),  # it slows its clients down
    ],
)
def test_errors_of_a_fetch_are_raised_wherever_they_stand(answer: FetchResponse, said: str, passes: bool) -> None:
    with pytest.raises(BrokerError, match=f"fetching t-0: {said}") as raised:
        fetched(answer, "t", 0)
    assert raised.value.retriable is passes


def test_a_broker_from_before_transactions_is_told_of(kafka: FakeKafka) -> None:
    kafka.brokers.versions = {ApiKey.FETCH: (0, 3), ApiKey.LIST_OFFSETS: (0, 1)}
    connection = kafka.client().any_connection()
    with pytest.raises(UnsupportedBrokerError, match="FETCH"):
        send_fetch(connection, Fetch("t", 0, 0, 1000))
    with pytest.raises(UnsupportedBrokerError, match="LIST_OFFSETS"):
        list(list_offsets(connection, {T0: EARLIEST}, "here"))
