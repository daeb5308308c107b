"""DeleteRecords (21): moves a log's start up (KIP-107)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    """The first offset to keep; -1 is the high watermark."""

    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(ApiMessage):
    """timeout_ms limits the wait for replicas."""

    API_KEY = ApiKey.DELETE_RECORDS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 10_000

    topics: Sequence[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    """New log start offset of one partition, or its error."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(ApiMessage):
    """One result for each partition."""

    API_KEY = ApiKey.DELETE_RECORDS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    topics: Sequence[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
