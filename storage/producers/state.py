"""ProducerStateManager: decides which batches a log takes from idempotent producers, and tracks transactions.

Per producer id the log knows the epoch, the last five batches and the open transaction (`entry.py`). With that
- a batch that is sent again is answered with what the first one got, and not appended twice;
- a gap or a step back in the sequence numbers is refused, and so is a producer whose epoch is out (a zombie);
- the first unstable offset is known: the first record of a transaction that is open, or whose marker lies at or above
  the high watermark. The last stable offset, which read_committed consumers don't pass, is that or the high watermark.

State is rebuilt from the last snapshot (`snapshot.py`) and the batches behind it. Snapshots are taken when a
segment rolls, named by the offset before which they hold, and go with their segment.

*Unknown producers* (none seen, or forgotten) may start with any sequence number, as in Apache Kafka: their records
may have gone with retention. A transaction's marker makes such a producer known, and not its sequence numbers: it may
still go on with any, where Kafka takes 0 alone, and refuses whoever goes on with those that it had.

*Expiration* differs a little from Kafka's, which goes by the timestamps of the records: a producer that replays old data
would be forgotten at once and its retries appended twice. Here a producer is idle since our clock's last append by it;
after loading, since the later of its timestamp and the snapshot's file time.

Threads: all belongs to the log's writer (the loop thread; recovery before the log is published) but `write_snapshots`
and `delete_snapshot_file`, which do I/O and are for the pool.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ..clock import Time
from ..exceptions import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from ..io.filesystem import FileSystem, StrPath, replace_file
from ..io.sync_group import sync_group
from ..segment.names import SNAPSHOT_SUFFIX, file_name
from ..values import AppendOrigin
from .entry import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchMetadata, ProducerStateEntry, in_sequence
from .snapshot import decode_snapshot, encode_snapshot
from .transaction_marker import TransactionMarker

logger = logging.getLogger(__name__)

DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms
_SNAPSHOT_LIMIT = 1 << 30


class ProducerBatch(Protocol):
    """Fields of a batch that are read here; the kernel's BatchInfo and BatchHeader have them."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def is_transactional(self) -> bool: ...


class DuplicateBatch(NamedTuple):
    """Base offset and timestamp (ms) of the batch in the log of which this one is a repetition."""

    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTxn(NamedTuple):
    """A completed transaction; its last offset is its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class OpenTransaction(NamedTuple):
    """A transaction without a marker yet; `last_timestamp` is its producer's last one (ms), `began_ms` our clock at its
    first record (after a restart: at the last record before that).
    """

    producer_id: int
    first_offset: int
    last_timestamp: int
    began_ms: int = -1


class ProducerSummary(NamedTuple):
    """Activity of one producer, as DescribeProducers reports it; -1 for unknown."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


class PendingSnapshot(NamedTuple):
    """A snapshot that is not on disk yet."""

    offset: int
    data: bytes


_DELETED = PendingSnapshot(-1, b"")


