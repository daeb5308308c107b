"""Classic members in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup while a group migrates (KIP-848).

To such a member a member epoch is its generation. It learns from a heartbeat that it should join again: when the group has
changed since, when it has to give something up (its JoinGroup says what it still owns), or when what it waits for is free. Nobody
leads: the coordinator assigns. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ....protocol.errors import ErrorCode, MalformedRequest, ProtocolError
from ..classic.events import (
    UNKNOWN_MEMBER_ID,
    JoinRequest,
    JoinResult,
    LeavingMember,
    LeftMember,
    SyncRequest,
    SyncResult,
)
from ..classic.metadata import CONSUMER_PROTOCOL_TYPE
from ..heartbeat.group import MemberState
from ..heartbeat.machine import Delay, DelayCleared, DelaySet, Effect, Environment, GroupRecord, MemberGone, Outcome
from ..store.timers import DelayKind
from .classic_protocol import assignment_bytes, by_id, named, read_subscription, version_of
from .draft import Draft
from .group import ClassicMember, ConsumerGroup, ConsumerMember
from .heartbeat import check_room, successor
from .migration import downgraded, may_become_classic, without

log = logging.getLogger(__name__)


def join(group: ConsumerGroup, request: JoinRequest, environment: Environment, now_ms: int) -> Outcome[JoinResult]:
    """A member joins, or joins again. Raises ProtocolError."""
    config = environment.settings.config
    if config.group_consumer_migration_policy.lower() == "disabled":
        raise _inconsistent(
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration is "
            "disabled."
        )
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    member_id = environment.new_id() if is_unknown else request.member_id
    check_room(group, member_id, request.group_instance_id, config.group_consumer_max_size)
    if not supports(group, request):
        raise _inconsistent(f"Member {member_id}'s protocols are not supported.")
    if is_unknown and request.requires_known_member_id and request.group_instance_id is None:
        return Outcome(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except MalformedRequest as error:
        raise _inconsistent(f"Member {member_id}'s subscription cannot be read: {error.message}") from None
    old = group.static_member(request.group_instance_id)
    base, replaced, records = _member_of(group, request, member_id, is_unknown=is_unknown)
    member = replace(
        base,
        instance_id=base.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or base.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topics=frozenset(subscription.topics),
        expression="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMember(request.session_timeout_ms, request.protocols),
    )
    effects: list[Effect] = [MemberGone(replaced)] if replaced else []
    draft = Draft(group, environment, now_ms, base, member, replaced, records, effects, visible=request.visible)
    changed = draft.subscribe()
    reported = by_id(named(subscription.owned_partitions), environment.topics)
    answer = JoinResult(
        ErrorCode.NONE,
        member.member_id,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )
    if old is not None and old.classic is None and may_become_classic(list(draft.members()), environment):
        # The last one that spoke the consumer protocol comes back with the classic one.
        stale = group.assignment_epoch < draft.epoch
        answer = replace(answer, generation=group.group_epoch)
        reason = "its target was out of date" if stale else None
        return downgraded(group, draft.members(), environment, answer, reason, replaced or member_id)
    draft.reconcile(*draft.assign(), reported, subscription_changed=changed)
    delays: list[Effect] = [
        DelayCleared(Delay(DelayKind.JOIN, member_id)),
        DelaySet(Delay(DelayKind.SESSION, member_id), request.session_timeout_ms),
        DelaySet(Delay(DelayKind.SYNC, member_id), request.rebalance_timeout_ms),
    ]
    return Outcome(
        replace(answer, generation=draft.member.member_epoch),
        draft.records,
        [*draft.effects, *delays],
        work=draft.work,
        rebalanced=draft.rebalanced,
    )


def supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    """True if the request has a protocol that all other classic members support; those of heartbeat members do not matter."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    theirs = [
        {protocol.name for protocol in member.classic.protocols}
        for member in group.members.values()
        if member.classic is not None
    ]
    return any(all(protocol.name in names for names in theirs) for protocol in request.protocols)


