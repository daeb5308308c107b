"""The hand-written codec against the declared schema, and what it does with bytes that are none."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.groups.classic.events import GroupProtocol
from tidelog.broker.groups.classic.metadata import EMPTY, STABLE, GroupMetadata, Member
from tidelog.broker.groups.classic.records import group_value, read_group_value
from tidelog.broker.groups.store.records import (
    GroupKey,
    OffsetAndMetadata,
    OffsetKey,
    OffsetsRecordError,
    group_key,
    offset_key,
    offset_value,
    read_key,
    read_offset_value,
)
from tidelog.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.protocol.schema import decode, encode

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
LATER = st.integers(0, 2**63 - 1)


def declared(message, version):
    """The bytes that the declared schema gives, with the version in front."""
    return version.to_bytes(2, "big") + encode(message, version)


@given(TEXT, TEXT, INT32)
def test_keys_are_as_declared(group, topic, partition):
    assert offset_key(group, topic, partition) == declared(
        OffsetCommitKey(group=group, topic=topic, partition=partition), 1
    )
    assert group_key(group) == declared(GroupMetadataKey(group=group), 2)
    assert read_key(offset_key(group, topic, partition)) == OffsetKey(group, topic, partition)
    assert read_key(group_key(group)) == GroupKey(group)


@given(INT64, INT32, st.text(max_size=300), INT64, st.none() | st.binary(min_size=16, max_size=16).filter(any))
def test_offset_value_is_as_declared(offset, epoch, metadata, commit_ms, topic_id):
    committed = OffsetAndMetadata(offset, epoch, metadata, commit_ms, topic_id=topic_id)
    message = OffsetCommitValue(
        offset=offset, leader_epoch=epoch, metadata=metadata, commit_timestamp=commit_ms, topic_id=topic_id or bytes(16)
    )
    assert offset_value(committed) == declared(message, 4)
    assert read_offset_value(offset_value(committed)) == committed


@given(INT64, TEXT, INT64, LATER)
def test_an_offset_with_its_own_expiry_is_version_1(offset, metadata, commit_ms, expire_ms):
    committed = OffsetAndMetadata(offset, 5, metadata, commit_ms, expire_ms, b"i" * 16)
    message = OffsetCommitValue(
        offset=offset, metadata=metadata, commit_timestamp=commit_ms, expire_timestamp=expire_ms
    )
    assert offset_value(committed) == declared(message, 1)
    assert read_offset_value(offset_value(committed)) == committed._replace(leader_epoch=-1, topic_id=None)


@given(st.integers(0, 4), INT64, INT32, TEXT, INT64, LATER)
def test_all_versions_of_an_offset_are_read(version, offset, epoch, metadata, commit_ms, expire_ms):
    message = OffsetCommitValue(
        offset=offset,
        leader_epoch=epoch if version >= 3 else -1,
        metadata=metadata,
        commit_timestamp=commit_ms,
        expire_timestamp=expire_ms if version == 1 else -1,
    )
    read = read_offset_value(declared(message, version))
    assert read == OffsetAndMetadata(offset, message.leader_epoch, metadata, commit_ms, message.expire_timestamp)


MEMBERS = st.lists(
    st.tuples(TEXT, st.none() | TEXT, TEXT, TEXT, st.integers(0, 2**31 - 1), INT32, st.binary(), st.binary()),
    max_size=4,
    unique_by=(lambda m: m[0], lambda m: m[1] if m[1] is not None else m[0] + "!"),
)


@given(st.integers(0, 4), TEXT, INT32, TEXT, st.none() | TEXT, LATER, MEMBERS)
def test_all_versions_of_a_group_are_read(version, kind, generation, protocol, leader, changed_ms, members):
    message = GroupMetadataValue(
        protocol_type=kind,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=changed_ms if version >= 2 else -1,
        members=[
            MemberMetadata(
                member_id=member_id,
                group_instance_id=instance if version >= 3 else None,
                client_id=client,
                client_host=host,
                rebalance_timeout=rebalance if version >= 1 else -1,
                session_timeout=session,
                subscription=subscription,
                assignment=assignment,
            )
            for member_id, instance, client, host, rebalance, session, subscription, assignment in members
        ],
    )
    group = read_group_value("g", declared(message, version))
    assert group.state is (STABLE if members else EMPTY)
    assert (group.protocol_type or "", group.generation) == (kind, generation)
    assert (group.protocol_name, group.leader_id) == (protocol, leader)
    assert group.state_timestamp_ms == (changed_ms if version >= 2 else None)
    assert list(group.members) == [member.member_id for member in message.members]
    for member, said in zip(group.members.values(), message.members, strict=True):
        assert member.group_instance_id == said.group_instance_id
        assert (member.client_id, member.client_host) == (said.client_id, said.client_host)
        assert member.session_timeout_ms == said.session_timeout
        assert member.rebalance_timeout_ms == (said.rebalance_timeout if version >= 1 else said.session_timeout)
        assert member.protocols == (GroupProtocol(protocol, said.subscription),)
        assert member.assignment == said.assignment


@given(TEXT, INT32, TEXT, LATER, MEMBERS)
def test_group_value_is_as_declared(kind, generation, protocol, changed_ms, members):
    group = GroupMetadata("g", changed_ms)
    group.generation, group.protocol_name = generation, protocol
    assignments = {}
    for member_id, instance, client, host, rebalance, session, subscription, assignment in members:
        protocols = (GroupProtocol("other", b"x"), GroupProtocol(protocol + "+", subscription))
        group.add(Member(member_id, instance, client, host, rebalance, session, kind, protocols), None)
        assignments[member_id] = assignment
    group.protocol_type, group.protocol_name = kind, protocol + "+"
    value = group_value(group, assignments)
    message, end = decode(GroupMetadataValue, 3, value, 2)
    assert end == len(value)
    assert value[:2] == b"\x00\x03"
    assert message == GroupMetadataValue(
        protocol_type=kind,
        generation=generation,
        protocol=protocol + "+",
        leader=members[0][0] if members else None,
        current_state_timestamp=changed_ms,
        members=[
            MemberMetadata(
                member_id=member_id,
                group_instance_id=instance,
                client_id=client,
                client_host=host,
                rebalance_timeout=rebalance,
                session_timeout=session,
                subscription=subscription,
                assignment=assignment,
            )
            for member_id, instance, client, host, rebalance, session, subscription, assignment in members
        ],
    )


def test_keys_of_newer_protocols_are_not_ours():
    assert read_key(b"\x00\x03" + b"\x00\x01g") is None
    assert read_key(b"\x00\x15" + b"anything") is None


@pytest.mark.parametrize(
    "key", [b"", b"\x00", b"\xff\xff", b"\x00\x02", b"\x00\x02\x7f\xff", b"\x00\x02\xff\xff", b"\x00\x01\x00\x01g"]
)
def test_broken_keys(key):
    with pytest.raises(OffsetsRecordError):
        read_key(key)


@given(st.binary(max_size=80))
def test_garbage_raises_one_error_only(data):
    for read in (read_key, read_offset_value, lambda value: read_group_value("g", value)):
        with contextlib.suppress(OffsetsRecordError):
            read(data)


@given(st.integers(0, 4), st.data())
def test_a_cut_off_value_is_an_error(version, data):
    value = declared(OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9), version)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(OffsetsRecordError):
        read_offset_value(value[:cut])


def test_unknown_versions_are_errors():
    with pytest.raises(OffsetsRecordError, match="version 5"):
        read_offset_value(b"\x00\x05" + bytes(40))
    with pytest.raises(OffsetsRecordError, match="version 5"):
        read_group_value("g", b"\x00\x05" + bytes(40))


def test_a_count_of_members_is_bounded_before_it_is_believed():
    value = b"\x00\x03" + b"\x00\x00" + bytes(4) + b"\xff\xff" + b"\xff\xff" + bytes(8) + b"\x7f\xff\xff\xff"
    with pytest.raises(OffsetsRecordError, match="count of 2147483647"):
        read_group_value("g", value)


def test_members_without_a_protocol_are_an_error():
    message = GroupMetadataValue(
        protocol_type="consumer", protocol=None, leader=None, members=[MemberMetadata(member_id="m")]
    )
    with pytest.raises(OffsetsRecordError, match="no protocol"):
        read_group_value("g", declared(message, 3))
