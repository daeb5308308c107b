"""Records of share groups in `__consumer_offsets` (KIP-932): a key's version says of which kind it is, values have version 0.

10 is a member, 11 the group, 12 and 13 the target assignment, 14 a member's own, 15 the partitions whose state is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import INT32, STRING, Message, Struct, array, int8, int32, int64, string, uuid


class ShareGroupMemberMetadataKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (10, 10)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class ShareGroupMemberMetadataValue(Message):
    """Properties of a member, as it sent them."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(STRING)


class ShareGroupMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (11, 11)
    FLEXIBLE_FROM = None

    group_id: str = string()


class ShareGroupMetadataValue(Message):
    """The epoch, and a hash of the topics that it was made for."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    epoch: int = int32()
    metadata_hash: int = int64()


class ShareGroupTargetAssignmentMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (12, 12)
    FLEXIBLE_FROM = None

    group_id: str = string()


class ShareGroupTargetAssignmentMetadataValue(Message):
    """The group epoch that the target is for; `assignment_timestamp` in milliseconds."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


class ShareGroupTargetAssignmentMemberKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (13, 13)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class TopicPartition(Struct):
    """The listed partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(INT32)


class ShareGroupTargetAssignmentMemberValue(Message):
    """Target assignment of one member."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    topic_partitions: Sequence[TopicPartition] = array(TopicPartition)


class ShareGroupCurrentMemberAssignmentKey(Message):
    """Key: a group's id and a member's."""

    VERSIONS = (14, 14)
    FLEXIBLE_FROM = None

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    """The listed partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(INT32)


class ShareGroupCurrentMemberAssignmentValue(Message):
    """Current assignment of one member, and the epoch that it has reached."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


class ShareGroupStatePartitionMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (15, 15)
    FLEXIBLE_FROM = None

    group_id: str = string()


class TopicPartitionsInfo(Struct):
    """Partitions of one topic, with its name."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array(INT32)


class TopicInfo(Struct):
    """A topic and its name."""

    topic_id: bytes = uuid()
    topic_name: str = string()


class ShareGroupStatePartitionMetadataValue(Message):
    """Partitions with state in `__share_group_state`, and those being initialized or deleted there."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    initializing_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: Sequence[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: Sequence[TopicInfo] = array(TopicInfo)
