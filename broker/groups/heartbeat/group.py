"""One heartbeat group, and one member of it: the state that all types have, what `store.group.Group` asks of any group, and how
records become state.

A group's state is what its records say, nothing else: `replay` functions of its type change it, and nobody besides. So what a
restart reads is what was there, and a write that fails has changed nothing. Members and assignments are immutable values.

    group epoch        rises with each change of members, subscriptions or topics: the target has to be made anew
    assignment epoch   the group epoch that the target assignment was made for
    member epoch       the assignment epoch that the member has reached; 0 before it got its first answer, -2 while a static
                       member is away; its answer must be the present one, or the previous one if the last answer was lost

`GroupReplay` makes the replay functions of a type. A group comes into being with its first record of any kind, as in Kafka; a
tombstone for what is not there is no error: compaction may have removed what it forgot.

Loop thread, or the one thread that loads the group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from ..store.group import CommittedPartition, Committer, GroupType
from ..store.member_memory import MEMBER_COST, said_bytes, unusual
from .registry import Groups, RecordKind

if TYPE_CHECKING:
    from ....protocol.schema import Message
    from ...coordinator.internal_topic import CoordinatorRecord
    from .topic_image import TopicImage

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
AWAY_EPOCH = -2
"""A static member that will come back."""
FIRST_GROUP_EPOCH = 1
"""Group epoch before the first member has joined; that member makes it 2."""
NO_ASSIGNMENT_EPOCH = -1


class MemberState(IntEnum):
    """State of a member on its way to the target, with the number that records have. 127 stands for a state of a later Kafka."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatMember:
    """State of a member that all group types have. Equal members are written once."""

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topics: frozenset[str] = frozenset()

    @property
    def said(self) -> object:
        """The member's fields whose length the client decides, but for its names."""
        return self.subscribed_topics

    @property
    def said_bytes(self) -> int:
        """Bytes of what it said, and of what of its names is longer than usual, with its own cost."""
        return MEMBER_COST + said_bytes(
            (self.said, unusual(self.member_id, self.instance_id, self.rack_id, self.client_id))
        )

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


MemberT = TypeVar("MemberT", bound=HeartbeatMember)
TargetT = TypeVar("TargetT")


class HeartbeatGroup(ABC, Generic[MemberT, TargetT]):
    """`TargetT` is a member's target assignment: `Partitions`, or a streams group's tasks."""

    group_type: ClassVar[GroupType]
    __slots__ = (
        "_names", "assignment_epoch", "assignment_timestamp_ms", "group_epoch", "group_id", "image_seen",
        "members", "members_said", "metadata_hash", "static_members", "target",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_GROUP_EPOCH
        self.assignment_epoch = FIRST_GROUP_EPOCH
        #: Wall clock; 0 before the first.
        self.assignment_timestamp_ms = 0
        #: Of the topics that are subscribed to, as of the group epoch.
        self.metadata_hash = 0
        #: In the order of their first records.
        self.members: dict[str, MemberT] = {}
        #: Bytes of what they said.
        self.members_said = 0
        #: group.instance.id → member id.
        self.static_members: dict[str, str] = {}
        #: member id → what it is to have.
        self.target: dict[str, TargetT] = {}
        #: The `TopicImage.changes` at which the hash was compared last; not part of the state, so a restart compares anew.
        self.image_seen = -1
        self._names: dict[str, int] = {}

    @property
    def member_bytes(self) -> int:
        return self.members_said

    def bytes_of(self, member_id: str) -> int:
        member = self.members.get(member_id)
        return 0 if member is None else member.said_bytes

    # -- changes, for replay functions alone

    def put(self, member: MemberT) -> None:
        """Adds or changes a member."""
        old = self.members.get(member.member_id)
        self.members_said += member.said_bytes - (0 if old is None else old.said_bytes)
        self.members[member.member_id] = member
        if old is None or old.subscribed_topics != member.subscribed_topics:
            self._count(old, member)
        if old is not None and old.instance_id is not None and old.instance_id != member.instance_id:
            self._release(old)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def drop(self, member_id: str) -> None:
        """Forgets a member; no matter if there is none."""
        old = self.members.pop(member_id, None)
        if old is not None:
            self.members_said -= old.said_bytes
            self._count(old, None)
            self._release(old)

    def set_target(self, member_id: str, target: TargetT) -> None:
        self.target[member_id] = target

    def drop_target(self, member_id: str) -> None:
        self.target.pop(member_id, None)

    def _release(self, old: MemberT) -> None:
        # Its instance may be another member's by now: a static member that came back under a new id.
        if old.instance_id is not None and self.static_members.get(old.instance_id) == old.member_id:
            del self.static_members[old.instance_id]

    def _count(self, old: MemberT | None, new: MemberT | None) -> None:
        self._names = counted(
            self._names,
            None if old is None else old.subscribed_topics,
            None if new is None else new.subscribed_topics,
        )

    # -- questions

    def member(self, member_id: str) -> MemberT:
        """The member with this id. ProtocolError UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ProtocolError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> MemberT | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def known_instance(self, instance_id: str, member_id: str) -> MemberT:
        """The static member. Raises ProtocolError UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another has the instance now."""
        member = self.static_member(instance_id)
        if member is None:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise ProtocolError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
            )
        return member

    @property
    def names(self) -> Mapping[str, int]:
        """Topic → how many members name it."""
        return self._names

    def subscribed_topics(self) -> Collection[str]:
        """Topics that the group's members read, by name or by expression. The target is made of these."""
        return self._names.keys()

    @abstractmethod
    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode: ...

    @abstractmethod
    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode: ...

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]: ...

    @property
    @abstractmethod
    def state_name(self) -> str: ...

    @property
    def listed_protocol_type(self) -> str:
        return str(self.group_type)

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def may_expire(self) -> bool:
        return not self.members

    def may_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def may_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def retention_starts(self, commit_ms: int) -> int | None:
        return commit_ms

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r}, epoch={self.group_epoch}, members={len(self.members)})"


def counted(counts: dict[str, int], old: Iterable[str] | None, new: Iterable[str] | None) -> dict[str, int]:
    """A copy of `counts` with each of `old` once less and each of `new` once more."""
    counts = dict(counts)
    for name in old or ():
        if counts.get(name, 0) <= 1:
            counts.pop(name, None)
        else:
            counts[name] -= 1
    for name in new or ():
        counts[name] = counts.get(name, 0) + 1
    return counts


def metadata_hash(topics: Iterable[str], image: TopicImage) -> int:
    """Hash of the metadata that a target depends on: names, ids and partition counts of the topics that exist. Signed, 64 bits.

    Kafka has another function (XXH3) in the same place, and like us compares it only with what it wrote itself."""
    digest = blake2b(digest_size=8)
    count = 0
    for name in sorted(topics):
        topic = image.get(name)
        if topic is not None:
            count += 1
            digest.update(b"%b%d %b\n" % (topic.topic_id, topic.partition_count, name.encode()))
    return int.from_bytes(digest.digest(), "big", signed=True) if count else 0


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
