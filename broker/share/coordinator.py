"""The share coordinator: keeps what share groups were delivered of each partition, in `__share_group_state`.

    SharePartitions, apis/…_share_group_state ──► ShareCoordinator ─┬─► state (decides)
                                                                    └─► CoordinatorRuntime: `__share_group_state`

Written state is visible here at once; before a client hears of it, wait for the future, which is there if the topic has to be
durable. A write that fails has changed nothing. A partition's records are in the partition of the topic that its key hashes to,
as in Kafka, so that a directory can change hands.

Loop thread, except that `load` reads the log in pool threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records.exceptions import RecordTooLargeError
from ..coordinator.internal_topic import CoordinatorLog, CoordinatorRecord
from ..coordinator.runtime import Coordinator, CoordinatorRuntime, RunBlocking, Unsynced
from ..metadata.topics import SHARE_GROUP_STATE
from ..runtime.cooperative import Steps, batches, weighed_batches
from . import state as states
from .records import SharePartitionKey, ShareState, StateBatch
from .state import Loaded, StateEntry, StateShard, load_share_state

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ..coordinator.parts import CoordinatorParts
    from ..runtime.timer import Timer

log = logging.getLogger(__name__)

#: Time that a start waits for the state before it accepts connections.
START_PATIENCE_S = 5.0
#: Snapshots and tombstones are written in batches of at most this many records.
RECORDS_PER_BATCH = 100
#: And their groups' ids have about this many characters together: less than a batch of max.message.bytes, in UTF-8 too.
CHARACTERS_PER_BATCH = 256 << 10


class Topics(Protocol):
    """Part of `TopicRegistry` that is needed here: whether a topic is there."""

    def by_id(self, topic_id: bytes) -> HasPartitions | None:
        """None: there is no such topic."""


class HasPartitions(Protocol):
    """Interface of a topic."""

    @property
    def partition_count(self) -> int:
        """Number of partitions."""


class ShareCoordinator(Coordinator[StateShard]):
    """Made when it is first asked for, or at start when there is something to load; `close` before the logs are closed."""

    __slots__ = ("_cold_ms", "_time", "_topics", "_updates_per_snapshot", "writes")

    def __init__(
        self,
        state_log: CoordinatorLog,
        topics: Topics,
        config: BrokerConfig,
        time: Time,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
    ) -> None:
        self._topics = topics
        self._time = time
        self._updates_per_snapshot = config.share_coordinator_snapshot_update_records_per_snapshot
        self._cold_ms = config.share_coordinator_cold_partition_snapshot_interval_ms
        self._runtime = CoordinatorRuntime(SHARE_GROUP_STATE, state_log, StateShard, time, timer, loop, run_blocking)
        self._runtime.every(config.share_coordinator_state_topic_prune_interval_ms, self.prune)
        self._runtime.every(self._cold_ms, self.snapshot_cold)
        #: Records that were written since the start.
        self.writes = 0

    @classmethod
    def of(cls, parts: CoordinatorParts) -> ShareCoordinator:
        """The coordinator of a whole broker."""
        coordinator = cls(
            parts.log_of(SHARE_GROUP_STATE),
            parts.topics,
            parts.config,
            parts.time,
            parts.timer,
            parts.loop,
            parts.run_blocking,
        )
        parts.topics.on_deleted.append(lambda _: coordinator.forget_deleted_topics())
        return coordinator

    # -- life

    async def start(self, patience_s: float = START_PATIENCE_S) -> None:
        """Load the state. Arguments and errors as `CoordinatorRuntime.start`."""
        await self._runtime.start(self.load(), patience_s)

    async def load(self) -> None:
        """Reads all partitions back; see `CoordinatorRuntime.load`."""

        def loaded(shard: StateShard, found: Loaded) -> None:
            shard.entries = found.shard.entries
            self._runtime.in_turns(self._forget_deleted_topics([shard]))

        await self._runtime.load(load_share_state, loaded)
        if self.partition_count:
            log.info("loaded what %d partitions of share groups were delivered", self.partition_count)

    def close(self) -> None:
        """Takes no requests any more."""
        self._runtime.close()

    @property
    def partition_count(self) -> int:
        """Partitions of share groups that are known."""
        return sum(len(shard.entries) for shard in self._runtime)

    # -- the persister's five calls (KIP-932). All raise ProtocolError, and nothing was changed then.

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Unsynced:
        """Make the state of a partition: nothing delivered, beginning at `start_offset` (-1: wherever the
        group's settings say when it is first read). FENCED_STATE_EPOCH."""
        shard = self._shard(key)
        entry = shard.entries.get(key)
        state = states.initialized(
            None if entry is None else entry.state, state_epoch, start_offset, self._time.milliseconds()
        )
        self._check_topic(key)
        return self._snapshot(shard, [(key, state)])

    def initialize_all(
        self, starts: Mapping[SharePartitionKey, int], state_epoch: int, tried: Callable[[SharePartitionKey], object]
    ) -> Steps[tuple[list[Unsynced], dict[SharePartitionKey, ProtocolError]]]:
        """`initialize` for many, in steps; what is not among the errors is written. `tried` is called with each, in the step that
        writes it or fails. Raises nothing."""
        by_shard: dict[int, list[SharePartitionKey]] = {}
        errors: dict[SharePartitionKey, ProtocolError] = {}
        unsynced: list[Unsynced] = []
        for key in starts:
            try:
                by_shard.setdefault(self._shard(key).index, []).append(key)
            except ProtocolError as error:
                errors[key] = error
                tried(key)
            yield 1
        for index, keys in by_shard.items():
            for some in _batches(keys):
                written, failed = self._initialized(self._runtime[index], some, starts, state_epoch)
                unsynced += written
                errors.update(failed)
                for key in some:
                    tried(key)
                yield len(some)
        return unsynced, errors

    def _initialized(
        self, shard: StateShard, keys: Sequence[SharePartitionKey], starts: Mapping[SharePartitionKey, int], epoch: int
    ) -> tuple[list[Unsynced], dict[SharePartitionKey, ProtocolError]]:
        """Initialize partitions of one shard by one batch."""
        snapshots: list[tuple[SharePartitionKey, ShareState]] = []
        errors: dict[SharePartitionKey, ProtocolError] = {}
        now = self._time.milliseconds()
        for key in keys:
            try:
                self._check_topic(key)
                entry = shard.entries.get(key)
                state = states.initialized(None if entry is None else entry.state, epoch, starts[key], now)
                snapshots.append((key, state))
            except ProtocolError as error:
                errors[key] = error
        try:
            return [self._snapshot(shard, snapshots)] if snapshots else [], errors
        except ProtocolError as error:
            return [], {**errors, **{key: error for key, _ in snapshots}}

    def read(self, key: SharePartitionKey, leader_epoch: int) -> tuple[ShareState, Unsynced]:
        """Read a share partition's kept state. A higher leader epoch than before (-1: none) is kept too: earlier ones are fenced.

        INVALID_REQUEST for a partition that was never initialized, FENCED_LEADER_EPOCH.
        """
        shard = self._shard(key)
        entry = self._known(shard, key)
        states.check_leader_epoch(entry.state, leader_epoch)
        self._check_topic(key)
        if leader_epoch in (states.NO_EPOCH, entry.state.leader_epoch):
            return entry.state, None
        state = entry.state
        unsynced = self._write(shard, key, entry, state.start_offset, state.delivery_complete_count, (), leader_epoch)
        return shard.entries[key].state, unsynced

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Unsynced:
        """Keeps what changed. As `read`; FENCED_STATE_EPOCH."""
        shard = self._shard(key)
        entry = self._known(shard, key)
        states.check_leader_epoch(entry.state, leader_epoch)
        states.check_state_epoch(entry.state, state_epoch)
        self._check_topic(key)
        return self._write(shard, key, entry, start_offset, delivery_complete_count, batches, entry.state.leader_epoch)

    def delete(self, key: SharePartitionKey) -> Unsynced:
        """Forgets the partition, if it is known."""
        shard = self._shard(key)
        self._check_topic(key)
        return self._forget(shard, [key]) if key in shard.entries else None

    def delete_all(
        self, keys: Iterable[SharePartitionKey], deleting: Callable[[SharePartitionKey], object]
    ) -> Steps[list[Unsynced]]:
        """`delete` for many, in steps. `deleting` is called with each, in the step that deletes it or finds that there is none.
        Raises as `delete`; those before are deleted then."""
        by_shard: dict[int, list[SharePartitionKey]] = {}
        for key in keys:
            shard = self._shard(key)
            if key in shard.entries:
                by_shard.setdefault(shard.index, []).append(key)
            else:
                deleting(key)
            yield 1
        unsynced: list[Unsynced] = []
        for index, known in by_shard.items():
            for some in _batches(known):
                for key in some:
                    deleting(key)
                unsynced.append(self._forget(self._runtime[index], some))
                yield len(some)
        return unsynced

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """Kept state of a share partition; None if there is none."""
        shard = self._shard(key)
        self._check_topic(key)
        entry = shard.entries.get(key)
        return None if entry is None else entry.state

    # -- care

    def prune(self) -> None:
        """Lets go of the beginnings of logs that newer snapshots have made redundant, once those are on disk: a power cut would
        leave nothing of either."""
        found = self._runtime.log
        for shard in self._runtime:
            if not shard.loaded:
                continue
            end = found.end_offset(shard.index)
            if shard.redundant is None and (offset := shard.redundant_before(end)) > shard.pruned_to:
                shard.redundant = offset, end
            if shard.redundant is None:
                continue
            offset, end = shard.redundant
            if found.durable_offset(shard.index) < end:
                found.begin_sync(shard.index)  # for the next round
                continue
            shard.redundant = None
            try:
                found.delete_before(shard.index, offset)
            except Exception as error:
                log.warning("%s-%d cannot be pruned: %s", SHARE_GROUP_STATE, shard.index, error)
                continue
            shard.pruned_to = offset

    def snapshot_cold(self) -> Iterator[None]:
        """Take snapshots of partitions that nobody has written for long: theirs would hold `prune` back for ever. Yields after
        each batch."""
        for shard in self._runtime:
            if not shard.loaded or all(
                entry.state.write_ms != entry.state.create_ms for entry in shard.entries.values()
            ):
                continue  # each has been since it was last written: another round would not move the oldest
            for keys in batches(self._cold(shard, shard.entries), RECORDS_PER_BATCH):
                if not self._in_batches(self._cold(shard, keys), partial(self._snapshot_again, shard)):
                    break
                yield

    def _cold(self, shard: StateShard, keys: Iterable[SharePartitionKey]) -> list[SharePartitionKey]:
        until = self._time.milliseconds() - self._cold_ms
        return [key for key in keys if (entry := shard.entries.get(key)) is not None and entry.state.write_ms <= until]

    def _snapshot_again(self, shard: StateShard, keys: Sequence[SharePartitionKey]) -> Unsynced:
        now = self._time.milliseconds()
        kept = [shard.entries[key].state for key in keys]
        again = [state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_ms=now) for state in kept]
        return self._snapshot(shard, list(zip(keys, again, strict=True)))

    def forget_deleted_topics(self) -> None:
        """Delete the kept state of deleted topics, in turns: very many groups may have read them."""
        self._runtime.in_turns(self._forget_deleted_topics([shard for shard in self._runtime if shard.loaded]))

    def _forget_deleted_topics(self, shards: Iterable[StateShard]) -> Iterator[None]:
        for shard in shards:
            gone = [key for key in shard.entries if self._topics.by_id(key.topic_id) is None]
            for keys in batches(gone, RECORDS_PER_BATCH):
                left = [key for key in keys if key in shard.entries]
                if not self._in_batches(left, partial(self._forget, shard)):
                    break
                yield

    def _in_batches(
        self, keys: Sequence[SharePartitionKey], write: Callable[[Sequence[SharePartitionKey]], Unsynced]
    ) -> bool:
        """Writes something of each key; in more than one batch where one would be larger than the topic takes. False: there is
        no writing now."""
        if not keys:
            return True
        try:
            write(keys)
        except ProtocolError as error:
            is_too_large = isinstance(error.__cause__, RecordTooLargeError)
            half = len(keys) // 2
            if half and is_too_large:
                return self._in_batches(keys[:half], write) and self._in_batches(keys[half:], write)
            log.warning("%s: %d partitions cannot be written: %s", SHARE_GROUP_STATE, len(keys), error)
            return is_too_large
        return True

    # -- inside

    def _shard(self, key: SharePartitionKey) -> StateShard:
        """Raises ProtocolError, INVALID_REQUEST or as `CoordinatorRuntime.find`."""
        invalid = None
        if not key.group:
            invalid = ProtocolError(ErrorCode.INVALID_REQUEST, "the group's name is empty")
        elif key.partition < 0:
            invalid = ProtocolError(ErrorCode.INVALID_REQUEST, f"there is no partition {key.partition}")
        return self._runtime.find(key.coordinator_key, invalid)

    @staticmethod
    def _known(shard: StateShard, key: SharePartitionKey) -> StateEntry:
        entry = shard.entries.get(key)
        if entry is None:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST, f"nothing is kept of {key.coordinator_key}: it was not initialized"
            )
        return entry

    def _check_topic(self, key: SharePartitionKey) -> None:
        topic = self._topics.by_id(key.topic_id)
        if topic is None or key.partition >= topic.partition_count:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _write(
        self,
        shard: StateShard,
        key: SharePartitionKey,
        entry: StateEntry,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        leader_epoch: int,
    ) -> Unsynced:
        change = states.written(
            entry,
            start_offset,
            delivery_complete_count,
            batches,
            leader_epoch,
            self._updates_per_snapshot,
            self._time.milliseconds(),
        )
        if isinstance(change, ShareState):
            return self._snapshot(shard, [(key, change)])
        offset, unsynced = self._append(shard, [states.update_record(key, change)])
        shard.update(key, change, offset)
        return unsynced

    def _snapshot(self, shard: StateShard, snapshots: Sequence[tuple[SharePartitionKey, ShareState]]) -> Unsynced:
        offset, unsynced = self._append(shard, [states.snapshot_record(key, state) for key, state in snapshots])
        for index, (key, state) in enumerate(snapshots):
            shard.snapshot(key, state, offset + index)
        return unsynced

    def _forget(self, shard: StateShard, keys: Sequence[SharePartitionKey]) -> Unsynced:
        _, unsynced = self._append(shard, [states.tombstone(key) for key in keys])
        for key in keys:
            shard.forget(key)
        return unsynced

    def _append(self, shard: StateShard, records: list[CoordinatorRecord]) -> tuple[int, Unsynced]:
        written = self._runtime.append(shard, records)
        self.writes += len(records)
        return written


def _batches(keys: Iterable[SharePartitionKey]) -> Iterator[list[SharePartitionKey]]:
    """Keys for a batch each. A group's id may have 32 KB."""
    return weighed_batches(keys, RECORDS_PER_BATCH, CHARACTERS_PER_BATCH, lambda key: len(key.group))
