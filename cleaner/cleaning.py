"""Cleaner: one pass over one log.

    walk     the records are read, first the dirty ones, then all; `.cleaned` files are written: `walk.py`, in this thread or
             in a process of its own (`process/`)
    swap     each group takes the place of what it was made from as soon as it is complete: here

A pass that is stopped, or fails, leaves whole groups behind, cleaned or not, and nothing in between: the next one begins
again at the same first dirty offset. What the records say is the walk's; which log, when and what range is `eligibility.py`'s,
states and threads are `cleaner_manager.py`'s. All that touches the log itself is here: what a walk is told of it, the abort,
the throttle, the swap, the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..storage.ledger.ledger import SegmentExtent
from ..storage.segment.names import CLEANED_STAGE
from .aborted_transactions import AbortedTransactions
from .exceptions import CleaningAborted, CleaningError
from .kernel.results import FilterCounts
from .removal_counts import removed_by_pass

if TYPE_CHECKING:
    from ..storage.clock import Time
    from ..storage.io.filesystem import File, FileSystem
    from ..storage.log.unified_log import UnifiedLog
    from ..storage.segment.files import LogDirectory
    from ..storage.segment.log_segment import LogSegment
    from .throttler import Throttler
    from .walk import BuildReport, FilterOrder, GroupReport, WalkFiles, WalkPlan, WalkProgress

logger = logging.getLogger(__name__)


class PassControl(Protocol):
    """Called between chunks of a pass. Both methods raise CleaningAborted when the pass must end."""

    def check(self) -> None: ...
    def wait(self, milliseconds: float) -> None: ...


class PassHost(Protocol):
    """The pass, as a walk in another process has it: `WalkHost`, and what that process is told of the throttle."""

    def check(self) -> None: ...
    def built(self, report: BuildReport) -> FilterOrder | None: ...
    def finished(self, report: GroupReport) -> None: ...

    def pay(self, count: int, look: Callable[[], None] = lambda: None) -> None:
        """As `WalkHost.pay`. `look` is called while it waits, and may raise."""

    def note(self, count: int) -> None:
        """Called for bytes that were moved while there was no limit."""

    @property
    def allowance(self) -> int:
        """Bytes that may be moved before they are paid for; −1: no limit."""


class PassWalker(Protocol):
    """Where the walk of a pass runs. Used by one thread at a time."""

    def walk(self, plan: WalkPlan, files: WalkFiles, host: PassHost, progress: WalkProgress) -> None: ...

    def rest(self) -> None:
        """Called now and then between passes: what is not needed soon may go."""

    def close(self) -> None:
        """Called at the end, perhaps more than once. Blocks for a second at most."""


@dataclass(frozen=True, slots=True)
class CleaningTask:
    """The log and the offset range of one pass, as `eligibility.evaluate` chose them."""

    log: UnifiedLog
    first_dirty: int
    first_uncleanable: int
    before_first_swap: Callable[[int], None] = lambda end_offset: None
    """Called once, before the first segment is replaced, with the pass's end offset. OSError ends the pass."""
    begun: Callable[[PassResult], None] = lambda result: None
    """Called when the pass begins, with the result object that it fills as it goes: any thread may read its numbers."""


@dataclass(slots=True)
class PassResult:
    """Counts and times of one pass. Times in ms."""

    first_dirty: int
    first_uncleanable: int
    started_ms: int
    end_offset: int = -1
    """The new checkpoint: below it, each record was compared with every key of the dirty part."""
    map_was_full: bool = False
    map_entries: int = 0
    map_capacity: int = 0
    map_records: int = 0
    map_bytes: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    """Bytes read by the second walk."""
    filtered_bytes: int = 0
    """As `bytes_read`, but updated as the walk goes on instead of with every group."""
    bytes_written: int = 0
    segments_before: int = 0
    segments_after: int = 0
    segments_unchanged: int = 0
    counts: FilterCounts = field(default_factory=FilterCounts)
    horizons: dict[int, int] = field(default_factory=dict)
    """Base offset of each segment that the pass went over → the earliest horizon in it, where there is one."""
    elapsed_ms: float = 0.0
    throttled_ms: float = 0.0


