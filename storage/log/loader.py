"""LogLoader: from the files of a partition to a log that can be appended to. It says what is checked; `recovery.py` checks.

    pass 1   temporary files: what a crash left half done is removed
    pass 2   complete `.swap` files take the place of the segments that they replace
    pass 3   segments are listed; one that spans too many offsets is split; indexes that are missing or cannot be right are
             rebuilt
    pass 4   unclean stop: from the segment of the recovery point on, each batch's size, order and CRC is checked. What is bad
             at or above the recovery point ends the log, and later segments go; what is bad below it was durable once: it
             becomes a hole (`hole.py`), and nothing sound goes for it
    pass 5   ends, leader epochs and producer state are brought in line with the log

After a clean stop passes 3 and 4 read no segment but the end of the active one: from its last index entry on. Where that is not
what the stop has left, the log is recovered as after an unclean one.

Nothing here needs an earlier load to have finished: after a crash at any point the next load comes to the same result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.exceptions import CorruptRecordError
from ..exceptions import CorruptIndexError
from ..index.offset_index import OffsetIndex
from ..index.time_index import TimeIndex
from ..ledger.ledger import LEDGER_FILE
from ..producers.replay import ProducerReplay
from ..segment import file_records
from ..segment import scan as segment_scan
from ..segment import split as segment_split
from ..segment.damage import leader_epochs
from ..segment.hole import HOLE
from ..segment.log_segment import LogSegment
from ..segment.names import (
    CLEANED_STAGE,
    DELETED_STAGE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_STAGE,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Hole,
    LogFileName,
    file_name,
    parse_file_name,
    parse_hole,
)
from ..segment.segment_list import SegmentList
from ..values import MAX_RELATIVE_OFFSET, RecoveryStats
from .leader_epoch import EpochEntry
from .recovery import NO_PROGRESS, LogRecovery, Progress, Promise
from .transaction_index_check import check_transaction_indexes, index_aborted

if TYPE_CHECKING:
    from ...protocol.records._kernel import BatchInfo
    from ..clock import Time
    from ..io.filesystem import Buffer
    from ..producers.state import ProducerStateManager
    from ..segment.files import LogDirectory
    from .leader_epoch import LeaderEpochCache
    from .stop_record import LogFiles

logger = logging.getLogger(__name__)


class LoadedLog(NamedTuple):
    """Result of a load: the parts from which `UnifiedLog` is made. Its segments are open for appends."""

    segments: SegmentList
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    files_changed: bool
    """Names were made or moved that are not durable yet."""
    has_ledger: bool
    """There is a file of `ledger.py`'s."""
    stats: RecoveryStats
    holes: tuple[Hole, ...]
    """Stretches that the log has lost to damage, now and before, until their `.damaged` files are deleted."""


