"""Subscription and assignment, which consumers put into the opaque bytes of JoinGroup and SyncGroup.

Both stand behind an INT16 with their version. The broker only looks into them to tell which topics a group consumes
(OffsetDelete, DescribeGroups' readers). Version 1 lists the partitions that a member owns (KIP-429), 2 has the
generation they belong to (KIP-792), 3 the rack (KIP-881).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import INT32, STRING, Message, Struct, array, bytes_, int32, string


class TopicPartition(Struct):
    """The listed partitions of one topic."""

    topic: str = string()
    partitions: Sequence[int] = array(INT32)


class ConsumerProtocolSubscription(Message):
    """Subscription of a member: topics it wants, and partitions it owns."""

    VERSIONS = (0, 3)
    FLEXIBLE_FROM = None

    topics: Sequence[str] = array(STRING)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: Sequence[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message):
    """Partitions assigned to a member."""

    VERSIONS = (0, 3)
    FLEXIBLE_FROM = None

    assigned_partitions: Sequence[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
