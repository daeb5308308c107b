"""The transactional ids of this node by partition of `__transaction_state`, and the way of their records into it.

An id lives in the partition that it hashes to, as in Kafka, so that a directory can change hands. Until a partition is
loaded its ids are not known, and requests for them are told to come back. Loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode, ProtocolError
from ..groups.store.shards import append_failure, partition_for
from ..metadata.features import TRANSACTION_VERSION
from ..partitions.internal_topic import CoordinatorLog, CoordinatorRecord
from .records import transaction_key, transaction_value
from .states import TransactionMetadata, TransactionState

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..metadata.features import Features


class TransactionStateLog(CoordinatorLog, Protocol):
    """Where it all stands."""

    def epoch(self, partition: int) -> int:
        """The epoch of the partition's log, which rises with each start: markers carry it. Loop thread."""


class TransactionEntry:
    """One transactional id.

    Attributes:
        metadata: where it stands; what the log says.
        unsynced: completes when that is as durable as the topic asks for; None when it is.
    """

    __slots__ = ("metadata", "unsynced")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.unsynced: asyncio.Future[None] | None = None

    def synced(self, done: asyncio.Future[None]) -> None:
        # A failed one stays: what it covered may be lost with the power, and nothing may be built on it.
        if self.unsynced is done and not done.cancelled() and done.exception() is None:
            self.unsynced = None


class TransactionShard:
    """One partition. `ongoing` are the ids with a transaction that nobody has ended yet."""

    __slots__ = ("entries", "index", "loaded", "ongoing")

    def __init__(self, index: int, *, loaded: bool) -> None:
        self.index = index
        self.loaded = loaded
        self.entries: dict[str, TransactionEntry] = {}
        self.ongoing: set[str] = set()

    def put(self, entry: TransactionEntry) -> None:
        """What the entry says is known here."""
        transactional_id = entry.metadata.transactional_id
        self.entries[transactional_id] = entry
        if entry.metadata.state is TransactionState.ONGOING:
            self.ongoing.add(transactional_id)
        else:
            self.ongoing.discard(transactional_id)


class TransactionLog:
    """All shards; none while the topic does not exist."""

    __slots__ = ("_features", "_log", "_shards", "_time", "closed")

    def __init__(self, log: TransactionStateLog, time: Time, features: Features) -> None:
        self._log = log
        self._time = time
        self._features = features
        self._shards: list[TransactionShard] = []
        self.closed = False

    def __iter__(self) -> Iterator[TransactionShard]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)

    def open(self, count: int, *, loaded: bool) -> None:
        """The topic has `count` partitions; `loaded`: it is new, so there is nothing to load."""
        assert not self._shards
        self._shards = [TransactionShard(index, loaded=loaded) for index in range(count)]

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """The loaded shard of an id.

        Raises ProtocolError: INVALID_REQUEST for an empty one; NOT_COORDINATOR while there is no topic, which makes the
        client ask FindCoordinator, which makes the topic; COORDINATOR_LOAD_IN_PROGRESS; COORDINATOR_NOT_AVAILABLE after
        close.
        """
        if self.closed:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not transactional_id:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if not self._shards:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR)
        shard = self._shards[partition_for(transactional_id, len(self._shards))]
        if not shard.loaded:
            raise ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def find(self, transactional_id: str) -> TransactionEntry:
        """As `shard_of`; INVALID_PRODUCER_ID_MAPPING when there is no such id."""
        entry = self.shard_of(transactional_id).entries.get(transactional_id)
        if entry is None:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"there is no transactional id {transactional_id}"
            )
        return entry

    def write(self, entry: TransactionEntry, metadata: TransactionMetadata) -> asyncio.Future[None] | None:
        """Writes what the id is from now on; the entry is that when this returns, and is among its shard's.

        None: it is durable; else a future of that. Raises ProtocolError, and nothing was written or changed then.
        """
        shard = self.shard_of(metadata.transactional_id)
        record = CoordinatorRecord(
            transaction_key(metadata.transactional_id),
            transaction_value(metadata, self._features.level(TRANSACTION_VERSION)),
        )
        unsynced = self._append(shard, [record])
        entry.metadata = metadata
        shard.put(entry)
        entry.unsynced = unsynced
        if unsynced is not None:
            unsynced.add_done_callback(entry.synced)
        return unsynced

    def epoch_of(self, transactional_id: str) -> int:
        """The coordinator's epoch for that id."""
        return self._log.epoch(self.shard_of(transactional_id).index)

    def forget(self, shard: TransactionShard, transactional_ids: list[str]) -> None:
        """Writes tombstones, then the ids are gone. Raises as `write`."""
        self._append(shard, [CoordinatorRecord(transaction_key(name), None) for name in transactional_ids])
        for name in transactional_ids:
            del shard.entries[name]

    def _append(self, shard: TransactionShard, records: list[CoordinatorRecord]) -> asyncio.Future[None] | None:
        try:
            return self._log.append(shard.index, records, self._time.milliseconds())
        except Exception as error:
            raise append_failure(error) from error
