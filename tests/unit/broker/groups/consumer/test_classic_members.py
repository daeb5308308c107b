"""Classic members in a consumer group."""

from __future__ import annotations

import asyncio

import pytest
from support.groups import now, subscription
from support.heartbeat_groups import Consumers, Image
from tidelog.broker.groups.classic.events import GroupProtocol, JoinRequest, LeavingMember, LeftMember, SyncRequest
from tidelog.broker.groups.consumer.classic_protocol import named, read_assignment
from tidelog.protocol.errors import ErrorCode as E
from tidelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from tidelog.protocol.schema import encode_with_version

ALL = {("t", p) for p in range(4)}


@pytest.fixture
def consumers():
    made = Consumers(Image(t=4))
    made.joins("new", "t")
    made.beats("new", owns=ALL)
    made.time.advance(1_000)
    yield made
    made.close()


def metadata(owned=()):
    rows = [TopicPartition(topic=topic, partitions=[p]) for topic, p in owned]
    return encode_with_version(ConsumerProtocolSubscription(topics=["t"], owned_partitions=rows), 1)


def join(consumers, member_id="", *, owned=(), **fields):
    request = {
        "group_id": "g",
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "old",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": (GroupProtocol("cooperative", metadata(owned)),),
    }
    outcome = consumers.harness.groups.join(JoinRequest(**{**request, **fields}))
    return consumers.harness.loop.run_until_complete(outcome) if asyncio.iscoroutine(outcome) else now(outcome)


def joined(consumers, **fields):
    first = join(consumers, **fields)
    assert first.error is E.MEMBER_ID_REQUIRED
    return join(consumers, first.member_id, **fields)


def sync(consumers, result, **fields):
    request = {"group_id": "g", "generation": result.generation, "member_id": result.member_id}
    return now(consumers.harness.groups.sync(SyncRequest(**{**request, "protocol_type": "consumer", **fields})))


def places(synced):
    assert synced.error is E.NONE
    rows = named(read_assignment(synced.assignment).assigned_partitions)
    return {(topic, p) for topic, each in rows.items() for p in each}


def beat(consumers, result, generation=None):
    return consumers.harness.groups.heartbeat(
        "g", result.member_id, None, result.generation if generation is None else generation
    )


def test_it_joins_waits_and_gets_its_share(consumers):
    old = joined(consumers)
    assert (old.error, old.generation, old.leader, old.members, old.protocol_name) == (E.NONE, 3, "", (), "cooperative")
    assert places(sync(consumers, old)) == set()
    assert beat(consumers, old) is E.NONE  # what it is to get is another's yet
    kept = consumers.beats("new").assigned
    assert beat(consumers, old) is E.NONE
    consumers.beats("new", owns=kept)
    assert beat(consumers, old) is E.REBALANCE_IN_PROGRESS
    again = join(consumers, old.member_id)
    assert places(sync(consumers, again)) == ALL - kept
    assert beat(consumers, again) is E.NONE
    # It has to give some up: it learns that from its heartbeat, joins with what it keeps, and commits meanwhile.
    consumers.time.advance(1_000)
    consumers.joins("third", "t")
    assert beat(consumers, again) is E.REBALANCE_IN_PROGRESS
    told = join(consumers, old.member_id, owned=ALL - kept)
    keeps = places(sync(consumers, told))
    assert len(keeps) == 1
    assert beat(consumers, told) is E.REBALANCE_IN_PROGRESS
    last = join(consumers, old.member_id, owned=keeps)
    assert last.generation > told.generation
    assert places(sync(consumers, last)) == keeps


