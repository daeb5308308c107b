"""Partitions at their leaders: who leads, where a log begins and ends, a fetch and its answer. For the source and the sink alike.

Nothing here is tried again: an error is raised, and whoever asks does so within `KafkaClient.retry`, from the leader's look-up
on, since most errors say that another broker leads by now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...clients.kafka.connection import Connection
from ...clients.kafka.protocol import Ticket
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ...protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.messages.metadata import MetadataResponse
from ..exceptions import BrokerError
from .client import KafkaClient, leaders
from .errors import check

#: What stands for an end of a log in place of a timestamp.
EARLIEST, LATEST = -2, -1
#: Versions of Fetch from 13 on name topics by id, those below 4 know no transactions.
_FETCH_VERSIONS = (4, 12)
#: Versions of ListOffsets below 2 know no transactions.
_LIST_OFFSETS_VERSIONS = (2, 9)


class TopicNow(NamedTuple):
    """A topic as it is at the moment. `topic_id`: 16 bytes, zeros from brokers before 2.8."""

    topic_id: bytes
    metadata: MetadataResponse


def topic_now(client: KafkaClient, topic: str) -> TopicNow:
    """BrokerError, the client's errors."""
    answer = client.metadata([topic])
    topic_id = bytes(16)
    for found in answer.topics:
        check(found.error_code, f"topic {topic}")
        topic_id = bytes(found.topic_id)
    return TopicNow(topic_id, answer)


def leader_in(now: TopicNow, topic: str, partition: int) -> int:
    """Id of the broker that leads. BrokerError: none does at the moment."""
    leader = leaders(now.metadata).get((topic, partition))
    if leader is None or leader.node_id < 0:
        check(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        raise AssertionError
    return leader.node_id


def list_offsets(
    connection: Connection, wanted: Mapping[tuple[str, int], int], about: str, *, read_committed: bool = False
) -> Iterator[tuple[tuple[str, int], int | None]]:
    """(topic, partition) and the offset of that timestamp, EARLIEST or LATEST there; None: no record is so young.

    All are led by the broker that is asked. What a connection raises; BrokerError, with `about` in front, for the first partition
    with an error: what came before it is good.
    """
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    low, high = _LIST_OFFSETS_VERSIONS
    answer = connection.request(request, ListOffsetsResponse, up_to=high, at_least=low)
    for listed in answer.topics:
        for part in listed.partitions:
            check(part.error_code, f"{about}: offsets of {listed.name}-{part.partition_index}")
            yield (listed.name, part.partition_index), None if part.offset < 0 else part.offset


class Fetch(NamedTuple):
    """What is asked of one partition. `most`: bytes; a batch that is larger comes all the same."""

    topic: str
    partition: int
    offset: int
    most: int
    wait_ms: int = 0
    min_bytes: int = 1
    read_committed: bool = False


def send_fetch(connection: Connection, wanted: Fetch) -> Ticket[FetchResponse]:
    """Sends it to the leader; the connection gives the answer for the ticket. What a connection raises."""
    part = FetchPartition(partition=wanted.partition, fetch_offset=wanted.offset, partition_max_bytes=wanted.most)
    request = FetchRequest(
        max_wait_ms=wanted.wait_ms, min_bytes=wanted.min_bytes, max_bytes=wanted.most,
        isolation_level=int(wanted.read_committed), topics=[FetchTopic(topic=wanted.topic, partitions=[part])],
    )  # fmt: skip
    low, high = _FETCH_VERSIONS
    return connection.send(request, FetchResponse, up_to=high, at_least=low)


def fetched(answer: FetchResponse, topic: str, partition: int) -> PartitionData | None:
    """What came of the one partition that was asked for; None: OFFSET_OUT_OF_RANGE. BrokerError."""
    about = f"fetching {topic}-{partition}"
    check(answer.error_code, about)
    for told in answer.responses:
        for data in told.partitions:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return None
            check(data.error_code, about)
            return data
    # A broker that slows its clients down answers without the partition.
    raise BrokerError(int(ErrorCode.REQUEST_TIMED_OUT), f"{about}: the broker told nothing of it", retriable=True)
