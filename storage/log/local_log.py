"""LocalLog: the files of one partition's log: segments, where they end, what of them is durable, how they go.

What an offset may be used for (watermarks, retention, producers' rules) is `UnifiedLog`'s, which builds on this.
"""

from __future__ import annotations

import errno
import logging
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ..exceptions import KafkaStorageError, StorageError
from ..index import trust as index_trust
from ..ledger.keeper import LedgerKeeper
from ..ledger.ledger import SegmentExtent
from ..segment import file_records
from ..segment.log_segment import LogSegment
from ..segment.names import DELETED_STAGE, SEGMENT_SUFFIXES
from ..segment.swap import SegmentSwap
from . import reader as log_reader
from .leader_epoch import LEADER_EPOCH_CHECKPOINT
from .roll_params import ASK_ALWAYS, RollLimits
from .values import HeldSegments, LogOffsetMetadata, SegmentView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from uuid import UUID

    from ...config.log_config import LogConfig
    from ..clock import Time
    from ..producers.state import PendingSnapshot, ProducerStateManager
    from ..scheduler import Scheduler
    from ..segment.files import LogDirectory, LogPlace
    from ..segment.names import Hole
    from ..segment.segment_list import SegmentList
    from ..segment.swap import CleanedSegment
    from .leader_epoch import LeaderEpochCache

logger = logging.getLogger(__name__)


def no_checkpoint() -> bool:
    """Of a log without a manager: nothing is on disk, so nothing may be done that relies on it."""
    return False


