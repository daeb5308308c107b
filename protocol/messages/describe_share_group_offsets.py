"""DescribeShareGroupOffsets (90): where share groups begin to read, and how far that is from the end (KIP-932).

Version 1 tells the lag (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, int16, int32, int64, string, uuid


class RequestTopic(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    partitions: Sequence[int] = array(INT32)


class RequestGroup(Struct):
    """Topics of one group; null for all that it has read."""

    group_id: str = string()
    topics: Sequence[RequestTopic] | None = array(RequestTopic, nullable="0+")


class DescribeShareGroupOffsetsRequest(ApiMessage):
    """Ids of the groups."""

    API_KEY = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    groups: Sequence[RequestGroup] = array(RequestGroup)


class ResponsePartition(Struct):
    """One partition; start offset -1: nothing was delivered yet."""

    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ResponseTopic(Struct):
    """The listed partitions of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: Sequence[ResponsePartition] = array(ResponsePartition)


class ResponseGroup(Struct):
    """Description of one group, or its error."""

    group_id: str = string()
    topics: Sequence[ResponseTopic] = array(ResponseTopic)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(ApiMessage):
    """In the order of the request."""

    API_KEY = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    groups: Sequence[ResponseGroup] = array(ResponseGroup)
