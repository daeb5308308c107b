"""Joins, syncs, heartbeats and leaves through the whole coordinator, on a clock that stands still."""

from __future__ import annotations

import asyncio

import pytest
from support.groups import Groups, Member, now, subscription
from tidelog.broker.groups.classic.events import GroupProtocol, JoinResult, LeavingMember, SyncRequest
from tidelog.broker.groups.classic.records import read_group_value
from tidelog.broker.groups.store import member_memory
from tidelog.broker.groups.store.member_memory import GROUP_BYTES, MEMBER_BYTES, MEMBER_COST
from tidelog.broker.groups.store.records import GroupKey, group_key, read_key
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.exceptions import KafkaStorageError

RANGE = GroupProtocol("range", subscription("topic"))
STICKY = GroupProtocol("cooperative-sticky", subscription("topic"))


def make(**config):
    return Groups(config=config)


def last_group_value(harness, group_id="group"):
    value = [value for key, value in harness.log.records if key == group_key(group_id)][-1]
    return read_group_value(group_id, value)


# -- joining a new group


def test_first_members_of_a_group(harness):
    alice = harness.member("alice")
    first = harness.join(client_id="alice")
    assert first == JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "alice-id1")
    alice.member_id = first.member_id
    alice.join()
    bob = harness.member("bob").join()
    assert alice.waits_for_join
    harness.time.advance(5999)
    assert alice.waits_for_join  # the delay was extended once, as bob came while it ran
    harness.time.advance(1)
    assert alice.joined.generation == bob.joined.generation == 1
    assert alice.joined.leader == bob.joined.leader == alice.member_id
    assert [member.member_id for member in alice.joined.members] == [alice.member_id, bob.member_id]
    assert [member.metadata for member in alice.joined.members] == [subscription("topic")] * 2
    assert bob.joined.members == ()
    assert (bob.joined.protocol_type, bob.joined.protocol_name) == ("consumer", "range")
    assert harness.state() == "CompletingRebalance"


@pytest.mark.parametrize("name", ["x" * 32_767, "ö" * 16_383])
@pytest.mark.parametrize("field", ["client_id", "group_instance_id"])
def test_an_id_made_of_the_longest_name_fits_into_the_groups_record(harness, name, field):
    """The leader's id could not be written: its group waited for the assignment for ever."""
    leader = Member(harness, name, **{field: name}).join()
    other = harness.member("other").join()
    harness.time.advance(6000)
    assert leader.joined.member_id.startswith(name[:10_000])
    assert leader.joined.member_id.endswith("-id1")
    other.sync()
    leader.sync({other.member_id: b"mine"})
    assert (leader.synced.error, other.synced.assignment) == (ErrorCode.NONE, b"mine")
    assert list(last_group_value(harness).members) == [leader.member_id, other.member_id]


def test_the_initial_delay_is_extended_only_up_to_the_rebalance_timeout(harness):
    members = [harness.member("m0", rebalance_timeout_ms=7000).join()]
    for i in range(1, 10):
        harness.time.advance(1000)
        if members[0].waits_for_join:
            members.append(harness.member(f"m{i}", rebalance_timeout_ms=7000).join())
    assert not members[0].waits_for_join
    assert len(members) == 7  # those of the first 7 seconds: 3000 + 3000 + 1000
    assert all(member.joined.generation == 1 for member in members)


def test_without_initial_delay_the_first_member_is_a_group_at_once():
    harness = make(group_initial_rebalance_delay_ms=0)
    alice = harness.member("alice").join()
    harness.time.advance(0)
    assert alice.joined.generation == 1
    harness.close()


def test_old_clients_join_without_an_id_of_their_own(harness):
    outcome = harness.join(requires_known_member_id=False)
    assert isinstance(outcome, asyncio.Future)
    harness.time.advance(3000)
    assert now(outcome).error is ErrorCode.NONE


