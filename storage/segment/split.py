"""Splits a segment whose offsets lie further apart than its indexes can express, when the log is loaded.

    0 ......................... 2³¹ + 7 ...        one file that an old cleaner made of many (KAFKA-5413, 6264)
    | what is within 2³¹ − 1 of the base | rest |   → `.cleaned` → `.swap` → two segments (`swap.py`)

Apache Kafka made such files until its cleaner looked at offsets before it joined segments, and a directory that it has
written may still have one. Nothing in it can be found behind the point where the indexes end, and recovery would take that
point for the log's end. Batches are copied as they are: bytes, order and the file's time stay, the first part keeps the name.
The old file stays until the parts have taken its place, so that a crash at any point leaves the one or the others.

Loading only: nobody reads or writes the segment meanwhile. Blocks; OSError leaves the log as it was, or the next load to
finish what was begun; CorruptRecordError where headers can't be read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.exceptions import CorruptRecordError
from ...protocol.records.record_batch import MAGIC_V2, BatchHeader
from ..index.time_index import TimestampOffset
from ..index.transaction_index import TransactionIndex
from ..values import MAX_RELATIVE_OFFSET, NO_TIMESTAMP
from . import file_records
from .names import CLEANED_STAGE, LOG_SUFFIX, SEGMENT_SUFFIXES, TRANSACTION_INDEX_SUFFIX
from .swap import CleanedSegment, SegmentSwap

if TYPE_CHECKING:
    from ..io.filesystem import File
    from .files import LogDirectory
    from .log_segment import LogSegment

logger = logging.getLogger(__name__)

_COPY_BYTES = 1 << 20


class Part(NamedTuple):
    """One of the new segments: bytes [start, end) of the old file."""

    base_offset: int
    start: int
    end: int


def is_too_wide(segment: LogSegment) -> bool:
    """True if the last offset is further from the base offset than indexes can express. Reads the segment's end."""
    try:
        next_offset = segment.read_next_offset()
    except CorruptRecordError:
        # Indexes of such a file may point anywhere.
        file = segment.lease_file()
        try:
            last = file_records.last_offset(file, 0, segment.size)
        finally:
            file.release()
        next_offset = segment.base_offset if last is None else last + 1
    return next_offset - 1 - segment.base_offset > MAX_RELATIVE_OFFSET


def _parts(file: File, base_offset: int, size: int, start: int | None) -> list[Part]:
    """Parts to split into, by batch headers. The first part may be empty: the log keeps its base offset."""
    bases, starts = [base_offset], [0]
    next_offset = base_offset
    for header in file_records.read_headers(file, 0, size):
        if header.last_offset - bases[-1] > MAX_RELATIVE_OFFSET:
            bases.append(_base_of(header, next_offset))
            starts.append(header.position)
            if header.position == start:
                break
        next_offset = header.last_offset + 1
    return [Part(*part) for part in zip(bases, starts, [*starts[1:], size], strict=True)]


def _base_of(header: BatchHeader, next_offset: int) -> int:
    """Base offset for a segment that begins with this batch: the end of the part before it, so that recovery sees no
    gap.
    """
    if header.last_offset - next_offset <= MAX_RELATIVE_OFFSET:
        return next_offset
    # The first offset in a wrapper of format 0 or 1 is not known: any below it will do that none before it has.
    return header.base_offset if header.magic >= MAGIC_V2 else header.last_offset - MAX_RELATIVE_OFFSET


def split(directory: LogDirectory, segment: LogSegment, *, start: int | None = None) -> list[Part]:
    """Put the parts in the segment's place; they have no indexes yet.

    `start`: position of the first batch that does not fit, where recovery has come to it: what lies behind that has not been
    checked and stays in one part.
    """
    segment.abandon()
    file = directory.open_log(segment.base_offset, writable=False)
    try:
        parts = _parts(file, segment.base_offset, segment.size, start)
        logger.warning(
            "%s: segment %d spans more offsets than its indexes can say: it becomes %d segments, %s",
            directory.path,
            segment.base_offset,
            len(parts),
            ", ".join(str(part.base_offset) for part in parts),
        )
        try:
            _write(directory, file, segment.base_offset, parts)
        except BaseException:
            _discard(directory, parts)
            raise
    finally:
        file.close()
    new = [
        CleanedSegment(base, end - begin, NO_TIMESTAMP, TimestampOffset(NO_TIMESTAMP, base), -1)
        for base, begin, end in parts
    ]
    swap = SegmentSwap(directory, new, [segment], has_readers=False)
    try:
        swap.prepare()
    except BaseException:
        swap.discard()
        raise
    swap.commit()
    swap.deletion()()
    return parts


def _write(directory: LogDirectory, file: File, base_offset: int, parts: Sequence[Part]) -> None:
    fs = directory.file_system
    modified_ms = fs.stat(file.path).modified_ms
    index = TransactionIndex(fs, directory.file(base_offset, TRANSACTION_INDEX_SUFFIX), base_offset)
    aborted = index.all()
    buffer = bytearray(_COPY_BYTES)
    for number, part in enumerate(parts):
        path = directory.file(part.base_offset, LOG_SUFFIX, CLEANED_STAGE)
        target = fs.open(path, create=True)
        try:
            target.truncate(0)
            position = part.start
            while position < part.end:
                room = memoryview(buffer)[: part.end - position]
                got = file.pread_into(room, position)
                if not got:
                    raise CorruptRecordError(f"{file.path} ends at {position}")
                target.append(room[:got])
                position += got
            target.sync()
        finally:
            target.close()
        fs.set_modified_ms(path, modified_ms)
        end_offset = parts[number + 1].base_offset if number + 1 < len(parts) else None
        mine = [
            txn
            for txn in aborted
            if txn.last_offset >= part.base_offset and (end_offset is None or txn.last_offset < end_offset)
        ]
        if mine:
            path = directory.file(part.base_offset, TRANSACTION_INDEX_SUFFIX, CLEANED_STAGE)
            fs.unlink(path, missing_ok=True)
            transactions = TransactionIndex(fs, path, part.base_offset)
            try:
                for txn in mine:
                    transactions.append(txn)
            finally:
                transactions.close()


def _discard(directory: LogDirectory, parts: Sequence[Part]) -> None:
    for part in parts:
        for suffix in SEGMENT_SUFFIXES:
            directory.file_system.unlink(directory.file(part.base_offset, suffix, CLEANED_STAGE), missing_ok=True)
