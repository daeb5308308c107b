"""The transactional ids of this node by partition of `__transaction_state`, and the way of their records into it and back.

Keys and values are as Apache Kafka 4.3 writes and reads them; the declarations in `protocol/messages/transaction_state.py` are
the layout.

    key     TransactionLogKey, version 0: the transactional id
    value   TransactionLogValue: version 1 (flexible) at transaction.version 1 and above, else 0; null: forgotten

`TransactionLog` writes, on the loop thread. `load_transactions` reads one partition back, in a pool thread while the daemon
serves: the last record of each transactional id counts; records that cannot be read are counted, named once, and passed over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ...protocol.schema import decode_with_version, encode_with_version
from ..coordinator.internal_topic import CoordinatorRecord, ReplayBatch, with_pauses
from ..coordinator.runtime import CoordinatorRuntime, Unsynced, keep_unsynced
from ..groups.store.offsets import TopicPartition
from ..metadata.features import TRANSACTION_VERSION
from .states import TransactionMetadata, TransactionState

if TYPE_CHECKING:
    from ..metadata.features import Features

KEY_VERSION = 0
#: Value versions; `transaction.version` says which.
VALUE_VERSION_PLAIN, VALUE_VERSION_FLEXIBLE = 0, 1


class TransactionRecordError(ValueError):
    """A key or value that is not what its version says."""


def transaction_key(transactional_id: str) -> bytes:
    return encode_with_version(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def transaction_value(metadata: TransactionMetadata, transaction_version: int) -> bytes:
    """The record's value at this level of `transaction.version`."""
    partitions: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        partitions.setdefault(topic, []).append(index)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in partitions.items()],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return encode_with_version(value, VALUE_VERSION_FLEXIBLE if transaction_version >= 1 else VALUE_VERSION_PLAIN)


def read_transaction_key(key: bytes) -> str | None:
    """The transactional id; None for a key of a version that is not known. TransactionRecordError."""
    if len(key) >= 2 and int.from_bytes(key[:2], "big", signed=True) != KEY_VERSION:
        return None
    try:
        return decode_with_version(TransactionLogKey, key)[0].transactional_id
    except ProtocolError as error:
        raise TransactionRecordError(f"no key of __transaction_state: {error}") from None


def read_transaction_value(transactional_id: str, value: bytes) -> TransactionMetadata:
    """Decode a transactional id's value. TransactionRecordError."""
    try:
        read, _ = decode_with_version(TransactionLogValue, value)
        state = TransactionState(read.transaction_status)  # type: ignore[call-arg]
    except (ProtocolError, ValueError) as error:
        raise TransactionRecordError(f"no value of __transaction_state: {error}") from None
    return TransactionMetadata(
        transactional_id,
        read.producer_id,
        read.producer_epoch,
        read.transaction_timeout_ms,
        state,
        read.transaction_last_update_timestamp_ms,
        read.transaction_start_timestamp_ms,
        frozenset(
            TopicPartition(part.topic, index)
            for part in read.transaction_partitions or ()
            for index in part.partition_ids
        ),
        read.previous_producer_id,
        read.next_producer_id,
        client_version=read.client_transaction_version,
    )


class TransactionEntry:
    """One transactional id.

    Attributes:
        metadata: where it stands; what the log says.
        unsynced: completes when that is as durable as the topic asks for; None when it is. See `TransactionLog.unsynced_of`.
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

    def unsynced_of(self, entry: TransactionEntry) -> Unsynced:
        """What to wait for before the entry is built on, as `CoordinatorRuntime.unsynced_of`. Raises as `shard_of`."""
        return (
            None
            if entry.unsynced is None
            else self._runtime.unsynced_of(entry, self.shard_of(entry.metadata.transactional_id))
        )

    def epoch_of(self, transactional_id: str) -> int:
        """The coordinator's epoch for that id."""
        return self._runtime.log.epoch(self.shard_of(transactional_id).index)

    def forget(self, shard: TransactionShard, transactional_ids: list[str]) -> None:
        """Writes tombstones, then the ids are gone. Raises as `write`."""
        self._runtime.append(shard, [CoordinatorRecord(transaction_key(name), None) for name in transactional_ids])
        for name in transactional_ids:
            del shard.entries[name]


log = logging.getLogger(__name__)

#: The loader holds the interpreter for about this many records, then lets the loop thread in.
RECORDS_PER_TURN = 64


@dataclass(slots=True)
class LoadedTransactions:
    """Transactions of one loaded partition. `skipped`: number of records of unknown kinds, `broken`: of unreadable ones."""

    by_id: dict[str, TransactionMetadata] = field(default_factory=dict)
    skipped: int = 0
    broken: int = 0


def load_transactions(name: str, batches: Iterable[ReplayBatch]) -> LoadedTransactions:
    """Plays the batches, in the order of the log. `name` is for log lines. Any thread; blocks where `batches` does."""
    loaded = LoadedTransactions()
    newest: dict[bytes, tuple[int, bytes]] = {}
    for batch in with_pauses(batches, RECORDS_PER_TURN):
        if batch.is_control:
            continue
        for offset, key, value in batch.records:
            if key is None:
                loaded.skipped += 1
            elif value is None:
                newest.pop(key, None)
            else:
                newest[key] = offset, value
    for number, (key, (offset, value)) in enumerate(newest.items()):
        try:
            transactional_id = read_transaction_key(key)
            if transactional_id is None:
                loaded.skipped += 1
            else:
                loaded.by_id[transactional_id] = read_transaction_value(transactional_id, value)
        except TransactionRecordError as error:
            if not loaded.broken:
                log.error("%s: the record at offset %d cannot be read and is passed over: %s", name, offset, error)
            loaded.broken += 1
        if number % RECORDS_PER_TURN == 0:
            time.sleep(0)
    return loaded
