"""LogSegment: one `.log` file with its offset and time index, named by its base offset.

    append   log file first, then, each `index.interval.bytes`, one entry in each index: the batch's last offset beside its
             start position, and the largest timestamp so far beside the last offset of the batch that brought it
    read     hint or offset index → position at or before the batch → walk headers to the batch
    roll     `roll_reason` decides, the log acts: indexes trimmed, from then on read-only and mapped only while read

Only the active segment holds open files of its own (from its first append on). A closed one borrows them from the
`FileCache`; a segment that is never read costs this object and nothing else.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from ..exceptions import CorruptIndexError, FileClosedError, StorageError
from ..index.offset_index import OffsetPosition
from ..index.time_index import TimestampOffset
from ..index.transaction_index import TransactionIndex
from ..io.filesystem import has_no_room
from ..values import MAX_RELATIVE_OFFSET, NO_TIMESTAMP
from . import file_records
from .file_records import BatchPosition
from .files import LogDirectory, SegmentFiles
from .names import DELETED_STAGE, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX

if TYPE_CHECKING:
    from ...protocol.records.record_batch import BatchHeader
    from ..io.filesystem import Buffer, File

logger = logging.getLogger(__name__)

_TAIL_ENTRIES = 64
_TAIL_BATCHES = 5_000

_HINTS = 64
"""Number of batch positions kept in memory (up to twice that): consumers at the tail ask for the last ones."""

_WARM_TAIL_BYTES = 8 << 20
"""Bytes at the end of the active segment that count as cached: they were written a short while ago."""


class _Pin:
    """A lease on open files that ends with its owner, that is when the last reader drops the segment."""

    __slots__ = ("_files", "_pinned")

    def __init__(self, files: SegmentFiles, size: int, pinned: dict[int, int]) -> None:
        self._files = files
        self._pinned = pinned
        pinned[id(self)] = size

    def __del__(self) -> None:
        del self._pinned[id(self)]
        self._files.release()


class LogSegment:
    """A segment. The log's writer (under its lock) appends, truncates, rolls and closes; any thread reads.

    Attributes:
        base_offset: of its first record; its name.
        size: bytes of whole batches in the log file. Grows after the bytes are written, so a reader never passes them.
        created_ms: when this object was made; the age of a segment without timestamps.
        index_is_full: whether an index has no room for the next entry.
        synced_size: bytes that an fdatasync has covered.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_directory",
        "_files",
        "_first_timestamp",
        "_is_active",
        "_is_gone",
        "_largest",
        "_largest_found",
        "_older_hints",
        "_pin",
        "_serial",
        "base_offset",
        "created_ms",
        "hints",
        "index_is_full",
        "indexes_synced",
        "jitter_ms",
        "size",
        "synced_size",
    )

    def __init__(
        self, directory: LogDirectory, base_offset: int, *, created_ms: int, size: int = 0, jitter_ms: int = 0
    ) -> None:
        self._directory = directory
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.size = size
        self.synced_size = 0
        self.indexes_synced = False
        self.index_is_full = False
        self._files: SegmentFiles | None = None
        self._pin: _Pin | None = None
        self._is_active = False
        self._is_gone = False
        self._serial = object()  # the cache's key: a successor at the same base offset is another segment
        self._bytes_since_index_entry = 0
        # None: not read from the files yet.
        self._first_timestamp: int | None = NO_TIMESTAMP if size == 0 else None
        self._largest: TimestampOffset | None = TimestampOffset(NO_TIMESTAMP, base_offset) if size == 0 else None
        # By readers, before the writer has: theirs may come late, when it has moved on.
        self._largest_found: TimestampOffset | None = None
        self.hints: dict[int, int] = {}
        self._older_hints: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"LogSegment({self._directory.path}, base_offset={self.base_offset}, size={self.size})"

    @classmethod
    def create(cls, directory: LogDirectory, base_offset: int, *, created_ms: int, jitter_ms: int = 0) -> LogSegment:
        """Create the files of a new, empty, active segment. OSError: nothing usable was created, a retry may succeed.

        The caller removes what was made.
        """
        segment = cls(directory, base_offset, created_ms=created_ms, jitter_ms=jitter_ms)
        segment._is_active = True
        segment._open_for_append(create=True)
        return segment

    # --- writing ---

    def activate(self) -> None:
        """Make this the active segment: its indexes get all their room with the first append. Writer."""
        self._is_active = True

    def append(
        self,
        data: Buffer,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        offset_of_max_timestamp: int = -1,
        *,
        stand_alone: bool = False,
    ) -> None:
        """Append one batch, or messages of format 0 or 1 that `stand_alone`. Writer.

        `offset_of_max_timestamp` is said where that is not the last offset.

        OSError: the log file could not take them; nothing has changed. An index that cannot take its entry is not an error:
        indexes are sparse, the entry is left out and the next interval tries again. The batch is in the log by then, and
        failing here would give its offsets out twice.
        """
        files = self._files
        if files is None:
            files = self._open_for_append()
        position = self.size
        files.file.append(data)
        if not position:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._largest.timestamp:  # type: ignore[union-attr]  # opening has read it
            self._largest = TimestampOffset(
                max_timestamp, last_offset if offset_of_max_timestamp < 0 else offset_of_max_timestamp
            )
        if self._bytes_since_index_entry > self._directory.config.index_interval_bytes:
            # An entry names the last offset of the batch that begins there: of messages, the first is one of its own.
            self._append_index_entries(files, base_offset if stand_alone else last_offset, position)
        size = len(data)
        self._bytes_since_index_entry += size
        hints = self.hints
        hints[base_offset] = position
        if len(hints) >= _HINTS:
            self._older_hints = hints
            self.hints = {}
        self.size = position + size

    def _append_index_entries(self, files: SegmentFiles, last_offset: int, position: int) -> None:
        if self.index_is_full:  # found on opening; the next batch goes to a new segment
            return
        timestamp, offset, _ = self._largest  # type: ignore[misc]  # opening has read it
        try:
            is_full = files.offset_index.append(last_offset, position)
            self.index_is_full = files.time_index.maybe_append(timestamp, offset) or is_full
        except (OSError, StorageError) as error:
            logger.warning("%s: left out an index entry at offset %d: %s", files.file.path, last_offset, error)
            self.index_is_full = files.offset_index.is_full or files.time_index.is_full
        self._bytes_since_index_entry = 0

    def was_recovered(self, size: int, first_timestamp: int, largest: TimestampOffset) -> None:
        """Called when recovery has checked the log file, cut it to `size` and written new indexes; none of it is
        synced.
        """
        self.abandon()
        self.size = size
        self.synced_size = 0
        self.indexes_synced = False
        self._first_timestamp = first_timestamp if size else NO_TIMESTAMP
        self._largest = largest

    def was_synced(self) -> None:
        """Called when loading has found the segment durable: it lies below the recovery point, or the stop was clean."""
        self.synced_size = self.size
        self.indexes_synced = True

    def deactivate(self) -> None:
        """Called when the segment was rolled: trim the indexes, hand the open files to the cache. Writer.

        The largest timestamp goes into the time index now, so that a closed segment's is its last entry.
        """
        files = self._files
        self._is_active = False
        if files is None:
            return
        self._seal(files)
        self._files = None
        self._directory.cache.put(self._serial, files)

    def _seal(self, files: SegmentFiles) -> None:
        largest = self.largest_timestamp_so_far()
        try:
            files.time_index.maybe_append(largest.timestamp, largest.offset, skip_full_check=True)
        except (OSError, StorageError) as error:
            logger.warning("%s: left out the last time index entry: %s", files.file.path, error)
        for index in (files.offset_index, files.time_index):
            try:
                index.seal()
            except OSError as error:
                # Not trimmed: readers take no trailing zeros for entries, and the file is sparse there.
                logger.warning("%s: not trimmed: %s", index.path, error)

    def truncate_to(self, offset: int) -> int:
        """Remove all batches from the one that holds `offset` on; returns the bytes removed. Writer.

        The position is looked up before the indexes are cut, and the log is cut first: should a crash come between, entries
        that point behind the end are recognised at load.
        """
        files = self._files or self._open_for_append()
        found = self.find(offset, self.size)
        if found is None:
            return 0
        removed = self.size - found.position
        self.size = found.position
        self.hints, self._older_hints = {}, {}
        files.file.truncate(found.position)  # frees reserved blocks too
        if self._directory.config.preallocate:
            files.file.preallocate(self._directory.config.segment_bytes)
        files.file.sync()  # the recovery point may stand right here and be checkpointed: what was cut must stay cut
        files.offset_index.truncate_to(offset)
        files.time_index.truncate_to(offset)
        self.synced_size = min(self.synced_size, found.position)
        self.indexes_synced = False
        self._bytes_since_index_entry = 0
        self.index_is_full = files.offset_index.is_full or files.time_index.is_full
        if found.position == 0:
            self._first_timestamp = NO_TIMESTAMP
        # The largest timestamp may be gone: the last entry that is left and what follows it say it anew.
        entry = files.time_index.last_entry
        start = files.offset_index.lookup(entry.offset).position
        later = file_records.largest_timestamp(files.file, start, self.size)
        self._largest = later if later.timestamp > entry.timestamp else entry
        return removed

    def _open_for_append(self, *, create: bool = False) -> SegmentFiles:
        """Open or create the three files for writing, the indexes with all their room."""
        assert self._is_active
        directory, config = self._directory, self._directory.config
        directory.cache.discard(self._serial)
        file = directory.open_log(self.base_offset, create=create)
        offset_index, time_index = directory.indexes(self.base_offset, writable=True)
        try:
            if file.size() != self.size:
                file.truncate(self.size)
            if config.preallocate:
                file.preallocate(config.segment_bytes)
            if self.size == 0:
                offset_index.reset()
                time_index.reset()
            else:
                offset_index.unseal()
                time_index.unseal()
            files = SegmentFiles(file, offset_index, time_index)
            if self._largest is None:
                self._largest = self._largest_found or self._read_largest(files)
            if self._first_timestamp is None:
                self._first_timestamp = self._read_first_timestamp(files)
            # Bytes from the last entry to the end, so that a restart leaves no wider gap between entries.
            self._bytes_since_index_entry = (
                self.size - offset_index.lookup(MAX_RELATIVE_OFFSET + self.base_offset).position
            )
            self.index_is_full = offset_index.is_full or time_index.is_full
        except BaseException:
            offset_index.close_map()
            time_index.close_map()
            file.close()
            raise
        self.indexes_synced = False
        self._files = files
        return files

    # --- reading: any thread ---

    @property
    def identity(self) -> object:
        """Key of this segment object for caches: a successor at the same base offset has another."""
        return self._serial

    def acquire(self) -> SegmentFiles:
        """The segment's open files, with a lease for the caller."""
        while True:
            files = self._files
            if files is not None:
                try:
                    return files.retain()
                except FileClosedError:
                    pass  # rolled or closed this moment
            try:
                found = self._directory.cache.acquire(self._serial, self._open_for_read)
            except FileNotFoundError:
                if not self._is_pinned():
                    raise
                continue
            if not self._is_pinned():
                if self._is_gone:  # nobody else asks for it: it is closed, and its room free, with the last lease
                    self._directory.cache.discard(self._serial)
                return found
            # Pinned since the look: what was opened may be the files that have got these names.
            found.release()
            self._directory.cache.discard(self._serial)

    def _is_pinned(self) -> bool:
        return self._pin is not None and self._files is not None

    def lease_file(self) -> File:
        """The open log file alone, with a lease for the caller."""
        files = self._files
        if files is not None:
            try:
                return files.file.retain()
            except FileClosedError:
                pass
        files = self.acquire()
        try:
            return files.file.retain()
        finally:
            files.release()

    def hint(self, offset: int) -> int | None:
        """Position of the batch that holds `offset`, if it was appended or read up to a short while ago; else None."""
        return position if (position := self.hints.get(offset)) is not None else self._older_hints.get(offset)

    def note_hint(self, hints: dict[int, int], offset: int, position: int) -> None:
        """Remember the position of `offset`, which a consumer that reads batch by batch will fetch next.

        `hints` is what `self.hints` was before the batch was looked for: truncation puts a new one in its place, and
        what a reader found before that must not get into it.
        """
        hints[offset] = position
        if len(hints) >= _HINTS and hints is self.hints:
            self._older_hints = hints
            self.hints = {}

    def find(self, offset: int, end: int) -> BatchPosition | None:
        """The first batch that lies before position `end` and whose last offset is >= `offset`."""
        if end <= 0:
            return None
        files = self.acquire()
        try:
            last_offset, position = self._floor_entry(files, offset, end)
            try:
                # The entry is held against the chunk that is read anyway.
                return file_records.find_batch(files.file, position, end, offset, last_offset if position else None)
            except CorruptIndexError:
                position = self._floor_position(files, offset, end)
                return file_records.find_batch(files.file, position, end, offset)
        finally:
            files.release()

    def batch_at_hint(self, position: int, offset: int, end: int) -> BatchPosition | None:
        """The batch that begins at `position`, if it ends at `offset` or later, and in the file by `end`. Any thread; OSError."""
        file = self.lease_file()
        try:
            return file_records.whole_batch_at(file, position, end, offset)
        finally:
            file.release()

    def is_filled_from(self, offset: int, end: int) -> bool:
        """True if batches follow one another up to `end`, from the index entry below `offset` on. Any thread; OSError,
        CorruptRecordError.
        """
        files = self.acquire()
        try:
            return file_records.is_filled(files.file, self._floor_position(files, offset, end), end)
        finally:
            files.release()

    def _floor_entry(self, files: SegmentFiles, offset: int, end: int) -> OffsetPosition:
        """Index entry from which to walk for `offset`; without one the walk starts at 0."""
        try:
            entry = files.offset_index.lookup(offset)
        except FileNotFoundError:
            return OffsetPosition(self.base_offset, 0)
        # Behind the end: an entry of the time before a truncation, seen by a reader that raced with it.
        return entry if 0 <= entry.position < end else OffsetPosition(self.base_offset, 0)

    def _floor_position(self, files: SegmentFiles, offset: int, end: int) -> int:
        """Position from which to walk for `offset`. An index entry is trusted only if the batch there is the one it
        names.
        """
        entry = self._floor_entry(files, offset, end)
        if entry.position and not file_records.is_right(files.file, entry):
            self._directory.doubt(self, f"offset {entry.offset} at position {entry.position}")
            return file_records.floor_position(files.file, files.offset_index, offset, end)
        return entry.position

    def last_offset_in(self, position: int, end: int) -> int | None:
        """Last offset of the last whole batch in [position, end), where a batch begins at `position`; None if there is none.

        Walks from the last index entry there, not from `position`. Any thread; OSError.
        """
        files = self.acquire()
        try:
            start = self._start_of_walk(files, position, end)
            return file_records.last_offset(files.file, start, end)
        finally:
            files.release()

    def _start_of_walk(self, files: SegmentFiles, position: int, end: int) -> int:
        """Where a batch begins that lies whole in [position, end), as near to the end as the index tells; else `position`."""
        try:
            entries = files.offset_index.before_position(end, 2)
        except FileNotFoundError:
            return position
        for entry in entries:  # the batch of the last one may reach over the end
            if entry.position <= position:
                break
            size = file_records.size_of_right(files.file, entry)
            if size is not None and entry.position + size <= end:
                return entry.position
        return position

    def headers_before(self, offset: int) -> list[BatchHeader]:
        """Headers of the last batches below `offset`, in order, from some 64 index entries before it on. Empty where the index
        is so thin that more than 5,000 would have to be read. RecordError where the log is damaged there.
        """
        files = self.acquire()
        try:
            size = self.size
            found = self.find(offset, size)
            end = size if found is None else found.position
            try:
                entries = files.offset_index.before_position(end, _TAIL_ENTRIES)
            except FileNotFoundError:
                entries = []
            right = (entry.position for entry in reversed(entries) if file_records.is_right(files.file, entry))
            headers = list(islice(file_records.read_headers(files.file, next(right, 0), end), _TAIL_BATCHES + 1))
            return headers if len(headers) <= _TAIL_BATCHES else []
        finally:
            files.release()

    def is_warm(self, offset: int) -> bool:
        """True if a read at `offset` probably finds index and batch header in memory. Never blocks."""
        if self.hint(offset) is not None or self.size == 0:
            return True
        files = self._files
        try:
            files = files.retain() if files is not None else self._directory.cache.peek(self._serial)
        except FileClosedError:
            return False
        if files is None:
            return False
        try:
            position = self._floor_entry(files, offset, self.size).position
            if self._is_active and self.size - position <= _WARM_TAIL_BYTES:
                return True
            return files.file.is_cached(position, file_records.CHUNK_BYTES) is True
        except OSError:
            return False
        finally:
            files.release()

    def read_next_offset(self) -> int:
        """The offset after its last record; the base offset when it is empty. Walks from the last index entry on."""
        if self.size == 0:
            return self.base_offset
        files = self.acquire()
        try:
            start = self._floor_position(files, MAX_RELATIVE_OFFSET + self.base_offset, self.size)
            last = file_records.last_offset(files.file, start, self.size)
            return self.base_offset if last is None else last + 1
        finally:
            files.release()

    def newest_append_time(self) -> int:
        """Timestamp of the last batch if it is log append time, else -1. Walks from the last index entry on."""
        if self.size == 0:
            return NO_TIMESTAMP
        files = self.acquire()
        try:
            start = self._floor_position(files, MAX_RELATIVE_OFFSET + self.base_offset, self.size)
            newest = NO_TIMESTAMP
            with suppress(RecordError):  # damage in a closed segment: what lies before it has to do
                for header in file_records.read_headers(files.file, start, self.size):
                    newest = header.max_timestamp if header.is_append_time else NO_TIMESTAMP
            return newest
        finally:
            files.release()

    def largest_timestamp_so_far(self) -> TimestampOffset:
        """Largest timestamp of the records (-1: none has one), and the last offset of its batch."""
        largest = self._largest or self._largest_found
        if largest is None:
            files = self.acquire()
            try:
                largest = self._largest_found = self._read_largest(files)
            finally:
                files.release()
        return largest

    @property
    def known_largest_timestamp(self) -> int:
        """Largest timestamp, if in memory; -1 if it would have to be read from the file. Never blocks."""
        largest = self._largest or self._largest_found
        return NO_TIMESTAMP if largest is None else largest.timestamp

    @property
    def known_first_timestamp(self) -> int:
        """`first_timestamp`, if in memory; -1 if it would have to be read from the file. Never blocks."""
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    def largest_timestamp(self) -> int:
        """Largest timestamp of the records, ms; the file's modification time if no record has one."""
        timestamp = self.largest_timestamp_so_far().timestamp
        return timestamp if timestamp >= 0 else self.modified_ms()

    def first_timestamp(self) -> int:
        """Largest timestamp of the first batch, ms; -1 if it has none."""
        first = self._first_timestamp
        if first is None:
            files = self.acquire()
            try:
                first = self._first_timestamp = self._read_first_timestamp(files)
            finally:
                files.release()
        return first

    def modified_ms(self) -> int:
        """Modification time of the log file, ms."""
        return self._directory.file_system.stat(self._directory.file(self.base_offset, LOG_SUFFIX)).modified_ms

    def find_timestamp(self, timestamp: int, start_offset: int, limit_offset: int) -> TimestampOffset | None:
        """The first record with a timestamp >= `timestamp` and an offset in [start_offset, limit_offset)."""
        files = self.acquire()
        try:
            # Every record up to the entry's offset is older than the entry, unless one came out of order before it: those
            # are older than the entry's timestamp too, since it is the largest so far. So nothing is missed.
            entry = self._time_entry(files, timestamp - 1) if timestamp > 0 else TimestampOffset(-1, self.base_offset)
            offset = max(entry.offset, start_offset)
            position = self._floor_position(files, offset, self.size)
            return file_records.find_timestamp(files.file, position, self.size, timestamp, start_offset, limit_offset)
        finally:
            files.release()

    def find_largest_timestamp(self, start_offset: int, limit_offset: int) -> TimestampOffset | None:
        """The first record that has the largest timestamp of those with an offset in [start_offset, limit_offset)."""
        files = self.acquire()
        try:
            size, position, largest = self.size, 0, self.largest_timestamp_so_far()
            if start_offset <= self.base_offset and largest.offset < limit_offset:
                position = self._floor_position(files, largest.offset, size)
                for header in file_records.read_headers(files.file, position, size):
                    if header.max_timestamp == largest.timestamp:
                        size = header.position + header.size
                        position = header.position
                        break
            return file_records.find_largest_timestamp(files.file, position, size, start_offset, limit_offset)
        finally:
            files.release()

    # --- durability and end ---

    def flush(self) -> None:
        """Make all that was written so far durable. Pool threads; blocks. OSError: it is not durable.

        The active segment's indexes are not synced: after a crash the segment that holds the recovery point is scanned anyway
        and gets new ones. A closed segment's are, once, since the recovery point will pass it and then they are trusted.
        """
        size, is_active = self.size, self._is_active
        if self.synced_size < size:
            file = self.lease_file()
            try:
                file.sync()
            finally:
                file.release()
            self.synced_size = size
        if not is_active and not self.indexes_synced:
            self._directory.give_back_spare(self.base_offset)
            self.sync_indexes()

    def sync_indexes(self) -> None:
        """Make trimmed indexes durable. A missing one is rebuilt when the log is loaded. Blocks; OSError.

        Where a full disk has no room for the time index's last entry, `indexes_synced` stays False: to be called again.
        """
        directory, is_whole = self._directory, True
        offset_index, time_index = directory.indexes(self.base_offset, writable=False)
        with suppress(FileNotFoundError):
            offset_index.flush()
        with suppress(FileNotFoundError):
            try:
                if self._largest is not None and time_index.complete(self._largest):
                    directory.cache.discard(self._serial)  # it has the file that was replaced
            except OSError as error:
                if not has_no_room(error):
                    raise
                is_whole = False
            time_index.flush()
        path = directory.file(self.base_offset, TRANSACTION_INDEX_SUFFIX)
        TransactionIndex(directory.file_system, path, self.base_offset).flush()
        self.indexes_synced = is_whole

    def drop_time_index(self) -> None:
        """Remove a time index that lacks its last entry, at a stop: the next load makes it anew. Blocks; OSError."""
        self._directory.cache.discard(self._serial)
        path = self._directory.file(self.base_offset, TIME_INDEX_SUFFIX)
        self._directory.file_system.unlink(path, missing_ok=True)
        self.indexes_synced = True

    def close(self) -> bool:
        """Trim log and indexes, as after a clean stop, and close the files. False when they were not open. Writer."""
        files = self._files
        if files is not None:
            self._seal(files)
            self._directory.give_back_spare(self.base_offset)
        self.abandon()
        return files is not None

    def abandon(self, *, for_good: bool = False) -> None:
        """Close the files without touching them: the log is deleted, or its disk failed. `for_good`: whoever opens them late, to
        read on, closes them too."""
        self._is_gone = self._is_gone or for_good
        self._close_files()
        self._directory.cache.discard(self._serial)

    def mark_deleted(self) -> list[str]:
        """Rename its files to `.deleted` and return their paths, to be unlinked after the delay. Leases stay valid."""
        directory = self._directory
        self.abandon(for_good=True)
        marked = []
        for suffix in SEGMENT_SUFFIXES:
            path = directory.file(self.base_offset, suffix)
            try:
                directory.file_system.rename(path, path + DELETED_STAGE)
            except FileNotFoundError:
                continue  # no .txnindex, or an index that was never made
            marked.append(path + DELETED_STAGE)
        return marked

    # --- files ---

    def pin(self) -> None:
        """Keep the files of this closed segment open as long as anybody holds it: other files are about to get their
        names.

        OSError; StorageError when an index is missing.
        """
        files = self.acquire()
        pin = _Pin(files, self.size, self._directory.pinned)  # has the lease from here on
        files.offset_index.open()
        files.time_index.open()
        self._pin, self._files = pin, files
        self._directory.cache.discard(self._serial)

    def unpin(self) -> None:
        """Undo `pin`: the files keep their names after all."""
        if self._pin is not None:
            self._files = self._pin = None

    def _open_for_read(self) -> SegmentFiles:
        file = self._directory.open_log(self.base_offset, writable=False)
        return SegmentFiles(file, *self._directory.indexes(self.base_offset, writable=False))

    def _close_files(self) -> None:
        files, self._files = self._files, None
        if self._pin is not None:
            self._pin = None
        elif files is not None:
            files.release()

    def _read_largest(self, files: SegmentFiles) -> TimestampOffset:
        # A clean stop and a roll leave the largest timestamp as the last entry; recovery does too. Retention goes by it.
        if not files.time_index.entries:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        entry = files.time_index.last_entry
        try:
            if self._agrees(files, entry):
                return entry
        except RecordError:
            return entry  # the log is damaged there, and contradicts nothing
        return file_records.largest_timestamp_of_all(files.file, self.size) or entry  # nor does a part of it

    def _time_entry(self, files: SegmentFiles, timestamp: int) -> TimestampOffset:
        """Greatest entry of the time index up to `timestamp` that the log agrees with."""
        entry = files.time_index.lookup(timestamp)
        is_right = entry.offset == self.base_offset or self._agrees(files, entry)
        return entry if is_right else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _agrees(self, files: SegmentFiles, entry: TimestampOffset) -> bool:
        position = self._floor_position(files, entry.offset, self.size)
        if not (is_right := file_records.agrees(files.file, position, self.size, entry)):
            self._directory.doubt(self, f"time {entry.timestamp} at offset {entry.offset}")
        return is_right

    def _read_first_timestamp(self, files: SegmentFiles) -> int:
        with suppress(RecordError):  # of a damaged one nothing is known
            for header in file_records.read_headers(files.file, 0, self.size):
                return header.max_timestamp
        return NO_TIMESTAMP
