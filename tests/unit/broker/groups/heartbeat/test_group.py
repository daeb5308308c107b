"""State that all heartbeat groups have."""

from __future__ import annotations

import pytest
from support.heartbeat_groups import Image
from tidelog.broker.groups.consumer.group import ConsumerGroup, ConsumerMember
from tidelog.broker.groups.heartbeat.group import MemberState, counted, metadata_hash
from tidelog.protocol.errors import ErrorCode, ProtocolError


def member(name, *topics, **fields):
    return ConsumerMember(member_id=name, subscribed_topics=frozenset(topics), **fields)


def test_members_and_what_they_name():
    group = ConsumerGroup("g")
    group.put(member("a", "t", "u"))
    group.put(member("b", "u"))
    assert group.names == {"t": 1, "u": 2}
    group.put(member("a", "v"))
    assert group.names == {"u": 1, "v": 1}
    assert (group.is_empty, group.may_expire, group.may_delete()) == (False, False, ErrorCode.NON_EMPTY_GROUP)
    assert group.is_subscribed_to("v")
    assert not group.is_subscribed_to("t")
    group.drop("a")
    group.drop("b")
    group.drop("nobody")
    assert group.names == {}
    assert (group.is_empty, group.may_expire, group.may_delete()) == (True, True, ErrorCode.NONE)
    with pytest.raises(ProtocolError) as caught:
        group.member("a")
    assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_belongs_to_the_last_who_took_it():
    group = ConsumerGroup("g")
    group.put(member("a", instance_id="i"))
    group.put(member("b", instance_id="i"))
    group.drop("a")
    assert group.static_member("i").member_id == "b"
    group.put(member("b", instance_id="j"))
    assert group.static_member("i") is None
    assert group.static_member(None) is None
    group.drop("b")
    assert group.static_members == {}


def test_states_of_later_kafkas_are_unknown():
    assert MemberState(1) is MemberState.UNREVOKED_PARTITIONS
    assert MemberState(55) is MemberState.UNKNOWN


def test_counted():
    counts = {"a": 1, "b": 2}
    assert counted(counts, ["a", "b", "x"], ["b", "c"]) == {"b": 2, "c": 1}
    assert counts == {"a": 1, "b": 2}


def test_the_hash_is_of_names_ids_and_counts():
    image = Image(t=1, u=2)
    first = metadata_hash({"t", "u", "missing"}, image)
    assert first == metadata_hash(["u", "t"], image)
    assert metadata_hash({"missing"}, image) == 0
    assert -(2**63) <= first < 2**63
    seen = {first}
    image.put("t", 2)
    seen.add(metadata_hash({"t", "u"}, image))
    image.remove("t")
    seen.add(metadata_hash({"t", "u"}, image))
    image.put("t", 1)  # another topic by that name
    seen.add(metadata_hash({"t", "u"}, image))
    assert len(seen) == 4
