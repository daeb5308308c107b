"""CreateTopics (19).

Version 1 can ask for validation alone, 4 lets the broker choose the number of partitions and replicas (-1), 5 returns
the topic's settings, 6 may be throttled by quota, 7 returns the topic's id.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT32, ApiMessage, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    """Brokers for the replicas of one partition."""

    partition_index: int = int32()
    broker_ids: Sequence[int] = array(INT32)


class CreatableTopicConfig(Struct):
    """A setting that overrides the broker's."""

    name: str = string()
    value: str | None = string(nullable="0+")


class CreatableTopic(Struct):
    """Either numbers or an assignment; -1 stands for the broker's default."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(ApiMessage):
    """timeout_ms limits the wait for the topics to exist everywhere."""

    API_KEY = ApiKey.CREATE_TOPICS
    VERSIONS = (0, 7)
    FLEXIBLE_FROM = 5

    topics: Sequence[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


class CreatableTopicConfigs(Struct):
    """A setting that the topic now has."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1, ignorable=True)
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    """Result for one topic."""

    name: str = string()
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="0+", default=None, ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: Sequence[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(ApiMessage):
    """One result for each topic."""

    API_KEY = ApiKey.CREATE_TOPICS
    VERSIONS = (0, 7)
    FLEXIBLE_FROM = 5

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult)
