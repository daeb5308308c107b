"""FetchCursor: reads a partition continuously, by making the next request and interpreting its answer; no I/O.

    offset ≥ 0 ──► FETCH ──┬─ records ────────────► go on behind them
                 ▲         ├─ less than one entry ─► ask again for twice as much, up to max_fetch_size
                 │         ├─ an empty set ────────► the end of the log, for now
                 │         └─ OFFSET_OUT_OF_RANGE ─► fail, or ▼
    EARLIEST, ───┴──────────────────────────────────► OFFSETS
    LATEST

Both clients are a loop around this: send `request()`, give the answer to `receive`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from ..errors import ErrorCode
from ..records.compression import DEFAULT_MAX_BYTES
from ..records.exceptions import RecordTooLargeError
from .entries import read_message_set
from .wire import (
    EARLIEST,
    ERROR_SIZE,
    LATEST,
    MessageSetError,
    fetch_request,
    offsets_answer_limit,
    offsets_request,
    parse_fetch_answer,
    parse_offsets_answer,
)

if TYPE_CHECKING:
    from ..records.record_batch import Record

DEFAULT_FETCH_SIZE = 1 << 20
DEFAULT_MAX_FETCH_SIZE = 64 << 20


class OnOutOfRange(StrEnum):
    """Policy of a reader whose offset is not in the log: continue at the earliest or latest offset, or fail."""

    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"


class FetchCursor:
    """A reader of one partition. Not thread-safe.

    Attributes:
        offset: of the next record that is wanted; EARLIEST or LATEST until the broker has said what that is.
        fetch_size: bytes that the next FETCH asks for; it grows, and stays grown.
        at_end: the last answer said that there is nothing at `offset` yet.
    """

    __slots__ = (
        "_max_decompressed", "_max_fetch_size", "_on_out_of_range", "_partition", "_topic", "_wanted",
        "at_end", "fetch_size", "offset",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int = EARLIEST,
        *,
        fetch_size: int = DEFAULT_FETCH_SIZE,
        max_fetch_size: int = DEFAULT_MAX_FETCH_SIZE,
        on_out_of_range: OnOutOfRange | str = OnOutOfRange.FAIL,
        max_decompressed: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """Sizes in bytes. ValueError: impossible sizes or offset."""
        if not 1 <= fetch_size <= max_fetch_size < 1 << 31:
            raise ValueError(
                f"fetch_size={fetch_size} and max_fetch_size={max_fetch_size}: 1 to 2^31 - 1, in that order"
            )
        if offset < 0 and offset not in (EARLIEST, LATEST):
            raise ValueError(
                f"offset {offset} is neither one of the log nor EARLIEST ({EARLIEST}) nor LATEST ({LATEST})"
            )
        self._topic = topic
        self._partition = partition
        self._on_out_of_range = OnOutOfRange(on_out_of_range)
        self._max_fetch_size = max_fetch_size
        self._max_decompressed = max_decompressed
        # The OFFSETS time to ask for before the next FETCH.
        self._wanted = offset if offset < 0 else None
        self.offset = offset
        self.fetch_size = fetch_size
        self.at_end = False

    @property
    def answer_limit(self) -> int:
        """The largest `total` that the answer to `request()` may have, in bytes."""
        return offsets_answer_limit(1) if self._wanted is not None else ERROR_SIZE + self.fetch_size

    def request(self) -> bytes:
        """The request to send next; the same one until an answer is received."""
        if self._wanted is not None:
            return offsets_request(self._topic, self._partition, self._wanted, 1)
        return fetch_request(self._topic, self._partition, self.offset, self.fetch_size)

    def receive(self, answer: bytes | bytearray | memoryview) -> list[Record]:
        """Take the answer (the bytes after `total`) to `request()`: its records, often none. Moves `offset` behind
        them.

        Raises:
            MessageSetError: the broker's error; OFFSET_OUT_OF_RANGE under the policy `fail` only.
            RecordTooLargeError: the entry at `offset` is larger than max_fetch_size, or than what it may hold.
            CorruptRecordError, InvalidRecordError, UnsupportedCompressionError: the entry at `offset` can't be read.
            MalformedAnswer: this is no answer to the request.
        """
        if self._wanted is not None:
            offsets = parse_offsets_answer(answer, f"OFFSETS of {self._topic}-{self._partition}")
            if offsets:
                self.offset, self._wanted = offsets[0], None
            self.at_end = False
            return []
        error, data = parse_fetch_answer(answer)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE and self._on_out_of_range is not OnOutOfRange.FAIL:
            self._wanted = EARLIEST if self._on_out_of_range is OnOutOfRange.EARLIEST else LATEST
            return []
        if error:
            raise MessageSetError(error, f"FETCH of {self._topic}-{self._partition} at offset {self.offset}")
        found = read_message_set(data, self.offset, max_decompressed=self._max_decompressed)
        self.at_end = found.is_empty
        if found.needs_more_room(self.offset):
            self._grow()
        self.offset = found.next_offset
        return found.records

    def _grow(self) -> None:
        if self.fetch_size == self._max_fetch_size:
            raise RecordTooLargeError(
                f"the entry at offset {self.offset} of {self._topic}-{self._partition} is larger than "
                f"max_fetch_size, {self._max_fetch_size} bytes: allow more, or seek behind it"
            )
        self.fetch_size = min(2 * self.fetch_size, self._max_fetch_size)
