"""Drives heartbeat groups of all types: finds the group, has its machine decide, writes, replays, sets delays, answers.

    apis/consumer_group_heartbeat ─► GroupCoordinator ─► HeartbeatGroups.run ─► machine (decides) ─► Outcome
                                                              │
                  Shards.append ◄── records ──────────────────┤
                  registry.replay(shard.groups, record) ◄─────┤   the only way in which a group changes
                  GroupTimers ◄── effects ────────────────────┘

Loop thread. One request is decided, written and replayed within one turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from ...coordinator.runtime import RunBlocking, Unsynced, when_durable
from ..store.group import Group, GroupType
from ..store.timers import DelayKind, GroupTimers
from .group import HeartbeatGroup
from .machine import Delay, DelayCleared, DelaySet, Effect, GroupRecord, MemberGone, Outcome, Work
from .registry import TYPES, encoded, machine_class, replay

if TYPE_CHECKING:
    from ....storage.clock import Time
    from ...runtime.timer import Timer
    from ..store.shards import Shard, Shards
    from .machine import Environment, Machine

log = logging.getLogger(__name__)

RETRY_MS = 5_000
"""Delay before a timeout is tried again whose records could not be written."""

T = TypeVar("T")
#: A group that changes its type is taken out, or put in, by the owner of its other half.
Remove = Callable[["Shard", Group, ErrorCode], None]
Adopt = Callable[["Shard", Group, "str | None"], None]


class HeartbeatGroups:
    """The heartbeat groups of one coordinator, which makes this with the first such group or request. Loop thread."""

    def __init__(
        self,
        shards: Shards,
        environment: Environment,
        time: Time,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
        remove: Remove,
        adopt: Adopt,
    ) -> None:
        """`remove` forgets a group of any type in memory; `adopt` puts a classic group in its place."""
        self._shards = shards
        self._environment = environment
        self._time = time
        self._loop = loop
        self._run_blocking = run_blocking
        self._working: dict[str, asyncio.Task[None]] = {}
        self._remove = remove
        self._adopt = adopt
        self._timers: GroupTimers[str, Delay] = GroupTimers(timer, time, self._delay_passed)
        self._machines: dict[GroupType, Machine] = {}
        self.on_member_gone: list[Callable[[GroupType, str, str], object]] = []
        """Called with type, group and member when one has left, or was put out."""
        #: Group epochs begun since the start, by type.
        self.rebalances: dict[GroupType, int] = dict.fromkeys(TYPES, 0)

    def machine(self, kind: GroupType) -> Any:
        """The machine of a type, which knows its own requests."""
        machine = self._machines.get(kind)
        if machine is None:
            machine = self._machines[kind] = machine_class(kind)(self._environment)
        return machine

    # -- requests

    def run_at_once(self, group_id: str, decide: Callable[[Group | None, int], Outcome[T]], *, kind: GroupType) -> T:
        """`run`, for answers that need not wait until the write is durable: nobody relies on what they say."""
        shard = self._shards.find(group_id)
        outcome = decide(shard.groups.get(group_id), self._time.milliseconds())
        self.carry_out(shard, group_id, outcome, kind)
        return outcome.answer

    def run(
        self, group_id: str, decide: Callable[[Group | None, int], Outcome[T]], *, kind: GroupType
    ) -> T | Awaitable[T]:
        """`decide(group, now)` gets whatever group has the id, of any type, or None.

        Returns the outcome's answer, or an awaitable of it where a write takes time to be durable: its own, or one from before
        that it tells of, as a heartbeat does that is sent again after a failed sync. Raises ProtocolError as finding a group
        does, what `decide` raises, and what the write says; nothing has changed then."""
        shard = self._shards.find(group_id)
        outcome = decide(shard.groups.get(group_id), self._time.milliseconds())
        unsynced = self.carry_out(shard, group_id, outcome, kind) or self._shards.unsynced_of(shard)
        return outcome.answer if unsynced is None else when_durable(unsynced, outcome.answer)

    def read(self, group_id: str) -> Group | None:
        """The group as it is. Raises ProtocolError as finding a group does."""
        return self._shards.find(group_id).groups.get(group_id)

    def carry_out(self, shard: Shard, group_id: str, outcome: Outcome[Any], kind: GroupType) -> Unsynced:
        """Carry an outcome out: write, replay, set delays. Returns a future of the write's durability, or None if nothing has to
        be waited for. Raises ProtocolError if it cannot be written; nothing has changed then."""
        replaced, successor = outcome.replaced, outcome.successor
        records = [encoded(record) for record in outcome.records]
        if replaced is not None:
            records[:0] = replaced.tombstones()
        unsynced = self._shards.append(shard, records) if records else None
        if replaced is not None:
            log.info("group %s: %s in place of %s", group_id, kind, replaced.group_type)
            self._remove(shard, replaced, ErrorCode.REBALANCE_IN_PROGRESS)
        for record in outcome.records:
            if isinstance(record, GroupRecord):
                replay(shard.groups, record)
        if outcome.note is not None:
            outcome.note(shard.groups.get(group_id))
        if successor is not None:
            log.info("group %s: %s in place of %s", group_id, successor.group_type, kind)
            self._timers.forget(group_id)
            self._adopt(shard, successor, outcome.rebalance_successor)
        for effect in outcome.effects:
            self._apply(group_id, effect)
            if isinstance(effect, MemberGone):
                for callback in self.on_member_gone:
                    callback(kind, group_id, effect.member_id)
        if outcome.rebalanced:
            self.rebalances[kind] += 1
        if outcome.work is not None and group_id not in self._working:
            self._working[group_id] = self._loop.create_task(self._work(group_id, outcome.work, kind))
        return unsynced

    async def _work(self, group_id: str, work: Work, kind: GroupType) -> None:
        try:
            result = await self._run_blocking(work.run)
            shard = self._shards.find(group_id)
            outcome = work.then(shard.groups.get(group_id), result, self._time.milliseconds())
            if outcome is not None:
                self.carry_out(shard, group_id, outcome, kind)
        except ProtocolError as error:
            log.warning("group %s: %s", group_id, error)
        except Exception:
            log.exception("group %s: work in the background failed", group_id)
        finally:
            del self._working[group_id]

    def close(self) -> None:
        """Cancel the work in pool threads. Delays stay until the caller has called `forget` for each group."""
        for task in list(self._working.values()):
            task.cancel()

    # -- groups that come and go

    def loaded(self, shard: Shard) -> None:
        """Set the delays of the shard's groups, which have just been read from the log."""
        now_ms = self._time.milliseconds()
        for group in list(shard.groups.values()):
            if isinstance(group, HeartbeatGroup):
                for effect in self.machine(group.group_type).loaded(group, now_ms):
                    self._apply(group.group_id, effect)

    def forget(self, shard: Shard, group: Group) -> None:
        """Take a group out of memory, with its delays: it was deleted, or the coordinator stops. Writes nothing."""
        self._timers.forget(group.group_id)
        if shard.groups.get(group.group_id) is group:
            del shard.groups[group.group_id]

    def _apply(self, group_id: str, effect: Effect) -> None:
        timers = self._timers
        if isinstance(effect, MemberGone):
            timers.clear(group_id, *DelayKind, member_id=effect.member_id)
        elif isinstance(effect, DelayCleared):
            timers.clear(group_id, effect.delay.kind, member_id=effect.delay.member_id)
        else:
            delay, delay_ms, absent = effect
            timers.set(group_id, delay.kind, delay_ms, delay, member_id=delay.member_id, absent=absent)

    def _delay_passed(self, group_id: str, delay: Delay) -> None:
        shard = self._shards.shard_of(group_id)
        group = shard.groups.get(group_id)
        if not isinstance(group, HeartbeatGroup):
            return
        try:
            outcome = self.machine(group.group_type).delay_passed(group, delay, self._time.milliseconds())
            if outcome is not None:
                self.carry_out(shard, group_id, outcome, group.group_type)
        except ProtocolError as error:
            # A full disk, say. The member stays, and is looked at again after as long as anything else may take.
            log.warning("group %s: records of a timeout could not be written: %s", group_id, error)
            self._apply(group_id, DelaySet(delay, RETRY_MS))

    def delay_count(self, group_id: str) -> int:
        """Number of the group's delays. For tests."""
        return self._timers.count(group_id)
