"""StreamsGroupHeartbeat (88): a member joins with its topology, stays, tells its tasks, and leaves (KIP-1071)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import (
    INT16,
    INT32,
    STRING,
    ApiMessage,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    structure,
    uint16,
)


class KeyValue(Struct):
    """A tag of a client, or a setting of a topic."""

    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    """An internal topic; 0 where its number of partitions or copies is left to the broker."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: Sequence[KeyValue] = array(KeyValue)


class CopartitionGroup(Struct):
    """Topics that must have as many partitions as each other: indexes into the lists of the subtopology."""

    source_topics: Sequence[int] = array(INT16)
    source_topic_regex: Sequence[int] = array(INT16)
    repartition_source_topics: Sequence[int] = array(INT16)


class Subtopology(Struct):
    """A part of the topology whose tasks run by themselves."""

    subtopology_id: str = string()
    source_topics: Sequence[str] = array(STRING)
    source_topic_regex: Sequence[str] = array(STRING)
    state_changelog_topics: Sequence[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: Sequence[str] = array(STRING)
    repartition_source_topics: Sequence[TopicInfo] = array(TopicInfo)
    copartition_groups: Sequence[CopartitionGroup] = array(CopartitionGroup)


class Topology(Struct):
    """Topics that the application reads, writes and creates, by subtopology."""

    epoch: int = int32()
    subtopologies: Sequence[Subtopology] = array(Subtopology)


class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: Sequence[int] = array(INT32)


class Endpoint(Struct):
    """Address at which an application instance serves interactive queries."""

    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    """Offset that a task's state has reached."""

    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupHeartbeatRequest(ApiMessage):
    """Epoch 0 joins, -1 leaves, -2 leaves for a while (static members). Fields that are null or -1 have not changed."""

    API_KEY = ApiKey.STREAMS_GROUP_HEARTBEAT
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: Topology | None = structure(Topology, nullable="0+")
    active_tasks: Sequence[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: Sequence[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: Sequence[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: Endpoint | None = structure(Endpoint, nullable="0+")
    client_tags: Sequence[KeyValue] | None = array(KeyValue, nullable="0+", default=None)
    task_offsets: Sequence[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    task_end_offsets: Sequence[TaskOffset] | None = array(TaskOffset, nullable="0+", default=None)
    shutdown_application: bool = boolean()


class Status(Struct):
    """Something that the member is to know, and the application's log."""

    status_code: int = int8()
    status_detail: str = string()


class TopicPartition(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partitions: Sequence[int] = array(INT32)


class EndpointToPartitions(Struct):
    """Partitions that can be queried at one endpoint."""

    user_endpoint: Endpoint = structure(Endpoint)
    active_partitions: Sequence[TopicPartition] = array(TopicPartition)
    standby_partitions: Sequence[TopicPartition] = array(TopicPartition)


class StreamsGroupHeartbeatResponse(ApiMessage):
    """Tasks and endpoints that are null have not changed."""

    API_KEY = ApiKey.STREAMS_GROUP_HEARTBEAT
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag_legacy: int = int32("0")
    task_offset_interval_ms: int = int32()
    acceptable_recovery_lag: int = int64("1+", default=-1, ignorable=True)
    status: Sequence[Status] | None = array(Status, nullable="0+", default=())
    active_tasks: Sequence[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    standby_tasks: Sequence[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    warmup_tasks: Sequence[TaskIds] | None = array(TaskIds, nullable="0+", default=None)
    topology_description_required: bool = boolean("1+")
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )
