"""Leaving: tombstones, a new epoch, and expressions that nobody has any more."""

from __future__ import annotations

from support.heartbeat_groups import Image
from tidelog.broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from tidelog.broker.groups.consumer.migration import removed
from tidelog.broker.groups.heartbeat.group import metadata_hash
from tidelog.broker.groups.heartbeat.machine import MemberGone
from tidelog.broker.groups.heartbeat.regex_subscription import ResolvedExpression
from tidelog.broker.groups.heartbeat.registry import replay


def test_members_go_in_a_new_epoch():
    image = Image(t=1, u=1, x=1, y=1)
    group = ConsumerGroup("g")
    group.put(ConsumerMember(member_id="a", subscribed_topics=frozenset("t"), expression="x"))
    group.put(ConsumerMember(member_id="b", subscribed_topics=frozenset("tu"), expression="y"))
    group.put(ConsumerMember(member_id="c", expression="y"))
    group.resolve("x", ResolvedExpression(frozenset("x")))
    group.resolve("y", ResolvedExpression(frozenset("y")))
    outcome = removed(group, [group.members["a"], group.members["b"]], image, "answer")
    assert outcome.answer == "answer"
    assert outcome.effects == [MemberGone("a"), MemberGone("b")]
    groups = {"g": group}
    for record in outcome.records:
        replay(groups, record)
    assert list(group.members) == ["c"]
    assert (group.group_epoch, list(group.resolved)) == (2, ["y"])
    assert group.metadata_hash == metadata_hash({"y"}, image)


def test_nobody_goes():
    assert removed(ConsumerGroup("g"), [], Image(), 1).records == ()
