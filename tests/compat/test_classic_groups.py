"""The classic group protocol on the wire: what each request is answered in each state, as a table. Any broker will do: what is
expected here is held against Apache Kafka by `make compat-report`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from support.wire_client import CORRELATION_ID, WireClient, request_frame
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.protocol.schema import decode

SESSION_MS, REBALANCE_MS = 10_000, 20_000
NONE = "NONE"
REBALANCE, GENERATION, UNKNOWN = "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"
FENCED, PROTOCOL = "FENCED_INSTANCE_ID", "INCONSISTENT_GROUP_PROTOCOL"


def subscription(*topics: str) -> bytes:
    """What Java's consumers put into a protocol's metadata, version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Joined(NamedTuple):
    """A member, as its last join left it."""

    error: str
    member_id: str
    generation: int
    answer: JoinGroupResponse


class Group:
    """One group and a member's connection to its coordinator."""

    def __init__(self, client: WireClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        self.name = f"classic-{uuid.uuid4()}"

    def join_request(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        topics: Sequence[str] | None = None,
    ) -> JoinGroupRequest:
        metadata = subscription(*([self.topic] if topics is None else topics))
        return JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
        )

    def join(self, member_id: str = "", *, version: int = 9, **request: Any) -> Joined:
        return joined(self.client.ask(self.join_request(member_id, **request), version, JoinGroupResponse))

    def sync(self, member: Joined, **changed: Any) -> tuple[str, bytes]:
        """Of who leads: it gives itself an assignment."""
        own = [SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"mine")]
        fields: dict[str, Any] = {
            "group_id": self.name,
            "generation_id": member.generation,
            "member_id": member.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": own if member.answer.leader == member.member_id else [],
        }
        answer = self.client.ask(SyncGroupRequest(**fields | changed), 5, SyncGroupResponse)
        return name_of(answer.error_code), bytes(answer.assignment)

    def stable(self, **request: Any) -> Joined:
        """A member of a group in which it is alone."""
        member = self.join(version=3, **request) if "instance" not in request else self.join(**request)
        assert member.error == NONE, member
        assert self.sync(member) == (NONE, b"mine")
        return member

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> str:
        request = HeartbeatRequest(
            group_id=self.name, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return name_of(self.client.ask(request, 4, HeartbeatResponse).error_code)

    def commit(self, member_id: str = "", generation: int = -1, instance: str | None = None) -> str:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.name,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )
        (told,) = self.client.ask(request, 8, OffsetCommitResponse).topics
        return name_of(told.partitions[0].error_code)

    def leave(self, *members: tuple[str, str | None]) -> tuple[str, list[str]]:
        who = [MemberIdentity(member_id=member_id, group_instance_id=instance) for member_id, instance in members]
        answer = self.client.ask(LeaveGroupRequest(group_id=self.name, members=who), 5, LeaveGroupResponse)
        return name_of(answer.error_code), [name_of(member.error_code) for member in answer.members]

    def describe(self, version: int = 5) -> DescribedGroup:
        (found,) = self.client.ask(DescribeGroupsRequest(groups=[self.name]), version, DescribeGroupsResponse).groups
        return found

    def delete(self) -> str:
        (told,) = self.client.ask(DeleteGroupsRequest(groups_names=[self.name]), 2, DeleteGroupsResponse).results
        return name_of(told.error_code)

    def delete_offset(self, topic: str) -> str:
        partition = OffsetDeleteRequestPartition(partition_index=0)
        wanted = OffsetDeleteRequestTopic(name=topic, partitions=[partition])
        answer = self.client.ask(OffsetDeleteRequest(group_id=self.name, topics=[wanted]), 0, OffsetDeleteResponse)
        return name_of(answer.error_code or answer.topics[0].partitions[0].error_code)


def name_of(code: int) -> str:
    return ErrorCode(code).name


def joined(answer: JoinGroupResponse) -> Joined:
    return Joined(name_of(answer.error_code), answer.member_id, answer.generation_id, answer)


@contextmanager
def connected(bootstrap: str) -> Iterator[WireClient]:
    host, _, port = bootstrap.rpartition(":")
    with WireClient((host, int(port)), 40) as client:
        yield client


@pytest.fixture(scope="module")
def topic(make_topic: Any, bootstrap: str) -> str:
    made: str = make_topic("classic", 2)
    with connected(bootstrap) as client:  # the coordinator is there, its topic too
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=["classic"])
        while client.ask(asked, 4, FindCoordinatorResponse).coordinators[0].error_code:
            pass
    return made


@pytest.fixture
def group(bootstrap: str, topic: str) -> Iterator[Group]:
    with connected(bootstrap) as client:
        yield Group(client, topic)


