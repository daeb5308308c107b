"""The machine of consumer groups: delays."""

from __future__ import annotations

from support.heartbeat_groups import make_environment
from tidelog.broker.groups.classic.events import GroupProtocol
from tidelog.broker.groups.consumer.group import ClassicMember, ConsumerGroup, ConsumerMember
from tidelog.broker.groups.consumer.machine import Machine
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.heartbeat.machine import Delay, DelaySet
from tidelog.broker.groups.store.timers import DelayKind


def test_a_loaded_group_has_its_delays_anew():
    machine = Machine(make_environment(group_consumer_session_timeout_ms=46_000))
    group = ConsumerGroup("g")
    group.put(ConsumerMember(member_id="a"))
    group.put(ConsumerMember(member_id="old", classic=ClassicMember(10_000, (GroupProtocol("range", b""),))))
    revoking = MemberState.UNREVOKED_PARTITIONS
    group.put(ConsumerMember(member_id="b", member_epoch=4, state=revoking, rebalance_timeout_ms=300))
    assert machine.loaded(group, 0) == [
        DelaySet(Delay(DelayKind.SESSION, "a"), 46_000),
        DelaySet(Delay(DelayKind.SESSION, "old"), 10_000),
        DelaySet(Delay(DelayKind.SESSION, "b"), 46_000),
        DelaySet(Delay(DelayKind.REBALANCE, "b", 4), 300),
    ]


def test_a_delay_that_does_not_matter_any_more():
    machine = Machine(make_environment())
    group = ConsumerGroup("g")
    group.put(ConsumerMember(member_id="a", member_epoch=5))
    assert machine.delay_passed(group, Delay(DelayKind.SESSION, "gone"), 0) is None
    assert machine.delay_passed(group, Delay(DelayKind.REBALANCE, "a", 4), 0) is None
    assert machine.delay_passed(group, Delay(DelayKind.REBALANCE, "a", 5), 0) is not None
