"""ShareGroups: what share groups need besides deciding: state in `__share_group_state` that begins and ends with them.

    apis/share_group_heartbeat ─► ShareGroups ─┬─► HeartbeatGroups ─► groups.share.machine.Machine   `__consumer_offsets`
         …_share_group_offsets                 └─► ShareCoordinator                               `__share_group_state`

Members of a group that joins several topics at once are assigned them with the answer to their first heartbeat: the state is
initialized before it is decided. (In Kafka that is another broker's, and comes with a later heartbeat.) Loop thread.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...protocol.errors import ErrorCode, ProtocolError
from ..groups.heartbeat.group import JOINING_EPOCH, LEAVING_EPOCH
from ..groups.heartbeat.machine import Outcome
from ..groups.share.group import ShareGroup, StatePartitions
from ..groups.share.machine import Machine, ShareHeartbeat, ShareHeartbeatResult, share_group
from ..groups.store.group import Group, GroupType
from ..runtime.cooperative import Steps, Turns, run_in_rounds
from ..runtime.error_codes import error_code
from .manager import SharePartitions, synced
from .records import NO_OFFSET, SharePartitionKey

if TYPE_CHECKING:
    from ..groups.coordinator import GroupCoordinator
    from ..groups.heartbeat.runtime import HeartbeatGroups
    from ..metadata.topics import Topic

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Work of a group that has to be written.
UNITS_OF_A_RECORD = 10
#: Topic name and partition.
Place = tuple[str, int]


class SharePartitionOffset(NamedTuple):
    """Start offset of a group in a partition, -1: none yet; `lag` is -1 where it is not known."""

    start_offset: int = NO_OFFSET
    leader_epoch: int = 0
    lag: int = -1


class ShareGroups:
    """Made with the first request for a share group."""

    def __init__(self, shares: SharePartitions, members: GroupCoordinator) -> None:
        self._shares = shares
        self._members = members
        self._topics = shares.parts.topics
        self._loop = shares.parts.loop
        self._preparing: dict[str, asyncio.Task[None]] = {}
        #: By group: held while state is made or deleted, from before that is written down until after.
        self._states: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._heartbeat_groups.on_member_gone.append(self._member_gone)
        self._topics.on_deleted.append(lambda _: self.forget_deleted_topics())

    @property
    def _heartbeat_groups(self) -> HeartbeatGroups:
        return self._members.heartbeat_groups

    def _state_of(self, group_id: str) -> asyncio.Lock:
        return self._states.setdefault(group_id, asyncio.Lock())

    @property
    def _machine(self) -> Machine:
        machine: Machine = self._heartbeat_groups.machine(GroupType.SHARE)
        return machine

    async def _run(self, group_id: str, decide: Callable[[Group | None, int], Outcome[T]]) -> T:
        answer: Any = self._heartbeat_groups.run(group_id, decide, kind=GroupType.SHARE)
        result: T = await answer if inspect.isawaitable(answer) else answer
        return result

    # -- members

    async def heartbeat(self, asked: ShareHeartbeat) -> ShareHeartbeatResult:
        """A member joins, stays or leaves. Raises ProtocolError."""
        if asked.member_epoch == LEAVING_EPOCH:
            return await self._run(asked.group_id, lambda group, _: self._machine.leave(group, asked))
        await self._prepare(asked)
        return await self._run(asked.group_id, lambda group, now_ms: self._machine.heartbeat(group, asked, now_ms))

    def _member_gone(self, kind: GroupType, group_id: str, member_id: str) -> None:
        """A member has left, or its session expired: what it has others may have."""
        if kind is GroupType.SHARE:
            self._shares.release_member(group_id, member_id)

    async def _prepare(self, asked: ShareHeartbeat) -> None:
        """Initialize the state of the partitions that the group reads. One call at a time for each group; others wait for it."""
        group = self._heartbeat_groups.read(asked.group_id)
        names: Collection[str] = asked.topics or ()
        is_known = asked.member_epoch == JOINING_EPOCH
        if isinstance(group, ShareGroup):
            names = {*group.names, *names}
            is_known = is_known or asked.member_id in group.members
        elif group is not None:
            is_known = False
        if not is_known:
            return  # the heartbeat is refused
        if not self._machine.uninitialized(group, names):
            return
        task = self._preparing.get(asked.group_id)
        if task is None:
            task = self._loop.create_task(self._initialize_missing(asked.group_id, names))
            self._preparing[asked.group_id] = task
            task.add_done_callback(lambda _: self._preparing.pop(asked.group_id, None))
        await asyncio.shield(task)

    async def _initialize_missing(self, group_id: str, names: Collection[str]) -> None:
        """Initialize state that is missing. A failure is logged; the next heartbeat tries again."""
        try:
            await self._shares.coordinator.ensure_topic()
            async with self._state_of(group_id):
                wanted = self._machine.uninitialized(self._heartbeat_groups.read(group_id), names)
                if not wanted:
                    return
                epoch = await self._run(group_id, lambda group, _: self._machine.initializing(group, group_id, wanted))
                starts = {(topic, index): NO_OFFSET for topic, state in wanted.items() for index in state.partitions}
                await self._initialize(group_id, wanted, starts, epoch)
        except Exception as error:
            log.warning("group %s: its partitions cannot be made ready: %s", group_id, error_code(error)[1])

    async def _initialize(
        self,
        group_id: str,
        wanted: Mapping[bytes, StatePartitions],
        starts: Mapping[tuple[bytes, int], int],
        state_epoch: int,
    ) -> dict[tuple[bytes, int], ProtocolError]:
        """State of these partitions that begins at these offsets; what went wrong, by partition."""
        keys = {SharePartitionKey(group_id, *place): start for place, start in starts.items()}
        steps = self._shares.coordinator.initialize_all(keys, state_epoch, self._shares.drop)
        unsynced, failed = await run_in_rounds(steps)
        errors = {(key.topic_id, key.partition): error for key, error in failed.items()}
        for write in unsynced:
            await synced(write)
        bad: dict[bytes, StatePartitions] = {}
        good: dict[bytes, StatePartitions] = {}
        for topic_id, state in wanted.items():
            lost = frozenset(index for index in state.partitions if (topic_id, index) in errors)
            if lost:
                bad[topic_id] = state._replace(partitions=lost)
            if state.partitions - lost:
                good[topic_id] = state._replace(partitions=state.partitions - lost)
        await self._run(group_id, lambda group, _: self._machine.initialized(group, group_id, good, bad))
        return errors

    # -- offsets

    def initialized_in(self, key: SharePartitionKey) -> int | None:
        """The group's epoch if its record says that the partition's state was made, and is not to go; else None. Raises
        ProtocolError as finding the group does."""
        group = self._heartbeat_groups.read(key.group)
        if not isinstance(group, ShareGroup):
            return None
        kept = group.initialized.get(key.topic_id)
        return group.group_epoch if kept is not None and key.partition in kept.partitions else None

    def describe(self, group_id: str) -> ShareGroup:
        """The group as it is. Raises ProtocolError: GROUP_ID_NOT_FOUND, or what finding a group raises."""
        return share_group(self._heartbeat_groups.read(group_id), group_id)

    def topics_of(self, group_id: str) -> list[tuple[str, list[int]]]:
        """(name, partitions) of all that the group has read. Raises ProtocolError as finding the group does."""
        found = self._heartbeat_groups.read(group_id)
        known = found.initialized if isinstance(found, ShareGroup) else {}
        return [
            (topic.name, sorted(state.partitions))
            for topic_id, state in known.items()
            if (topic := self._topics.by_id(topic_id)) is not None
        ]

    def offsets(
        self, group_id: str, name: str, partitions: Iterable[int]
    ) -> tuple[Topic | None, dict[int, SharePartitionOffset]]:
        """A topic, None where there is none of this name, and offsets by partition. Raises ProtocolError as finding the group
        does."""
        self._heartbeat_groups.read(group_id)
        topic = self._topics.get(name)
        return topic, {} if topic is None else {index: self._offset(group_id, topic, index) for index in partitions}

    def _offset(self, group_id: str, topic: Topic, partition: int) -> SharePartitionOffset:
        if not self._shares.coordinator.is_open:
            return SharePartitionOffset()
        try:
            state = self._shares.coordinator.summary(SharePartitionKey(group_id, topic.topic_id.bytes, partition))
        except ProtocolError as error:
            if error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return SharePartitionOffset()
        if state is None:
            return SharePartitionOffset()
        start, done = state.start_offset, state.delivery_complete_count
        found = self._topics.log(topic.name, partition)
        lag = -1
        if start != NO_OFFSET and done >= 0 and found is not None:
            lag = max(0, found.high_watermark - start - done)
        return SharePartitionOffset(start, state.leader_epoch, lag)

    async def alter_offsets(
        self, group_id: str, starts: Mapping[Place, int], turns: Turns
    ) -> dict[Place, ProtocolError | None]:
        """Sets where a group without members goes on; one that is not there is made. Each partition's error, or None. Others have
        their turn between parts of very many.

        Raises ProtocolError: NON_EMPTY_GROUP, or what finding the group raises."""
        outcome: dict[Place, ProtocolError | None] = {}
        partitions: dict[bytes, set[int]] = {}
        places: dict[tuple[bytes, int], Place] = {}
        for place in starts:
            if turns.spent():
                await turns.next()
            name, index = place
            topic = self._topics.get(name)
            if topic is None or not 0 <= index < topic.partition_count:
                outcome[place] = ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            outcome[place] = None
            topic_id = topic.topic_id.bytes
            partitions.setdefault(topic_id, set()).add(index)
            places[topic_id, index] = place
        if not places:  # nor is the group made
            return outcome
        wanted = {
            topic_id: StatePartitions(places[topic_id, next(iter(indexes))][0], frozenset(indexes))
            for topic_id, indexes in partitions.items()
        }
        decide = self._machine.initializing
        at = {key: starts[place] for key, place in places.items()}
        async with self._state_of(group_id):
            epoch = await self._run(group_id, lambda group, _: decide(group, group_id, wanted, must_be_empty=True))
            await self._shares.coordinator.ensure_topic()
            errors = await self._initialize(group_id, wanted, at, epoch)
        for key, error in errors.items():
            outcome[places[key]] = error
        return outcome

    async def delete_offsets(self, group_id: str, names: Sequence[str]) -> dict[str, ProtocolError | None]:
        """A group without members forgets topics. Each topic's error, or None.

        Raises ProtocolError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, or what finding the group raises."""
        group = self.describe(group_id)
        outcome: dict[str, ProtocolError | None] = {}
        topics: dict[bytes, str] = {}
        for name in names:
            topic = self._topics.get(name)
            outcome[name] = None
            if topic is None:
                outcome[name] = ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif topic.topic_id.bytes in group.initialized or topic.topic_id.bytes in group.deleting:
                topics[topic.topic_id.bytes] = name
            else:
                outcome[name] = ProtocolError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
                )
        async with self._state_of(group_id):
            await self._delete_state(group_id, topics)
            await self._run(group_id, lambda found, _: self._machine.deleted(found, group_id, topics.keys()))
        return outcome

    async def delete_state(self, group_id: str) -> None:
        """Delete the kept state of a group that is about to be deleted: in the same turn of the loop, or others may join it.

        Raises ProtocolError: NON_EMPTY_GROUP, or what a write or finding the group raises."""
        async with self._state_of(group_id):
            found = self._heartbeat_groups.read(group_id)
            if not isinstance(found, ShareGroup):
                return
            kept = {**found.initializing, **found.initialized}
            topics = {**found.deleting, **{topic_id: state.name for topic_id, state in kept.items()}}
            if topics:
                await self._delete_state(group_id, topics)

    async def _delete_state(self, group_id: str, topics: Mapping[bytes, str]) -> None:
        """Delete what is kept of these topics, by id, with the lock of the group's state. Before, it is written down that it
        counts no more: a member that joins meanwhile, or after a crash, has it made anew. Raises as `Machine.deleting`."""
        await self._run(group_id, lambda found, _: self._machine.deleting(found, group_id, topics))
        coordinator = self._shares.coordinator
        if not coordinator.is_open:
            return
        found = [(topic_id, self._topics.by_id(topic_id)) for topic_id in topics]
        keys = (
            SharePartitionKey(group_id, topic_id, index)
            for topic_id, topic in found
            for index in range(0 if topic is None else topic.partition_count)
        )
        for write in await run_in_rounds(coordinator.delete_all(keys, self._shares.drop)):
            await synced(write)

    # -- topics that go

    def forget_deleted_topics(self) -> None:
        """Groups keep no partitions of topics that are gone. Very many groups are gone through in rounds."""
        self._shares.in_rounds(self._forget_deleted_topics())

    def _forget_deleted_topics(self) -> Steps[None]:
        for group_id in self._members.ids_of_type(GroupType.SHARE):
            yield 1
            try:
                group = self.describe(group_id)
                gone = {
                    topic_id
                    for topic_id in (*group.initialized, *group.initializing, *group.deleting)
                    if self._topics.by_id(topic_id) is None
                }
                if gone:
                    self._forget(group_id, gone)
                    yield UNITS_OF_A_RECORD
            except ProtocolError as error:
                log.warning("group %s: what it kept of deleted topics stays: %s", group_id, error)

    def _forget(self, group_id: str, gone: Collection[bytes]) -> None:
        done: Any = self._heartbeat_groups.run(
            group_id, lambda found, _: self._machine.deleted(found, group_id, gone), kind=GroupType.SHARE
        )
        if inspect.isawaitable(done):
            self._loop.create_task(_heard(done))


async def _heard(done: Awaitable[object]) -> None:
    try:
        await done
    except ProtocolError as error:
        log.warning("a share group's record is not on disk: %s", error)