class Cleaner:
    """Makes passes, one after the other. Used by one thread.

    Attributes:
        walker: where walks run.
        secret: returns 16 random bytes for the hash of a pass.
    """

    def __init__(self, walker: PassWalker, *, throttler: Throttler, time: Time, secret: Callable[[], bytes]) -> None:
        self.walker = walker
        self._throttler = throttler
        self._time = time
        self.secret = secret

    def clean(self, task: CleaningTask, control: PassControl) -> PassResult:
        """Run one pass. Blocks until it ends.

        CleaningAborted: asked to end, or the log has changed under it. CleaningError, RecordError, StorageError, OSError:
        it can't be cleaned; the log is as good as it was.
        """
        cleaning_pass = _Pass(self, task, control)
        try:
            return cleaning_pass.run()
        except FileNotFoundError as error:
            # A pass opens a segment's file only when it gets there, so retention or a truncation may have removed it.
            # If neither has moved the log, the file is missing for another reason, and that is an error of the log.
            is_same_start = task.log.segments[0].base_offset == cleaning_pass.first_base_offset
            if is_same_start and task.log.local.truncations == cleaning_pass.truncations:
                raise
            raise CleaningAborted(f"{task.log.name}: segments were deleted while they were being cleaned") from error

    def rest(self) -> None:
        """Give back what no pass has needed for a while. Called between passes."""
        self.walker.rest()

    def close(self) -> None:
        """No pass follows. Blocks for a second at most."""
        self.walker.close()


class _LogFiles:
    """The files of a log in which a pass is made: `WalkFiles`, and `SegmentPlace`."""

    def __init__(self, directory: LogDirectory, closed: Sequence[LogSegment]) -> None:
        self._directory = directory
        self._closed = closed
        self.file = directory.file

    @property
    def path(self) -> str:
        return self._directory.path

    @property
    def file_system(self) -> FileSystem:
        return self._directory.file_system

    def open_segment(self, number: int) -> File:
        return self._closed[number].lease_file()


