"""One consumer group of KIP-848 and its members.

    Empty        no members
    Assigning    the group epoch is ahead of the assignment's: the next heartbeat that may, makes a new target
    Reconciling  some member has not reached the target
    Stable       all have

A member speaks the consumer protocol, or the classic one while a group moves from one to the other (`classic` is set then).
What it owns is known with the member epoch at which it got each partition: a commit from before that is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from ..assignors import Partitions
from ..classic.events import GroupProtocol
from ..heartbeat.group import HeartbeatGroup, HeartbeatMember, counted
from ..heartbeat.regex_subscription import ResolvedExpression
from ..store.group import CommittedPartition, Committer, GroupType

if TYPE_CHECKING:
    from ...coordinator.internal_topic import CoordinatorRecord

#: Topic id → partition → member epoch at which the member got it.
Owned = Mapping[bytes, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """Additional state of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember(HeartbeatMember):
    """`expression` is empty where the member has none. `pending` is to be revoked: it may still use that."""

    rebalance_timeout_ms: int = -1
    expression: str = ""
    server_assignor: str | None = None
    assigned: Owned = field(default_factory=dict)
    pending: Owned = field(default_factory=dict)
    classic: ClassicMember | None = None

    @property
    def said(self) -> object:
        return self.subscribed_topics, self.expression, () if self.classic is None else self.classic.protocols


class ConsumerGroup(HeartbeatGroup[ConsumerMember, Partitions]):
    """Changed by the replay functions of `records.py` alone."""

    group_type = GroupType.CONSUMER
    __slots__ = ("_owners", "_resolved_names", "expressions", "has_partition_metadata", "resolved")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        #: Topic id → partition → the member that has it or has not given it up yet.
        self._owners: dict[bytes, dict[int, str]] = {}
        #: Expression → how many members have it.
        self.expressions: dict[str, int] = {}
        self.resolved: dict[str, ResolvedExpression] = {}
        self._resolved_names: dict[str, int] = {}
        #: True if an older Kafka left a PartitionMetadata record; the next change writes its tombstone.
        self.has_partition_metadata = False

    # -- changes

    def put(self, member: ConsumerMember) -> None:
        self._disown(self.members.get(member.member_id))
        old = self.members.get(member.member_id)
        super().put(member)
        for owned in (member.assigned, member.pending):
            for topic_id, partitions in owned.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))
        self._express(old, member)

    def drop(self, member_id: str) -> None:
        old = self.members.get(member_id)
        self._disown(old)
        super().drop(member_id)
        self._express(old, None)

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """The expression's topics; None forgets them."""
        old = self.resolved.pop(expression, None)
        if resolved is not None:
            self.resolved[expression] = resolved
        self._resolved_names = counted(self._resolved_names, old and old.topics, resolved and resolved.topics)

    def _disown(self, old: ConsumerMember | None) -> None:
        for owned in () if old is None else (old.assigned, old.pending):
            for topic_id, partitions in owned.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if old is not None and owners.get(partition) == old.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _express(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        before, after = old.expression if old else "", new.expression if new else ""
        if before != after:
            self.expressions = counted(self.expressions, [before] * bool(before), [after] * bool(after))

    # -- questions

    def owner(self, topic_id: bytes, partition: int) -> str | None:
        """The member that has the partition or has not given it up yet."""
        return self._owners.get(topic_id, {}).get(partition)

    def subscribed_topics(self) -> Collection[str]:
        return self.names.keys() | self._resolved_names.keys() if self._resolved_names else self.names.keys()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or topic in self._resolved_names

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """Names of the topics that this member reads: subscribed by name, and matched by its expression."""
        resolved = self.resolved.get(member.expression) if member.expression else None
        return member.subscribed_topics if resolved is None else member.subscribed_topics | resolved.topics

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        stable = all(member.is_reconciled_to(epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    def preferred_assignor(self, replaced: str = "", member: ConsumerMember | None = None) -> str | None:
        """The assignor that most members prefer, the first of equals. `member` counts instead of the member with the id
        `replaced`.
        """
        votes: dict[str, int] = {}
        for each in self.members.values():
            chosen = each if member is None or each.member_id not in (replaced, member.member_id) else None
            if chosen is not None and chosen.server_assignor is not None:
                votes[chosen.server_assignor] = votes.get(chosen.server_assignor, 0) + 1
        if member is not None and member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
        return max(votes, key=votes.__getitem__) if votes else None

    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode:
        """A commit with an older member epoch counts for partitions that the member has had since then without a break."""
        member_id, instance_id, epoch, transactional, _ = committer
        if epoch < 0 and not self.members:
            return ErrorCode.NONE  # an administrator, or a consumer that assigns itself
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member.classic is None and not committer.may_say_epoch:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        stale = committer.stale if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        if epoch > member.member_epoch:
            return stale
        for _, topic_id, partition in partitions:
            got = assignment_epoch(member, topic_id, partition)
            if got is None or epoch < got:
                return stale
        return ErrorCode.NONE

    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_epoch != member.member_epoch:
            return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE

    def tombstones(self) -> list[CoordinatorRecord]:
        from ..heartbeat.registry import encoded
        from .records import group_tombstones

        return [encoded(record) for record in group_tombstones(self)]


def assignment_epoch(member: ConsumerMember, topic_id: bytes | None, partition: int) -> int | None:
    """At which epoch the member got the partition that it has, or has not given up yet; None for others."""
    if topic_id is None:
        return None
    epoch = member.assigned.get(topic_id, NOTHING_OF_TOPIC).get(partition)
    return member.pending.get(topic_id, NOTHING_OF_TOPIC).get(partition) if epoch is None else epoch


NOTHING_OF_TOPIC: Mapping[int, int] = {}
