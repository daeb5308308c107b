"""InitializeShareGroupState (83): begins to keep what is delivered of partitions for a share group (KIP-932).

Brokers ask the share coordinator; no client does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int32, int64, string, uuid
from .write_share_group_state import PartitionResult


class PartitionData(Struct):
    """One partition."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


class InitializeShareGroupStateRequest(ApiMessage):
    """The listed topics of one group."""

    API_KEY = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    topics: Sequence[InitializeStateData] = array(InitializeStateData)


class InitializeStateResult(Struct):
    """Partitions of one topic, by its id."""

    topic_id: bytes = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


class InitializeShareGroupStateResponse(ApiMessage):
    """One result for each partition of the request."""

    API_KEY = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    results: Sequence[InitializeStateResult] = array(InitializeStateResult)
