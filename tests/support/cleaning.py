"""A log with a cleaner on the fake file system: what the tests of `cleaner/` stand on, and how they read what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from support.logs import World
from support.mock_time import START_MS, MockTime
from tidelog.cleaner.cleaner_manager import CleanerManager
from tidelog.cleaner.cleaning import Cleaner, PassResult, PassWalker
from tidelog.cleaner.exceptions import CleaningAborted
from tidelog.cleaner.kernel._kernel import OffsetMap
from tidelog.cleaner.throttler import Throttler
from tidelog.cleaner.walk import Walker
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import BatchHeader, Record
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.producers.transaction_marker import TransactionMarker, marker_batch
from tidelog.storage.segment.names import TRANSACTION_INDEX_SUFFIX
from tidelog.storage.values import AppendOrigin

DAY_MS = 86_400_000
SECRET = bytes(range(16))


class Control:
    """A pass's control that lets the clock run on while the pass waits, and ends it at the n-th check."""

    def __init__(self, time: MockTime, abort_at: int | None = None) -> None:
        self.time = time
        self.abort_at = abort_at
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.abort_at is not None and self.checks >= self.abort_at:
            raise CleaningAborted("asked to")

    def wait(self, milliseconds: float) -> None:
        self.check()
        self.time.advance(milliseconds)


class CleaningWorld(World):
    """`World` with a cleaner that runs when told."""

    def __init__(self, *, map_entries: int = 10_000, buffer_bytes: int = 1 << 16, **settings: Any) -> None:
        super().__init__(**settings)
        self.map_entries = map_entries
        self.buffer_bytes = buffer_bytes
        self.max_segment_bytes = 2**31 - 1
        self.throttler = Throttler(float("inf"), self.time)

    def start(self, **settings: Any) -> Any:
        manager = super().start(
            **({"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0} | settings)
        )
        self.make_cleaner()
        return manager

    def make_cleaner(self) -> None:
        self.cleaners = CleanerManager(self.manager, self.file_system, self.time)
        self.manager.forget_cleaned = self.cleaners.forget_checkpoint
        self.cleaners.load()
        self.cleaner = Cleaner(self.make_walker(), throttler=self.throttler, time=self.time, secret=lambda: SECRET)

    def make_walker(self) -> PassWalker:
        """Where walks run: here in this thread."""
        return Walker(
            OffsetMap(24 * self.map_entries, 1.0),
            buffer_bytes=self.buffer_bytes,
            max_segment_bytes=self.max_segment_bytes,
        )

    def clean_once(self, *, abort_at: int | None = None) -> PassResult | None:
        """The pass that a cleaner thread would run now; None when no log is due, or it failed or was aborted."""
        work = self.cleaners.take_next()
        return None if work is None else self.cleaners.clean(work, self.cleaner, Control(self.time, abort_at))

    def clean_all(self, limit: int = 1000) -> list[PassResult]:
        """Passes until nothing is due any more."""
        results = []
        while (result := self.clean_once()) is not None:
            results.append(result)
            assert len(results) < limit, "cleaning does not come to an end"
        return results

    def roll_and_clean(self) -> list[PassResult]:
        self.log().roll()
        return self.clean_all()

    def restart(self) -> UnifiedLog:
        """A clean stop and a start with the same settings."""
        self.stop()
        return self.start_again()

    def crash(self) -> UnifiedLog:
        """`kill -9` and a start."""
        self.kill()
        return self.start_again()

    def start_again(self) -> UnifiedLog:
        self.manager = self.make_manager()
        self.manager.load(lambda _topic: self.log_config)
        self.running = self.is_recovered = True
        self.make_cleaner()
        return self.log()


def cleaning_world(
    *, segment_bytes: int = 500, map_entries: int = 10_000, buffer_bytes: int = 1 << 16, **settings: Any
) -> CleaningWorld:
    """A started one; `settings` are every topic's. A segment of 500 bytes holds about six small records."""
    made = CleaningWorld(map_entries=map_entries, buffer_bytes=buffer_bytes)
    made.start(segment_bytes=segment_bytes, **settings)
    return made


def keyed(
    log: UnifiedLog, *pairs: tuple[bytes | None, bytes | None], timestamp: int = START_MS, **arguments: Any
) -> int:
    """Append one batch of (key, value) pairs; returns its first offset."""
    records = [Record(index, timestamp, key, value) for index, (key, value) in enumerate(pairs)]
    data = bytearray(build_batch(records, **arguments))
    return log.append_as_leader(data, 0, len(data)).first_offset


def put(log: UnifiedLog, key: str, value: str | None, **arguments: Any) -> int:
    """Append one record in a batch of its own."""
    return keyed(log, (key.encode(), None if value is None else value.encode()), **arguments)


class Producer:
    """An idempotent, perhaps transactional, producer of one log."""

    def __init__(self, producer_id: int, epoch: int = 0, *, is_transactional: bool = True) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0
        self.is_transactional = is_transactional
        self.last_arguments: dict[str, Any] = {}
        self.last_count = 0
        self.last_offset = -1

    def send(self, log: UnifiedLog, *pairs: tuple[bytes | None, bytes | None], **arguments: Any) -> int:
        self.last_arguments = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequence,
            "is_transactional": self.is_transactional,
        } | arguments
        offset = keyed(log, *pairs, **self.last_arguments)
        self.sequence += len(pairs)
        self.last_count = len(pairs)
        self.last_offset = offset + len(pairs) - 1
        return offset

    def end(self, log: UnifiedLog, *, commit: bool, timestamp: int = START_MS) -> int:
        return append_marker(log, self.producer_id, self.epoch, commit=commit, timestamp=timestamp)


def append_marker(log: UnifiedLog, producer_id: int, epoch: int, *, commit: bool, timestamp: int = START_MS) -> int:
    """What a transaction coordinator does to a log: the marker, the producer's state, the transaction index."""
    data = marker_batch(producer_id, epoch, TransactionMarker(commit, 0), timestamp)
    return log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR).first_offset


