"""The state machine by itself: values in, effects out, in order, and no time but what it is told.

Behaviour as clients see it is in `test_group_membership`; what can go wrong in any order, in the model under property/.
"""

from __future__ import annotations

import pytest
from tidelog.broker.groups.classic.events import (
    AssignmentReceived,
    GroupEmptied,
    GroupLimits,
    GroupProtocol,
    JoinAnswered,
    JoinDeadlineCleared,
    JoinDeadlineSet,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SessionEnded,
    SessionStarted,
    StoreGroup,
    SyncAnswered,
    SyncDeadlineCleared,
    SyncDeadlineSet,
    SyncRequest,
    SyncResult,
)
from tidelog.broker.groups.classic.metadata import DEAD, GroupMetadata
from tidelog.broker.groups.classic.rebalance import GroupRebalance
from tidelog.protocol.errors import ErrorCode

PROTOCOLS = (GroupProtocol("range", b"r"),)
NONE = ErrorCode.NONE


def request(member_id="", **fields):
    base = {
        "group_id": "g",
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    return JoinRequest(**{**base, **fields})


@pytest.fixture
def machine():
    return GroupRebalance(GroupLimits(new_member_join_timeout_ms=300_000))


@pytest.fixture
def group():
    return GroupMetadata("g", 100)


def joining(machine, group):
    """The group with one member that waits for its join."""
    machine.join(group, request(requires_known_member_id=False), "m", "ticket", 101)
    return group


def stable(machine, group):
    joining(machine, group)
    machine.join_deadline_passed(group, 0, 102)
    (store,) = [e for e in machine.sync(group, SyncRequest("g", 1, "m"), "s") if isinstance(e, StoreGroup)]
    machine.group_stored(group, store.reason, NONE, 103)
    return group


def test_the_first_join(machine, group):
    assert machine.join(group, request(), "c-1", "ticket", 101) == [
        SessionStarted("c-1", 10_000),
        JoinAnswered("ticket", JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "c-1")),
    ]
    assert machine.join(group, request("c-1"), "unused", "ticket", 102) == [
        SessionStarted("c-1", 300_000),
        SyncDeadlineCleared(),
        JoinDeadlineSet(3000, 57_000),
    ]
    assert (group.state, group.state_timestamp_ms) == ("PreparingRebalance", 102)


def test_the_initial_delay(machine, group):
    joining(machine, group)
    machine.join(group, request(requires_known_member_id=False), "n", "other", 102)
    assert machine.join_deadline_passed(group, 4000, 103) == [JoinDeadlineSet(3000, 1000)]
    machine.join(group, request(requires_known_member_id=False), "o", "third", 103)
    assert machine.join_deadline_passed(group, 1000, 103) == [JoinDeadlineSet(1000, 0)]
    machine.join(group, request(requires_known_member_id=False), "p", "fourth", 103)
    effects = machine.join_deadline_passed(group, 0, 104)
    assert effects[0] == JoinDeadlineCleared()
    assert [e.ticket for e in effects if isinstance(e, JoinAnswered)] == ["ticket", "other", "third", "fourth"]
    assert effects[-1] == SyncDeadlineSet(60_000, 1)


def test_the_assignment(machine, group):
    joining(machine, group)
    machine.join_deadline_passed(group, 0, 102)
    assignments = {"m": b"mine"}
    effects = machine.sync(group, SyncRequest("g", 1, "m", assignments={"m": b"mine", "x": b"no"}), "s")
    assert effects == [SyncDeadlineCleared(), StoreGroup(assignments, AssignmentReceived(1, assignments))]
    assert group.members["m"].assignment == b""  # not before it is stored
    assert machine.group_stored(group, AssignmentReceived(1, assignments), NONE, 103) == [
        SyncAnswered("s", SyncResult(NONE, "consumer", "range", b"mine")),
        SessionStarted("m", 10_000),
    ]
    assert group.state == "Stable"
    # A second outcome of the same write would come too late.
    assert machine.group_stored(group, AssignmentReceived(1, assignments), NONE, 104) == []


def test_an_outcome_for_an_older_generation_is_nothing(machine, group):
    joining(machine, group)
    machine.join_deadline_passed(group, 0, 102)
    assert machine.group_stored(group, AssignmentReceived(0, {}), NONE, 103) == []
    assert group.state == "CompletingRebalance"


def test_the_last_member_leaves(machine, group):
    stable(machine, group)
    left, effects = machine.leave(group, [LeavingMember("m")], 200)
    assert [each.error for each in left] == [NONE]
    assert effects == [
        SessionEnded("m"),
        SyncDeadlineCleared(),
        JoinDeadlineCleared(),
        StoreGroup({}, GroupEmptied()),
    ]
    assert (group.state, group.generation, group.state_timestamp_ms) == ("Empty", 2, 200)


def test_deadlines_that_come_too_late(machine, group):
    stable(machine, group)
    assert machine.join_deadline_passed(group, None, 200) == []
    assert machine.sync_deadline_passed(group, 0, 200) == []
    assert machine.sync_deadline_passed(group, 1, 200) == []
    assert machine.session_expired(group, "gone", 200) == []
    assert group.state == "Stable"


def test_a_dead_group_sends_everybody_away(machine, group):
    stable(machine, group)
    assert machine.kill(group, ErrorCode.NOT_COORDINATOR, 200) == []
    assert group.state is DEAD
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert machine.join(group, request("m"), "n", "t", 201) == [JoinAnswered("t", JoinResult(gone, "m"))]
    assert machine.sync(group, SyncRequest("g", 1, "m"), "t") == [SyncAnswered("t", SyncResult(gone))]
    assert machine.heartbeat(group, "m", None, 1) == (gone, [])


def test_killing_answers_those_who_wait(machine, group):
    joining(machine, group)
    assert machine.kill(group, ErrorCode.NOT_COORDINATOR, 200) == [
        JoinAnswered("ticket", JoinResult(ErrorCode.NOT_COORDINATOR, "m"))
    ]


def test_loading(machine, group):
    stable(machine, group)
    assert machine.loaded(group, 200) == [SessionStarted("m", 10_000)]


def test_absent_static_members_are_not_looked_for_all_the_time(machine, group):
    """A rebalance time-out of 0 kept a core busy until their sessions ended."""
    fields = {"group_instance_id": "i", "rebalance_timeout_ms": 0}
    machine.join(group, request(**fields), "i-1", object(), 0)
    machine.join_deadline_passed(group, 0, 0)
    machine.sync(group, SyncRequest("g", 1, "i-1", "i", assignments={"i-1": b""}), object())
    machine.group_stored(group, AssignmentReceived(1, {"i-1": b""}), NONE, 0)
    assert machine.rebalance(group, "why", 0)[-1] == JoinDeadlineSet(0)
    assert machine.join_deadline_passed(group, None, 0) == [JoinDeadlineCleared(), JoinDeadlineSet(1000)]
    group.members["i-1"].rebalance_timeout_ms = 60_000
    assert machine.join_deadline_passed(group, None, 0) == [JoinDeadlineCleared(), JoinDeadlineSet(60_000)]
