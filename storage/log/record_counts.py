"""RecordCounts: how many records lie between an offset and the end of a log, exactly: the lag of a group that is there.

Offsets alone do not tell: compaction leaves holes, and markers of transactions take offsets and are no records. So batches are
counted, by their headers, from the first offset that somebody asked for; what has been counted of a segment is remembered in
blocks, and the next question costs one look-up and a part of one block:

    segment   |....not asked for....[ 256 KiB block | block | block | block..]->   goes on as the log grows
    offset                                     ^ records of this block from here, and of the blocks behind it

One thread at a time. Blocks on reading headers; `is_out_of_time` ends a count, and the next one goes on from there.
"""

from __future__ import annotations

import logging
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records import _kernel
from ...protocol.records.exceptions import RecordError
from ..exceptions import StorageError
from ..segment.file_records import read_headers, read_records
from ..segment.segment_list import floor_index

if TYPE_CHECKING:
    from ..io.filesystem import File
    from ..segment.log_segment import LogSegment
    from .unified_log import UnifiedLog

logger = logging.getLogger(__name__)

BLOCK_BYTES = 256 * 1024
"""Bytes that a count may have to walk again."""
_WINDOW_BYTES = 64 * 1024
_NO_LIMIT = 2**63 - 1


class _Counted(NamedTuple):
    """Data records of the batches in [start, end) of a file."""

    start: int
    end: int
    records: int


class _Blocks:
    """Counts of one segment: contiguous blocks from position `begin` to `end`."""

    __slots__ = ("end", "records", "starts", "total")

    def __init__(self, begin: int) -> None:
        self.starts = array("q")
        self.records = array("q")
        self.total = 0
        self.end = begin

    @property
    def begin(self) -> int:
        return self.starts[0] if self.starts else self.end

    def append(self, counted: _Counted, block_bytes: int) -> None:
        if self.starts and self.end - self.starts[-1] < block_bytes:
            self.records[-1] += counted.records
        else:
            self.starts.append(counted.start)
            self.records.append(counted.records)
        self.total += counted.records
        self.end = counted.end

    def prepend(self, before: _Blocks) -> None:
        self.starts, self.records = before.starts + self.starts, before.records + self.records
        self.total += before.total


class RecordCounts:
    """Counts of any number of logs. `count` for those that matter, then `forget_others`, once in a while."""

    def __init__(self, block_bytes: int = BLOCK_BYTES, window_bytes: int = _WINDOW_BYTES) -> None:
        """`window_bytes`: bytes to read at once; no less than a batch's header."""
        self._block_bytes = block_bytes
        self._window_bytes = window_bytes
        self._segments: dict[object, _Blocks] = {}
        self._touched: set[object] = set()

    def count(self, log: UnifiedLog, offset: int, is_out_of_time: Callable[[], bool]) -> int | None:
        """Records of `log` from `offset` (or the log's start) up to the high watermark. None: not all counted yet."""
        limit = log.high_watermark
        offset = max(offset, log.log_start_offset)
        if offset >= limit:
            return 0
        total = 0
        try:
            view = log.segments
            for segment in view[max(0, floor_index(view, offset)) :]:
                if segment.base_offset >= limit:
                    break
                found = self._count_segment(segment, offset, limit, is_out_of_time)
                if found is None:
                    return None
                total += found
        except (OSError, RecordError, StorageError) as error:  # deleted under us, say: the next look finds its place
            logger.debug("%s: records from %d on were not counted: %s", log.name, offset, error)
            return None
        return total

    def forget_others(self) -> None:
        """Drop the counts of segments that nobody has asked for since the last call."""
        self._segments = {key: blocks for key, blocks in self._segments.items() if key in self._touched}
        self._touched = set()

    def _count_segment(
        self, segment: LogSegment, offset: int, limit: int, is_out_of_time: Callable[[], bool]
    ) -> int | None:
        size = segment.size
        position = 0
        if offset > segment.base_offset:
            found = segment.find(offset, size)
            if found is None:
                return 0
            position = found.position
        self._touched.add(segment.identity)
        file = segment.lease_file()
        try:
            blocks = self._segments.get(segment.identity)
            if blocks is None:
                blocks = self._segments[segment.identity] = _Blocks(position)
            if position < blocks.begin:
                before = _Blocks(position)
                for counted in self._count_blocks(file, position, blocks.begin, _NO_LIMIT):
                    before.append(counted, self._block_bytes)
                    if is_out_of_time():
                        # The count above does not touch it: begin again here, and come to it later.
                        self._segments[segment.identity] = before
                        return None
                blocks.prepend(before)
            for counted in self._count_blocks(file, blocks.end, size, limit):
                blocks.append(counted, self._block_bytes)
                if is_out_of_time() and blocks.end < size:
                    return None
            return self._records_from(file, blocks, position, offset)
        finally:
            file.release()

    def _records_from(self, file: File, blocks: _Blocks, position: int, offset: int) -> int:
        """Records of `blocks` from the batch at `position` on, without those below `offset` in that batch."""
        if position <= blocks.begin:
            records = blocks.total
        elif position >= blocks.end:
            return 0
        else:
            at = bisect_right(blocks.starts, position) - 1
            end = blocks.starts[at + 1] if at + 1 < len(blocks.starts) else blocks.end
            rest = sum(counted.records for counted in self._count_blocks(file, position, end, _NO_LIMIT))
            records = sum(blocks.records[at + 1 :]) + rest
        return records - _below(file, position, blocks.end, offset)

    def _count_blocks(self, file: File, position: int, end: int, limit: int) -> Iterator[_Counted]:
        """Counts of the whole batches in [position, end) whose last offset is below `limit`, a block at a time."""
        start, records = position, 0
        while position < end:
            window = file.pread(min(self._window_bytes, end - position), position)
            found, stopped, is_wrapper = _kernel.count_records(window, 0, len(window), limit)
            records += found
            step = position + stopped
            if is_wrapper:
                header = next(read_headers(file, step, end), None)
                if header is None:
                    break
                records += sum(1 for _ in read_records(file, header))
                step += header.size
            if step > end:  # cut off, which `end` never does to a log that is not being truncated
                return
            if step == position:
                break
            position = step
            if position - start >= self._block_bytes:
                yield _Counted(start, position, records)
                start, records = position, 0
        if position > start:
            yield _Counted(start, position, records)


def _below(file: File, position: int, end: int, offset: int) -> int:
    """Data records below `offset` in the batch at `position`, which has the offset or comes after it."""
    header = next(read_headers(file, position, end), None)
    if header is None or header.is_control:
        return 0
    is_legacy = header.magic < 2
    if not is_legacy:
        if header.base_offset >= offset:
            return 0
        if header.record_count == header.last_offset - header.base_offset + 1:
            return offset - header.base_offset
    return sum(1 for record in read_records(file, header) if record.offset < offset)
