"""How a member of a consumer group comes to its target: first it gives up, then it gets what others have given up.

    STABLE ──────────────── a new target ─────┐          UNREVOKED_PARTITIONS   stays in its epoch until it no longer reports
       ^                                      v                                 what it has to give up
       └── all is its own ── [next assignment] ── some has to be given up ──► UNREVOKED_PARTITIONS ── given up ─┐
                                   ^   └── some is another's yet ──► UNRELEASED_PARTITIONS                      │
                                   └──────────────────────────────────── with each heartbeat ──┴───────────────┘

So at no moment two members have a partition: it counts as owned until its owner has said that it has it no more, or is gone.
A member that has everything, or as much as there is yet, is in the epoch of the target. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ....protocol.errors import ErrorCode, ProtocolError
from ..assignors import Partitions
from ..heartbeat.group import MemberState
from .group import ConsumerMember, Owned

#: The present owner of a partition, if any.
OwnerOf = Callable[[bytes, int], str | None]
_NONE: Mapping[int, int] = {}
_NO_PARTITIONS: frozenset[int] = frozenset()


def reconciled(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owner: OwnerOf,
    subscribed: Collection[bytes],
    reported: Partitions | None,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """The member one step on, or as it is. `subscribed`: ids of the topics that it reads; `reported`: what it says that it
    has, None where it does not say. ProtocolError FENCED_MEMBER_EPOCH for a state that only a later Kafka knows."""
    state = member.state
    if state is MemberState.STABLE:
        if member.member_epoch != target_epoch:
            return _next(member, target_epoch, target, owner, subscribed, reported)
        return _without(member, subscribed, reported) if subscription_changed else member
    if state is MemberState.UNREVOKED_PARTITIONS:
        if _has_any(reported, member.pending):
            return _without(member, subscribed, reported) if subscription_changed else member
        return _next(member, target_epoch, target, owner, subscribed, reported)
    if state is MemberState.UNRELEASED_PARTITIONS:
        return _next(member, target_epoch, target, owner, subscribed, reported)
    if reported is None or any(reported.values()):
        raise ProtocolError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )
    return _next(member, target_epoch, target, owner, subscribed, reported)


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owner: OwnerOf,
    subscribed: Collection[bytes],
    reported: Partitions | None,
) -> ConsumerMember:
    kept: dict[bytes, Mapping[int, int]] = {}
    lost: dict[bytes, Mapping[int, int]] = {}
    gained: dict[bytes, Mapping[int, int]] = {}
    waits = False
    for topic_id in target.keys() | member.assigned.keys():
        wanted = target.get(topic_id, _NO_PARTITIONS) if topic_id in subscribed else _NO_PARTITIONS
        has = member.assigned.get(topic_id, _NONE)
        keeps = {partition: epoch for partition, epoch in has.items() if partition in wanted}
        loses = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
        missing = [partition for partition in wanted if partition not in keeps]
        # Partitions that it is giving up itself it may have back at once.
        giving_up = member.pending.get(topic_id, _NONE)
        there = [partition for partition in missing if partition in giving_up or owner(topic_id, partition) is None]
        waits = waits or len(there) < len(missing)
        if keeps:
            kept[topic_id] = keeps
        if loses:
            lost[topic_id] = loses
        if there:
            gained[topic_id] = dict.fromkeys(there, target_epoch)
    if lost and _has_any(reported, lost):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, lost)
    for topic_id, partitions in gained.items():
        kept[topic_id] = {**kept.get(topic_id, _NONE), **partitions}
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, state, target_epoch, kept, {})


def _without(member: ConsumerMember, subscribed: Collection[bytes], reported: Partitions | None) -> ConsumerMember:
    """The member after it has unsubscribed from topics: it gives up their partitions before there is a new target."""
    lost = {topic_id: each for topic_id, each in member.assigned.items() if topic_id not in subscribed}
    if not lost:
        return member
    kept = {topic_id: each for topic_id, each in member.assigned.items() if topic_id in subscribed}
    pending = dict(member.pending)
    for topic_id, partitions in lost.items():
        pending[topic_id] = {**pending.get(topic_id, _NONE), **partitions}
    if _has_any(reported, pending):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, pending)
    return _moved(member, member.state, member.member_epoch, kept, member.pending)


def _moved(member: ConsumerMember, state: MemberState, epoch: int, assigned: Owned, pending: Owned) -> ConsumerMember:
    return replace(
        member,
        state=state,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending=pending,
    )


def _has_any(reported: Partitions | None, owned: Owned) -> bool:
    """True if the member may still use any of these partitions: it reports them, or reports nothing."""
    if reported is None:
        return True
    return any(
        not owned.get(topic_id, _NONE).keys().isdisjoint(partitions) for topic_id, partitions in reported.items()
    )
