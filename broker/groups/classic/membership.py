"""Drives the group state machine: requests in, effects carried out, waiting members answered.

The decisions are in `rebalance.py`; this gives it ids, time and the outcome of writes, keeps its delays, and turns
its tickets into futures for those who must wait. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from ....protocol.errors import ErrorCode, ProtocolError
from ....protocol.primitives import MAX_STRING
from ...coordinator.internal_topic import CoordinatorRecord
from ...coordinator.runtime import append_failure
from ..store.group import Claim, Group, GroupType, claim
from ..store.records import group_key
from ..store.shards import Shard, Shards
from ..store.timers import DelayKind, GroupTimers
from .events import (
    UNKNOWN_MEMBER_ID,
    Effects,
    GroupLimits,
    JoinAnswered,
    JoinDeadlineCleared,
    JoinDeadlineSet,
    JoinRequest,
    JoinResult,
    LeavingMember,
    LeftMember,
    SessionEnded,
    SessionStarted,
    StoreGroup,
    SyncAnswered,
    SyncDeadlineCleared,
    SyncDeadlineSet,
    SyncRequest,
    SyncResult,
)
from .metadata import DEAD, STABLE, GroupMetadata
from .rebalance import GroupRebalance
from .records import group_value

if TYPE_CHECKING:
    from ....storage.clock import Time
    from ...runtime.timer import Timer

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", JoinResult, SyncResult)
#: The effect that began a delay says what follows when it is over.
_DelayStarted = SessionStarted | JoinDeadlineSet | SyncDeadlineSet


class _Waiting(Generic[ResultT]):
    """A ticket: the answer if it came at once, else a future of it."""

    __slots__ = ("future", "result")

    def __init__(self) -> None:
        self.result: ResultT | None = None
        self.future: asyncio.Future[ResultT] | None = None

    def answer(self, result: ResultT) -> None:
        if self.future is None:
            self.result = result
        elif not self.future.done():  # cancelled when its client has gone
            self.future.set_result(result)

    def outcome(self, loop: asyncio.AbstractEventLoop) -> ResultT | asyncio.Future[ResultT]:
        if self.result is not None:
            return self.result
        self.future = loop.create_future()
        return self.future


def _member_id(named: str, unique: str) -> str:
    """Id of a new member: the name of its client or instance, as far as the whole fits into a string of the wire and the log."""
    room = MAX_STRING - len(unique) - 1
    if 4 * len(named) > room:  # it may have so many bytes
        named = named.encode()[:room].decode(errors="ignore")
    return f"{named}-{unique}"


class GroupMembership:
    """Joins, syncs, heartbeats and leaves of all groups of this node. Loop thread."""

    __slots__ = ("_loop", "_new_uuid", "_rebalance", "_shards", "_time", "_timers", "rebalances")

    def __init__(
        self,
        shards: Shards,
        limits: GroupLimits,
        time: Time,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        new_uuid: Callable[[], str],
    ) -> None:
        self._shards = shards
        self._time = time
        self._loop = loop
        self._new_uuid = new_uuid
        self._rebalance = GroupRebalance(limits)
        self._timers: GroupTimers[GroupMetadata, _DelayStarted] = GroupTimers(timer, time, self._delay_passed)
        #: Rebalances completed since the start.
        self.rebalances = 0

    # -- requests

    def join(self, request: JoinRequest) -> JoinResult | asyncio.Future[JoinResult]:
        """The answer, or a future of it: a join lasts as long as the rebalance does."""
        try:
            shard = self._shards.find(request.group_id)
            self.check_session_timeout(request)
            group = shard.groups.get(request.group_id)
            if not isinstance(group, GroupMetadata):
                group = self._create(shard, request, group)
        except ProtocolError as error:
            return JoinResult(error.code, request.member_id)
        waiting: _Waiting[JoinResult] = _Waiting()
        named = request.client_id if request.group_instance_id is None else request.group_instance_id
        new_id = _member_id(named, self._new_uuid())
        self._apply(shard, group, self._rebalance.join(group, request, new_id, waiting, self._now()))
        return waiting.outcome(self._loop)

    def check_session_timeout(self, request: JoinRequest) -> None:
        """Check the session timeout of a JoinGroup against the limits; ProtocolError INVALID_SESSION_TIMEOUT."""
        limits = self._rebalance.limits
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            raise ProtocolError(ErrorCode.INVALID_SESSION_TIMEOUT)

    def _create(self, shard: Shard, request: JoinRequest, found: Group | None) -> GroupMetadata:
        """A new group, written as an empty one, in the place of an empty group of another type if there is one.

        Raises ProtocolError when this request may not make one."""
        if claim(GroupType.CLASSIC, found) not in (Claim.NEW, Claim.REPLACE):
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id != UNKNOWN_MEMBER_ID:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID)
        group = GroupMetadata(request.group_id, self._now())
        if not group.supports_protocols(request.protocol_type, {protocol.name for protocol in request.protocols}):
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        gone = [] if found is None else found.tombstones()
        self._shards.append(shard, [*gone, CoordinatorRecord(group_key(group.group_id), group_value(group, {}))])
        shard.groups[group.group_id] = group
        return group

    def sync(self, request: SyncRequest) -> SyncResult | asyncio.Future[SyncResult]:
        """The answer, or a future of it: followers wait for their leader, and the leader for the write."""
        try:
            shard = self._shards.find(request.group_id)
        except ProtocolError as error:
            return SyncResult(error.code)
        group = shard.groups.get(request.group_id)
        if not isinstance(group, GroupMetadata):
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        waiting: _Waiting[SyncResult] = _Waiting()
        self._apply(shard, group, self._rebalance.sync(group, request, waiting))
        return waiting.outcome(self._loop)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        try:
            shard = self._shards.find(group_id)
        except ProtocolError as error:
            # While it is not known whether there is such a member, there is no reason to alarm it.
            loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if loading else error.code
        group = shard.groups.get(group_id)
        if not isinstance(group, GroupMetadata):
            return ErrorCode.UNKNOWN_MEMBER_ID
        code, effects = self._rebalance.heartbeat(group, member_id, group_instance_id, generation)
        self._apply(shard, group, effects)
        return code

    def leave(self, group_id: str, members: Sequence[LeavingMember]) -> tuple[ErrorCode, list[LeftMember]]:
        """The error of the whole request, and what became of each member."""
        try:
            shard = self._shards.find(group_id)
        except ProtocolError as error:
            return error.code, []
        group = shard.groups.get(group_id)
        if not isinstance(group, GroupMetadata):
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            return ErrorCode.NONE, [LeftMember(m.member_id, m.group_instance_id, unknown) for m in members]
        left, effects = self._rebalance.leave(group, members, self._now())
        self._apply(shard, group, effects)
        return ErrorCode.NONE, left

    def member_seen(self, shard: Shard, group: GroupMetadata, member_id: str) -> None:
        """A commit renews the session."""
        self._apply(shard, group, self._rebalance.member_seen(group, member_id))

    # -- groups that come and go

    def loaded(self, shard: Shard) -> None:
        """The shard's groups were read from the log: their members have a session time-out from now to be heard of."""
        for group in list(shard.groups.values()):
            if isinstance(group, GroupMetadata):
                self._apply(shard, group, self._rebalance.loaded(group, self._now()))

    def adopt(self, shard: Shard, group: Group, reason: str | None) -> None:
        """Puts a classic group in, in the place of another type's that has become one: its members' sessions begin, and if
        there is a reason for a rebalance, that begins too."""
        assert isinstance(group, GroupMetadata)
        shard.groups[group.group_id] = group
        self._apply(shard, group, self._rebalance.loaded(group, self._now()))
        if reason is not None and group.state is STABLE:
            self._apply(shard, group, self._rebalance.rebalance(group, reason, self._now()))

    def begin_rebalance(self, group_id: str, reason: str) -> bool:
        """Have the members of a stable classic group join again. False where there is no such group. Loop thread."""
        try:
            shard = self._shards.find(group_id)
        except ProtocolError:
            return False
        group = shard.groups.get(group_id)
        if not isinstance(group, GroupMetadata) or group.state is not STABLE:
            return False
        self._apply(shard, group, self._rebalance.rebalance(group, reason, self._now()))
        return True

    def remove(self, shard: Shard, group: GroupMetadata, error: ErrorCode) -> None:
        """Remove the group from memory; requests that wait for it are answered with `error`. Writes nothing."""
        self._apply(shard, group, self._rebalance.kill(group, error, self._now()))
        self._timers.forget(group)
        if shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]

    # -- effects

    def _now(self) -> int:
        return self._time.milliseconds()

    def _apply(self, shard: Shard, group: GroupMetadata, effects: Effects) -> None:
        queue = deque(effects)
        timers = self._timers
        while queue:
            effect = queue.popleft()
            if isinstance(effect, SessionStarted):
                timers.set(group, DelayKind.SESSION, effect.timeout_ms, effect, member_id=effect.member_id)
            elif isinstance(effect, SessionEnded):
                timers.clear(group, DelayKind.SESSION, member_id=effect.member_id)
            elif isinstance(effect, JoinAnswered):
                cast("_Waiting[JoinResult]", effect.ticket).answer(effect.result)
            elif isinstance(effect, SyncAnswered):
                cast("_Waiting[SyncResult]", effect.ticket).answer(effect.result)
            elif isinstance(effect, JoinDeadlineSet):
                timers.set(group, DelayKind.JOIN, effect.delay_ms, effect)
            elif isinstance(effect, JoinDeadlineCleared):
                timers.clear(group, DelayKind.JOIN)
            elif isinstance(effect, SyncDeadlineSet):
                timers.set(group, DelayKind.SYNC, effect.delay_ms, effect)
            elif isinstance(effect, SyncDeadlineCleared):
                timers.clear(group, DelayKind.SYNC)
            else:
                queue.extend(self._store(shard, group, effect))

    def _store(self, shard: Shard, group: GroupMetadata, effect: StoreGroup) -> Effects:
        """Writes the group. Returns what follows from that, unless it follows only when the write is durable."""
        value = group_value(group, effect.assignments)
        code = ErrorCode.NONE
        try:
            unsynced = self._shards.append(shard, [CoordinatorRecord(group_key(group.group_id), value)])
        except ProtocolError as error:
            code, unsynced = error.code, None
            log.warning("group %s: its state could not be written: %s", group.group_id, error)
        if unsynced is not None:
            unsynced.add_done_callback(lambda done: self._stored(shard, group, effect, done))
            return []
        return self._outcome(group, effect, code)

    def _stored(self, shard: Shard, group: GroupMetadata, effect: StoreGroup, done: asyncio.Future[None]) -> None:
        failure = asyncio.CancelledError() if done.cancelled() else done.exception()
        code = ErrorCode.NONE if failure is None else append_failure(failure).code
        if group.state is not DEAD:
            self._apply(shard, group, self._outcome(group, effect, code))

    def _outcome(self, group: GroupMetadata, effect: StoreGroup, code: ErrorCode) -> Effects:
        before = group.state
        effects = self._rebalance.group_stored(group, effect.reason, code, self._now())
        if group.state is STABLE and before is not STABLE:
            self.rebalances += 1
        return effects

    def _delay_passed(self, group: GroupMetadata, started: _DelayStarted) -> None:
        shard = self._shards.shard_of(group.group_id)
        if isinstance(started, SessionStarted):
            effects = self._rebalance.session_expired(group, started.member_id, self._now())
        elif isinstance(started, JoinDeadlineSet):
            effects = self._rebalance.join_deadline_passed(group, started.remaining_ms, self._now())
        else:
            effects = self._rebalance.sync_deadline_passed(group, started.generation, self._now())
        self._apply(shard, group, effects)
