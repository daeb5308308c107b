"""OffsetFetch (9): how far groups have read.

Version 0 read ZooKeeper, 2 takes null for all partitions, 5 has leader epochs, 7 can insist on settled offsets
(KIP-447), 8 asks for many groups (KIP-709), 9 serves the new group protocol (KIP-848), 10 has topic ids in place of
names.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, up to version 7."""

    name: str = string()
    partition_indexes: Sequence[int] = array(INT32)


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, in a group."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partition_indexes: Sequence[int] = array(INT32)


class OffsetFetchRequestGroup(Struct):
    """Topics of one group; null for all it has committed."""

    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")


class OffsetFetchRequest(ApiMessage):
    """Up to version 7 one group's topics, from version 8 on a list of groups."""

    API_KEY = ApiKey.OFFSET_FETCH
    VERSIONS = (0, 10)
    FLEXIBLE_FROM = 6

    group_id: str = string("0-7")
    topics: Sequence[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponsePartition(Struct):
    """committed_offset is -1 when there is none."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string(nullable="0-7")
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    """Partitions of one topic, up to version 7."""

    name: str = string()
    partitions: Sequence[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    """committed_offset is -1 when there is none."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1, ignorable=True)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    """Partitions of one topic, in a group."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: Sequence[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    """Committed offsets of one group."""

    group_id: str = string()
    topics: Sequence[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchResponse(ApiMessage):
    """Up to version 7 one group's offsets, from version 8 on a list of groups."""

    API_KEY = ApiKey.OFFSET_FETCH
    VERSIONS = (0, 10)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: Sequence[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: Sequence[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
