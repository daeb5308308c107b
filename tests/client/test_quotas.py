"""A quota by wire: set, told, enforced by a connection that stands still, kept over a restart."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.patience import until
from support.wire_client import WireClient, request_frame
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

RATE = 10_000
BATCH = build_batch([Record(0, 0, None, bytes(RATE * 11), ())])


def dial(daemon: Daemon) -> WireClient:
    return WireClient(daemon.address)


def alter(daemon: Daemon, **values: float | None) -> None:
    """Quotas of every client id that has none of its own."""
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name=None)], ops=ops)
    with dial(daemon) as client:
        answer = client.ask(AlterClientQuotasRequest(entries=[entry]), 1, AlterClientQuotasResponse)
        assert [result.error_code for result in answer.entries] == [0]


def quotas(daemon: Daemon) -> dict[str, float]:
    with dial(daemon) as client:
        answer = client.ask(DescribeClientQuotasRequest(), 1, DescribeClientQuotasResponse)
        return {value.key: value.value for entry in answer.entries or () for value in entry.values}


def ping(client: WireClient) -> float:
    """Seconds until an answer that is otherwise there at once."""
    started = time.monotonic()
    client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    return time.monotonic() - started


def test_quotas_are_told_and_enforced(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data", {"log.retention.ms": -1}) as daemon:
        with dial(daemon) as client:
            created = client.ask(
                CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]),
                5,
                CreateTopicsResponse,
            )
            assert created.topics[0].error_code == 0
        alter(daemon, producer_byte_rate=RATE)
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=BATCH)])
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data])
        with dial(daemon) as client, dial(daemon) as other:
            asked = time.monotonic()
            answer = client.ask(request, 9, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == 0  # over it, and taken all the same
            # Eleven seconds' worth and a header, measured over ten seconds.
            assert 1_000 <= answer.throttle_time_ms <= 1_200
            ping(other)
            ping(client)
            assert time.monotonic() - asked >= answer.throttle_time_ms / 1000
        alter(daemon, producer_byte_rate=None, consumer_byte_rate=RATE)
        topics = [
            FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)])
        ]
        fetch = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 30, topics=topics)
        with dial(daemon) as client:
            asked = time.monotonic()
            fetched = client.ask(fetch, 11, FetchResponse)
            assert 1_000 <= fetched.throttle_time_ms <= 1_200
            assert len(bytes(fetched.responses[0].partitions[0].records or b"")) == len(BATCH)
            ping(client)
            assert time.monotonic() - asked >= fetched.throttle_time_ms / 1000
    with Daemon(tmp_path / "data", {"log.retention.ms": -1}) as daemon:
        assert quotas(daemon) == {"consumer_byte_rate": RATE}
        alter(daemon, consumer_byte_rate=None)
        assert quotas(daemon) == {}


@pytest.mark.parametrize("size", [1, 2000], ids=["in the buffer", "and in the socket"])
def test_what_a_producer_without_acks_sent_before_it_left_is_there_though_it_was_over_its_quota(
    tmp_path: Path, size: int
) -> None:
    """It sends and closes its socket, and its connection is muted by then: nobody would send it again."""
    with Daemon(tmp_path / "data", {"log.retention.ms": -1, "quota.window.num": 2}) as daemon:
        with dial(daemon) as client:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            client.ask(CreateTopicsRequest(topics=[topic]), 5, CreateTopicsResponse)
        batch = build_batch([Record(0, 0, None, bytes(size), ())])
        data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
        sent = request_frame(ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data]), 8)
        alter(daemon, producer_byte_rate=len(sent) * 100)
        with dial(daemon) as client:
            client.send(sent * 250)
        with dial(daemon) as client:
            end = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
            until(
                lambda: (
                    client.ask(ListOffsetsRequest(topics=[end]), 5, ListOffsetsResponse).topics[0].partitions[0].offset
                    == 250
                ),
                "all are there",
            )
