"""The records of consumer groups: how each is made of the state, and what each does to it.

By the version of their keys (`../heartbeat/group.py` has what is the same for all):

    3   group epoch, metadata hash          6   assignment epoch, time        8   one member: epoch, state, what it owns
    5   one member: what it told            7   one member: its target        16  one expression: its topics
    4   of Kafka before 4.1: only forgotten here
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ....protocol.messages.consumer_group_records import (
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
from ..assignors import Partitions
from ..classic.events import GroupProtocol
from ..heartbeat.group import (
    LEAVING_EPOCH,
    GroupReplay,
    MemberState,
    forget_member,
    forget_target,
    forget_target_epoch,
    put_target_epoch,
)
from ..heartbeat.machine import GroupRecord
from ..heartbeat.regex_subscription import ResolvedExpression
from ..heartbeat.registry import RecordKind
from .group import ClassicMember, ConsumerGroup, ConsumerMember, Owned

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
    """Record of an expression and the topics that it matched; a tombstone if `resolved` is None."""
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

_CONSUMER = GroupReplay(ConsumerGroup)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def _put_epoch(group: ConsumerGroup, value: ConsumerGroupMetadataValue) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _put_partition_metadata(
    group: ConsumerGroup, _key: ConsumerGroupPartitionMetadataKey, _value: ConsumerGroupPartitionMetadataValue
) -> None:
    group.has_partition_metadata = True


def _forget_partition_metadata(group: ConsumerGroup, _key: ConsumerGroupPartitionMetadataKey) -> None:
    group.has_partition_metadata = False


def _put_member(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue
) -> None:
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


def _put_target(
    group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue
) -> None:
    group.set_target(key.member_id, {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions})


def _put_current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue,
) -> None:
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


def _forget_current(group: ConsumerGroup, key: ConsumerGroupCurrentMemberAssignmentKey) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        left = replace(member, member_epoch=LEAVING_EPOCH, previous_member_epoch=LEAVING_EPOCH, assigned={}, pending={})
        group.put(left)


def _read_owned(topics: Iterable[OwnedTopicPartitions], member_epoch: int) -> Owned:
    """Kafka before 4.3 did not write when a partition was assigned: the member's epoch stands for that."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for each in topics:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned


def _put_expression(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue
) -> None:
    group.resolve(key.regular_expression, ResolvedExpression(frozenset(value.topics), value.version, value.timestamp))


def _forget_expression(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey) -> None:
    group.resolve(key.regular_expression, None)


RECORDS: Mapping[int, RecordKind] = {
    kind.key.VERSIONS[0]: kind
    for kind in (
        _CONSUMER.group(ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, _put_epoch),
        _CONSUMER.part(
            ConsumerGroupPartitionMetadataKey,
            ConsumerGroupPartitionMetadataValue,
            _put_partition_metadata,
            _forget_partition_metadata,
        ),
        _CONSUMER.part(ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, _put_member, forget_member),
        _CONSUMER.part(
            ConsumerGroupTargetAssignmentMetadataKey,
            ConsumerGroupTargetAssignmentMetadataValue,
            put_target_epoch,
            forget_target_epoch,
        ),
        _CONSUMER.part(
            ConsumerGroupTargetAssignmentMemberKey,
            ConsumerGroupTargetAssignmentMemberValue,
            _put_target,
            forget_target,
        ),
        _CONSUMER.part(
            ConsumerGroupCurrentMemberAssignmentKey,
            ConsumerGroupCurrentMemberAssignmentValue,
            _put_current,
            _forget_current,
        ),
        _CONSUMER.part(
            ConsumerGroupRegularExpressionKey,
            ConsumerGroupRegularExpressionValue,
            _put_expression,
            _forget_expression,
        ),
    )
}
