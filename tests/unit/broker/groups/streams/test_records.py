"""Records make the state again, and tombstones leave nothing."""

from __future__ import annotations

import pytest
from support.heartbeat_groups import state_of
from support.streams_groups import TOPOLOGY
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.heartbeat.registry import encoded, replay, replay_bytes
from tidelog.broker.groups.store.records import OffsetsRecordError
from tidelog.broker.groups.streams import records
from tidelog.broker.groups.streams.descriptions import DescriptionEpochs
from tidelog.broker.groups.streams.group import StreamsEndpoint, StreamsGroup, StreamsMember
from tidelog.broker.groups.streams.tasks import OwnedTasks, Tasks
from tidelog.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from tidelog.protocol.messages.streams_group_records import (
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
)
from tidelog.protocol.schema import encode_with_version

MEMBER = StreamsMember(
    member_id="m",
    member_epoch=7,
    previous_member_epoch=6,
    state=MemberState.UNREVOKED_PARTITIONS,
    rack_id="r",
    client_id="c",
    client_host="/1.2.3.4",
    rebalance_timeout_ms=300,
    topology_epoch=1,
    process_id="p",
    endpoint=StreamsEndpoint("host", 50_000),
    client_tags=(("a", "1"), ("b", "2")),
    assigned=OwnedTasks({"0": {1: 5, 0: 7}}, {"1": frozenset({3})}, {"1": frozenset({4})}),
    pending=OwnedTasks({"0": {2: 6}}, {"1": frozenset({5})}, {"1": frozenset({6})}),
)
TARGET = Tasks({"0": frozenset({0, 1})}, {"1": frozenset({3})}, {"1": frozenset({4})})
ALL = [
    records.member_record("g", MEMBER),
    records.topology_record("g", TOPOLOGY),
    records.epoch_record("g", 8, -5, 1, {"num.standby.replicas": "1"}, DescriptionEpochs(1, 0)),
    records.target_record("g", "m", TARGET),
    records.target_epoch_record("g", 7, 99),
    records.current_record("g", MEMBER),
]


def replayed(found, groups=None):
    groups = {} if groups is None else groups
    for record in found:
        assert replay_bytes(groups, *encoded(record))
    return groups


def test_the_state_is_what_the_records_say():
    groups = {}
    for record in ALL:
        replay(groups, record)
    group = groups["g"]
    assert group.members == {"m": MEMBER}
    assert (group.group_epoch, group.metadata_hash, group.validated_topology_epoch) == (8, -5, 1)
    assert group.assignment_configs == {"num.standby.replicas": "1"}
    assert group.descriptions == DescriptionEpochs(stored=1, failed=0)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (7, 99)
    assert group.target == {"m": TARGET}
    assert group.topology == TOPOLOGY
    assert state_of(replayed(ALL)["g"]) == state_of(group)


def test_a_topology_with_everything_comes_back():
    made = InternalTopic("x", 3, 2, (("a", "b"), ("c", "d")))
    one = Subtopology("0", ("a",), (InternalTopic("store"),), ("y",), (made,), (CopartitionGroup((0,), (0,)),))
    topology = Topology(5, (one, Subtopology("1", ("b",))))
    assert replayed([records.topology_record("g", topology)])["g"].topology == topology


def test_the_states_of_members_have_kafkas_numbers():
    for number, state in enumerate(list(MemberState)[:3], start=1):
        one = StreamsMember(member_id="m", state=state)
        assert records.current_record("g", one).value.state == number
        assert replayed([records.current_record("g", one)])["g"].members["m"].state is state
    later = StreamsGroupCurrentMemberAssignmentValue(state=4)
    key = encode_with_version(StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), 22)
    groups = {}
    replay_bytes(groups, key, encode_with_version(later, 0))
    assert groups["g"].members["m"].state is MemberState.UNKNOWN


def test_tombstones_leave_nothing():
    groups = replayed(ALL)
    for record in records.member_tombstones("g", "m"):
        replay(groups, record)
    assert groups["g"].members == groups["g"].target == {}
    groups = replayed(ALL)
    replayed(records.group_tombstones(groups["g"]), groups)
    assert groups == {}
    assert [key for key, _ in replayed(ALL)["g"].tombstones()] == [
        key for key, _ in map(encoded, records.group_tombstones(replayed(ALL)["g"]))
    ]


def test_tombstones_of_what_is_not_there_are_no_error():
    groups = {}
    replayed(records.group_tombstones(replayed(ALL)["g"]), groups)
    assert groups == {}
    other = {"g": GroupMetadata("g", 0)}
    replayed(records.group_tombstones(replayed(ALL)["g"]), other)
    assert isinstance(other["g"], GroupMetadata)
    assert isinstance(replayed(ALL[:1], other)["g"], StreamsGroup)


@pytest.mark.parametrize("epochs", [None, (), (1,)])
def test_tasks_without_epochs_have_the_members(epochs):
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=9,
        state=1,
        active_tasks=[OwnedTaskIds(subtopology_id="0", partitions=[1, 2], assignment_epochs=epochs)],
    )
    key = encode_with_version(StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), 22)
    groups = {}
    replay_bytes(groups, key, encode_with_version(value, 0))
    assert groups["g"].members["m"].assigned.active == {"0": {1: 9, 2: 9}}


def test_bytes_that_are_no_record():
    with pytest.raises(OffsetsRecordError):
        replay_bytes({}, b"\x00\x11", None)


def test_epochs_of_descriptions_are_kafka_44s_tagged_fields():
    """Bytes by StreamsGroupMetadataValue.json of Kafka 4.4: tags 0, 2 and 3; what is -1 is not there, as in Kafka 4.3."""
    epoch, topics_hash, topology = bytes(3) + b"\x08", b"\xff" * 7 + b"\xfb", bytes(4)
    for epochs, tail in (
        (DescriptionEpochs(), b"\x01" + b"\x00\x04" + topology),
        (DescriptionEpochs(5), b"\x02" + b"\x00\x04" + topology + b"\x02\x04" + bytes(3) + b"\x05"),
        (
            DescriptionEpochs(-2, 6),
            b"\x03" + b"\x00\x04" + topology + b"\x02\x04" + b"\xff\xff\xff\xfe" + b"\x03\x04" + bytes(3) + b"\x06",
        ),
    ):
        record = records.epoch_record("g", 8, -5, 0, {}, epochs)
        assert encoded(record).value == b"\x00\x00" + epoch + topics_hash + tail
        assert replayed([record])["g"].descriptions == epochs
