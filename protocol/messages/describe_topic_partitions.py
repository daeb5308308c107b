"""DescribeTopicPartitions (75): topics and partitions, a page at a time (KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, string, structure, uuid


class TopicRequest(Struct):
    """A topic by name."""

    name: str = string()


class Cursor(Struct):
    """The partition that the next page starts with."""

    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(ApiMessage):
    """cursor null starts at the front."""

    API_KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    topics: Sequence[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = structure(Cursor, nullable="0+")


class DescribeTopicPartitionsResponsePartition(Struct):
    """Leader and replicas of a partition."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: Sequence[int] = array(INT32)
    isr_nodes: Sequence[int] = array(INT32)
    eligible_leader_replicas: Sequence[int] | None = array(INT32, nullable="0+", default=None)
    last_known_elr: Sequence[int] | None = array(INT32, nullable="0+", default=None)
    offline_replicas: Sequence[int] = array(INT32, ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or why there is none."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-0x80000000)


class DescribeTopicPartitionsResponse(ApiMessage):
    """next_cursor is null on the last page."""

    API_KEY = ApiKey.DESCRIBE_TOPIC_PARTITIONS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32(ignorable=True)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = structure(Cursor, nullable="0+")
