"""What brokers say of topics, bounds and sizes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.fake_kafka import FakeKafka, FakeLog
from tidelog.pipeline.exceptions import BrokerError, TopicError
from tidelog.pipeline.planning.brokers import Brokers
from tidelog.pipeline.planning.places import Bounds, Range, TopicPartition
from tidelog.pipeline.planning.splits import FetchSplit, SplitSize
from tidelog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tidelog.protocol.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse
from tidelog.protocol.messages.list_offsets import ListOffsetsTopicResponse as TopicAnswer
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def kafka() -> FakeKafka:
    batches = [build_batch([Record(0, 100 * offset, b"k", bytes(100))], base_offset=offset) for offset in range(40)]
    return FakeKafka({T0: FakeLog(batches, start=3, stable=30), T1: FakeLog(batches[:10]), U0: FakeLog([])})


def test_topics_and_bounds_are_the_brokers(kafka: FakeKafka) -> None:
    brokers = Brokers(kafka.client())
    assert brokers.topics() == ["t", "u"]
    assert brokers.partitions(["u", "t"]) == {"t": [0, 1], "u": [0]}
    assert brokers.bounds([T0, U0], read_committed=False) == {T0: Bounds(3, 40), U0: Bounds(0, 0)}
    assert brokers.bounds([T0], read_committed=True) == {T0: Bounds(3, 30)}
    assert brokers.offsets_at({T0: 850, T1: 901}) == {T0: 9, T1: None}
    with pytest.raises(TopicError, match=re.escape("fake:9092: no topic orders here; there are t, u")):
        brokers.partitions(["t", "orders"])
    brokers.close()


def test_splits_are_even_and_of_about_the_size_that_is_wished(kafka: FakeKafka) -> None:
    size = sum(map(len, kafka.logs[T0].batches)) * 40 // 37
    splits = Brokers(kafka.client()).splits([Range(T0, 10, 40), Range(T1, 5, 5), Range(U0, 0, 0)], SplitSize(size // 4))
    assert splits == [FetchSplit("t", 0, 10, 20), FetchSplit("t", 0, 20, 30), FetchSplit("t", 0, 30, 40)]


def test_a_broker_that_does_not_tell_sizes_gives_whole_partitions(kafka: FakeKafka) -> None:
    kafka.fail = lambda request: None if isinstance(request, DescribeLogDirsRequest) else ...
    assert Brokers(kafka.client()).splits([Range(T0, 10, 40)], SplitSize(1)) == [FetchSplit("t", 0, 10, 40)]


def test_offsets_are_asked_for_again_where_a_leader_has_moved(kafka: FakeKafka) -> None:
    answers: list[Any] = [answer(6), ..., answer(29)]
    kafka.fail = lambda request: answers.pop(0) if isinstance(request, ListOffsetsRequest) and answers else ...
    brokers = Brokers(kafka.client())
    assert brokers.offsets_at({T1: 901}) == {T1: None}
    with pytest.raises(BrokerError, match="fake:9092: offsets of t-1: TOPIC_AUTHORIZATION_FAILED"):
        brokers.offsets_at({T1: 0})


def answer(code: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[TopicAnswer(name="t", partitions=[ListOffsetsPartitionResponse(partition_index=1, error_code=code)])]
    )
