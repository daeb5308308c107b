"""From the tasks that a member has to those that it is to have."""

from __future__ import annotations

import pytest
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.streams.group import StreamsGroup, StreamsMember
from tidelog.broker.groups.streams.reconciliation import reconciled
from tidelog.broker.groups.streams.tasks import NO_TASKS, OWNS_NOTHING, OwnedTasks, Tasks, task_set
from tidelog.protocol.errors import ErrorCode, ProtocolError

STABLE, UNREVOKED, UNRELEASED = list(MemberState)[:3]


def owned(active=None, standby=None):
    return OwnedTasks(active or {}, task_set(standby or {}), {})


def tasks(active=None, standby=None):
    return Tasks(task_set(active or {}), task_set(standby or {}), {})


def group_with(*members):
    group = StreamsGroup("g")
    for each in members:
        group.put(each)
    return group


def member(name="a", process="p", **fields):
    return StreamsMember(member_id=name, process_id=process, **{"member_epoch": 3, **fields})


def test_who_has_arrived_stays():
    one = member(assigned=owned({"0": {0: 3}}))
    assert reconciled(group_with(one), one, NO_TASKS, 3, None) is one


def test_free_tasks_are_had_at_once_with_the_epoch_of_the_target():
    one = member(assigned=owned({"0": {0: 2}}))
    after = reconciled(group_with(one), one, tasks({"0": [0, 1]}, {"1": [0]}), 5, None)
    assert (after.member_epoch, after.previous_member_epoch, after.state) == (5, 3, STABLE)
    assert after.assigned == ({"0": {0: 2, 1: 5}}, {"1": {0}}, {})


def test_giving_up_comes_first_and_waits_for_the_member_to_say_so():
    one = member(assigned=owned({"0": {0: 2, 1: 2}}))
    group = group_with(one)
    target = tasks({"0": [0, 2]})
    one = reconciled(group, one, target, 5, None)
    assert (one.member_epoch, one.state) == (3, UNREVOKED)
    assert (one.assigned.active, one.pending.active) == ({"0": {0: 2}}, {"0": {1: 2}})
    group.put(one)
    assert reconciled(group, one, target, 5, None) is one
    assert reconciled(group, one, target, 5, tasks({"0": [0, 1]})) is one
    after = reconciled(group, one, target, 5, tasks({"0": [0]}))
    assert (after.member_epoch, after.state, after.pending) == (5, STABLE, OWNS_NOTHING)
    assert after.assigned.active == {"0": {0: 2, 2: 5}}


def test_a_new_target_while_giving_up_moves_one_epoch_only():
    one = member(assigned=owned({"0": {0: 2, 1: 2}}), pending=owned({"0": {2: 2}}), state=UNREVOKED)
    after = reconciled(group_with(one), one, tasks({"0": [0]}), 9, tasks({"0": [0, 1]}))
    assert (after.member_epoch, after.state) == (4, UNREVOKED)
    assert after.pending.active == {"0": {1: 2}}


def test_what_another_has_not_given_up_is_waited_for():
    other = member("b", "q", pending=owned({"0": {0: 2}}))
    one = member()
    group = group_with(one, other)
    target = tasks({"0": [0, 1]})
    one = reconciled(group, one, target, 5, None)
    assert (one.member_epoch, one.state, one.assigned.active) == (5, UNRELEASED, {"0": {1: 5}})
    group.put(one)
    group.put(member("b", "q"))
    after = reconciled(group, one, target, 5, None)
    assert (after.state, after.assigned.active) == (STABLE, {"0": {0: 5, 1: 5}})


@pytest.mark.parametrize(
    ("process", "others", "target", "waits"),
    [
        ("p", owned({"0": {0: 1}}), tasks({"0": [0]}), True),  # active is active, in one's own process too
        ("q", owned({"0": {0: 1}}), tasks({"0": [0]}), True),
        ("p", owned(None, {"0": [0]}), tasks({"0": [0]}), True),  # one directory for the state of a process
        ("q", owned(None, {"0": [0]}), tasks({"0": [0]}), False),
        ("p", owned({"0": {0: 1}}), tasks(None, {"0": [0]}), True),
        ("q", owned({"0": {0: 1}}), tasks(None, {"0": [0]}), False),
        ("p", owned(None, {"0": [0]}), tasks(None, {"0": [0]}), True),
        ("q", owned(None, {"0": [0]}), tasks(None, {"0": [0]}), False),
    ],
)  # fmt: skip
def test_when_a_task_is_free(process, others, target, waits):
    """`process` is that of the member who has `others`; the one who is to have `target` is in p."""
    one = member()
    after = reconciled(group_with(one, member("b", process, assigned=others)), one, target, 5, None)
    assert (after.state is UNRELEASED, after.assigned.is_empty) == (waits, waits)


def test_a_member_in_a_state_of_a_later_version_begins_anew():
    one = member(state=MemberState.UNKNOWN, assigned=owned({"0": {0: 1}}))
    group = group_with(one)
    for said in (None, tasks({"0": [0]})):
        with pytest.raises(ProtocolError) as caught:
            reconciled(group, one, tasks({"0": [0]}), 5, said)
        assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert reconciled(group, one, tasks({"0": [0]}), 5, NO_TASKS).state is STABLE
