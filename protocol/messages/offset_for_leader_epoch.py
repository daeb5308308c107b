"""OffsetForLeaderEpoch (23): where a leader epoch ended (KIP-101, KIP-320).

By it a client sees that a log was truncated. Version 2 checks the client's own epoch, 3 tells followers from
consumers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string


class OffsetForLeaderPartition(Struct):
    """leader_epoch is the one asked for."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partitions: Sequence[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(ApiMessage):
    """replica_id is -1 for a consumer, -2 for one that says nothing."""

    API_KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: Sequence[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    """The largest epoch not above the one asked for, and the offset after its last."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partitions: Sequence[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(ApiMessage):
    """One result for each partition."""

    API_KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: Sequence[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