class ProducerStateManager:
    """The producers of one log; see the module for rules and threads."""

    def __init__(
        self,
        directory: StrPath,
        file_system: FileSystem,
        time: Time,
        *,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> None:
        """Does no I/O: `found_snapshots` takes a list of the snapshot files, `truncate_and_reload` reads one."""
        self.directory = str(directory)
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self._file_system = file_system
        self._time = time
        self._producers: dict[int, ProducerStateEntry] = {}
        # Open transactions by first offset, rising: each new one starts above all others.
        self.ongoing: dict[int, int] = {}
        # First offset → marker's offset of transactions that ended at or above the high watermark.
        self.unreplicated: dict[int, int] = {}
        self._map_end_offset = 0
        self._last_snapshot_offset = 0
        # By offset; None when on disk, else what is still to be written.
        self._snapshots: dict[int, PendingSnapshot | None] = {}
        self._snapshot_lock = threading.Lock()  # over the two above; `write_snapshots` runs in the pool
        self._write_lock = threading.Lock()  # two writes of one offset would share a temporary file

    # --- appends ---

    def check(self, batch: ProducerBatch, origin: AppendOrigin = AppendOrigin.CLIENT) -> DuplicateBatch | None:
        """Check that a data batch with a producer id may be appended; changes nothing. Returns the original of a
        repeated batch.

        A DuplicateBatch when it is one of the producer's last five. OutOfOrderSequenceError, InvalidProducerEpochError,
        InvalidTxnStateError when it must not be appended. Offsets of `batch` need not be assigned yet.
        """
        entry = self._producers.get(batch.producer_id)
        if entry is None:
            return None
        epoch, known_epoch = batch.producer_epoch, entry.producer_epoch
        first = batch.base_sequence
        if origin is AppendOrigin.CLIENT:
            again = entry.find_duplicate(epoch, first, batch.last_sequence) if first != NO_SEQUENCE else None
            if again is not None:
                return DuplicateBatch(again.first_offset, again.last_offset, again.timestamp)
            self._check_epoch(entry, epoch, origin)
            if epoch != known_epoch:
                if first != 0 and known_epoch != NO_PRODUCER_EPOCH:
                    raise OutOfOrderSequenceError(
                        f"producer {batch.producer_id} starts epoch {epoch} with sequence {first} instead of 0 "
                        f"(its epoch was {known_epoch})"
                    )
            elif not entry.is_sequence_unknown and not in_sequence(entry.last_sequence, first):
                raise OutOfOrderSequenceError(
                    f"producer {batch.producer_id} epoch {epoch}: sequence {first} "
                    f"does not follow {entry.last_sequence}"
                )
        else:
            self._check_epoch(entry, epoch, origin)
        if entry.current_txn_first_offset is not None and not batch.is_transactional:
            raise InvalidTxnStateError(
                f"producer {batch.producer_id} sent records outside of its transaction, "
                f"which has been open since offset {entry.current_txn_first_offset}"
            )
        return None

    def update(self, batch: ProducerBatch) -> None:
        """Apply a data batch with a producer id that was appended, its offsets assigned.

        Does not move `map_end_offset`: batches without producers do that too.
        """
        producer_id = batch.producer_id
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerStateEntry(producer_id)
        base, last = batch.base_offset, batch.last_offset
        metadata = BatchMetadata(batch.last_sequence, last, last - base, batch.max_timestamp)
        entry.add_batch(batch.producer_epoch, metadata)
        entry.last_active_ms = self._time.milliseconds()
        if batch.is_transactional and entry.current_txn_first_offset is None:
            entry.current_txn_first_offset = base
            entry.transaction_began_ms = entry.last_active_ms
            self.ongoing[base] = producer_id

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: TransactionMarker,
        origin: AppendOrigin = AppendOrigin.COORDINATOR,
    ) -> None:
        """Check that a transaction marker may be appended; changes nothing.

        InvalidProducerEpochError or TransactionCoordinatorFencedError when it comes from the past.
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, producer_epoch, origin)
        if entry.coordinator_epoch > marker.coordinator_epoch and origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"marker for producer {producer_id} from coordinator epoch {marker.coordinator_epoch}; "
                f"{entry.coordinator_epoch} has written already"
            )

    def update_marker(
        self, producer_id: int, producer_epoch: int, marker: TransactionMarker, offset: int, timestamp: int
    ) -> CompletedTxn | None:
        """Apply a marker that was appended at `offset`; returns the transaction that it completes.

        Returns the transaction that it ends, None when that had no records here. The caller asks `last_stable_offset`
        of it, writes the transaction index when it is aborted, and then calls `complete_txn`.
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerStateEntry(producer_id)
        first = entry.current_txn_first_offset
        entry.end_transaction(producer_epoch, marker.coordinator_epoch, timestamp)
        entry.last_active_ms = self._time.milliseconds()
        return None if first is None else CompletedTxn(producer_id, first, offset, not marker.is_commit)

    def completed_by(self, producer_id: int, marker: TransactionMarker, offset: int) -> CompletedTxn | None:
        """The transaction that such a marker at `offset` would complete; None if it has no records here. Changes
        nothing.
        """
        entry = self._producers.get(producer_id)
        if entry is None or entry.current_txn_first_offset is None:
            return None
        return CompletedTxn(producer_id, entry.current_txn_first_offset, offset, not marker.is_commit)

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset once this transaction is complete, for its transaction index entry."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Note that the transaction is over; it stays unstable until the high watermark passes its marker."""
        if completed.first_offset not in self.ongoing:
            raise StorageError(f"{self.directory}: no open transaction starts at {completed.first_offset}: {completed}")
        # In this order: a reader of the first unstable offset, without a lock, finds it in one of the two.
        self.unreplicated[completed.first_offset] = completed.last_offset
        del self.ongoing[completed.first_offset]

    def drop_transaction(self, producer_id: int) -> None:
        """Note that the producer's open transaction, if it has one, has ended by a marker that cleaning has taken since, when all
        that was in the transaction had gone.
        """
        entry = self._producers.get(producer_id)
        if entry is not None and entry.current_txn_first_offset is not None:
            self.ongoing.pop(entry.current_txn_first_offset, None)
            entry.current_txn_first_offset = None

    @staticmethod
    def _check_epoch(entry: ProducerStateEntry, epoch: int, origin: AppendOrigin) -> None:
        if epoch < entry.producer_epoch and origin is not AppendOrigin.REPLICATION:
            raise InvalidProducerEpochError(
                f"producer {entry.producer_id} epoch {epoch} is out: epoch {entry.producer_epoch} has written already"
            )

    # --- offsets ---

    @property
    def map_end_offset(self) -> int:
        """Offset up to which batches were applied. Never above logEndOffset."""
        return self._map_end_offset

    def update_map_end_offset(self, offset: int) -> None:
        """Note that all batches below `offset` were applied."""
        self._map_end_offset = offset

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the earliest transaction that is open or ended at or above the high watermark."""
        while True:
            try:
                unreplicated = min(self.unreplicated) if self.unreplicated else None
                undecided = self.first_undecided_offset
            except (RuntimeError, ValueError):  # asked without the log's lock, and an append came between
                continue
            if unreplicated is None or undecided is None:
                return undecided if unreplicated is None else unreplicated
            return min(unreplicated, undecided)

    @property
    def first_undecided_offset(self) -> int | None:
        """First offset of the earliest transaction without a marker."""
        return next(iter(self.ongoing), None)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget transactions whose markers lie below the high watermark: they are stable."""
        if self.unreplicated:
            self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= high_watermark}

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget completed transactions below the new start. Producers stay, so that their retries are still recognized."""
        self.on_high_watermark_updated(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        with self._snapshot_lock:
            # With no snapshot left, that of a roll or stop right here is all that would tell of the producers.
            nothing_to_tell = log_start_offset if not self._producers else 0
            self._last_snapshot_offset = max(self._snapshots, default=nothing_to_tell)

    def oldest_transaction(self) -> OpenTransaction | None:
        """The open transaction that holds back the last stable offset."""
        for first_offset, producer_id in self.ongoing.items():
            entry = self._producers.get(producer_id)
            if entry is None:
                return OpenTransaction(producer_id, first_offset, -1)
            return OpenTransaction(producer_id, first_offset, entry.last_timestamp, entry.transaction_began_ms)
        return None

    # --- producers ---

    def __len__(self) -> int:
        """Number of producers that the log knows, expired ones too until they are removed."""
        return len(self._producers)

    @property
    def is_empty(self) -> bool:
        return not self._producers and not self.unreplicated

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        """State of one producer, read-only; None if unknown."""
        return self._producers.get(producer_id)

    def active_producers(self) -> Iterator[ProducerStateEntry]:
        """States of all known producers, read-only."""
        return iter(self._producers.values())

    def summaries(self) -> list[ProducerSummary]:
        """Summaries of all known producers."""
        return [
            ProducerSummary(
                entry.producer_id,
                entry.producer_epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
            )
            for entry in self._producers.values()
        ]

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer's transaction in that epoch has records here and no marker yet."""
        entry = self._producers.get(producer_id)
        return (
            entry is not None and entry.current_txn_first_offset is not None and entry.producer_epoch == producer_epoch
        )

    def is_fenced(self, producer_id: int, producer_epoch: int) -> bool:
        """True if a higher epoch of the producer has written here, so that no batch of this epoch is taken."""
        entry = self._producers.get(producer_id)
        return entry is not None and producer_epoch < entry.producer_epoch

    def remove_expired_producers(self, now_ms: int) -> int:
        """Forgets producers idle for `producer_id_expiration_ms`, never one with an open transaction;

        returns how many.
        """
        expired = [producer_id for producer_id, entry in self._producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        if entry.current_txn_first_offset is not None:
            return False
        return now_ms - entry.last_active_ms >= self.producer_id_expiration_ms

    # --- snapshots ---

    @property
    def snapshot_offsets(self) -> list[int]:
        """Offsets of the snapshots, rising."""
        with self._snapshot_lock:
            return sorted(self._snapshots)

    @property
    def written_snapshots(self) -> set[int]:
        """Offsets of those that are on disk."""
        with self._snapshot_lock:
            return {offset for offset, pending in self._snapshots.items() if pending is None}

    def add_snapshot(self, pending: PendingSnapshot) -> None:
        """Have `write_snapshots` take one that somebody else has made."""
        with self._snapshot_lock:
            self._snapshots[pending.offset] = pending

    @property
    def latest_snapshot_offset(self) -> int | None:
        with self._snapshot_lock:
            return max(self._snapshots, default=None)

    def snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def found_snapshots(self, offsets: Iterable[int]) -> None:
        """Take the offsets of the snapshot files in the directory."""
        found: dict[int, PendingSnapshot | None] = dict.fromkeys(offsets)
        with self._snapshot_lock:
            self._snapshots = found

    def prepare_snapshot(self) -> PendingSnapshot | None:
        """Encode the state at `map_end_offset` as a snapshot; None when the last snapshot has this offset. No I/O."""
        offset = self._map_end_offset
        if offset <= self._last_snapshot_offset:
            return None
        pending = PendingSnapshot(offset, encode_snapshot(self._producers.values()))
        with self._snapshot_lock:
            self._snapshots[offset] = pending
            self._last_snapshot_offset = offset
        return pending

    def write_snapshots(self, pending: Sequence[PendingSnapshot]) -> None:
        """Write prepared snapshots durably, but for those that were deleted or replaced since. Any thread; blocks.

        Very many are written several at a time, and their names are made durable at once. On an OSError all of them are
        forgotten: the state can be rebuilt from the one before.
        """
        with self._write_lock:
            try:
                self._write_snapshots(pending)
            except OSError:
                for snapshot in pending:
                    self.withdraw_snapshot(snapshot)
                raise

    def _write_snapshots(self, pending: Sequence[PendingSnapshot]) -> None:
        system = self._file_system
        with self._snapshot_lock:
            awaited = [snapshot for snapshot in pending if self._snapshots.get(snapshot.offset) is snapshot]
        if not awaited:
            return

        def write(snapshot: PendingSnapshot) -> None:
            with self._snapshot_lock:
                is_awaited = self._snapshots.get(snapshot.offset) is snapshot  # still: others may have taken a while
            if is_awaited:
                replace_file(system, self.snapshot_path(snapshot.offset), snapshot.data)

        sync_group(awaited, write, system.syncs_at_once)
        system.sync_directory(self.directory)
        with self._snapshot_lock:
            deleted = [snapshot.offset for snapshot in awaited if snapshot.offset not in self._snapshots]
            for snapshot in awaited:
                if self._snapshots.get(snapshot.offset) is snapshot:
                    self._snapshots[snapshot.offset] = None
        for offset in deleted:
            system.unlink(self.snapshot_path(offset), missing_ok=True)

    def withdraw_snapshot(self, pending: PendingSnapshot) -> None:
        """Drop a prepared snapshot that will not be written: the next one may have the same offset.

        Any thread. Nothing happens when it was deleted or replaced since.
        """
        offset = pending.offset
        with self._snapshot_lock:
            if self._snapshots.get(offset) is pending:
                del self._snapshots[offset]
                if self._last_snapshot_offset == offset:
                    self._last_snapshot_offset = max(self._snapshots, default=0)

    def take_snapshot(self) -> int | None:
        """`prepare_snapshot` and `write_snapshots`; returns its offset. Blocks: for recovery and shutdown.

        A snapshot that a roll has prepared and the pool has not written yet is written too: a stop would come before it.
        """
        pending = self.prepare_snapshot()
        with self._snapshot_lock:
            waiting = [snapshot for snapshot in self._snapshots.values() if snapshot is not None]
        self.write_snapshots(waiting)
        return None if pending is None else pending.offset

    def forget_snapshot(self, offset: int) -> bool:
        """Take a snapshot off the list; the caller moves or deletes the file. False when there was none."""
        with self._snapshot_lock:
            return self._snapshots.pop(offset, _DELETED) is not _DELETED

    def delete_snapshot_file(self, offset: int) -> None:
        """Delete the file of a snapshot that is off the list. Any thread; blocks."""
        self._file_system.unlink(self.snapshot_path(offset), missing_ok=True)

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Delete snapshots that belong to no segment, except the newest if it lies above all: a clean stop wrote that."""
        last = max(segment_base_offsets, default=-1)
        stray = [offset for offset in self.snapshot_offsets if offset not in segment_base_offsets]
        if stray and stray[-1] > last:
            stray.pop()
        self._delete(stray)

    def _delete(self, offsets: Iterable[int]) -> None:
        for offset in list(offsets):
            self.forget_snapshot(offset)
            self.delete_snapshot_file(offset)

    # --- loading and truncating ---

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Return to the newest sound snapshot in [log_start_offset, log_end_offset], and delete those outside. Blocks.

        One at the log's start is what is left of the producers of a log that retention has emptied.

        Nothing is reloaded when the state is at `log_end_offset` already. Otherwise the caller replays what lies
        between `map_end_offset` and the end. A damaged snapshot is deleted and the one before it taken.
        """
        self._delete(offset for offset in self.snapshot_offsets if offset > log_end_offset or offset < log_start_offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load_from_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget all state, snapshots too. Blocks."""
        self._clear()
        self._delete(self.snapshot_offsets)
        self._last_snapshot_offset = 0
        self._map_end_offset = offset

    def load(self, pending: PendingSnapshot) -> None:
        """Take the state that a snapshot tells, in the place of all that is known. CorruptSnapshotError."""
        self.truncate_fully_and_start_at(pending.offset)
        self.load_entries(decode_snapshot(pending.data))

    def load_entries(self, entries: Iterable[ProducerStateEntry]) -> None:
        """Add entries of a snapshot, with their open transactions."""
        for entry in entries:
            self._producers[entry.producer_id] = entry
            if entry.current_txn_first_offset is not None:
                self.ongoing[entry.current_txn_first_offset] = entry.producer_id
        self.ongoing = dict(sorted(self.ongoing.items()))

    def _clear(self) -> None:
        self._producers.clear()
        self.ongoing.clear()
        self.unreplicated.clear()

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        for offset in reversed(self.snapshot_offsets):
            path = self.snapshot_path(offset)
            try:
                entries = decode_snapshot(self._file_system.read_bytes(path, _SNAPSHOT_LIMIT))
                written_ms = self._file_system.stat(path).modified_ms if entries else 0
            except FileNotFoundError:
                self.forget_snapshot(offset)
                continue
            except StorageError as error:  # damaged, or larger than any
                logger.warning("%s is deleted and its producers are rebuilt from the log: %s", path, error)
                self._delete([offset])
                continue
            for entry in entries:
                entry.last_active_ms = min(max(entry.last_timestamp, written_ms), now_ms)
                entry.transaction_began_ms = entry.last_active_ms
                entry.is_of_snapshot = True
            self.load_entries(entry for entry in entries if not self._is_expired(entry, now_ms))
            self._last_snapshot_offset = self._map_end_offset = offset
            return
        self._last_snapshot_offset = self._map_end_offset = log_start_offset