class _Pass:
    """The state of one pass, and the host of its walk."""

    def __init__(self, cleaner: Cleaner, task: CleaningTask, control: PassControl) -> None:
        self._cleaner = cleaner
        self._task = task
        self._control = control
        self._log = task.log
        # Read before the segments: a truncation in between then voids the pass, instead of going unnoticed.
        self.truncations = task.log.local.truncations
        self._view = task.log.segments
        self._closed = [s for s in self._view[:-1] if s.base_offset < task.first_uncleanable]
        self._end_at_start = task.log.log_end_offset
        self._swapped = False
        self._result = PassResult(task.first_dirty, task.first_uncleanable, cleaner._time.milliseconds())

    @property
    def first_base_offset(self) -> int:
        """Base offset of the log's first segment when the pass began."""
        return self._view[0].base_offset

    def run(self) -> PassResult:
        result, time, throttler = self._result, self._cleaner._time, self._cleaner._throttler
        begun, waited = time.monotonic_ms(), throttler.waited_ms
        self._task.begun(result)
        files = _LogFiles(self._log.log_directory, self._closed)
        # A load after a crash takes any `.cleaned` for a group that was not complete, and drops swaps for its sake.
        remove_cleaned(files.file_system, files.path)
        self._cleaner.walker.walk(self._plan(), files, self, result)
        result.elapsed_ms = time.monotonic_ms() - begun
        result.throttled_ms = throttler.waited_ms - waited
        return result

    def _plan(self) -> WalkPlan:
        from .walk import SegmentPart, WalkPlan  # a daemon that cleans nothing has no use for it

        task, config = self._task, self._log.config
        directory, end = self._log.log_directory, task.first_uncleanable
        parts = [
            SegmentPart(segment.base_offset, segment.size, self._end_of(number))
            for number, segment in enumerate(self._closed)
        ]
        return WalkPlan(
            self._log.name,
            directory.path,
            parts,
            task.first_dirty,
            end,
            self._first_position(),
            AbortedTransactions.of(directory, self._view, end).all(),
            self._cleaner.secret(),
            self._result.started_ms,
            config.delete_retention_ms,
            config.segment_bytes,
            config.segment_index_bytes,
            config.index_interval_bytes,
        )

    def _end_of(self, number: int) -> int:
        """End offset of a closed segment, which is the next one's base offset."""
        return self._view[number + 1].base_offset

    def _first_position(self) -> int:
        """Position of the first dirty batch in the segment that holds it; 0 where the dirty part begins with a segment."""
        first = self._task.first_dirty
        for number, segment in enumerate(self._closed):
            if segment.base_offset < first < self._end_of(number):
                found = segment.find(first, segment.size)
                return segment.size if found is None else found.position
        return 0

    # --- what the walk calls ---

    def check(self) -> None:
        self._control.check()

    def pay(self, count: int, look: Callable[[], None] = lambda: None) -> None:
        def wait(milliseconds: float) -> None:
            look()
            self._control.wait(milliseconds)

        self._cleaner._throttler.pay(count, wait)

    def note(self, count: int) -> None:
        self._cleaner._throttler.note(count)

    @property
    def allowance(self) -> int:
        return self._cleaner._throttler.allowance

    def built(self, report: BuildReport) -> FilterOrder | None:
        """Decide up to where the pass goes, and tell what the log is by now."""
        from .walk import FilterOrder

        result, log = self._result, self._log
        result.map_was_full = report.full_at >= 0
        result.map_entries = report.entries
        result.map_capacity = report.capacity
        result.map_utilization = report.utilization
        result.end_offset = self._reached(report)
        config = log.config
        segments = [segment for segment in self._closed if segment.base_offset < result.end_offset]
        if not segments:
            return None
        # Formats without room for a horizon go by file times: the youngest clean segment is as old as cleaning is.
        clean = [s for number, s in enumerate(segments) if self._end_of(number) <= self._task.first_dirty]
        horizon_ms = clean[-1].modified_ms() - config.delete_retention_ms if clean else 0
        last_offset = next((s.read_next_offset() - 1 for s in reversed(segments) if s.size), -1)
        return FilterOrder(
            result.end_offset, len(segments), last_offset, log.log_start_offset, horizon_ms,
            log.last_records_of_producers(),
        )  # fmt: skip

    def _reached(self, report: BuildReport) -> int:
        """The offset below which every record is in the map. CleaningError: not one is."""
        first, full_at = self._task.first_dirty, report.full_at
        if full_at < 0:
            return max(first, self._task.first_uncleanable)
        if report.within_first:
            logger.warning(
                "%s: the keys of offsets %d to %d fill the map of %d entries, less than one segment: the rest is cleaned in "
                "further passes; a larger log.cleaner.dedupe.buffer.size takes fewer",
                self._log.name,
                first,
                full_at,
                report.capacity,
            )
        if full_at <= first:
            raise CleaningError(
                f"{self._log.name}: the offset map has no room for one key at offset {first}; "
                "log.cleaner.dedupe.buffer.size is too small"
            )
        return full_at

    def finished(self, report: GroupReport) -> None:
        """Put a group in place."""
        result, counts = self._result, report.counts
        members = self._closed[report.first : report.stop]
        base_offset, end_offset = members[0].base_offset, self._end_of(report.stop - 1)
        result.segments_before += len(members)
        result.bytes_read += counts.bytes_read
        result.counts = result.counts.plus(counts)
        if counts.earliest_horizon >= 0:
            result.horizons[base_offset] = counts.earliest_horizon
        if report.new is None:
            result.segments_unchanged += 1
            result.segments_after += 1
            self._was_counted(members[0], end_offset, counts.records_read)
            return
        result.bytes_written += report.written_bytes
        self._control.check()
        if not self._swapped:
            # Order matters: first what supersedes a record is on disk, then the note that this pass has begun to
            # swap, then the first swap. A power cut between any two of them loses no record, and repeats the pass.
            self._swapped = True
            self._make_durable()
            self._task.before_first_swap(result.end_offset)
        removed = removed_by_pass(counts).by_cause()
        if not self._log.replace_segments(report.new, members, removed, truncations=self.truncations):
            self._lost(members, end_offset)
        result.segments_after += len(report.new)

    # --- the log ---

    def _was_counted(self, segment: LogSegment, end_offset: int, live: int) -> None:
        """Tell the ledger how many records the unchanged segment holds: a cleaner other than ours may have removed
        some.
        """
        ledger = self._log.ledger.value
        extent = SegmentExtent(segment.base_offset, end_offset, segment.size)
        if ledger is not None and ledger.live_of(extent) != live:
            self._log.local.was_counted(segment, live)

    def _make_durable(self) -> None:
        """Sync the log before a swap. The record that supersedes a removed one, or the marker that decides its
        transaction, may lie in the active segment: a power cut must not take it once the older record is gone.
        KafkaStorageError.
        """
        if self._log.recovery_point < self._end_at_start:
            self._log.flush()

    def _lost(self, members: list[LogSegment], end_offset: int) -> None:
        """Handle `members` missing from the log: fine if retention took all of them, else the pass is void
        (CleaningAborted).
        """
        live = {id(segment) for segment in self._log.segments}
        if self._log.failure is not None or any(id(segment) in live for segment in members):
            raise CleaningAborted(f"{self._log.name}: segments went while they were being cleaned")
        if end_offset > self._log.log_start_offset:
            raise CleaningAborted(f"{self._log.name}: the log was truncated while it was being cleaned")
        self._result.horizons.pop(members[0].base_offset, None)


def remove_cleaned(file_system: FileSystem, directory: str) -> None:
    """Remove every `.cleaned` file from a log's directory, as a pass that was cut short may leave them. Blocks; OSError."""
    for name in file_system.list_directory(directory):
        if name.endswith(CLEANED_STAGE):
            file_system.unlink(f"{directory}/{name}", missing_ok=True)