def aborted_transactions(log: UnifiedLog) -> list[AbortedTxn]:
    found: list[AbortedTxn] = []
    directory = log.log_directory
    for segment in log.segments:
        path = directory.file(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
        found += TransactionIndex(directory.file_system, path, segment.base_offset).all()
    return found


def headers(log: UnifiedLog) -> list[BatchHeader]:
    """Headers of every batch in the log, from the files."""
    return [header for _, header in _batches(log)]


def _batches(log: UnifiedLog) -> Iterator[tuple[bytes, BatchHeader]]:
    for segment in log.segments:
        if segment.size:
            file = segment.lease_file()
            try:
                data = file.pread(segment.size, 0)
            finally:
                file.release()
            for header in iterate_batches(data):
                yield data, header


def data_records(log: UnifiedLog) -> list[Record]:
    """All records but markers, aborted ones too, from the files."""
    found: list[Record] = []
    for data, header in _batches(log):
        if not header.is_control:
            found += iterate_records(data, header.position)
    return found


def markers(log: UnifiedLog) -> list[int]:
    """Offsets of the control records in the log."""
    return [r.offset for data, h in _batches(log) if h.is_control for r in iterate_records(data, h.position)]


def committed_records(log: UnifiedLog) -> list[Record]:
    """What a read_committed consumer gets from the start on: aborted data left out by the transaction indexes."""
    aborted = aborted_transactions(log)
    found: list[Record] = []
    for data, header in _batches(log):
        if header.is_control or header.base_offset >= log.last_stable_offset:
            continue
        if header.is_transactional and any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.last_offset <= txn.last_offset
            for txn in aborted
        ):
            continue
        found += iterate_records(data, header.position)
    return found


def pairs_of(records: Iterable[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def state_of(records: Iterable[Record]) -> dict[bytes, bytes]:
    """What a table that follows the log holds at its end."""
    table: dict[bytes, bytes] = {}
    for record in records:
        if record.key is None:
            continue
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table
