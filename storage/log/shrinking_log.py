"""ShrinkingLog: how a log rolls, and how it gets shorter: retention and DeleteRecords at its start, truncation at its end.

What is appended and read is `UnifiedLog`'s, which builds on this; the files are `LocalLog`'s, on which this builds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..deletion_policy import START_OFFSET, LogFacts
from ..exceptions import KafkaStorageError, OffsetOutOfRangeError
from ..ledger.ledger import SegmentExtent
from ..producers.replay import ProducerReplay
from ..retention.outlook import KnownSegment, RetentionOutlook, outlook
from ..segment.log_segment import LogSegment
from ..segment.names import TRANSACTION_INDEX_SUFFIX
from .local_log import LocalLog
from .roll_params import ASK_ALWAYS, RollReason, is_due_without_write
from .values import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..retention.history import RetentionRecord
    from ..retention.plan import SegmentDeletion


class ShrinkingLog(LocalLog):
    """See `UnifiedLog`, which sets the attributes, for what they mean, and for threads."""

    __slots__ = (
        "_epoch_is_assigned",
        "_flush_messages",
        "_high",
        "_quiet_end",
        "high_watermark",
        "is_shortening",
        "log_start_offset",
        "needs_sync",
        "retention",
        "save_start_offset",
    )

    _epoch_is_assigned: bool
    _flush_messages: int
    _high: LogOffsetMetadata
    _quiet_end: int
    high_watermark: int
    is_shortening: bool
    log_start_offset: int
    needs_sync: bool
    retention: RetentionRecord
    save_start_offset: Callable[[], bool]

    # --- roll ---

    def roll(self) -> LogSegment:
        """Begin a new active segment now, unless the active one is empty. Returns the active one. Any thread."""
        with self._lock:
            active = self._segments.active
            if active.size == 0:
                return active
            try:
                return self._roll("asked for")
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: rolling failed: {error}") from error

    def roll_if_quiet(self) -> bool:
        """Roll when segment.ms has passed and nothing was appended since this was last called. Pool threads.

        An append compares the newest message's time with the segment's first. Where no message comes, the clock stands in
        for it, or the records of a topic that fell silent would stay out of reach of the cleaner for ever.
        """
        active = self._segments.active
        was_quiet, self._quiet_end = self._quiet_end == self.log_end_offset, self.log_end_offset
        if not was_quiet or active.size == 0 or self.failure is not None:
            return False
        now, roll_after = self._time.milliseconds(), self._directory.config.segment_ms - active.jitter_ms
        try:
            first_timestamp = active.first_timestamp()  # from the disk, perhaps: not under the lock
            with self._lock:
                if self._segments.active is not active or self.log_end_offset != self._quiet_end:
                    return False
                if not is_due_without_write(first_timestamp, active.created_ms, now, roll_after):
                    return False
                self._roll(f"{RollReason.TIME.value}, no write arriving")
                return True
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: rolling failed: {error}") from error

    def _roll(self, reason: str) -> LogSegment:
        new = super()._roll(reason)
        if self._high.offset == self._end.offset:
            self._high = self._end
        return new

    # --- deletion ---

    def retention_outlook(self, now_ms: int) -> RetentionOutlook:
        """What retention would delete now, and when it will next, as far as that is in memory. Any thread; reads no file."""
        view, end = self._segments.view, self.log_end_offset
        ends = [*(segment.base_offset for segment in view[1:]), end]
        last = len(view) - 1
        known = (
            KnownSegment(next_base, segment.size, segment.known_largest_timestamp, number == last)
            for number, (segment, next_base) in enumerate(zip(view, ends, strict=True))
        )
        return outlook(
            known,
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
        )

    def delete_old_segments(self) -> list[SegmentDeletion]:
        """Apply retention now; returns what went and why. Pool threads: files are renamed, and opened to learn their age."""
        with self._deletion_lock:
            try:
                facts = LogFacts(
                    self.topic,
                    self.partition,
                    self._directory.config,
                    self._time.milliseconds(),
                    self.size,
                    self.log_start_offset,
                    self.high_watermark,
                )
                deletions = self.retention.plan(self.segment_views(), facts)
                if not deletions:
                    return []
                self.ledger.open(self._extents, self._count)
                with self._lock:
                    active = self._segments.active
                    if deletions[-1].base_offset == active.base_offset:
                        if deletions[-1].next_base_offset == self.log_end_offset:
                            self._roll(f"deletion policy {deletions[-1].policy}")
                        else:
                            deletions.pop()  # somebody wrote to it meanwhile: it is not old any more
                    if not deletions:
                        return []
                    end = deletions[-1].next_base_offset
                    deletions = self._counted(deletions)
                    self._set_log_start_offset(max(self.log_start_offset, end))
                    doomed = [segment for segment in self._segments.view if segment.base_offset < end]
                    self._segments.remove(doomed)
                    self._directory_is_dirty = True
            except OSError as error:
                raise KafkaStorageError(f"{self.name}: retention failed: {error}") from error
            self.retention.note(deletions)
            asked = [d.next_base_offset for d in deletions if d.policy == START_OFFSET.name]
            self.ledger.delete(asked[-1] if asked else 0, end)
            if len(doomed) == 1 and not self._has_aborted(doomed[0]):
                self._delete_files(doomed)
            else:
                self._delete_many(doomed)
            return deletions

    def _counted(self, deletions: list[SegmentDeletion]) -> list[SegmentDeletion]:
        """With the number of records that go, which the ledger knows."""
        ledger = self.ledger.value
        if ledger is None or not ledger.segments:
            return deletions
        extents = [SegmentExtent(d.base_offset, d.next_base_offset, d.size) for d in deletions]
        return [d._replace(live=ledger.live_of(e)) for d, e in zip(deletions, extents, strict=True)]

    def _has_aborted(self, segment: LogSegment) -> bool:
        path = self._directory.file(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
        return self._directory.file_system.exists(path)

    def _delete_many(self, doomed: list[LogSegment]) -> None:
        """A power cut may bring any of their files back, in any order: with the start offset on disk first, no hole is seen,
        and no aborted record whose transaction index has gone.
        """
        self.is_shortening = True
        self.save_start_offset()
        self._delete_files(doomed)
        try:
            self._directory.file_system.sync_directory(self._directory.path)
        except OSError as error:
            raise KafkaStorageError(f"{self.name}: retention failed: {error}") from error
        self.is_shortening = False

    def increment_log_start_offset(self, offset: int) -> bool:
        """DeleteRecords: nothing below `offset` can be read any more; its segments go with the next retention run.

        False when the log starts there or later already. OffsetOutOfRangeError above the high watermark. Loop thread.
        """
        with self._lock:
            if offset > self.high_watermark:
                raise OffsetOutOfRangeError(
                    f"{self.name}: can't delete up to {offset}, above the high watermark {self.high_watermark}"
                )
            if offset <= self.log_start_offset:
                return False
            self._set_log_start_offset(offset)
            return True

    def _set_log_start_offset(self, offset: int) -> None:
        assert offset <= self.high_watermark
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs.truncate_from_start(offset)
            self._producers.on_log_start_offset_incremented(offset)

    # --- truncation and end ---

    def truncate_to(self, offset: int) -> bool:
        """Remove all records from `offset` on (the whole batch that holds it). Loop thread, no flush or append meanwhile.

        False when the log ends there or before. KafkaStorageError: nothing was removed, or (`failure` is set then) no more than
        a part: the next start tells what.
        """
        with self._deletion_lock, self._flush_lock, self._lock:
            if offset >= self.log_end_offset:
                return False
            self._lower_recovery_point(offset)
            self.ledger.open(self._extents)
            if offset < self._segments.view[0].base_offset:
                self._start_at(offset)
                return True
            try:
                doomed = [segment for segment in self._segments.view if segment.base_offset > offset]
                self._segments.remove(doomed)
                # Durably, or a power cut brings them back behind records that get the same offsets; and from the end on, or
                # it takes one from the middle.
                for segment in reversed(doomed):
                    self._delete_files([segment], must=True)
                    self._directory.file_system.sync_directory(self._directory.path)
                active = self._segments.active
                active.activate()
                active.truncate_to(offset)
            except OSError as error:
                # The log ends somewhere before, and a sync that failed has lost what else was not on disk.
                self.failure = KafkaStorageError(f"{self.name}: truncating to {offset} failed: {error}")
                raise self.failure from error
            self._reset_ends(min(offset, max(active.base_offset, active.read_next_offset())))
            extent = self._extents()[-1]
            self.ledger.cut(
                extent.end_offset,
                active.base_offset,
                lambda: extent.end_offset - extent.base_offset - self._count(extent),
            )
            return True

    def _lower_recovery_point(self, offset: int) -> None:
        """On disk too, before other records get those offsets: recovery takes what lies below it for sound."""
        self.truncations += 1
        self.recovery_point = min(self.recovery_point, offset)
        if not self.save_recovery_point():
            raise KafkaStorageError(f"{self.name}: not truncated, the recovery point could not be written")

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Remove everything; the next record gets `offset`. Loop thread."""
        with self._deletion_lock, self._flush_lock, self._lock:
            self._lower_recovery_point(0)
            self._start_at(offset)

    def _start_at(self, offset: int) -> None:
        try:
            doomed = list(self._segments.view)
            self._delete_files(doomed, must=True)
            new = LogSegment.create(self._directory, offset, created_ms=self._time.milliseconds())
            self._segments.replace(doomed, [new])
            self._directory.file_system.sync_directory(self._directory.path)
        except OSError as error:
            self.failure = KafkaStorageError(f"{self.name}: starting anew at {offset} failed: {error}")
            raise self.failure from error
        self.log_start_offset = offset
        self._high = LogOffsetMetadata(offset, offset, 0)
        self._reset_ends(offset)
        self.ledger.start_anew(offset)

    def _reset_ends(self, end_offset: int) -> None:
        """Everything that must not pass the end comes down with it."""
        active = self._segments.active
        self._end = LogOffsetMetadata(end_offset, active.base_offset, active.size)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        if self._high.offset >= end_offset or self._high.segment_base_offset > active.base_offset:
            self._high = self._end
        self.high_watermark = self._high.offset
        self._synced = self._end
        self.recovery_point = min(self.recovery_point, end_offset)
        self.needs_sync = self.needs_sync and end_offset - self.recovery_point >= self._flush_messages
        self.log_end_offset = end_offset
        self._limits = ASK_ALWAYS
        self._epoch_is_assigned = False
        self._epochs.truncate_from_end(end_offset)
        # What is known may be of batches that are gone: it is read anew, also where the last roll was right at the new end.
        self._producers.update_map_end_offset(-1)
        replay = ProducerReplay(self._directory, self._producers, self._time)
        replay.catch_up(self._segments.view, self.log_start_offset, end_offset)
        self._producers.on_high_watermark_updated(self.high_watermark)
