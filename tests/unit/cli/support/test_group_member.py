"""A group's member by our own client: what coordinators answer, how partitions are given out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_brokers import FakeBrokers
from tidelog.cli.support.group_member import BEAT_S, GroupMember, Reader, assign_by_range
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.pipeline.exceptions import BrokerError, BrokerUnreachableError
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.protocol.schema import decode_with_version, encode_with_version

ADDRESS = ("fake", 9092)


def member(member_id: str, *topics: str, instance: str | None = None) -> Reader:
    return Reader(instance is None, instance or "", member_id, frozenset(topics))


def test_neighbours_go_to_one_member_and_the_first_ones_have_one_more() -> None:
    """As Java's RangeAssignor says of itself: 3 partitions for 2 members are 0, 1 and 2, in each topic anew."""
    both = [member("b", "t", "u"), member("a", "t", "u")]
    assert assign_by_range(both, {"t": 3, "u": 3}) == {
        "a": {"t": [0, 1], "u": [0, 1]},
        "b": {"t": [2], "u": [2]},
    }
    assert assign_by_range([*both, member("c", "u")], {"t": 1, "u": 2}) == {
        "a": {"t": [0], "u": [0]},
        "b": {"u": [1]},
        "c": {},
    }
    fixed = [member("z", "t", instance="1"), member("a", "t")]
    assert assign_by_range(fixed, {"t": 2}) == {"z": {"t": [0]}, "a": {"t": [1]}}, "members with a name come first"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.frozensets(st.sampled_from("tuv")), max_size=6),
    st.dictionaries(st.sampled_from("tuv"), st.integers(0, 20)),
)
def test_each_partition_that_somebody_wants_is_one_members(
    wanted: dict[str, frozenset[str]], counts: dict[str, int]
) -> None:
    given_out = assign_by_range([member(name, *topics) for name, topics in wanted.items()], counts)
    assert set(given_out) == set(wanted)
    for topic, count in counts.items():
        sizes = {name: len(given_out[name].get(topic, [])) for name in wanted if topic in wanted[name]}
        assert sorted(p for of in given_out.values() for p in of.get(topic, [])) == list(range(count if sizes else 0))
        assert max(sizes.values(), default=0) - min(sizes.values(), default=0) <= 1
        assert all(topic in wanted[name] for name, of in given_out.items() if topic in of)


class FakeCoordinator:
    """A group that gives what `assignment` says, or asks its member to lead. `answers`: errors to give first, by request."""

    def __init__(self) -> None:
        self.errors: list[tuple[type, int]] = []
        self.leads = False
        self.others: list[tuple[str, bytes]] = []
        self.assignment = encode_with_version(
            ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[0, 2])]), 1
        )
        self.partitions = 3
        self.committed = {0: 7}
        self.lost_joins = 0
        self.brokers = FakeBrokers({ADDRESS: self.handle})
        self.now = 0.0
        self.told: list[str] = []
        self.waits: list[str] = []
        settings = ClientSettings((ADDRESS,), api_timeout_ms=1000)
        self.client = KafkaClient(
            settings, connect=self.brokers.connect, clock=lambda: self.now, sleep=self.sleep, on_wait=self.waits.append
        )
        self.member = GroupMember(
            self.client, "g", "t", tell=self.told.append, on_wait=self.waits.append, clock=lambda: self.now
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def asked(self, kind: type) -> list[Any]:
        return [request for _, request in self.brokers.log if isinstance(request, kind)]

    def handle(self, request: Any, version: int) -> Any:
        error = 0
        if self.errors and isinstance(request, self.errors[0][0]):
            error = self.errors.pop(0)[1]
        handler: Callable[[Any, int], Any] = getattr(self, f"_{type(request).__name__}")
        return handler(request, error)

    def _FindCoordinatorRequest(self, request: FindCoordinatorRequest, error: int) -> FindCoordinatorResponse:
        keys = list(request.coordinator_keys) or [request.key]
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=1, host=ADDRESS[0], port=ADDRESS[1], error_code=0) for key in keys
            ]
        )

    def _MetadataRequest(self, request: MetadataRequest, error: int) -> MetadataResponse:
        parts = [MetadataResponsePartition(partition_index=number, leader_id=1) for number in range(self.partitions)]
        topics = [
            MetadataResponseTopic(name=asked.name, error_code=0 if asked.name == "t" else 3, partitions=parts)
            for asked in request.topics or []
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=ADDRESS[0], port=ADDRESS[1])], topics=topics
        )

    def _JoinGroupRequest(self, request: JoinGroupRequest, error: int) -> Any:
        if self.lost_joins:
            self.lost_joins -= 1
            self.now += 30
            return TimeoutError("timed out")
        if error:
            return JoinGroupResponse(error_code=error, member_id=request.member_id, protocol_name="", leader="")
        if not request.member_id:
            return JoinGroupResponse(
                error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m", protocol_name="", leader=""
            )
        own = (request.member_id, request.protocols[0].metadata)
        members = [JoinGroupResponseMember(member_id=name, metadata=data) for name, data in [own, *self.others]]
        return JoinGroupResponse(
            generation_id=4, protocol_name="range", leader="m" if self.leads else "other", member_id=request.member_id,
            members=members if self.leads else [],
        )  # fmt: skip

    def _SyncGroupRequest(self, request: SyncGroupRequest, error: int) -> SyncGroupResponse:
        own = [each.assignment for each in request.assignments if each.member_id == request.member_id]
        return SyncGroupResponse(error_code=error, assignment=b"" if error else own[0] if own else self.assignment)

    def _OffsetFetchRequest(self, request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
        parts = [
            OffsetFetchResponsePartition(
                partition_index=number, committed_offset=self.committed.get(number, -1), metadata="", error_code=error
            )
            for number in (request.topics or [])[0].partition_indexes
        ]
        return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=parts)], error_code=0)

    def _OffsetCommitRequest(self, request: OffsetCommitRequest, error: int) -> OffsetCommitResponse:
        parts = [
            OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
            for part in request.topics[0].partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=parts)])

    def _HeartbeatRequest(self, request: HeartbeatRequest, error: int) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=error)

    def _LeaveGroupRequest(self, request: LeaveGroupRequest, error: int) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=error)