@contextmanager
def rebalancing(group: Group, bootstrap: str) -> Iterator[Joined]:
    """The first member, while a second one waits for it to join again."""
    first = group.stable()
    with connected(bootstrap) as other:
        other.send(request_frame(group.join_request(), 3))
        while group.describe().group_state != "PreparingRebalance":
            pass
        yield first


# --- JoinGroup


def test_a_group_needs_a_name(group: Group) -> None:
    group.name = ""
    assert group.join().error == "INVALID_GROUP_ID"


@pytest.mark.parametrize("session_ms", [1, 10_000_000])
def test_session_timeouts_have_bounds(group: Group, session_ms: int) -> None:
    assert group.join(session_ms=session_ms).error == "INVALID_SESSION_TIMEOUT"


def test_a_member_learns_its_id_first(group: Group) -> None:
    """KIP-394, from version 4 on."""
    first = group.join()
    assert first.error == "MEMBER_ID_REQUIRED"
    assert first.member_id
    again = group.join(first.member_id)
    assert (again.error, again.member_id, again.generation) == (NONE, first.member_id, 1)
    assert again.answer.leader == first.member_id
    assert [member.member_id for member in again.answer.members] == [first.member_id]


def test_before_that_it_joined_at_once(group: Group) -> None:
    member = group.join(version=3)
    assert (member.error, member.generation) == (NONE, 1)


def test_an_unknown_id_joins_nothing(group: Group) -> None:
    assert group.join("somebody").error == UNKNOWN
    group.stable()
    assert group.join("somebody").error == UNKNOWN


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("wrong", [{"protocols": ()}, {"protocol_type": ""}])
def test_a_new_group_needs_protocols_of_a_type(group: Group, version: int, wrong: dict[str, Any]) -> None:
    assert group.join(version=version, **wrong).error == PROTOCOL


def test_members_have_a_protocol_in_common_and_one_type(group: Group) -> None:
    group.stable(protocols=("range", "sticky"))
    assert group.join(protocols=("other",)).error == PROTOCOL
    assert group.join(protocol_type="connect").error == PROTOCOL


def test_a_member_joins_again_without_a_change(group: Group, bootstrap: str) -> None:
    """Who leads begins a rebalance with that, others get what they had."""
    first = group.stable()
    assert group.join(first.member_id).generation == 2
    with connected(bootstrap) as other:
        other.send(request_frame(group.join_request(), 3))
        while group.describe().group_state != "PreparingRebalance":
            pass
        leader = group.join(first.member_id)
        second = joined_by(other, 3)
        assert (leader.generation, second.generation, second.error) == (3, 3, NONE)
        again = Group(other, group.topic)
        again.name = group.name
        assert again.join(second.member_id).generation == 3


def joined_by(client: WireClient, version: int) -> Joined:
    header = response_header_bytes(JoinGroupRequest.API_KEY, version, CORRELATION_ID)
    return joined(decode(JoinGroupResponse, version, client.receive(), len(header))[0])


# --- static members (KIP-345)


def test_a_static_member_takes_its_place_again_and_fences_the_one_before(group: Group) -> None:
    before = group.stable(instance="i1")
    after = group.join(instance="i1")
    assert (after.error, after.generation, after.answer.skip_assignment) == (NONE, before.generation, True)
    assert after.member_id != before.member_id
    assert group.sync(after) == (NONE, b"mine")
    assert group.heartbeat(before.member_id, before.generation, "i1") == FENCED
    assert group.sync(before, group_instance_id="i1")[0] == FENCED
    assert group.commit(before.member_id, before.generation, "i1") == FENCED
    assert group.join(before.member_id, instance="i1").error == FENCED
    assert group.leave((before.member_id, "i1")) == (NONE, [FENCED])
    assert group.heartbeat(after.member_id, after.generation, "i1") == NONE
    assert group.leave(("", "i1")) == (NONE, [NONE])
    assert group.describe().group_state == "Empty"


def test_a_static_member_that_nobody_knows(group: Group) -> None:
    member = group.stable(instance="i1")
    assert group.join("somebody", instance="i2").error == UNKNOWN
    assert group.heartbeat(member.member_id, member.generation, "i2") == UNKNOWN
    assert group.leave(("", "i2")) == (NONE, [UNKNOWN])


def test_a_static_member_with_another_subscription_rebalances(group: Group) -> None:
    member = group.stable(instance="i1")
    again = group.join(member.member_id, instance="i1", topics=("another",))
    assert (again.error, again.generation) == (NONE, member.generation + 1)


# --- SyncGroup


def test_sync_of_who_does_not_belong(group: Group) -> None:
    nobody = Joined(NONE, "somebody", 1, JoinGroupResponse(protocol_name="range"))
    assert group.sync(nobody)[0] == UNKNOWN
    member = group.stable()
    assert group.sync(nobody)[0] == UNKNOWN
    assert group.sync(member, generation_id=member.generation + 1)[0] == GENERATION
    assert group.sync(member, protocol_name="other")[0] == PROTOCOL
    assert group.sync(member, protocol_type="connect")[0] == PROTOCOL
    assert group.sync(member) == (NONE, b"mine")


