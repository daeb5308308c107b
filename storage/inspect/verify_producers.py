"""Replays the producers of a log, and compares its snapshots and transaction indexes with the result (see `verify.py`).

The replay starts from the snapshot at the first segment, or from nothing where the log begins at 0; else what lies
before is not known, and producers that the log does not show are believed.

*What compaction has taken* lies in gaps between batches, all of them below the cleaner's checkpoint. A file may know of it,
the log does not: batches, markers whose transaction has no batch left, whole producers. So what a file says has to be what
the log says, but where it can come from a batch or marker that lay in a gap: `hidden_below` is the end of the last such
gap, and what came at or above it is all there. In what is left a transaction that shows a batch shows its marker too, and
a transaction index has no entry without the marker. A transaction that the snapshot at the first segment knows as open, and
that shows no batch, may have ended in the first gap: from there on it is not taken for open.

A recovery rebuilds snapshots and indexes from what it finds, so a file may know less than was once true; never less than
the log shows, save for producers that expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.exceptions import RecordError
from ..exceptions import StorageError
from ..index.transaction_index import AbortedTxn
from ..producers.entry import ProducerStateEntry
from ..producers.snapshot import decode_snapshot
from ..producers.state import CompletedTxn, ProducerStateManager
from ..producers.transaction_marker import parse_transaction_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.record_batch import BatchHeader, Record
    from ..io.filesystem import FileSystem
    from .verify_report import Report


MAX_OFFSET = 2**63 - 1


class _NoClock:
    """A clock that stands still: expiration does not matter here."""

    def milliseconds(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


class ProducerCheck:
    """Replay of one partition's producers, batch by batch. One thread; read-only."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        report: Report,
        *,
        cleaned_below: int | None,
        log_start: int = 0,
    ) -> None:
        """`cleaned_below`: offset up to which compaction may have removed batches; None: unknown, so anywhere."""
        self._log_start = log_start
        self._fs = file_system
        self._report = report
        self._cleaned_below = MAX_OFFSET if cleaned_below is None else cleaned_below
        self._directory = directory
        self._snapshots: list[tuple[int, str]] = []
        self._blamed: set[int] = set()
        self._start_at(0)

    def _start_at(self, offset: int) -> None:
        self._state = ProducerStateManager(self._directory, self._fs, _NoClock())
        self._end = offset
        # Below it the log is not known at all; the end of the last gap.
        self._unknown_below = self._gap_end = 0
        # By producer: where its last batch or marker begins that the log shows; its last marker.
        self._last_event: dict[int, int] = {}
        self._last_marker: dict[int, int] = {}
        # Producers with a transaction that is open where the log begins, until they show something.
        self._inherited: set[int] = set()
        # Of the segment that is being read, by offset.
        self._aborts: dict[int, _Abort] = {}

    def begin(self, first_offset: int, snapshots: Sequence[tuple[int, str]]) -> None:
        """Start at `first_offset`, where the log begins; `snapshots` are (offset, path), rising."""
        self._end = self._unknown_below = first_offset
        for offset, path in snapshots:
            if offset == first_offset and (entries := self._read(path)) is not None:
                self._unknown_below = 0
                self._state.load_entries(entries)
                for entry in entries:
                    self._last_event[entry.producer_id] = first_offset - 1
                    if entry.current_txn_first_offset is not None:
                        self._inherited.add(entry.producer_id)
            elif offset > first_offset:
                self._snapshots.append((offset, path))
            # One below is of a segment that retention has just taken: its files go one after the other, and the daemon may
            # have died in between.

    def restart(self, offset: int) -> None:
        """Start over at `offset`: the batches below it were deleted meanwhile."""
        snapshots, self._snapshots = self._snapshots, []
        self._start_at(offset)
        self.begin(offset, snapshots)

    @property
    def hidden_below(self) -> int:
        """Offset below which batches and markers may be missing, but not above."""
        return max(self._unknown_below, min(self._gap_end, self._cleaned_below))

    def _read(self, path: str) -> list[ProducerStateEntry] | None:
        try:
            return decode_snapshot(self._fs.read_bytes(path, limit=1 << 30))
        except FileNotFoundError:
            self._report.add("vanished", path, -1, "deleted meanwhile")
        except StorageError as error:
            self._report.add("snapshot-corrupt", path, 0, str(error))
        return None

    # --- batches ---

    def passed(self, end_offset: int) -> None:
        """Note that a sound batch, of whatever kind, ended before `end_offset`."""
        self._end = max(self._end, end_offset)

    def add(self, header: BatchHeader, path: str) -> None:
        """Apply a data batch with a producer id."""
        known = self._state.entry(header.producer_id)
        if known is not None and header.producer_epoch < known.producer_epoch:
            self._report.add(
                "producer-epoch",
                path,
                header.position,
                f"producer {header.producer_id} epoch {header.producer_epoch} at offset {header.base_offset} "
                f"after epoch {known.producer_epoch}",
            )
            return
        self._last_event[header.producer_id] = header.base_offset
        self._inherited.discard(header.producer_id)
        self._state.update(header)

    def add_control(self, header: BatchHeader, records: Sequence[Record], path: str) -> None:
        """Apply a control batch, which may end a transaction. One that cleaning has emptied had a marker, as a gap may have."""
        producer = header.producer_id
        if not records:
            self._gap_end = max(self._gap_end, header.last_offset + 1)
            self._state.drop_transaction(producer)
            self._inherited.discard(producer)
        for record in records:
            try:
                marker = parse_transaction_marker(record.key, record.value)
            except RecordError as error:
                self._report.add("control-record", path, header.position, f"offset {record.offset}: {error}")
                continue
            if marker is None or producer < 0:
                continue
            completed = self._state.update_marker(
                producer, header.producer_epoch, marker, record.offset, record.timestamp
            )
            if not marker.is_commit:
                of_it = completed or CompletedTxn(producer, record.offset, record.offset, True)
                self._aborts[record.offset] = _Abort(
                    producer,
                    None if completed is None else completed.first_offset,
                    self._last_marker.get(producer, -1),
                    self._state.last_stable_offset(of_it),
                    self.hidden_below,
                )
            self._last_event[producer] = self._last_marker[producer] = record.offset
            self._inherited.discard(producer)
            if completed is not None:
                self._state.complete_txn(completed)
                self._state.on_high_watermark_updated(record.offset + 1)

    # --- transaction index ---

    def check_index(self, path: str, entries: Sequence[tuple[int, AbortedTxn]], end_offset: int) -> None:
        """Check a segment's transaction index, after the segment was read up to `end_offset`; `entries` are (position,
        entry).
        """
        aborts, self._aborts = self._aborts, {}
        for position, entry in entries:
            if entry.last_offset >= end_offset:
                continue  # came after the log was read, or the log ends early, which is told elsewhere
            abort = aborts.get(entry.last_offset)
            if abort is None or abort.producer_id != entry.producer_id:
                self._report.add("txnindex-extra", path, position, f"{_txn(entry)}, which the log does not abort")
                continue
            del aborts[entry.last_offset]
            if problem := abort.problem(entry):
                rule = "txnindex-entry" if abort.first_offset is not None else "txnindex-extra"
                self._report.add(rule, path, position, f"{_txn(entry)}; {problem}")
        for offset, missing in aborts.items():
            # Without a batch of it nobody misses the entry: cleaners differ. A power cut may bring back the log of a segment
            # that was deleted, and nothing else of it.
            if missing.first_offset is not None and offset >= self._log_start:
                txn = AbortedTxn(missing.producer_id, missing.first_offset, offset, missing.stable_offset)
                self._report.add("txnindex-missing", path, -1, f"{_txn(txn)} is not in it")

    # --- snapshots ---

    def reach(self, offset: int) -> None:
        """Compare the snapshots up to `offset`, below which all batches were applied."""
        while self._snapshots and self._snapshots[0][0] <= offset:
            at, path = self._snapshots.pop(0)
            entries = self._read(path)
            if entries is not None:
                if at > self._end:
                    self._gap(at)
                self._compare(at, path, {entry.producer_id: entry for entry in entries})
        if offset > self._end:
            self._gap(offset)

    def _gap(self, end: int) -> None:
        """Note that no batch is left from where the last one ended up to `end`."""
        self._gap_end = end
        if self._end >= self._cleaned_below:
            return
        for producer in self._inherited:
            self._state.drop_transaction(producer)
        self._inherited.clear()

    def _compare(self, offset: int, path: str, snapshot: dict[int, ProducerStateEntry]) -> None:
        for entry in self._state.active_producers():
            there = snapshot.pop(entry.producer_id, None)
            if entry.producer_id in self._blamed:
                continue
            if there is None:
                is_open = entry.current_txn_first_offset is not None  # such a producer does not expire
                rule = "snapshot-differs" if is_open else "snapshot-lacks"
                self._report.add(rule, path, -1, f"producer {entry.producer_id} is not in it")
            elif self._has_come_back(there, entry):
                self._report.add("snapshot-lacks", path, -1, f"producer {entry.producer_id}: its batches are not in it")
            elif problem := self._beyond(offset, there) or self._difference(there, entry):
                self._blame(path, there, problem)
        for there in snapshot.values():
            if there.producer_id not in self._blamed and (
                problem := self._beyond(offset, there) or self._unseen(there)
            ):
                self._blame(path, there, problem)

    def _blame(self, path: str, entry: ProducerStateEntry, problem: str) -> None:
        self._blamed.add(entry.producer_id)
        self._report.add("snapshot-differs", path, -1, f"producer {entry.producer_id}: {problem}")

    @staticmethod
    def _beyond(offset: int, there: ProducerStateEntry) -> str:
        if there.last_offset >= offset:
            return f"last offset {there.last_offset} is not below the snapshot's"
        if (there.current_txn_first_offset or 0) >= offset:
            return f"open transaction {there.current_txn_first_offset} is not below the snapshot's"
        return ""

    def _unseen(self, there: ProducerStateEntry) -> str:
        """Problem with a producer in a snapshot that the log does not show; "" if none."""
        first = there.current_txn_first_offset
        if _begin(there) < self.hidden_below and (first is None or first < self.hidden_below):
            return ""
        return "the log has no batch of it"

    def _has_come_back(self, there: ProducerStateEntry, log: ProducerStateEntry) -> bool:
        """True if the producer had expired before its last marker, which explains a snapshot without its batches."""
        is_marker = self._last_marker.get(log.producer_id, -1) == self._last_event[log.producer_id]
        mine = (log.producer_epoch, log.coordinator_epoch, log.last_timestamp, log.current_txn_first_offset)
        said = (there.producer_epoch, there.coordinator_epoch, there.last_timestamp, there.current_txn_first_offset)
        return is_marker and there.last_offset < 0 <= log.last_offset and mine == said

    def _difference(self, there: ProducerStateEntry, log: ProducerStateEntry) -> str:
        """Contradiction between a producer in a snapshot and in the log; "" if none."""
        hidden = self.hidden_below
        last_event = self._last_event[log.producer_id]
        marker = self._last_marker.get(log.producer_id, -1)
        is_whole = last_event >= hidden  # nothing that the log does not show came later
        ours, logs = there.producer_epoch, log.producer_epoch
        if ours != logs and (is_whole or ours < logs):
            return f"epoch {ours}, in the log {logs}"
        if difference := self._batch_difference(there, log) or self._transaction_difference(there, log):
            return difference
        # A producer that had expired and came back has forgotten its coordinator.
        ours, logs = there.coordinator_epoch, log.coordinator_epoch
        if ours not in (logs, -1) and (ours < logs or marker >= hidden):
            return f"coordinator epoch {ours}, in the log {logs}"
        return ""

    def _batch_difference(self, there: ProducerStateEntry, log: ProducerStateEntry) -> str:
        """Contradiction about the producer's last batch; "" if none. The epochs are possible."""
        hidden = self.hidden_below
        last_event = self._last_event[log.producer_id]
        marker = self._last_marker.get(log.producer_id, -1)
        is_whole = last_event >= hidden
        ours, logs = there.last_offset, log.last_offset
        if there.producer_epoch > log.producer_epoch:
            is_possible = ours < 0 or last_event < _begin(there) < hidden
        else:
            is_possible = ours == logs or (ours > logs and _begin(there) < hidden)
            if is_possible and is_whole and ours != logs and marker != last_event and last_event >= 0:
                is_possible = False  # the last event is a batch
        if not is_possible:
            return f"last offset {ours}, in the log {logs}"
        pairs = [("last sequence", there.last_sequence, log.last_sequence),
                 ("offset delta", there.last_offset_delta, log.last_offset_delta)] if ours == logs else []  # fmt: skip
        # A batch that loses records loses their times.
        is_cleaned = last_event < self._cleaned_below and marker != last_event
        if is_whole and not (is_cleaned and there.last_timestamp > log.last_timestamp):
            pairs.append(("timestamp", there.last_timestamp, log.last_timestamp))
        for name, ours, logs in pairs:
            if ours != logs:
                return f"{name} {ours}, in the log {logs}"
        return ""

    def _transaction_difference(self, there: ProducerStateEntry, log: ProducerStateEntry) -> str:
        """Contradiction about the producer's open transaction; "" if none."""
        hidden = self.hidden_below
        is_whole = self._last_event[log.producer_id] >= hidden
        marker = self._last_marker.get(log.producer_id, -1)
        first, logs_first = there.current_txn_first_offset, log.current_txn_first_offset
        if first != logs_first:
            is_hidden = first is not None and marker < first < hidden
            if logs_first is not None:
                is_hidden = is_hidden and (first or 0) < logs_first
            # Its marker may have gone with a segment below the log's start, which a power cut brought back in part.
            is_hidden = is_hidden or (first is None and logs_first is not None and logs_first < self._log_start)
            if not is_hidden or (logs_first is None and is_whole):
                return f"open transaction {first}, in the log {logs_first}"
        return ""

    def finish(self, end_offset: int, *, is_stopped: bool) -> None:
        """Called at the end of the log: the remaining snapshots are of offsets that it does not have."""
        self.reach(end_offset)
        for offset, path in self._snapshots:
            if is_stopped:  # else it may be of a batch that came meanwhile
                self._report.add("snapshot-beyond", path, -1, f"of offset {offset}; the log ends at {end_offset}")