class LogLoader:
    """Loads one log, in one thread, once. Blocks. OSError and StorageError pass through: the directory cannot be used then."""

    def __init__(  # noqa: PLR0913
        self,
        directory: LogDirectory,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        gaps_below: int,
        time: Time,
        jitter: Callable[[int], int],
        progress: Progress = NO_PROGRESS,
        is_recovery_point_known: bool = True,
        cleaned: int = 0,
        damage_policy: str = HOLE,
        left_files: LogFiles | None = None,
    ) -> None:
        """`recovery_point` and `log_start_offset` as checkpointed, 0 where they are not; `clean`: the last stop was.

        Compaction leaves gaps between segments, below `cleaned`; a gap at or above `gaps_below` is of records that are gone.
        `is_recovery_point_known`: its checkpoint could be read. `damage_policy`: log.damage.policy.
        `left_files`: what the last stop left, if nobody can have changed that since.
        """
        self._directory = directory
        self._fs = directory.file_system
        self._producers = producers
        self._epochs = epochs
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._time = time
        self._jitter = jitter
        self._progress = progress
        self._promise = Promise(recovery_point if is_recovery_point_known else None, gaps_below, cleaned, damage_policy)
        self._recovery: LogRecovery
        self._stats = RecoveryStats()
        self._markers_unindexed: list[LogSegment] = []
        self._files_changed = not clean
        self._left_files = left_files

    def load(self) -> LoadedLog:
        names = self._fs.list_directory(self._directory.path)
        has_ledger = LEDGER_FILE in names
        files = [parsed for name in names if (parsed := parse_file_name(name)) is not None]
        if any(file.stage for file in files):
            self._files_changed = True
            swaps = self._remove_temporary_files(files)
            self._finish_swaps(files, swaps)
            names = self._fs.list_directory(self._directory.path)
            files = [parsed for name in names if (parsed := parse_file_name(name)) is not None]
        recovery = self._recovery = LogRecovery(
            self._directory,
            self._promise,
            [hole for name in names if (hole := parse_hole(name)) is not None],
            self._log_start_offset,
            self._progress,
        )
        segments = self._load_segments(files)
        recovery.look_for_lost_files(segments, files)
        self._finish_deletion(segments)
        self._producers.found_snapshots(
            file.base_offset for file in files if file.suffix == SNAPSHOT_SUFFIX and not file.stage
        )
        replay = ProducerReplay(self._directory, self._producers, self._time)
        end_offset = self._read_end(segments) if self._clean and segments else None
        if end_offset is not None:
            segments[-1].abandon()  # an idle log holds no files open
        elif segments:
            self._clean, self._files_changed = False, True
            end_offset = recovery.recover(segments, self._first_to_recover(segments), replay, self._epochs, self._split)
        end_offset = recovery.lift_end(segments, end_offset, self._time.milliseconds())
        if end_offset is None or end_offset < self._log_start_offset:
            end_offset = self._start_anew(segments)
        self._index_markers(segments)
        has_index = {file.base_offset for file in files if file.suffix == TRANSACTION_INDEX_SUFFIX and not file.stage}
        left = {} if self._left_files is None else self._left_files.transaction_indexes
        checked = {segment.base_offset for segment in segments if segment.indexes_synced} & (has_index | left.keys())
        if checked:  # others were just made
            snapshots = self._producers.snapshot_offsets
            check_transaction_indexes(self._directory, segments, checked, end_offset, snapshots, self._time, left)
        return self._settle(segments, end_offset, replay, has_ledger, recovery.holes)

    # --- pass 1 ---

    def _remove_temporary_files(self, files: list[LogFileName]) -> list[LogFileName]:
        """`.deleted` goes. `.cleaned` says that its group was not complete: it goes, and before it every `.swap` at or above
        it, which may be of the same group (KAFKA-6264). Leftovers of `.swap` is complete and returned.
        """
        cleaned = [file for file in files if file.stage == CLEANED_STAGE]
        first_cleaned = min((file.base_offset for file in cleaned), default=None)
        swaps: list[LogFileName] = []
        for file in files:
            if file.stage == DELETED_STAGE:
                self._unlink(file)
            elif file.stage == SWAP_STAGE:
                if first_cleaned is not None and file.base_offset >= first_cleaned:
                    self._unlink(file)
                else:
                    swaps.append(file)
        if len(swaps) < sum(file.stage == SWAP_STAGE for file in files):
            # A `.swap` that comes back after its `.cleaned` has gone would be taken for complete.
            self._fs.sync_directory(self._directory.path)
        for file in cleaned:
            self._unlink(file)
        return swaps

    # --- pass 2 ---

    def _finish_swaps(self, files: list[LogFileName], swaps: list[LogFileName]) -> None:
        """Finish swaps: delete the segments that a left `.log.swap` covers; then rename its files without `.swap`, logs first.

        Logs first, because an index that has lost it while its log has not would be taken for the original's. Snapshots stay:
        they belong to offsets, not to the files that were replaced.
        """
        ranges = [(swap.base_offset, self._swap_end(swap.base_offset)) for swap in swaps if swap.suffix == LOG_SUFFIX]
        if ranges:
            first, end = min(low for low, _ in ranges), max(high for _, high in ranges)
            for file in files:
                if not file.stage and file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset < end:
                    self._unlink(file)
            # Originals that come back when no `.swap` is left would overlap with what has replaced them.
            self._fs.sync_directory(self._directory.path)
        for is_log in (True, False):
            for swap in swaps:
                if (swap.suffix == LOG_SUFFIX) is is_log:
                    path = self._path(swap)
                    self._fs.rename(path, path.removesuffix(SWAP_STAGE))
            if ranges and is_log:
                self._fs.sync_directory(self._directory.path)

    def _swap_end(self, base_offset: int) -> int:
        """The offset after the last one in a `.log.swap`: from its index's last entry on, if it has its index still."""
        index_path = self._directory.file(base_offset, OFFSET_INDEX_SUFFIX, SWAP_STAGE)
        position = 0
        if self._fs.exists(index_path):
            index = OffsetIndex(self._fs, index_path, base_offset, writable=False)
            try:
                position = index.lookup(base_offset + MAX_RELATIVE_OFFSET).position
            finally:
                index.close_map()
        file = self._fs.open(self._directory.file(base_offset, LOG_SUFFIX, SWAP_STAGE), writable=False)
        try:
            size = file.size()
            last = file_records.last_offset(file, position if position < size else 0, size)
            return base_offset if last is None else last + 1
        finally:
            file.close()

    # --- pass 3 ---

    def _load_segments(self, files: list[LogFileName]) -> list[LogSegment]:
        present = {(file.base_offset, file.suffix) for file in files if not file.stage}
        bases = sorted(base for base, suffix in present if suffix == LOG_SUFFIX)
        for base, suffix in sorted(present):
            if suffix in SEGMENT_SUFFIXES and (base, LOG_SUFFIX) not in present:
                self._unlink(LogFileName(base, suffix, ""))
        now = self._time.milliseconds()
        jitter_ms = self._directory.config.segment_jitter_ms
        segments = []
        for base in bases:
            stat = self._fs.stat(self._directory.file(base, LOG_SUFFIX))
            self._directory.give_back_spare(base, stat)  # the active one reserves again with its first append
            segment = LogSegment(
                self._directory,
                base,
                created_ms=now,
                size=stat.size,
                jitter_ms=self._jitter(jitter_ms) if jitter_ms else 0,
            )
            segments.append(segment)
        # What is to be recovered pass 4 sees when it comes to it.
        closed = segments if self._clean else segments[: self._first_to_recover(segments) + 1]
        for segment, following in pairwise(tuple(closed)):
            if following.base_offset - 1 - segment.base_offset > MAX_RELATIVE_OFFSET and segment_split.is_too_wide(
                segment
            ):
                self._split(segments, segment)
                present.difference_update({(segment.base_offset, suffix) for suffix in SEGMENT_SUFFIXES[1:]})
        # Segments that pass 4 reads anyway get their indexes there.
        recovered = len(segments) if self._clean else self._first_to_recover(segments)
        for index, segment in enumerate(segments[:recovered]):
            if (
                not self._clean
                and index == recovered - 1
                and not self._was_synced_when_closed(segments[recovered], present)
            ):
                self._rebuild_indexes(segment)
            elif self._indexes_are_sane(segment, present, is_last=index == len(segments) - 1):
                segment.was_synced()
            else:
                self._rebuild_indexes(segment)
        return segments

    def _split(self, segments: list[LogSegment], segment: LogSegment, start: int | None = None) -> list[LogSegment]:
        """Split `segment` into several without indexes. It stays as the first of them; returns the others."""
        first, *rest = segment_split.split(self._directory, segment, start=start)
        segment.size = first.end
        now = self._time.milliseconds()
        made = [LogSegment(self._directory, p.base_offset, created_ms=now, size=p.end - p.start) for p in rest]
        at = segments.index(segment) + 1
        segments[at:at] = made
        self._files_changed = True
        return made

    def _was_synced_when_closed(self, following: LogSegment, present: set[tuple[int, str]]) -> bool:
        """True if the segment before the one where recovery begins has durable indexes.

        The recovery point may have come to its end while it was still active, when its indexes are not synced. A recovery
        point behind it, or the snapshot that is written after the sync of a closed segment, says that they are.
        """
        base = following.base_offset
        return self._recovery_point > base or (base, SNAPSHOT_SUFFIX) in present

    def _finish_deletion(self, segments: list[LogSegment]) -> None:
        """Delete segments below the log's start that a power cut has brought back in part, or a disk that failed has kept: all
        before a hole go again."""
        live = 0
        while live + 1 < len(segments) and segments[live + 1].base_offset <= self._log_start_offset:
            live += 1
        for index in range(live, 0, -1):
            try:
                end_offset = segments[index - 1].read_next_offset()
            except CorruptRecordError as error:
                logger.warning("%s: its end below the log's start can't be read: %s", self._directory.path, error)
                continue  # nobody reads it any more
            if end_offset < segments[index].base_offset:
                self._recovery.remove(segments, segments[:index])
                return

    def _indexes_are_sane(self, segment: LogSegment, present: set[tuple[int, str]], *, is_last: bool) -> bool:
        """Check both indexes by size, which costs two stats. Entries are checked at first use: the last segment's now."""
        base = segment.base_offset
        has_indexes = (base, OFFSET_INDEX_SUFFIX) in present and (base, TIME_INDEX_SUFFIX) in present
        if segment.size == 0:
            # It has nothing to index. The active one gets its indexes with the first append; a closed one, which a pass has left,
            # needs them too: the code that replaces its files opens them first.
            return has_indexes or is_last
        if not has_indexes:
            return False
        if self._clean and not is_last:
            offset_size = self._fs.stat(self._directory.file(base, OFFSET_INDEX_SUFFIX)).size
            time_size = self._fs.stat(self._directory.file(base, TIME_INDEX_SUFFIX)).size
            return offset_size % OffsetIndex.ENTRY_SIZE == 0 and time_size % TimeIndex.ENTRY_SIZE == 0
        # Through the cache, so that reading where the log ends opens nothing twice: each of thousands of logs comes here.
        files = segment.acquire()
        try:
            files.offset_index.sanity_check(segment.size)
            files.time_index.sanity_check()
        except CorruptIndexError as error:
            logger.debug("%s", error)
            is_sane = False
        else:
            is_sane = True
        finally:
            files.release()
        if not is_sane or not is_last:
            segment.abandon()
        return is_sane

    def _rebuild_indexes(self, segment: LogSegment) -> None:
        has_markers = False

        def see(batch: BatchInfo, _data: Buffer) -> None:
            nonlocal has_markers
            has_markers = has_markers or batch.is_control

        scanner = segment_scan.scan_segment(self._directory, segment, check_crc=False, on_batch=see)
        segment_scan.write_indexes(self._directory, segment, scanner, durable=True)
        segment.was_synced()
        if has_markers:
            # Which were of aborted transactions is known with the producers, when all segments are.
            self._markers_unindexed.append(segment)
        self._stats = self._stats._replace(
            indexes_rebuilt=self._stats.indexes_rebuilt + 1,
            bytes_scanned=self._stats.bytes_scanned + scanner.valid_bytes,
        )

    def _index_markers(self, segments: list[LogSegment]) -> None:
        """Write the transaction indexes that go with the indexes that were rebuilt: what the others have lost, a power cut or a
        person, they may have lost too, and no entry in them would say so."""
        left = {segment.base_offset for segment in segments if segment in self._markers_unindexed}
        if left:  # others have gone in recovery
            snapshots = self._producers.snapshot_offsets
            index_aborted(self._directory, segments, left, snapshots, self._log_start_offset, self._time)

    def _read_end(self, segments: list[LogSegment]) -> int | None:
        """The offset where the log of a clean stop ends; the last segment is split where it spans too many.

        None: what is there is not what the stop has left.
        """
        last = segments[-1]
        expected = self._promise.recovery_point
        try:
            end_offset = last.read_next_offset()
            if expected is not None and end_offset != expected:
                logger.warning(
                    "%s: ends at offset %d, and ended at %d when it was closed: it is recovered",
                    self._directory.path,
                    end_offset,
                    expected,
                )
                return None
            is_too_wide = end_offset - 1 - last.base_offset > MAX_RELATIVE_OFFSET
        except CorruptRecordError as error:
            try:
                is_too_wide = segment_split.is_too_wide(last)
            except CorruptRecordError:
                is_too_wide = False
            if not is_too_wide:
                logger.warning("%s: its end can't be read (%s): it is recovered", self._directory.path, error)
                return None
        if is_too_wide:
            for part in (last, *self._split(segments, last)):
                self._rebuild_indexes(part)
            end_offset = segments[-1].read_next_offset()
        return end_offset

    # --- pass 4 ---

    def _first_to_recover(self, segments: list[LogSegment]) -> int:
        """Index of the segment that holds the recovery point: what was written since its last sync lies behind that."""
        index = 0
        while index + 1 < len(segments) and segments[index + 1].base_offset <= self._recovery_point:
            index += 1
        return index

    # --- pass 5 ---

    def _start_anew(self, segments: list[LogSegment]) -> int:
        """Begin empty at the log start offset: no segment is left, or the log ends before its start, so all in it was deleted."""
        if segments:
            logger.warning(
                "%s: the log ends before its start at %d; it begins there anew, empty",
                self._directory.path,
                self._log_start_offset,
            )
            self._recovery.remove(segments, list(segments))
            # The last one stays: clients that have seen it would take a lower one for old news, and never see this log again.
            self._epochs.truncate_from_start(self._log_start_offset)
        self._files_changed = True
        now = self._time.milliseconds()
        segments.append(LogSegment.create(self._directory, self._log_start_offset, created_ms=now))
        return self._log_start_offset

    def _settle(
        self,
        segments: list[LogSegment],
        end_offset: int,
        replay: ProducerReplay,
        has_ledger: bool,
        holes: tuple[Hole, ...],
    ) -> LoadedLog:
        start_offset = max(self._log_start_offset, segments[0].base_offset)
        self._find_cut_epochs(segments, start_offset)
        # Deletion up to the end leaves the last epoch to start right there: it must not be forgotten.
        self._epochs.truncate_from_end(end_offset + (start_offset == end_offset))
        self._epochs.truncate_from_start(start_offset)
        if self._epochs.is_dirty:
            try:
                self._epochs.flush()
            except OSError as error:  # a full disk is no reason not to start; the next flush of the log writes it
                logger.warning("%s could not be written: %s", self._epochs.path, error)
        self._producers.remove_stray_snapshots({segment.base_offset for segment in segments})
        replay.finish(segments, start_offset, end_offset, clean=self._clean)
        segments[-1].activate()
        return LoadedLog(
            SegmentList(segments),
            start_offset,
            end_offset,
            end_offset if self._clean else min(self._recovery_point, end_offset),
            self._files_changed,
            has_ledger,
            self._stats.plus(self._recovery.stats),
            holes,
        )

    def _find_cut_epochs(self, segments: list[LogSegment], start_offset: int) -> None:
        """Reads the epochs of records before the first one that is known: of a deletion that a power cut took back.

        The epochs that it had cut are on disk, and the names of its segments are as before. Reads nothing where, as almost
        always, the first epoch begins where the log does; a log without any epoch has records of old formats alone.
        """
        entries = self._epochs.entries
        if not entries or entries[0].start_offset <= start_offset:
            return
        found: list[EpochEntry] = []
        for segment in segments:
            if segment.base_offset >= entries[0].start_offset:
                break
            file = self._directory.open_log(segment.base_offset, writable=False)
            try:
                found += [EpochEntry(epoch, base) for epoch, base in leader_epochs(file, segment.size)]
            finally:
                file.close()
        self._epochs.precede(found)

    def _path(self, file: LogFileName) -> str:
        return f"{self._directory.path}/{file_name(file.base_offset, file.suffix, file.stage)}"

    def _unlink(self, file: LogFileName) -> None:
        self._fs.unlink(self._path(file), missing_ok=True)
