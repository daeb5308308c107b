"""The groups of this node by partition of `__consumer_offsets`, and the way of their records into it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, ProtocolError
from ...coordinator.internal_topic import CoordinatorRecord
from ...coordinator.runtime import CoordinatorRuntime, Unsynced, keep_unsynced
from .offsets import OffsetStore
from .records import offset_key

if TYPE_CHECKING:
    from .group import Group

#: Tombstones are written in batches of at most this many records, so that none is too large for the topic.
TOMBSTONES_PER_BATCH = 1000


class Shard:
    """One partition's groups and offsets. Loop thread."""

    __slots__ = ("deleted_topics", "groups", "index", "loaded", "offsets", "unsynced")

    def __init__(self, index: int) -> None:
        self.index = index
        self.loaded = False
        #: Of all types, by id.
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        #: Topics that were deleted while this was being loaded: their offsets go when it is.
        self.deleted_topics: set[str] = set()
        #: Completes when all that was written is as durable as the topic asks for; None when it is.
        self.unsynced: Unsynced = None


class Shards:
    """Interface of the coordinator's runtime for the drivers of groups. Loop thread."""

    __slots__ = ("_runtime",)

    def __init__(self, runtime: CoordinatorRuntime[Shard]) -> None:
        self._runtime = runtime

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._runtime)

    def shard_of(self, group_id: str) -> Shard:
        return self._runtime.shard_of(group_id)

    def find(self, group_id: str, *, allow_empty_id: bool = False) -> Shard:
        """The loaded shard of a group. Raises ProtocolError, INVALID_GROUP_ID or as `CoordinatorRuntime.find`."""
        is_valid = group_id or allow_empty_id
        return self._runtime.find(group_id, None if is_valid else ProtocolError(ErrorCode.INVALID_GROUP_ID))

    def append(self, shard: Shard, records: Sequence[CoordinatorRecord]) -> Unsynced:
        """Writes one batch. None: done; a future: written, not yet durable. Raises ProtocolError; nothing is written
        then."""
        _, unsynced = self._runtime.append(shard, records)
        self.wait_for(shard, unsynced)
        return unsynced

    def append_transactional(
        self, shard: Shard, records: Sequence[CoordinatorRecord], producer_id: int, producer_epoch: int
    ) -> tuple[int, Unsynced]:
        """Append within a producer's transaction, as `append`. Returns the offset of the first record too."""
        offset, unsynced = self._runtime.append(shard, records, producer_id, producer_epoch)
        self.wait_for(shard, unsynced)
        return offset, unsynced

    def wait_for(self, shard: Shard, unsynced: Unsynced) -> None:
        """Hold back readers of the shard's offsets until this write is durable."""
        if unsynced is not None:
            keep_unsynced(shard, unsynced)

    def unsynced_of(self, shard: Shard) -> Unsynced:
        """As `CoordinatorRuntime.unsynced_of`: what readers of the shard's offsets have to wait for."""
        return self._runtime.unsynced_of(shard, shard)

    def remove_offsets(self, shard: Shard, group_id: str, partitions: Sequence[tuple[str, int]]) -> Unsynced:
        """Tombstones, then the offsets are gone from memory too. As `append`; batches before a failed one stay."""
        unsynced = None
        for start in range(0, len(partitions), TOMBSTONES_PER_BATCH):
            chunk = partitions[start : start + TOMBSTONES_PER_BATCH]
            unsynced = self.append(
                shard, [CoordinatorRecord(offset_key(group_id, topic, index), None) for topic, index in chunk]
            )
            for topic, index in chunk:
                shard.offsets.remove(group_id, topic, index)
        return unsynced
