"""A consumer group's own state: owners, expressions, assignors, commits."""

from __future__ import annotations

import pytest
from tidelog.broker.groups.classic.events import GroupProtocol
from tidelog.broker.groups.consumer.group import ClassicMember, ConsumerGroup, ConsumerMember
from tidelog.broker.groups.heartbeat.regex_subscription import ResolvedExpression
from tidelog.broker.groups.store.group import Committer
from tidelog.protocol.errors import ErrorCode as E

T, U = b"t" * 16, b"u" * 16


def member(name, **fields):
    return ConsumerMember(member_id=name, **fields)


def test_a_partition_has_an_owner_until_it_is_given_up():
    group = ConsumerGroup("g")
    group.put(member("a", assigned={T: {0: 1, 1: 1}}))
    group.put(member("a", assigned={T: {0: 1}}, pending={T: {1: 1}}))
    assert (group.owner(T, 0), group.owner(T, 1), group.owner(U, 0)) == ("a", "a", None)
    group.put(member("a", assigned={T: {0: 1}}))
    assert group.owner(T, 1) is None
    group.put(member("b", assigned={T: {1: 2}}))
    group.drop("a")
    assert (group.owner(T, 0), group.owner(T, 1)) == (None, "b")
    group.drop("b")
    assert group._owners == {}


def test_state_names():
    group = ConsumerGroup("g")
    assert group.state_name == "Empty"
    group.put(member("a", member_epoch=2))
    group.group_epoch, group.assignment_epoch = 3, 2
    assert group.state_name == "Assigning"
    group.assignment_epoch = 3
    assert group.state_name == "Reconciling"
    group.put(member("a", member_epoch=3))
    assert group.state_name == "Stable"


def test_expressions():
    group = ConsumerGroup("g")
    group.put(member("a", expression="x.*", subscribed_topics=frozenset({"named"})))
    group.put(member("b", expression="x.*"))
    assert group.expressions == {"x.*": 2}
    group.resolve("x.*", ResolvedExpression(frozenset({"x1", "x2"}), 1, 2))
    assert set(group.subscribed_topics()) == {"named", "x1", "x2"}
    assert group.topics_of(group.members["a"]) == {"named", "x1", "x2"}
    assert group.is_subscribed_to("x1")
    group.resolve("x.*", ResolvedExpression(frozenset({"x2"}), 2, 3))
    assert not group.is_subscribed_to("x1")
    group.put(member("b"))
    group.drop("a")
    assert group.expressions == {}
    group.resolve("x.*", None)
    assert set(group.subscribed_topics()) == set()


def test_the_assignor_that_most_prefer():
    group = ConsumerGroup("g")
    assert group.preferred_assignor() is None
    group.put(member("a", server_assignor="range"))
    group.put(member("b", server_assignor="uniform"))
    group.put(member("c", server_assignor="uniform"))
    group.put(member("d"))
    assert group.preferred_assignor() == "uniform"
    assert group.preferred_assignor("", member("c", server_assignor="range")) == "range"
    assert group.preferred_assignor("b", member("new", server_assignor="range")) == "range"


@pytest.mark.parametrize(
    ("committer", "expected"),
    [
        (Committer("m", None, 5), E.NONE),
        (Committer("m", None, 6), E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 4), E.NONE),  # it has had the partition since 3
        (Committer("m", None, 3), E.NONE),
        (Committer("m", None, 2), E.STALE_MEMBER_EPOCH),
        (Committer("m", None, -1), E.STALE_MEMBER_EPOCH),
        (Committer("x", None, 5), E.UNKNOWN_MEMBER_ID),
        (Committer("", None, -1), E.UNKNOWN_MEMBER_ID),
        (Committer("m", None, 5, version=8), E.UNSUPPORTED_VERSION),
        (Committer("", None, -1, transactional=True), E.NONE),
        (Committer("m", None, 2, transactional=True, version=5), E.ILLEGAL_GENERATION),
        (Committer("m", None, 6, transactional=True, version=5), E.ILLEGAL_GENERATION),
        (Committer("m", None, 2, transactional=True, version=6), E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 6, transactional=True, version=6), E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 5, transactional=True, version=3), E.NONE),
        (Committer("m", None, 4, transactional=True, version=6), E.NONE),
        (Committer("old", None, 6, transactional=True, version=6), E.ILLEGAL_GENERATION),
        (Committer("old", None, 5, version=8), E.NONE),
        (Committer("old", None, 4), E.ILLEGAL_GENERATION),
        (Committer("old", None, 6), E.ILLEGAL_GENERATION),
    ],
)
def test_who_may_commit(committer, expected):
    group = ConsumerGroup("g")
    group.put(member("m", member_epoch=5, assigned={T: {0: 3}}, pending={T: {1: 2}}))
    group.put(member("old", member_epoch=5, classic=ClassicMember(1000, (GroupProtocol("range", b""),))))
    assert group.may_commit(committer, [("t", T, 0)]) is expected


def test_a_stale_commit_for_what_is_not_the_members():
    group = ConsumerGroup("g")
    group.put(member("m", member_epoch=5, assigned={T: {0: 3}}, pending={T: {1: 2}}))
    committer = Committer("m", None, 4)
    assert group.may_commit(committer, [("t", T, 0), ("t", T, 1)]) is E.NONE
    for place in (("t", T, 2), ("u", U, 0), ("t", None, 0)):
        assert group.may_commit(committer, [("t", T, 0), place]) is E.STALE_MEMBER_EPOCH


def test_anybody_may_commit_to_an_empty_group():
    assert ConsumerGroup("g").may_commit(Committer(), [("t", T, 0)]) is E.NONE
    assert ConsumerGroup("g").may_commit(Committer("m", None, 1), [("t", T, 0)]) is E.UNKNOWN_MEMBER_ID


def test_who_may_fetch_offsets():
    group = ConsumerGroup("g")
    group.put(member("m", member_epoch=5))
    assert group.may_fetch(None, -1) is E.NONE
    assert group.may_fetch("m", 5) is E.NONE
    assert group.may_fetch("m", 4) is E.STALE_MEMBER_EPOCH
    assert group.may_fetch("x", 5) is E.UNKNOWN_MEMBER_ID
    assert group.may_fetch(None, 5) is E.UNKNOWN_MEMBER_ID
