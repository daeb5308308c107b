"""Records make the state again, and tombstones leave nothing."""

from __future__ import annotations

import pytest
from support.heartbeat_groups import state_of
from tidelog.broker.groups.classic.events import GroupProtocol
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.consumer import records
from tidelog.broker.groups.consumer.group import ClassicMember, ConsumerGroup, ConsumerMember
from tidelog.broker.groups.heartbeat.group import MemberState
from tidelog.broker.groups.heartbeat.regex_subscription import ResolvedExpression
from tidelog.broker.groups.heartbeat.registry import encoded, replay, replay_bytes
from tidelog.broker.groups.store.records import OffsetsRecordError
from tidelog.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    OwnedTopicPartitions,
)
from tidelog.protocol.schema import encode_with_version

T = bytes(range(16))
MEMBER = ConsumerMember(
    member_id="m",
    member_epoch=7,
    previous_member_epoch=6,
    state=MemberState.UNREVOKED_PARTITIONS,
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/1.2.3.4",
    subscribed_topics=frozenset({"b", "a"}),
    expression="x.*",
    rebalance_timeout_ms=300,
    server_assignor="range",
    assigned={T: {1: 5, 0: 7}},
    pending={T: {2: 6}},
    classic=ClassicMember(1000, (GroupProtocol("range", b"\x01"),)),
)
ALL = [
    records.member_record("g", MEMBER),
    records.expression_record("g", "x.*", ResolvedExpression(frozenset({"x2", "x1"}), 3, 4)),
    records.epoch_record("g", 8, -5),
    records.target_record("g", "m", {T: frozenset({0, 1})}),
    records.target_epoch_record("g", 7, 99),
    records.current_record("g", MEMBER),
]


def test_the_state_is_what_the_records_say():
    groups, from_bytes = {}, {}
    for record in ALL:
        replay(groups, record)
        assert replay_bytes(from_bytes, *encoded(record))
    group = groups["g"]
    assert group.members == {"m": MEMBER}
    assert (group.group_epoch, group.metadata_hash) == (8, -5)
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (7, 99)
    assert group.target == {"m": {T: {0, 1}}}
    assert group.resolved["x.*"].topics == {"x1", "x2"}
    assert group.static_members == {"i": "m"}
    assert state_of(from_bytes["g"]) == state_of(group)


def test_tombstones_leave_nothing():
    groups = {}
    for record in ALL:
        replay(groups, record)
    tombstones = groups["g"].tombstones()
    for key, value in tombstones:
        assert value is None
        assert replay_bytes(groups, key, None)
    assert groups == {}
    written = {encoded(record).key for record in ALL}
    assert written <= {key for key, _ in tombstones}
    for key, _ in tombstones:  # and none of them makes a group
        replay_bytes(groups, key, None)
    assert groups == {}


def test_a_member_goes_with_what_it_had():
    groups = {}
    for record in ALL:
        replay(groups, record)
    for record in records.member_tombstones("g", "m"):
        replay(groups, record)
    group = groups["g"]
    assert (group.members, group.target, group.static_members, group.owner(T, 0)) == ({}, {}, {}, None)


def test_records_of_older_kafkas():
    groups = {}
    key = encode_with_version(ConsumerGroupPartitionMetadataKey(group_id="g"), 4)
    replay_bytes(groups, key, encode_with_version(ConsumerGroupPartitionMetadataValue(), 0))
    assert groups["g"].has_partition_metadata
    replay_bytes(groups, key, None)
    assert not groups["g"].has_partition_metadata
    # No epochs of partitions: the member's stands for them.
    owned = [OwnedTopicPartitions(topic_id=T, partitions=[4, 2])]
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=9, previous_member_epoch=8, assigned_partitions=owned
    )
    key = encode_with_version(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), 8)
    replay_bytes(groups, key, encode_with_version(value, 0))
    assert groups["g"].members["m"].assigned == {T: {4: 9, 2: 9}}


def test_it_takes_the_place_of_a_group_of_another_type():
    groups = {"g": GroupMetadata("g", 0)}
    replay(groups, ALL[0])
    assert isinstance(groups["g"], ConsumerGroup)
    classic = {"g": GroupMetadata("g", 0)}
    for record in records.group_tombstones(groups["g"]):
        replay(classic, record)
    assert isinstance(classic["g"], GroupMetadata)


def test_bytes_that_are_no_record():
    key, value = encoded(ALL[0])
    for bad in ((key[:-1], value), (key, value[:5]), (key, b"\x00\x63" + value[2:])):
        with pytest.raises(OffsetsRecordError):
            replay_bytes({}, *bad)
    assert not replay_bytes({}, b"\x00\x63", b"")
