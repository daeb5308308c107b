"""Keys and values of `__share_group_state`, as Apache Kafka 4.3 writes and reads them (KIP-932), and the state in them.

    key     ShareSnapshotKey (kind 0) or ShareUpdateKey (kind 1): group, topic id, partition
    value   ShareSnapshotValue or ShareUpdateValue, version 0; null behind a snapshot's key: forgotten

The declarations in `protocol/messages/share_group_state.py` are the layout. A `StateBatch` is offsets of a partition that a share
group treats alike. The kept state is a sorted list of them without overlaps; equal neighbours are merged. Offsets
that are in none were never delivered, or were with a member when that was written: after a start they can be had by anybody.
Any thread.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ...protocol.errors import ProtocolError
from ...protocol.messages import share_group_state as layout
from ...protocol.schema import decode_with_version, encode_with_version

SNAPSHOT, UPDATE = 0, 1
VALUE_VERSION = 0


class ShareRecordError(ValueError):
    """A key or value that is not what its version says."""


class SharePartitionKey(NamedTuple):
    """One partition of one group."""

    group: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """Name of the key in FindCoordinator. It also decides the partition of `__share_group_state`."""
        return f"{self.group}:{topic_id_text(self.topic_id)}:{self.partition}"


class ShareState(NamedTuple):
    """All about a share partition that outlives a start. Times in milliseconds since 1970, 0: not known.

    `state_epoch` rises when an administrator sets the start offset, `leader_epoch` when the partition's leader does;
    `start_offset` is -1 until somebody reads. `delivery_complete_count` is -1 where an older version has not kept it.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: Sequence[StateBatch] = ()
    create_ms: int = 0
    write_ms: int = 0


class ShareUpdate(NamedTuple):
    """Changes since the snapshot of that epoch. `start_offset` and `leader_epoch` are -1 if they are unchanged."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    batches: Sequence[StateBatch] = ()


def topic_id_text(topic_id: bytes) -> str:
    """Format a topic id as Kafka does: 22 letters of base64."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def is_coordinator_key(text: str) -> bool:
    """True for GROUP:TOPIC-ID:PARTITION. A group's name may have colons of its own, and is not blank."""
    # No expression for the whole: it would try each two places of a name of 32,767 characters.
    group, *where = text.rsplit(":", 2)
    return group.strip() != "" and re.fullmatch("[A-Za-z0-9_-]{22}:[0-9]+", ":".join(where)) is not None


def snapshot_key(key: SharePartitionKey) -> bytes:
    return encode_with_version(
        layout.ShareSnapshotKey(group_id=key.group, topic_id=key.topic_id, partition=key.partition), SNAPSHOT
    )


def update_key(key: SharePartitionKey) -> bytes:
    return encode_with_version(
        layout.ShareUpdateKey(group_id=key.group, topic_id=key.topic_id, partition=key.partition), UPDATE
    )


def snapshot_value(state: ShareState) -> bytes:
    value = layout.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=_batches(state.batches),
    )
    return encode_with_version(value, VALUE_VERSION)


def update_value(update: ShareUpdate) -> bytes:
    value = layout.ShareUpdateValue(
        snapshot_epoch=update.snapshot_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=_batches(update.batches),
    )
    return encode_with_version(value, VALUE_VERSION)


def read_key(data: bytes) -> tuple[int, SharePartitionKey] | None:
    """The kind, and what it is about; None for a kind that is not known. ShareRecordError."""
    kind = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else -1
    if kind not in (SNAPSHOT, UPDATE):
        return None
    try:
        key: layout.ShareSnapshotKey | layout.ShareUpdateKey
        if kind == SNAPSHOT:
            key = decode_with_version(layout.ShareSnapshotKey, data)[0]
        else:
            key = decode_with_version(layout.ShareUpdateKey, data)[0]
    except ProtocolError as error:
        raise ShareRecordError(f"no key of __share_group_state: {error}") from None
    return kind, SharePartitionKey(key.group_id, key.topic_id, key.partition)


def read_snapshot(data: bytes) -> ShareState:
    """Decode a snapshot. ShareRecordError."""
    try:
        value, _ = decode_with_version(layout.ShareSnapshotValue, data)
        return ShareState(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            _read_batches(value.state_batches),
            value.create_timestamp,
            value.write_timestamp,
        )
    except (ProtocolError, ValueError) as error:
        raise ShareRecordError(f"no snapshot of __share_group_state: {error}") from None


def read_update(data: bytes) -> ShareUpdate:
    """Decode an update. ShareRecordError."""
    try:
        value, _ = decode_with_version(layout.ShareUpdateValue, data)
        return ShareUpdate(
            value.snapshot_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            _read_batches(value.state_batches),
        )
    except (ProtocolError, ValueError) as error:
        raise ShareRecordError(f"no update of __share_group_state: {error}") from None


def _batches(batches: Iterable[StateBatch]) -> list[layout.StateBatch]:
    return [
        layout.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def _read_batches(batches: Iterable[layout.StateBatch]) -> tuple[StateBatch, ...]:
    """ValueError for offsets or a state that there cannot be."""
    read = []
    for batch in batches:
        if not NO_OFFSET < batch.first_offset <= batch.last_offset:
            raise ValueError(f"no offsets: {batch.first_offset} to {batch.last_offset}")
        state = RecordState(batch.delivery_state)
        read.append(StateBatch(batch.first_offset, batch.last_offset, state, batch.delivery_count))
    return tuple(read)


NO_OFFSET = -1


class RecordState(IntEnum):
    """State of a record in a share group; the numbers are Kafka's. ACQUIRED is never written."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """True if nobody gets the record any more."""
        return self >= RecordState.ACKNOWLEDGED


class StateBatch(NamedTuple):
    """Offsets `first` to `last`, both included."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


def combined(before: Sequence[StateBatch], changes: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """`before` with `changes` on top of it, the later over the earlier, from `start_offset` on (-1: all).

    (Kafka has the higher delivery count win where two overlap. Changes are written in the order in which they happened, so
    that the later one is the truth, and its count is not the lower one.)
    """
    batches = list(before)
    for change in changes:
        _put(batches, change)
    kept: list[StateBatch] = []
    for batch in batches:
        if batch.last < start_offset:
            continue
        if batch.first < start_offset:
            batch = batch._replace(first=start_offset)
        if kept and _are_alike(kept[-1], batch):
            kept[-1] = kept[-1]._replace(last=batch.last)
        else:
            kept.append(batch)
    return tuple(kept)


def _are_alike(left: StateBatch, right: StateBatch) -> bool:
    return left.last + 1 == right.first and left[2:] == right[2:]


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    """Cuts what `new` covers out of the sorted list, and puts it there."""
    begin = bisect_left(batches, new.first, key=lambda batch: batch.last)
    end = begin
    parts: list[StateBatch] = []
    rest: list[StateBatch] = []
    while end < len(batches) and batches[end].first <= new.last:
        old = batches[end]
        if old.first < new.first:
            parts.append(old._replace(last=new.first - 1))
        if old.last > new.last:
            rest.append(old._replace(first=new.last + 1))
        end += 1
    batches[begin:end] = [*parts, new, *rest]
