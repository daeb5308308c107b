"""DescribeQuorum (55): the state of the metadata log's voters (KIP-595).

Version 1 tells when they last fetched (KIP-836), 2 directories, listeners and errors in words (KIP-853).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string, uint16, uuid


class PartitionData(Struct):
    """A partition."""

    partition_index: int = int32()


class TopicData(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    partitions: Sequence[PartitionData] = array(PartitionData)


class DescribeQuorumRequest(ApiMessage):
    """Asks for the metadata log alone."""

    API_KEY = ApiKey.DESCRIBE_QUORUM
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    topics: Sequence[TopicData] = array(TopicData)


class ReplicaState(Struct):
    """One voter or observer; times in ms, -1 unknown."""

    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64("1+", default=-1, ignorable=True)


class PartitionResult(Struct):
    """The state of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: Sequence[ReplicaState] = array(ReplicaState)
    observers: Sequence[ReplicaState] = array(ReplicaState)


class TopicResult(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class Listener(Struct):
    """Address of a voter on one listener."""

    name: str = string("2+")
    host: str = string("2+")
    port: int = uint16("2+")


class Node(Struct):
    """A voter and its listeners."""

    node_id: int = int32("2+")
    listeners: Sequence[Listener] = array(Listener, "2+")


class DescribeQuorumResponse(ApiMessage):
    """State of the metadata quorum: one topic, one partition."""

    API_KEY = ApiKey.DESCRIBE_QUORUM
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0

    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    topics: Sequence[TopicResult] = array(TopicResult)
    nodes: Sequence[Node] = array(Node, "2+")
