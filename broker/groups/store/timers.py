"""The delays of the group protocol: sessions of members, and the deadlines of a rebalance.

A member's session is renewed by every heartbeat and every commit, thousands of times for each time that it ends. So a
renewal only writes down the new end; the timer fires at the old one, sees that, and goes to sleep again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

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
