"""Records of streams groups (KIP-1071) in `__consumer_offsets`: keys and values, each behind an INT16 with its version.

A key's version is its kind: 17 and 19 to 23. Values have version 0; null forgets what the key names.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import INT16, INT32, STRING, Message, Struct, array, int8, int16, int32, int64, string, structure, uint16


class StreamsGroupMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (17, 17)
    FLEXIBLE_FROM = None

    group_id: str = string()


class LastAssignmentConfig(Struct):
    """A setting that the present target was made with."""

    key: str = string()
    value: str = string()


class StreamsGroupMetadataValue(Message):
    """The group epoch, a hash of the topics that it is made for, and epochs of the topology: the one that was found right, the
    one whose description is kept, and the one whose description was refused for good (both Kafka 4.4).
    """

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(tag=0, default=-1, ignorable=True)
    last_assignment_configs: Sequence[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", default=(), tag=1, ignorable=True
    )
    stored_description_topology_epoch: int = int32(tag=2, default=-1, ignorable=True)
    failed_description_topology_epoch: int = int32(tag=3, default=-1, ignorable=True)


class StreamsGroupMemberMetadataKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (19, 19)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class MemberEndpoint(Struct):
    """Address at which the member's process serves interactive queries."""

    host: str = string()
    port: int = uint16()


class ClientTag(Struct):
    """A tag of the member's process."""

    key: str = string()
    value: str = string()


class StreamsGroupMemberMetadataValue(Message):
    """Properties of a member, as it sent them."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: MemberEndpoint | None = structure(MemberEndpoint, nullable="0+")
    client_tags: Sequence[ClientTag] = array(ClientTag)


class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (20, 20)
    FLEXIBLE_FROM = None

    group_id: str = string()


class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target is for, and when it was made (wall clock, milliseconds)."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (21, 21)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class TargetTaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str = string()
    partitions: Sequence[int] = array(INT32)


class StreamsGroupTargetAssignmentMemberValue(Message):
    """Target assignment of one member."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    active_tasks: Sequence[TargetTaskIds] = array(TargetTaskIds)
    standby_tasks: Sequence[TargetTaskIds] = array(TargetTaskIds)
    warmup_tasks: Sequence[TargetTaskIds] = array(TargetTaskIds)


class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (22, 22)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class OwnedTaskIds(Struct):
    """Tasks of one subtopology, and for active ones the epochs at which the member got them."""

    subtopology_id: str = string()
    partitions: Sequence[int] = array(INT32)
    assignment_epochs: Sequence[int] | None = array(INT32, nullable="0+", default=(), tag=0, ignorable=True)


class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Current assignment of one member. State 1: stable; 2: must release tasks; 3: waits for tasks to be released."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: Sequence[OwnedTaskIds] = array(OwnedTaskIds)
    standby_tasks: Sequence[OwnedTaskIds] = array(OwnedTaskIds)
    warmup_tasks: Sequence[OwnedTaskIds] = array(OwnedTaskIds)
    active_tasks_pending_revocation: Sequence[OwnedTaskIds] = array(OwnedTaskIds)
    standby_tasks_pending_revocation: Sequence[OwnedTaskIds] = array(OwnedTaskIds)
    warmup_tasks_pending_revocation: Sequence[OwnedTaskIds] = array(OwnedTaskIds)


class StreamsGroupTopologyKey(Message):
    """Key: a group's id."""

    VERSIONS = (23, 23)
    FLEXIBLE_FROM = None

    group_id: str = string()


class TopicConfig(Struct):
    """A setting of an internal topic."""

    key: str = string()
    value: str = string()


class TopologyTopic(Struct):
    """An internal topic; 0 where its number of partitions or copies is left to the broker."""

    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: Sequence[TopicConfig] = array(TopicConfig)


class TopologyCopartitionGroup(Struct):
    """Topics with as many partitions as each other: indexes into the subtopology's lists."""

    source_topics: Sequence[int] = array(INT16)
    source_topic_regex: Sequence[int] = array(INT16)
    repartition_source_topics: Sequence[int] = array(INT16)


class TopologySubtopology(Struct):
    """A part of the topology."""

    subtopology_id: str = string()
    source_topics: Sequence[str] = array(STRING)
    source_topic_regex: Sequence[str] = array(STRING)
    state_changelog_topics: Sequence[TopologyTopic] = array(TopologyTopic)
    repartition_sink_topics: Sequence[str] = array(STRING)
    repartition_source_topics: Sequence[TopologyTopic] = array(TopologyTopic)
    copartition_groups: Sequence[TopologyCopartitionGroup] = array(TopologyCopartitionGroup)


class StreamsGroupTopologyValue(Message):
    """The topology as the first member told it."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    epoch: int = int32()
    subtopologies: Sequence[TopologySubtopology] = array(TopologySubtopology)
