"""One classic group: its state, its members, and the tables that say what each state allows.

                   +--------------------- the last member is gone ----------------------+
                   v                                                                    |
    Empty -- first join --> PreparingRebalance -- all joined, or time is up --> CompletingRebalance -- stored --> Stable
                   ^               ^                                                    |                            |
                   |               +------ a member joins, leaves, fails or changes ----+----------------------------+
                   +-- nobody joined in time
    Any state --> Dead: the group is deleted, or the coordinator stops.

This module holds the data and the rules about them; what a request or a time-out does to a group is in
`rebalance.py`. No I/O, no clock, no randomness: times and new ids come as arguments. Loop thread only, except while
a group is being loaded, when one pool thread owns it.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from ....protocol.errors import ErrorCode
from ...coordinator.internal_topic import CoordinatorRecord
from ..store.group import CommittedPartition, Committer, GroupType
from ..store.member_memory import MEMBER_COST, PENDING_BYTES, said_bytes, unusual
from ..store.records import group_key
from .events import (
    DescribedGroup,
    DescribedMember,
    Effects,
    GroupProtocol,
    JoinAnswered,
    JoinedMember,
    JoinResult,
    SyncAnswered,
    SyncResult,
    Ticket,
)

#: Protocol type of Java's consumers and all who do as they do: their subscriptions can be read (see below).
CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(StrEnum):
    """Named as ListGroups and DescribeGroups show them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING_REBALANCE, COMPLETING_REBALANCE, STABLE, DEAD = GroupState

#: From a state to those that may follow it. Nothing follows Dead: a group of the same name is a new one.
TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = {
    EMPTY: frozenset({PREPARING_REBALANCE, DEAD}),
    PREPARING_REBALANCE: frozenset({COMPLETING_REBALANCE, EMPTY, DEAD}),
    COMPLETING_REBALANCE: frozenset({PREPARING_REBALANCE, STABLE, DEAD}),
    STABLE: frozenset({PREPARING_REBALANCE, DEAD}),
    DEAD: frozenset(),
}

