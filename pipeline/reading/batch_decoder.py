"""Decodes stored batches to columns: any format, codec and producer, without what a reader of committed data must skip.

A `BatchDecoder` is given bytes that begin with a batch, from a file or from a fetch, and takes the whole ones. Transaction
markers are no records; batches of aborted transactions are left out when `aborted` says which those are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from ...protocol.records._columns import ColumnBuilder
from ...protocol.records.attributes import CONTROL_MASK, TIMESTAMP_TYPE_MASK, TRANSACTIONAL_MASK
from ...protocol.records.exceptions import CorruptRecordError, RecordError
from ...protocol.records.memory_records import is_intact, iterate_records, read_header
from ...protocol.records.record_batch import (
    HEADER,
    HEADER_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    MIN_MESSAGE_SIZE,
    OVERHEAD,
    RECORD_BATCH_OVERHEAD,
)
from .columns import BYTES_AT_ONCE, EVERYTHING, ROWS_AT_ONCE, Columns, Wish

if TYPE_CHECKING:
    from ...storage.index.transaction_index import AbortedTxn

#: Timestamp that Kafka's clients give a record of format 0.
NO_TIMESTAMP_TYPE = -1


class Aborted(Protocol):
    """Tells which batches belong to aborted transactions. Called in the order of offsets."""

    def has(self, producer_id: int, base_offset: int) -> bool:
        """True if this transactional batch belongs to an aborted transaction."""

    def end(self, producer_id: int, offset: int) -> None:
        """A marker there has ended the producer's transaction."""


class AbortedRanges:
    """Aborted transactions from index files: each from its first record to its marker."""

    def __init__(self, transactions: Iterable[AbortedTxn] = ()) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for transaction in transactions:
            self._ranges.setdefault(transaction.producer_id, []).append(
                (transaction.first_offset, transaction.last_offset)
            )

    def has(self, producer_id: int, base_offset: int) -> bool:
        return any(first <= base_offset <= last for first, last in self._ranges.get(producer_id, ()))

    def end(self, producer_id: int, offset: int) -> None:
        pass


class AbortedAsFetched:
    """Aborted transactions from fetch answers, which say only where each begins. It ends with the producer's next
    marker.

    An answer tells all that reach into what was asked for, those again of which an earlier answer told: so each starts anew.
    """

    def __init__(self) -> None:
        self._to_come: dict[int, list[int]] = {}
        self._active: set[int] = set()

    def start(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Begin a new answer, with the (producer id, first offset) of each aborted transaction in it."""
        self._active.clear()
        self._to_come.clear()
        for producer_id, first_offset in transactions:
            self._to_come.setdefault(producer_id, []).append(first_offset)

    def has(self, producer_id: int, base_offset: int) -> bool:
        if self._begin(producer_id, base_offset):
            self._active.add(producer_id)
        return producer_id in self._active

    def end(self, producer_id: int, offset: int) -> None:
        self._begin(producer_id, offset)  # of a transaction of which this answer has the marker alone
        self._active.discard(producer_id)

    def _begin(self, producer_id: int, offset: int) -> bool:
        """True if an aborted transaction of the producer begins at or below `offset`; it is then removed from those to
        come.
        """
        to_come = self._to_come.get(producer_id)
        if not to_come or min(to_come) > offset:
            return False
        self._to_come[producer_id] = [first for first in to_come if first > offset]
        return True


class BatchDecoder:
    """Decoder of one split. One thread at a time.

    Attributes:
        next_offset: everything below it has been seen.
        is_done: `end_offset` is reached.
        needed: bytes that the next batch has, when `feed` took nothing because it is cut off; else 0.
        failed_at: where `feed` met what it raised for.
        skipped: batches that were damaged, with `skip_corrupt`.
    """

    def __init__(
        self, first_offset: int, end_offset: int, wish: Wish = EVERYTHING, *, aborted: Aborted | None = None,
        check_crc: bool = True, skip_corrupt: bool = False,
    ) -> None:  # fmt: skip
        self.next_offset = first_offset
        self.is_done = first_offset >= end_offset
        self.needed = 0
        self.failed_at = 0
        self.skipped = 0
        self.end_offset = end_offset
        self._aborted = aborted
        self._check_crc = check_crc
        self._skip_corrupt = skip_corrupt
        self._builder = ColumnBuilder(
            keys=wish.keys, values=wish.values, headers=wish.headers, timestamps=wish.timestamps,
            first_offset=first_offset, end_offset=end_offset, min_timestamp=wish.min_timestamp, max_timestamp=wish.max_timestamp,
        )  # fmt: skip

    @property
    def is_full(self) -> bool:
        """True if the decoded rows should be taken now."""
        return self._builder.rows >= ROWS_AT_ONCE or self._builder.data_bytes >= BYTES_AT_ONCE

    def take(self) -> Columns | None:
        """The records since the last time, if there are any."""
        return Columns(*self._builder.take()) if self._builder.rows else None

    def feed(self, buffer: bytearray | memoryview, start: int, end: int) -> int:
        """Takes whole batches from buffer[start:end] until it is full or done; returns where it stopped.

        CorruptRecordError and others of its family name the offset at which a batch is damaged.
        """
        builder = self._builder
        self.needed = 0
        while end - start >= HEADER_UP_TO_MAGIC and not self.is_done:
            base_offset, length = OVERHEAD.unpack_from(buffer, start)
            size = LOG_OVERHEAD + length
            if length < MIN_MESSAGE_SIZE:
                self.failed_at = start
                raise CorruptRecordError(f"a batch of {length} bytes behind offset {self.next_offset - 1}")
            if size > end - start:
                self.needed = size
                break
            following = start + size
            try:
                if buffer[start + MAGIC_AT] == MAGIC_V2 and size >= RECORD_BATCH_OVERHEAD:
                    fields = HEADER.unpack_from(buffer, start)
                    attributes, last_offset = fields[5], base_offset + fields[6]
                    if base_offset >= self.end_offset:
                        self.is_done = True
                        break
                    if attributes & CONTROL_MASK:
                        if self._aborted is not None:
                            self._aborted.end(fields[9], base_offset)
                    elif last_offset >= self.next_offset and not (
                        attributes & TRANSACTIONAL_MASK
                        and self._aborted is not None
                        and self._aborted.has(fields[9], base_offset)
                    ):
                        builder.add_batch(buffer, start, following, check_crc=self._check_crc)
                else:
                    last_offset = self._add_legacy(buffer, start, following)
            except RecordError:
                if not self._skip_corrupt:
                    self.failed_at = start
                    raise
                self.skipped += 1
                last_offset = -1  # its fields may be what is damaged
            self.next_offset = max(self.next_offset, last_offset + 1)
            self.is_done = self.next_offset >= self.end_offset
            start = following
            if builder.rows >= ROWS_AT_ONCE or builder.data_bytes >= BYTES_AT_ONCE:
                break
        return start

    def _add_legacy(self, buffer: bytearray | memoryview, start: int, end: int) -> int:
        """A message or wrapper of format 0 or 1; its last offset."""
        header = read_header(buffer, start, end)
        if header.last_offset < self.next_offset:
            return header.last_offset
        if self._check_crc and not is_intact(buffer, header):
            raise CorruptRecordError(f"the checksum of the message at offset {header.last_offset} is wrong")
        if header.magic == 0:
            kind = NO_TIMESTAMP_TYPE
        else:
            kind = int(header.attributes & TIMESTAMP_TYPE_MASK != 0)
        for record in iterate_records(buffer, start, end):
            self._builder.add_record(record.offset, record.timestamp, kind, record.key, record.value)
        return header.last_offset
