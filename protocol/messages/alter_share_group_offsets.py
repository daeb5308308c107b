"""AlterShareGroupOffsets (91): sets where a share group without members goes on (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string, uuid


class RequestPartition(Struct):
    """New start offset of one partition."""

    partition_index: int = int32()
    start_offset: int = int64()


class RequestTopic(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    partitions: Sequence[RequestPartition] = array(RequestPartition)


class AlterShareGroupOffsetsRequest(ApiMessage):
    """The listed topics of one group."""

    API_KEY = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    topics: Sequence[RequestTopic] = array(RequestTopic)


class ResponsePartition(Struct):
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ResponseTopic(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: Sequence[ResponsePartition] = array(ResponsePartition)


class AlterShareGroupOffsetsResponse(ApiMessage):
    """One result for each partition of the request."""

    API_KEY = ApiKey.ALTER_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: Sequence[ResponseTopic] = array(ResponseTopic)
