"""One share group of KIP-932 and its members.

    Empty    no members        Stable   some

A member has what its target says from its next heartbeat on: nothing has to be given up first, since members may read the
same partition. Only partitions are assigned whose state is kept (`initialized`, in `__share_group_state`); how far they are
read the group does not know, and it has no committed offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode
from ..assignors import Partitions
from ..heartbeat.group import HeartbeatGroup, HeartbeatMember
from ..store.group import CommittedPartition, Committer, GroupType

if TYPE_CHECKING:
    from ...coordinator.internal_topic import CoordinatorRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMember(HeartbeatMember):
    """`assigned` is what it reads."""

    assigned: Partitions = field(default_factory=dict)


class StatePartitions(NamedTuple):
    """Partitions of one topic."""

    name: str
    partitions: frozenset[int]


class ShareGroup(HeartbeatGroup[ShareMember, Partitions]):
    """Changed by the replay functions of `member_records.py` alone."""

    group_type = GroupType.SHARE
    __slots__ = ("compared", "compared_with", "deleting", "has_state", "initialized", "initializing")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        #: By topic id.
        self.initializing: Mapping[bytes, StatePartitions] = {}
        self.initialized: Mapping[bytes, StatePartitions] = {}
        #: Topic id → name.
        self.deleting: Mapping[bytes, str] = {}
        #: Whether there is a record of these.
        self.has_state = False
        #: Assignment epoch, `TopicImage.changes` and `initialized` when these were found to agree last; no part of the state.
        self.compared = (-1, -1)
        self.compared_with: Mapping[bytes, StatePartitions] | None = None

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def may_expire(self) -> bool:
        return False

    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def tombstones(self) -> list[CoordinatorRecord]:
        from ..heartbeat.registry import encoded
        from .member_records import tombstones

        return [encoded(record) for record in tombstones(self)]
