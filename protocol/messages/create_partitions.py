"""CreatePartitions (37): more partitions for topics that exist.

Version 3 may be throttled by quota.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    """Brokers for the replicas of one new partition."""

    broker_ids: Sequence[int] = array(INT32)


class CreatePartitionsTopic(Struct):
    """count is the number of partitions afterwards."""

    name: str = string()
    count: int = int32()
    assignments: Sequence[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


class CreatePartitionsRequest(ApiMessage):
    """Changes to apply; with validate_only they are checked only."""

    API_KEY = ApiKey.CREATE_PARTITIONS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    """Result for one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreatePartitionsResponse(ApiMessage):
    """One result for each topic."""

    API_KEY = ApiKey.CREATE_PARTITIONS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
