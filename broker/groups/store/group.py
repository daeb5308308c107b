"""The four types of groups, what all of them have in common, and which type may take over an id.

One registry holds all groups by id (`Shard.groups`). A classic group is a `classic.metadata.GroupMetadata`; the others are
`heartbeat.group.HeartbeatGroup`s (KIP-848 consumer, KIP-932 share, KIP-1071 streams). Shards, commits, listing, deletion and
expiry use a group of any type through `Group`.

`Visible` is a filter of the topics that a client may see: a group that is subscribed by an expression must not tell it of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ....protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ...coordinator.internal_topic import CoordinatorRecord

Visible = Callable[[frozenset[str]], frozenset[str]]
"""Keeps those of a set of topics that a client may know of."""


def all_visible(names: frozenset[str]) -> frozenset[str]:
    """`Visible` of a client that may see all topics."""
    return names


class GroupType(StrEnum):
    """Named as ListGroups shows them (KIP-848). Filters compare without regard to case."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


#: OffsetCommit from here on knows member epochs.
FIRST_WITH_MEMBER_EPOCH = 9
#: TxnOffsetCommit from here on tells an old member epoch from an old generation (KIP-1319).
FIRST_TRANSACTIONAL_WITH_STALE_EPOCH = 6


class Committer(NamedTuple):
    """The client that commits offsets. `version` is OffsetCommit's, or TxnOffsetCommit's if `transactional`."""

    member_id: str = ""
    group_instance_id: str | None = None
    generation: int = -1
    """The member epoch, in a heartbeat group."""
    transactional: bool = False
    version: int = 9

    @property
    def may_say_epoch(self) -> bool:
        """False for an OffsetCommit that is too old to have a member epoch; commits in transactions may be of any version."""
        return self.transactional or self.version >= FIRST_WITH_MEMBER_EPOCH

    @property
    def stale(self) -> ErrorCode:
        """Error code, in this version, of an epoch that is not the member's."""
        if self.transactional and self.version < FIRST_TRANSACTIONAL_WITH_STALE_EPOCH:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.STALE_MEMBER_EPOCH


class CommittedPartition(NamedTuple):
    """Partition that an offset is committed for. The topic's id is None where it is not known."""

    topic: str
    topic_id: bytes | None
    partition: int


class Group(Protocol):
    """Any group. Loop thread, or the one thread that loads it."""

    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """Name of the group's state, as ListGroups shows it."""

    @property
    def listed_protocol_type(self) -> str:
        """Protocol type as ListGroups shows it: `consumer`, `share`, …; empty where nobody ever joined."""

    @property
    def member_count(self) -> int: ...

    @property
    def member_bytes(self) -> int:
        """Bytes of the fields that all members have sent about themselves, as `member_memory.said_bytes` counts them."""

    def bytes_of(self, member_id: str) -> int:
        """The same for one member; 0 if there is no such member."""

    @property
    def static_members(self) -> Mapping[str, str]:
        """Member ids by group.instance.id."""

    @property
    def is_empty(self) -> bool:
        """True without members: the group may be deleted, and taken over by some types."""

    @property
    def may_expire(self) -> bool:
        """True if the group is deleted when it has no offsets left."""

    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode:
        """Why `committer` may not commit offsets for these partitions now, or NONE."""

    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Why who says to be this member may not fetch offsets, or NONE. No member: None and -1."""

    def may_delete(self) -> ErrorCode:
        """NONE, or NON_EMPTY_GROUP and the like."""

    def may_delete_offsets(self) -> ErrorCode:
        """Why no offsets can be deleted at all, or NONE."""

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads the topic: then the group's offsets of it are not deleted and do not expire."""

    def retention_starts(self, commit_ms: int) -> int | None:
        """Time in ms from which an offset committed at `commit_ms` is kept for the retention; None: it does not expire now."""

    def tombstones(self) -> list[CoordinatorRecord]:
        """Tombstones of the group's records in `__consumer_offsets`, without those of its offsets; in the order that Kafka writes
        them.
        """


class Claim(Enum):
    """Outcome of a request of one group type for an id that may be another type's."""

    NEW = "nobody has the id"
    KEEP = "a group of the type has it"
    REPLACE = "an empty group of another type has it: that goes, its offsets stay"
    MIGRATE = "members of both protocols are served in one group, as far as `group.consumer.migration.policy` says"
    REFUSE = "the id is taken"


_BOTH = (False, True)
#: (type asked for, type found, whether that is empty) → what follows; what is not named is refused. As Kafka 4.3 has it.
_CLAIMS: Mapping[tuple[GroupType, GroupType, bool], Claim] = {
    **{(kind, kind, empty): Claim.KEEP for kind in GroupType for empty in _BOTH},
    (GroupType.CLASSIC, GroupType.CONSUMER, True): Claim.REPLACE,
    (GroupType.CLASSIC, GroupType.CONSUMER, False): Claim.MIGRATE,
    (GroupType.CLASSIC, GroupType.STREAMS, True): Claim.REPLACE,
    (GroupType.CONSUMER, GroupType.CLASSIC, True): Claim.REPLACE,
    (GroupType.CONSUMER, GroupType.CLASSIC, False): Claim.MIGRATE,
    (GroupType.STREAMS, GroupType.CLASSIC, True): Claim.REPLACE,
}


def claim(wanted: GroupType, found: Group | None) -> Claim:
    """Decide on a request for a group of type `wanted` where `found` has the id."""
    if found is None:
        return Claim.NEW
    return _CLAIMS.get((wanted, found.group_type, found.is_empty), Claim.REFUSE)


def wanted_types(names: Collection[str]) -> frozenset[str]:
    """A filter of ListGroups: lower case, without blanks."""
    return frozenset(name.strip().lower() for name in names)
