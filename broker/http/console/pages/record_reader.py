"""Reads records of a partition for people, bounded: a page forward, a page back, the newest of each key, one alone.

    offsets   start ............[ page ]............ limit         limit: the high watermark, or for read_committed the last
                       before ◄─┘      └─► next                    stable offset

Reading goes over slices of segment files, as a fetch does, in the thread that asks: the loop knows nothing of it. No more than
`Budget` says is read and decoded for one page; where that ends a page, the next one goes on from there. A batch larger than
`LARGEST_BATCH`, and one that is broken, are told and passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .....protocol.records.exceptions import RecordError
from .....protocol.records.memory_records import is_intact, iterate_batches, iterate_records
from .....protocol.records.record_batch import MAGIC_V2
from .....storage.log.aborted_transactions import AbortedTransactions
from .....storage.log.reader import locate
from .....storage.producers.transaction_marker import parse_transaction_marker
from .....storage.segment.file_records import batch_at
from .....storage.segment.segment_list import floor_index
from ..units import plural

if TYPE_CHECKING:
    from .....protocol.records.record_batch import BatchHeader, Record
    from .....storage.index.transaction_index import AbortedTxn
    from .....storage.log.unified_log import UnifiedLog

SLICE_BYTES = 256 << 10
WINDOW_BYTES = 512 << 10
LARGEST_BATCH = 32 << 20
LARGEST_DECOMPRESSED = 64 << 20

COMMITTED, ABORTED, OPEN, NONE = "committed", "aborted", "open", ""


class BatchFacts(NamedTuple):
    """The batch, or message of an old format, that a record is in. `size`: bytes in the file, as compressed."""

    base_offset: int
    last_offset: int
    size: int
    magic: int
    compression: int
    records: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int
    is_append_time: bool
    is_intact: bool


class Shown(NamedTuple):
    """A record. `transaction`: one of the words above; `marker`: text for a control record, empty for others."""

    record: Record
    batch: BatchFacts
    transaction: str
    marker: str


class Unread(NamedTuple):
    """A batch that is not shown, and why."""

    offset: int
    last_offset: int
    size: int
    why: str


Entry = Shown | Unread


def offset_of(entry: Entry) -> int:
    """Offset of an entry."""
    return entry.record.offset if isinstance(entry, Shown) else entry.offset


class Slice(NamedTuple):
    """Some records in their order. Records from `next_offset` on were not read, nor those below `first_offset`."""

    entries: list[Entry]
    first_offset: int
    next_offset: int


@dataclass(slots=True)
class Budget:
    """Limit on what one page may read: bytes, and records decoded. A batch that was begun is read to its end."""

    bytes: int = 8 << 20
    records: int = 100_000

    def is_spent(self) -> bool:
        return self.bytes <= 0 or self.records <= 0


class RecordReader:
    """Reads one partition for one request. HTTP's threads; blocks. OSError, StorageError; broken records are returned
    as entries, never raised.
    """

    def __init__(self, log: UnifiedLog, *, is_committed: bool) -> None:
        """`is_committed`: as a read_committed consumer sees it; else with open and aborted transactions, and markers."""
        self._log = log
        self._is_committed = is_committed
        self.start = log.log_start_offset
        self.limit = log.last_stable_offset if is_committed else log.high_watermark
        self._aborted = AbortedTransactions(log.log_directory)
        self._open: dict[int, int] | None = None

    # --- pages ---

    def forward(self, offset: int, count: int, budget: Budget) -> Slice:
        """The first `count` records from `offset` on."""
        offset = max(offset, self.start)
        entries: list[Entry] = []
        following = offset
        for entry, following in self._walk(offset, self.limit, budget):  # noqa: B007 - used when it has ended
            if entry is not None:
                entries.append(entry)
                if len(entries) == count:
                    break
        return Slice(entries, offset, following)

    def back(self, before: int, count: int, budget: Budget) -> Slice:
        """The last `count` records below `before`."""
        before = min(max(before, self.start), self.limit)
        kept: list[Entry] = []
        end, width = before, count
        while end > self.start and len(kept) < count and not budget.is_spent():
            begin = max(end - width, self.step_back(end, WINDOW_BYTES))
            found = self._window(begin, end, budget)
            if found and kept and _is_same_batch(found[-1], kept[0]):
                kept.pop(0)
            kept = found[-(count - len(kept)) :] + kept
            end, width = begin, 4 * width
        first = offset_of(kept[0]) if len(kept) == count else end
        return Slice(kept, first, before)

    def latest(
        self, before: int, count: int, budget: Budget, wanted: Callable[[bytes | None], bool] = lambda key: True
    ) -> Slice:
        """The newest record below `before` of each key, the newest first, until there are `count` keys that are `wanted`.

        Below `first_offset` nothing was looked at: a key that is not here may be there.
        """
        before = min(max(before, self.start), self.limit)
        newest: dict[bytes | None, Shown] = {}
        end = before
        while end > self.start and len(newest) < count and not budget.is_spent():
            begin = self.step_back(end, WINDOW_BYTES)
            in_window: dict[bytes | None, Shown] = {}
            for entry in self._window(begin, end, budget):
                if isinstance(entry, Shown) and not entry.marker:
                    key = entry.record.key
                    if key not in newest and wanted(key):
                        in_window[key] = entry
            newest.update(in_window)
            end = begin
        found = sorted(newest.values(), key=lambda newest_entry: -newest_entry.record.offset)
        if len(found) > count:
            found = found[:count]
            end = found[-1].record.offset
        return Slice(list(found), end, before)

    def one(self, offset: int) -> Entry | None:
        """The record at an offset; None where there is none, or it is not to be seen."""
        for entry, _ in self._walk(offset, min(self.limit, offset + 1), Budget()):
            if entry is not None and (offset_of(entry) == offset or isinstance(entry, Unread)):
                return entry
        return None

    def step_back(self, end: int, size: int) -> int:
        """An offset below `end` from which there are about `size` bytes to it, in one segment; the log's start at the least."""
        view = self._log.segments
        number = max(0, floor_index(view, end - 1))
        base = view[number].base_offset
        place = locate(view, end)
        position = place.position if place.segment_base_offset == base else view[number].size
        low, high, target = base, end - 1, position - size
        while low < high and target > 0:
            middle = (low + high + 1) // 2
            if locate(view, middle).position <= target:
                low = middle
            else:
                high = middle - 1
        return max(self.start, min(low, end - 1))

    # --- reading ---

    def _window(self, begin: int, end: int, budget: Budget) -> list[Entry]:
        """All entries of [begin, end), a small range. Its last ones are wanted, so no budget ends it half-way."""
        own = Budget(2**62, 2**62)
        found = [entry for entry, _ in self._walk(begin, end, own) if entry is not None]
        budget.bytes -= 2**62 - own.bytes
        budget.records -= 2**62 - own.records
        return found

    def _walk(self, offset: int, limit: int, budget: Budget) -> Iterator[tuple[Entry | None, int]]:
        """Entries from `offset` up to below `limit`, each with the offset from which to go on. None: nothing is shown, but
        something was passed over. The budget ends it behind a batch."""
        log = self._log
        offset = max(offset, log.log_start_offset)
        while offset < limit and not budget.is_spent():
            info = log.read(offset, SLICE_BYTES, limit_offset=self.limit)
            if info.file is None:
                yield None, limit
                return
            try:
                view = log.segments
                large = batch_at(info.file, info.position) if info.size > SLICE_BYTES else None
                if large is not None and large.size > LARGEST_BATCH:
                    budget.bytes -= SLICE_BYTES
                    why = f"a batch of {plural(large.size, 'byte')} is too large to be shown here"
                    yield Unread(offset, large.last_offset, large.size, why), large.last_offset + 1
                    offset = large.last_offset + 1
                    continue
                data = info.file.pread(info.size, info.position)
                aborted = self._aborted.overlapping(view, offset, info) if info.size else []
            finally:
                info.release()
            budget.bytes -= len(data)
            is_any = False
            for header in _batches(data):
                if isinstance(header, str):
                    yield Unread(offset, offset, len(data), header), limit
                    return
                if header.base_offset >= limit and header.magic >= MAGIC_V2:
                    return
                is_any, last = True, header.last_offset
                for entry in self._entries(data, header, aborted, budget):
                    if isinstance(entry, Unread):
                        yield entry._replace(offset=max(entry.offset, offset)), last + 1
                    elif offset <= entry.record.offset < limit:
                        yield entry, entry.record.offset + 1
                offset = max(offset, last + 1)
                yield None, min(offset, limit)
                if budget.is_spent():
                    return
            if not is_any:  # not one whole batch, though there should be
                yield Unread(offset, offset, len(data), "the batch is cut off"), limit
                return

    def _entries(self, data: bytes, header: BatchHeader, aborted: list[AbortedTxn], budget: Budget) -> Iterator[Entry]:
        state = self._state(header, aborted)
        if self._is_committed and (header.is_control or state == ABORTED):
            budget.records -= 1
            return
        facts = BatchFacts(
            header.base_offset, header.last_offset, header.size, header.magic, header.compression, max(header.record_count, 0),
            header.producer_id, header.producer_epoch, header.base_sequence, header.partition_leader_epoch,
            header.is_append_time, is_intact(data, header),
        )  # fmt: skip
        end = header.position + header.size
        try:
            for record in iterate_records(data, header.position, end, max_decompressed=LARGEST_DECOMPRESSED):
                budget.records -= 1
                yield Shown(record, facts, state, _marker(record) if header.is_control else "")
        except (RecordError, ValueError) as error:
            yield Unread(header.base_offset, header.last_offset, header.size, f"can't be read: {error}")

    def _state(self, header: BatchHeader, aborted: list[AbortedTxn]) -> str:
        if not header.is_transactional or header.is_control:
            return NONE
        producer, offset = header.producer_id, header.base_offset
        if any(txn.producer_id == producer and txn.first_offset <= offset <= txn.last_offset for txn in aborted):
            return ABORTED
        if self._open is None:
            known = self._log.producer_summaries()
            self._open = {
                state.producer_id: state.current_txn_first_offset
                for state in known
                if state.current_txn_first_offset >= 0
            }
        began = self._open.get(producer)
        return OPEN if began is not None and offset >= began else COMMITTED


def _is_same_batch(one: Entry, other: Entry) -> bool:
    """True if both entries are the same unreadable batch, which reaches over the border between two windows."""
    return isinstance(one, Unread) and isinstance(other, Unread) and one.last_offset == other.last_offset


def _batches(data: bytes) -> Iterator[BatchHeader | str]:
    """Yield the whole batches in a slice. Bytes that can't be a batch end it: then the last item is a text that says why."""
    try:
        yield from iterate_batches(data)
    except (RecordError, ValueError) as error:
        yield f"what follows is no batch: {error}"


def _marker(record: Record) -> str:
    """Text for a control record."""
    try:
        marker = parse_transaction_marker(record.key, record.value)
    except RecordError as error:
        return f"control record: {error}"
    if marker is None:
        return "control record of another kind"
    return f"{'commit' if marker.is_commit else 'abort'} marker, coordinator epoch {marker.coordinator_epoch}"
