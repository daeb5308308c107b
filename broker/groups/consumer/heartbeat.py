"""ConsumerGroupHeartbeat (KIP-848): the request and its result as frozen values without the wire's versions, and what one
heartbeat does to its group.

A member joins with epoch 0, leaves with -1 (a static one for a while with -2), and in between reports its epoch. It is fenced
where that is neither the present one nor, after a lost answer, the one before it with nothing that it does not have.

`machine.py` calls `heartbeat` and `leave`. They change nothing: a member's change is a `draft.py`, and the group changes when
the records of the outcome are replayed. Pure but for the environment that is read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ....protocol.errors import ErrorCode, ProtocolError
from ..assignors import Partitions
from ..heartbeat.group import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH
from ..heartbeat.machine import Delay, DelaySet, Effect, Environment, GroupRecord, MemberGone, Outcome
from ..store.group import Visible, all_visible
from ..store.timers import DelayKind
from .draft import Draft
from .group import ConsumerGroup, ConsumerMember, Owned
from .migration import without
from .records import current_record, member_record, member_tombstones, target_record

NOT_GIVEN = -1


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """One ConsumerGroupHeartbeat. Fields that are None (or -1) have not changed since the last one. Times in milliseconds."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    subscribed_topics: frozenset[str] | None = None
    expression: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    visible: Visible = all_visible
    """Filter of the topics that this client may see: matches of an expression are limited to these."""
    chooses_id: bool = True
    """From version 1 on members choose their ids; before, the answer to the first heartbeat brings one."""

    @property
    def is_full(self) -> bool:
        """True for a full request (every field is set). It gets a full answer: a client that is not sure of its state asks so."""
        subscribes = self.subscribed_topics is not None or self.expression is not None
        return self.rebalance_timeout_ms != NOT_GIVEN and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The answer; `assignment` is None where it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Owned | None = None


def check(request: HeartbeatRequest, assignors: Collection[str]) -> None:
    """Raises ProtocolError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what can be told without looking at the group."""
    epoch = request.member_epoch
    if (request.chooses_id or epoch > 0 or epoch == LEAVING_EPOCH) and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == NOT_GIVEN:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topics is None and request.expression is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == AWAY_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < AWAY_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)


log = logging.getLogger(__name__)

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"


def heartbeat(
    group: ConsumerGroup, request: HeartbeatRequest, environment: Environment, now_ms: int
) -> Outcome[HeartbeatResult]:
    """A member joins or stays. `group` may be a new one that nobody knows yet."""
    settings = environment.settings
    check_room(group, request.member_id, request.instance_id, settings.config.group_consumer_max_size)
    member_id = request.member_id or environment.new_id()
    base, replaced, records = _member_of(group, request, member_id)
    member = replace(
        base,
        instance_id=base.instance_id if request.instance_id is None else request.instance_id,
        rack_id=base.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=base.rebalance_timeout_ms
        if request.rebalance_timeout_ms == NOT_GIVEN
        else request.rebalance_timeout_ms,
        server_assignor=base.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topics=base.subscribed_topics if request.subscribed_topics is None else request.subscribed_topics,
        expression=base.expression if request.expression is None else request.expression,
        client_id=request.client_id,
        client_host=request.client_host,
        classic=None,
    )
    effects: list[Effect] = [MemberGone(replaced)] if replaced else []
    draft = Draft(group, environment, now_ms, base, member, replaced, records, effects, visible=request.visible)
    changed = draft.subscribe()
    draft.reconcile(*draft.assign(), request.owned, subscription_changed=changed)
    member = draft.member
    session = DelaySet(Delay(DelayKind.SESSION, member_id), settings.int_of(group.group_id, SESSION_TIMEOUT))
    tells = request.member_epoch == JOINING_EPOCH or request.is_full or member.assigned != base.assigned
    answer = HeartbeatResult(
        member_id,
        member.member_epoch,
        settings.int_of(group.group_id, HEARTBEAT_INTERVAL),
        member.assigned if tells else None,
    )
    return Outcome(answer, draft.records, [*draft.effects, session], work=draft.work, rebalanced=draft.rebalanced)


