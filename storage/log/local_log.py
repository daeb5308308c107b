"""LocalLog: the files of one partition's log: segments, where they end, what of them is durable, how they go.

The use of offsets (watermarks, append rules, producers, leader epochs) is the business of `UnifiedLog`, which holds one of these
and gives it `hooks`. Without hooks a `LocalLog` stands alone, and can be tested so.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import KafkaStorageError, LogClosedError, StorageError, raised_again
from ..io.filesystem import unlink_all
from ..io.sync_group import sync_group
from ..ledger.keeper import LedgerKeeper
from ..ledger.ledger import SegmentExtent
from ..segment import file_records
from ..segment.log_segment import LogSegment
from ..segment.names import LOG_SUFFIX, SEGMENT_SUFFIXES, TRANSACTION_INDEX_SUFFIX
from ..segment.scan import rebuild_indexes
from ..segment.swap import SegmentSwap
from ..values import HeldSegments, LogOffsetMetadata, SegmentView
from .roll_params import ASK_ALWAYS, RollLimits, RollParams, RollReason, is_due_without_write, roll_limits, roll_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ...config.log_config import LogConfig
    from ..clock import Time
    from ..io.filesystem import Buffer
    from ..scheduler import Scheduler
    from ..segment.files import LogDirectory, LogPlace
    from ..segment.names import Hole
    from ..segment.segment_list import SegmentList
    from ..segment.swap import CleanedSegment

logger = logging.getLogger(__name__)

TELL_MS = 5000
"""Time between two lines that say how far a long flush has come."""

_new = tuple.__new__
"""Constructor of a NamedTuple, at half the price of calling the class: every batch of every client makes some."""


def no_checkpoint() -> bool:
    """Default for a log without a LogManager: reports that no checkpoint was written."""
    return False


def _nothing(*_arguments: object) -> None:
    pass


def _no_names(_base_offset: int) -> list[str]:
    return []


class LogHooks(NamedTuple):
    """Calls that a `LocalLog` makes to its owner, each at a fixed moment of an operation on its files. Default: no-ops.

    Each is called by the operation's thread, with the locks that the operation holds. None is called after `renamed`.
    """

    rolled: Callable[[int], None] = _nothing
    """A segment with this base offset is the active one now. Under `lock`."""
    flush: Callable[[], None] = _nothing
    """Segments are synced; after this the recovery point moves. Under `flush_lock`. OSError fails the log; KafkaStorageError
    only the flush."""
    close: Callable[[], None] = _nothing
    """All is flushed; after this the files are closed for a clean stop. Under `deletion_lock`. OSError."""
    mark_deleted: Callable[[int], list[str]] = _no_names
    """The files of the segment with this base offset are renamed to `.deleted`: rename what goes with it, and return the new
    paths. Under `deletion_lock`. OSError."""
    forget: Callable[[int], object] = _nothing
    """The segment with this base offset was replaced, and what goes with it was renamed already. Under `deletion_lock`."""
    leave: Callable[[int], None] = _nothing
    """Segments below this base offset are about to be replaced: no watermark may be told as a position in them any more. Under
    `deletion_lock` and `lock`."""


class LocalLog:
    """See `UnifiedLog` for threads and for what the offsets mean.

    Attributes:
        deletion_lock, flush_lock, lock: in the order in which they are taken: over the renames to `.deleted` (a deletion of
            thousands of segments must not hold up appends), over a flush (one at a time; truncation waits for it), and over
            whatever changes the log. No fsync happens under `lock`, save when the log goes to another data directory.
        segments: The published list. One object as long as the log lives: frequent readers may keep it.
        end: `log_end_offset`, and where in the files that is. Set by the appending thread under `lock`.
        synced: As `end`, of the last flush of all.
        failure: Why the log takes no more appends: an fsync failed, or it was abandoned.
        is_closed: `close` or `abandon` has begun: background work that comes late leaves the files as they are. A clean stop
            tells which they are; a deleted log's directory may be another log's by then. Set under `deletion_lock` and `lock`.
        truncations: Number of truncations since the load: a pass of the cleaner that began before is void.
        holes: Stretches that it has lost to damage, as far as `.damaged` files told when it was loaded.
        ledger: Number of records that its segments hold and have lost. Changed under `deletion_lock`.
        save_recovery_point: Writes the checkpoint of recovery points; False: it could not be written. The log manager's.
        directory_is_dirty: File names were made or renamed that are not durable yet.
        has_left_files: Files of a deleted segment could not be renamed, and are there when the log is loaded again.
    """

    __slots__ = (
        "_jitter",
        "_limits",
        "_pace",
        "_parent_is_dirty",
        "_pending",
        "_quiet_end",
        "_scheduler",
        "_space",
        "_time",
        "deletion_lock",
        "directory",
        "directory_is_dirty",
        "end",
        "failure",
        "flush_lock",
        "has_left_files",
        "holes",
        "hooks",
        "is_closed",
        "last_flush_ms",
        "ledger",
        "lock",
        "log_end_offset",
        "name",
        "recovery_point",
        "save_recovery_point",
        "segments",
        "synced",
        "truncations",
        "unsynced_since_ms",
    )

    def __init__(
        self,
        name: str,
        directory: LogDirectory,
        segments: SegmentList,
        *,
        log_end_offset: int,
        recovery_point: int,
        scheduler: Scheduler,
        time: Time,
        jitter: Callable[[int], int],
    ) -> None:
        """`name` is `topic-partition`, for messages; `jitter(n)` gives a random number in [0, n). Opens nothing."""
        assert recovery_point <= log_end_offset
        self.name = name
        self.directory = directory
        self.segments = segments
        self.hooks = LogHooks()
        self._scheduler = scheduler
        self._time = time
        self._jitter = jitter
        self._space = directory.space
        self._pace = directory.pace
        self.lock = threading.Lock()
        self.flush_lock = threading.Lock()
        self.deletion_lock = threading.Lock()
        self.recovery_point = recovery_point
        self.save_recovery_point: Callable[[], bool] = no_checkpoint
        self.log_end_offset = log_end_offset
        active = segments.active
        self.end = LogOffsetMetadata(log_end_offset, active.base_offset, active.size)
        self.synced = self.end
        self._limits: RollLimits = ASK_ALWAYS
        # Closed segments whose log or indexes are not durable yet.
        self._pending = [segment for segment in segments.view[:-1] if not segment.indexes_synced]
        self._quiet_end = -1
        self.failure: KafkaStorageError | None = None
        self.has_left_files = False
        self.is_closed = False
        self.truncations = 0
        self.holes: tuple[Hole, ...] = ()
        self.last_flush_ms = time.monotonic_ms()  # a wall clock that is set back must put off no flush
        self.unsynced_since_ms = time.milliseconds()
        self.directory_is_dirty = self._parent_is_dirty = False
        self.ledger = LedgerKeeper(directory, segments.view[0].base_offset)

    def __repr__(self) -> str:
        return f"LocalLog({self.name}, ..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        return self.directory.config

    @property
    def size(self) -> int:
        """Bytes of all log files. Any thread."""
        return sum(segment.size for segment in self.segments.view)

    def segment_views(self) -> Iterator[SegmentView]:
        """Facts of each segment, oldest first. Any thread; opens the time index of one whose age is not known yet."""
        end_offset = self.log_end_offset
        view = self.segments.view
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
        """Upper bound of the age in ms of the oldest record that no sync has covered; 0: all records are durable.

        Any thread.
        """
        return max(0, now_ms - self.unsynced_since_ms) if self.recovery_point < self.log_end_offset else 0

    def held_segments(self) -> list[int]:
        """Sizes of segments that cleaning has replaced, or is replacing, and whose files a reader still holds. Any thread."""
        return list(self.directory.pinned.values())

    def steady(self) -> AbstractContextManager[object]:
        """Return a lock: while it is held, no file of this log is renamed, replaced or removed. For readers of several segments.

        Any thread but the loop's; blocks while retention or a swap runs. Neither may be called while the lock is held.
        """
        return self.deletion_lock

    def dated_after(self, now_ms: int) -> HeldSegments:
        """Segments whose newest record is dated in the future: their age can't be told yet. Any thread; reads no file.

        Segments whose times were not read since the start are left out; the first retention run looks at the oldest.
        """
        view, size, offsets = self.segments.view, 0, 0
        for index, segment in enumerate(view):
            if segment.known_largest_timestamp > now_ms:
                size += segment.size
                following = index + 1
                end = view[following].base_offset if following < len(view) else self.log_end_offset
                offsets += end - segment.base_offset
        return HeldSegments(size, offsets)

    # --- append and roll ---

    def append(
        self,
        data: Buffer,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        now: int,
        offset_of_max_timestamp: int = -1,
        stand_alone: bool = False,
    ) -> LogOffsetMetadata:
        """Append records to the active segment, rolled if need be; returns the new end. Under the lock.

        `now` is the clock in ms. For `offset_of_max_timestamp` and `stand_alone` see `LogSegment.append`. KafkaStorageError:
        nothing was appended; after the bytes are in nothing can fail.
        """
        if self.failure is not None:
            if isinstance(self.failure, LogClosedError):
                raise raised_again(self.failure)
            raise KafkaStorageError(f"{self.name} takes no appends until a restart: {self.failure}") from self.failure
        segment = self.segments.view[-1]
        pace = self._pace
        started = pace.clock()
        limits = self._limits
        size = len(data)
        try:
            if (
                segment.size + size > limits.segment_size
                or max_timestamp > limits.timestamp
                or last_offset > limits.last_offset
                or segment.index_is_full
            ):
                reason = self._roll_reason(segment, size, max_timestamp, last_offset, now)
                if reason is not None:
                    segment = self.roll_now(reason.value)
            self._space.left -= size  # also if the write fails: the next look at the disk corrects it
            if stand_alone:
                segment.append(data, base_offset, last_offset, max_timestamp, offset_of_max_timestamp, stand_alone=True)
            else:
                segment.append(data, base_offset, last_offset, max_timestamp)
        except OSError as error:
            pace.note(pace.clock() - started)
            raise KafkaStorageError(f"{self.name}: appending failed: {error}") from error
        took = pace.clock() - started
        if took > pace.notice_s:
            pace.note(took)
        end_offset = last_offset + 1
        if self.log_end_offset == self.recovery_point:  # all was durable: this is the oldest record that is not
            self.unsynced_since_ms = now
        self.end = end = _new(LogOffsetMetadata, (end_offset, segment.base_offset, segment.size))
        self.log_end_offset = end_offset  # after `end`: a reader that sees the offset may ask where in the files it is
        return end

    def forget_roll_limits(self) -> None:
        """Have the next append ask `roll_reason` whatever its size: the settings have changed. Under the lock."""
        self._limits = ASK_ALWAYS

    def _roll_reason(
        self, segment: LogSegment, size: int, max_timestamp: int, last_offset: int, now: int
    ) -> RollReason | None:
        config = self.directory.config
        params = RollParams(
            segment.size,
            size,
            config.segment_bytes,
            segment.first_timestamp(),
            segment.created_ms,
            max_timestamp,
            now,
            config.segment_ms - segment.jitter_ms,
            segment.index_is_full,
            segment.base_offset,
            last_offset,
        )
        self._limits = roll_limits(params)
        return roll_reason(params)

    def roll_if_due(self, size: int, max_timestamp: int, last_offset: int, now: int) -> None:
        """Roll now if an append of such a batch would. Under the lock. KafkaStorageError."""
        try:
            reason = self._roll_reason(self.segments.view[-1], size, max_timestamp, last_offset, now)
            if reason is not None:
                self.roll_now(reason.value)
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: rolling failed: {error}") from error

    def roll(self) -> LogSegment:
        """Begin a new active segment now, unless the active one is empty. Returns the active one. Any thread.

        KafkaStorageError, also if the log is closed."""
        with self.lock:
            self._check_open()
            active = self.segments.active
            if active.size == 0:
                return active
            try:
                return self.roll_now("asked for")
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: rolling failed: {error}") from error

    def roll_if_quiet(self) -> bool:
        """Roll when segment.ms has passed and nothing was appended since this was last called. Pool threads.

        An append compares the newest message's time with the segment's first. Where no message comes, the clock stands in
        for it, or the records of a topic that fell silent would stay out of reach of the cleaner for ever.
        """
        active = self.segments.active
        was_quiet, self._quiet_end = self._quiet_end == self.log_end_offset, self.log_end_offset
        if not was_quiet or active.size == 0 or self.failure is not None:
            return False
        now, roll_after = self._time.milliseconds(), self.directory.config.segment_ms - active.jitter_ms
        try:
            first_timestamp = active.first_timestamp()  # from the disk, perhaps: not under the lock
            with self.lock:
                if self.is_closed or self.segments.active is not active or self.log_end_offset != self._quiet_end:
                    return False
                if not is_due_without_write(first_timestamp, active.created_ms, now, roll_after):
                    return False
                self.roll_now(f"{RollReason.TIME.value}, no write arriving")
                return True
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: rolling failed: {error}") from error

    def roll_now(self, reason: str) -> LogSegment:
        """Close the active segment and begin the next. Under the lock. OSError: nothing has changed.

        Flushing the closed one with its indexes is for the pool. Then comes the snapshot: recovery takes its presence for a
        sign that the segment before it has durable indexes, since the recovery point may have stood at its end before.
        """
        base_offset = self.log_end_offset
        directory = self.directory
        try:
            new = LogSegment.create(
                directory,
                base_offset,
                created_ms=self._time.milliseconds(),
                jitter_ms=self._jitter(directory.config.segment_jitter_ms),
            )
        except OSError:
            self.directory_is_dirty = True
            self._remove_files_of(base_offset)
            raise
        closed = self.segments.active
        closed.deactivate()
        self._pending.append(closed)
        self.directory_is_dirty = True
        self.segments.append(new)
        self._limits = ASK_ALWAYS
        self.end = LogOffsetMetadata(base_offset, base_offset, 0)
        logger.debug("%s: rolled a new segment at offset %d (%s)", self.name, base_offset, reason)
        self.hooks.rolled(base_offset)
        return new

    def _remove_files_of(self, base_offset: int) -> None:
        """Remove what was made of a segment that could not be begun. The present one may get this offset yet: a file that claims
        it would lie within it, and the next start would cut there. Where it stays, the log takes no appends."""
        directory = self.directory
        for suffix in SEGMENT_SUFFIXES:
            path = directory.file(base_offset, suffix)
            try:
                directory.file_system.unlink(path, missing_ok=True)
            except OSError as error:
                if suffix == LOG_SUFFIX:
                    self.failure = KafkaStorageError(f"{path} of a roll that failed can't be removed: {error}")

    # --- durability: pool threads ---

    def flush(self, offset: int | None = None) -> int:
        """Make all that is appended now durable; returns the offset up to which it is. Pool threads; blocks.

        `offset`, the base of a segment: only the segments before it. Syncs log files; indexes only of closed segments (the active
        one's are rebuilt after a crash); the directory when segments were made since the last time. KafkaStorageError: a sync
        failed, and the log takes no more appends: the kernel may have dropped the pages, so that a later sync would succeed
        without the data.
        """
        with self.flush_lock:
            began_ms = self._time.milliseconds()
            with self.lock:
                end = self.end
                # A truncation may have come since the roll that asks for `offset`.
                target = end.offset if offset is None else min(offset, end.offset)
                pending, active = tuple(self._pending), self.segments.active
                # A segment of which all was synced while it was active still needs its indexes synced.
                is_done = not pending or pending[0].base_offset >= target
                if target <= self.recovery_point and is_done and not self.directory_is_dirty:
                    return self.recovery_point
                if self.failure is not None:
                    # A sync that failed has lost its pages: the next one would find nothing to write, and succeed.
                    raise raised_again(self.failure)
                directory_is_dirty, self.directory_is_dirty = self.directory_is_dirty, False
                parent_is_dirty, self._parent_is_dirty = self._parent_is_dirty, False
            try:
                self._flush_segments([segment for segment in (*pending, active) if segment.base_offset < target])
                self.hooks.flush()
                if directory_is_dirty:
                    self.directory.file_system.sync_directory(self.directory.path)
                if parent_is_dirty:
                    self.directory.file_system.sync_directory(self.directory.path.rpartition("/")[0] or "/")
            except OSError as error:
                self.directory_is_dirty |= directory_is_dirty
                self._parent_is_dirty |= parent_is_dirty
                self.failure = KafkaStorageError(f"{self.name}: sync failed: {error}")
                raise self.failure from error
            except BaseException:  # of whatever kind: the directory is as dirty as it was
                self.directory_is_dirty |= directory_is_dirty
                self._parent_is_dirty |= parent_is_dirty
                raise
            with self.lock:
                self._pending = [segment for segment in self._pending if not segment.indexes_synced]
                # Truncation waits for the flush lock, so the log still ends at or behind `target`.
                if target > self.recovery_point:
                    # What lies below is trusted at a start: not an index that a full disk had no room to complete.
                    unfinished = (segment.base_offset for segment in self._unfinished(pending))
                    self.recovery_point = max(self.recovery_point, min((target, *unfinished)))
                    if offset is None:
                        self.synced = end
                    self.unsynced_since_ms = began_ms  # of what came meanwhile, if anything did
                self.last_flush_ms = self._time.monotonic_ms()
                return max(target, self.recovery_point)

    def first_unfinished(self, offset: int) -> int:
        """The base of the first segment before `offset` that a full disk had no room to complete, and that is to be flushed
        again; `offset` where there is none."""
        with self.lock:
            unfinished = (segment.base_offset for segment in self._unfinished(self._pending))
            return min((offset, *unfinished))

    def _unfinished(self, flushed: Sequence[LogSegment]) -> list[LogSegment]:
        """Those of them whose indexes are not whole, and that retention has left. Under the lock."""
        live = {id(segment) for segment in self.segments.view}
        return [one for one in flushed if not one.indexes_synced and id(one) in live]

    def _flush_segments(self, segments: Sequence[LogSegment]) -> None:
        """Sync segments, several at a time where there are very many: in any order, since the recovery point moves behind the
        last. Under `flush_lock`. OSError."""
        told_ms = self._time.monotonic_ms()

        def tell(count: int) -> None:
            nonlocal told_ms
            if (now := self._time.monotonic_ms()) - told_ms >= TELL_MS:
                told_ms = now
                logger.info("%s: %d of %d segments are synced", self.name, count, len(segments))

        sync_group(segments, self._flush_segment, self.directory.file_system.syncs_at_once, tell)

    def _flush_segment(self, segment: LogSegment) -> None:
        try:
            segment.flush()
        except FileNotFoundError:
            if any(segment is live for live in self.segments.view):
                raise
            segment.was_synced()  # retention took it meanwhile: nobody needs it durable any more

    def mark_changed(self, *, is_new: bool = False) -> None:
        """Note that loading has made or renamed files: the next flush syncs the directory, and a new one's parent."""
        self.directory_is_dirty = True
        self._parent_is_dirty = is_new

    # --- deletion ---

    def take_out_below(self, end: int) -> list[LogSegment]:
        """Take the segments below the base offset `end` out of the list; `delete_files` must follow. Under both `deletion_lock`
        and `lock`."""
        doomed = [segment for segment in self.segments.view if segment.base_offset < end]
        self.segments.remove(doomed)
        self.directory_is_dirty = True
        return doomed

    def has_aborted(self, segment: LogSegment) -> bool:
        """True if the segment has a transaction index, of aborted transactions. Asks the file system."""
        path = self.directory.file(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
        return self.directory.file_system.exists(path)

    def delete_files(self, segments: Iterable[LogSegment], *, must: bool = False) -> None:
        """Rename the files of `segments` now, unlink them after file.delete.delay.ms: a reader may be about to open one.

        Under `deletion_lock`; the segments, which rise, are out of the list already. `must`: raise OSError if a file can't be
        renamed, since other records get its offsets; else that is logged, and it stays until the next start with all behind it:
        that would take a gap for the end of the log.
        """
        marked: list[str] = []
        for segment in segments:
            try:
                marked += segment.mark_deleted()
                marked += self.hooks.mark_deleted(segment.base_offset)
            except OSError as error:
                if must:
                    raise
                self.has_left_files = True
                logger.warning(
                    "%s: %r could not be renamed and stays until the next start: %s", self.name, segment, error
                )
                break
        if marked:
            delete = partial(unlink_all, self.directory.file_system, marked)
            self._scheduler.schedule("delete-file", delete, self.directory.config.file_delete_delay_ms)

    # --- truncation: under all three locks ---

    def lower_recovery_point(self, offset: int) -> None:
        """Lower it to `offset`, on disk too, before other records get those offsets: recovery does not check what lies below it.

        KafkaStorageError: the checkpoint could not be written, and nothing may be truncated.
        """
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, offset)
        if not self.save_recovery_point():
            raise KafkaStorageError(f"{self.name}: not truncated, the recovery point could not be written")

    def cut(self, offset: int) -> LogOffsetMetadata:
        """Remove all records from `offset` on (the whole batch that holds it); returns where the files end now.

        `end_at` must follow, once the owner's watermarks are not above. KafkaStorageError: `failure` is set.
        """
        try:
            doomed = [segment for segment in self.segments.view if segment.base_offset > offset]
            self.segments.remove(doomed)
            # Durably, or a power cut brings them back behind records that get the same offsets; and from the end on, or
            # it takes one from the middle.
            for segment in reversed(doomed):
                self.delete_files([segment], must=True)
                self.directory.file_system.sync_directory(self.directory.path)
            active = self.segments.active
            active.activate()
            active.truncate_to(offset)
        except OSError as error:
            # The log ends somewhere before, and a sync that failed has lost what else was not on disk.
            self.failure = KafkaStorageError(f"{self.name}: truncating to {offset} failed: {error}")
            raise self.failure from error
        end_offset = min(offset, max(active.base_offset, active.read_next_offset()))
        return LogOffsetMetadata(end_offset, active.base_offset, active.size)

    def start_over(self, offset: int) -> LogOffsetMetadata:
        """Remove everything; the next record gets `offset`. `end_at` must follow. KafkaStorageError: `failure` is set."""
        try:
            doomed = list(self.segments.view)
            self.delete_files(doomed, must=True)
            new = LogSegment.create(self.directory, offset, created_ms=self._time.milliseconds())
            self.segments.replace(doomed, [new])
            self.directory.file_system.sync_directory(self.directory.path)
        except OSError as error:
            self.failure = KafkaStorageError(f"{self.name}: starting anew at {offset} failed: {error}")
            raise self.failure from error
        return LogOffsetMetadata(offset, offset, 0)

    def end_at(self, end: LogOffsetMetadata) -> None:
        """Publish `end` as the end of the log, and lower the recovery point to it."""
        self.end = self.synced = end
        self.recovery_point = min(self.recovery_point, end.offset)
        self.log_end_offset = end.offset
        self._limits = ASK_ALWAYS

    def cut_ledger(self) -> None:
        """Book in the ledger the records that `cut` has removed."""
        extent = self.extents()[-1]
        self.ledger.cut(
            extent.end_offset,
            self.segments.active.base_offset,
            lambda: extent.end_offset - extent.base_offset - self.count(extent),
        )

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
        other. The recovery point is moved and checkpointed before, unless an index that a full disk left short holds it back:
        cleaning leaves gaps, and above it recovery takes a gap for a loss where no pass has noted one. `removed`, by cause, is
        what the ledger books for it; it says so on disk before the swap. `truncations` is the log's count when the old ones
        were read: a truncation leaves the last one in the list, with other records in it.

        False: `old` is not in the log any more (or it takes no changes), the cleaned files are removed. The cleaner's thread;
        blocks. KafkaStorageError: nothing was replaced, or (`failure` is set then) the next start completes it.
        """
        swap = SegmentSwap(self.directory, new, old)
        with self.deletion_lock:
            view = self.segments.view
            first = next((index for index, segment in enumerate(view) if segment is old[0]), len(view))
            after = first + len(old)
            is_void = self.is_closed or self.failure is not None or self.truncations != truncations
            if is_void or after >= len(view) or list(view[first:after]) != list(old):
                swap.discard()
                return False
            end = view[after].base_offset
            assert new[0].base_offset == old[0].base_offset
            assert new[-1].base_offset < end
            try:
                if self.flush(end) < end or not self.save_recovery_point():
                    raise KafkaStorageError(f"{self.name}: the recovery point could not be moved to {end}")
                with self.lock:
                    self.hooks.leave(end)
                if self.ledger.open(self.extents, self.count):
                    ends = [segment.base_offset for segment in view[first + 1 : after + 1]]
                    extents = [SegmentExtent(s.base_offset, e, s.size) for s, e in zip(old, ends, strict=True)]
                    self.ledger.begin_swap(extents, [(s.base_offset, s.live, s.size) for s in new], removed or {})
                swap.prepare()
            except (OSError, StorageError) as error:
                left = swap.discard()
                if left is None:
                    self.ledger.withdraw_swap()
                else:  # the next start completes it: nothing may change what it was made of before
                    self.failure = KafkaStorageError(f"{left} of a swap that failed can't be removed: {error}")
                raise KafkaStorageError(f"{self.name}: cleaned segments could not be put in place: {error}") from error
            try:
                swap.commit()
            except OSError as error:
                self.failure = KafkaStorageError(f"{self.name}: cleaned segments are in place by half: {error}")
                raise self.failure from error
            bases = {segment.base_offset for segment in new}
            for segment in old:
                if segment.base_offset not in bases:
                    self.hooks.forget(segment.base_offset)
            with self.lock:
                self.segments.replace(old, swap.segments(created_ms=self._time.milliseconds()))
            self.ledger.confirm_swap()
            self._scheduler.schedule("delete-file", swap.deletion(), 0)
            return True

    # --- ledger ---

    def open_ledger(self, *, count: bool = False) -> bool:
        """Read the ledger's file if nobody has; True if the ledger is known now. `count`: read batch headers if it takes that.

        Any thread but the loop's; blocks, behind a swap or a deletion too.
        """
        if self.ledger.value is not None:
            return True
        if self.ledger.needs_count and not count:
            return False
        with self.deletion_lock:
            return not self.is_closed and self.ledger.open(self.extents, self.count if count else None)

    def mend_indexes(self) -> None:
        """Rebuild the indexes of closed segments in which a wrong entry was found, or for which there was no room. Blocks."""
        doubted = self.directory.doubted
        for base_offset, segment in list(doubted.items()):
            with self.deletion_lock:
                view = self.segments.view
                if segment is view[-1] or self.is_closed:
                    continue
                try:
                    if any(segment is live for live in view) and not rebuild_indexes(self.directory, segment):
                        continue
                except OSError as error:
                    logger.warning("%s: indexes of segment %d: %s", self.directory.path, base_offset, error)
                    continue
                if doubted.get(base_offset) is segment:
                    del doubted[base_offset]

    def forget_holes(self) -> None:
        """Delete `.damaged` files of holes below the first segment; drop from `holes` those whose file is gone. Blocks."""
        if not self.holes:
            return
        with self.deletion_lock:
            if self.is_closed:
                return
            directory, first = self.directory, self.segments.view[0].base_offset
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
        """Book that the closed `segment`, which a pass has read and left as it is, has `live` records. The cleaner's thread."""
        with self.deletion_lock:
            for extent, listed in zip(self.extents(), self.segments.view, strict=False):
                if listed is segment:
                    self.ledger.was_counted(extent, live)

    def save_ledger(self, checkpoint: int) -> None:
        """Write the ledger at the end of a pass, before the cleaner's checkpoint moves to `checkpoint`. Blocks; OSError."""
        with self.deletion_lock:
            if not self.is_closed and self.failure is None and self.ledger.open(self.extents, self.count):
                self.ledger.save(checkpoint)

    def extents(self) -> list[SegmentExtent]:
        """Base offset, end offset and size of each segment, as the ledger asks for them. Under `deletion_lock`."""
        end_offset, view = self.log_end_offset, self.segments.view
        ends = [*(segment.base_offset for segment in view[1:]), max(end_offset, view[-1].base_offset)]
        return [SegmentExtent(s.base_offset, end, s.size) for s, end in zip(view, ends, strict=True)]

    def count(self, extent: SegmentExtent) -> int:
        """Count the records of a segment by reading its batch headers. Blocks; OSError, RecordError."""
        file = self.directory.open_log(extent.base_offset, writable=False)
        try:
            return file_records.count_records(file, 0, extent.size)
        finally:
            file.close()

    # --- end ---

    def close(self) -> None:
        """Stop cleanly: flush, snapshot, trim. Nobody appends or flushes any more. Blocks.

        KafkaStorageError, also if the log had failed before: the next start has to look at it.
        """
        with self.deletion_lock:
            with self.lock:
                self.is_closed = True
            if self.failure is not None:
                raise raised_again(self.failure)
            changed = self.directory_is_dirty or self.recovery_point < self.log_end_offset
            self.flush()
            try:
                self._drop_unfinished_indexes()
                self.hooks.close()
                self.ledger.close()
                active = self.segments.active
                if active.close() or changed or not active.indexes_synced:  # recovery made new ones, and nothing came
                    active.sync_indexes()
                    if (
                        not active.indexes_synced
                    ):  # no room for the last entry, which nobody asks for after a clean stop
                        active.drop_time_index()
                    self.directory.file_system.sync_directory(self.directory.path)
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: closing failed: {error}") from error

    def _drop_unfinished_indexes(self) -> None:
        """Of an index that is there after a clean stop nobody asks whether it is whole. OSError, KafkaStorageError."""
        with self.lock:  # the active one, to which a truncation has come back, is to be closed yet
            unfinished = [one for one in self._unfinished(self._pending) if one is not self.segments.active]
        if unfinished:
            for segment in unfinished:
                segment.drop_time_index()
            self.directory_is_dirty = True
            self.flush()

    def abandon(self) -> None:
        """Close all files as they are: the log is deleted, or the daemon ends. Reads under way go on. Blocks, behind a
        deletion or a swap too."""
        with self.deletion_lock, self.flush_lock, self.lock:
            self.is_closed = True
            self.failure = self.failure or LogClosedError(f"{self.name} is closed")
            self.directory_is_dirty = self._parent_is_dirty = False
            self.recovery_point = self.log_end_offset
            self._pending = []  # a flush that comes late, of a roll before, has nothing to do and no error to tell
            for segment in self.segments.view:
                segment.abandon(for_good=True)

    def _check_open(self) -> None:
        if self.is_closed:
            raise LogClosedError(f"{self.name} is closed")

    def renamed(self, path: str) -> None:
        """Open files in `path` from now on: the directory was renamed, after `abandon`, and goes. No hook is called any more."""
        self.directory.path = path
        # They refer to the owner, which refers to this log. Without them both are freed as soon as nobody has them; the cycle
        # collector would never look at a log that was frozen (`gc.freeze`) before it was deleted.
        self.hooks = LogHooks()

    # --- move to another data directory: see `manager/move.py` ---

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Hold all three locks: within, nothing is appended, rolled, synced, deleted or cleaned. Pool threads. KafkaStorageError:
        the log has failed, or is closed."""
        with self.deletion_lock, self.flush_lock, self.lock:
            self._check_open()
            if self.failure is not None:
                raise raised_again(self.failure)
            yield

    def moved_to(self, place: LogPlace) -> None:
        """Work with the files in `place`, which are durable and the same as here. While the log stands still.

        Readers keep their leases on the old files; a file that is opened from now on is the new one.
        """
        self.directory.path, self.directory.space, self.directory.pace = place.path, place.space, place.pace
        self._space, self._pace = place.space, place.pace
        self._scheduler = place.scheduler
        self.save_recovery_point = place.save_recovery_point
        unfinished = self._unfinished(self._pending)  # a full disk may be why it goes
        for segment in self.segments.view:
            segment.abandon()
            segment.was_synced()
        for segment in unfinished:
            segment.indexes_synced = False
        self._pending = unfinished
        self.directory_is_dirty = self._parent_is_dirty = False
