"""Groups of types that this module has no code for: what their Describe API tells is shown by its fields."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.http.console.page_request import PageError
from tidelog.broker.http.console.pages.group_facts import (
    Described,
    Listed,
    Member,
    describe_group,
    error_name,
    find_group,
    list_groups,
    positions,
    total,
)
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from tidelog.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from tidelog.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from tidelog.protocol.schema import INT32, STRING, Struct, array, encode, int16, int32, string


class Tasks(Struct):
    subtopology_id: str = string()
    partitions: Sequence[int] = array(INT32)


class HeartbeatMember(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(STRING)


class HeartbeatGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    members: Sequence[Any] = ()


class State:
    """A services that answers these APIs."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {ApiKey[name]: answer for name, answer in answers.items()}
        self.asked: list[tuple[ApiKey, Any]] = []
        self.calls = self
        self.services = SimpleNamespace(logs=SimpleNamespace(get=lambda topic, partition: None))

    def has(self, key: ApiKey) -> bool:
        return key in self.answers

    def ask(self, key: ApiKey, request: Any, **more: Any) -> Any:
        self.asked.append((key, request(lambda **fields: fields) if callable(request) else request))
        return self.answers[key]


def member(**fields: Any) -> Any:
    """As a decoded one, with an assignment of any shape."""
    given = {one.name: one.default for one in HeartbeatMember.FIELDS} | fields
    return SimpleNamespace(FIELDS=HeartbeatMember.FIELDS, **given)


def test_a_type_that_is_described_by_an_api_of_its_own() -> None:
    assignment = SimpleNamespace(
        active_tasks=[Tasks(subtopology_id="0", partitions=[2, 1])],
        standby_tasks=[Tasks(subtopology_id="1", partitions=[0])],
    )
    one = member(
        member_id="m",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["a", "b"],
        assignment=assignment,
    )
    group = SimpleNamespace(
        FIELDS=HeartbeatGroup.FIELDS, error_code=0, error_message=None, group_id="g", group_state="Stable", group_epoch=7,
        members=[one]
    )  # fmt: skip
    state: Any = State(STREAMS_GROUP_DESCRIBE=SimpleNamespace(groups=[group]))
    found = describe_group(state, Listed("g", "streams", "Stable", ""))
    assert found == Described(
        "g", "Stable", (("group epoch", "7"),),
        (
            Member(
                "m", "", "c", "/h", (("active 0", (1, 2)), ("standby 1", (0,))),
                "member epoch 3, subscribed topic names a, b",
            ),
        ),
    )  # fmt: skip
    assert state.asked == [(ApiKey.STREAMS_GROUP_DESCRIBE, {"group_ids": ["g"]})]


def test_partitions_of_topics() -> None:
    topic = SimpleNamespace(topic_name="t", topic_id=b"", partitions=[1, 0])
    one = member(member_id="m", client_id="c", client_host="/h", assignment=SimpleNamespace(topic_partitions=[topic]))
    group = SimpleNamespace(
        FIELDS=HeartbeatGroup.FIELDS,
        error_code=0,
        error_message=None,
        group_id="g",
        group_state="Stable",
        group_epoch=1,
        members=[one],
    )
    state: Any = State(SHARE_GROUP_DESCRIBE=SimpleNamespace(groups=[group]))
    (found,) = describe_group(state, Listed("g", "Share", "Stable", "")).members
    assert found.assigned == (("t", (0, 1)),)


def test_classic_groups() -> None:
    assignment = encode(
        ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[1, 0])]), 0
    )
    members = [
        DescribedGroupMember(member_id=name, client_id="c", client_host="/h", member_assignment=data)
        for name, data in (("right", b"\0\0" + assignment), ("wrong", b"\xff"), ("none", b""))
    ]
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=members
    )
    state: Any = State(DESCRIBE_GROUPS=DescribeGroupsResponse(groups=[group]))
    found = describe_group(state, Listed("g", "classic", "Stable", "consumer"))
    assert found.details == (("protocol", "range"),)
    assert [(one.assigned, one.details) for one in found.members] == [
        ((("t", (0, 1)),), ""), ((), "1 byte of assignment, which can't be read"), ((), ""),
    ]  # fmt: skip


def test_lists_and_errors() -> None:
    groups = [
        ListedGroup(group_id="b", group_state="Empty", group_type="share"),
        ListedGroup(group_id="a", group_state="Stable"),
    ]
    state: Any = State(LIST_GROUPS=ListGroupsResponse(groups=groups))
    assert list_groups(state) == [Listed("a", "classic", "Stable", ""), Listed("b", "share", "Empty", "")]
    assert find_group(state, "b").type == "share"
    with pytest.raises(PageError, match="There is no group c"):
        find_group(state, "c")
    loading: Any = State(LIST_GROUPS=ListGroupsResponse(error_code=14))
    with pytest.raises(PageError, match="still being read"):
        list_groups(loading)
    assert (error_name(3), error_name(9999)) == ("UNKNOWN_TOPIC_OR_PARTITION", "error 9999")


def test_a_share_groups_starts_are_asked_of_their_own_api() -> None:
    part = SimpleNamespace(partition_index=2, start_offset=5)
    group = SimpleNamespace(error_code=0, topics=[SimpleNamespace(topic_name="gone", partitions=[part])])
    state: Any = State(DESCRIBE_SHARE_GROUP_OFFSETS=SimpleNamespace(groups=[group]))
    inner = SimpleNamespace(name="groups", element=lambda **fields: fields)
    asked: list[Any] = []

    def request(**fields: Any) -> Any:
        asked.append(fields)
        return fields

    request.FIELDS = [inner]  # type: ignore[attr-defined]
    state.ask = lambda key, make, **more: (make(request), state.answers[key])[1]
    (found,) = positions(state, Listed("g", "share", "Stable", ""), None, lambda: True)  # type: ignore[arg-type]
    assert (found.topic, found.partition, found.offset, found.lag_records) == ("gone", 2, 5, None)
    assert asked == [{"groups": [{"group_id": "g", "topics": None}]}]
    without: Any = State()
    assert positions(without, Listed("g", "share", "Stable", ""), None, lambda: True) == []  # type: ignore[arg-type]


def test_a_sum_with_something_unknown_is_unknown() -> None:
    assert (total([1, 2]), total([1, None]), total([])) == (3, None, 0)
