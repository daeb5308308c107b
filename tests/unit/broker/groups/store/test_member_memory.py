from __future__ import annotations

import sys
from typing import Any

import pytest
from tidelog.broker.groups.classic.events import GroupProtocol
from tidelog.broker.groups.classic.metadata import GroupMetadata, Member
from tidelog.broker.groups.consumer.group import ClassicMember, ConsumerGroup, ConsumerMember
from tidelog.broker.groups.store.member_memory import (
    ALL_BYTES,
    GROUP_BYTES,
    MEMBER_BYTES,
    MEMBER_COST,
    PENDING_BYTES,
    RECOUNT_MS,
    MemberRoom,
    said_bytes,
    unusual,
)
from tidelog.broker.groups.streams import group as streams_group
from tidelog.broker.groups.streams.group import StreamsEndpoint, StreamsGroup, StreamsMember
from tidelog.broker.groups.streams.topology import InternalTopic, Subtopology, Topology
from tidelog.protocol.errors import ErrorCode, ProtocolError


class Group:
    def __init__(self, **members: int) -> None:
        self.members = members
        self.looks = 0

    @property
    def member_bytes(self) -> int:
        self.looks += 1
        return sum(self.members.values())

    def bytes_of(self, member_id: str) -> int:
        return self.members.get(member_id, 0)


class FilledGroups:
    def __init__(self, *groups: Group) -> None:
        self.now_ms = 0
        self.groups: list[Any] = list(groups)
        self.room = MemberRoom(lambda: self.groups, lambda: self.now_ms)

    def code(self, group: Any, member_id: str, size: int) -> ErrorCode:
        try:
            self.room.check(group, member_id, b"x" * size)
        except ProtocolError as error:
            return error.code
        return ErrorCode.NONE


def member(member_id: str, *protocols: tuple[str, int]) -> Member:
    said = tuple(GroupProtocol(name, bytes(size)) for name, size in protocols)
    return Member(member_id, None, "c", "/h", 1, 1, "consumer", said)


def test_a_member_brings_no_more_than_it_may() -> None:
    assert FilledGroups().code(None, "m", MEMBER_BYTES) is ErrorCode.NONE
    assert FilledGroups().code(None, "m", MEMBER_BYTES + 1) is ErrorCode.INVALID_REQUEST


def test_a_group_has_no_more_than_it_may_and_who_joins_again_counts_once() -> None:
    group = Group(a=GROUP_BYTES - 200, b=120)
    filled = FilledGroups(group)
    assert filled.code(group, "new", 80) is ErrorCode.NONE
    assert filled.code(group, "new", 81) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert filled.code(group, "b", 200) is ErrorCode.NONE


