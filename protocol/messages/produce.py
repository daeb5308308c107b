"""Produce (0): record batches to be appended.

Versions 0 and 1 carry message set V0, 2 carries V1, 3 and later V2 batches, of which one a partition. 5 tells the
log's start, 7 allows zstd, 8 names bad records (KIP-467), 9 is flexible, 10 tells the new leader (KIP-951), 11 and 12
belong to transactions (KIP-890), 13 has topic ids in place of names (KIP-516).

This declaration is the oracle for the hand-written reader of the hot path.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..primitives import Buffer
from ..schema import ApiMessage, Struct, array, int16, int32, int64, records, string, structure, uuid
from .fetch import LeaderIdAndEpoch, NodeEndpoint


class PartitionProduceData(Struct):
    """Records for one partition."""

    index: int = int32()
    records: Buffer | None = records(nullable="0+")


class TopicProduceData(Struct):
    """Records for one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(ApiMessage):
    """acks is 0, 1 or -1 for all replicas in sync."""

    API_KEY = ApiKey.PRODUCE
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    """Error of a refused record; the index counts from the batch's first record."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


class PartitionProduceResponse(Struct):
    """Base offset of one partition's records, or the error."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = structure(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    """Results for the partitions of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse)


class ProduceResponse(ApiMessage):
    """Not sent at all when acks was 0."""

    API_KEY = ApiKey.PRODUCE
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9

    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
