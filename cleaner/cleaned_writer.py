"""CleanedWriter: writes the segments that come out of one group, as `.cleaned` files with their indexes.

Normally that is one. More come out when the bytes pass what a segment file can hold or an offset passes what its indexes can
express: recompressed survivors can be larger than what they were (KAFKA-20036). Batches come whole and in order, so a new
file may begin at any of them.

The written file is walked once more by the scanner that recovery uses, checksums included: it makes the index entries, and a
mistake of the kernel fails the pass before the original is touched.

Which segments form a group is `group_segments`, a pure function of values. Cleaning shrinks segments; without grouping a log
would end as thousands of tiny files. A group is a row of segments whose log bytes stay within segment.bytes and whose indexes
each stay within segment.index.bytes, as they are before cleaning: what comes out is never larger than that. And its last
offset is within 2^31 - 1 of its first segment's base offset, since indexes and batches keep offsets relative to it in 31
bits. An empty segment has no offsets to keep: it joins any group, or a log with a gap of 2^31 offsets would keep empty
segments between that are cleaned again for ever (KAFKA-12889).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..protocol.records._kernel import BatchScanner
from ..protocol.records.record_batch import LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, MAGIC_AT, MAGIC_V2
from ..storage.exceptions import StorageError
from ..storage.index.time_index import TimeIndex
from ..storage.segment import file_records
from ..storage.segment import scan as segment_scan
from ..storage.segment.names import CLEANED_STAGE, LOG_SUFFIX, OFFSET_INDEX_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX
from ..storage.segment.swap import CleanedSegment
from ..storage.values import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..storage.io.filesystem import File, FileSystem
    from .aborted_transactions import AbortedTransactions, Transaction


MAX_OFFSET_DISTANCE = 2**31 - 1


class SegmentSizes(NamedTuple):
    """Sizes of one segment for grouping, in bytes."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


def group_segments(
    segments: Sequence[SegmentSizes], end_offset: int, *, max_bytes: int, max_index_bytes: int
) -> list[range]:
    """Groups as ranges of indexes into `segments`, in order and without gaps; each has at least one segment.

    `segments` are in offset order and end before `end_offset`. A segment that alone passes a limit is a group of its own.
    """
    groups: list[range] = []
    start = 0
    size = index_size = time_index_size = 0
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        joins = number > start and (
            size + segment.size <= max_bytes
            and index_size + segment.index_size <= max_index_bytes
            and time_index_size + segment.time_index_size <= max_index_bytes
            and (segment.size == 0 or end - 1 - segments[start].base_offset <= MAX_OFFSET_DISTANCE)
        )
        if not joins:
            if number:
                groups.append(range(start, number))
            start, size, index_size, time_index_size = number, 0, 0, 0
        size += segment.size
        index_size += segment.index_size
        time_index_size += segment.time_index_size
    if segments:
        groups.append(range(start, len(segments)))
    return groups


_HEAD = Struct(">qi")
_LAST_OFFSET_DELTA = Struct(">i")

MAX_SEGMENT_BYTES = 2**31 - 1
"""The largest position that an offset index can hold: a signed 32-bit integer."""
_WRITEBACK_BYTES = 8 << 20
"""Bytes after which the disk is told to start writing, so that the sync at the end finds little left to do."""


class SegmentPlace(Protocol):
    """Where the files of a log are, as `LogDirectory` and a walk have it."""

    @property
    def file_system(self) -> FileSystem: ...

    def file(self, base_offset: int, suffix: str, stage: str = "") -> str: ...


