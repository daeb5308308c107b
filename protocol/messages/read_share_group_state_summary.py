"""ReadShareGroupStateSummary (87): how far partitions are delivered for a share group (KIP-932).

Brokers ask the share coordinator; no client does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int16, int32, int64, string, uuid
from .read_share_group_state import PartitionData


class ReadStateSummaryData(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class ReadShareGroupStateSummaryRequest(ApiMessage):
    """The listed topics of one group."""

    API_KEY = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    topics: Sequence[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    """Result for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateSummaryResponse(ApiMessage):
    """One result for each partition of the request."""

    API_KEY = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    results: Sequence[ReadStateSummaryResult] = array(ReadStateSummaryResult)
