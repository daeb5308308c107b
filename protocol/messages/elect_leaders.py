"""ElectLeaders (43): chooses leaders of partitions anew (KIP-183, KIP-460).

Version 1 can ask for unclean election and has an error for the whole answer, 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partitions: Sequence[int] = array(INT32)


class ElectLeadersRequest(ApiMessage):
    """election_type: 0 preferred, 1 unclean. topic_partitions null asks for all."""

    API_KEY = ApiKey.ELECT_LEADERS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 10_000

    election_type: int = int8("1+")
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable="0+")
    timeout_ms: int = int32(default=60000)


class PartitionResult(Struct):
    """Result for one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class ReplicaElectionResult(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partition_result: Sequence[PartitionResult] = array(PartitionResult)


class ElectLeadersResponse(ApiMessage):
    """Partitions that were asked for, or whose election did something."""

    API_KEY = ApiKey.ELECT_LEADERS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: Sequence[ReplicaElectionResult] = array(ReplicaElectionResult)
