"""The group coordinator: groups of all types and their committed offsets, as one object.

    apis/join_group, … ────► GroupCoordinator ─┬─► GroupMembership ─► classic/rebalance (decides) ─► classic/metadata
    apis/consumer_group_heartbeat, … ──────────├─► HeartbeatGroups ─► heartbeat/registry: a machine for each type
    apis/offset_commit, …                      ├─► GroupCommits ─► store/offsets
                                               └─► Shards ─► CoordinatorRuntime: `__consumer_offsets`

Loop thread, except that `load` reads the log in pool threads.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.exceptions import KafkaStorageError
from ..coordinator.internal_topic import CoordinatorLog
from ..coordinator.runtime import Coordinator, CoordinatorRuntime, RunBlocking
from ..metadata.store import GROUP
from .classic.events import (
    UNKNOWN_MEMBER_ID,
    DescribedGroup,
    GroupLimits,
    JoinRequest,
    JoinResult,
    LeavingMember,
    LeftMember,
    SyncRequest,
    SyncResult,
)
from .classic.membership import GroupMembership
from .classic.metadata import DEAD, GroupMetadata
from .loading import LoadedPartition, load_partition
from .offset_commits import CommitRequest, FetchedGroup, GroupCommits, TopicToFetch, TxnCommitRequest
from .store.group import Group, GroupType, wanted_types
from .store.member_memory import MemberRoom
from .store.offsets import TopicPartition
from .store.shards import Shard, Shards

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ..coordinator.parts import CoordinatorParts
    from ..metadata.resource_config import ResourceConfigs
    from ..metadata.topology_descriptions import TopologyDescriptions
    from ..runtime.timer import Timer
    from .heartbeat.machine import Environment
    from .heartbeat.runtime import HeartbeatGroups
    from .streams.description_push import DescriptionPush

log = logging.getLogger(__name__)

GROUP_METADATA_TOPIC = "__consumer_offsets"
#: Time that a start waits for groups and offsets before it accepts connections: some 20,000 commits are read by then.
START_PATIENCE_S = 0.1


def group_limits(config: BrokerConfig) -> GroupLimits:
    """The settings that the protocol obeys."""
    return GroupLimits(
        config.group_initial_rebalance_delay_ms,
        config.group_min_session_timeout_ms,
        config.group_max_session_timeout_ms,
        config.group_max_size,
    )


class GroupCoordinator(Coordinator[Shard]):
    """Made at start; `start` when topics are known, `close` before the logs are closed."""

    __slots__ = (
        "_commits",
        "_environment",
        "_heartbeat_groups",
        "_loop",
        "_membership",
        "_pushes",
        "_room",
        "_run_blocking",
        "_shards",
        "_time",
        "_timer",
        "descriptions",
    )  # fmt: skip

    def __init__(
        self,
        log: CoordinatorLog,
        config: BrokerConfig,
        time: Time,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
        environment: Callable[[], Environment],
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
        descriptions: TopologyDescriptions | None = None,
    ) -> None:
        """`environment` makes what heartbeat groups look at; it is called when there is one. `descriptions` of the topologies of
        streams groups.
        """
        self._loop = loop
        self._time = time
        self._timer = timer
        self._run_blocking = run_blocking
        self._environment = environment
        self._heartbeat_groups: HeartbeatGroups | None = None
        self._runtime = CoordinatorRuntime(GROUP_METADATA_TOPIC, log, Shard, time, timer, loop, run_blocking)
        self._shards = Shards(self._runtime)
        self._room = MemberRoom(
            lambda: (group for shard in self._runtime for group in shard.groups.values()), time.monotonic_ms
        )
        self._membership = GroupMembership(self._shards, group_limits(config), time, timer, loop, new_uuid)
        self._commits = GroupCommits(
            self._shards,
            self._membership,
            self._remove,
            time,
            config.offset_metadata_max_bytes,
            config.offsets_retention_minutes * 60_000,
        )
        self._runtime.every(config.offsets_retention_check_interval_ms, self._commits.expire)
        self.descriptions = descriptions
        self._pushes: set[asyncio.Task[None]] = set()
        if descriptions is not None:
            self._runtime.every(config.offsets_retention_check_interval_ms, self._forget_descriptions)

    @classmethod
    def of(
        cls, parts: CoordinatorParts, resources: ResourceConfigs, descriptions: TopologyDescriptions
    ) -> GroupCoordinator:
        """The coordinator of a whole broker. Offsets of topics that are deleted are forgotten."""

        def environment() -> Environment:
            from .heartbeat.machine import Environment, GroupSettings, random_id
            from .heartbeat.topic_image import RegistryImage

            settings = GroupSettings(lambda: parts.config, lambda group_id: resources.own(GROUP, group_id))
            return Environment(RegistryImage(parts.topics, parts.time), settings, random_id, descriptions)

        coordinator = cls(
            parts.log_of(GROUP_METADATA_TOPIC),
            parts.config,
            parts.time,
            parts.timer,
            parts.loop,
            parts.run_blocking,
            environment,
            descriptions=descriptions,
        )
        parts.topics.on_deleted.append(lambda topic: coordinator.topics_deleted([topic]))
        return coordinator

    # -- life

    async def start(self, patience_s: float = START_PATIENCE_S) -> None:
        """Load the groups' log. Arguments and errors as `CoordinatorRuntime.start`."""
        await self._runtime.start(self.load(), patience_s)

    def open(self) -> None:
        """Open the coordinator for a log that is empty: `start` without reading."""
        self._runtime.open()

    async def load(self) -> None:
        """Reads all partitions back; see `CoordinatorRuntime.load`."""
        started = self._time.monotonic_ms()
        groups = offsets = 0

        def loaded(shard: Shard, found: LoadedPartition) -> None:
            nonlocal groups, offsets
            try:
                self._loaded(shard, found)
            except Exception:
                self._unload(shard)  # the delays that have begun
                raise
            groups += len(found.groups)
            offsets += found.offsets.count

        await self._runtime.load(lambda name, batches: load_partition(name, batches, self._time.milliseconds()), loaded)
        if groups:
            seconds = (self._time.monotonic_ms() - started) / 1000
            log.info("loaded %d groups with %d offsets in %.1f s", groups, offsets, seconds)

    def _loaded(self, shard: Shard, found: LoadedPartition) -> None:
        shard.groups, shard.offsets = found.groups, found.offsets
        self._room.recount()
        self._membership.loaded(shard)
        if any(not isinstance(group, GroupMetadata) for group in shard.groups.values()):
            self.heartbeat_groups.loaded(shard)
        self._runtime.in_turns(self._commits.loaded(shard))

    def close(self) -> None:
        """Answers everybody who waits with NOT_COORDINATOR, then takes no requests."""
        if self._runtime.closed:
            return
        for push in list(self._pushes):
            push.cancel()
        if self._heartbeat_groups is not None:
            self._heartbeat_groups.close()
        for shard in self._runtime:
            self._unload(shard)
        self._runtime.close()

    def _unload(self, shard: Shard) -> None:
        for group in list(shard.groups.values()):
            self._remove(shard, group, ErrorCode.NOT_COORDINATOR)

    def _remove(self, shard: Shard, group: Group, error: ErrorCode) -> None:
        """Remove a group of any type from memory; requests that wait for it are answered with `error`."""
        if isinstance(group, GroupMetadata):
            self._membership.remove(shard, group, error)
        else:
            self.heartbeat_groups.forget(shard, group)

    @property
    def heartbeat_groups(self) -> HeartbeatGroups:
        """Groups of the newer protocols; made, and their code imported, when first asked for."""
        if self._heartbeat_groups is None:
            from .heartbeat.runtime import HeartbeatGroups

            self._heartbeat_groups = HeartbeatGroups(
                self._shards,
                self._environment(),
                self._time,
                self._timer,
                self._loop,
                self._run_blocking,
                self._remove,
                self._membership.adopt,
            )
        return self._heartbeat_groups

    # -- what metrics ask

    @property
    def group_count(self) -> int:
        return sum(len(shard.groups) for shard in self._runtime)

    @property
    def offset_count(self) -> int:
        return sum(shard.offsets.count for shard in self._runtime)

    @property
    def commits(self) -> int:
        return self._commits.commits

    @property
    def expired_offsets(self) -> int:
        return self._commits.expired

    @property
    def rebalances(self) -> int:
        return self._membership.rebalances

    @property
    def heartbeat_group_rebalances(self) -> Mapping[GroupType, int]:
        """Group epochs begun since the start, by type of group."""
        return {} if self._heartbeat_groups is None else self._heartbeat_groups.rebalances

    # -- membership

    def _is_consumer_group(self, group_id: str) -> bool:
        """True if this is a consumer group (KIP-848) with members. Its classic members are then served by it too."""
        if self._heartbeat_groups is None or not group_id or not self.is_open:
            return False
        group = self._runtime.shard_of(group_id).groups.get(group_id)
        return group is not None and group.group_type is GroupType.CONSUMER and not group.is_empty

    def check_room(self, group_id: str, member_id: str, said: object, instance_id: str | None = None) -> None:
        """Check the memory that a member asks for, as `MemberRoom.check`. Groups that do not exist or are not loaded pass; others
        find that error. A static member that comes back under another id has what its instance has.
        """
        group = self._runtime.shard_of(group_id).groups.get(group_id) if self.is_open else None
        if group is not None and instance_id is not None:
            member_id = group.static_members.get(instance_id, member_id)
        self._room.check(group, member_id, said)

    def join(self, request: JoinRequest) -> JoinResult | Awaitable[JoinResult]:
        """The answer, or an awaitable of it."""
        try:
            self.check_room(request.group_id, request.member_id, request.said, request.group_instance_id)
        except ProtocolError as error:
            return JoinResult(error.code, request.member_id)
        if not self._is_consumer_group(request.group_id):
            return self._membership.join(request)
        machine = self.heartbeat_groups.machine(GroupType.CONSUMER)
        try:
            self._membership.check_session_timeout(request)
            return self.heartbeat_groups.run(
                request.group_id, lambda group, now_ms: machine.join(group, request, now_ms), kind=GroupType.CONSUMER
            )
        except ProtocolError as error:
            full = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
            return JoinResult(error.code, UNKNOWN_MEMBER_ID if full else request.member_id)

    def sync(self, request: SyncRequest) -> SyncResult | Awaitable[SyncResult]:
        """The answer, or an awaitable of it."""
        if not self._is_consumer_group(request.group_id):
            return self._membership.sync(request)
        machine = self.heartbeat_groups.machine(GroupType.CONSUMER)
        try:
            return self.heartbeat_groups.run(
                request.group_id, lambda group, _: machine.sync(group, request), kind=GroupType.CONSUMER
            )
        except ProtocolError as error:
            return SyncResult(error.code)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        if not self._is_consumer_group(group_id):
            return self._membership.heartbeat(group_id, member_id, group_instance_id, generation)
        machine = self.heartbeat_groups.machine(GroupType.CONSUMER)
        try:
            code: ErrorCode = self.heartbeat_groups.run_at_once(
                group_id,
                lambda group, _: machine.classic_heartbeat(group, group_id, member_id, group_instance_id, generation),
                kind=GroupType.CONSUMER,
            )
        except ProtocolError as error:
            return error.code
        return code

    def leave(self, group_id: str, members: Sequence[LeavingMember]) -> tuple[ErrorCode, list[LeftMember]]:
        if not self._is_consumer_group(group_id):
            return self._membership.leave(group_id, members)
        machine = self.heartbeat_groups.machine(GroupType.CONSUMER)
        try:
            left = self.heartbeat_groups.run_at_once(
                group_id, lambda group, _: machine.leave(group, group_id, members), kind=GroupType.CONSUMER
            )
        except ProtocolError as error:
            return error.code, []
        return ErrorCode.NONE, left

    # -- offsets

    def begin_rebalance(self, group_id: str, reason: str) -> bool:
        """Have the members of a stable classic group join again; False where there is none."""
        return self._membership.begin_rebalance(group_id, reason)

    def commit_offsets(self, request: CommitRequest) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """One code for each offset, in their order; an awaitable where a sync has to be waited for. Raises ProtocolError for the
        whole request."""
        return self._commits.commit(request)

    def fetch_offsets(
        self,
        group_id: str,
        topics: Sequence[TopicToFetch] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedGroup | Awaitable[FetchedGroup]:
        """Fetch committed offsets, as `GroupCommits.fetch`."""
        return self._commits.fetch(
            group_id, topics, require_stable=require_stable, member_id=member_id, member_epoch=member_epoch
        )

    def committed_partitions(self, group_id: str) -> Mapping[str, Collection[int]]:
        """Partitions that the group has offsets of, as `GroupCommits.committed_partitions`."""
        return self._commits.committed_partitions(group_id)

    def commit_in_transaction(self, request: TxnCommitRequest) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Commit offsets in a transaction, as `GroupCommits.commit_in_transaction`."""
        return self._commits.commit_in_transaction(request)

    def partition_of(self, group_id: str) -> TopicPartition:
        """The partition of `__consumer_offsets` that holds the group. Raises ProtocolError as finding a group does."""
        return TopicPartition(GROUP_METADATA_TOPIC, self._shards.find(group_id).index)

    def check_loaded(self, index: int) -> None:
        """Raises ProtocolError, COORDINATOR_LOAD_IN_PROGRESS, while that partition is read back: a marker would be missed."""
        if index < len(self._runtime) and not self._runtime[index].loaded:
            raise ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def end_transaction(
        self, index: int, producer_id: int, committed: bool, unsynced: asyncio.Future[None] | None
    ) -> None:
        """A transaction's marker has been written to that partition: what it committed counts, or is forgotten."""
        if index < len(self._runtime):
            self._commits.end_transaction(self._runtime[index], producer_id, committed, unsynced)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> list[ErrorCode] | Awaitable[list[ErrorCode]]:
        """Delete committed offsets, as `GroupCommits.delete_offsets`."""
        return self._commits.delete_offsets(group_id, partitions)

    def topics_deleted(self, topics: Collection[str]) -> None:
        """Delete the committed offsets of these topics. Called after the topics have gone."""
        self._runtime.in_turns(self._commits.topics_deleted(topics))

    # -- administration

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[Group]:
        """Groups of all types, those in `states` and of `types` if any are named.

        Raises ProtocolError: COORDINATOR_LOAD_IN_PROGRESS while any partition is loading: the list would be false."""
        self._runtime.check_complete()
        of_types, in_states = wanted_types(types), wanted_types(states)
        return [
            group
            for shard in self._runtime
            for group in shard.groups.values()
            if not of_types or group.group_type in of_types
            if not in_states or group.state_name.lower() in in_states
        ]

    def ids_of_type(self, kind: GroupType) -> list[str]:
        """Groups of a type in the partitions that are loaded."""
        return [
            group.group_id for shard in self._runtime for group in shard.groups.values() if group.group_type is kind
        ]

    def describe_group(self, group_id: str) -> DescribedGroup:
        """The classic group with its members; an error inside where there is none or it cannot be told yet."""
        try:
            shard = self._shards.find(group_id)
        except ProtocolError as error:
            return DescribedGroup(group_id, "", "", error=error.code, error_message=error.message)
        group = shard.groups.get(group_id)
        if group is None:
            message = f"Group {group_id} not found."
        elif not isinstance(group, GroupMetadata):
            message = f"Group {group_id} is not a classic group."
        else:
            return group.describe()
        return DescribedGroup(group_id, str(DEAD), "", error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)

    def delete_group(self, group_id: str) -> ErrorCode | Awaitable[ErrorCode]:
        """NONE, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, GROUP_DELETION_FAILED where what belongs to the group could not be removed,
        or why nothing can be done now.
        """
        if self.descriptions is not None and group_id in self.descriptions:
            return self._delete_described(group_id, self.descriptions)
        return self._commits.delete_group(group_id)

    # -- descriptions of topologies

    async def keep_description(self, push: DescriptionPush) -> None:
        """Store a topology's description, to the end even where the client that waits goes. Errors as `description_push.keep`."""
        from .streams.description_push import keep

        assert self.descriptions is not None
        await self._to_the_end(keep(self.heartbeat_groups, self.descriptions, push))

    async def _delete_described(self, group_id: str, descriptions: TopologyDescriptions) -> ErrorCode:
        """Delete a group whose topology is described: the description first, so that none is left behind."""
        from .streams.description_push import remove

        try:
            group = self._shards.find(group_id).groups.get(group_id)
            if group is not None and (code := group.may_delete()) is not ErrorCode.NONE:
                return code
            await self._to_the_end(remove(self.heartbeat_groups, descriptions, group_id))
        except ProtocolError as error:
            return error.code
        except KafkaStorageError as error:
            log.error("group %s is not deleted: the description of its topology stays: %s", group_id, error)
            return ErrorCode.GROUP_DELETION_FAILED
        outcome = self._commits.delete_group(group_id)
        return outcome if isinstance(outcome, ErrorCode) else await outcome

    async def _to_the_end(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._pushes.add(task)
        task.add_done_callback(self._push_done)
        await asyncio.shield(task)

    def _push_done(self, task: asyncio.Task[None]) -> None:
        self._pushes.discard(task)
        if not task.cancelled():
            task.exception()  # told to whoever waits, if anybody still does

    def _forget_descriptions(self) -> None:
        """Remove the descriptions of groups that are gone, or are of another type by now."""
        descriptions = self.descriptions
        if descriptions is None or not len(descriptions) or not self.is_open:
            return
        gone = [group_id for group_id in descriptions.groups() if self._is_without_topology(group_id)]
        if gone:
            task = self._loop.create_task(descriptions.forget(gone))
            self._pushes.add(task)
            task.add_done_callback(self._forgotten)

    def _is_without_topology(self, group_id: str) -> bool:
        shard = self._runtime.shard_of(group_id)
        group = shard.groups.get(group_id)
        return shard.loaded and (group is None or group.group_type is not GroupType.STREAMS)

    def _forgotten(self, task: asyncio.Task[None]) -> None:
        self._pushes.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("descriptions of the topologies of groups that are gone remain for now: %s", error)

    def shards(self) -> Sequence[Shard]:
        """The shards as they are now; for tests, which only read them."""
        return tuple(self._runtime)

    def __repr__(self) -> str:
        return f"GroupCoordinator(groups={self.group_count}, offsets={self.offset_count})"
