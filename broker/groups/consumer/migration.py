"""Members that leave a consumer group, or are put out of it because nothing was heard of them; and a group's change of protocol.

A group changes to the consumer protocol with the first member that speaks it, back with the last;
`group.consumer.migration.policy` says which of the two may happen. Members keep their ids, epochs go on from the generation,
and what everybody had stays his, so that nobody has to give anything up for the change itself. Pure.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from typing import TypeVar

from ....protocol.errors import ErrorCode, MalformedRequest, ProtocolError
from ...coordinator.internal_topic import CoordinatorRecord
from ..assignors import Partitions
from ..classic.metadata import CONSUMER_PROTOCOL_TYPE, STABLE, GroupMetadata, Member
from ..classic.records import group_value
from ..heartbeat.group import counted, metadata_hash
from ..heartbeat.machine import Delay, DelaySet, Effect, Environment, GroupRecord, MemberGone, Outcome
from ..heartbeat.registry import Groups, replay
from ..heartbeat.topic_image import TopicImage
from ..store.records import group_key
from ..store.timers import DelayKind
from .classic_protocol import assignment_bytes, by_id, named, read_assignment, read_subscription, version_of
from .group import ClassicMember, ConsumerGroup, ConsumerMember
from .records import (
    current_record,
    epoch_record,
    expression_record,
    group_tombstones,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
UPGRADE = ("upgrade", "bidirectional")
DOWNGRADE = ("downgrade", "bidirectional")


def may_upgrade(environment: Environment) -> bool:
    return environment.settings.config.group_consumer_migration_policy.lower() in UPGRADE


def may_downgrade(environment: Environment) -> bool:
    return environment.settings.config.group_consumer_migration_policy.lower() in DOWNGRADE


def upgraded(classic: GroupMetadata, environment: Environment) -> tuple[ConsumerGroup, list[GroupRecord], list[Effect]]:
    """The classic group as a consumer group, the records that make it one, and its members' sessions.

    Raises ProtocolError GROUP_ID_NOT_FOUND, as Kafka does, where that may not or cannot be."""
    if not may_upgrade(environment):
        raise _cannot_upgrade(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _cannot_upgrade(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > environment.settings.config.group_consumer_max_size:
        raise _cannot_upgrade(classic, "the group size exceeds the consumer group maximum size")
    try:
        members = {member.member_id: _upgraded(classic, member, environment) for member in classic.members.values()}
    except MalformedRequest:
        raise _cannot_upgrade(classic, "the embedded consumer protocol is malformed") from None
    group_id, epoch, image = classic.group_id, classic.generation, environment.topics
    names = frozenset[str]().union(*(member.subscribed_topics for member, _ in members.values()))
    records = [member_record(group_id, member) for member, _ in members.values()]
    records.append(epoch_record(group_id, epoch, metadata_hash(names, image)))
    records += (target_record(group_id, member_id, target) for member_id, (_, target) in members.items())
    records.append(target_epoch_record(group_id, epoch, 0))
    records += (current_record(group_id, member) for member, _ in members.values())
    groups: Groups = {}
    for record in records:
        replay(groups, record)
    group = groups[group_id]
    assert isinstance(group, ConsumerGroup)
    effects: list[Effect] = [
        DelaySet(Delay(DelayKind.SESSION, member_id), member.classic.session_timeout_ms)
        for member_id, (member, _) in members.items()
        if member.classic is not None
    ]
    return group, records, effects


def _upgraded(classic: GroupMetadata, member: Member, environment: Environment) -> tuple[ConsumerMember, Partitions]:
    protocol = classic.protocol_name or classic.select_protocol()
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _cannot_upgrade(
            classic,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
            "before re-attempting the upgrade",
        )
    subscription = read_subscription(member.metadata(protocol))
    target = by_id(named(assignment.assigned_partitions), environment.topics)
    epoch = classic.generation
    return (
        ConsumerMember(
            member_id=member.member_id,
            member_epoch=epoch,
            previous_member_epoch=epoch,
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id or None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topics=frozenset(subscription.topics),
            assigned={topic_id: dict.fromkeys(sorted(each), epoch) for topic_id, each in target.items()},
            classic=ClassicMember(member.session_timeout_ms, member.protocols),
        ),
        target,
    )


def _cannot_upgrade(classic: GroupMetadata, why: str) -> ProtocolError:
    log.info("group %s cannot become a consumer group: %s", classic.group_id, why)
    return ProtocolError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}.",
    )


def without(
    group: ConsumerGroup, members: Collection[ConsumerMember], environment: Environment, answer: T
) -> Outcome[T]:
    """The group when `members` have gone: a classic one, if all who stay speak the classic protocol and that may be."""
    gone = {member.member_id for member in members}
    staying = [member for member in group.members.values() if member.member_id not in gone]
    if members and staying and may_become_classic(staying, environment):
        return downgraded(group, staying, environment, answer, reason="members left")
    return removed(group, members, environment.topics, answer)


def may_become_classic(members: Collection[ConsumerMember], environment: Environment) -> bool:
    """True if a group with just these members is to be converted to a classic group."""
    speaks = [{each.name for each in member.classic.protocols} for member in members if member.classic is not None]
    return (
        len(speaks) == len(members)
        and bool(set.intersection(*speaks))
        and may_downgrade(environment)
        and len(members) <= environment.settings.config.group_max_size
    )


def downgraded(
    group: ConsumerGroup,
    members: Iterable[ConsumerMember],
    environment: Environment,
    answer: T,
    reason: str | None,
    replaced: str = "",
) -> Outcome[T]:
    """The group as a classic one of `members`, who keep their targets; a joining one may have `replaced` another's id.

    `reason`: why they have to join it at once."""
    members = list(members)
    classic = GroupMetadata(group.group_id, 0)
    classic.generation = group.group_epoch
    classic.state_timestamp_ms = None
    joining = {member.member_id for member in members} - group.members.keys()
    for member in members:
        assert member.classic is not None
        target = group.target.get(replaced if member.member_id in joining else member.member_id, {})
        assignment = assignment_bytes(target, environment.topics, version_of(member.classic.protocols[0].metadata))
        classic.add(
            Member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER_PROTOCOL_TYPE,
                member.classic.protocols,
                assignment,
            ),
            None,
        )
    classic.protocol_name = classic.select_protocol()
    classic.state = STABLE
    classic.subscribed_topics = classic.compute_subscribed_topics()
    assignments = {member_id: member.assignment for member_id, member in classic.members.items()}
    records: list[GroupRecord | CoordinatorRecord] = [
        *group_tombstones(group),
        CoordinatorRecord(group_key(group.group_id), group_value(classic, assignments)),
    ]
    effects = [MemberGone(member_id) for member_id in group.members]
    return Outcome(answer, records, effects, successor=classic, rebalance_successor=reason)


def removed(group: ConsumerGroup, members: Iterable[ConsumerMember], image: TopicImage, answer: T) -> Outcome[T]:
    """The group without `members`, in a new group epoch; expressions that nobody has any more go with them."""
    members = list(members)
    if not members:
        return Outcome(answer)
    records: list[GroupRecord] = []
    for member in members:
        records += member_tombstones(group.group_id, member.member_id)
    lost = orphaned_expressions(group, members)
    records += (expression_record(group.group_id, expression, None) for expression in lost)
    epoch_hash = metadata_hash(topics_without(group, members, lost), image)
    records.append(epoch_record(group.group_id, group.group_epoch + 1, epoch_hash))
    return Outcome(answer, records, [MemberGone(member.member_id) for member in members], rebalanced=True)


def orphaned_expressions(group: ConsumerGroup, members: Iterable[ConsumerMember]) -> list[str]:
    """Expressions that only `members` have."""
    theirs = Counter(member.expression for member in members if member.expression)
    return [expression for expression, count in theirs.items() if group.expressions.get(expression, 0) == count]


def topics_without(group: ConsumerGroup, members: Iterable[ConsumerMember], lost: Iterable[str]) -> set[str]:
    """Names of the topics that the group reads without these members and expressions."""
    names = dict(group.names)
    for member in members:
        names = counted(names, member.subscribed_topics, None)
    lost = set(lost)
    resolved = (each.topics for expression, each in group.resolved.items() if expression not in lost)
    return set(names).union(*resolved)
