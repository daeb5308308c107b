"""Streams groups of KIP-1071: the entry point of the type (see `registry`)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..heartbeat.group import MemberState
from ..heartbeat.machine import Environment
from ..heartbeat.outcome import Delay, DelaySet, Effect, Outcome
from ..store.group import Group
from ..store.timers import DelayKind
from . import records as streams_records
from .group import StreamsGroup
from .heartbeat import SESSION_TIMEOUT, first_assignment, heartbeat, removed, topics_to_make
from .requests import StreamsAnswer, StreamsHeartbeat
from .topology import InternalTopic

log = logging.getLogger(__name__)

RECORDS = streams_records.RECORDS

_WHY = {
    DelayKind.SESSION: "its session expired",
    DelayKind.REBALANCE: "it did not give up its tasks within its rebalance time-out",
}


class Machine:
    """Decides for streams groups. Pure but for its environment; loop thread."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def heartbeat(self, group: Group | None, request: StreamsHeartbeat, now_ms: int) -> Outcome[StreamsAnswer]:
        """Handle a heartbeat, as `heartbeat.heartbeat`."""
        return heartbeat(self._environment, group, request, now_ms)

    def topics_to_make(self, group: Group | None, request: StreamsHeartbeat) -> tuple[InternalTopic, ...]:
        """Internal topics that the request needs, as `heartbeat.topics_to_make`."""
        return topics_to_make(self._environment, group, request)

    def loaded(self, group: StreamsGroup, now_ms: int) -> Sequence[Effect]:
        session_ms = self._environment.settings.int_of(group.group_id, SESSION_TIMEOUT)
        effects: list[Effect] = []
        for member in group.members.values():
            effects.append(DelaySet(Delay(DelayKind.SESSION, member.member_id), session_ms))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                delay = Delay(DelayKind.REBALANCE, member.member_id, member.member_epoch)
                effects.append(DelaySet(delay, member.rebalance_timeout_ms))
        return effects

    def delay_passed(self, group: StreamsGroup, delay: Delay, now_ms: int) -> Outcome[None] | None:
        if delay.kind is DelayKind.ASSIGNMENT:
            return first_assignment(self._environment, group, now_ms)
        member = group.members.get(delay.member_id)
        if member is None or (delay.kind is DelayKind.REBALANCE and member.member_epoch != delay.epoch):
            return None
        log.info("group %s: member %s is put out: %s", group.group_id, member.member_id, _WHY[delay.kind])
        return removed(group, member, None)
