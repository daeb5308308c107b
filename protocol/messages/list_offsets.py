"""ListOffsets (2): a partition's earliest or latest offset, or the first at or after a timestamp.

Version 0 returned several segments' offsets. 1 returns one with its timestamp, 2 knows isolation levels, 4 leader
epochs, 7 the record of the largest timestamp (-3), 8 the local log's start (-4), 9 the last tiered offset (-5), 10 a
time limit, 11 the first offset not yet tiered (-6).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT64, ApiMessage, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    """timestamp is in milliseconds, or a negative number with a meaning of its own."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(ApiMessage):
    """replica_id is -1 for a consumer."""

    API_KEY = ApiKey.LIST_OFFSETS
    VERSIONS = (0, 11)
    FLEXIBLE_FROM = 6

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: Sequence[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    """offset is -1 when there is none."""

    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: Sequence[int] = array(INT64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(ApiMessage):
    """One answer for each partition."""

    API_KEY = ApiKey.LIST_OFFSETS
    VERSIONS = (0, 11)
    FLEXIBLE_FROM = 6

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: Sequence[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