def test_all_groups_have_no_more_than_they_may_and_those_that_went_make_room() -> None:
    filled = FilledGroups()
    for _ in range(ALL_BYTES // MEMBER_BYTES):
        assert filled.code(None, "m", MEMBER_BYTES) is ErrorCode.NONE
        filled.groups.append(Group(m=MEMBER_BYTES))
    assert filled.code(None, "m", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "which clients try again after"
    filled.groups.pop()
    filled.now_ms += RECOUNT_MS
    assert filled.code(None, "m", MEMBER_BYTES) is ErrorCode.NONE


def test_members_that_are_there_join_again_however_full_it_is() -> None:
    """Each rebalance asks all members to: whoever fills the room with groups of theirs must not end the groups of others."""
    group = Group(m=1000)
    filled = FilledGroups(group, Group(other=ALL_BYTES - 1000))
    filled.room.recount()
    for size in (1000, 999, 1000):
        assert filled.code(group, "m", size) is ErrorCode.NONE
    assert filled.code(group, "m", 1001) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert filled.code(group, "new", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_groups_that_were_read_from_the_disk_are_counted() -> None:
    filled = FilledGroups()
    assert filled.code(None, "m", 1) is ErrorCode.NONE
    filled.groups.append(Group(read=ALL_BYTES - 100))
    filled.room.recount()
    assert filled.code(None, "m", 101) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    filled.room.recount()
    assert filled.code(None, "m", 100) is ErrorCode.NONE


def test_who_is_refused_does_not_have_all_groups_counted_each_time() -> None:
    group = Group(m=ALL_BYTES)
    filled = FilledGroups(group)
    filled.room.recount()
    for _ in range(1000):
        assert filled.code(None, "m", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group.looks == 1


def test_nothing_new_costs_nothing() -> None:
    counts: list[str] = []
    room = MemberRoom(lambda: counts.append("counted") or (), lambda: 0)  # type: ignore[func-returns-value]
    for said in (None, (), frozenset(), (None, None), ""):
        room.check(None, "m", said)
    for _ in range(ALL_BYTES // MEMBER_BYTES):
        room.check(None, "m", bytes(MEMBER_BYTES))
    assert counts == [], "all of it was free"


def test_a_classic_group_knows_what_its_members_brought() -> None:
    group = GroupMetadata("g", 0)
    group.add(member("a", ("range", 100), ("sticky", 200)), None)
    group.add(member("b", ("range", 50)), None)
    assert group.member_bytes == 2 * MEMBER_COST + 48 + 100 + 48 + 200 + 48 + 50
    assert group.bytes_of("b") == MEMBER_COST + 98
    group.update(group.members["a"], (GroupProtocol("range", bytes(70)),), 1, 1, None, [])
    assert group.member_bytes == 2 * MEMBER_COST + 118 + 98
    group.remove("b")
    assert (group.member_bytes, group.bytes_of("b")) == (MEMBER_COST + 118, 0)
    group.remove("a")
    assert group.member_bytes == 0


def test_a_heartbeat_group_knows_what_its_members_said() -> None:
    group = ConsumerGroup("g")
    group.put(ConsumerMember(member_id="a", subscribed_topics=frozenset(["one", "three"])))
    old = ClassicMember(1, (GroupProtocol("range", bytes(90)),))
    group.put(ConsumerMember(member_id="b", expression="x.*", classic=old))
    assert group.member_bytes == 2 * MEMBER_COST + 2 * 48 + 48 + (48 + 90)
    group.put(ConsumerMember(member_id="a", subscribed_topics=frozenset(["one"])))
    assert (group.member_bytes, group.bytes_of("a")) == (2 * MEMBER_COST + 48 + 48 + (48 + 90), MEMBER_COST + 48)
    group.drop("b")
    group.drop("nobody")
    assert group.member_bytes == MEMBER_COST + 48


def test_names_count_as_far_as_they_are_unusual() -> None:
    assert unusual("x" * 255, None, "") == ()
    assert unusual("x" * 255 + "yz", None, "v" * 300) == ("yz", "v" * 45)
    group = StreamsGroup("g")
    group.put(StreamsMember(member_id="a" * 1255, rack_id="b" * 355, endpoint=StreamsEndpoint("h" * 455, 1)))
    assert group.member_bytes == group.bytes_of("a" * 1255) == MEMBER_COST + 1000 + 100 + 200
    group.drop("a" * 1255)
    assert group.member_bytes == 0


def test_a_static_member_of_a_classic_group_that_is_replaced_counts_once() -> None:
    group = GroupMetadata("g", 0)
    group.add(Member("a" * 355, "i", "c", "/h", 1, 1, "consumer", ()), None)
    group.replace_static_member("i", "a" * 355, "b" * 755, [])
    assert group.member_bytes == group.bytes_of("b" * 755) == MEMBER_COST + 500
    group.give_out("new")
    assert group.member_bytes == MEMBER_COST + 500 + PENDING_BYTES + 3
    group.remove("new")
    group.remove("b" * 755)
    assert group.member_bytes == 0


def test_a_streams_group_counts_its_topology() -> None:
    group = StreamsGroup("g")
    group.topology = Topology(1, (Subtopology("s0", source_topics=("in",), sink_topics=("out",)),))
    assert group.member_bytes == 3 * 48


def test_a_topology_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred groups with long ones, whose names were counted each time, took half a second of the loop."""
    group, counted = StreamsGroup("g"), []
    monkeypatch.setattr(streams_group, "said_bytes", lambda said: counted.append(said) or said_bytes(said))
    group.topology = Topology(1, (Subtopology("s0", source_topics=("in",)),))
    assert [group.member_bytes for _ in range(5)] == [96] * 5
    assert counted == [group.topology]
    group.topology = None
    assert group.member_bytes == 0


def test_names_are_counted_at_any_depth() -> None:
    a, b, c, d = ("x" * length for length in (50, 60, 70, 80))
    assert said_bytes([(a, b.encode()), frozenset({c}), None, 7, (((d,),),)]) == 50 + 60 + 70 + 80
    assert said_bytes(InternalTopic(a, 3, 1, ((b, c),))) == 50 + 60 + 70


def test_short_names_count_as_what_they_take() -> None:
    """A member of very many names of a character would have forty times in memory what it is asked to answer for."""
    protocols = tuple(GroupProtocol(chr(256 + number), b"") for number in range(1000))
    taken = sum(sys.getsizeof(protocol) + sys.getsizeof(protocol.name) for protocol in protocols)
    assert taken / 3.5 < said_bytes(protocols) <= taken
    assert said_bytes(("", b"")) == 0
