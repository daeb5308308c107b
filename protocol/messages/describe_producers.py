"""DescribeProducers (61): the producers that a partition's log knows, and their open transactions (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, int16, int32, int64, string


class TopicRequest(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partition_indexes: Sequence[int] = array(INT32)


class DescribeProducersRequest(ApiMessage):
    """Partitions to describe the producers of."""

    API_KEY = ApiKey.DESCRIBE_PRODUCERS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    topics: Sequence[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    """One producer; `current_txn_start_offset` is -1 when it has no open transaction here."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    """Producers of one partition, or its error."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: Sequence[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    """Results for the partitions of one topic."""

    name: str = string()
    partitions: Sequence[PartitionResponse] = array(PartitionResponse)


class DescribeProducersResponse(ApiMessage):
    """In the order of the request."""

    API_KEY = ApiKey.DESCRIBE_PRODUCERS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    topics: Sequence[TopicResponse] = array(TopicResponse)
