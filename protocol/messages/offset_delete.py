"""OffsetDelete (47): a group's offsets for partitions that it no longer consumes (KIP-496)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(ApiMessage):
    """The listed topics of one group."""

    API_KEY = ApiKey.OFFSET_DELETE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None

    group_id: str = string()
    topics: Sequence[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    """Result for one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(ApiMessage):
    """One result for each partition."""

    API_KEY = ApiKey.OFFSET_DELETE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None

    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: Sequence[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