class CleanedWriter:
    """Writes the segments of one group. Used by one cleaner thread; blocks. After an OSError, `discard` removes the
    files.
    """

    def __init__(
        self,
        place: SegmentPlace,
        base_offset: int,
        end_offset: int,
        *,
        index_interval_bytes: int,
        max_bytes: int = MAX_SEGMENT_BYTES,
    ) -> None:
        """The first segment gets `base_offset`, whatever the first batch's is; all batches end before `end_offset`."""
        self._place = place
        self._fs = place.file_system
        self._index_interval_bytes = index_interval_bytes
        self._max_bytes = max_bytes
        self._end_offset = end_offset
        self._done: list[CleanedSegment] = []
        self._bases: list[int] = []
        self._file: File | None = None
        self.written_bytes = 0
        try:
            self._begin(base_offset)
        except BaseException:
            self.discard()  # nobody else has it yet
            raise

    def _begin(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._bases.append(base_offset)
        self._scanner = BatchScanner(self._index_interval_bytes, base_offset, find_stateful=False)
        file = self._fs.open(self._path(LOG_SUFFIX), create=True)
        self._file = file
        file.truncate(0)  # one that a failed pass left behind
        self._written_back = 0

    def _path(self, suffix: str) -> str:
        return self._place.file(self._base_offset, suffix, CLEANED_STAGE)

    def append(self, batches: memoryview) -> None:
        """Append whole batches, in offset order. StorageError: the batches are not sound. Blocks; OSError."""
        assert self._file is not None
        position = self._file.size()
        if position + len(batches) > self._max_bytes or self._end_offset - 1 - self._base_offset > MAX_OFFSET_DISTANCE:
            self._append_one_by_one(batches)
            return
        self._file.append(batches)
        self.written_bytes += len(batches)
        taken = self._scanner.feed(batches, 0, len(batches), position)
        if self._scanner.stopped is not None or taken != len(batches):
            raise StorageError(f"{self._file.path}: cleaning made no sound batches: {self._scanner.stopped or taken}")
        end = position + len(batches)
        if end - self._written_back >= _WRITEBACK_BYTES:
            self._file.start_writeback(self._written_back, end - self._written_back)
            self._written_back = end

    def _append_one_by_one(self, batches: memoryview) -> None:
        """Append batch by batch, and begin a new segment before a batch that the current one cannot hold."""
        position, end = 0, len(batches)
        assert self._file is not None
        while position < end:
            batch_size, base_offset, last_offset = _span(batches, position)
            size = self._file.size()
            too_long = size + batch_size > self._max_bytes
            if size and (too_long or last_offset - self._base_offset > MAX_OFFSET_DISTANCE):
                next_offset = self._scanner.next_offset
                self._close()
                # The first offset in a wrapper of format 0 or 1 is not told: any base below it will do that none before has.
                is_wrapper = batches[position + MAGIC_AT] < MAGIC_V2
                self._begin(max(next_offset, last_offset - MAX_OFFSET_DISTANCE) if is_wrapper else base_offset)
                size = 0
            batch = batches[position : position + batch_size]
            self._file.append(batch)
            self.written_bytes += len(batch)
            if self._scanner.feed(batch, 0, len(batch), size) != len(batch):
                raise StorageError(f"{self._file.path}: cleaning made no sound batches: {self._scanner.stopped}")
            position += batch_size

    def finish(
        self, modified_ms: int, aborted: AbortedTransactions, kept_aborts: Iterable[Transaction], live: int
    ) -> list[CleanedSegment]:
        """Write indexes, set file times and sync: the segments are then ready to be swapped in. `kept_aborts` are the
        transactions whose abort marker was written; `live` is the number of records written.
        """
        self._close()
        if len(self._done) == 1:
            self._done[0] = self._done[0]._replace(live=live)
        else:
            self._done = [cleaned._replace(live=self._count(cleaned)) for cleaned in self._done]
        kept = list(kept_aborts)
        for number, cleaned in enumerate(self._done):
            base_offset = cleaned.base_offset
            end = self._done[number + 1].base_offset if number + 1 < len(self._done) else None
            here = [txn for txn in kept if txn[2] >= base_offset and (end is None or txn[2] < end)]
            aborted.write(self._place, base_offset, here)
            self._fs.set_modified_ms(self._place.file(base_offset, LOG_SUFFIX, CLEANED_STAGE), modified_ms)
        return self._done

    def _close(self) -> None:
        """Complete the current segment: sync it and write its indexes."""
        file, scanner = self._file, self._scanner
        assert file is not None
        size = file.size()
        try:
            file.sync()
        finally:
            self._file = None
            file.close()
        largest = segment_scan.largest_timestamp(scanner, self._base_offset)
        time_entries = bytes(scanner.time_index_entries)
        last = TimeIndex.ENTRY.unpack(time_entries[-TimeIndex.ENTRY_SIZE :])[0] if time_entries else NO_TIMESTAMP
        if largest.timestamp > last:
            time_entries += TimeIndex.ENTRY.pack(largest.timestamp, largest.offset - self._base_offset)
        for suffix, entries in ((OFFSET_INDEX_SUFFIX, scanner.offset_index_entries), (TIME_INDEX_SUFFIX, time_entries)):
            index = self._fs.open(self._path(suffix), create=True)
            try:
                index.truncate(0)
                index.append(entries)
                index.sync()
            finally:
                index.close()
        first = scanner.first_timestamp if size else NO_TIMESTAMP
        self._done.append(CleanedSegment(self._base_offset, size, first, largest, -1))

    def _count(self, cleaned: CleanedSegment) -> int:
        file = self._fs.open(self._place.file(cleaned.base_offset, LOG_SUFFIX, CLEANED_STAGE), writable=False)
        try:
            return file_records.count_records(file, 0, cleaned.size)
        finally:
            file.close()

    def discard(self) -> None:
        """Remove the files written so far. Best effort: the next load of the log removes what remains."""
        if self._file is not None:
            self._file.close()
            self._file = None
        for base_offset in self._bases:
            for suffix in SEGMENT_SUFFIXES:
                with suppress(OSError):
                    self._fs.unlink(self._place.file(base_offset, suffix, CLEANED_STAGE), missing_ok=True)


def _span(batches: memoryview, position: int) -> tuple[int, int, int]:
    """(size, base offset, last offset) of a batch, or of a message of format 0 or 1: a wrapper carries its last offset
    only.
    """
    base_offset, length = _HEAD.unpack_from(batches, position)
    last_offset = base_offset
    if batches[position + MAGIC_AT] >= MAGIC_V2:
        last_offset += _LAST_OFFSET_DELTA.unpack_from(batches, position + LAST_OFFSET_DELTA_AT)[0]
    return LOG_OVERHEAD + length, base_offset, last_offset
