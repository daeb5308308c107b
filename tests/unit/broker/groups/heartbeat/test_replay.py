from __future__ import annotations

from typing import Any

import pytest
from tidelog.broker.groups.consumer.group import ConsumerGroup
from tidelog.broker.groups.heartbeat.group import HeartbeatGroup
from tidelog.broker.groups.heartbeat.machine import GroupRecord
from tidelog.broker.groups.heartbeat.registry import TYPES, Groups, record_kind, replay
from tidelog.broker.groups.share.group import ShareGroup
from tidelog.broker.groups.store.group import GroupType
from tidelog.broker.groups.streams.group import StreamsGroup

CLASSES: dict[GroupType, type[HeartbeatGroup[Any, Any]]] = {
    GroupType.CONSUMER: ConsumerGroup,
    GroupType.SHARE: ShareGroup,
    GroupType.STREAMS: StreamsGroup,
}
ALL = [(kind, version) for kind, entry in TYPES.items() for version in sorted(entry.key_versions)]
#: Those of the groups themselves.
GROUP_VERSIONS = {3, 11, 17}


def records(version: int) -> tuple[GroupRecord, GroupRecord]:
    """A record with a value in which all is as it is at first, and its tombstone."""
    kind = record_kind(version)
    assert kind is not None
    fields = {"group_id": "g"} | ({"member_id": "m"} if "member_id" in kind.key.__annotations__ else {})
    key = kind.key(**fields)
    return GroupRecord(key, kind.value()), GroupRecord(key, None)


@pytest.mark.parametrize(("kind", "version"), ALL)
def test_the_first_record_of_any_kind_makes_the_group_and_a_tombstone_does_not(kind: GroupType, version: int) -> None:
    put, forget = records(version)
    groups: Groups = {}
    replay(groups, forget)
    assert groups == {}
    replay(groups, put)
    assert type(groups["g"]) is CLASSES[kind]
    replay(groups, forget)
    assert ("g" in groups) == (version not in GROUP_VERSIONS)


@pytest.mark.parametrize(("kind", "version"), ALL)
def test_a_record_takes_the_place_of_a_group_of_another_type_and_a_tombstone_does_not(
    kind: GroupType, version: int
) -> None:
    put, forget = records(version)
    other = next(one for name, one in CLASSES.items() if name is not kind)("g")
    groups: Groups = {"g": other}
    replay(groups, forget)
    assert groups == {"g": other}
    replay(groups, put)
    assert type(groups["g"]) is CLASSES[kind]


@pytest.mark.parametrize(("kind", "version"), [row for row in ALL if row[1] not in GROUP_VERSIONS])
def test_a_tombstone_in_an_empty_group_changes_nothing(kind: GroupType, version: int) -> None:
    group = CLASSES[kind]("g")
    group.assignment_epoch = -1  # what the tombstone of a target's epoch makes it
    groups: Groups = {"g": group}
    replay(groups, records(version)[1])
    fresh = CLASSES[kind]("g")
    fresh.assignment_epoch = -1
    assert groups == {"g": group}
    for name in (
        slot for one in CLASSES[kind].__mro__ for slot in getattr(one, "__slots__", ()) if slot != "__weakref__"
    ):
        assert getattr(group, name, None) == getattr(fresh, name, None), name
