"""ListPartitionReassignments (46): partitions that are on their way to other brokers (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partition_indexes: Sequence[int] = array(INT32)


class ListPartitionReassignmentsRequest(ApiMessage):
    """topics null asks for all."""

    API_KEY = ApiKey.LIST_PARTITION_REASSIGNMENTS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    timeout_ms: int = int32(default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    """Reassignment of one partition; brokers by id."""

    partition_index: int = int32()
    replicas: Sequence[int] = array(INT32)
    adding_replicas: Sequence[int] = array(INT32)
    removing_replicas: Sequence[int] = array(INT32)


class OngoingTopicReassignment(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(ApiMessage):
    """Reassignments in progress."""

    API_KEY = ApiKey.LIST_PARTITION_REASSIGNMENTS
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment)
