"""The transactional ids of this node by partition of `__transaction_state`, and the way of their records into it. Loop thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, ProtocolError
from ..coordinator.internal_topic import CoordinatorRecord
from ..coordinator.runtime import CoordinatorRuntime, Unsynced, keep_unsynced
from ..metadata.features import TRANSACTION_VERSION
from .records import transaction_key, transaction_value
from .states import TransactionMetadata, TransactionState

if TYPE_CHECKING:
    from ..metadata.features import Features


class TransactionEntry:
    """One transactional id.

    Attributes:
        metadata: where it stands; what the log says.
        unsynced: completes when that is as durable as the topic asks for; None when it is.
    """

    __slots__ = ("metadata", "unsynced")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.unsynced: Unsynced = None


class TransactionShard:
    """Transactional ids of one partition. `ongoing`: ids with a transaction that is neither committed nor aborted yet."""

    __slots__ = ("entries", "index", "loaded", "ongoing")

    def __init__(self, index: int) -> None:
        self.index = index
        self.loaded = False
        self.entries: dict[str, TransactionEntry] = {}
        self.ongoing: set[str] = set()

    def put(self, entry: TransactionEntry) -> None:
        """Store the entry under its id."""
        transactional_id = entry.metadata.transactional_id
        self.entries[transactional_id] = entry
        if entry.metadata.state is TransactionState.ONGOING:
            self.ongoing.add(transactional_id)
        else:
            self.ongoing.discard(transactional_id)


class TransactionLog:
    """Reads and writes of transactional ids, through their coordinator's runtime."""

    __slots__ = ("_features", "_runtime")

    def __init__(self, runtime: CoordinatorRuntime[TransactionShard], features: Features) -> None:
        self._runtime = runtime
        self._features = features

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """The loaded shard of an id. Raises ProtocolError, INVALID_REQUEST for an empty one or as `CoordinatorRuntime.find`."""
        invalid = (
            None if transactional_id else ProtocolError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        )
        return self._runtime.find(transactional_id, invalid)

    def find(self, transactional_id: str) -> TransactionEntry:
        """Entry of an id; raises as `shard_of`, and INVALID_PRODUCER_ID_MAPPING for an unknown id."""
        entry = self.shard_of(transactional_id).entries.get(transactional_id)
        if entry is None:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"there is no transactional id {transactional_id}"
            )
        return entry

    def write(self, entry: TransactionEntry, metadata: TransactionMetadata) -> Unsynced:
        """Writes what the id is from now on; the entry is that when this returns, and is among its shard's.

        None: it is durable; else a future of that. Raises ProtocolError, and nothing was written or changed then.
        """
        shard = self.shard_of(metadata.transactional_id)
        record = CoordinatorRecord(
            transaction_key(metadata.transactional_id),
            transaction_value(metadata, self._features.level(TRANSACTION_VERSION)),
        )
        _, unsynced = self._runtime.append(shard, [record])
        entry.metadata = metadata
        shard.put(entry)
        keep_unsynced(entry, unsynced)
        return unsynced

    def epoch_of(self, transactional_id: str) -> int:
        """The coordinator's epoch for that id."""
        return self._runtime.log.epoch(self.shard_of(transactional_id).index)

    def forget(self, shard: TransactionShard, transactional_ids: list[str]) -> None:
        """Writes tombstones, then the ids are gone. Raises as `write`."""
        self._runtime.append(shard, [CoordinatorRecord(transaction_key(name), None) for name in transactional_ids])
        for name in transactional_ids:
            del shard.entries[name]
