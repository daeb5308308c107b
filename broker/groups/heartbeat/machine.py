"""Interface of a type of heartbeat group for `runtime.HeartbeatGroups`: the machine that decides, what it may read, and what it
returns.

`runtime` carries an `Outcome` out in this order: the records are written as one batch (if that fails, the request fails and
nothing has happened), then replayed into the groups, then delays are set, then the answer goes out when the write is durable.

A machine reads its `Environment` alone: topics, new member ids, and `GroupSettings`, where a group's own setting
(IncrementalAlterConfigs on a GROUP resource) wins over the broker's. That value was checked when it was set; where the broker's
limits have been narrowed since, it is moved into them, as Kafka 4.3 does.

Outcomes are frozen values. Loop thread, but for the `run` of a `Work`.
"""

from __future__ import annotations

import random
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from ....config.group_limits import LIMITED, int_value
from ....protocol.schema import Message
from ...coordinator.internal_topic import CoordinatorRecord
from ..store.group import Group
from ..store.timers import DelayKind

if TYPE_CHECKING:
    from ....config.broker_config import BrokerConfig
    from ...metadata.topology_descriptions import TopologyDescriptions
    from .topic_image import TopicImage

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
    """Call the machine's `delay_passed` after `delay_ms`. It replaces the member's delay of that kind; with `absent`, one that is
    under way stays, and this one is dropped."""

    delay: Delay
    delay_ms: int
    absent: bool = False


class DelayCleared(NamedTuple):
    """Cancel the member's delay of that kind, whichever epoch it was set with. None need be under way."""

    delay: Delay


class MemberGone(NamedTuple):
    """The member has left, or was put out: cancel all its delays, and call `HeartbeatGroups.on_member_gone`."""

    member_id: str


Effect = DelaySet | DelayCleared | MemberGone


class Work(NamedTuple):
    """Something that takes long: `run` in a pool thread, then `then(group, result, now_ms)` on the loop thread gives the outcome.

    One piece of work a group is under way at a time; what is asked for meanwhile is dropped, and later heartbeats ask again."""

    run: Callable[[], Any]
    then: Callable[[Any, Any, int], Outcome[None] | None]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """Decision of a machine, not yet carried out: `answer` is given when the records are written, and replayed in their order."""

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


class GroupSettings:
    """`config` gives the broker's settings as they are now, `own` those that a group was given, as text."""

    __slots__ = ("_config", "_own")

    def __init__(self, config: Callable[[], BrokerConfig], own: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._own = own

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    def int_of(self, group_id: str, name: str) -> int:
        """Value that holds for the group. `name` is the group's own, as `consumer.session.timeout.ms`, whose broker setting is
        `group.consumer.session.timeout.ms`, with `group.consumer.min.…` and `group.consumer.max.…` for limits. KeyError where the
        broker has none."""
        config, names = self._config(), LIMITED[name]
        own = self._own(group_id).get(name)
        if own is None:
            return int_value(config, names.broker)
        low, high = names.bounds(config)
        value = int(own)
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)


def random_id() -> str:
    """A member id as Kafka makes them: 22 characters, none of them a dash in front, where tools would take it for an option."""
    while True:
        text = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment that machines read and never change."""

    topics: TopicImage
    settings: GroupSettings
    new_id: Callable[[], str]
    """Member ids, for clients that bring none."""
    descriptions: TopologyDescriptions | None = None
    """What streams groups have of descriptions of their topologies."""
    chance: Callable[[], float] = random.random
    """Numbers from 0 to 1."""


class Machine(Protocol):
    """Pure but for its environment: (group, what happened, time) → Outcome. It may keep no state of a group. Loop thread.

    Requests are methods of the type's own, called through `HeartbeatGroups.run`; they raise ProtocolError to refuse."""

    def __init__(self, environment: Environment) -> None: ...

    def loaded(self, group: Any, now_ms: int) -> Sequence[Effect]:
        """The delays of a group that was read from the log: its members have a whole session from now."""

    def delay_passed(self, group: Any, delay: Delay, now_ms: int) -> Outcome[None] | None:
        """A delay is over; None when it does not matter any more."""
