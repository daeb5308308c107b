"""The delays of groups of all types: sessions of members, deadlines of rebalances.

A member's session is renewed by every heartbeat and every commit, thousands of times for each time that it ends. So a
renewal only writes down the new end; the timer fires at the old one, sees that, and is set again for what is left.

Classic groups and heartbeat groups have a `GroupTimers` each. Nothing is stored: after a start a group's members have a whole
session again. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from ....storage.clock import Time
    from ...runtime.timer import Timer, TimerHandle

#: Key of a group: its id, or the group itself where a later one of the same id is another.
GroupT = TypeVar("GroupT", bound=Hashable)
#: The argument that a delay is set with, and that `passed` gets.
WhatT = TypeVar("WhatT")


class DelayKind(StrEnum):
    """Kinds of delay. A member has at most one of each kind at a time; a delay of the whole group has the empty member id."""

    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    SYNC = "sync"
    ASSIGNMENT = "assignment"


class _Delay(Generic[WhatT]):
    """A delay under way, in ms of the monotonic clock: it ends at `ends_ms`; its timer fires at `fires_ms`, never later."""

    __slots__ = ("ends_ms", "fires_ms", "handle", "what")

    def __init__(self, what: WhatT, ends_ms: float, handle: TimerHandle) -> None:
        self.what = what
        self.ends_ms = ends_ms
        self.fires_ms = ends_ms
        self.handle = handle


_Place = tuple[str, DelayKind]


class GroupTimers(Generic[GroupT, WhatT]):
    """All delays of many groups. When one is over `passed` is called with the group and with what the delay was set with; it
    may set it again."""

    __slots__ = ("_groups", "_passed", "_time", "_timer")

    def __init__(self, timer: Timer, time: Time, passed: Callable[[GroupT, WhatT], None]) -> None:
        self._timer = timer
        self._time = time
        self._passed = passed
        self._groups: dict[GroupT, dict[_Place, _Delay[WhatT]]] = {}

    def set(
        self, group: GroupT, kind: DelayKind, delay_ms: int, what: WhatT, *, member_id: str = "", absent: bool = False
    ) -> None:
        """Have the delay end `delay_ms` from now, whenever it would have ended; with `absent`, only if none is under way."""
        delays = self._groups.setdefault(group, {})
        place = member_id, kind
        delay = delays.get(place)
        if delay is not None and absent:
            return
        ends_ms = self._time.monotonic_ms() + delay_ms
        if delay is not None:
            if delay.fires_ms <= ends_ms:
                delay.ends_ms, delay.what = ends_ms, what
                return
            delay.handle.cancel()
        handle = self._timer.call_later(delay_ms, lambda: self._fired(group, place))
        delays[place] = _Delay(what, ends_ms, handle)

    def _fired(self, group: GroupT, place: _Place) -> None:
        delay = self._groups[group][place]
        left_ms = delay.ends_ms - self._time.monotonic_ms()
        if left_ms > 0:
            delay.fires_ms = delay.ends_ms
            delay.handle = self._timer.call_later(left_ms, lambda: self._fired(group, place))
            return
        self.clear(group, place[1], member_id=place[0])
        self._passed(group, delay.what)

    def clear(self, group: GroupT, *kinds: DelayKind, member_id: str = "") -> None:
        """Cancel these delays of the member, or of the group. None need exist."""
        delays = self._groups.get(group)
        if delays is None:
            return
        for kind in kinds:
            delay = delays.pop((member_id, kind), None)
            if delay is not None:
                delay.handle.cancel()
        if not delays:
            del self._groups[group]

    def forget(self, group: GroupT) -> None:
        """The group is gone: none of its delays calls back any more."""
        for delay in self._groups.pop(group, {}).values():
            delay.handle.cancel()

    def count(self, group: GroupT) -> int:
        """Delays of the group under way; for tests."""
        return len(self._groups.get(group, {}))
