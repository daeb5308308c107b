"""Replays the producers of a log and holds its snapshots and transaction indexes against them (see `verify.py`).

The replay starts from the snapshot at the first segment, or from nothing where the log begins at 0; else what lies
before is not known, and producers that the log does not show are believed. Below the cleaner's checkpoint batches may
be gone, so there a snapshot may know more than the log; never less, save for producers that expired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.records.exceptions import RecordError
from .exceptions import StorageError
from .producer_entry import ProducerStateEntry
from .producer_snapshot import decode_snapshot
from .producer_state import ProducerStateManager
from .transaction_index import AbortedTxn
from .transaction_marker import parse_transaction_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..protocol.records.record_batch import BatchHeader, Record
    from .filesystem import FileSystem
    from .verify_report import Report


class _NoClock:
    """Expiration does not matter here."""

    def milliseconds(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


class ProducerCheck:
    """One partition's producers, batch by batch. One thread; reads snapshots, never writes."""

    def __init__(
        self, file_system: FileSystem, directory: str, report: Report, *, cleaned_below: int, log_start: int = 0
    ) -> None:
        self._log_start = log_start
        self._fs = file_system
        self._report = report
        self._cleaned_below = cleaned_below
        self._directory = directory
        self._state = ProducerStateManager(directory, file_system, _NoClock())
        self._is_complete = False
        self._snapshots: list[tuple[int, str]] = []
        self._expected: dict[int, AbortedTxn] = {}
        self._abort_markers: dict[int, int] = {}
        self._blamed: set[int] = set()

    def begin(self, first_offset: int, snapshots: Sequence[tuple[int, str]]) -> None:
        """The log begins at `first_offset`; `snapshots` are (offset, path), rising."""
        self._is_complete = first_offset == 0
        for offset, path in snapshots:
            if offset == first_offset and (entries := self._read(path)) is not None:
                self._is_complete = True
                for entry in entries:
                    self._state.load_entry(entry)
            elif offset > first_offset:
                self._snapshots.append((offset, path))
            # One below is of a segment that retention has just taken: its files go one after the other, and the daemon may
            # have died in between.

    def restart(self, offset: int) -> None:
        """What lies below `offset` was taken meanwhile: goes on as though the log began there."""
        self._state = ProducerStateManager(self._directory, self._fs, _NoClock())
        self._expected.clear()
        self._abort_markers.clear()
        snapshots, self._snapshots = self._snapshots, []
        self.begin(offset, snapshots)

    def _read(self, path: str) -> list[ProducerStateEntry] | None:
        try:
            return decode_snapshot(self._fs.read_bytes(path, limit=1 << 30))
        except FileNotFoundError:
            self._report.add("vanished", path, -1, "deleted meanwhile")
        except StorageError as error:
            self._report.add("snapshot-corrupt", path, 0, str(error))
        return None

    # --- batches ---

    def add(self, header: BatchHeader, path: str) -> None:
        """A data batch with a producer id."""
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
        self._state.update(header)

    def add_control(self, header: BatchHeader, records: Sequence[Record], path: str) -> None:
        """A control batch, which may end a transaction."""
        for record in records:
            try:
                marker = parse_transaction_marker(record.key, record.value)
            except RecordError as error:
                self._report.add("control-record", path, header.position, f"offset {record.offset}: {error}")
                continue
            if marker is None or header.producer_id < 0:
                continue
            completed = self._state.update_marker(
                header.producer_id, header.producer_epoch, marker, record.offset, record.timestamp
            )
            if not marker.is_commit:
                self._abort_markers[record.offset] = header.producer_id
            if completed is None:
                continue
            if completed.is_aborted:
                stable = self._state.last_stable_offset(completed)
                self._expected[record.offset] = AbortedTxn(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
            self._state.complete_txn(completed)
            self._state.on_high_watermark_updated(record.offset + 1)

    # --- transaction index ---

    def check_index(self, path: str, entries: Sequence[tuple[int, AbortedTxn]], end_offset: int) -> None:
        """A segment is read up to `end_offset`; `entries` are (position, entry) of its transaction index."""
        expected, self._expected = self._expected, {}
        markers, self._abort_markers = self._abort_markers, {}
        for position, entry in entries:
            if entry.last_offset >= end_offset:
                continue  # came after the log was read, or the log ends early, which is told elsewhere
            found = expected.pop(entry.last_offset, None)
            is_cleaned = entry.last_offset < self._cleaned_below
            if found is None:
                # Compaction may have taken the records, retention the beginning of the transaction.
                if is_cleaned or (not self._is_complete and markers.get(entry.last_offset) == entry.producer_id):
                    continue
                self._report.add("txnindex-extra", path, position, f"{_txn(entry)}, which the log does not abort")
            elif found != entry and not (is_cleaned and found.producer_id == entry.producer_id):
                self._report.add("txnindex-entry", path, position, f"{_txn(entry)}; the log says {_txn(found)}")
        for missing in expected.values():
            if missing.last_offset < self._log_start:
                continue  # a power cut may bring back the log of a segment that was deleted, and nothing else of it
            self._report.add("txnindex-missing", path, -1, f"{_txn(missing)} is not in it")

    # --- snapshots ---

    def reach(self, offset: int) -> None:
        """All batches below `offset` are in: compares the snapshots up to there."""
        while self._snapshots and self._snapshots[0][0] <= offset:
            at, path = self._snapshots.pop(0)
            entries = self._read(path)
            if entries is not None:
                self._compare(at, path, {entry.producer_id: entry for entry in entries})

    def _compare(self, offset: int, path: str, snapshot: dict[int, ProducerStateEntry]) -> None:
        for entry in self._state.active_producers():
            there = snapshot.pop(entry.producer_id, None)
            if entry.producer_id in self._blamed:
                continue
            if there is None:
                is_open = entry.current_txn_first_offset is not None  # such a producer does not expire
                rule = "snapshot-differs" if is_open else "snapshot-lacks"
                self._report.add(rule, path, -1, f"producer {entry.producer_id} is not in it")
            elif problem := self._difference(there, entry):
                self._blamed.add(entry.producer_id)
                self._report.add("snapshot-differs", path, -1, f"producer {entry.producer_id}: {problem}")
        for entry in snapshot.values():
            if entry.producer_id in self._blamed:
                continue
            if entry.last_offset >= offset:
                problem = f"last offset {entry.last_offset} is not below the snapshot's"
            elif self._is_complete and entry.last_offset >= self._cleaned_below:
                problem = "the log has no batch of it"
            else:
                continue
            self._blamed.add(entry.producer_id)
            self._report.add("snapshot-differs", path, -1, f"producer {entry.producer_id}: {problem}")

    def _difference(self, there: ProducerStateEntry, log: ProducerStateEntry) -> str:
        """What a snapshot says of a producer that is not so."""
        if there.last_offset != log.last_offset and (
            there.last_offset < log.last_offset or there.last_offset >= self._cleaned_below
        ):
            return f"last offset {there.last_offset}, in the log {log.last_offset}"
        if there.last_offset < self._cleaned_below:
            return ""
        pairs = (
            ("epoch", there.producer_epoch, log.producer_epoch),
            ("last sequence", there.last_sequence, log.last_sequence),
            ("offset delta", there.last_offset_delta, log.last_offset_delta),
            ("timestamp", there.last_timestamp, log.last_timestamp),
            ("open transaction", there.current_txn_first_offset, log.current_txn_first_offset),
        )
        for name, ours, logs in pairs:
            if ours != logs:
                return f"{name} {ours}, in the log {logs}"
        # A producer that had expired and came back has forgotten its coordinator.
        if there.coordinator_epoch not in (log.coordinator_epoch, -1):
            return f"coordinator epoch {there.coordinator_epoch}, in the log {log.coordinator_epoch}"
        return ""

    def finish(self, end_offset: int, *, is_stopped: bool) -> None:
        """The log ends: what is left are snapshots of offsets that it does not have."""
        self.reach(end_offset)
        for offset, path in self._snapshots:
            if is_stopped:  # else it may be of a batch that came meanwhile
                self._report.add("snapshot-beyond", path, -1, f"of offset {offset}; the log ends at {end_offset}")


def _txn(txn: AbortedTxn) -> str:
    return f"producer {txn.producer_id} from {txn.first_offset} to {txn.last_offset} (stable up to {txn.last_stable_offset})"