def sync(group: ConsumerGroup, request: SyncRequest, environment: Environment) -> Outcome[SyncResult]:
    """The member's assignment; REBALANCE_IN_PROGRESS if there is a newer one to join for. Raises ProtocolError."""
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation)
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise _inconsistent(f"The group's protocol type is {CONSUMER_PROTOCOL_TYPE}.")
    if request.protocol_name not in (None, classic.protocols[0].name):
        raise _inconsistent(f"The protocol of the join's answer was {classic.protocols[0].name}.")
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return Outcome(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), effects=[_join_soon(member)])
    partitions = {topic_id: frozenset(each) for topic_id, each in member.assigned.items()}
    version = version_of(classic.protocols[0].metadata)
    return Outcome(
        SyncResult(
            ErrorCode.NONE,
            request.protocol_type,
            request.protocol_name,
            assignment_bytes(partitions, environment.topics, version),
        ),
        effects=[
            DelayCleared(Delay(DelayKind.SYNC, member.member_id)),
            DelaySet(Delay(DelayKind.SESSION, member.member_id), classic.session_timeout_ms),
        ],
    )


def heartbeat(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Outcome[ErrorCode]:
    """A sign of life; the answer says whether to join again. Raises ProtocolError."""
    member, classic = _classic_member(group, member_id, instance_id, generation)
    session = DelaySet(Delay(DelayKind.SESSION, member_id), classic.session_timeout_ms)
    waits_in_vain = member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)
    if (
        member.member_epoch < group.group_epoch  # of members that are all classic, only a join makes a new target
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or waits_in_vain
    ):
        return Outcome(ErrorCode.REBALANCE_IN_PROGRESS, effects=[session, _join_soon(member)])
    return Outcome(ErrorCode.NONE, effects=[session])


def leave(
    group: ConsumerGroup, leaving: Sequence[LeavingMember], environment: Environment
) -> Outcome[list[LeftMember]]:
    """Members leave, or are removed by an administrator: those of the consumer protocol too."""
    left: list[LeftMember] = []
    gone: dict[str, ConsumerMember] = {}
    for member_id, instance_id, _ in leaving:
        error = ErrorCode.NONE
        try:
            member = _leaving(group, member_id, instance_id)
            gone[member.member_id] = member
        except ProtocolError as failure:
            error = failure.code
        left.append(LeftMember(member_id, instance_id, error))
    return without(group, list(gone.values()), environment, left)


def _leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    if member_id == UNKNOWN_MEMBER_ID:
        member_id = group.static_members.get(instance_id, "")
    return group.known_instance(instance_id, member_id)


def _member_of(
    group: ConsumerGroup, request: JoinRequest, member_id: str, *, is_unknown: bool
) -> tuple[ConsumerMember, str, list[GroupRecord]]:
    if request.group_instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id), "", []
    if not is_unknown:
        return group.known_instance(request.group_instance_id, member_id), "", []
    old = group.static_member(request.group_instance_id)
    return (ConsumerMember(member_id=member_id), "", []) if old is None else successor(group, old, member_id)


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMember]:
    member = group.member(member_id) if instance_id is None else group.known_instance(instance_id, member_id)
    if member.classic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation != member.member_epoch:
        raise ProtocolError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} of member "
            f"{member_id}.",
        )
    return member, member.classic


def _waits(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if a partition of the member's target is still owned by another member."""
    for topic_id, partitions in group.target.get(member.member_id, {}).items():
        has = member.assigned.get(topic_id, {})
        if any(partition not in has and group.owner(topic_id, partition) is not None for partition in partitions):
            return True
    return False


def _join_soon(member: ConsumerMember) -> DelaySet:
    """Delay for a member that was told to join again: its rebalance timeout, counted from the first time that it was told."""
    return DelaySet(Delay(DelayKind.JOIN, member.member_id), member.rebalance_timeout_ms, absent=True)


def _inconsistent(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
