"""Reads one partition of `__consumer_offsets` back into groups and offsets.

Runs in a pool thread while the daemon serves; nobody else sees what is being built. About two microseconds a record,
so that a million offsets are there within the time that clients take to ask again. Records of heartbeat groups are replayed by
their types (`heartbeat/registry.py`), those of types that are not known here are left where they are, and records that
cannot be read are counted, named once, and passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..coordinator.internal_topic import ReplayBatch, with_pauses
from .classic.metadata import GroupMetadata
from .classic.records import read_group_value
from .store.group import Group
from .store.offsets import OffsetStore
from .store.records import GroupKey, OffsetKey, OffsetsRecordError, read_key, read_offset_value

log = logging.getLogger(__name__)

#: The loader holds the interpreter for about this many records (half a millisecond), then lets the loop thread in.
RECORDS_PER_TURN = 256

_OFFSET_KEY = b"\x00\x01"
_OFFSET_VALUE = b"\x00\x04"
_COMMIT_MARKER = 1
_INT32 = 4


@dataclass(slots=True)
class LoadedPartition:
    """Groups and offsets of one loaded partition. `skipped`: number of records of unknown types, `broken`: of unreadable ones."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetStore = field(default_factory=OffsetStore)
    records: int = 0
    skipped: int = 0
    broken: int = 0


def load_partition(name: str, batches: Iterable[ReplayBatch], now_ms: int) -> LoadedPartition:
    """Plays the batches, in the order of the log. `name` is for log lines. Any thread; blocks where `batches` does."""
    loaded = LoadedPartition()
    replay = _Replay(name, loaded)
    for batch in with_pauses(batches, RECORDS_PER_TURN):
        loaded.records += len(batch.records)
        replay.batch(batch)
    loaded.offsets.settle()
    for group_id in {*loaded.offsets.group_ids(), *loaded.offsets.pending_group_ids()}:
        # A group that nobody joined, or whose own record has gone: it only stores offsets.
        if group_id not in loaded.groups:
            loaded.groups[group_id] = GroupMetadata(group_id, now_ms)
    if loaded.offsets.open_transactions:
        log.warning("%s: %d open transactions hold committed offsets", name, loaded.offsets.open_transactions)
    if loaded.skipped:
        log.info("%s: left %d records of other group protocols alone", name, loaded.skipped)
    return loaded


class _Replay:
    """Applies records one after the other."""

    __slots__ = ("_loaded", "_name", "_places")

    def __init__(self, name: str, loaded: LoadedPartition) -> None:
        self._name = name
        self._loaded = loaded
        # Key bytes but for the partition → where its offsets go. Spares decoding the same names again and again.
        self._places: dict[bytes, dict[int, bytes]] = {}

    def batch(self, batch: ReplayBatch) -> None:
        if batch.is_control:
            self._marker(batch)
            return
        if batch.is_transactional or self._loaded.offsets.open_transactions:
            for offset, key, value in batch.records:
                self._record(batch, offset, key, value)
            return
        places = self._places
        for offset, key, value in batch.records:
            if key is not None and key[:2] == _OFFSET_KEY:
                place = places.get(key[:-4])
                if place is not None:
                    partition = int.from_bytes(key[-4:], "big", signed=True)
                    if value is None:
                        place.pop(partition, None)
                        continue
                    if value[:2] == _OFFSET_VALUE and len(value) == 42 and value[14] == 1 and value[23] == 1:
                        place[partition] = value
                        continue
            self._record(batch, offset, key, value)

    def _record(self, batch: ReplayBatch, offset: int, key: bytes | None, value: bytes | None) -> None:
        loaded = self._loaded
        try:
            what = None if key is None else read_key(key)
            if isinstance(what, OffsetKey):
                assert key is not None
                self._offset(batch, offset, key, what, value)
            elif isinstance(what, GroupKey):
                # Kafka writes these outside of transactions, always.
                if value is None:
                    if isinstance(loaded.groups.get(what.group), GroupMetadata):
                        del loaded.groups[what.group]
                else:
                    loaded.groups[what.group] = read_group_value(what.group, value)
            elif key is None or not self._replay_heartbeat_group(key, value):
                loaded.skipped += 1
        except OffsetsRecordError as error:
            if not loaded.broken:
                log.error(
                    "%s: the record at offset %d cannot be read and is passed over: %s", self._name, offset, error
                )
            loaded.broken += 1

    def _replay_heartbeat_group(self, key: bytes, value: bytes | None) -> bool:
        from .heartbeat.registry import replay_bytes

        return replay_bytes(self._loaded.groups, key, value)

    def _offset(self, batch: ReplayBatch, offset: int, key: bytes, what: OffsetKey, value: bytes | None) -> None:
        store = self._loaded.offsets
        group_id, topic, partition = what
        if value is not None:
            read_offset_value(value)  # raises here rather than when somebody asks for it
            if batch.is_transactional:
                store.put_pending(batch.producer_id, offset, group_id, topic, partition, value)
                return
        place = self._places[key[:-_INT32]] = store.partitions_of(group_id, topic)
        store.forget_pending(group_id, topic, partition)
        if value is None:
            place.pop(partition, None)
        else:
            place[partition] = value

    def _marker(self, batch: ReplayBatch) -> None:
        """The end of a transaction: its key is version int16, type int16. Compaction may have emptied the batch."""
        for _, key, _ in batch.records:
            if key is not None and len(key) >= _INT32:
                committed = int.from_bytes(key[2:4], "big") == _COMMIT_MARKER
                self._loaded.offsets.end_transaction(batch.producer_id, committed=committed)