def test_sync_while_members_join(group: Group, bootstrap: str) -> None:
    with rebalancing(group, bootstrap) as first:
        assert group.sync(first)[0] == REBALANCE


# --- Heartbeat


def test_heartbeats_in_each_state(group: Group, bootstrap: str) -> None:
    assert group.heartbeat("somebody", 1) == UNKNOWN
    member = group.join(version=3)
    assert group.heartbeat(member.member_id, member.generation) == NONE  # CompletingRebalance
    group.sync(member)
    assert group.heartbeat(member.member_id, member.generation) == NONE
    assert group.heartbeat(member.member_id, member.generation + 1) == GENERATION
    assert group.heartbeat("somebody", member.generation) == UNKNOWN
    another = Group(group.client, group.topic)
    with rebalancing(another, bootstrap) as first:
        assert another.heartbeat(first.member_id, first.generation) == REBALANCE
        assert another.heartbeat(first.member_id, first.generation + 1) == GENERATION


# --- OffsetCommit


def test_commits_without_a_group(group: Group) -> None:
    assert group.commit("somebody", 5) == GENERATION
    assert group.commit() == NONE
    assert group.describe().group_state == "Empty"
    assert group.commit("somebody", 5) == UNKNOWN


def test_commits_in_each_state(group: Group, bootstrap: str) -> None:
    member = group.join(version=3)
    assert group.commit(member.member_id, member.generation) == REBALANCE  # CompletingRebalance
    group.sync(member)
    assert group.commit(member.member_id, member.generation) == NONE
    assert group.commit(member.member_id, member.generation + 1) == GENERATION
    assert group.commit("somebody", member.generation) == UNKNOWN
    assert group.commit() == UNKNOWN
    another = Group(group.client, group.topic)
    with rebalancing(another, bootstrap) as first:
        assert another.commit(first.member_id, first.generation) == NONE


# --- LeaveGroup


def test_leaving_has_an_outcome_for_each(group: Group) -> None:
    assert group.leave(("somebody", None)) == (NONE, [UNKNOWN])
    member = group.stable()
    waiting = group.join()
    assert waiting.error == "MEMBER_ID_REQUIRED"
    leaving = ((member.member_id, None), ("somebody", None), (waiting.member_id, None))
    assert group.leave(*leaving) == (NONE, [NONE, UNKNOWN, NONE])
    assert group.describe().group_state == "Empty"


# --- administration


def test_a_group_that_is_not_there(group: Group) -> None:
    found = group.describe(5)
    assert (name_of(found.error_code), found.group_state) == (NONE, "Dead")
    found = group.describe(6)
    assert (name_of(found.error_code), found.group_state) == ("GROUP_ID_NOT_FOUND", "Dead")
    assert group.delete() == "GROUP_ID_NOT_FOUND"
    assert group.delete_offset(group.topic) == "GROUP_ID_NOT_FOUND"


def test_a_group_is_described_with_its_members(group: Group) -> None:
    member = group.stable(instance="i1")
    found = group.describe(6)
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    (told,) = found.members
    assert (told.member_id, told.group_instance_id, bytes(told.member_assignment)) == (member.member_id, "i1", b"mine")
    assert bytes(told.member_metadata) == subscription(group.topic)


def test_a_group_goes_when_it_is_empty(group: Group) -> None:
    member = group.stable()
    assert group.delete() == "NON_EMPTY_GROUP"
    group.leave((member.member_id, None))
    assert group.delete() == NONE
    assert group.describe().group_state == "Dead"


def test_offsets_of_subscribed_topics_stay(group: Group, make_topic: Any) -> None:
    other = make_topic("other")
    assert group.commit() == NONE
    member = group.stable()
    assert group.delete_offset(group.topic) == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert group.delete_offset(other) == NONE
    group.leave((member.member_id, None))
    assert group.delete_offset(group.topic) == NONE


def test_groups_are_listed_by_state_and_type(group: Group) -> None:
    group.stable()

    def listed(states: Sequence[str] = (), types: Sequence[str] = ()) -> list[tuple[str, str]]:
        answer = group.client.ask(
            ListGroupsRequest(states_filter=list(states), types_filter=list(types)), 5, ListGroupsResponse
        )
        return [(one.group_state, one.group_type) for one in answer.groups if one.group_id == group.name]

    assert listed() == listed(["Stable"]) == listed(["stable"], ["Classic"]) == [("Stable", "classic")]
    assert listed(["Empty"]) == listed((), ["consumer"]) == []
