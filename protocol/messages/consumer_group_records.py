"""Records of consumer groups (KIP-848) in `__consumer_offsets`: keys and values, each behind an INT16 with its version.

A key's version is its kind: 3 to 8 and 16. Values have version 0; null forgets what the key names. Kafka 4.3 writes no
PartitionMetadata any more, only its tombstone: what it had became the metadata hash of the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import INT32, STRING, Message, Struct, array, bytes_, int8, int32, int64, string, structure, uuid


class ConsumerGroupMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (3, 3)
    FLEXIBLE_FROM = None

    group_id: str = string()


class ConsumerGroupMetadataValue(Message):
    """The group epoch, and a hash of the topics that it is made for."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (4, 4)
    FLEXIBLE_FROM = None

    group_id: str = string()


class PartitionRacks(Struct):
    """Racks of one partition."""

    partition: int = int32()
    racks: Sequence[str] = array(STRING)


class TopicMetadata(Struct):
    """A topic as the group saw it."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: Sequence[PartitionRacks] = array(PartitionRacks)


class ConsumerGroupPartitionMetadataValue(Message):
    """The topics that the group subscribes to; of Kafka before 4.1."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    topics: Sequence[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (5, 5)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    """A protocol of a member that joined with JoinGroup, and its subscription in it."""

    name: str = string()
    metadata: bytes = bytes_()


class ClassicMemberMetadata(Struct):
    """Further state of a member that speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: Sequence[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message):
    """Properties of a member, as it sent them."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    instance_id: str | None = string(nullable="0+", default="")
    rack_id: str | None = string(nullable="0+", default="")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default="")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default="")
    classic_member_metadata: ClassicMemberMetadata | None = structure(ClassicMemberMetadata, nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (6, 6)
    FLEXIBLE_FROM = None

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """Group epoch and time (ms) of the target assignment."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (7, 7)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class TargetTopicPartitions(Struct):
    """The listed partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(INT32)


class ConsumerGroupTargetAssignmentMemberValue(Message):
    """Target assignment of one member."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    topic_partitions: Sequence[TargetTopicPartitions] = array(TargetTopicPartitions)


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (8, 8)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class OwnedTopicPartitions(Struct):
    """Partitions of one topic, and the member epochs at which the member got them, in the same order."""

    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(INT32)
    assignment_epochs: Sequence[int] | None = array(INT32, nullable="0+", default=None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Current assignment of one member, on its way to the target."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[OwnedTopicPartitions] = array(OwnedTopicPartitions)
    partitions_pending_revocation: Sequence[OwnedTopicPartitions] = array(OwnedTopicPartitions)


class ConsumerGroupRegularExpressionKey(Message):
    """Key: a group's id and a regular expression."""

    VERSIONS = (16, 16)
    FLEXIBLE_FROM = None

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message):
    """The topics that it matched, at which version of the metadata, and when (milliseconds)."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    topics: Sequence[str] = array(STRING)
    version: int = int64()
    timestamp: int = int64()
