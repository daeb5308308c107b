"""Consumer groups of KIP-848: the entry point of the type (see `registry`)."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from . import consumer_records
from .consumer_departures import removed
from .consumer_group import ConsumerGroup, ConsumerMember
from .machine import Environment
from .modern_group import MemberState
from .outcome import Delay, DelayKind, DelaySet, Effect, Outcome

log = logging.getLogger(__name__)

RECORDS = consumer_records.RECORDS

SESSION_TIMEOUT = "consumer.session.timeout.ms"

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
        log.info("group %s: member %s is put out: %s", group.group_id, member.member_id, _WHY[delay.kind])
        return removed(group, [member], self._environment.topics, None)

    def _session_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self._environment.settings.int_of(group.group_id, SESSION_TIMEOUT)
