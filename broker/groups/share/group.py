"""One share group of KIP-932 and its members: its state, the records that keep it, and the replay of each record into the state.

    Empty    no members        Stable   some

A member has what its target says from its next heartbeat on: nothing has to be given up first, since members may read the
same partition. Only partitions are assigned whose state is kept (`initialized`, in `__share_group_state`); how far they are
read the group does not know, and it has no committed offsets.

Its records, by the version of their keys:

    10  one member: what it told       12  assignment epoch, time      14  one member: epoch, what it reads
    11  group epoch, metadata hash     13  one member: its target      15  partitions whose state is kept

What all types of heartbeat groups have in common is in `../heartbeat/group.py`. Loop thread, or the one that loads the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)
from ..assignors import Partitions
from ..heartbeat.group import (
    LEAVING_EPOCH,
    GroupReplay,
    HeartbeatGroup,
    HeartbeatMember,
    MemberState,
    forget_member,
    forget_target,
    forget_target_epoch,
    put_target_epoch,
)
from ..heartbeat.machine import GroupRecord
from ..heartbeat.registry import RecordKind
from ..store.group import CommittedPartition, Committer, GroupType

if TYPE_CHECKING:
    from ...coordinator.internal_topic import CoordinatorRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember(HeartbeatMember):
    """`assigned` is what it reads."""

    assigned: Partitions = field(default_factory=dict)


class StatePartitions(NamedTuple):
    """Partitions of one topic whose state is kept, or is to be made; their topic id is the key under which this stands."""

    name: str
    partitions: frozenset[int]


class ShareGroup(HeartbeatGroup[ShareMember, Partitions]):
    """Changed by the replay functions of this module alone."""

    group_type = GroupType.SHARE
    __slots__ = ("compared", "compared_with", "deleting", "has_state", "initialized", "initializing")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        #: By topic id.
        self.initializing: Mapping[bytes, StatePartitions] = {}
        self.initialized: Mapping[bytes, StatePartitions] = {}
        #: Topic id → name.
        self.deleting: Mapping[bytes, str] = {}
        #: True if the group's log has a record of these.
        self.has_state = False
        #: Assignment epoch, `TopicImage.changes` and `initialized` when these were found to agree last; no part of the state.
        self.compared = (-1, -1)
        self.compared_with: Mapping[bytes, StatePartitions] | None = None

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def may_expire(self) -> bool:
        return False

    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def tombstones(self) -> list[CoordinatorRecord]:
        from ..heartbeat.registry import encoded

        return [encoded(record) for record in tombstones(self)]


# -- made of the state


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    return GroupRecord(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topics),
        ),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ShareGroupMetadataKey(group_id=group_id), ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    return GroupRecord(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    return GroupRecord(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(target.items())
            ]
        ),
    )


def assignment_record(group_id: str, member: ShareMember) -> GroupRecord:
    return GroupRecord(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in sorted(member.assigned.items())
            ],
        ),
    )


def state_record(
    group_id: str,
    initializing: Mapping[bytes, StatePartitions],
    initialized: Mapping[bytes, StatePartitions],
    deleting: Mapping[bytes, str],
) -> GroupRecord:
    return GroupRecord(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(initializing),
            initialized_topics=_infos(initialized),
            deleting_topics=[TopicInfo(topic_id=key, topic_name=name) for key, name in sorted(deleting.items())],
        ),
    )


def _infos(topics: Mapping[bytes, StatePartitions]) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=topic_id, topic_name=state.name, partitions=sorted(state.partitions))
        for topic_id, state in sorted(topics.items())
        if state.partitions
    ]


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """In Kafka's order: the last one forgets the member."""
    return [
        GroupRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def tombstones(group: ShareGroup) -> list[GroupRecord]:
    """Tombstones of all the group's records. The kept state of its partitions must have been deleted before."""
    group_id = group.group_id
    records = [record for member_id in group.members for record in member_tombstones(group_id, member_id)]
    records.append(GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records.append(GroupRecord(ShareGroupMetadataKey(group_id=group_id), None))
    if group.has_state:
        records.append(GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), None))
    return records


# -- what each does

_SHARE = GroupReplay(ShareGroup)


def _member(group: ShareGroup, member_id: str) -> ShareMember:
    return group.members.get(member_id) or ShareMember(member_id=member_id)


def _put_member(group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue) -> None:
    group.put(
        replace(
            _member(group, key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topics=frozenset(value.subscribed_topic_names),
        )
    )


def _put_epoch(group: ShareGroup, value: ShareGroupMetadataValue) -> None:
    group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _put_target(
    group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue
) -> None:
    group.set_target(key.member_id, _partitions(value.topic_partitions))


def _put_current(
    group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue
) -> None:
    group.put(
        replace(
            _member(group, key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_partitions(value.assigned_partitions),
        )
    )


def _forget_current(group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.put(replace(member, member_epoch=LEAVING_EPOCH, previous_member_epoch=LEAVING_EPOCH, assigned={}))


def _put_state(
    group: ShareGroup, _key: ShareGroupStatePartitionMetadataKey, value: ShareGroupStatePartitionMetadataValue
) -> None:
    group.initializing = {
        info.topic_id: StatePartitions(info.topic_name, frozenset(info.partitions))
        for info in value.initializing_topics
    }
    group.initialized = {
        info.topic_id: StatePartitions(info.topic_name, frozenset(info.partitions)) for info in value.initialized_topics
    }
    group.deleting = {info.topic_id: info.topic_name for info in value.deleting_topics}
    group.has_state = True


def _forget_state(group: ShareGroup, _key: ShareGroupStatePartitionMetadataKey) -> None:
    group.initializing, group.initialized, group.deleting, group.has_state = {}, {}, {}, False


def _partitions(topics: Iterable[Any]) -> dict[bytes, frozenset[int]]:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


RECORDS: Mapping[int, RecordKind] = {
    kind.key.VERSIONS[0]: kind
    for kind in (
        _SHARE.part(ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, _put_member, forget_member),
        _SHARE.group(ShareGroupMetadataKey, ShareGroupMetadataValue, _put_epoch),
        _SHARE.part(
            ShareGroupTargetAssignmentMetadataKey,
            ShareGroupTargetAssignmentMetadataValue,
            put_target_epoch,
            forget_target_epoch,
        ),
        _SHARE.part(
            ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue, _put_target, forget_target
        ),
        _SHARE.part(
            ShareGroupCurrentMemberAssignmentKey,
            ShareGroupCurrentMemberAssignmentValue,
            _put_current,
            _forget_current,
        ),
        _SHARE.part(
            ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue, _put_state, _forget_state
        ),
    )
}
