"""Aborted transactions for read_committed fetches, from a log's `.txnindex` files.

An entry lies in the segment of its abort marker, which may be far behind the records that it is about: all segments from
the fetch's on have to be asked. Most logs have no entry at all, and a log may have ten thousand segments; so what the
closed ones hold is kept, and looked for again only among segments that are new. The active one's file is looked at each time, and
read when it has changed.

One object per log. `load` does the looking in a pool thread; what it missed since is looked at where it is asked for,
on the loop thread: the files of one segment that was active a moment ago.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager, suppress
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from ..exceptions import CorruptIndexError, KafkaStorageError
from ..index.transaction_index import AbortedTxn, TransactionIndex
from ..segment.names import TRANSACTION_INDEX_SUFFIX, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..io.filesystem import FileStat
    from ..segment.files import LogDirectory
    from ..segment.log_segment import LogSegment
    from ..values import FetchDataInfo

_last_offset_of = attrgetter("last_offset")


class AbortedTransactions:
    """The aborted transactions of one log, from its transaction indexes."""

    __slots__ = ("_active", "_changes", "_closed", "_directory", "_looked", "_pinned")

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        # The list that was looked at last, and what its closed segments hold: one value, since threads with others look too.
        self._looked: tuple[tuple[LogSegment, ...], list[tuple[AbortedTxn, ...]]] = ((), [])
        # Closed segments that were looked at, by identity: a segment would keep its files.
        self._closed: dict[object, tuple[AbortedTxn, ...]] = {}
        self._pinned: dict[object, tuple[AbortedTxn, ...]] = {}
        # Entries of the active segment, and what its file was before it was read: base offset, `_changes`, size, time, inode.
        self._active: tuple[tuple[int, int, FileStat], tuple[AbortedTxn, ...]] | None = None
        self._changes = 0  # times come in ticks: two changes within one may leave size and time as they were

    def is_loaded(self, view: tuple[LogSegment, ...]) -> bool:
        """True if the closed segments' indexes were read. Never blocks."""
        return view is self._looked[0]

    def load(self, view: tuple[LogSegment, ...]) -> None:
        """Read the closed segments' indexes, and bring the active one's file into memory. Pool thread. OSError."""
        self._look_at(view)
        self._read_active(view[-1].base_offset)

    def are_none_from(self, view: tuple[LogSegment, ...], offset: int) -> bool:
        """True if no aborted transaction ends at `offset` or later, as far as that is known without reading a closed segment's
        index: False where one has to be read. CorruptIndexError, OSError.
        """
        looked_at, with_entries = self._looked
        if view is not looked_at or any(entries[-1].last_offset >= offset for entries in with_entries):
            return False
        entries = self._read_active(view[-1].base_offset)
        return not entries or entries[-1].last_offset < offset

    def overlapping(
        self, view: tuple[LogSegment, ...], offset: int, info: FetchDataInfo, most: int | None = None
    ) -> list[AbortedTxn]:
        """Aborted transactions with a record, or their marker, in the slice `info` of a fetch at `offset`, in their order.
        Where there are more than `most`, one more than that.

        `view` are the log's segments. A batch that the slice cuts off at its end does not count: no consumer can read it.
        CorruptIndexError, OSError.
        """
        if not info.size:
            return []
        last: int | None = None
        found: list[AbortedTxn] = []
        for txn in self._entries(view, offset):
            if txn.first_offset > offset:
                if last is None:
                    last = _last_offset(view, offset, info)
                if txn.first_offset > last:
                    if txn.last_stable_offset > last:
                        break  # whatever was aborted later began behind the slice
                    continue
            found.append(txn)
            if most is not None and len(found) > most:
                break
        return found

    def pin(self, segments: Iterable[LogSegment]) -> None:
        """Keep what closed segments hold, until the next call: their files are about to get other names.

        Who looks for them then finds no index, or that of their successors, which lacks what cleaning has removed, and may
        still have the records. The thread that replaces segments; blocks. OSError, CorruptIndexError.
        """
        known = self._closed
        self._pinned = {
            segment.identity: known[segment.identity] if segment.identity in known else self._read(segment.base_offset)
            for segment in segments
        }

    def replaced(self) -> None:
        """Let go of the segments that were pinned: their successors are the log's. Else the last one who looked would keep their
        files open, and their room taken, until the next one looks.
        """
        self._looked = ((), [])

    def unpin(self) -> None:
        """Undo `pin`: nothing was replaced."""
        self._pinned = {}

    @contextmanager
    def noted(self, base_offset: int, txn: AbortedTxn) -> Iterator[None]:
        """Add an entry to the index of the segment at `base_offset`, the active one, for a marker that the block writes.

        It is taken out again when the block fails. KafkaStorageError: it could not be added, and the block was not entered.
        """
        directory = self._directory
        path = directory.file(base_offset, TRANSACTION_INDEX_SUFFIX)
        index = TransactionIndex(directory.file_system, path, base_offset)
        self._changes += 1
        try:
            try:
                index.note(txn)
            except (OSError, CorruptIndexError) as error:
                raise KafkaStorageError(f"{path}: noting an aborted transaction failed: {error}") from error
            try:
                yield
            except BaseException:
                with suppress(OSError):  # else the next one that is noted at this offset takes it out
                    index.truncate_to(txn.last_offset)
                raise
        finally:
            index.close()
            self._changes += 1

    def _entries(self, view: tuple[LogSegment, ...], offset: int) -> Iterator[AbortedTxn]:
        """Entries of transactions that end at `offset` or later."""
        looked_at, with_entries = self._looked
        if view is not looked_at:
            with_entries = self._look_at(view)
        active = view[-1]
        for entries in (*with_entries, self._read_active(active.base_offset)):
            if entries and entries[-1].last_offset >= offset:
                yield from islice(entries, bisect_left(entries, offset, key=_last_offset_of), None)

    def _look_at(self, view: tuple[LogSegment, ...]) -> list[tuple[AbortedTxn, ...]]:
        closed, pinned = view[:-1], self._pinned
        known = {**self._closed, **pinned}
        fresh = [segment for segment in closed if segment.identity not in known]
        if len(fresh) > 1:  # the first look: one listing instead of a look for each
            names = map(parse_file_name, self._directory.file_system.list_directory(self._directory.path))
            there = {name.base_offset for name in names if name and name.suffix == TRANSACTION_INDEX_SUFFIX}
        else:
            there = {segment.base_offset for segment in fresh}
        read = {s: self._read(s.base_offset) if s.base_offset in there else () for s in fresh}
        found = {s.identity: known[s.identity] if s.identity in known else read[s] for s in closed}
        if self._pinned is not pinned:  # files may have got other names before they were read
            return self._look_at(view)
        self._closed = found
        with_entries = [entries for entries in found.values() if entries]
        self._looked = (view, with_entries)
        if not found.keys().isdisjoint(self._pinned):  # it is about to be replaced, or was: who comes next looks again
            self._looked = ((), [])
        return with_entries

    def _read_active(self, base_offset: int) -> tuple[AbortedTxn, ...]:
        """Entries of the active segment: one system call unless the file has changed since they were read, else what is new."""
        directory = self._directory
        changes = self._changes
        try:
            stat = directory.file_system.stat(directory.file(base_offset, TRANSACTION_INDEX_SUFFIX))
        except FileNotFoundError:
            return ()
        state = (base_offset, changes, stat)
        kept = self._active
        if kept is None or kept[0] != state:
            known = kept[1] if kept is not None and kept[0][0] == base_offset else ()
            self._active = kept = (state, self._read(base_offset, known))
        return kept[1]

    def _read(self, base_offset: int, known: tuple[AbortedTxn, ...] = ()) -> tuple[AbortedTxn, ...]:
        directory = self._directory
        path = directory.file(base_offset, TRANSACTION_INDEX_SUFFIX)
        if not directory.file_system.exists(path):
            return ()
        return TransactionIndex(directory.file_system, path, base_offset).all_with(known)


def _last_offset(view: tuple[LogSegment, ...], offset: int, info: FetchDataInfo) -> int:
    """Last offset in the slice of a fetch at `offset`; below that where there is none, or the segment is gone. OSError."""
    for segment in view:
        if segment.base_offset == info.segment_base_offset:
            last = segment.last_offset_in(info.position, info.position + info.size)
            return offset - 1 if last is None else last
    return offset - 1
