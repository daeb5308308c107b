"""The aborted transactions of a log, from the `.txnindex` files of its segments, and those of a cleaned segment back into one.

A pass knows all of them before it reads the first record. So no record of an aborted transaction ever gets into the offset map,
wherever the pass begins, ends or changes from one segment to the next; the segments that lie above what it may clean are
asked as well, since the marker of a transaction may lie there (KAFKA-13727, KAFKA-8351).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..storage.index.transaction_index import AbortedTxn, TransactionIndex
from ..storage.segment.names import CLEANED_STAGE, TRANSACTION_INDEX_SUFFIX

if TYPE_CHECKING:
    from ..storage.segment.files import LogDirectory
    from ..storage.segment.log_segment import LogSegment
    from .cleaned_writer import SegmentPlace

Transaction = tuple[int, int, int]
"""(producer id, first offset, offset of the abort marker)."""


class AbortedTransactions:
    """The aborted transactions that begin below the end offset of a pass. Used by one cleaner thread."""

    __slots__ = ("_by_key",)

    def __init__(self, transactions: Iterable[AbortedTxn] = ()) -> None:
        self._by_key = {(txn.producer_id, txn.first_offset, txn.last_offset): txn for txn in transactions}

    @classmethod
    def of(cls, directory: LogDirectory, segments: Sequence[LogSegment], end_offset: int) -> AbortedTransactions:
        """Read all aborted transactions that begin below `end_offset`, from the `.txnindex` of every segment, the
        active one too. Blocks; OSError, CorruptIndexError.
        """
        found: list[AbortedTxn] = []
        for segment in segments:
            path = directory.file(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
            index = TransactionIndex(directory.file_system, path, segment.base_offset)
            found += (txn for txn in index.all() if txn.first_offset < end_offset)
        return cls(found)

    def __len__(self) -> int:
        return len(self._by_key)

    def all(self) -> list[AbortedTxn]:
        """The transactions as their indexes have them."""
        return list(self._by_key.values())

    def keys(self) -> list[Transaction]:
        """The transactions as tuples, in the form that the kernel takes."""
        return list(self._by_key)

    def write(self, place: SegmentPlace, base_offset: int, kept: Iterable[Transaction]) -> None:
        """Write the cleaned segment's index: one entry for each abort marker in it; no file when there is none. Blocks;
        OSError.
        """
        path = place.file(base_offset, TRANSACTION_INDEX_SUFFIX, CLEANED_STAGE)
        place.file_system.unlink(path, missing_ok=True)
        index = TransactionIndex(place.file_system, path, base_offset)
        try:
            for key in sorted(kept, key=lambda transaction: transaction[2]):
                index.append(self._by_key[key])
        finally:
            index.close()
