"""Contents of a message set, for a client: log entries as they stand on disk, read into records and built from them.

    0        8      12    16    17               12 + size
    +--------+------+-----+-----+----------------+
    | offset | size | …   |magic| …              |      then the next entry, with nothing between
    +--------+------+-----+-----+----------------+
    magic 0, 1   a message, or a wrapper around messages; offset is that of the last one    protocol/records/legacy_record.py
    magic 2      a batch; offset is that of the first record                                protocol/records/record_batch.py

A set may end within an entry: that one is asked for again. It begins with the entry that holds the offset asked for, which
may hold records below it too, and it may hold none at or above it: compaction takes records and leaves offsets. So a reader
goes on behind the *entries*, not behind the records that it found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..records.attributes import Compression
from ..records.builder import build_batch
from ..records.compression import DEFAULT_MAX_BYTES
from ..records.exceptions import CorruptRecordError, RecordError
from ..records.legacy_record import MAGIC_V1, build_legacy_set
from ..records.memory_records import is_intact, iterate_batches, iterate_records
from ..records.record_batch import MAGIC_V2, Record
from .wire import MalformedAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Buffer = bytes | bytearray | memoryview


class NewRecord(NamedTuple):
    """A record to produce. Without a timestamp (ms since 1970) it gets the producer's clock; format 0 has none."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


class ReadSet(NamedTuple):
    """Result of `read_message_set`.

    Attributes:
        records: at or above the offset asked for, in order.
        next_offset: where to go on: behind the last whole entry. The offset asked for when there was none.
        is_empty: the set had no byte: the end of the log.
    """

    records: list[Record]
    next_offset: int
    is_empty: bool

    def needs_more_room(self, offset: int) -> bool:
        """True if not even one whole entry came for `offset`: fetch again, with twice the size."""
        return self.next_offset == offset and not self.is_empty


def read_message_set(data: Buffer, offset: int, *, max_decompressed: int = DEFAULT_MAX_BYTES) -> ReadSet:
    """Read the records of a set that was fetched at `offset`. Verifies checksums; skips control batches.

    An entry that can't be read ends the reading: it is the first one of the next set then, and raises there.

    Args:
        data: the set, perhaps cut off.
        offset: what was asked for.
        max_decompressed: bytes that one entry may hold.

    Raises:
        CorruptRecordError, InvalidRecordError, UnsupportedCompressionError, RecordTooLargeError: the first entry.
        MalformedAnswer: the entries end below `offset`: these are not the ones asked for.
    """
    records: list[Record] = []
    next_offset = offset
    try:
        for header in iterate_batches(data):
            end = header.position + header.size
            if not is_intact(data, header):
                raise CorruptRecordError(f"the entry at offset {header.base_offset} has a wrong checksum")
            if header.last_offset < next_offset:
                raise MalformedAnswer(f"an entry ends at {header.last_offset} where {next_offset} was to come")
            if not header.is_control:
                within = list(iterate_records(data, header.position, end, max_decompressed=max_decompressed))
                # A wrapper's header does not say where it begins.
                begins_below = within and within[0].offset < offset
                records += [record for record in within if record.offset >= offset] if begins_below else within
            next_offset = header.last_offset + 1
    except RecordError:
        if next_offset == offset:
            raise
    return ReadSet(records, next_offset, not data)


class _Timed(NamedTuple):
    """A new record with its timestamp, in the form that the builders take."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]]


def build_message_set(
    records: Iterable[NewRecord],
    *,
    now_ms: int,
    magic: int = MAGIC_V2,
    compression: Compression = Compression.NONE,
    level: int | None = None,
) -> bytes:
    """Build the set to produce: one batch (magic 2), one wrapper (with a codec), or a message for each record.

    Offsets count from 0; the broker assigns the real ones.

    Args:
        records: at least one.
        now_ms: the producer's clock, for records without a timestamp.
        magic: 0, 1 or 2.
        compression: codec; zstd in format 2 only.
        level: for the codec, None for its default.

    Raises:
        ValueError: no records, headers in a format that has none, or no such format.
        UnsupportedCompressionError: zstd in format 0 or 1.
    """
    timed = [
        _Timed(now_ms if record.timestamp is None else record.timestamp, record.key, record.value, record.headers)
        for record in records
    ]
    if not timed:
        raise ValueError("nothing to produce")
    if magic == MAGIC_V2:
        return build_batch(timed, compression=compression, level=level)
    if any(record.headers for record in timed):
        raise ValueError(f"message format {magic} has no headers; use format {MAGIC_V2}")
    if not 0 <= magic <= MAGIC_V1:
        raise ValueError(f"there is no message format {magic}")
    return build_legacy_set(timed, magic=magic, compression=compression, level=level)
