"""The tables, and the rules about members and protocols, without a coordinator."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.groups import subscription
from tidelog.broker.groups.classic import metadata
from tidelog.broker.groups.classic.events import GroupProtocol, JoinAnswered, JoinResult, SyncAnswered, SyncResult
from tidelog.broker.groups.classic.metadata import (
    COMMIT_ANSWER,
    COMPLETING_REBALANCE,
    DEAD,
    DELETE_ANSWER,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    GroupMetadata,
    GroupState,
    Member,
    subscribed_topics,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.schema import encode

A, B, C = (GroupProtocol(name, name.encode()) for name in "abc")


def member(name, *protocols, instance=None, rebalance_ms=1000):
    return Member(name, instance, "client", "/host", rebalance_ms, 500, "consumer", protocols or (A,))


def group_of(*members, state=STABLE):
    group = GroupMetadata("g", 0)
    for each in members:
        group.add(each, None)
    group.state = state
    return group


def test_every_state_has_a_row_in_each_table():
    for table in (TRANSITIONS, HEARTBEAT_ANSWER, COMMIT_ANSWER, DELETE_ANSWER):
        assert set(table) == set(GroupState)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(GroupState, GroupState)))
def test_transitions(before, after):
    """Kafka's table, said again from the other side: what may come before a state."""
    before_of = {
        EMPTY: {PREPARING_REBALANCE},
        PREPARING_REBALANCE: {STABLE, COMPLETING_REBALANCE, EMPTY},
        COMPLETING_REBALANCE: {PREPARING_REBALANCE},
        STABLE: {COMPLETING_REBALANCE},
        DEAD: {STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE, EMPTY},
    }
    group = group_of(state=before)
    if before in before_of[after]:
        group.transition_to(after, 7)
        assert (group.state, group.state_timestamp_ms) == (after, 7)
    else:
        with pytest.raises(AssertionError):
            group.transition_to(after, 7)


def test_the_first_member_leads_and_the_next_takes_over():
    group = group_of(member("m"), member("n"), member("o"))
    assert group.leader_id == "m"
    group.remove("n")
    assert group.leader_id == "m"
    group.remove("m")
    assert group.leader_id == "o"
    group.remove("o")
    assert group.leader_id is None


def test_check_member():
    group = group_of(member("m"), member("s", instance="i"))
    assert group.check_member("m", None) is ErrorCode.NONE
    assert group.check_member("x", None) is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.check_member("s", "i") is ErrorCode.NONE
    assert group.check_member("m", "i") is ErrorCode.FENCED_INSTANCE_ID
    assert group.check_member("s", "j") is ErrorCode.UNKNOWN_MEMBER_ID


NO, UNKNOWN, ILLEGAL = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
REBALANCE, GONE = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("state", "outside", "wrong_generation", "stranger", "right"),
    [
        (EMPTY, NO, UNKNOWN, UNKNOWN, UNKNOWN),
        (PREPARING_REBALANCE, UNKNOWN, ILLEGAL, UNKNOWN, NO),
        (COMPLETING_REBALANCE, UNKNOWN, ILLEGAL, UNKNOWN, REBALANCE),
        (STABLE, UNKNOWN, ILLEGAL, UNKNOWN, NO),
        (DEAD, GONE, GONE, GONE, GONE),
    ],
)
def test_check_commit(state, outside, wrong_generation, stranger, right):
    group = group_of(*([] if state is EMPTY else [member("m")]), state=state)
    group.generation = 3
    assert group.check_commit("", None, -1) is outside
    assert group.check_commit("m", None, 2) is wrong_generation
    assert group.check_commit("x", None, 3) is stranger
    assert group.check_commit("m", None, 3) is right


def test_protocols_that_all_know():
    group = group_of(member("m", A, B), member("n", B, C))
    assert group.candidate_protocols() == {"b"}
    assert group.supports_protocols("consumer", {"b", "x"})
    assert not group.supports_protocols("consumer", {"a", "c"})
    assert not group.supports_protocols("connect", {"b"})
    group.remove("n")
    assert group.candidate_protocols() == {"a", "b"}
    group.update(group.members["m"], (C, C), 1, 1, None, [])
    assert group.candidate_protocols() == {"c"}
    assert group.protocol_counts == {"c": 1}


@given(
    st.lists(st.permutations("abcd").flatmap(lambda p: st.integers(1, 4).map(lambda n: p[:n])), min_size=1, max_size=6)
)
def test_the_vote(preferences):
    group = group_of(
        *(member(f"m{i}", *(GroupProtocol(name, b"") for name in names)) for i, names in enumerate(preferences))
    )
    common = set.intersection(*map(set, preferences))
    assert group.candidate_protocols() == common
    if common:
        votes = [next(name for name in names if name in common) for names in preferences]
        assert votes.count(group.select_protocol()) == max(votes.count(name) for name in votes)


