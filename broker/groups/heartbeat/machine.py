"""Interface of a type of heartbeat group for `runtime.HeartbeatGroups`, and the environment that it may read while it decides."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .outcome import Delay, Effect, Outcome

if TYPE_CHECKING:
    from .settings import GroupSettings
    from .topic_image import TopicImage


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


class Machine(Protocol):
    """Pure but for its environment: (group, what happened, time) → Outcome. It may keep no state of a group. Loop thread.

    Requests are methods of the type's own, called through `HeartbeatGroups.run`; they raise ProtocolError to refuse."""

    def __init__(self, environment: Environment) -> None: ...

    def loaded(self, group: Any, now_ms: int) -> Sequence[Effect]:
        """The delays of a group that was read from the log: its members have a whole session from now."""

    def delay_passed(self, group: Any, delay: Delay, now_ms: int) -> Outcome[None] | None:
        """A delay is over; None when it does not matter any more."""
