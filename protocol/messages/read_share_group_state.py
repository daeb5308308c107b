"""ReadShareGroupState (84): what is delivered of partitions for a share group (KIP-932).

Brokers ask the share coordinator; no client does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int8, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """One partition."""

    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class ReadShareGroupStateRequest(ApiMessage):
    """The listed topics of one group."""

    API_KEY = ApiKey.READ_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    topics: Sequence[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    """Offsets, the last included: how often they were delivered, and 0 available, 2 acknowledged or 4 archived."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Struct):
    """Result for one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: Sequence[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class ReadShareGroupStateResponse(ApiMessage):
    """One result for each partition of the request."""

    API_KEY = ApiKey.READ_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    results: Sequence[ReadStateResult] = array(ReadStateResult)
