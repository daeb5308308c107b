"""Records of `__consumer_offsets`: keys and values, each behind an INT16 with its version.

    record key    OffsetCommitKey in version 0 or 1, or GroupMetadataKey in version 2: the version tells which
    record value  OffsetCommitValue or GroupMetadataValue in its own version; null forgets what the key names

A key's version never changes, or compaction would keep two records. Version 4 of the values is flexible, so that
later fields don't stop older brokers from reading them (KIP-915). Kafka 4.3 writes offsets in 4, with the topic's id,
or in 1 when an offset has an expiry of its own, and groups in 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import Message, Struct, array, bytes_, int32, int64, string, uuid


class OffsetCommitKey(Message):
    """One partition's offset in one group. Version 0 is of brokers before 0.9."""

    VERSIONS = (0, 1)
    FLEXIBLE_FROM = None

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message):
    """expire_timestamp is -1 when the broker's retention applies. Times in milliseconds."""

    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)


class GroupMetadataKey(Message):
    """Key: a group's id."""

    VERSIONS = (2, 2)
    FLEXIBLE_FROM = None

    group: str = string()


class MemberMetadata(Struct):
    """One member; timeouts in milliseconds."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


class GroupMetadataValue(Message):
    """A stable group. current_state_timestamp in milliseconds."""

    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: Sequence[MemberMetadata] = array(MemberMetadata)
