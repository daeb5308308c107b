"""Kept state of share partitions, the records that keep it, and their replay: decided here, written by `coordinator.py`.

A partition's first record is a snapshot. Updates follow, and after some of them a snapshot again, which makes all before it
redundant: when all snapshots of a log are young enough, its beginning is deleted.

`load_share_state` reads one partition of `__share_group_state` back, in a pool thread while the daemon serves. Records that
cannot be read are counted, named once, and passed over. All else is the loop thread's; pure, but for the dictionary that a
`StateShard` is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from ..coordinator.internal_topic import CoordinatorRecord, ReplayBatch, with_pauses
from .records import (
    NO_OFFSET,
    SNAPSHOT,
    SharePartitionKey,
    ShareRecordError,
    ShareState,
    ShareUpdate,
    StateBatch,
    combined,
    read_key,
    read_snapshot,
    read_update,
    snapshot_key,
    snapshot_value,
    update_key,
    update_value,
)

NO_EPOCH = -1


class StateEntry:
    """One share partition: its state, the updates since its snapshot, and the snapshot's offset in the log."""

    __slots__ = ("snapshot_offset", "state", "updates")

    def __init__(self, state: ShareState, snapshot_offset: int, updates: int = 0) -> None:
        self.state = state
        self.snapshot_offset = snapshot_offset
        self.updates = updates


class StateShard:
    """The share partitions of one partition of `__share_group_state`. Loop thread, or the thread that loads it."""

    __slots__ = ("entries", "index", "loaded", "pruned_to", "redundant")

    def __init__(self, index: int) -> None:
        self.index = index
        self.loaded = False
        self.entries: dict[SharePartitionKey, StateEntry] = {}
        #: The log's beginning was deleted up to here.
        self.pruned_to = 0
        #: What may be deleted below the first offset, once all below the second is on disk.
        self.redundant: tuple[int, int] | None = None

    def snapshot(self, key: SharePartitionKey, state: ShareState, offset: int) -> None:
        """A snapshot is in the log at `offset`. Epochs never fall."""
        before = self.entries.get(key)
        if before is not None:
            state = state._replace(
                state_epoch=max(state.state_epoch, before.state.state_epoch),
                leader_epoch=max(state.leader_epoch, before.state.leader_epoch),
            )
        self.entries[key] = StateEntry(state, offset)

    def update(self, key: SharePartitionKey, update: ShareUpdate, offset: int) -> None:
        """An update is in the log. Without a snapshot before it (which Kafka never leaves) it is all that is known."""
        entry = self.entries.get(key)
        if entry is None:
            batches = combined((), update.batches, update.start_offset)
            state = ShareState(
                update.snapshot_epoch,
                0,
                update.leader_epoch,
                update.start_offset,
                update.delivery_complete_count,
                batches,
            )
            self.entries[key] = StateEntry(state, offset, 1)
            return
        entry.state = updated(entry.state, update)
        entry.updates += 1

    def forget(self, key: SharePartitionKey) -> None:
        self.entries.pop(key, None)

    def redundant_before(self, end_offset: int) -> int:
        """All records below are older than the snapshots that count; `end_offset` is where the log ends."""
        return min((entry.snapshot_offset for entry in self.entries.values()), default=end_offset)


def updated(state: ShareState, update: ShareUpdate) -> ShareState:
    """The state with an update on top of it."""
    start = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    return state._replace(
        start_offset=start,
        leader_epoch=max(update.leader_epoch, state.leader_epoch),
        delivery_complete_count=update.delivery_complete_count,
        batches=combined(state.batches, update.batches, start),
    )


def initialized(before: ShareState | None, state_epoch: int, start_offset: int, now_ms: int) -> ShareState:
    """A new start. Raises ProtocolError FENCED_STATE_EPOCH."""
    check_state_epoch(before, state_epoch)
    return ShareState(
        0 if before is None else before.snapshot_epoch + 1,
        state_epoch,
        0,
        start_offset,
        -1 if start_offset == NO_OFFSET else 0,
        (),
        now_ms,
        now_ms,
    )


def snapshot_record(key: SharePartitionKey, state: ShareState) -> CoordinatorRecord:
    return CoordinatorRecord(snapshot_key(key), snapshot_value(state))


def update_record(key: SharePartitionKey, update: ShareUpdate) -> CoordinatorRecord:
    return CoordinatorRecord(update_key(key), update_value(update))


def tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(snapshot_key(key), None)


def written(
    entry: StateEntry,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
    leader_epoch: int,
    updates_per_snapshot: int,
    now_ms: int,
) -> ShareState | ShareUpdate:
    """Record of a change: an update, or a snapshot that includes it."""
    state = entry.state
    update = ShareUpdate(
        state.snapshot_epoch,
        leader_epoch,
        start_offset,
        delivery_complete_count,
        combined((), batches, start_offset),
    )
    if entry.updates < updates_per_snapshot:
        return update
    return updated(state, update)._replace(snapshot_epoch=state.snapshot_epoch + 1, create_ms=now_ms, write_ms=now_ms)


def check_state_epoch(state: ShareState | None, state_epoch: int) -> None:
    """Raises ProtocolError FENCED_STATE_EPOCH for one that is over."""
    if state is not None and NO_EPOCH != state_epoch < state.state_epoch:
        raise ProtocolError(
            ErrorCode.FENCED_STATE_EPOCH, f"state epoch {state_epoch} is over, it is {state.state_epoch} now"
        )


def check_leader_epoch(state: ShareState, leader_epoch: int) -> None:
    """Raises ProtocolError FENCED_LEADER_EPOCH for one that is over."""
    if NO_EPOCH != leader_epoch < state.leader_epoch:
        raise ProtocolError(
            ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} is over, it is {state.leader_epoch} now"
        )


log = logging.getLogger(__name__)

#: The loader holds the interpreter for about this many records, then lets the loop thread in.
RECORDS_PER_TURN = 64


class Loaded(NamedTuple):
    """State of one loaded partition. `skipped`: number of records of unknown kinds, `broken`: of unreadable ones."""

    shard: StateShard
    skipped: int
    broken: int


def load_share_state(name: str, batches: Iterable[ReplayBatch]) -> Loaded:
    """Plays the batches, in the order of the log. `name` is for log lines. Any thread; blocks where `batches` does."""
    shard = StateShard(0)  # only its entries are taken over
    skipped = broken = 0
    for batch in with_pauses(batches, RECORDS_PER_TURN):
        if batch.is_control:
            continue
        for offset, key, value in batch.records:
            try:
                if key is None or not _play(shard, offset, key, value):
                    skipped += 1
            except ShareRecordError as error:
                if not broken:
                    log.error("%s: the record at offset %d cannot be read and is passed over: %s", name, offset, error)
                broken += 1
    return Loaded(shard, skipped, broken)


def _play(shard: StateShard, offset: int, key: bytes, value: bytes | None) -> bool:
    read = read_key(key)
    if read is None:
        return False
    kind, partition = read
    if kind == SNAPSHOT:
        if value is None:
            shard.forget(partition)
        else:
            shard.snapshot(partition, read_snapshot(value), offset)
        return True
    if value is None:  # no broker writes that
        return False
    shard.update(partition, read_update(value), offset)
    return True
