"""The delays of groups: sessions of members, deadlines of rebalances. `GroupTimers` for classic groups, `Delays` for the others.

A member's session is renewed by every heartbeat and every commit, thousands of times for each time that it ends. So a
renewal only writes down the new end; the timer fires at the old one, sees that, and goes to sleep again. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..modern.outcome import Delay, DelayCleared, DelayKind, Effect, MemberGone

if TYPE_CHECKING:
    from ....storage.clock import Time
    from ...runtime.timer import Timer, TimerHandle
    from ..classic.metadata import GroupMetadata


class _Session:
    __slots__ = ("ends_ms", "fires_ms", "handle")

    def __init__(self, ends_ms: float, handle: TimerHandle) -> None:
        self.ends_ms = ends_ms
        self.fires_ms = ends_ms
        self.handle = handle


class _GroupDelays:
    __slots__ = ("join", "sessions", "sync")

    def __init__(self) -> None:
        self.sessions: dict[str, _Session] = {}
        self.join: TimerHandle | None = None
        self.sync: TimerHandle | None = None


class GroupTimers:
    """Loop thread. What it calls back is given once, as functions of the group."""

    __slots__ = ("_groups", "_session_expired", "_time", "_timer")

    def __init__(self, timer: Timer, time: Time, session_expired: Callable[[GroupMetadata, str], None]) -> None:
        self._timer = timer
        self._time = time
        self._session_expired = session_expired
        self._groups: dict[GroupMetadata, _GroupDelays] = {}

    def _of(self, group: GroupMetadata) -> _GroupDelays:
        delays = self._groups.get(group)
        if delays is None:
            delays = self._groups[group] = _GroupDelays()
        return delays

    def start_session(self, group: GroupMetadata, member_id: str, timeout_ms: int) -> None:
        """The member has `timeout_ms` from now, whatever it had before."""
        sessions = self._of(group).sessions
        ends_ms = self._time.monotonic_ms() + timeout_ms
        session = sessions.get(member_id)
        if session is not None:
            if session.fires_ms <= ends_ms:
                session.ends_ms = ends_ms
                return
            session.handle.cancel()
        handle = self._timer.call_later(timeout_ms, lambda: self._session_fired(group, member_id))
        sessions[member_id] = _Session(ends_ms, handle)

    def end_session(self, group: GroupMetadata, member_id: str) -> None:
        delays = self._groups.get(group)
        session = delays.sessions.pop(member_id, None) if delays is not None else None
        if session is not None:
            session.handle.cancel()

    def _session_fired(self, group: GroupMetadata, member_id: str) -> None:
        sessions = self._groups[group].sessions
        session = sessions[member_id]
        left_ms = session.ends_ms - self._time.monotonic_ms()
        if left_ms > 0:
            session.fires_ms = session.ends_ms
            session.handle = self._timer.call_later(left_ms, lambda: self._session_fired(group, member_id))
            return
        del sessions[member_id]
        self._session_expired(group, member_id)

    def set_join_deadline(self, group: GroupMetadata, delay_ms: int, callback: Callable[[], None]) -> None:
        delays = self._of(group)
        if delays.join is not None:
            delays.join.cancel()
        delays.join = self._timer.call_later(delay_ms, callback)

    def clear_join_deadline(self, group: GroupMetadata) -> None:
        delays = self._groups.get(group)
        if delays is not None and delays.join is not None:
            delays.join.cancel()
            delays.join = None

    def set_sync_deadline(self, group: GroupMetadata, delay_ms: int, callback: Callable[[], None]) -> None:
        delays = self._of(group)
        if delays.sync is not None:
            delays.sync.cancel()
        delays.sync = self._timer.call_later(delay_ms, callback)

    def clear_sync_deadline(self, group: GroupMetadata) -> None:
        delays = self._groups.get(group)
        if delays is not None and delays.sync is not None:
            delays.sync.cancel()
            delays.sync = None

    def forget(self, group: GroupMetadata) -> None:
        """The group is gone: none of its delays calls back any more."""
        delays = self._groups.pop(group, None)
        if delays is None:
            return
        for session in delays.sessions.values():
            session.handle.cancel()
        for handle in (delays.join, delays.sync):
            if handle is not None:
                handle.cancel()


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