class LocalLog:
    """See `UnifiedLog` for threads and for what the offsets mean.

    Locks, in the order in which they are taken: `_deletion_lock` over the renames to `.deleted` (a deletion of thousands
    of segments must not hold up appends), `_flush_lock` over a flush (one at a time; truncation waits for it), `_lock`
    over whatever changes the log. No fsync happens under `_lock`, save when the log goes to another data directory.
    """

    __slots__ = (
        "_deletion_lock",
        "_directory",
        "_directory_is_dirty",
        "_end",
        "_epochs",
        "_flush_lock",
        "_jitter",
        "_limits",
        "_lock",
        "_parent_is_dirty",
        "_pending",
        "_producers",
        "_rolled",
        "_scheduler",
        "_segments",
        "_synced",
        "_time",
        "failure",
        "holes",
        "last_flush_ms",
        "ledger",
        "log_end_offset",
        "partition",
        "recovery_point",
        "save_recovery_point",
        "topic",
        "topic_id",
        "truncations",
        "unsynced_since_ms",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        directory: LogDirectory,
        segments: SegmentList,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        *,
        log_end_offset: int,
        recovery_point: int,
        scheduler: Scheduler,
        time: Time,
        jitter: Callable[[int], int],
    ) -> None:
        assert recovery_point <= log_end_offset
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self._directory = directory
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._scheduler = scheduler
        self._time = time
        self._jitter = jitter
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._deletion_lock = threading.Lock()
        self.recovery_point = recovery_point
        self.save_recovery_point: Callable[[], bool] = no_checkpoint
        self.log_end_offset = log_end_offset
        active = segments.active
        self._end = LogOffsetMetadata(log_end_offset, active.base_offset, active.size)
        self._synced = self._end
        self._limits: RollLimits = ASK_ALWAYS
        # Closed segments whose log or indexes are not durable yet.
        self._pending = [segment for segment in segments.view[:-1] if not segment.indexes_synced]
        # Base offsets and producer snapshots of rolls whose flush has not begun.
        self._rolled: list[tuple[int, PendingSnapshot | None]] = []
        self.failure: KafkaStorageError | None = None
        self.truncations = 0
        self.holes: tuple[Hole, ...] = ()
        self.last_flush_ms = self.unsynced_since_ms = time.milliseconds()
        self._directory_is_dirty = self._parent_is_dirty = False
        self.ledger = LedgerKeeper(directory, segments.view[0].base_offset)

    @property
    def name(self) -> str:
        """`topic-partition`."""
        return f"{self.topic}-{self.partition}"

    @property
    def directory(self) -> str:
        """Path of the partition's directory."""
        return self._directory.path

    @property
    def log_directory(self) -> LogDirectory:
        """Where the files are and what opens them: for the cleaner, which writes new ones beside them."""
        return self._directory

    @property
    def config(self) -> LogConfig:
        return self._directory.config

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The present snapshot, oldest first; the last one is active. Any thread."""
        return self._segments.view

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def size(self) -> int:
        """Bytes of all log files. Any thread."""
        return sum(segment.size for segment in self._segments.view)

    def segment_views(self) -> Iterator[SegmentView]:
        """Facts of each segment, oldest first. Any thread; opens the time index of one whose age is not known yet."""
        end_offset = self.log_end_offset
        view = self._segments.view
        for index, segment in enumerate(view):
            is_active = index == len(view) - 1
            yield SegmentView(
                segment.base_offset,
                end_offset if is_active else view[index + 1].base_offset,
                segment.size,
                segment.largest_timestamp(),
                is_active,
                segment.modified_ms(),
            )

    def unsynced_ms(self, now_ms: int) -> int:
        """For how long, at most, the oldest record has been there of which a power cut could take something; 0: there is none.

        Any thread.
        """
        return max(0, now_ms - self.unsynced_since_ms) if self.recovery_point < self.log_end_offset else 0

    def held_segments(self) -> list[int]:
        """Sizes of segments that cleaning has replaced, or is replacing, and whose files a reader still holds. Any thread."""
        return list(self._directory.pinned.values())

    def steady(self) -> AbstractContextManager[object]:
        """While it is held no file of this log is renamed, replaced or removed: for who reads facts of several segments.

        Any thread but the loop's; blocks while retention or a swap is at it. Nothing that does either may be called in it.
        """
        return self._deletion_lock

    def dated_after(self, now_ms: int) -> HeldSegments:
        """Segments whose newest record is dated in the future: their age can't be told yet. Any thread; reads no file.

        Those whose times were not looked at since the start are left out; the first retention run looks at the oldest.
        """
        view, size, offsets = self._segments.view, 0, 0
        for index, segment in enumerate(view):
            if segment.known_largest_timestamp > now_ms:
                size += segment.size
                following = index + 1
                end = view[following].base_offset if following < len(view) else self.log_end_offset
                offsets += end - segment.base_offset
        return HeldSegments(size, offsets)

    # --- roll ---

    def _roll(self, reason: str) -> LogSegment:
        """Close the active segment and begin the next. Under the lock. OSError: nothing has changed.

        Flushing the closed one with its indexes is for the pool. Then comes the snapshot: recovery takes its presence for a
        sign that the segment before it has durable indexes, since the recovery point may have stood at its end before.
        """
        base_offset = self.log_end_offset
        directory = self._directory
        try:
            new = LogSegment.create(
                directory,
                base_offset,
                created_ms=self._time.milliseconds(),
                jitter_ms=self._jitter(directory.config.segment_jitter_ms),
            )
        except OSError:
            # The present segment may get this offset yet: a file that claims it would lie within it.
            self._directory_is_dirty = True
            for suffix in SEGMENT_SUFFIXES:
                with suppress(OSError):
                    directory.file_system.unlink(directory.file(base_offset, suffix), missing_ok=True)
            raise
        closed = self._segments.active
        closed.deactivate()
        self._pending.append(closed)
        self._directory_is_dirty = True
        self._segments.append(new)
        self._limits = ASK_ALWAYS
        self._end = LogOffsetMetadata(base_offset, base_offset, 0)
        self._producers.update_map_end_offset(base_offset)
        snapshot = self._producers.prepare_snapshot()
        logger.debug("%s: rolled a new segment at offset %d (%s)", self.name, base_offset, reason)
        self._rolled.append((base_offset, snapshot))
        if len(self._rolled) == 1:
            self._scheduler.schedule("flush-log", self._flush_rolled, 0)
        return new

    def _flush_rolled(self) -> None:
        """Of all rolls since the last time, in one go: a disk that is slower than they are gets no queue of tasks."""
        with self._lock:
            rolled, self._rolled = self._rolled, []
        try:
            self._flush_up_to(max(base_offset for base_offset, _ in rolled))
        except KafkaStorageError:
            # Else a clean stop at one of these offsets would write none: after the next start no producer would be known.
            for _, snapshot in rolled:
                if snapshot is not None:
                    self._producers.withdraw_snapshot(snapshot)
            raise
        with self._flush_lock:  # not while the log is abandoned: its directory may be a successor's
            for _, snapshot in rolled:
                if snapshot is not None and self.failure is None:
                    self._producers.write_snapshot(snapshot)

    # --- durability: pool threads ---

    def flush(self) -> int:
        """Make all that is appended now durable; returns the offset up to which it is. Pool threads; blocks.

        Syncs log files; indexes only of closed segments (the active one's are rebuilt after a crash); the directory
        when segments were made since the last time. KafkaStorageError: a sync failed, and the log takes no more
        appends: the kernel may have dropped the pages, so that a later sync would succeed without the data.
        """
        return self._flush_up_to(None)

    def _flush_up_to(self, offset: int | None) -> int:
        """`offset` is the base of a segment: those before it are synced. None: all of them, as they are now."""
        with self._flush_lock:
            began_ms = self._time.milliseconds()
            with self._lock:
                end = self._end
                # A truncation may have come since the roll that asks for `offset`.
                target = end.offset if offset is None else min(offset, end.offset)
                pending, active = tuple(self._pending), self._segments.active
                # A segment of which all was synced while it was active still needs its indexes synced.
                is_done = not pending or pending[0].base_offset >= target
                if target <= self.recovery_point and is_done and not self._directory_is_dirty:
                    return self.recovery_point
                if self.failure is not None:
                    # A sync that failed has lost its pages: the next one would find nothing to write, and succeed.
                    raise self.failure
                directory_is_dirty, self._directory_is_dirty = self._directory_is_dirty, False
                parent_is_dirty, self._parent_is_dirty = self._parent_is_dirty, False
            try:
                for segment in (*pending, active):
                    if segment.base_offset < target:
                        self._flush_segment(segment)
                self._save_epochs()
                if directory_is_dirty:
                    self._directory.file_system.sync_directory(self._directory.path)
                if parent_is_dirty:
                    self._directory.file_system.sync_directory(self._directory.path.rpartition("/")[0] or "/")
            except OSError as error:
                self._directory_is_dirty |= directory_is_dirty
                self._parent_is_dirty |= parent_is_dirty
                self.failure = KafkaStorageError(f"{self.name}: sync failed: {error}")
                raise self.failure from error
            except KafkaStorageError:
                self._directory_is_dirty |= directory_is_dirty
                self._parent_is_dirty |= parent_is_dirty
                raise
            with self._lock:
                self._pending = [segment for segment in self._pending if not segment.indexes_synced]
                # Truncation waits for the flush lock, so the log still ends at or behind `target`.
                if target > self.recovery_point:
                    self.recovery_point = target
                    if offset is None:
                        self._synced = end
                    self.unsynced_since_ms = began_ms  # of what came meanwhile, if anything did
                self.last_flush_ms = self._time.milliseconds()
                return self.recovery_point

    def _save_epochs(self) -> None:
        """After the records that have them, which may never get to the disk, and before the recovery point moves: recovery finds
        epochs anew only in what it reads. A full disk breaks nothing."""
        try:
            self._epochs.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise KafkaStorageError(f"{self.name}: no room to write the leader epochs") from error

    def _flush_segment(self, segment: LogSegment) -> None:
        try:
            segment.flush()
        except FileNotFoundError:
            if any(segment is live for live in self._segments.view):
                raise
            segment.was_synced()  # retention took it meanwhile: nobody needs it durable any more

    def mark_changed(self, *, is_new: bool = False) -> None:
        """Loading has made or renamed files: the next flush makes the names durable, a new directory's own too."""
        self._directory_is_dirty = True
        self._parent_is_dirty = is_new

    # --- deletion ---

    def _delete_files(self, segments: Iterable[LogSegment], *, must: bool = False) -> None:
        """Rename now, unlink after the delay: who has just looked a segment up may still open it by name.

        Under `_deletion_lock`. The segments are out of the list already. `must`: other records get their offsets, so that none
        may stay; OSError then.
        """
        marked: list[str] = []
        for segment in segments:
            try:
                marked += segment.mark_deleted()
                marked += self._mark_snapshot_deleted(segment.base_offset)
            except OSError as error:
                if must:
                    raise
                logger.warning(
                    "%s: %r could not be renamed and stays until the next start: %s", self.name, segment, error
                )
        if marked:
            file_system = self._directory.file_system

            def delete() -> None:
                for path in marked:
                    file_system.unlink(path, missing_ok=True)

            self._scheduler.schedule("delete-file", delete, self._directory.config.file_delete_delay_ms)

    def _mark_snapshot_deleted(self, offset: int) -> list[str]:
        """Renamed like its segment: one that a later roll writes at the same offset must not go with it."""
        if not self._producers.forget_snapshot(offset):
            return []
        path = self._producers.snapshot_path(offset)
        try:
            self._directory.file_system.rename(path, path + DELETED_STAGE)
        except FileNotFoundError:  # it was not written yet, and now will not be
            return []
        return [path + DELETED_STAGE]

    # --- cleaning ---

    def replace_segments(
        self,
        new: Sequence[CleanedSegment],
        old: Sequence[LogSegment],
        removed: Mapping[str, int] | None = None,
        *,
        truncations: int = 0,
    ) -> bool:
        """Put cleaned segments in the place of the closed ones they were made from: one step for readers and crashes alike.

        The first of `new` has the base offset of the first of `old`; all of `old` lie below the high watermark, next to each
        other. The recovery point is moved and checkpointed before: cleaning leaves gaps, and above it recovery takes a gap for
        a loss. `removed`, by cause, is what the ledger books for it; it says so on disk before the swap. `truncations` is the
        log's count when the old ones were read: a truncation leaves the last one in the list, with other records in it.

        False: `old` is not in the log any more (or it takes no changes), the cleaned files are removed. The cleaner's thread;
        blocks. KafkaStorageError: nothing was replaced, or (`failure` is set then) the next start completes it.
        """
        swap = SegmentSwap(self._directory, new, old)
        with self._deletion_lock:
            view = self._segments.view
            first = next((index for index, segment in enumerate(view) if segment is old[0]), len(view))
            after = first + len(old)
            is_void = self.failure is not None or self.truncations != truncations
            if is_void or after >= len(view) or list(view[first:after]) != list(old):
                swap.discard()
                return False
            end = view[after].base_offset
            assert new[0].base_offset == old[0].base_offset
            assert new[-1].base_offset < end
            try:
                if self._flush_up_to(end) < end or not self.save_recovery_point():
                    raise KafkaStorageError(f"{self.name}: the recovery point could not be moved to {end}")
                with self._lock:
                    self._move_ends_out_of(end)
                if self.ledger.open(self._extents, self._count):
                    ends = [segment.base_offset for segment in view[first + 1 : after + 1]]
                    extents = [SegmentExtent(s.base_offset, e, s.size) for s, e in zip(old, ends, strict=True)]
                    self.ledger.begin_swap(extents, [(s.base_offset, s.live, s.size) for s in new], removed or {})
                swap.prepare()
            except (OSError, StorageError) as error:
                swap.discard()
                self.ledger.withdraw_swap()
                raise KafkaStorageError(f"{self.name}: cleaned segments could not be put in place: {error}") from error
            try:
                swap.commit()
            except OSError as error:
                self.failure = KafkaStorageError(f"{self.name}: cleaned segments are in place by half: {error}")
                raise self.failure from error
            bases = {segment.base_offset for segment in new}
            for segment in old:
                if segment.base_offset not in bases:
                    self._producers.forget_snapshot(segment.base_offset)
            with self._lock:
                self._segments.replace(old, swap.segments(created_ms=self._time.milliseconds()))
            self.ledger.confirm_swap()
            self._scheduler.schedule("delete-file", swap.deletion(), 0)
            return True

    def _move_ends_out_of(self, end: int) -> None:
        """No end may be told as a position in a segment below `end` any more: it is the start of the one behind. Locked."""
        if self._synced.segment_base_offset < end <= self._synced.offset:
            self._synced = log_reader.locate(self._segments.view, self._synced.offset)

    # --- ledger ---

    def open_ledger(self, *, count: bool = False) -> bool:
        """Whether the ledger is known, after a look at its file; `count`: by reading batch headers, if it takes that.

        Any thread but the loop's; blocks, behind a swap or a deletion too.
        """
        if self.ledger.value is not None:
            return True
        if self.ledger.needs_count and not count:
            return False
        with self._deletion_lock:
            return self.ledger.open(self._extents, self._count if count else None)

    def mend_indexes(self) -> None:
        """Make the indexes anew that look-ups have found wrong: those of closed segments. Blocks."""
        doubted = self._directory.doubted
        for base_offset, segment in list(doubted.items()):
            with self._deletion_lock:
                view = self._segments.view
                if segment is view[-1]:
                    continue
                try:
                    if any(segment is one for one in view) and not index_trust.rebuild(self._directory, segment):
                        continue
                except OSError as error:
                    logger.warning("%s: indexes of segment %d: %s", self._directory.path, base_offset, error)
                    continue
                if doubted.get(base_offset) is segment:
                    del doubted[base_offset]

    def forget_holes(self) -> None:
        """Delete the files of holes that retention has passed; those that somebody has deleted are no more told. Blocks."""
        if not self.holes:
            return
        with self._deletion_lock:
            directory, first = self._directory, self._segments.view[0].base_offset
            left = []
            for hole in self.holes:
                path = f"{directory.path}/{hole.name}"
                try:
                    if hole.last_offset < first:
                        directory.file_system.unlink(path, missing_ok=True)
                    elif directory.file_system.exists(path):
                        left.append(hole)
                except OSError as error:
                    logger.warning("%s could not be deleted: %s", path, error)
                    left.append(hole)
            self.holes = tuple(left)

    def was_counted(self, segment: LogSegment, live: int) -> None:
        """A pass has read the closed `segment`, which stays as it is: it has so many records. The cleaner's thread."""
        with self._deletion_lock:
            for extent, one in zip(self._extents(), self._segments.view, strict=False):
                if one is segment:
                    self.ledger.was_counted(extent, live)

    def save_ledger(self, checkpoint: int) -> None:
        """Write it, at the end of a pass after which the cleaner's checkpoint is to stand there. Blocks; OSError."""
        with self._deletion_lock:
            if self.failure is None and self.ledger.open(self._extents, self._count):
                self.ledger.save(checkpoint)

    def _extents(self) -> list[SegmentExtent]:
        end_offset, view = self.log_end_offset, self._segments.view
        ends = [*(segment.base_offset for segment in view[1:]), max(end_offset, view[-1].base_offset)]
        return [SegmentExtent(s.base_offset, end, s.size) for s, end in zip(view, ends, strict=True)]

    def _count(self, extent: SegmentExtent) -> int:
        file = self._directory.open_log(extent.base_offset, writable=False)
        try:
            return file_records.count_records(file, 0, extent.size)
        finally:
            file.close()

    # --- end ---

    def close(self) -> None:
        """A clean stop: flush, snapshot, trim. Nobody appends or flushes any more. Blocks; KafkaStorageError, also where the
        log had failed before: the next start has to look at it."""
        with self._deletion_lock:
            if self.failure is not None:
                raise self.failure
            changed = self._directory_is_dirty or self.recovery_point < self.log_end_offset
            self.flush()
            try:
                self._producers.update_map_end_offset(self.log_end_offset)
                self._producers.take_snapshot()
                self._epochs.flush()
                self.ledger.close()
                active = self._segments.active
                if active.close() or changed:
                    active.sync_indexes()
                    self._directory.file_system.sync_directory(self._directory.path)
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: closing failed: {error}") from error

    def abandon(self) -> None:
        """Give all files back as they are: the log is deleted, or the daemon ends. Reads under way go on."""
        self._epochs.abandon()
        with self._flush_lock, self._lock:
            self.failure = self.failure or KafkaStorageError(f"{self.name} is closed")
            self._directory_is_dirty = self._parent_is_dirty = False
            self.recovery_point = self.log_end_offset
            for segment in self._segments.view:
                segment.abandon()

    def renamed(self, path: str) -> None:
        """Its directory was renamed (after `abandon`): what is opened from now on is opened there."""
        self._directory.path = path

    # --- move to another data directory: see `manager/move.py` ---

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Within, nothing is appended, rolled, synced, deleted or cleaned. Pool threads. KafkaStorageError: it has failed."""
        with self._deletion_lock, self._flush_lock, self._lock:
            if self.failure is not None:
                raise self.failure
            yield

    def seal(self) -> None:
        """All that it has in memory alone goes into its files, as a clean stop leaves them. While it stands still; OSError."""
        self._epochs.flush()
        self._segments.active.close()

    def moved_to(self, place: LogPlace) -> None:
        """Its files are there now, durably, the same as here. While it stands still.

        Readers keep their leases on the files here; who opens one from now on gets the one there.
        """
        self._directory.path, self._directory.space, self._directory.pace = place.path, place.space, place.pace
        self._producers.directory = place.path
        self._epochs.moved_to(f"{place.path}/{LEADER_EPOCH_CHECKPOINT}")
        self._scheduler = place.scheduler
        self.save_recovery_point = place.save_recovery_point
        for segment in self._segments.view:
            segment.abandon()
            segment.was_synced()
        self._pending = []
        self._directory_is_dirty = self._parent_is_dirty = False
