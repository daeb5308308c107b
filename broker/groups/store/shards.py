"""The groups of this node by partition of `__consumer_offsets`, and the way of their records into it.

A group lives in the partition that its name hashes to, as in Kafka, so that a directory can change hands. A shard is
one such partition in memory. Until it is loaded its groups are not known, and requests for them are told to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode, ProtocolError
from ...partitions.internal_topic import CoordinatorLog, CoordinatorRecord
from ...runtime.error_codes import error_code
from .offsets import OffsetStore
from .records import offset_key

if TYPE_CHECKING:
    from ....storage.clock import Time
    from .group import Group

#: Tombstones are written in batches of at most this many records, so that none is too large for the topic.
TOMBSTONES_PER_BATCH = 1000

#: What clients of groups understand of a failed write. The second line makes them look for the coordinator anew.
_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_failure(error: BaseException) -> ProtocolError:
    """What a client is told of a write that failed."""
    code, message = error_code(error if isinstance(error, Exception) else RuntimeError(repr(error)))
    return ProtocolError(_APPEND_ERRORS.get(code, code), message)


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 code units, in 32 signed bits."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of a group's records. (Kafka's Utils.abs makes 0 of the one int that has no absolute value.)"""
    value = java_hash(group_id)
    return (0 if value == -0x8000_0000 else abs(value)) % partition_count


class Shard:
    """One partition's groups and offsets. Loop thread."""

    __slots__ = ("deleted_topics", "groups", "index", "loaded", "offsets", "unsynced")

    def __init__(self, index: int, *, loaded: bool) -> None:
        self.index = index
        self.loaded = loaded
        #: Of all types, by id.
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        #: Topics that were deleted while this was being loaded: their offsets go when it is.
        self.deleted_topics: set[str] = set()
        #: Completes when all that was written is as durable as the topic asks for; None when it is.
        self.unsynced: asyncio.Future[None] | None = None


class Shards:
    """All shards, none while the topic does not exist. Loop thread."""

    __slots__ = ("_log", "_shards", "_time", "closed")

    def __init__(self, log: CoordinatorLog, time: Time) -> None:
        self._log = log
        self._time = time
        self._shards: list[Shard] = []
        self.closed = False

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: int) -> Shard:
        return self._shards[index]

    def open(self, count: int, *, loaded: bool) -> None:
        """The topic has `count` partitions; `loaded`: it is new, so there is nothing to load."""
        assert not self._shards
        self._shards = [Shard(index, loaded=loaded) for index in range(count)]

    def shard_of(self, group_id: str) -> Shard:
        return self._shards[partition_for(group_id, len(self._shards))]

    def find(self, group_id: str, *, allow_empty_id: bool = False) -> Shard:
        """The loaded shard of a group.

        Raises ProtocolError: INVALID_GROUP_ID; NOT_COORDINATOR while there is no topic, which makes the client ask
        FindCoordinator, which makes the topic; COORDINATOR_LOAD_IN_PROGRESS; COORDINATOR_NOT_AVAILABLE after close.
        """
        if self.closed:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group_id and not allow_empty_id:
            raise ProtocolError(ErrorCode.INVALID_GROUP_ID)
        if not self._shards:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR)
        shard = self.shard_of(group_id)
        if not shard.loaded:
            raise ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def append(self, shard: Shard, records: Sequence[CoordinatorRecord]) -> asyncio.Future[None] | None:
        """Writes one batch. None: done; a future: written, not yet durable. Raises ProtocolError; nothing is written
        then."""
        try:
            unsynced = self._log.append(shard.index, records, self._time.milliseconds())
        except Exception as error:
            raise append_failure(error) from error
        self.wait_for(shard, unsynced)
        return unsynced

    def append_transactional(
        self, shard: Shard, records: Sequence[CoordinatorRecord], producer_id: int, producer_epoch: int
    ) -> tuple[int, asyncio.Future[None] | None]:
        """As `append`, inside a producer's transaction; the offset of the first record too."""
        try:
            offset, unsynced = self._log.append_transactional(
                shard.index, records, self._time.milliseconds(), producer_id, producer_epoch
            )
        except Exception as error:
            raise append_failure(error) from error
        self.wait_for(shard, unsynced)
        return offset, unsynced

    def wait_for(self, shard: Shard, unsynced: asyncio.Future[None] | None) -> None:
        """Who reads the shard's offsets waits until this is durable."""
        if unsynced is not None:
            shard.unsynced = unsynced
            unsynced.add_done_callback(lambda done: self._synced(shard, done))

    @staticmethod
    def _synced(shard: Shard, done: asyncio.Future[None]) -> None:
        # A failed one stays: what it covered may be lost with the power, so nobody shall read it until a later sync.
        if shard.unsynced is done and not done.cancelled() and done.exception() is None:
            shard.unsynced = None

    def remove_offsets(
        self, shard: Shard, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> asyncio.Future[None] | None:
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