class _Abort(NamedTuple):
    """An abort marker, and what is left in the log of its transaction."""

    producer_id: int
    first_offset: int | None
    """First offset of the first batch left; None if none is left."""
    marker_before: int
    """Offset of the producer's marker before this one; -1 if none is left."""
    stable_offset: int
    """Last stable offset behind the marker, by the transactions that the log shows open there."""
    hidden_below: int

    def problem(self, entry: AbortedTxn) -> str:
        """Contradiction between an index entry and this marker; "" if none."""
        if entry.first_offset != self.first_offset:
            latest = self.hidden_below if self.first_offset is None else min(self.first_offset, self.hidden_below)
            if not self.marker_before < entry.first_offset < latest:
                if self.first_offset is None:
                    return "the log has no batch of it, and no gap where one was"
                return f"in the log it begins at {self.first_offset}"
        # Smaller: of another transaction that was open there, the first batch is gone.
        stable = entry.last_stable_offset
        if stable != self.stable_offset and not 0 <= stable < min(self.stable_offset, self.hidden_below):
            return f"the log says stable up to {self.stable_offset}"
        return ""


def _begin(entry: ProducerStateEntry) -> int:
    """Base offset of the producer's last batch; -1 without one."""
    return entry.batches[-1].first_offset if entry.batches else -1


def _txn(txn: AbortedTxn) -> str:
    return f"producer {txn.producer_id} from {txn.first_offset} to {txn.last_offset} (stable up to {txn.last_stable_offset})"
