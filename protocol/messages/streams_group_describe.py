"""StreamsGroupDescribe (89): streams groups with their topology, members and tasks (KIP-1071), and on request with the graph
that a member told of it (KIP-1331).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, boolean, int8, int16, int32, string, structure
from .streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from .streams_group_topology_description_update import TopologyDescription


class StreamsGroupDescribeRequest(ApiMessage):
    """Groups by id."""

    API_KEY = ApiKey.STREAMS_GROUP_DESCRIBE
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 5_000

    group_ids: Sequence[str] = array(STRING)
    include_authorized_operations: bool = boolean()
    include_topology_description: bool = boolean("1+")


class DescriptionStatus(IntEnum):
    """What became of the question for a topology description."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


class DescribedSubtopology(Struct):
    """A part of the topology, with the numbers of partitions that were decided if that is done."""

    subtopology_id: str = string()
    source_topics: Sequence[str] = array(STRING)
    repartition_sink_topics: Sequence[str] = array(STRING)
    state_changelog_topics: Sequence[TopicInfo] = array(TopicInfo)
    repartition_source_topics: Sequence[TopicInfo] = array(TopicInfo)


class DescribedTopology(Struct):
    """The group's topology."""

    epoch: int = int32()
    subtopologies: Sequence[DescribedSubtopology] | None = array(DescribedSubtopology, nullable="0+", default=None)


class Assignment(Struct):
    """Tasks of a member."""

    active_tasks: Sequence[TaskIds] = array(TaskIds)
    standby_tasks: Sequence[TaskIds] = array(TaskIds)
    warmup_tasks: Sequence[TaskIds] = array(TaskIds)


class DescribedMember(Struct):
    """One member: what it has and what it is to have."""

    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = structure(Endpoint, nullable="0+")
    client_tags: Sequence[KeyValue] = array(KeyValue)
    task_offsets: Sequence[TaskOffset] = array(TaskOffset)
    task_end_offsets: Sequence[TaskOffset] = array(TaskOffset)
    assignment: Assignment = structure(Assignment)
    target_assignment: Assignment = structure(Assignment)
    is_classic: bool = boolean()


class DescribedStreamsGroup(Struct):
    """Description of one group, or its error."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: DescribedTopology | None = structure(DescribedTopology, nullable="0+")
    members: Sequence[DescribedMember] = array(DescribedMember)
    authorized_operations: int = int32(default=-0x80000000)
    topology_description: TopologyDescription | None = structure(TopologyDescription, "1+", nullable="1+")
    topology_description_status: int = int8("1+")
    assignor_name: str | None = string("1+", nullable="1+", default=None, ignorable=True)
    """Assignor of the next target, which the present one need not be of (KIP-1357)."""


class StreamsGroupDescribeResponse(ApiMessage):
    """One result for each group."""

    API_KEY = ApiKey.STREAMS_GROUP_DESCRIBE
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    groups: Sequence[DescribedStreamsGroup] = array(DescribedStreamsGroup)
