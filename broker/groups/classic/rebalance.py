"""The classic group protocol: what each request and each time-out does to a group.

Every function takes the group, what happened and the time, changes the group, and returns effects for the driver to
carry out in order (see `events.py`). They are the only callers that move a group between states. Behaviour and
error codes are those of Kafka's coordinator; where it would leave an answer owed for ever, ours answers.

Eager and cooperative members differ in what they put into their subscriptions and assignments and in how often they
join; nothing here looks at that. Loop thread only. No I/O, no clock, no randomness.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from ....protocol.errors import ErrorCode
from .events import (
    UNKNOWN_MEMBER_ID,
    AssignmentReceived,
    Effects,
    GroupEmptied,
    GroupLimits,
    JoinAnswered,
    JoinDeadlineCleared,
    JoinDeadlineSet,
    JoinRequest,
    JoinResult,
    LeavingMember,
    LeftMember,
    SessionEnded,
    SessionStarted,
    StaticMemberReplaced,
    StoreGroup,
    SyncAnswered,
    SyncDeadlineCleared,
    SyncDeadlineSet,
    SyncRequest,
    SyncResult,
    Ticket,
)
from .metadata import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREPARING_REBALANCE,
    STABLE,
    GroupMetadata,
    Member,
)

log = logging.getLogger(__name__)

LEAST_LOOK_MS = 1000
"""Who waits for absent static members looks no more often, whatever rebalance time-out they said: it may be 0."""


class GroupRebalance:
    """The functions of this module, bound to the limits in force. Stateless otherwise."""

    __slots__ = ("limits",)

    def __init__(self, limits: GroupLimits) -> None:
        self.limits = limits

    # -- JoinGroup

    def join(self, group: GroupMetadata, request: JoinRequest, new_id: str, ticket: Ticket, now_ms: int) -> Effects:
        """A member joins. `new_id` is the id to give it if it has none."""
        effects: Effects = []
        names = {protocol.name for protocol in request.protocols}
        member_id = request.member_id
        error = ErrorCode.NONE
        if group.state is DEAD:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        elif not self._has_room(group, request):
            error, member_id = ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID
            group.remove(request.member_id)
            effects.append(SessionEnded(request.member_id))
            effects.append(JoinAnswered(ticket, JoinResult(error, member_id)))
            self._complete_join_if_ready(group, effects, now_ms)
            return effects
        elif not group.supports_protocols(request.protocol_type, names):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error is not ErrorCode.NONE:
            effects.append(JoinAnswered(ticket, JoinResult(error, member_id)))
        elif member_id == UNKNOWN_MEMBER_ID:
            self._join_new(group, request, new_id, ticket, effects, now_ms)
        elif member_id in group.pending_join_members and request.group_instance_id is None:
            self._add(group, request, member_id, ticket, effects, now_ms)
        else:
            self._rejoin(group, request, ticket, effects, now_ms)
        return effects

    def _has_room(self, group: GroupMetadata, request: JoinRequest) -> bool:
        """`group.max.size`. While members rejoin, those who are first are kept, in case the limit was lowered.

        A static member that comes back takes its own place (Kafka refuses it when the group is full)."""
        if group.state is EMPTY:
            return True
        member_id = request.member_id
        if member_id == UNKNOWN_MEMBER_ID and request.group_instance_id in group.static_members:
            return True
        member = group.members.get(member_id)
        if group.state is PREPARING_REBALANCE:
            waits_already = member is not None and member.join_ticket is not None
            return waits_already or group.awaiting_join < self.limits.max_size
        return member is not None or len(group.members) < self.limits.max_size

    def _join_new(
        self, group: GroupMetadata, request: JoinRequest, new_id: str, ticket: Ticket, effects: Effects, now_ms: int
    ) -> None:
        instance_id = request.group_instance_id
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is None:
                self._add(group, request, new_id, ticket, effects, now_ms)
            else:
                self._replace_static(group, request, old_id, new_id, ticket, effects, now_ms)
        elif request.requires_known_member_id:
            # KIP-394: a client whose JoinGroup times out would leave a dead member behind with each try. So it first
            # learns its id, and the id is forgotten after a session time-out unless it joins with it.
            group.give_out(new_id)
            effects.append(SessionStarted(new_id, request.session_timeout_ms))
            effects.append(JoinAnswered(ticket, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_id)))
        else:
            self._add(group, request, new_id, ticket, effects, now_ms)

    def _rejoin(
        self, group: GroupMetadata, request: JoinRequest, ticket: Ticket, effects: Effects, now_ms: int
    ) -> None:
        member_id = request.member_id
        error = group.check_member(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            effects.append(JoinAnswered(ticket, JoinResult(error, member_id)))
            return
        member = group.members[member_id]
        unchanged = member.protocols == request.protocols
        if group.state is COMPLETING_REBALANCE and unchanged:
            # Its client has not got the answer to the first join: it gets it again.
            effects.append(JoinAnswered(ticket, self._joined(group, member_id)))
        elif group.state is STABLE and unchanged and group.leader_id != member_id:
            effects.append(JoinAnswered(ticket, self._joined(group, member_id)))
        else:
            # In Stable, the leader's join always means a rebalance: it has seen something else than its own
            # subscription change, such as a topic's partitions.
            self._update(group, member, request, ticket, effects)
            self._rebalance_or_complete(group, f"member {member_id} joins again", effects, now_ms)

    def _add(
        self, group: GroupMetadata, request: JoinRequest, member_id: str, ticket: Ticket, effects: Effects, now_ms: int
    ) -> None:
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocol_type,
            request.protocols,
        )
        member.is_new = True
        if group.state is PREPARING_REBALANCE and group.initial_rebalance:
            group.new_member_added = True
        group.add(member, ticket)
        effects.append(SessionStarted(member_id, self.limits.new_member_join_timeout_ms))
        self._rebalance_or_complete(group, f"member {member_id} joins: {request.reason or 'new'}", effects, now_ms)

    def _replace_static(
        self,
        group: GroupMetadata,
        request: JoinRequest,
        old_id: str,
        new_id: str,
        ticket: Ticket,
        effects: Effects,
        now_ms: int,
    ) -> None:
        """KIP-345: the instance has restarted. In a stable group it goes on with what it had, without a rebalance."""
        assert request.group_instance_id is not None
        old_leader = group.leader_id
        member = group.replace_static_member(request.group_instance_id, old_id, new_id, effects)
        effects.append(SessionEnded(old_id))
        effects.append(SessionStarted(new_id, request.session_timeout_ms))
        reason = StaticMemberReplaced(
            request,
            old_id,
            new_id,
            member.protocols,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            old_leader,
        )
        self._update(group, member, request, ticket, effects)
        if group.state is STABLE:
            if group.select_protocol() == group.protocol_name:
                assignments = {m.member_id: m.assignment for m in group.members.values()}
                effects.append(StoreGroup(assignments, reason))
            else:
                self._prepare(group, f"static member {new_id} changes the protocol", effects, now_ms)
        elif group.state is COMPLETING_REBALANCE:
            # The leader may be assigning to the old id right now; that would leave the new one with nothing.
            self._prepare(group, f"static member {new_id} replaces {old_id}", effects, now_ms)
        else:
            self._complete_join_if_ready(group, effects, now_ms)

    @staticmethod
    def _update(group: GroupMetadata, member: Member, request: JoinRequest, ticket: Ticket, effects: Effects) -> None:
        group.update(
            member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms, ticket, effects
        )

    @staticmethod
    def _joined(group: GroupMetadata, member_id: str) -> JoinResult:
        """Success, as of the present generation."""
        return JoinResult(
            ErrorCode.NONE,
            member_id,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader_id or "",
            members=group.joined_members() if group.leader_id == member_id else (),
        )

    # -- the rebalance itself

    def _rebalance_or_complete(self, group: GroupMetadata, reason: str, effects: Effects, now_ms: int) -> None:
        if group.state is PREPARING_REBALANCE:
            self._complete_join_if_ready(group, effects, now_ms)
        else:
            self._prepare(group, reason, effects, now_ms)

    def _prepare(self, group: GroupMetadata, reason: str, effects: Effects, now_ms: int) -> None:
        """All members have to join (again). They learn it from the answer to their next heartbeat."""
        if group.state is COMPLETING_REBALANCE:
            self._assign(group, {}, ErrorCode.REBALANCE_IN_PROGRESS, effects)
        group.pending_sync_members.clear()
        effects.append(SyncDeadlineCleared())
        initial = group.state is EMPTY
        group.transition_to(PREPARING_REBALANCE, now_ms)
        log.info("group %s: rebalance after generation %d: %s", group.group_id, group.generation, reason)
        if initial:
            # The first members of a new group seldom come alone: wait a little, and longer while more come, up to
            # the time in which all had to join anyway (KIP-134).
            group.initial_rebalance = True
            group.new_member_added = False
            delay_ms = self.limits.initial_rebalance_delay_ms
            effects.append(JoinDeadlineSet(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0)))
        elif group.has_all_members_joined:
            self._complete_join(group, effects, now_ms)
        else:
            effects.append(JoinDeadlineSet(group.rebalance_timeout_ms))

    def _complete_join_if_ready(self, group: GroupMetadata, effects: Effects, now_ms: int) -> None:
        if group.state is PREPARING_REBALANCE and not group.initial_rebalance and group.has_all_members_joined:
            self._complete_join(group, effects, now_ms)

    def _complete_join(self, group: GroupMetadata, effects: Effects, now_ms: int) -> None:
        """Begin the next generation with the present members. Static members stay without having joined: their session is
        what decides about them."""
        effects.append(JoinDeadlineCleared())
        for member in list(group.members.values()):
            if member.join_ticket is None and member.group_instance_id is None:
                log.info("group %s: member %s did not rejoin in time", group.group_id, member.member_id)
                group.remove(member.member_id)
                effects.append(SessionEnded(member.member_id))
        if not group.elect_joined_leader() and group.members:
            # Only absent static members: until one comes, or their sessions end.
            effects.append(JoinDeadlineSet(max(group.rebalance_timeout_ms, LEAST_LOOK_MS)))
            return
        group.start_next_generation(now_ms)
        if group.state is EMPTY:
            log.info("group %s: empty as of generation %d", group.group_id, group.generation)
            effects.append(StoreGroup({}, GroupEmptied()))
            return
        log.info("group %s: generation %d has %d members", group.group_id, group.generation, len(group.members))
        for member in group.members.values():
            group.answer_join(member, self._joined(group, member.member_id), effects)
            effects.append(SessionStarted(member.member_id, member.session_timeout_ms))
            member.is_new = False
        group.pending_sync_members.update(group.members)
        effects.append(SyncDeadlineSet(group.rebalance_timeout_ms, group.generation))

    def join_deadline_passed(self, group: GroupMetadata, remaining_ms: int | None, now_ms: int) -> Effects:
        """The time to join is over, or the initial delay is, which leaves `remaining_ms` for further members."""
        effects: Effects = []
        if group.state is not PREPARING_REBALANCE:
            return effects
        if remaining_ms and group.new_member_added:
            group.new_member_added = False
            delay_ms = min(self.limits.initial_rebalance_delay_ms, remaining_ms)
            effects.append(JoinDeadlineSet(delay_ms, remaining_ms - delay_ms))
        else:
            self._complete_join(group, effects, now_ms)
        return effects

    # -- SyncGroup

    def sync(self, group: GroupMetadata, request: SyncRequest, ticket: Ticket) -> Effects:
        """A member asks for its assignment; the leader brings everybody's."""
        member_id = request.member_id
        if group.state is DEAD:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            error = group.check_member(member_id, request.group_instance_id)
            if error is not ErrorCode.NONE:
                pass
            elif request.generation != group.generation:
                error = ErrorCode.ILLEGAL_GENERATION
            elif _differ(request.protocol_type, group.protocol_type) or _differ(
                request.protocol_name, group.protocol_name
            ):
                error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            elif group.state is PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            return [SyncAnswered(ticket, SyncResult(error))]

        effects: Effects = []
        member = group.members[member_id]
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            effects.append(SyncDeadlineCleared())
        if group.state is STABLE:
            result = SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment)
            effects.append(SyncAnswered(ticket, result))
            return effects
        assert group.state is COMPLETING_REBALANCE
        # An older SyncGroup of it that still waits was given up by its client.
        group.answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), effects)
        member.sync_ticket = ticket
        if group.leader_id == member_id:
            given = request.assignments or {}
            assignments = {each: given.get(each, b"") for each in group.members}
            effects.append(StoreGroup(assignments, AssignmentReceived(group.generation, assignments)))
        return effects

    def _assign(self, group: GroupMetadata, assignments: dict[str, bytes], error: ErrorCode, effects: Effects) -> None:
        """Gives each member its assignment, or all an error, and answers those who wait for it."""
        ok = error is ErrorCode.NONE
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            result = (
                SyncResult(error, group.protocol_type, group.protocol_name, member.assignment)
                if ok
                else SyncResult(error)
            )
            if group.answer_sync(member, result, effects):
                # While it waited it needed no heartbeats.
                effects.append(SessionStarted(member.member_id, member.session_timeout_ms))

    def sync_deadline_passed(self, group: GroupMetadata, generation: int, now_ms: int) -> Effects:
        """Members that joined and then never asked for their assignment are removed (KAFKA-12783)."""
        effects: Effects = []
        if generation == group.generation and group.state in (COMPLETING_REBALANCE, STABLE):
            late = sorted(group.pending_sync_members)
            for member_id in late:
                group.remove(member_id)
                effects.append(SessionEnded(member_id))
            if late:
                self._prepare(group, f"no SyncGroup came from {', '.join(late)}", effects, now_ms)
        return effects

    # -- after a write

    def group_stored(
        self,
        group: GroupMetadata,
        reason: AssignmentReceived | StaticMemberReplaced | GroupEmptied,
        error: ErrorCode,
        now_ms: int,
    ) -> Effects:
        """The write that a StoreGroup asked for has succeeded or failed. The group may have moved on meanwhile."""
        effects: Effects = []
        if isinstance(reason, AssignmentReceived):
            if group.state is COMPLETING_REBALANCE and group.generation == reason.generation:
                if error is ErrorCode.NONE:
                    self._assign(group, dict(reason.assignments), error, effects)
                    group.transition_to(STABLE, now_ms)
                else:
                    self._assign(group, {}, error, effects)
                    self._prepare(group, f"storing the assignment failed: {error.name}", effects, now_ms)
        elif isinstance(reason, StaticMemberReplaced):
            self._static_member_stored(group, reason, error, effects)
        return effects

    def _static_member_stored(
        self, group: GroupMetadata, reason: StaticMemberReplaced, error: ErrorCode, effects: Effects
    ) -> None:
        member = group.members.get(reason.new_member_id)
        if member is None:
            return  # left, or fenced in turn; it was answered then
        if error is ErrorCode.NONE:
            result = self._joined(group, member.member_id)
            leads = group.leader_id == member.member_id
            if not reason.request.supports_skip_assignment:
                # Such a client would take "you lead" for "assign". It gets the old leader's id, which is nobody's.
                result = replace(result, leader=reason.old_leader or "", members=())
            elif leads:
                result = replace(result, skip_assignment=True)
            group.answer_join(member, result, effects)
            effects.append(SessionStarted(member.member_id, member.session_timeout_ms))
            return
        assert reason.request.group_instance_id is not None
        result = replace(self._joined(group, UNKNOWN_MEMBER_ID), error=error, leader=reason.old_leader or "")
        group.answer_join(member, result, effects)
        group.update(
            member, reason.old_protocols, reason.old_rebalance_timeout_ms, reason.old_session_timeout_ms, None, effects
        )
        group.replace_static_member(
            reason.request.group_instance_id, reason.new_member_id, reason.old_member_id, effects
        )
        effects.append(SessionEnded(reason.new_member_id))
        effects.append(SessionStarted(reason.old_member_id, reason.old_session_timeout_ms))

    # -- heartbeats, sessions, leaving

    def heartbeat(
        self, group: GroupMetadata, member_id: str, group_instance_id: str | None, generation: int
    ) -> tuple[ErrorCode, Effects]:
        """A sign of life; the answer tells a member to rejoin."""
        if group.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = group.check_member(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error, []
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION, []
        return HEARTBEAT_ANSWER[group.state], self.member_seen(group, member_id)

    @staticmethod
    def member_seen(group: GroupMetadata, member_id: str) -> Effects:
        """A commit is a sign of life too."""
        member = group.members.get(member_id)
        return [] if member is None else [SessionStarted(member_id, member.session_timeout_ms)]

    def session_expired(self, group: GroupMetadata, member_id: str, now_ms: int) -> Effects:
        """Nothing was heard of the member, or of the owner of an id given out, in time."""
        effects: Effects = []
        if member_id in group.pending_join_members:
            group.remove(member_id)
            self._complete_join_if_ready(group, effects, now_ms)
            return effects
        member = group.members.get(member_id)
        if member is not None and member.may_expire:
            log.info("group %s: member %s has failed: no heartbeat in time", group.group_id, member_id)
            self._remove(group, member, effects)
            self._rebalance_or_complete(group, f"member {member_id} has failed", effects, now_ms)
        return effects

    def leave(
        self, group: GroupMetadata, leaving: Sequence[LeavingMember], now_ms: int
    ) -> tuple[list[LeftMember], Effects]:
        """Members leave, or are removed by an administrator, who names static ones by their instance id (KIP-345)."""
        effects: Effects = []
        left: list[LeftMember] = []
        gone: list[str] = []
        members_gone = False
        for member_id, instance_id, _ in leaving:
            error = ErrorCode.NONE
            target = member_id
            if member_id == UNKNOWN_MEMBER_ID:
                target = group.static_members.get(instance_id or "", UNKNOWN_MEMBER_ID)
                error = ErrorCode.NONE if target else ErrorCode.UNKNOWN_MEMBER_ID
            elif member_id not in group.pending_join_members:
                error = group.check_member(member_id, instance_id)
            if error is ErrorCode.NONE:
                gone.append(target)
                member = group.members.get(target)
                if member is None:  # an id given out: nobody has to rebalance for it
                    group.remove(target)
                    effects.append(SessionEnded(target))
                else:
                    self._remove(group, member, effects)
                    members_gone = True
            left.append(LeftMember(member_id, instance_id, error))
        if gone:
            reason = f"{', '.join(gone)} left"
            if members_gone and group.state in (STABLE, COMPLETING_REBALANCE):
                self._prepare(group, reason, effects, now_ms)
            else:
                self._complete_join_if_ready(group, effects, now_ms)
        return left, effects

    @staticmethod
    def _remove(group: GroupMetadata, member: Member, effects: Effects) -> None:
        # Its waiting requests get UNKNOWN_MEMBER_ID: their client may join again from the start.
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        group.answer_join(member, JoinResult(unknown, UNKNOWN_MEMBER_ID), effects)
        group.answer_sync(member, SyncResult(unknown), effects)
        group.remove(member.member_id)
        effects.append(SessionEnded(member.member_id))

    # -- coming and going of the whole group

    def loaded(self, group: GroupMetadata, now_ms: int) -> Effects:
        """The group was read from the log: its members' sessions begin, and it shrinks if the limit was lowered."""
        effects: Effects = [
            SessionStarted(member.member_id, member.session_timeout_ms) for member in group.members.values()
        ]
        if len(group.members) > self.limits.max_size:
            self._prepare(group, f"{len(group.members)} members are over group.max.size", effects, now_ms)
        return effects

    def rebalance(self, group: GroupMetadata, reason: str, now_ms: int) -> Effects:
        """All members have to join again."""
        effects: Effects = []
        self._prepare(group, reason, effects, now_ms)
        return effects

    def kill(self, group: GroupMetadata, error: ErrorCode, now_ms: int) -> Effects:
        """The group is deleted or the coordinator stops: all who wait are answered with `error`."""
        effects: Effects = []
        group.transition_to(DEAD, now_ms)
        for member in group.members.values():
            group.answer_join(member, JoinResult(error, member.member_id), effects)
            group.answer_sync(member, SyncResult(error), effects)
        return effects


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other
