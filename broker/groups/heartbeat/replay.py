"""Replay of records into groups: the part that all types and kinds of records have in common.

A group comes into being with its first record of any kind, as in Kafka. A tombstone for what is not there is no error: compaction
may have removed what it forgot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .group import NO_ASSIGNMENT_EPOCH, HeartbeatGroup
from .registry import Groups, RecordKind

if TYPE_CHECKING:
    from ....protocol.schema import Message

KeyT = TypeVar("KeyT", bound="Message")
ValueT = TypeVar("ValueT", bound="Message")
AnyGroup = HeartbeatGroup[Any, Any]
GroupT = TypeVar("GroupT", bound=AnyGroup)


class GroupReplay(Generic[GroupT]):
    """Makes the `RecordKind`s of one type of group from what is particular to each."""

    def __init__(self, kind: type[GroupT]) -> None:
        self._kind = kind

    def group(self, key: type[KeyT], value: type[ValueT], put: Callable[[GroupT, ValueT], None]) -> RecordKind:
        """A record of the group itself, which its tombstone forgets with all that is in it."""

        def replay(groups: Groups, key: Any, value: ValueT | None) -> None:
            if value is not None:
                put(self._present(groups, key.group_id), value)
            elif self._existing(groups, key.group_id) is not None:
                del groups[key.group_id]

        return RecordKind(key, value, replay)

    def part(
        self,
        key: type[KeyT],
        value: type[ValueT],
        put: Callable[[GroupT, KeyT, ValueT], None],
        forget: Callable[[GroupT, KeyT], None],
    ) -> RecordKind:
        """A record of something in the group, which its tombstone forgets."""

        def replay(groups: Groups, key: Any, value: ValueT | None) -> None:
            if value is not None:
                put(self._present(groups, key.group_id), key, value)
                return
            group = self._existing(groups, key.group_id)
            if group is not None:
                forget(group, key)

        return RecordKind(key, value, replay)

    def _existing(self, groups: Groups, group_id: str) -> GroupT | None:
        """The group, where there is one of this type."""
        group = groups.get(group_id)
        return group if isinstance(group, self._kind) else None

    def _present(self, groups: Groups, group_id: str) -> GroupT:
        """The group, made if need be: in the place of one of another type, whose tombstone compaction may have removed."""
        group = self._existing(groups, group_id)
        if group is None:
            group = groups[group_id] = self._kind(group_id)
        return group


def forget_member(group: AnyGroup, key: Any) -> None:
    group.drop(key.member_id)


def forget_target(group: AnyGroup, key: Any) -> None:
    group.drop_target(key.member_id)


def put_target_epoch(group: AnyGroup, _key: Any, value: Any) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp


def forget_target_epoch(group: AnyGroup, _key: Any) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = NO_ASSIGNMENT_EPOCH, 0
