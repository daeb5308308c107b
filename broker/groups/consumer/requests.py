"""Requests of members of consumer groups and their results: frozen values, without the wire's versions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ....protocol.errors import ErrorCode, ProtocolError
from ..assignors import Partitions
from ..heartbeat.group import AWAY_EPOCH, JOINING_EPOCH, LEAVING_EPOCH
from ..store.visible_topics import Visible, all_visible
from .group import Owned

NOT_GIVEN = -1


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """One ConsumerGroupHeartbeat. What is None (or -1) has not changed since the last one. Times in milliseconds."""

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    subscribed_topics: frozenset[str] | None = None
    expression: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    visible: Visible = all_visible
    """Filter of the topics that this client may see: matches of an expression are limited to these."""
    chooses_id: bool = True
    """From version 1 on members choose their ids; before, the answer to the first heartbeat brings one."""

    @property
    def is_full(self) -> bool:
        """True for a full request (every field is set). It gets a full answer: a client that is not sure of its state asks so."""
        subscribes = self.subscribed_topics is not None or self.expression is not None
        return self.rebalance_timeout_ms != NOT_GIVEN and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """The answer; `assignment` is None where it has not changed."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Owned | None = None


def check(request: HeartbeatRequest, assignors: Collection[str]) -> None:
    """Raises ProtocolError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what can be told without looking at the group."""
    epoch = request.member_epoch
    if (request.chooses_id or epoch > 0 or epoch == LEAVING_EPOCH) and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == NOT_GIVEN:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topics is None and request.expression is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif epoch == AWAY_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < AWAY_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _invalid(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