def test_the_slowest_member_sets_the_rebalance_timeout():
    assert group_of(member("m", rebalance_ms=5), member("n", rebalance_ms=9)).rebalance_timeout_ms == 9
    assert group_of().rebalance_timeout_ms == 0


def test_a_replaced_static_member_keeps_its_place():
    group = group_of(member("m"), member("s", instance="i"), member("o"))
    old = group.members["s"]
    old.assignment = b"mine"
    old.join_ticket, old.sync_ticket = "j", "s"
    group.pending_sync_members = {"s", "o"}
    effects = []
    new = group.replace_static_member("i", "s", "s2", effects)
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert effects == [JoinAnswered("j", JoinResult(fenced, "s")), SyncAnswered("s", SyncResult(fenced))]
    assert list(group.members) == ["m", "s2", "o"]
    assert (new.assignment, new.group_instance_id) == (b"mine", "i")
    assert group.static_members == {"i": "s2"}
    assert group.pending_sync_members == {"s2", "o"}
    assert group.protocol_counts == {"a": 3}


def test_election():
    group = group_of(member("m"), member("n"), member("o"))
    assert not group.elect_joined_leader()
    group.members["o"].join_ticket = 1
    assert group.elect_joined_leader()
    assert group.leader_id == "o"
    group.members["n"].join_ticket = 2
    assert group.elect_joined_leader()
    assert group.leader_id == "o"


def test_who_may_expire():
    one = member("m")
    assert one.may_expire
    one.join_ticket = 1
    assert not one.may_expire
    one.is_new = True
    assert one.may_expire


# -- subscriptions

TOPICS = st.lists(st.text(min_size=1, max_size=20), max_size=5)


@given(TOPICS, st.integers(0, 3))
def test_subscriptions_of_all_versions_are_read(topics, version):
    message = ConsumerProtocolSubscription(topics=topics, user_data=b"data")
    data = version.to_bytes(2, "big") + encode(message, version)
    assert subscribed_topics(data) == frozenset(topics)


@given(st.binary(max_size=40))
def test_what_is_no_subscription(data):
    subscribed_topics(data)  # tells or does not, but never raises


@given(TOPICS.filter(bool), st.data())
def test_a_cut_off_subscription_is_none(topics, data):
    whole = subscription(*topics)[:-4]
    assert subscribed_topics(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


def test_a_huge_count_is_not_believed():
    assert subscribed_topics(b"\x00\x00\x7f\xff\xff\xff") is None


def test_a_groups_subscriptions_are_read_up_to_a_bound_and_those_that_are_alike_once(monkeypatch):
    """A member may bring a megabyte of names, and all members' are read on the loop's thread when a generation begins."""
    monkeypatch.setattr(metadata, "MOST_TOPICS", 10)
    ten = [f"t{number}" for number in range(10)]
    alike = [
        member(f"m{number}", GroupProtocol("range", subscription(*ten)[:-4] + b"owned by %d" % number))
        for number in range(30)
    ]
    group = group_of(*alike)
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() == set(ten)
    group.add(member("other", GroupProtocol("range", subscription("t0"))), None)
    assert group.compute_subscribed_topics() is None, "it is the eleventh name"
    assert subscribed_topics(subscription(*ten, "more")) is None


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=3), min_size=1, max_size=30))
def test_a_group_is_subscribed_to_what_any_member_is(lists):
    group = group_of(
        *(member(f"m{at}", GroupProtocol("range", subscription(*topics))) for at, topics in enumerate(lists))
    )
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() == {topic for topics in lists for topic in topics}


def test_topics_of_a_group():
    group = group_of(
        member("m", GroupProtocol("range", subscription("t"))), member("n", GroupProtocol("range", subscription("u")))
    )
    group.protocol_name = "range"
    assert group.compute_subscribed_topics() == {"t", "u"}
    group.subscribed_topics = group.compute_subscribed_topics()
    assert group.is_subscribed_to("t")
    assert not group.is_subscribed_to("v")
    group.add(member("o", GroupProtocol("range", b"?")), None)
    group.subscribed_topics = group.compute_subscribed_topics()
    assert group.subscribed_topics is None
    assert group.is_subscribed_to("v")  # cannot be known, so it is assumed
    group.protocol_type = "connect"
    assert not group.is_subscribed_to("v")
    group.members.clear()
    group.protocol_type = "consumer"
    assert group.compute_subscribed_topics() == frozenset()