def test_an_id_that_is_not_used_is_forgotten(harness):
    unused = now(harness.join())
    alice = harness.member("alice").join()
    harness.time.advance(9_999)
    assert not alice.waits_for_join  # the initial delay does not wait for ids given out
    harness.time.advance(1)
    assert now(harness.join(member_id=unused.member_id)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_ids_given_out_take_a_bounded_room(harness):
    """Each is kept for a session of up to 30 minutes, and may have 32 KB; nobody needs to join with any of them."""
    harness.join(client_id="x" * 30_000)
    for _ in range(1_000):
        code = harness.join(client_id="x" * 30_000).error
        if code is not ErrorCode.MEMBER_ID_REQUIRED:
            break
    assert code is ErrorCode.GROUP_MAX_SIZE_REACHED
    (group,) = harness.groups.list_groups()
    assert GROUP_BYTES - 100_000 < group.member_bytes <= GROUP_BYTES
    harness.time.advance(10_000)
    assert group.member_bytes == 0
    assert harness.join().error is ErrorCode.MEMBER_ID_REQUIRED


def test_long_names_of_members_take_a_bounded_room(harness):
    name = "x" * 30_000
    for number in range(1_000):
        outcome = harness.join(group_instance_id=f"{name}{number}", client_id=name)
        if isinstance(outcome, JoinResult):
            break
    assert outcome.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    (group,) = harness.groups.list_groups()
    assert GROUP_BYTES - 200_000 < group.member_bytes <= GROUP_BYTES
    # Who is there joins again.
    again = harness.join(group_instance_id=f"{name}7", client_id=name, member_id=group.static_members[f"{name}7"])
    assert not isinstance(again, JoinResult)
    harness.time.advance(400_000)
    assert group.member_bytes == 0


def test_members_that_bring_nothing_take_a_bounded_room(harness, monkeypatch):
    """Each takes more than a kilobyte, and counted as one name of a protocol."""
    monkeypatch.setattr(member_memory, "GROUP_BYTES", 10_000)
    outcomes = [harness.join(protocols=(GroupProtocol("r", b""),), requires_known_member_id=False) for _ in range(100)]
    assert sum(isinstance(outcome, JoinResult) for outcome in outcomes) == 100 - 10_000 // (MEMBER_COST + 48)
    assert outcomes[-1].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_takes_its_own_place_in_a_full_room(harness):
    """Its restart was refused where there was no room for what it has already."""
    protocols = (GroupProtocol("range", bytes(MEMBER_BYTES - MEMBER_COST - 48)),)
    members = [
        harness.member("m", group_instance_id=f"i{number}", protocols=protocols).join()
        for number in range(GROUP_BYTES // MEMBER_BYTES)
    ]
    assert harness.join(protocols=protocols).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    again = harness.member("m", group_instance_id="i3", protocols=protocols).join()
    assert now(members[3].join_outcome).error is ErrorCode.FENCED_INSTANCE_ID
    harness.time.advance(60_000)
    assert again.joined.error is ErrorCode.NONE


def test_a_rebalance_waits_for_ids_given_out(harness):
    alice, bob = harness.stable("alice", "bob")
    coming = now(harness.join(client_id="carol"))
    alice.join()
    bob.join()
    assert alice.waits_for_join
    harness.time.advance(9_999)
    assert alice.waits_for_join
    harness.time.advance(1)  # her session time-out is over
    assert alice.joined.generation == 2
    assert now(harness.join(member_id=coming.member_id)).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_makes_no_group(harness, fields, error):
    assert now(harness.join(**fields)).error is error
    assert harness.groups.group_count == 0
    assert harness.log.records == []


def test_a_new_group_is_written_as_an_empty_one(harness):
    harness.join()
    ((key, value),) = harness.log.records
    assert read_key(key) == GroupKey("group")
    group = read_group_value("group", value)
    assert (group.generation, group.protocol_type, group.protocol_name, group.leader_id) == (0, None, None, None)
    assert group.state_timestamp_ms == harness.time.milliseconds()


def test_a_group_that_cannot_be_written_is_not_made(harness):
    harness.log.failure = KafkaStorageError("disk")
    assert now(harness.join()).error is ErrorCode.NOT_COORDINATOR
    assert harness.groups.group_count == 0


# -- protocols


def test_protocol_that_all_know_and_most_prefer(harness):
    members = [
        harness.member("a", protocols=(RANGE, STICKY)).join(),
        harness.member("b", protocols=(STICKY, RANGE)).join(),
        harness.member("c", protocols=(STICKY, RANGE)).join(),
        harness.member("d", protocols=(GroupProtocol("mine", b""), STICKY, RANGE)).join(),
    ]
    harness.time.advance(6000)
    assert {member.joined.protocol_name for member in members} == {"cooperative-sticky"}


def test_a_member_that_shares_no_protocol_is_refused(harness):
    harness.member("a", protocols=(RANGE,)).join()
    assert now(harness.join(protocols=(STICKY,))).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert now(harness.join(protocol_type="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- sync


def test_assignments_reach_their_members(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    bob.sync()
    assert bob.waits_for_sync
    alice.sync({alice.joined.member_id: b"A", bob.joined.member_id: b"B", "nobody": b"N"})
    assert alice.synced.assignment == b"A"
    assert bob.synced.assignment == b"B"
    assert (bob.synced.protocol_type, bob.synced.protocol_name) == ("consumer", "range")
    assert harness.state() == "Stable"
    assert harness.groups.rebalances == 1
    stored = last_group_value(harness)
    assert {member.member_id: member.assignment for member in stored.members.values()} == {
        alice.member_id: b"A",
        bob.member_id: b"B",
    }
    assert (stored.generation, stored.leader_id, stored.protocol_name) == (1, alice.member_id, "range")


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    alice.sync({})
    assert bob.sync().synced.assignment == b""


def test_a_late_sync_is_answered_at_once(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    alice.sync({bob.joined.member_id: b"B"})
    assert bob.sync().synced.assignment == b"B"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "static"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_syncs_that_are_refused(harness, changes, error):
    alice = harness.member("alice").join()
    harness.time.advance(3000)
    assert alice.sync({}, **changes).synced.error is error
    assert harness.state() == "CompletingRebalance"


def test_sync_during_a_rebalance(harness):
    alice, bob = harness.stable("alice", "bob")
    alice.join()
    assert bob.sync().synced.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_before_the_leader_synced_sends_everybody_back(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    bob.sync()
    carol = harness.member("carol").join()
    assert bob.synced.error is ErrorCode.REBALANCE_IN_PROGRESS
    alice.join()
    bob.join()
    assert {m.joined.generation for m in (alice, bob, carol)} == {2}


def test_members_that_never_sync_are_removed(harness):
    alice, bob = (harness.member(name, session_timeout_ms=600_000).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    alice.sync({})
    assert bob.joined.generation == 1
    harness.time.advance(59_999)
    assert harness.state() == "Stable"
    harness.time.advance(1)
    assert harness.state() == "PreparingRebalance"
    assert alice.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_failed_write_of_the_assignment_starts_over(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    bob.sync()
    harness.log.failure = KafkaStorageError("disk")
    alice.sync({alice.joined.member_id: b"A"})
    assert alice.synced.error is bob.synced.error is ErrorCode.NOT_COORDINATOR
    assert harness.state() == "PreparingRebalance"
    harness.log.failure = None
    alice.join()
    bob.join()
    assert alice.joined.generation == 2


def test_the_assignment_is_told_when_it_is_durable(harness):
    alice = harness.member("alice").join()
    harness.time.advance(3000)
    harness.log.durable = False
    alice.sync({alice.joined.member_id: b"A"})
    assert alice.waits_for_sync
    assert harness.state() == "CompletingRebalance"
    harness.log.sync()
    assert alice.synced.assignment == b"A"
    assert harness.state() == "Stable"


def test_an_assignment_that_becomes_durable_too_late_is_not_told(harness):
    alice = harness.member("alice").join()
    harness.time.advance(3000)
    harness.log.durable = False
    alice.sync({alice.joined.member_id: b"A"})
    harness.member("bob").join()
    assert alice.synced.error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.log.sync()
    assert harness.state() == "PreparingRebalance"


def test_a_sync_that_fails_late(harness):
    alice = harness.member("alice").join()
    harness.time.advance(3000)
    harness.log.durable = False
    alice.sync({alice.joined.member_id: b"A"})
    harness.log.sync(KafkaStorageError("disk"))
    assert alice.synced.error is ErrorCode.NOT_COORDINATOR
    assert harness.state() == "PreparingRebalance"


# -- rejoining


def test_the_leaders_join_in_a_stable_group_is_a_rebalance(harness):
    alice, bob = harness.stable("alice", "bob")
    alice.join()
    assert alice.waits_for_join
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    bob.join()
    assert alice.joined.generation == bob.joined.generation == 2
    assert alice.joined.leader == alice.member_id


def test_a_followers_join_with_nothing_new_changes_nothing(harness):
    alice, bob = harness.stable("alice", "bob")
    bob.join()
    assert (bob.joined.generation, bob.joined.leader) == (1, alice.member_id)
    assert bob.joined.members == ()
    assert harness.state() == "Stable"


def test_a_followers_new_subscription_is_a_rebalance(harness):
    _alice, bob = harness.stable("alice", "bob")
    bob.join(protocols=(GroupProtocol("range", subscription("topic", "another")),))
    assert bob.waits_for_join
    assert harness.state() == "PreparingRebalance"


def test_a_join_again_while_completing_gets_the_same_answer(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    first = alice.joined
    assert alice.join().joined == first
    assert len(alice.joined.members) == 2
    assert bob.join().joined.members == ()
    assert harness.state() == "CompletingRebalance"


def test_another_subscription_while_completing_is_a_rebalance(harness):
    alice, bob = (harness.member(name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    assert alice.joined.generation == bob.joined.generation == 1
    bob.join(protocols=(GroupProtocol("range", b"new"),))
    assert bob.waits_for_join


def test_a_join_that_its_client_gave_up_is_answered_too(harness):
    alice, _bob = harness.stable("alice", "bob")
    first = alice.join().join_outcome
    second = alice.join().join_outcome
    assert now(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert not second.done()


def test_an_answer_that_nobody_waits_for_any_more(harness):
    alice = harness.member("alice").join()
    alice.join_outcome.cancel()  # its connection is gone
    harness.time.advance(3000)
    assert harness.state() == "CompletingRebalance"


def test_who_does_not_rejoin_in_time_is_out(harness):
    alice, bob = harness.stable("alice", "bob", session_timeout_ms=600_000)
    alice.join()
    harness.time.advance(59_999)
    assert alice.waits_for_join
    harness.time.advance(1)
    assert [member.member_id for member in alice.joined.members] == [alice.member_id]
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_leader_when_the_leader_does_not_rejoin(harness):
    alice, bob, carol = harness.stable("alice", "bob", "carol", session_timeout_ms=600_000)
    assert alice.joined.leader == alice.member_id
    bob.join(protocols=(GroupProtocol("range", b"new"),))
    carol.join()
    harness.time.advance(60_000)
    assert bob.joined.leader == carol.joined.leader == bob.member_id
    assert len(bob.joined.members) == 2


# -- heartbeats and sessions


def test_heartbeats_keep_a_member(harness):
    (alice,) = harness.stable("alice")
    for _ in range(20):
        harness.time.advance(9_000)
        assert alice.heartbeat() is ErrorCode.NONE
    harness.time.advance(9_999)
    assert harness.state() == "Stable"
    harness.time.advance(1)
    assert harness.state() == "Empty"
    assert alice.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("group_id", "member_id", "generation", "error"),
    [
        ("", "m", 1, ErrorCode.INVALID_GROUP_ID),
        ("other", "m", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("group", "nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("group", None, 2, ErrorCode.ILLEGAL_GENERATION),
        ("group", None, 0, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_heartbeats_that_are_refused(harness, group_id, member_id, generation, error):
    (alice,) = harness.stable("alice")
    code = harness.groups.heartbeat(group_id, member_id or alice.member_id, None, generation)
    assert code is error


def test_a_failed_member_makes_the_others_rebalance(harness):
    alice, bob = harness.stable("alice", "bob")
    harness.time.advance(9_000)
    alice.heartbeat()
    harness.time.advance(1_000)
    assert alice.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    alice.join()
    assert [member.member_id for member in alice.joined.members] == [alice.member_id]
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_for_a_join_needs_no_heartbeats(harness):
    alice, bob = harness.stable("alice", "bob", rebalance_timeout_ms=300_000, session_timeout_ms=10_000)
    alice.join()
    for _ in range(10):
        harness.time.advance(9_000)
        assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    bob.join()
    assert alice.joined.generation == 2
    assert len(alice.joined.members) == 2


def test_a_new_members_join_is_given_up_after_five_minutes(harness):
    alice = harness.stable("alice", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)[0]
    bob = harness.member("bob", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000).join()
    harness.time.advance(299_999)
    assert bob.waits_for_join
    harness.time.advance(1)
    assert bob.joined == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "")
    alice.join()
    assert len(alice.joined.members) == 1


# -- leaving


def leave(harness, *members, group_id="group"):
    code, left = harness.groups.leave(group_id, [LeavingMember(*member) for member in members])
    return code, [member.error for member in left]


def test_a_member_leaves(harness):
    alice, bob = harness.stable("alice", "bob")
    assert leave(harness, (alice.member_id,)) == (ErrorCode.NONE, [ErrorCode.NONE])
    assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    bob.join()
    assert bob.joined.leader == bob.member_id


def test_the_last_member_leaves_an_empty_group(harness):
    (alice,) = harness.stable("alice")
    leave(harness, (alice.member_id,))
    assert harness.state() == "Empty"
    stored = last_group_value(harness)
    assert (stored.generation, stored.protocol_type, stored.protocol_name) == (2, "consumer", None)
    assert stored.members == {}
    assert stored.leader_id is None


def test_several_leave_at_once(harness):
    alice, bob, carol = harness.stable("alice", "bob", "carol")
    code, errors = leave(harness, (alice.member_id,), ("nobody",), (bob.member_id,), ("", None))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert (code, errors) == (ErrorCode.NONE, [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown])
    carol.join()
    assert len(carol.joined.members) == 1


def test_leaving_frees_those_who_wait(harness):
    alice, bob = harness.stable("alice", "bob")
    alice.join()
    assert alice.waits_for_join
    leave(harness, (bob.member_id,))
    assert alice.joined.generation == 2


def test_leaving_while_waiting(harness):
    alice, bob = harness.stable("alice", "bob")
    alice.join()
    leave(harness, (alice.member_id,))
    assert alice.joined.error is ErrorCode.UNKNOWN_MEMBER_ID
    bob.join()
    assert bob.joined.generation == 2


def test_an_id_given_out_leaves(harness):
    alice, _bob = harness.stable("alice", "bob")
    coming = now(harness.join())
    assert leave(harness, (coming.member_id,)) == (ErrorCode.NONE, [ErrorCode.NONE])
    assert harness.state() == "Stable"
    assert alice.heartbeat() is ErrorCode.NONE


def test_leaving_a_group_that_is_not_there(harness):
    assert leave(harness, ("m",), ("n",)) == (ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * 2)
    assert leave(harness, ("m",), group_id="") == (ErrorCode.INVALID_GROUP_ID, [])


def test_all_leave_before_the_first_rebalance_is_over(harness):
    alice = harness.member("alice").join()
    leave(harness, (alice.member_id,))
    assert alice.joined.error is ErrorCode.UNKNOWN_MEMBER_ID
    harness.time.advance(3000)
    assert harness.state() == "Empty"
    bob = harness.member("bob").join()
    harness.time.advance(3000)
    assert bob.joined.generation == 2


# -- static members


def statics(harness, *names, **request) -> list[Member]:
    members = [harness.member(name, group_instance_id=name, **request).join() for name in names]
    harness.time.advance(6000)
    for member in members[1:]:
        member.sync()
    members[0].sync({member.joined.member_id: member.name.encode() for member in members})
    assert harness.state() == "Stable"
    return members


def test_static_members_join_at_once(harness):
    alice, bob = statics(harness, "alice", "bob")
    assert alice.joined.member_id == "alice-id1"
    assert [m.group_instance_id for m in alice.joined.members] == ["alice", "bob"]
    assert bob.synced.assignment == b"bob"


def test_a_restarted_static_follower_keeps_its_assignment(harness):
    alice, bob = statics(harness, "alice", "bob")
    again = harness.member("bob", group_instance_id="bob").join()
    assert again.joined.error is ErrorCode.NONE
    assert again.joined.generation == 1
    assert again.joined.member_id != bob.member_id
    assert again.joined.members == ()
    assert not again.joined.skip_assignment
    assert again.sync().synced.assignment == b"bob"
    assert bob.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert alice.heartbeat() is ErrorCode.NONE
    stored = last_group_value(harness)
    assert stored.static_members == {"alice": alice.member_id, "bob": again.member_id}
    assert stored.members[again.member_id].assignment == b"bob"


def test_a_restarted_static_leader_is_told_not_to_assign(harness):
    statics(harness, "alice", "bob")
    again = harness.member("alice", group_instance_id="alice").join()
    assert again.joined.skip_assignment
    assert again.joined.leader == again.member_id
    assert len(again.joined.members) == 2


def test_a_restarted_static_leader_of_an_old_client_is_not_told_to_lead(harness):
    alice, _bob = statics(harness, "alice", "bob")
    again = harness.member("alice", group_instance_id="alice", supports_skip_assignment=False).join()
    assert not again.joined.skip_assignment
    assert again.joined.leader == alice.member_id
    assert again.joined.members == ()


def test_a_static_member_with_another_preference_is_a_rebalance(harness):
    statics(harness, "alice", "bob", protocols=(RANGE, STICKY))
    again = harness.member("alice", group_instance_id="alice", protocols=(STICKY,)).join()
    assert again.waits_for_join
    assert harness.state() == "PreparingRebalance"


def test_a_static_restart_while_completing_is_a_rebalance(harness):
    alice, bob = (harness.member(name, group_instance_id=name).join() for name in ("alice", "bob"))
    harness.time.advance(6000)
    bob.sync()
    again = harness.member("bob", group_instance_id="bob").join()
    assert bob.synced.error is ErrorCode.FENCED_INSTANCE_ID
    assert again.waits_for_join
    alice.join()
    assert again.joined.generation == alice.joined.generation == 2


def test_a_static_restart_while_joining_fences_the_old_one(harness):
    old = harness.member("alice", group_instance_id="alice").join()
    new = harness.member("alice", group_instance_id="alice").join()
    assert old.joined.error is ErrorCode.FENCED_INSTANCE_ID
    harness.time.advance(6000)
    assert new.joined.generation == 1


def test_requests_under_an_old_id_are_fenced(harness):
    alice, _bob = statics(harness, "alice", "bob")
    harness.member("alice", group_instance_id="alice").join()
    assert alice.heartbeat(1) is ErrorCode.FENCED_INSTANCE_ID
    assert alice.join().joined.error is ErrorCode.FENCED_INSTANCE_ID
    sync = SyncRequest("group", 1, alice.member_id, "alice")
    assert now(harness.groups.sync(sync)).error is ErrorCode.FENCED_INSTANCE_ID
    assert leave(harness, (alice.member_id, "alice"))[1] == [ErrorCode.FENCED_INSTANCE_ID]


def test_static_members_stay_through_a_rebalance_that_they_miss(harness):
    alice, bob = statics(harness, "alice", "bob", session_timeout_ms=600_000)
    alice.join()
    harness.time.advance(60_000)
    assert [m.group_instance_id for m in alice.joined.members] == ["alice", "bob"]
    assert bob.heartbeat(2) is ErrorCode.NONE


def test_an_absent_static_leader_hands_over(harness):
    alice, bob = statics(harness, "alice", "bob", session_timeout_ms=600_000)
    bob.join(protocols=(GroupProtocol("range", b"new"),))
    harness.time.advance(60_000)
    assert bob.joined.leader == bob.member_id
    assert len(bob.joined.members) == 2
    assert alice.heartbeat(2) is ErrorCode.NONE


def test_static_members_that_nobody_hears_of_time_out(harness):
    statics(harness, "alice", "bob", session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    harness.time.advance(60_000)
    assert harness.state() == "Empty"


def test_an_administrator_removes_static_members(harness):
    alice, bob = statics(harness, "alice", "bob")
    assert leave(harness, ("", "bob"), ("", "nobody")) == (
        ErrorCode.NONE,
        [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID],
    )
    assert bob.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert alice.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_replacement_that_cannot_be_written_is_taken_back(harness):
    alice, bob = statics(harness, "alice", "bob")
    harness.log.failure = KafkaStorageError("disk")
    again = harness.member("bob", group_instance_id="bob").join()
    assert again.joined.error is ErrorCode.NOT_COORDINATOR
    assert bob.heartbeat() is ErrorCode.NONE
    assert alice.heartbeat() is ErrorCode.NONE
    harness.time.advance(9_999)
    assert harness.state() == "Stable"


def test_a_replacement_is_told_when_it_is_durable(harness):
    statics(harness, "alice", "bob")
    harness.log.durable = False
    again = harness.member("bob", group_instance_id="bob").join()
    assert again.waits_for_join
    harness.time.advance(9_000)  # it cannot send heartbeats yet
    harness.log.sync()
    assert again.joined.error is ErrorCode.NONE
    harness.time.advance(9_999)
    assert again.heartbeat(1) is not ErrorCode.UNKNOWN_MEMBER_ID


# -- size


def test_a_full_group_refuses():
    harness = make(group_max_size=2)
    harness.stable("alice", "bob")
    assert harness.join() == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    harness.close()


def test_a_joining_group_takes_the_first(request):
    harness = make(group_max_size=2)
    ids = [now(harness.join()).member_id for _ in range(3)]
    outcomes = [harness.join(member_id=member_id) for member_id in ids]
    assert now(outcomes[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.time.advance(6000)
    assert [now(outcome).generation for outcome in outcomes[:2]] == [1, 1]
    harness.close()


def test_a_static_member_takes_its_own_place_in_a_full_group():
    harness = make(group_max_size=2)
    statics(harness, "alice", "bob")
    assert harness.member("bob", group_instance_id="bob").join().joined.error is ErrorCode.NONE
    assert harness.member("carol", group_instance_id="carol").join().joined.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.close()


# -- cooperative


def test_a_cooperative_rebalance_keeps_its_members_at_work(harness):
    """Two rebalances in a row, heartbeats and commits in between; the coordinator treats it as any other."""
    alice, bob = harness.stable("alice", "bob", protocols=(STICKY,))
    for generation in (2, 3):
        alice.join(protocols=(GroupProtocol("cooperative-sticky", b"owned%d" % generation),))
        assert bob.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        bob.join(protocols=(GroupProtocol("cooperative-sticky", b"owned%d" % generation),))
        assert [member.metadata for member in alice.joined.members] == [b"owned%d" % generation] * 2
        bob.sync()
        alice.sync({alice.member_id: b"a%d" % generation, bob.member_id: b"b%d" % generation})
        assert bob.synced.assignment == b"b%d" % generation
        assert bob.heartbeat(generation) is ErrorCode.NONE


def test_a_hundred_members(harness):
    members = harness.stable(*(f"m{i}" for i in range(100)))
    assert {member.joined.generation for member in members} == {1}
    for member in members:
        member.join()
    assert {member.joined.generation for member in members} == {2}
