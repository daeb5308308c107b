"""AlterPartitionReassignments (45): gives partitions to other brokers, or takes that back (KIP-455).

Version 1 can refuse to change how many copies there are (KIP-860).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, string


class ReassignablePartition(Struct):
    """replicas null ends a reassignment under way."""

    partition_index: int = int32()
    replicas: Sequence[int] | None = array(INT32, nullable="0+", default=None)


class ReassignableTopic(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(ApiMessage):
    """Partitions are independent of each other."""

    API_KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: Sequence[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    """Result for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ReassignableTopicResponse(Struct):
    """The listed partitions of one topic."""

    name: str = string()
    partitions: Sequence[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(ApiMessage):
    """One result for each partition."""

    API_KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: Sequence[ReassignableTopicResponse] = array(ReassignableTopicResponse)
