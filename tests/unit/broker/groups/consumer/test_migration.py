"""A group with members goes from one protocol to the other."""

from __future__ import annotations

import pytest
from support.groups import now, subscription
from support.heartbeat_groups import Consumers, Image, state_of
from tidelog.broker.groups.classic.events import GroupProtocol
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.consumer.classic_protocol import assignment_bytes
from tidelog.broker.groups.consumer.group import ConsumerGroup
from tidelog.protocol.errors import ErrorCode as E

FIRST = {"rebalance_timeout_ms": 1_000, "subscribed_topics": frozenset("t"), "owned": {}}


def classic_group(consumers, *names, user_data=b"", protocol_type="consumer"):
    """A stable classic group `g`, whose first member has all of t."""
    members = [
        consumers.harness.member(name, group_id="g", protocol_type=protocol_type).join(
            protocols=(GroupProtocol("range", subscription("t")),)
        )
        for name in names
    ]
    consumers.time.advance(6_000)
    blob = assignment_bytes({consumers.image.id("t"): frozenset(range(4))}, consumers.image, 0)
    blob = blob[:-4] + len(user_data).to_bytes(4, "big") + user_data if user_data else blob
    for member in members[1:]:
        member.sync()
    members[0].sync({members[0].member_id: blob})
    assert all(member.synced.error is E.NONE for member in members)
    return members


@pytest.fixture
def made():
    """Makes coordinators, and closes them."""
    open_ones = []

    def make(**settings):
        open_ones.append(Consumers(Image(t=4, topic=1), **settings))
        return open_ones[-1]

    yield make
    for each in open_ones:
        each.close()


def test_the_first_new_member_takes_the_group_over(made):
    consumers = made()
    alice, bob = classic_group(consumers, "alice", "bob")
    consumers.time.advance(1_000)
    consumers.joins("new", "t")
    group = consumers.group
    assert isinstance(group, ConsumerGroup)
    assert sum(member.classic is not None for member in group.members.values()) == 2
    assert len(group.members) == 3
    assert (group.group_epoch, group.members[alice.member_id].member_epoch) == (2, 1)  # the generation goes on
    assert consumers.has(alice.member_id) == {("t", p) for p in range(4)}
    assert alice.heartbeat() is E.REBALANCE_IN_PROGRESS
    again = consumers.harness.restarted()
    assert state_of(again.groups.heartbeat_groups.read("g")) == state_of(group)
    bob.harness = again
    assert bob.heartbeat() is E.REBALANCE_IN_PROGRESS


def test_who_waits_for_an_answer_is_told_to_come_again(made):
    consumers = made()
    alice, bob = classic_group(consumers, "alice", "bob")
    alice.join(protocols=(GroupProtocol("range", subscription("topic")),))
    assert alice.waits_for_join
    consumers.joins("new", "t")
    assert now(alice.join_outcome).error is E.REBALANCE_IN_PROGRESS
    assert bob.member_id in consumers.group.members


def test_the_last_new_member_leaves_a_classic_group_behind(made):
    consumers = made()
    alice, bob = classic_group(consumers, "alice", "bob")
    consumers.time.advance(1_000)
    consumers.joins("new", "t")
    consumers.beats("new", member_epoch=-1)
    group = consumers.group
    assert isinstance(group, GroupMetadata)
    assert (group.state_name, group.generation, len(group.members)) == ("PreparingRebalance", 2, 2)
    again = consumers.harness.restarted()
    assert again.groups.heartbeat_groups.read("g").members.keys() == group.members.keys()
    for member in (alice, bob):
        assert member.heartbeat(2) is E.REBALANCE_IN_PROGRESS
        member.join(protocols=(GroupProtocol("range", subscription("t")),))
    assert (alice.joined.generation, len(alice.joined.members)) == (3, 2)
    consumers.time.advance(50_000)
    assert consumers.group.state_name == "Empty"


@pytest.mark.parametrize(
    ("settings", "group", "why"),
    [
        ({"group_consumer_migration_policy": "downgrade"}, {}, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "disabled"}, {}, "online upgrade is disabled"),
        ({}, {"protocol_type": "connect"}, "does not use the consumer embedded protocol"),
        ({"group_consumer_max_size": 1}, {}, "size exceeds"),
        ({}, {"user_data": b"mine"}, "custom assignor"),
    ],
)
def test_what_cannot_be_upgraded(made, settings, group, why):
    consumers = made(**settings)
    classic_group(consumers, "alice", "bob", **group)
    consumers.epochs["new"] = 0
    assert consumers.refuses("new", **FIRST) is E.GROUP_ID_NOT_FOUND
    assert isinstance(consumers.group, GroupMetadata)
    with pytest.raises(Exception, match=why):
        consumers.joins("new", "t")


@pytest.mark.parametrize("settings", [{"group_consumer_migration_policy": "UPGRADE"}, {"group_max_size": 1}])
def test_what_cannot_be_downgraded_stays(made, settings):
    consumers = made(**settings)  # the classic group is not bound by group.max.size here: its coordinator has its own
    classic_group(consumers, "alice", "bob")
    consumers.joins("new", "t")
    consumers.beats("new", member_epoch=-1)
    assert isinstance(consumers.group, ConsumerGroup)
    assert sum(member.classic is not None for member in consumers.group.members.values()) == 2


def test_a_static_member_goes_back_with_the_classic_protocol(made):
    consumers = made()
    (alice,) = classic_group(consumers, "alice")
    consumers.time.advance(1_000)
    consumers.joins("new", "t", instance_id="i")
    old = consumers.harness.member("old", group_id="g", group_instance_id="i").join(
        protocols=(GroupProtocol("range", subscription("t")),)
    )
    group = consumers.group
    assert isinstance(group, GroupMetadata)
    assert (len(group.members), group.static_members) == (2, {"i": old.joined.member_id})
    assert old.joined.error is E.NONE
    assert alice.member_id in group.members
