"""SharePartitions: the share partitions that somebody reads now, their locks, and the way of what changes into the log.

A share partition is loaded from its kept state when it is first read, and let go of when the group's last session ends (unless
what was released could not be written), its topic goes, or its state is found to have a newer epoch. Acknowledgements are
written first and committed then; the answer waits until that is as durable as `__share_group_state` is asked to be. A lock that
ends is released whether that can be written or not: the state that is kept says nothing of locks, so that nothing is lost.

Loop thread, but for the look-up of an offset by time, which a pool thread makes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from ..coordinator.runtime import Unsynced, when_durable
from ..runtime.cooperative import ROUNDS, Steps, run_at_once, run_in_chunks
from ..runtime.error_codes import error_code
from .coordinator import ShareCoordinator
from .partition import Acknowledgement, Changes, SharePartition
from .records import NO_OFFSET, SharePartitionKey, ShareState
from .sessions import MemberKey, ShareSession, ShareSessions, TopicIdPartition
from .settings import BY_DURATION, EARLIEST, ShareGroupSettings

if TYPE_CHECKING:
    from ..coordinator.parts import CoordinatorParts
    from ..groups.coordinator import GroupCoordinator
    from ..metadata.resource_config import ResourceConfigs
    from ..partitions.partition import Partition
    from ..partitions.purgatory import DelayedFetch, FetchPurgatory
    from ..runtime.timer import TimerHandle
    from .groups import ShareGroups

log = logging.getLogger(__name__)

#: Coordinator's errors of a write or read, as members get them; all others are a server error to them.
_PERSISTER_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
#: After these a share partition is loaded anew.
_FENCED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Acknowledged(NamedTuple):
    """Outcome of a partition's acknowledgements. With `unsynced` it counts once that is done without an error."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    unsynced: Unsynced = None


