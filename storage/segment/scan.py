"""Scans a whole segment from front to back, for recovery and new indexes: chunks through the compiled BatchScanner.

The scanner works without the GIL, so that several recovery threads use several cores. It reports to the caller chunk by chunk;
nothing grows with the size of the segment but the index entries (8 + 12 bytes for each `index.interval.bytes`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.records._kernel import BatchScanner
from ..index.time_index import TimeIndex, TimestampOffset
from ..io.filesystem import has_no_room
from ..values import NO_TIMESTAMP
from .names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX

if TYPE_CHECKING:
    from ...protocol.records._kernel import BatchInfo
    from ..io.filesystem import Buffer, File
    from .files import LogDirectory
    from .log_segment import LogSegment

logger = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
LARGEST_BUFFER = 64 << 20
"""Largest batch that is read into a buffer; larger ones are read through a map: damaged bytes must not make us allocate
the size that they claim.
"""

OnBatch = Callable[["BatchInfo", "Buffer"], None]


def scan_segment(
    directory: LogDirectory,
    segment: LogSegment,
    *,
    start: int = 0,
    check_crc: bool,
    on_batch: OnBatch | None = None,
    on_progress: Callable[[int], None] | None = None,
    durable_below: int | None = None,
) -> BatchScanner:
    """Walk the segment's batches from position `start` to the end of the file or the first that is not sound.

    `on_batch(header, bytes)` gets each batch with a producer id or control bit, valid during the call; `on_progress(n)` the
    bytes of each chunk. `scanner.valid_bytes` is where sound batches end. With `durable_below` (an offset), what is sound from
    there on is written over itself, so that the next sync of the file covers what was read here; the file's modification
    time stays. Blocks; OSError.
    """
    scanner = BatchScanner(directory.config.index_interval_bytes, segment.base_offset, check_crc)
    file = directory.open_log(segment.base_offset, writable=durable_below is not None)
    try:
        modified_ms = None if durable_below is None else directory.file_system.stat(file.path).modified_ms
        if _feed(directory, file, scanner, start, on_batch, on_progress, durable_below) and modified_ms is not None:
            directory.file_system.set_modified_ms(file.path, modified_ms)
    finally:
        file.close()
    return scanner


def _feed(
    directory: LogDirectory,
    file: File,
    scanner: BatchScanner,
    position: int,
    on_batch: OnBatch | None,
    on_progress: Callable[[int], None] | None,
    durable_below: int | None,
) -> bool:
    """Feed the file to the scanner; True if some bytes were written over themselves (`File.rewrite`)."""
    size = file.size()
    has_rewritten = False
    buffer = bytearray(min(CHUNK_BYTES, size - position))
    while position < size:
        length = file.pread_into(memoryview(buffer)[: size - position], position)
        taken = scanner.feed(buffer, 0, length, position)
        _drain(scanner, buffer, position, on_batch)
        if durable_below is not None and taken and scanner.next_offset > durable_below:
            # After a failed sync the page cache can hold bytes that the disk lacks, in pages marked clean. Writing the
            # checked bytes over themselves makes the pages dirty, so that the sync after recovery writes them.
            file.rewrite(memoryview(buffer)[:taken], position)
            has_rewritten = True
        if on_progress is not None:
            on_progress(taken)
        position += taken
        if scanner.stopped is not None or taken:
            if scanner.stopped is not None:
                break
            continue
        # Not one whole batch in the buffer: it is larger, or the file ends within it.
        if not length < scanner.needed <= size - position:
            break
        if scanner.needed <= LARGEST_BUFFER:
            buffer = bytearray(scanner.needed)
            continue
        mapped = directory.file_system.map(file.path, writable=False)
        try:
            with mapped.view[position : position + scanner.needed] as whole:
                taken = scanner.feed(whole, 0, len(whole), position)
                _drain(scanner, whole, position, on_batch)
                if durable_below is not None and taken and scanner.next_offset > durable_below:
                    file.rewrite(whole[:taken], position)
                    has_rewritten = True
        finally:
            mapped.close()
        if not taken:
            break
        position += taken
    return has_rewritten


def _drain(scanner: BatchScanner, buffer: Buffer, position: int, on_batch: OnBatch | None) -> None:
    batches = scanner.stateful_batches
    if batches:
        if on_batch is not None:
            for batch in batches:
                start = batch.position - position
                on_batch(batch, memoryview(buffer)[start : start + batch.size])
        batches.clear()


def largest_timestamp(scanner: BatchScanner, base_offset: int) -> TimestampOffset:
    """Largest timestamp of the segment, from a finished scan."""
    if scanner.max_timestamp < 0:
        return TimestampOffset(NO_TIMESTAMP, base_offset)
    return TimestampOffset(scanner.max_timestamp, scanner.offset_of_max_timestamp)


def write_indexes(directory: LogDirectory, segment: LogSegment, scanner: BatchScanner, *, durable: bool) -> None:
    """Write the two indexes that the scan made, trimmed; the time index ends with the largest timestamp. Blocks;
    OSError.

    `durable` for a segment below the recovery point: its indexes are trusted from now on. On a full disk they are left out:
    the log must start, look-ups walk the segment then, and retention makes them once there is room, or the next start.
    """
    try:
        _write_indexes(directory, segment, scanner, durable=durable)
    except OSError as error:
        if not has_no_room(error):
            raise
        logger.warning("%s: no room for the indexes of segment %d", directory.path, segment.base_offset)
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            directory.file_system.unlink(directory.file(segment.base_offset, suffix), missing_ok=True)
        directory.doubted[segment.base_offset] = segment


def _write_indexes(directory: LogDirectory, segment: LogSegment, scanner: BatchScanner, *, durable: bool) -> None:
    time_entries = scanner.time_index_entries
    largest = largest_timestamp(scanner, segment.base_offset)
    entry_size = TimeIndex.ENTRY_SIZE
    last = (
        TimeIndex.ENTRY.unpack_from(time_entries, len(time_entries) - entry_size)[0] if time_entries else NO_TIMESTAMP
    )
    if largest.timestamp > last:
        time_entries += TimeIndex.ENTRY.pack(largest.timestamp, largest.offset - segment.base_offset)
    for suffix, entries in ((OFFSET_INDEX_SUFFIX, scanner.offset_index_entries), (TIME_INDEX_SUFFIX, time_entries)):
        path = directory.file(segment.base_offset, suffix)
        if durable:
            directory.file_system.write_atomically(path, entries)
            continue
        file = directory.file_system.open(path, create=True)
        try:
            file.truncate(0)
            file.append(entries)
        finally:
            file.close()


def rebuild_indexes(directory: LogDirectory, segment: LogSegment) -> bool:
    """Rewrite both indexes of a closed segment, durably. Under the log's deletion lock; blocks. OSError, of a full disk too: what
    is there is better than nothing.

    False: its log is damaged itself, so that they would be no better.
    """
    scanner = scan_segment(directory, segment, check_crc=False)
    if scanner.valid_bytes < segment.size:
        return False
    _write_indexes(directory, segment, scanner, durable=True)
    segment.abandon()
    logger.info("%s: made the indexes of segment %d anew", directory.path, segment.base_offset)
    return True


def cut_log(directory: LogDirectory, segment: LogSegment, size: int) -> int:
    """Truncate the log file to `size` bytes, durably; returns the bytes removed. Keeps its modification time. Blocks;
    OSError.
    """
    path = directory.file(segment.base_offset, LOG_SUFFIX)
    file = directory.open_log(segment.base_offset)
    try:
        removed = file.size() - size
        if removed:
            modified_ms = directory.file_system.stat(path).modified_ms
            file.truncate(size)
            # Else a power cut may bring the bad bytes back when the recovery point has passed this segment: it stands at
            # its end already if only unsynced batches were lost, and the next flush has nothing to sync here.
            file.sync()
            directory.file_system.set_modified_ms(path, modified_ms)
        return removed
    finally:
        file.close()
