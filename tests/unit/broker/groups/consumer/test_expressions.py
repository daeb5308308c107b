"""What the pool matched comes back to a group that may have moved on."""

from __future__ import annotations

from support.heartbeat_groups import Image
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.consumer.draft import expressions_resolved
from tidelog.broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from tidelog.broker.groups.heartbeat.regex_subscription import ResolvedExpression
from tidelog.broker.groups.heartbeat.registry import replay


def test_topics_that_are_others_begin_an_epoch():
    image = Image(x1=1, x2=1)
    group = ConsumerGroup("g")
    group.put(ConsumerMember(member_id="m", expression="x.*"))
    groups = {"g": group}
    for topics, epoch in (({"x1"}, 2), ({"x1"}, 2), ({"x1", "x2"}, 3)):
        resolved = {"x.*": ResolvedExpression(frozenset(topics), epoch, 1), "nobody's": ResolvedExpression()}
        outcome = expressions_resolved(group, resolved, image)
        assert outcome.rebalanced == (epoch > group.group_epoch)
        for record in outcome.records:
            replay(groups, record)
        assert (group.group_epoch, list(group.resolved), set(group.subscribed_topics())) == (epoch, ["x.*"], topics)


def test_nobody_asks_any_more():
    resolved = {"x.*": ResolvedExpression()}
    assert expressions_resolved(None, resolved, Image()) is None
    assert expressions_resolved(GroupMetadata("g", 0), resolved, Image()) is None
    assert expressions_resolved(ConsumerGroup("g"), resolved, Image()) is None
