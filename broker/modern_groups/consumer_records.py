"""The records of consumer groups: how each is made of the state, and what each does to it.

    3   group epoch, metadata hash          6   assignment epoch, time        8   one member: epoch, state, what it owns
    5   one member: what it told            7   one member: its target        16  one expression: its topics
    4   of Kafka before 4.1: only forgotten here

A group comes into being with its first record of any kind, as in Kafka. While loading, a tombstone for what is not there is
no error: compaction may have removed what it forgot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopicPartitions,
    TargetTopicPartitions,
)
from ..group_events import GroupProtocol
from .consumer_group import ClassicMember, ConsumerGroup, ConsumerMember, Owned, ResolvedExpression
from .modern_group import LEAVING_EPOCH, NO_ASSIGNMENT_EPOCH, MemberState, Partitions
from .outcome import GroupRecord
from .registry import Groups, RecordKind, existing, present

# -- made of the state


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    return GroupRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    classic = member.classic
    return GroupRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topics),
            subscribed_topic_regex=member.expression,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[ClassicProtocol(name=p.name, metadata=p.metadata) for p in classic.protocols],
            ),
        ),
    )


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms),
    )


def target_record(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TargetTopicPartitions(topic_id=topic_id, partitions=sorted(target[topic_id]))
                for topic_id in sorted(target)
            ]
        ),
    )


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    return GroupRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=member.state,
            assigned_partitions=_owned(member.assigned),
            partitions_pending_revocation=_owned(member.pending),
        ),
    )


def _owned(owned: Owned) -> list[OwnedTopicPartitions]:
    return [
        OwnedTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(owned[topic_id]),
            assignment_epochs=[owned[topic_id][partition] for partition in sorted(owned[topic_id])],
        )
        for topic_id in sorted(owned)
    ]


def expression_record(group_id: str, expression: str, resolved: ResolvedExpression | None) -> GroupRecord:
    """None forgets it."""
    value = resolved and ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return GroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=expression), value or None
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Forgets a member: what it owns, its target, itself."""
    return [
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ConsumerGroup) -> list[GroupRecord]:
    """Forgets the group with all that is in it."""
    group_id = group.group_id
    records: list[GroupRecord] = []
    for key in (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupTargetAssignmentMemberKey):
        records += (GroupRecord(key(group_id=group_id, member_id=member_id), None) for member_id in group.members)
    records.append(GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records += (
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)
        for member_id in group.members
    )
    records += (expression_record(group_id, expression, None) for expression in group.resolved)
    records.append(partition_metadata_tombstone(group_id))
    records.append(GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None))
    return records


# -- what each does


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def _replay_epoch(groups: Groups, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
    if value is None:
        if existing(groups, key.group_id, ConsumerGroup) is not None:
            del groups[key.group_id]
        return
    group = present(groups, key.group_id, ConsumerGroup)
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _replay_partition_metadata(
    groups: Groups, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    group = (
        existing(groups, key.group_id, ConsumerGroup) if value is None else present(groups, key.group_id, ConsumerGroup)
    )
    if group is not None:
        group.has_partition_metadata = value is not None


def _replay_member(
    groups: Groups, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group = existing(groups, key.group_id, ConsumerGroup)
        if group is not None:
            group.drop(key.member_id)
        return
    group = present(groups, key.group_id, ConsumerGroup)
    classic = value.classic_member_metadata
    group.put(
        replace(
            _member(group, key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topics=frozenset(value.subscribed_topic_names),
            expression=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMember(
                classic.session_timeout_ms,
                tuple(GroupProtocol(each.name, each.metadata) for each in classic.supported_protocols),
            ),
        )
    )


def _replay_target_epoch(
    groups: Groups,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is None:
        group = existing(groups, key.group_id, ConsumerGroup)
        if group is not None:
            group.assignment_epoch, group.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0
        return
    group = present(groups, key.group_id, ConsumerGroup)
    group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp


def _replay_target(
    groups: Groups, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
) -> None:
    if value is None:
        group = existing(groups, key.group_id, ConsumerGroup)
        if group is not None:
            group.drop_target(key.member_id)
        return
    target = {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}
    present(groups, key.group_id, ConsumerGroup).set_target(key.member_id, target)


def _replay_current(
    groups: Groups,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is None:
        group = existing(groups, key.group_id, ConsumerGroup)
        member = None if group is None else group.members.get(key.member_id)
        if group is not None and member is not None:
            group.put(
                replace(
                    member,
                    member_epoch=LEAVING_EPOCH,
                    previous_member_epoch=LEAVING_EPOCH,
                    assigned={},
                    pending={},
                )
            )
        return
    group = present(groups, key.group_id, ConsumerGroup)
    group.put(
        replace(
            _member(group, key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_read_owned(value.assigned_partitions, value.member_epoch),
            pending=_read_owned(value.partitions_pending_revocation, value.member_epoch),
        )
    )


def _read_owned(topics: Iterable[OwnedTopicPartitions], member_epoch: int) -> Owned:
    """Kafka before 4.3 did not write when a partition was assigned: the member's epoch stands for that."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned


def _replay_expression(
    groups: Groups, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    if value is None:
        group = existing(groups, key.group_id, ConsumerGroup)
        if group is not None:
            group.resolve(key.regular_expression, None)
        return
    resolved = ResolvedExpression(frozenset(value.topics), value.version, value.timestamp)
    present(groups, key.group_id, ConsumerGroup).resolve(key.regular_expression, resolved)


RECORDS: Mapping[int, RecordKind] = {
    kind.key.VERSIONS[0]: kind
    for kind in (
        RecordKind(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, _replay_epoch),
        RecordKind(ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue, _replay_partition_metadata),
        RecordKind(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, _replay_member),
        RecordKind(
            ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, _replay_target_epoch
        ),
        RecordKind(ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, _replay_target),
        RecordKind(ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, _replay_current),
        RecordKind(ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, _replay_expression),
    )
}
