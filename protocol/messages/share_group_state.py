"""Records of `__share_group_state`: their keys and values, each behind an INT16: its kind before keys, its version
before values.

A snapshot says all about one partition of one group, an update what has changed since its snapshot (KIP-932).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schema import Message, Struct, array, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(Message):
    """Key of a snapshot (kind 0)."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class StateBatch(Struct):
    """Offsets, the last included: how often they were delivered, and 0 available, 2 acknowledged or 4 archived."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class ShareSnapshotValue(Message):
    """State of the partition. `delivery_complete_count`: number of offsets from the start offset on that are done with."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: Sequence[StateBatch] = array(StateBatch)


class ShareUpdateKey(Message):
    """Key of an update (kind 1)."""

    VERSIONS = (1, 1)
    FLEXIBLE_FROM = None

    group_id: str = string()
    topic_id: bytes = uuid()
    partition: int = int32()


class ShareUpdateValue(Message):
    """`start_offset` is -1 where it is as before; `state_batches` are those that changed."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0)
    state_batches: Sequence[StateBatch] = array(StateBatch)