def leave(group: ConsumerGroup, request: HeartbeatRequest, environment: Environment) -> Outcome[HeartbeatResult]:
    """A member goes: for good, or (static, epoch -2) to come back within its session, in which nobody gets what it had."""
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = group.known_instance(request.instance_id, request.member_id)
    answer = HeartbeatResult(request.member_id, request.member_epoch)
    if request.instance_id is not None and request.member_epoch == AWAY_EPOCH:
        log.info("group %s: static member %s is away", group.group_id, request.instance_id)
        # Epochs of partitions start again with the successor, so that its commits count whatever its epoch is.
        away = replace(
            member,
            member_epoch=AWAY_EPOCH,
            pending={},
            assigned={topic_id: dict.fromkeys(each, 0) for topic_id, each in member.assigned.items()},
        )
        return Outcome(answer, [current_record(group.group_id, away)])
    log.info("group %s: member %s leaves", group.group_id, member.member_id)
    return without(group, [member], environment, answer)


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, limit: int) -> None:
    """Raises ProtocolError GROUP_MAX_SIZE_REACHED for one member too many.

    A static member that comes back takes its own place (Kafka refuses it when the group is full)."""
    comes_back = member_id in group.members or instance_id in group.static_members
    if len(group.members) >= limit and not comes_back:
        raise ProtocolError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {limit} members.",
        )


def successor(
    group: ConsumerGroup, old: ConsumerMember, member_id: str
) -> tuple[ConsumerMember, str, list[GroupRecord]]:
    """A static member comes back under a new id: what it had, its target too, is written over to that."""
    log.info("group %s: member %s in place of %s (%s)", group.group_id, member_id, old.member_id, old.instance_id)
    member = replace(old, member_id=member_id, member_epoch=JOINING_EPOCH, previous_member_epoch=JOINING_EPOCH)
    records = [
        *member_tombstones(group.group_id, old.member_id),
        member_record(group.group_id, member),
        target_record(group.group_id, member_id, group.target.get(old.member_id, {})),
        current_record(group.group_id, member),
    ]
    return member, old.member_id if old.member_id != member_id else "", records


def _member_of(
    group: ConsumerGroup, request: HeartbeatRequest, member_id: str
) -> tuple[ConsumerMember, str, list[GroupRecord]]:
    """The member as it is, a new one if it joins; the id it had before; records that pass on what was another's."""
    joins = request.member_epoch == JOINING_EPOCH
    if request.instance_id is None:
        member = group.members.get(member_id) if joins else group.member(member_id)
        if member is None:
            log.info("group %s: member %s joins", group.group_id, member_id)
            return ConsumerMember(member_id=member_id), "", []
        check_epoch(member, request.member_epoch, request.owned)
        return member, "", []
    if not joins:
        member = group.known_instance(request.instance_id, member_id)
        check_epoch(member, request.member_epoch, request.owned)
        return member, "", []
    old = group.static_member(request.instance_id)
    if old is None:
        log.info("group %s: member %s (%s) joins", group.group_id, member_id, request.instance_id)
        return group.members.get(member_id) or ConsumerMember(member_id=member_id), "", []
    if old.classic is None and old.member_epoch != AWAY_EPOCH:
        raise ProtocolError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {old.member_id} member.",
        )
    return successor(group, old, member_id)


def check_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> None:
    """Check the member epoch of a heartbeat; ProtocolError FENCED_MEMBER_EPOCH."""
    if epoch in (JOINING_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        how = "greater"
    elif epoch == member.previous_member_epoch and _is_within(owned, member.assigned):
        return  # the answer with the new epoch was lost
    else:
        how = "smaller"
    raise ProtocolError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _is_within(owned: Partitions | None, assigned: Mapping[bytes, Mapping[int, int]]) -> bool:
    if owned is None:
        return False
    return all(assigned.get(topic_id, {}).keys() >= partitions for topic_id, partitions in owned.items())
