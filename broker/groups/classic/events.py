"""Input and output of the classic group protocol, as frozen values: requests, results and effects.

Requests are what members ask (without the wire's versions), results are what they are told, effects are what the
state machine in `rebalance.py` wants done by whoever drives it (`membership.py`): answer somebody who waits,
start or stop a delay, write the group to the log. The machine itself does none of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ....protocol.errors import ErrorCode
from ..store.group import Visible, all_visible
from ..store.member_memory import NEW_MEMBER, unusual

#: The member id and the generation of a request that comes from no member.
UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1

#: Stands for one waiting answer. The machine stores it and hands it back; what it is, the driver knows.
Ticket = object


class GroupProtocol(NamedTuple):
    """One protocol (an assignor's name, for consumers) that a member can use, with its subscription in that form."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """One JoinGroup. Times in milliseconds."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    requires_known_member_id: bool = True
    """KIP-394, JoinGroup from version 4: a new dynamic member first gets its id, then joins with it."""
    supports_skip_assignment: bool = True
    """KIP-814, JoinGroup from version 9: a static leader that comes back is told the members, and not to assign."""
    reason: str | None = None
    visible: Visible = all_visible
    """Filter of the topics that this client may see: matches of its group's expressions are limited to these."""

    @property
    def said(self) -> object:
        """The fields whose length the client decides. A new member's id will have its client's or instance's name in it."""
        named = self.client_id if self.group_instance_id is None else self.group_instance_id
        names = unusual(self.member_id or named, self.group_instance_id, self.client_id, self.protocol_type)
        return self.protocols, names, NEW_MEMBER


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """Answer to a JoinGroup. `members` is filled for the leader only."""

    error: ErrorCode
    member_id: str
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """One SyncGroup. `assignments` comes from the leader; the others send none."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to one SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """One entry of a LeaveGroup: a member by its id, or a static one by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class LeftMember(NamedTuple):
    """Result of one entry of a LeaveGroup."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


# -- effects


class JoinAnswered(NamedTuple):
    """Answer the JoinGroup behind `ticket`."""

    ticket: Ticket
    result: JoinResult


class SyncAnswered(NamedTuple):
    """Answer the SyncGroup behind `ticket`."""

    ticket: Ticket
    result: SyncResult


class SessionStarted(NamedTuple):
    """The member has to be heard of within `timeout_ms` from now; any earlier deadline of it is forgotten."""

    member_id: str
    timeout_ms: int


class SessionEnded(NamedTuple):
    """Cancel the session of a member that is gone, or has to be waited for no more."""

    member_id: str


class JoinDeadlineSet(NamedTuple):
    """Call `join_deadline_passed` after `delay_ms`; any earlier deadline of the kind is forgotten.

    `remaining_ms` is what is left of the initial rebalance delay after that, None when this is not the initial one."""

    delay_ms: int
    remaining_ms: int | None = None


class JoinDeadlineCleared(NamedTuple):
    """Cancel the delay for joining: all members have joined."""


class SyncDeadlineSet(NamedTuple):
    """Call `sync_deadline_passed(generation)` after `delay_ms`; any earlier deadline of the kind is forgotten."""

    delay_ms: int
    generation: int


class SyncDeadlineCleared(NamedTuple):
    """All members have synced, or need not any more."""


class AssignmentReceived(NamedTuple):
    """Reason to write the group: its leader sent the assignment. The members get theirs when it is written."""

    generation: int
    assignments: Mapping[str, bytes]


class StaticMemberReplaced(NamedTuple):
    """Reason to write the group: a static member came back under a new id and the assignment stays as it is.

    Carries what is needed to take it back if the write fails."""

    request: JoinRequest
    old_member_id: str
    new_member_id: str
    old_protocols: tuple[GroupProtocol, ...]
    old_rebalance_timeout_ms: int
    old_session_timeout_ms: int
    old_leader: str | None


class GroupEmptied(NamedTuple):
    """Reason to write the group: its last member has gone. Nobody waits for the write."""


class StoreGroup(NamedTuple):
    """Write the group as it stands, with `assignments`, then call `group_stored` with the reason."""

    assignments: Mapping[str, bytes]
    reason: AssignmentReceived | StaticMemberReplaced | GroupEmptied


Effect = (
    JoinAnswered
    | SyncAnswered
    | SessionStarted
    | SessionEnded
    | JoinDeadlineSet
    | JoinDeadlineCleared
    | SyncDeadlineSet
    | SyncDeadlineCleared
    | StoreGroup
)
Effects = list[Effect]


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The settings that the state machine obeys (`group.*`), in milliseconds and members."""

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    new_member_join_timeout_ms: int = 5 * 60 * 1000
    """A new member's JoinGroup is given up after this long: it cannot send heartbeats yet, and its connection may be
    gone unnoticed. Not a setting in Kafka either."""


@dataclass(frozen=True, slots=True)
class DescribedMember:
    """A member as DescribeGroups shows it. Metadata is empty unless the group is stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group as DescribeGroups and ListGroups show it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str = ""
    members: Sequence[DescribedMember] = ()
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