@pytest.fixture
def group() -> Iterator[FakeCoordinator]:
    made = FakeCoordinator()
    yield made
    made.client.close()


def test_a_member_joins_with_the_id_that_it_is_given_and_has_what_the_leader_says(group: FakeCoordinator) -> None:
    assert group.member.join() == {0: 7, 2: None}
    assert [request.member_id for request in group.asked(JoinGroupRequest)] == ["", "m"]
    (sync,) = group.asked(SyncGroupRequest)
    assert (sync.member_id, sync.generation_id, list(sync.assignments)) == ("m", 4, [])
    assert group.told == group.waits == []


def test_the_leader_gives_out_the_topics_of_all(group: FakeCoordinator) -> None:
    """Another client's subscription is of a newer version, and names a topic that is not there."""
    group.leads = True
    theirs = ConsumerProtocolSubscription(topics=["t", "gone"])
    newer = struct.pack(">h", 9) + encode_with_version(theirs, 3)[2:] + b"\0\0\0\7"
    group.others = [("a", newer), ("z", encode_with_version(ConsumerProtocolSubscription(topics=["gone"]), 0))]
    assert group.member.join() == {2: None}
    (sync,) = group.asked(SyncGroupRequest)
    found = {}
    for each in sync.assignments:
        opened, _ = decode_with_version(ConsumerProtocolAssignment, each.assignment)
        found[each.member_id] = {part.topic: list(part.partitions) for part in opened.assigned_partitions}
    assert found == {"a": {"t": [0, 1]}, "m": {"t": [2]}, "z": {}}


def test_the_leader_joins_again_when_the_topic_has_grown(group: FakeCoordinator) -> None:
    group.leads = True
    group.member.join()
    group.now += 59
    assert group.member.beat()
    group.partitions = 4
    assert group.member.beat(), "it is not asked each time"
    group.now += 2
    assert not group.member.beat()
    assert group.member.join() == {0: 7, 1: None, 2: None, 3: None}


def test_heartbeats_are_sent_when_they_are_due(group: FakeCoordinator) -> None:
    group.member.join()
    for _ in range(100):
        assert group.member.beat()
        group.now += BEAT_S / 10
    assert len(group.asked(HeartbeatRequest)) == 9


@pytest.mark.parametrize("kind", [HeartbeatRequest, OffsetCommitRequest])
@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID]
)
def test_a_member_learns_that_it_has_to_join_again(group: FakeCoordinator, kind: type, code: ErrorCode) -> None:
    group.member.join()
    group.errors = [(kind, code)]
    group.now += BEAT_S
    assert not (group.member.beat() if kind is HeartbeatRequest else group.member.commit({0: 9}))
    is_lost = code != ErrorCode.REBALANCE_IN_PROGRESS
    assert group.member.is_forgotten == is_lost
    assert len(group.told) == is_lost
    assert group.member.join() == {0: 7, 2: None}
    ids = [request.member_id for request in group.asked(JoinGroupRequest)][2:]
    assert ids == (["", "m"] if code == ErrorCode.UNKNOWN_MEMBER_ID else ["m"])
    assert group.member.commit({0: 9})
    assert group.member.commit({}), "nothing to be committed is asked of nobody"
    assert len(group.asked(OffsetCommitRequest)) == 1 + (kind is OffsetCommitRequest)


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR]
)
@pytest.mark.parametrize("kind", [JoinGroupRequest, SyncGroupRequest])
def test_a_rebalance_that_begins_anew_is_gone_along_with(group: FakeCoordinator, kind: type, code: ErrorCode) -> None:
    group.errors = [(kind, code), (kind, code)]
    assert group.member.join() == {0: 7, 2: None}
    assert group.errors == []


def test_a_rebalance_that_takes_minutes_is_waited_for_and_told(group: FakeCoordinator) -> None:
    """Each request has 30 s; the member is the same, however often it asks."""
    group.lost_joins = 6
    assert group.member.join() == {0: 7, 2: None}
    assert any("the other members of group g" in wait for wait in group.waits)
    group.lost_joins = 100
    with pytest.raises(BrokerUnreachableError):
        group.member.join()


def test_what_can_not_be_is_told(group: FakeCoordinator) -> None:
    group.errors = [(JoinGroupRequest, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
    with pytest.raises(
        KafkaFailure, match="group g has members that share out partitions by something else than range"
    ):
        group.member.join()
    group.errors = [(JoinGroupRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    with pytest.raises(BrokerError, match="JOIN_GROUP for g"):
        group.member.join()
    group.leads, group.others = True, [("a", b"\0")]
    with pytest.raises(KafkaFailure, match="what its member a subscribes to cannot be read: it has no version"):
        group.member.join()
    group.leads, group.assignment = False, b"\0\1\0\0"
    with pytest.raises(KafkaFailure, match="what its leader assigns cannot be read"):
        group.member.join()


def test_a_member_leaves_once(group: FakeCoordinator) -> None:
    group.member.leave()
    assert group.asked(LeaveGroupRequest) == [], "it is none"
    group.member.join()
    group.member.leave()
    group.member.leave()
    assert [request.member_id for request in group.asked(LeaveGroupRequest)] == ["m"]
