"""The delays of modern groups: sessions of members, time-outs of rebalances, and whatever a type has besides.

A session is renewed by each heartbeat, thousands of times for each time that it ends. So a renewal only writes down the new
end; the timer fires at the old one, sees that, and goes to sleep again. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..modern.outcome import Delay, DelayCleared, DelayKind, Effect, MemberGone

if TYPE_CHECKING:
    from ....storage.clock import Time
    from ...runtime.timer import Timer, TimerHandle


class _Pending:
    __slots__ = ("delay", "ends_ms", "fires_ms", "handle")

    def __init__(self, delay: Delay, ends_ms: float) -> None:
        self.delay = delay
        self.ends_ms = ends_ms
        self.fires_ms = ends_ms
        self.handle: TimerHandle


class Delays:
    """All delays of all modern groups, by group id. `passed` is called with the id and the delay."""

    __slots__ = ("_groups", "_passed", "_time", "_timer")

    def __init__(self, timer: Timer, time: Time, passed: Callable[[str, Delay], None]) -> None:
        self._timer = timer
        self._time = time
        self._passed = passed
        self._groups: dict[str, dict[tuple[str, DelayKind], _Pending]] = {}

    def apply(self, group_id: str, effect: Effect) -> None:
        pending = self._groups.setdefault(group_id, {})
        if isinstance(effect, MemberGone):
            for kind in DelayKind:
                self._cancel(pending, effect.member_id, kind)
        elif isinstance(effect, DelayCleared):
            self._cancel(pending, effect.delay.member_id, effect.delay.kind)
        else:
            delay = effect.delay
            place = delay.member_id, delay.kind
            found = pending.get(place)
            if found is None or not effect.absent:
                self._set(group_id, pending, place, found, delay, effect.delay_ms)
        if not pending:
            del self._groups[group_id]

    def _set(
        self,
        group_id: str,
        pending: dict[tuple[str, DelayKind], _Pending],
        place: tuple[str, DelayKind],
        found: _Pending | None,
        delay: Delay,
        delay_ms: int,
    ) -> None:
        ends_ms = self._time.monotonic_ms() + delay_ms
        if found is not None:
            if found.fires_ms <= ends_ms:
                found.ends_ms, found.delay = ends_ms, delay
                return
            found.handle.cancel()
        made = pending[place] = _Pending(delay, ends_ms)
        made.handle = self._timer.call_later(delay_ms, lambda: self._fired(group_id, place))

    def _fired(self, group_id: str, place: tuple[str, DelayKind]) -> None:
        pending = self._groups[group_id]
        fired = pending[place]
        left_ms = fired.ends_ms - self._time.monotonic_ms()
        if left_ms > 0:
            fired.fires_ms = fired.ends_ms
            fired.handle = self._timer.call_later(left_ms, lambda: self._fired(group_id, place))
            return
        del pending[place]
        if not pending:
            del self._groups[group_id]
        self._passed(group_id, fired.delay)

    @staticmethod
    def _cancel(pending: dict[tuple[str, DelayKind], _Pending], member_id: str, kind: DelayKind) -> None:
        found = pending.pop((member_id, kind), None)
        if found is not None:
            found.handle.cancel()

    def forget(self, group_id: str) -> None:
        """The group is gone: none of its delays calls back any more."""
        for pending in self._groups.pop(group_id, {}).values():
            pending.handle.cancel()

    def count(self, group_id: str) -> int:
        """How many are under way; for tests."""
        return len(self._groups.get(group_id, {}))
