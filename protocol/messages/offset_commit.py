"""OffsetCommit (8): how far a group has read.

Version 0 knew no members, 1 had a timestamp for each partition, 2 to 4 a retention time for all, 6 has leader epochs,
7 static members, 9 also serves the new group protocol (KIP-848), 10 has topic ids in place of names.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    """The offset to be read next."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: Sequence[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(ApiMessage):
    """The generation is -1 for a consumer outside of any group's rebalancing."""

    API_KEY = ApiKey.OFFSET_COMMIT
    VERSIONS = (0, 10)
    FLEXIBLE_FROM = 8

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: Sequence[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    """Result of committing one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: Sequence[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(ApiMessage):
    """One result for each partition."""

    API_KEY = ApiKey.OFFSET_COMMIT
    VERSIONS = (0, 10)
    FLEXIBLE_FROM = 8

    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: Sequence[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
