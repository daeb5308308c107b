"""Outcomes of machines: frozen values that `runtime.HeartbeatGroups` carries out.

In this order: the records are written as one batch (if that fails, the request fails and nothing has happened), then replayed
into the groups, then delays are set, then the answer goes out when the write is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ....protocol.schema import Message
from ...coordinator.internal_topic import CoordinatorRecord
from ..store.group import Group
from ..store.timers import DelayKind

T = TypeVar("T")


class GroupRecord(NamedTuple):
    """One record of a heartbeat group. A null value is a tombstone."""

    key: Message
    value: Message | None


class Delay(NamedTuple):
    """Key of a delay: its kind and its member. `epoch`: the member's when the delay was set, for kinds that compare it."""

    kind: DelayKind
    member_id: str = ""
    epoch: int = 0


class DelaySet(NamedTuple):
    """Call the machine's `delay_passed` after `delay_ms`. An earlier delay of the kind is forgotten, or stays if `absent`
    says that only the first counts."""

    delay: Delay
    delay_ms: int
    absent: bool = False


class DelayCleared(NamedTuple):
    """Nobody waits for it any more; its epoch does not matter."""

    delay: Delay


class MemberGone(NamedTuple):
    """All delays of the member are forgotten."""

    member_id: str


Effect = DelaySet | DelayCleared | MemberGone


class Work(NamedTuple):
    """Something that takes long: `run` in a pool thread, then `then(group, result, now)` on the loop thread gives the outcome.

    One piece of work a group is under way at a time; what comes meanwhile is left out, and later heartbeats ask again."""

    run: Callable[[], Any]
    then: Callable[[Any, Any, int], Outcome[None] | None]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """`answer` if all goes well; `records` in the order in which they are replayed."""

    answer: T
    records: Sequence[GroupRecord | CoordinatorRecord] = ()
    effects: Sequence[Effect] = ()
    replaced: Group | None = None
    """A group of another type that has the id until now: its tombstones are written first."""
    successor: Group | None = None
    """A group that takes the id after the records: written by them, but of another type, so not replayed."""
    rebalance_successor: str | None = None
    """Why the successor's members have to join it at once; None: they go on with what they have."""
    work: Work | None = None
    rebalanced: bool = False
    """The group epoch rose: counted by metrics."""
    note: Callable[[Group | None], None] | None = None
    """Called with the group as it is after the records: puts down what a group knows until the daemon stops, in no record."""
