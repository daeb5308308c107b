"""Consumer groups of KIP-848: the entry point of the type (see `../heartbeat/registry.py`).

ConsumerGroupHeartbeat ─► heartbeat ─────────┐             ┌─► assignors
JoinGroup … of a member ► classic_members ───┴─► draft ────┼─► reconciliation
sessions, time-outs ────► migration.without                └─► regular expressions, matched by the pool
from and to classic ────► migration
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from ....protocol.errors import ErrorCode, ProtocolError
from ..classic.events import JoinRequest, JoinResult, LeavingMember, LeftMember, SyncRequest, SyncResult
from ..classic.metadata import GroupMetadata
from ..heartbeat.group import JOINING_EPOCH, MemberState
from ..heartbeat.machine import Delay, DelaySet, Effect, Environment, Outcome
from ..store.group import Claim, Group, GroupType, claim
from ..store.timers import DelayKind
from . import classic_members
from . import heartbeat as consumer_heartbeat
from . import records as consumer_records
from .group import ConsumerGroup, ConsumerMember
from .heartbeat import SESSION_TIMEOUT, HeartbeatRequest, HeartbeatResult, check
from .migration import upgraded, without

log = logging.getLogger(__name__)

RECORDS = consumer_records.RECORDS

_WHY = {
    DelayKind.SESSION: "its session expired",
    DelayKind.REBALANCE: "it did not give up its partitions within its rebalance time-out",
    DelayKind.JOIN: "it did not join within its rebalance time-out",
    DelayKind.SYNC: "it did not ask for its assignment within its rebalance time-out",
}


class Machine:
    """Decides for consumer groups. Pure but for its environment; loop thread."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    # -- the consumer protocol

    def heartbeat(self, found: Group | None, request: HeartbeatRequest, now_ms: int) -> Outcome[HeartbeatResult]:
        """Outcome of one heartbeat. `found`: the group of that id, of any type, or None; a classic one may be migrated, an
        empty one of another type replaced. Raises ProtocolError."""
        environment = self._environment
        self.check(request)
        if request.member_epoch < JOINING_EPOCH:
            return self._leave(self.group(found, request.group_id), request)
        what = claim(GroupType.CONSUMER, found) if request.member_epoch == JOINING_EPOCH else Claim.KEEP
        if what is Claim.MIGRATE:
            assert isinstance(found, GroupMetadata)
            group, records, effects = upgraded(found, environment)
            outcome = consumer_heartbeat.heartbeat(group, request, environment, now_ms)
            return dataclasses.replace(
                outcome,
                replaced=found,
                records=[*records, *outcome.records],
                effects=[*effects, *outcome.effects],
            )
        if what in (Claim.NEW, Claim.REPLACE):
            outcome = consumer_heartbeat.heartbeat(ConsumerGroup(request.group_id), request, environment, now_ms)
            return dataclasses.replace(outcome, replaced=found)
        return consumer_heartbeat.heartbeat(self.group(found, request.group_id), request, environment, now_ms)

    def check(self, request: HeartbeatRequest) -> None:
        """Raises ProtocolError for what can be told without looking for the group."""
        check(request, self._environment.settings.config.group_consumer_assignors)

    def group(self, found: Group | None, group_id: str) -> ConsumerGroup:
        """The group, if it is a consumer group. Raises ProtocolError GROUP_ID_NOT_FOUND."""
        if isinstance(found, ConsumerGroup):
            return found
        what = "not found" if found is None else "is not a consumer group"
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")

    def assignor(self, group: ConsumerGroup) -> str:
        """The name of the assignor that the group's next target is made by."""
        return group.preferred_assignor() or self._environment.settings.config.group_consumer_assignors[0]

    def _leave(self, group: ConsumerGroup, request: HeartbeatRequest) -> Outcome[HeartbeatResult]:
        return consumer_heartbeat.leave(group, request, self._environment)

    # -- the classic protocol in a consumer group

    def join(self, found: Group | None, request: JoinRequest, now_ms: int) -> Outcome[JoinResult]:
        """Handle a classic member's JoinGroup. ProtocolError."""
        return classic_members.join(self.group(found, request.group_id), request, self._environment, now_ms)

    def sync(self, found: Group | None, request: SyncRequest) -> Outcome[SyncResult]:
        """Handle a classic member's SyncGroup. ProtocolError."""
        return classic_members.sync(self.group(found, request.group_id), request, self._environment)

    def classic_heartbeat(
        self, found: Group | None, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> Outcome[ErrorCode]:
        """Handle a classic member's Heartbeat. ProtocolError."""
        return classic_members.heartbeat(self.group(found, group_id), member_id, instance_id, generation)

    def leave(self, found: Group | None, group_id: str, members: Sequence[LeavingMember]) -> Outcome[list[LeftMember]]:
        """Handle a classic LeaveGroup. ProtocolError."""
        return classic_members.leave(self.group(found, group_id), members, self._environment)

    # -- delays

    def loaded(self, group: ConsumerGroup, now_ms: int) -> Sequence[Effect]:
        effects: list[Effect] = []
        for member in group.members.values():
            effects.append(DelaySet(Delay(DelayKind.SESSION, member.member_id), self._session_ms(group, member)))
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                delay = Delay(DelayKind.REBALANCE, member.member_id, member.member_epoch)
                effects.append(DelaySet(delay, member.rebalance_timeout_ms))
        return effects

    def delay_passed(self, group: ConsumerGroup, delay: Delay, now_ms: int) -> Outcome[None] | None:
        member = group.members.get(delay.member_id)
        if member is None or (delay.kind is DelayKind.REBALANCE and member.member_epoch != delay.epoch):
            return None
        log.info("group %s: member %s is removed: %s", group.group_id, member.member_id, _WHY[delay.kind])
        return without(group, [member], self._environment, None)

    def _session_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._environment.settings.int_of(group.group_id, SESSION_TIMEOUT)
