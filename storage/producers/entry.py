"""State that a log keeps of one producer: its epoch, its last five batches, its open transaction.

Sequence numbers count records per producer and partition from 0 to 2^31 - 1 and then from 0 again; −1 is "none" (the
batches that coordinators write have none).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..values import NO_TIMESTAMP

NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_COORDINATOR_EPOCH = -1

# A client has at most five requests in flight per connection (KAFKA-5494), so an older batch can't be sent again.
BATCHES_TO_RETAIN = 5

_SEQUENCE_MASK = 2**31 - 1


def in_sequence(last: int, following: int) -> bool:
    """True if a batch that starts at `following` continues after `last`."""
    return following == last + 1 or (following == 0 and last == _SEQUENCE_MASK)


class BatchMetadata(NamedTuple):
    """An appended batch: last sequence and offset, distance back to the first ones, max timestamp (ms)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry:
    """State of one producer id. Owned by its `ProducerStateManager`, and so by the log's writer; other threads read."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "is_of_snapshot",
        "is_sequence_unknown",
        "last_active_ms",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_began_ms",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batches: tuple[BatchMetadata, ...] = (),
        last_active_ms: int = NO_TIMESTAMP,
    ) -> None:
        """`last_timestamp` is the producer's own (ms);

        `last_active_ms` our clock's when it last appended (see expiration). `transaction_began_ms` is ours too, of the open
        transaction's first record; after a restart it is not known, and is the time of the last one.
        """
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = list(batches)
        self.last_active_ms = last_active_ms
        self.transaction_began_ms = last_active_ms
        self.is_of_snapshot = False
        """A snapshot told of it, which had forgotten all batches but one, and they were not looked for in the log since."""

        self.is_sequence_unknown = False
        """A transaction marker is all that was seen of it, and that says nothing of sequence numbers: its batches may have gone
        with retention, as those of an unknown producer may, so that its next one may have any."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last data record, −1 when no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """The remembered batch with exactly these sequences in this epoch, else None."""
        if producer_epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Remember an appended batch; a new epoch drops the batches of the old one."""
        self._take_epoch(producer_epoch)
        self.is_sequence_unknown = False
        if len(self.batches) == BATCHES_TO_RETAIN:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def remember(self, earlier: Sequence[BatchMetadata]) -> None:
        """Batches that came right before those that are known, in order; no more than there is room for."""
        self.batches[:0] = earlier

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Note a transaction marker: the producer has no open transaction any more."""
        was_unknown = self.producer_epoch == NO_PRODUCER_EPOCH
        self._take_epoch(producer_epoch)
        self.is_sequence_unknown = self.is_sequence_unknown or was_unknown
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def _take_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.is_sequence_unknown = False  # each epoch begins at 0
            self.producer_epoch = producer_epoch

    def __eq__(self, other: object) -> bool:
        """Equal state, whatever `last_active_ms` says."""
        if not isinstance(other, ProducerStateEntry):
            return NotImplemented
        return self._state() == other._state()

    __hash__ = None  # type: ignore[assignment]

    def _state(self) -> tuple[object, ...]:
        return (
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.current_txn_first_offset,
            self.batches,
            self.is_sequence_unknown,
        )

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, "
            f"coordinator_epoch={self.coordinator_epoch}, last_timestamp={self.last_timestamp}, "
            f"current_txn_first_offset={self.current_txn_first_offset}, batches={self.batches})"
        )