def test_what_is_refused(consumers):
    old = joined(consumers)
    assert beat(consumers, old, 99) is E.ILLEGAL_GENERATION
    assert sync(consumers, old, generation=1).error is E.ILLEGAL_GENERATION
    assert sync(consumers, old, protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert sync(consumers, old, protocol_name="range").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert sync(consumers, old, member_id="x").error is E.UNKNOWN_MEMBER_ID
    assert sync(consumers, old, member_id="new").error is E.UNKNOWN_MEMBER_ID
    assert join(consumers, protocol_type="connect").error is E.INCONSISTENT_GROUP_PROTOCOL
    assert join(consumers, protocols=()).error is E.INCONSISTENT_GROUP_PROTOCOL
    other = (GroupProtocol("range", subscription("t")),)
    assert join(consumers, protocols=other).error is E.INCONSISTENT_GROUP_PROTOCOL
    bad = (GroupProtocol("cooperative", b"\x00\x01\x00"),)
    assert join(consumers, "id", protocols=bad).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert join(consumers, session_timeout_ms=1).error is E.INVALID_SESSION_TIMEOUT
    # There is a newer target: first it has to join.
    consumers.time.advance(1_000)
    consumers.beats("new", subscribed_topics=frozenset("tu"))
    assert sync(consumers, old).error is E.REBALANCE_IN_PROGRESS


def test_a_policy_that_lets_nobody_in():
    consumers = Consumers(Image(t=1), group_consumer_migration_policy="DISABLED")
    consumers.joins("new", "t")
    assert join(consumers).error is E.INCONSISTENT_GROUP_PROTOCOL
    consumers.close()


def test_it_is_put_out_when_nothing_is_heard_of_it(consumers):
    old = joined(consumers)
    sync(consumers, old)
    consumers.time.advance(9_999)
    consumers.beats("new")
    assert old.member_id in consumers.group.members
    consumers.time.advance(1)
    assert old.member_id not in consumers.group.members


@pytest.mark.parametrize("what", ["join", "sync"])
def test_it_is_put_out_when_it_does_not_go_on(consumers, what):
    old = joined(consumers)
    if what == "join":
        sync(consumers, old)
        consumers.beats("new", owns=consumers.beats("new").assigned)
    for _ in range(5):
        assert old.member_id in consumers.group.members
        beat(consumers, old)
        consumers.beats("new")
        consumers.time.advance(4_000)
    assert old.member_id not in consumers.group.members


def test_members_leave_one_by_one(consumers):
    old = joined(consumers)
    entries = [LeavingMember("x"), LeavingMember(old.member_id), LeavingMember("", "nobody")]
    assert consumers.harness.groups.leave("g", entries) == (
        E.NONE,
        [
            LeftMember("x", None, E.UNKNOWN_MEMBER_ID),
            LeftMember(old.member_id, None, E.NONE),
            LeftMember("", "nobody", E.UNKNOWN_MEMBER_ID),
        ],
    )
    assert list(consumers.group.members) == ["new"]


def test_an_administrator_removes_a_static_member_of_either_protocol(consumers):
    consumers.joins("fixed", "t", instance_id="i")
    assert consumers.harness.groups.leave("g", [LeavingMember("", "i")])[1][0].error is E.NONE
    assert "fixed" not in consumers.group.members


def test_a_static_member_changes_its_protocol():
    """It upgrades by a restart: from the classic protocol to the other, without having to give anything up."""
    consumers = Consumers(Image(t=4))
    consumers.joins("new", "t")
    consumers.time.advance(1_000)
    old = join(consumers, group_instance_id="i")
    given = consumers.beats("new").assigned
    consumers.beats("new", owns=given)
    again = join(consumers, old.member_id, group_instance_id="i")
    mine = places(sync(consumers, again, group_instance_id="i"))
    assert mine == ALL - given
    epoch = consumers.group.group_epoch
    assert consumers.joins("upgraded", "t", instance_id="i").assigned == mine
    assert consumers.group.group_epoch == epoch
    assert all(member.classic is None for member in consumers.group.members.values())
    consumers.close()


def test_those_who_stay_take_over_what_the_last_heartbeat_member_had():
    """Where the group may not become a classic one again, nobody but their joins gives it a new target."""
    consumers = Consumers(Image(t=4), group_consumer_migration_policy="upgrade")
    consumers.joins("new", "t")
    consumers.time.advance(1_000)
    old = joined(consumers)
    kept = consumers.beats("new").assigned
    consumers.beats("new", owns=kept)
    again = join(consumers, old.member_id)
    assert places(sync(consumers, again)) == ALL - kept
    consumers.time.advance(1_000)
    consumers.beats("new", member_epoch=-1)
    assert list(consumers.group.members) == [old.member_id]
    assert beat(consumers, again) is E.REBALANCE_IN_PROGRESS
    last = join(consumers, old.member_id, owned=ALL - kept)
    assert places(sync(consumers, last)) == ALL
    assert beat(consumers, last) is E.NONE
    consumers.close()


def test_a_target_that_waits_for_its_interval_is_joined_for_again():
    """The second of two classic members that join within a second gets its share with its next join."""
    consumers = Consumers(Image(t=4), group_consumer_migration_policy="upgrade")
    consumers.joins("new", "t")
    consumers.time.advance(1_000)
    first = joined(consumers)
    second = joined(consumers)  # in the interval: there is no target yet that counts it
    assert places(sync(consumers, second)) == set()
    consumers.beats("new", member_epoch=-1)
    consumers.time.advance(1_000)
    assert beat(consumers, second) is E.REBALANCE_IN_PROGRESS
    again = join(consumers, second.member_id)
    sync(consumers, again)
    assert beat(consumers, first) is E.REBALANCE_IN_PROGRESS
    shares = {}
    for _ in range(3):
        for member in (first, second):
            told = join(consumers, member.member_id, owned=shares.get(member.member_id, ()))
            shares[member.member_id] = places(sync(consumers, told))
    assert set().union(*shares.values()) == ALL
    assert sorted(map(len, shares.values())) == [2, 2]
    consumers.close()