#: Answer to a heartbeat whose member and generation are right. (Empty has no members, so only a race gets there.)
HEARTBEAT_ANSWER: Mapping[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    COMPLETING_REBALANCE: ErrorCode.NONE,
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

#: Answer to a commit whose member and generation are right. CompletingRebalance: the member knows the new generation
#: but not yet what it owns in it. PreparingRebalance takes commits: cooperative and eager members commit what they
#: give up just before they rejoin.
COMMIT_ANSWER: Mapping[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NONE,
    COMPLETING_REBALANCE: ErrorCode.REBALANCE_IN_PROGRESS,
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

#: True if the group may be deleted.
DELETE_ANSWER: Mapping[GroupState, ErrorCode] = {
    EMPTY: ErrorCode.NONE,
    PREPARING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    COMPLETING_REBALANCE: ErrorCode.NON_EMPTY_GROUP,
    STABLE: ErrorCode.NON_EMPTY_GROUP,
    DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


class Member:
    """One member. A static one has a `group_instance_id`, and its id changes each time that instance starts."""

    __slots__ = (
        "assignment", "client_host", "client_id", "group_instance_id", "is_new", "join_ticket", "member_id",
        "protocol_type", "protocols", "rebalance_timeout_ms", "session_timeout_ms", "sync_ticket",
    )  # fmt: skip

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: tuple[GroupProtocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        self.is_new = False

    @property
    def long_names(self) -> tuple[str, ...]:
        """What of its names is longer than usual."""
        return unusual(self.member_id, self.group_instance_id, self.client_id, self.protocol_type)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's subscription under that protocol; empty if it does not know the protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """The first of its own protocols that is a candidate; there is one."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    @property
    def may_expire(self) -> bool:
        """False while the member waits for the answer to a join or a sync: that shows that it is alive. A new member's first join
        is limited all the same (GroupLimits).
        """
        return self.is_new or (self.join_ticket is None and self.sync_ticket is None)


class GroupMetadata:
    """State and members of one group. The order of `members` is that of joining."""

    __slots__ = (
        "generation", "group_id", "initial_rebalance", "leader_id", "member_bytes", "members", "new_member_added",
        "pending_join_members", "pending_sync_members", "protocol_counts", "protocol_name", "protocol_type", "state",
        "state_timestamp_ms", "static_members", "subscribed_topics",
    )  # fmt: skip

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = EMPTY
        #: Wall clock of the last change of state; None when read from a record that is too old to have it.
        self.state_timestamp_ms: int | None = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        #: Of all members' protocols and long names, and of ids given out.
        self.member_bytes = 0
        #: Number of members that know each protocol. (Kept, not computed: each join of a large group asks.)
        self.protocol_counts: dict[str, int] = {}
        #: group.instance.id to the member id that it has now.
        self.static_members: dict[str, str] = {}
        #: Ids given out and not yet joined with (KIP-394).
        self.pending_join_members: set[str] = set()
        #: Members of this generation that have not asked for their assignment.
        self.pending_sync_members: set[str] = set()
        #: Topics that any member reads; None when it cannot be known. A subscribed topic's offsets do not expire.
        self.subscribed_topics: frozenset[str] | None = None
        #: True from the first join of an empty group to the end of that rebalance: it waits for more members.
        self.initial_rebalance = False
        self.new_member_added = False

    # -- what all types of groups are asked (`store/group.py`)

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return str(self.state)

    @property
    def listed_protocol_type(self) -> str:
        return self.protocol_type or ""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def may_expire(self) -> bool:
        # Ids given out in an empty group (KIP-394) are about to be joined with, so such a group stays.
        return self.state is EMPTY and not self.pending_join_members

    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode:
        check = self.check_transactional_commit if committer.transactional else self.check_commit
        return check(committer.member_id, committer.group_instance_id, committer.generation)

    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    def may_delete(self) -> ErrorCode:
        return DELETE_ANSWER[self.state]

    def may_delete_offsets(self) -> ErrorCode:
        """KIP-496: of members whose subscriptions cannot be known, nobody can tell what they read."""
        return ErrorCode.NONE if self.protocol_type == CONSUMER_PROTOCOL_TYPE else DELETE_ANSWER[self.state]

    def is_subscribed_to(self, topic: str) -> bool:
        """Unknown subscriptions of consumers count as subscribed: their offsets are kept."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def retention_starts(self, commit_ms: int) -> int | None:
        """KIP-211: at the commit; in an empty group that once had members, when it became empty."""
        if self.protocol_type is None:
            return commit_ms
        if self.state is EMPTY:
            return commit_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        known = self.protocol_type == CONSUMER_PROTOCOL_TYPE and self.subscribed_topics is not None
        return commit_ms if self.state is STABLE and known else None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(group_key(self.group_id), None)]

    # -- questions

    @property
    def rebalance_timeout_ms(self) -> int:
        """The slowest member sets the time that all have."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def awaiting_join(self) -> int:
        return sum(1 for member in self.members.values() if member.join_ticket is not None)

    @property
    def has_all_members_joined(self) -> bool:
        return not self.pending_join_members and all(member.join_ticket is not None for member in self.members.values())

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (another process runs under the same instance id), or NONE."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Check that this committer may commit now; the error code, NONE if it may."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE  # a consumer that assigns itself, or an administrator
        if generation >= 0 or member_id or group_instance_id is not None:
            error = self.check_member(member_id, group_instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif self.state is not EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return COMMIT_ANSWER[self.state]

    def check_transactional_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Check that this committer may commit in a transaction now; the error code, NONE if it may.

        Producers name their member since KIP-447 only; one that does not is let in, as its epoch fences it. A rebalance does
        not keep a transaction from committing what it has read."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and (self.state is EMPTY or not (member_id or group_instance_id is not None)):
            return ErrorCode.NONE
        error = self.check_member(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """True if a member with these protocols could join."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(names)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts.get(name, 0) == everybody for name in names
        )

    def candidate_protocols(self) -> set[str]:
        """Protocols that every member knows."""
        everybody, counts = len(self.members), self.protocol_counts
        # Any member's are enough to look at: `counts` has those that only one member knows, too.
        anybody = next(iter(self.members.values()), None)
        names = () if anybody is None else (protocol.name for protocol in anybody.protocols)
        return {name for name in names if counts[name] == everybody}

    def select_protocol(self) -> str:
        """The candidate with most votes; among equals, the one first voted for."""
        candidates = self.candidate_protocols()
        assert candidates, f"members of group {self.group_id} have no protocol in common"
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Members with their metadata, as the leader gets them to make the assignment."""
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    def describe(self) -> DescribedGroup:
        stable = self.state is STABLE
        return DescribedGroup(
            self.group_id,
            str(self.state),
            self.protocol_type or "",
            (self.protocol_name or "") if stable else "",
            tuple(
                DescribedMember(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(self.protocol_name) if stable else b"",
                    member.assignment,
                )
                for member in self.members.values()
            ),
        )

    # -- changes

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        assert state in TRANSITIONS[self.state], f"group {self.group_id}: {self.state} may not become {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def add(self, member: Member, ticket: Ticket | None) -> None:
        """A new member, which waits for its join if it has a ticket. The first one is the leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocols, 1)
        self.member_bytes += MEMBER_COST + said_bytes(member.long_names)
        member.join_ticket = ticket
        self._withdraw(member.member_id)

    def give_out(self, member_id: str) -> None:
        """The id is somebody's who will join with it."""
        self.pending_join_members.add(member_id)
        self.member_bytes += PENDING_BYTES + len(member_id)

    def _withdraw(self, member_id: str) -> None:
        if member_id in self.pending_join_members:
            self.pending_join_members.remove(member_id)
            self.member_bytes -= PENDING_BYTES + len(member_id)

    def remove(self, member_id: str) -> None:
        """Forgets a member or an id given out; the next in line leads if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocols, -1)
            self.member_bytes -= MEMBER_COST + said_bytes(member.long_names)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._withdraw(member_id)
        self.pending_sync_members.discard(member_id)

    def update(
        self,
        member: Member,
        protocols: tuple[GroupProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        ticket: Ticket | None,
        effects: Effects,
    ) -> None:
        """The member joins again and waits for the answer. An older JoinGroup of it that still waits was given up by
        its client (its connection broke, or timed out); it is told to try again, so that no answer is owed for ever."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id), effects)
        member.join_ticket = ticket

    def bytes_of(self, member_id: str) -> int:
        member = self.members.get(member_id)
        return 0 if member is None else MEMBER_COST + said_bytes((member.protocols, member.long_names))

    def _count(self, protocols: tuple[GroupProtocol, ...], by: int) -> None:
        self.member_bytes += by * said_bytes(protocols)
        counts = self.protocol_counts
        for name in {protocol.name for protocol in protocols}:
            count = counts.get(name, 0) + by
            if count:
                counts[name] = count
            else:
                del counts[name]

    def replace_static_member(self, group_instance_id: str, old_id: str, new_id: str, effects: Effects) -> Member:
        """The instance goes on under a new id; a request that waits under the old one is fenced."""
        old = self.members[old_id]
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.answer_join(old, JoinResult(fenced, old_id), effects)
        self.answer_sync(old, SyncResult(fenced), effects)
        new = Member(
            new_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocol_type,
            old.protocols,
            old.assignment,
        )
        self.member_bytes += said_bytes(new.long_names) - said_bytes(old.long_names)
        # Same place in the order of members as before.
        self.members = {
            (new_id if member_id == old_id else member_id): (new if member_id == old_id else member)
            for member_id, member in self.members.items()
        }
        if old_id in self.pending_sync_members:
            self.pending_sync_members.discard(old_id)
            self.pending_sync_members.add(new_id)
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.static_members[group_instance_id] = new_id
        return new

    def elect_joined_leader(self) -> bool:
        """Makes sure that the leader is somebody who has rejoined. False when nobody has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    def start_next_generation(self, now_ms: int) -> None:
        """Go from PreparingRebalance to CompletingRebalance, or to Empty when there are no members, in the next generation."""
        self.generation += 1
        self.pending_sync_members.clear()
        self.initial_rebalance = False
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition_to(EMPTY, now_ms)
        self.subscribed_topics = self.compute_subscribed_topics()

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """None for groups that are not of consumers, and where a member's subscription cannot be read, or all of them have more
        than `MOST_TOPICS` names to read. Lists that several members have alike are read once."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        topics: set[str] = set()
        lists: list[bytes] = []
        left = MOST_TOPICS
        for member in self.members.values():
            metadata = member.metadata(self.protocol_name)
            if any(metadata.startswith(known, _VERSION_BYTES) for known in lists):
                continue
            found = _topic_list(metadata, left)
            if found is None:
                return None
            names, end = found
            topics.update(names)
            left -= len(names)
            if len(lists) < _LISTS:
                lists.append(metadata[_VERSION_BYTES:end])
        return frozenset(topics)

    @staticmethod
    def answer_join(member: Member, result: JoinResult, effects: Effects) -> None:
        """Answers the member's JoinGroup, if it waits for one."""
        if member.join_ticket is not None:
            effects.append(JoinAnswered(member.join_ticket, result))
            member.join_ticket = None

    @staticmethod
    def answer_sync(member: Member, result: SyncResult, effects: Effects) -> bool:
        """Answers the member's SyncGroup, if it waits for one."""
        if member.sync_ticket is None:
            return False
        effects.append(SyncAnswered(member.sync_ticket, result))
        member.sync_ticket = None
        return True


_SUBSCRIPTION_HEAD = struct.Struct(">hi")  # version, number of topics; all later versions begin the same way
_VERSION_BYTES = 2
_STRING_LENGTH = struct.Struct(">h")
MOST_TOPICS = 10_000
"""Names that are read of the subscriptions of a group each time that a generation begins, 4 ms of the loop; a member may bring
300,000. Of a group with more it is not known what it reads, so that its offsets stay."""
_LISTS = 16
"""Different lists of topics that are remembered, so that members who subscribe alike cost the comparison."""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Topics of a consumer's subscription (ConsumerProtocolSubscription, any version); None when it is not one, or has more than
    `MOST_TOPICS`."""
    found = _topic_list(metadata, MOST_TOPICS)
    return None if found is None else frozenset(found[0])


def _topic_list(metadata: bytes, most: int) -> tuple[list[str], int] | None:
    """Names in a consumer's subscription, and where they end in it; None when it is not one, or has more than `most`."""
    if len(metadata) < _SUBSCRIPTION_HEAD.size:
        return None
    _, count = _SUBSCRIPTION_HEAD.unpack_from(metadata)
    position = _SUBSCRIPTION_HEAD.size
    if not 0 <= count <= min(most, (len(metadata) - position) // _STRING_LENGTH.size):
        return None
    topics = []
    for _ in range(count):
        if position + _STRING_LENGTH.size > len(metadata):
            return None
        (length,) = _STRING_LENGTH.unpack_from(metadata, position)
        position += _STRING_LENGTH.size
        if not 0 <= length <= len(metadata) - position:
            return None
        try:
            topics.append(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return topics, position
