"""TransactionIndex: aborted transactions of a segment (`.txnindex` files), whose records read_committed consumers skip.

    entry     0     2             10            18            26            34
              +-----+-------------+-------------+-------------+-------------+
              | ver | producer id | first offset| last offset | last stable |    version 0 int16, the rest int64,
              +-----+-------------+-------------+-------------+-------------+    big-endian

An entry stands in the segment that holds the abort marker, whose offset is its last offset; those rise strictly. The
last stable offset is the log's when the marker was written: once an entry's is at or above a fetch's end, no later
entry can concern the fetch. The file is made with the first entry; most segments have none.

Threads: the log's writer appends and truncates; `collect`, `all` and `all_with` read the file as it is and may be called from any
thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from ..exceptions import CorruptIndexError, InvalidOffsetError
from ..io.filesystem import File, FileSystem, StrPath

_ENTRY = Struct(">hqqqq")
_VERSION = 0

MOST_BYTES = 1 << 31
"""Of an index: no more than its segment has, as each entry (34 bytes) is of a marker there, whose batch takes 61 at least."""

assert _ENTRY.size == 34


class AbortedTxn(NamedTuple):
    """One entry: an aborted transaction, with the first offset of its records and that of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndexSearchResult(NamedTuple):
    """Aborted transactions of a range. `is_complete`: no later segment can hold more for this range."""

    aborted: tuple[AbortedTxn, ...]
    is_complete: bool


class TransactionIndex:
    """Transaction index of one segment; see the module for threads. Holds a descriptor only from an append until
    `close`.
    """

    __slots__ = ("_file", "_file_system", "_last_offset", "base_offset", "path")

    ENTRY_SIZE = _ENTRY.size

    def __init__(self, file_system: FileSystem, path: StrPath, base_offset: int) -> None:
        self._file_system = file_system
        self.path = str(path)
        self.base_offset = base_offset
        self._file: File | None = None
        self._last_offset: int | None = None

    def append(self, txn: AbortedTxn) -> None:
        """Append an entry; InvalidOffsetError when its last offset is not above the last one's. Writer.

        OSError leaves the file as it was.
        """
        file = self._open_for_append()
        if self._last_offset is not None and txn.last_offset <= self._last_offset:
            raise InvalidOffsetError(f"{self.path}: {txn} does not end above {self._last_offset}")
        file.append(_ENTRY.pack(_VERSION, *txn))
        self._last_offset = txn.last_offset

    def note(self, txn: AbortedTxn) -> None:
        """Append as `append`, for a log that ends at the marker: entries at or above its offset belong to markers whose write
        failed, and are removed first.
        """
        try:
            self.append(txn)
        except InvalidOffsetError:
            self.truncate_to(txn.last_offset)
            self.append(txn)

    def _open_for_append(self) -> File:
        if self._file is None:
            file = self._file_system.open(self.path, create=True)
            # A torn entry at the end (the power went) is overwritten, not continued.
            whole = file.size() - file.size() % _ENTRY.size
            if whole != file.size():
                file.truncate(whole)
            if whole:
                self._last_offset = _ENTRY.unpack(file.pread(_ENTRY.size, whole - _ENTRY.size))[3]
            self._file = file
        return self._file

    def all(self) -> list[AbortedTxn]:
        """Read all entries from the file. CorruptIndexError: unknown version. A torn entry at the end is left out."""
        try:
            data = self._file_system.read_bytes(self.path, limit=MOST_BYTES)
        except FileNotFoundError:
            return []
        return self._decoded(data)

    def all_with(self, known: tuple[AbortedTxn, ...]) -> tuple[AbortedTxn, ...]:
        """All entries, as `all`, of which these were read before: where the last one of them still stands in its place nothing
        before it is read again, since entries are appended, and cut off at the end alone.
        """
        if known:
            start = (len(known) - 1) * _ENTRY.size
            try:
                file = self._file_system.open(self.path)
            except FileNotFoundError:
                return ()
            try:
                data = file.pread(max(0, file.size() - start), start)
            finally:
                file.close()
            entries = self._decoded(data)
            if entries and entries[0] == known[-1]:
                return (*known, *entries[1:])
        return tuple(self.all())

    def _decoded(self, data: bytes) -> list[AbortedTxn]:
        whole = len(data) - len(data) % _ENTRY.size
        entries = []
        for version, *fields in _ENTRY.iter_unpack(memoryview(data)[:whole]):
            if version != _VERSION:
                raise CorruptIndexError(f"{self.path}: an entry has the unknown version {version}")
            entries.append(AbortedTxn(*fields))
        return entries

    def collect(self, fetch_offset: int, upper_bound: int) -> TxnIndexSearchResult:
        """The aborted transactions that overlap [fetch_offset, upper_bound). Blocks as a read of a small file does."""
        found = []
        for txn in self.all():
            if txn.last_offset >= fetch_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return TxnIndexSearchResult(tuple(found), True)
        return TxnIndexSearchResult(tuple(found), False)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose last offset is ≥ `offset`. Writer."""
        entries = self.all()
        kept = sum(1 for txn in entries if txn.last_offset < offset)
        if kept < len(entries):
            file = self._open_for_append()
            file.truncate(kept * _ENTRY.size)
            self._last_offset = entries[kept - 1].last_offset if kept else None

    def reset(self) -> None:
        """Remove all entries, to be filled from the log. Writer."""
        if self._file is not None or self._file_system.exists(self.path):
            self._open_for_append().truncate(0)
        self._last_offset = None

    def sanity_check(self) -> None:
        """Raise CorruptIndexError for a torn entry, an unknown version, offsets before the segment or out of order."""
        try:
            size = self._file_system.stat(self.path).size
        except FileNotFoundError:
            return
        if size % _ENTRY.size:
            raise CorruptIndexError(f"{self.path} has {size} bytes, not a multiple of {_ENTRY.size}")
        before = self.base_offset - 1
        for txn in self.all():
            if txn.last_offset <= before or txn.first_offset > txn.last_offset:
                raise CorruptIndexError(f"{self.path}: {txn} can't be behind {before}")
            before = txn.last_offset

    @staticmethod
    def encode(entries: Iterable[AbortedTxn]) -> bytes:
        """Contents of a file with these entries."""
        return b"".join(_ENTRY.pack(_VERSION, *txn) for txn in entries)

    def flush(self) -> None:
        """Make the entries durable. Any thread; blocks."""
        try:
            file = self._file_system.open(self.path)
        except FileNotFoundError:
            return
        try:
            file.sync()
        finally:
            file.close()

    def moved_to(self, path: StrPath) -> None:
        """Note the file's new path, after its directory was renamed."""
        self.path = str(path)

    def close(self) -> None:
        """Close the descriptor; the next append opens it again. Writer."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