class HeldPartition:
    """A share partition, the log partition that it reads, and the fetches that wait for either."""

    __slots__ = ("_due_ms", "_manager", "_timer", "is_fenced", "is_unkept", "key", "leader_epoch", "partition", "share",
                 "state_epoch", "waiters")  # fmt: skip

    def __init__(
        self,
        manager: SharePartitions,
        key: SharePartitionKey,
        partition: Partition,
        share: SharePartition,
        state_epoch: int,
        leader_epoch: int,
    ) -> None:
        self._manager = manager
        self.key = key
        self.partition = partition
        self.share = share
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.is_fenced = False
        #: The last change could not be written: what is kept may not even say where the group began.
        self.is_unkept = False
        #: Fetches that are looked at again when records come back, or room is made.
        self.waiters: set[DelayedFetch[Any]] = set()
        self._timer: TimerHandle | None = None
        self._due_ms = 0.0

    def wake(self) -> None:
        for waiter in self.waiters:
            waiter.wake()

    def watch_locks(self) -> None:
        """Schedule a call of the manager for the end of the first lock, unless the partition was given up: whoever has it now
        sees to its locks."""
        due = None if self.is_fenced else self.share.next_deadline_ms
        if due is None:
            self.stop()
        elif self._timer is None or due < self._due_ms:
            self.stop()
            self._due_ms = due
            manager = self._manager
            self._timer = manager.timer.call_later(max(0.0, due - manager.time.monotonic_ms()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._manager.expire_locks(self)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class SharePartitions:
    """Made when it is first asked for; `close` before the coordinator's. Its owner calls `connection_closed`."""

    def __init__(
        self,
        parts: CoordinatorParts,
        coordinator: ShareCoordinator,
        members: GroupCoordinator,
        resources: ResourceConfigs,
        purgatory: FetchPurgatory,
    ) -> None:
        """`members`: where share groups are. Fetches of theirs wait in `purgatory`."""
        self.parts = parts
        self.coordinator = coordinator
        self.time = parts.time
        self.timer = parts.timer
        self.purgatory = purgatory
        self._members = members
        self.settings = ShareGroupSettings(resources, parts.config)
        self.sessions = ShareSessions(parts.config.group_share_max_share_sessions)
        self._held: dict[SharePartitionKey, HeldPartition] = {}
        #: The same by group.
        self._of_group: dict[str, dict[SharePartitionKey, HeldPartition]] = {}
        self._loading: dict[SharePartitionKey, asyncio.Task[HeldPartition]] = {}
        #: What `in_rounds` has not come to the end of.
        self._in_rounds: set[asyncio.Future[None]] = set()
        #: Since the start: records by type of acknowledgement, records that were acquired, locks' records that ended by time,
        #: sessions that a lost connection ended.
        self.acknowledged: Counter[int] = Counter()
        self.acquired = 0
        self.expired = 0
        self.lost_sessions = 0
        self._groups: ShareGroups | None = None
        parts.topics.on_deleted.append(lambda _: self._forget_deleted())

    @property
    def groups(self) -> ShareGroups:
        """The groups and their members; made with the first request for one."""
        if self._groups is None:
            from .groups import ShareGroups

            self._groups = ShareGroups(self, self._members)
        return self._groups

    def close(self) -> None:
        """Stop loading states and the timers of locks. Nothing is released: what was acquired can be had after the next start."""
        for loading in self._loading.values():
            loading.cancel()
        for rest in self._in_rounds:
            rest.cancel()
        for held in self._held.values():
            held.stop()

    # -- what metrics ask

    @property
    def partition_count(self) -> int:
        return len(self._held)

    @property
    def in_flight_records(self) -> int:
        return sum(held.share.in_flight_records for held in self._held.values())

    # -- partitions

    def get(self, key: SharePartitionKey) -> HeldPartition | None:
        """The partition, if somebody reads it."""
        return self._held.get(key)

    async def hold(self, key: SharePartitionKey) -> HeldPartition:
        """The partition, loaded if need be. Raises ProtocolError."""
        held = self._held.get(key)
        if held is not None:
            return held
        task = self._loading.get(key)
        if task is None:
            task = self.parts.loop.create_task(self._load(key))
            self._loading[key] = task
            task.add_done_callback(lambda done: self._loaded(key, done))
        return await asyncio.shield(task)

    def _loaded(self, key: SharePartitionKey, done: asyncio.Task[HeldPartition]) -> None:
        del self._loading[key]
        if not done.cancelled():
            done.exception()  # told to whoever waits; nobody may

    async def _load(self, key: SharePartitionKey) -> HeldPartition:
        partition = self._partition(key)
        leader_epoch = partition.log.leader_epoch
        state = self._read_state(key, leader_epoch)
        start = state.start_offset
        while start == NO_OFFSET:
            start = await self._first_offset(key.group, partition)
            before, state = state, self._read_state(key, leader_epoch)
            if (state.state_epoch, state.start_offset) != (before.state_epoch, before.start_offset):
                start = state.start_offset  # it was set anew meanwhile
        held = HeldPartition(self, key, partition, _share_partition(state, start), state.state_epoch, leader_epoch)
        if self.parts.partitions.get(partition.log.topic, key.partition) is not partition:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # it went meanwhile
        self._held[key] = held
        self._of_group.setdefault(key.group, {})[key] = held
        return held

    def _read_state(self, key: SharePartitionKey, leader_epoch: int) -> ShareState:
        """The kept state, as members are told of errors. Where there is none that the group says it has, it begins anew."""
        try:
            if (epoch := self._epoch_of_lost(key)) is not None:
                log.warning("%s: its state is gone, to a power cut perhaps; it begins anew", key.coordinator_key)
                self.coordinator.initialize(key, epoch, NO_OFFSET)
            state, unsynced = self.coordinator.read(key, leader_epoch)
        except ProtocolError as error:
            raise _for_members(error) from error
        if unsynced is not None:  # should it be lost with the power, the next start's epoch is higher all the same
            unsynced.add_done_callback(_seen)
        return state

    def _epoch_of_lost(self, key: SharePartitionKey) -> int | None:
        """The group's epoch if it says that there is state, and there is none."""
        return None if self.coordinator.summary(key) is not None else self.groups.initialized_in(key)

    def _partition(self, key: SharePartitionKey) -> Partition:
        table = self.parts.partitions
        name = table.name_of(key.topic_id)
        if name is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = table.get(name, key.partition)
        if partition is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    async def _first_offset(self, group: str, partition: Partition) -> int:
        """First offset for a group that has not read the partition before."""
        reset = self.settings.offset_reset(group)
        found = partition.log
        if reset.kind == EARLIEST:
            return found.log_start_offset
        if reset.kind == BY_DURATION:
            timestamp = self.time.milliseconds() - reset.back_ms
            try:
                at = await self.parts.run_blocking(lambda: found.lookup_by_timestamp(timestamp))
            except Exception as error:  # other partitions of the same fetch may be on a sound disk
                raise ProtocolError(*error_code(error)) from error
            if at is not None:
                return at.offset
        return found.high_watermark

    def drop(self, key: SharePartitionKey) -> None:
        """Give up what is held of a partition, and wake who waits for it; the next read loads it anew."""
        held = self._held.pop(key, None)
        if held is not None:
            of_group = self._of_group[key.group]
            del of_group[key]
            if not of_group:
                del self._of_group[key.group]
            held.is_fenced = True
            held.stop()
            held.wake()

    def _forget_deleted(self) -> None:
        for key in [key for key in self._held if self.parts.topics.by_id(key.topic_id) is None]:
            self.drop(key)

    # -- what members say

    def acknowledge(
        self, key: SharePartitionKey, member: str, acknowledgements: Sequence[Acknowledgement]
    ) -> Acknowledged:
        """All of it, or an error and nothing."""
        held = self._held.get(key)
        if held is None:
            return Acknowledged(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nobody has records of it")
        now = self.time.monotonic_ms()
        try:
            changes = held.share.acknowledge(member, acknowledgements, self.settings.limits(key.group), now)
            unsynced = self._keep(held, changes)
        except ProtocolError as error:
            return Acknowledged(error.code, str(error))
        for first, last, types in acknowledgements:
            if len(types) == 1:
                self.acknowledged[types[0]] += last - first + 1
            else:
                self.acknowledged.update(types)
        return Acknowledged(unsynced=unsynced)

    def release(self, key: SharePartitionKey, member: str) -> None:
        """The member has gone, or reads this no more: others may have what it had."""
        held = self._held.get(key)
        if held is not None:
            changes = held.share.release(member, self.settings.limits(key.group))
            self._keep_whatever_happens(held, changes)

    def end_session(self, key: MemberKey) -> None:
        """Close the session of a member, if it has one; what it had acquired can be had by others."""
        session = self.sessions.remove(key)
        if session is not None:
            run_at_once(self._release(session))

    def release_member(self, group: str, member: str) -> None:
        """The member has left its group, or was put out of it."""
        self.end_session(MemberKey(group, member))
        for key in list(self._of_group.get(group, ())):
            self.release(key, member)

    def connection_closed(self, connection: object) -> None:
        """Close the sessions that were used over a connection that is gone, as `end_session` does: many of them by and by, with
        rounds for others between. Loop thread."""
        if self.sessions.first_of(connection) is not None:
            self.in_rounds(self._end_sessions(connection))

    def in_rounds(self, steps: Steps[None]) -> None:
        """Do what no request waits for: a chunk now, each other one in a round of the loop of its own, until `close`."""
        rest = run_in_chunks(steps, ROUNDS)
        if rest is not None:
            task = asyncio.ensure_future(rest, loop=self.parts.loop)
            self._in_rounds.add(task)
            task.add_done_callback(self._in_rounds.discard)

    def _end_sessions(self, connection: object) -> Steps[None]:
        while (session := self.sessions.first_of(connection)) is not None:
            self.sessions.remove(session.key)
            self.lost_sessions += 1
            yield 1
            yield from self._release(session)

    def _release(self, session: ShareSession) -> Steps[None]:
        """Give back what the member of a session that was removed has, until it has a session again; what nobody of the group
        reads any more is let go of."""
        group, member = session.key
        held = self._of_group.get(group, {})
        if len(session.partitions) <= len(held):
            keys = [SharePartitionKey(group, *where) for where in session.partitions]
        else:  # it may name very many that are not there
            keys = [key for key in held if TopicIdPartition(key.topic_id, key.partition) in session.partitions]
        for key in keys:
            if self.sessions.get(session.key) is not None:
                return
            self.release(key, member)
            yield 1
        for key, of_key in list(held.items()):
            if self.sessions.has_group(group):
                return
            # Of members whose sessions end in turns, or who read it no more. Else nothing may say where the group began.
            for each in of_key.share.holders():
                self.release(key, each)
            if not of_key.is_unkept:
                self.drop(key)
            yield 1

    def expire_locks(self, held: HeldPartition) -> None:
        """Called when the first lock of a partition may have ended."""
        changes = held.share.expire(self.settings.limits(held.key.group), self.time.monotonic_ms())
        self.expired += sum(edit.last - edit.first + 1 for edit in changes.edits)
        self._keep_whatever_happens(held, changes)
        held.watch_locks()

    # -- inside

    def _keep(self, held: HeldPartition, changes: Changes) -> Unsynced:
        """Writes, then does it. Raises ProtocolError, and nothing has changed then."""
        unsynced = None
        if changes.batches:
            try:
                unsynced = self.coordinator.write(
                    held.key,
                    held.state_epoch,
                    held.leader_epoch,
                    held.share.start_offset,
                    changes.delivery_complete_count,
                    changes.batches,
                )
            except ProtocolError as error:
                told = _for_members(error)
                if told.code in _FENCED:
                    self.drop(held.key)
                raise told from error
            held.is_unkept = False
        self._commit(held, changes)
        return unsynced

    def _keep_whatever_happens(self, held: HeldPartition, changes: Changes) -> None:
        if not changes.edits:
            return
        try:
            unsynced = self._keep(held, changes)
        except ProtocolError as error:
            log.warning("%s: released, but that is not written: %s", held.key.coordinator_key, error)
            if not held.is_fenced:
                held.is_unkept = True
                self._commit(held, changes)
            return
        if unsynced is not None:
            unsynced.add_done_callback(_seen)

    @staticmethod
    def _commit(held: HeldPartition, changes: Changes) -> None:
        held.share.commit(changes)
        held.watch_locks()
        held.wake()


async def durable(outcome: Acknowledged) -> Acknowledged:
    """The outcome once its write is durable."""
    if outcome.unsynced is None:
        return outcome
    try:
        await when_durable(outcome.unsynced, None)
    except ProtocolError as failure:
        return Acknowledged(failure.code, str(failure))
    return Acknowledged()


async def synced(unsynced: Unsynced) -> None:
    """Returns when it is as durable as asked for. The future is shared: a client that goes away must not cancel it."""
    if unsynced is not None:
        await asyncio.shield(unsynced)


def _share_partition(state: ShareState, start: int) -> SharePartition:
    return SharePartition(start, [batch for batch in state.batches if batch.first >= start])


def _for_members(error: ProtocolError) -> ProtocolError:
    return ProtocolError(_PERSISTER_ERRORS.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR), str(error))


def _seen(done: asyncio.Future[None]) -> None:
    """A sync that nobody waits for."""
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("a release of records is not on disk: %s", error)
