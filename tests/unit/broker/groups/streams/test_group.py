from __future__ import annotations

import pytest
from support.streams_groups import TOPOLOGY
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.store.group import CommittedPartition, Committer, GroupType
from tidelog.broker.groups.streams.group import StreamsGroup, StreamsMember
from tidelog.broker.groups.streams.tasks import OwnedTasks, Task
from tidelog.broker.groups.streams.topology import Topology
from tidelog.protocol.errors import ErrorCode as E

ACTIVE, COPY = Task("0", 1), Task("1", 2)


def member(name="m", process="p", **fields):
    return StreamsMember(member_id=name, process_id=process, **fields)


def owning(active=None, standby=None, warmup=None):
    return OwnedTasks(active or {}, standby or {}, warmup or {})


def test_who_has_a_task_in_which_role():
    group = StreamsGroup("g")
    group.put(member("a", assigned=owning({"0": {1: 3}}), pending=owning(None, {"1": frozenset({2})})))
    assert group.is_active(ACTIVE)
    assert not group.is_active(COPY)
    assert group.is_in(ACTIVE, "p")
    assert not group.is_in(ACTIVE, "q")
    assert group.has_copy(COPY, "p")
    assert not group.has_copy(COPY, "q")
    assert not group.has_copy(ACTIVE, "p")
    # Two members of a process, and one of them goes.
    group.put(member("b", assigned=owning(None, None, {"1": frozenset({2})})))
    group.put(member("a"))
    assert not group.is_active(ACTIVE)
    assert group.is_in(COPY, "p")
    group.drop("b")
    group.drop("b")
    assert not group.is_in(COPY, "p")


def test_states():
    group = StreamsGroup("g")
    assert (group.group_type, group.listed_protocol_type) == (GroupType.STREAMS, "streams")
    assert group.state_name == "Empty"
    group.put(member(member_epoch=2))
    assert group.state_name == "NotReady"
    group.topology = TOPOLOGY
    assert group.state_name == "NotReady"
    group.validated_topology_epoch = TOPOLOGY.epoch
    group.group_epoch = 2
    assert group.state_name == "Assigning"
    group.assignment_epoch = 2
    assert group.state_name == "Stable"
    group.put(member(member_epoch=2, state=MemberState.UNRELEASED_PARTITIONS))
    assert group.state_name == "Reconciling"


def test_who_asked_for_the_end_is_forgotten_with_the_last_member():
    group = StreamsGroup("g")
    group.put(member("a"))
    group.put(member("b"))
    group.shutdown_asked_by = "a"
    group.drop("a")
    assert group.shutdown_asked_by == "a"
    group.drop("b")
    assert group.shutdown_asked_by is None


def test_topics_that_are_read_are_subscribed_to_while_there_are_members():
    group = StreamsGroup("g")
    group.topology = TOPOLOGY
    assert not group.is_subscribed_to("orders")
    group.put(member())
    assert group.is_subscribed_to("orders")
    assert group.is_subscribed_to("by-account")
    assert not group.is_subscribed_to("store-changelog")
    group.topology = None
    assert not group.is_subscribed_to("orders")


def test_many_questions_about_topics_look_at_the_topology_once(monkeypatch):
    """Each offset that is to be deleted, or may expire, asks, as does each commit of an older epoch."""
    asked = []
    readers = Topology.readers
    monkeypatch.setattr(Topology, "readers", lambda topology: asked.append(topology) or readers(topology))
    group = StreamsGroup("g")
    group.topology = TOPOLOGY
    group.put(member(member_epoch=3, assigned=owning({"0": {1: 2}})))
    for _ in range(100):
        assert group.is_subscribed_to("orders")
        assert group.may_commit(Committer("m", None, 2), [CommittedPartition("orders", None, 1)]) is E.NONE
    assert len(asked) <= 1


@pytest.mark.parametrize(
    ("committer", "partitions", "expected"),
    [
        (Committer("m", None, 5), [("orders", None, 0)], E.NONE),
        (Committer("m", None, 6), [("orders", None, 0)], E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 4), [("orders", None, 0)], E.NONE),  # it has had the task since 3
        (Committer("m", None, 4), [("orders", None, 0), ("by-account", None, 1)], E.NONE),  # it is to give that up
        (Committer("m", None, 2), [("orders", None, 0)], E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 4), [("orders", None, 1)], E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 4), [("other", None, 0)], E.STALE_MEMBER_EPOCH),
        (Committer("x", None, 5), [], E.UNKNOWN_MEMBER_ID),
        (Committer("", None, -1), [], E.UNKNOWN_MEMBER_ID),
        (Committer("m", None, 5, version=8), [], E.UNSUPPORTED_VERSION),
        (Committer("", None, -1, transactional=True), [], E.NONE),
        (Committer("m", None, 2, transactional=True, version=5), [("orders", None, 0)], E.ILLEGAL_GENERATION),
        (Committer("m", None, 2, transactional=True, version=6), [("orders", None, 0)], E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 6, transactional=True, version=6), [("orders", None, 0)], E.STALE_MEMBER_EPOCH),
        (Committer("m", None, 5, transactional=True, version=3), [], E.NONE),
    ],
)  # fmt: skip
def test_who_may_commit(committer, partitions, expected):
    group = StreamsGroup("g")
    group.topology = TOPOLOGY
    group.put(member(member_epoch=5, assigned=owning({"0": {0: 3}}), pending=owning({"1": {1: 2}})))
    assert group.may_commit(committer, partitions) is expected


def test_an_administrator_may_commit_and_fetch_and_delete_where_nobody_is():
    group = StreamsGroup("g")
    assert group.may_commit(Committer(), [("orders", None, 0)]) is E.NONE
    assert group.may_delete() is E.NONE
    group.put(member(member_epoch=5))
    assert group.may_delete() is E.NON_EMPTY_GROUP
    assert group.may_delete_offsets() is E.NONE
    assert group.may_fetch(None, -1) is E.NONE
    assert group.may_fetch("m", 5) is E.NONE
    assert group.may_fetch("m", 4) is E.STALE_MEMBER_EPOCH
    assert group.may_fetch("x", 5) is E.UNKNOWN_MEMBER_ID
