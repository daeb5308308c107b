"""LogRecovery: pass 4 of a load: what may not have reached the disk is checked, and what is damaged is cut, or becomes a hole.

                     recovery point
    |  durable once        |  perhaps never durable
    |  damage is rot:      |  damage is what a crash left: the log ends there, and what lies behind goes,
    |  a hole (`hole.py`)  |  with a WARNING if any of that is sound

Where the recovery point is not known, damage with sound segments behind it counts as rot. The log never ends below its
recovery point: what is missing up to there is a hole, too. log.damage.policy=stop has the start fail instead of making a
hole; with `kafka` the log is cut at the damage wherever it lies. Design: docs/adr/0051-damage.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.exceptions import CorruptRecordError
from ..exceptions import CorruptIndexError
from ..segment import scan as segment_scan
from ..segment.damage import Damage, SegmentReader, leader_epochs, tail_of
from ..segment.hole import (
    HOLE,
    KAFKA,
    POLICY_SETTING,
    DamagedLogError,
    examine,
    note_missing,
    put_aside,
    stop_if_told_to,
)
from ..segment.log_segment import LogSegment
from ..segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, Hole, LogFileName
from ..values import MAX_RELATIVE_OFFSET, RecoveryStats

if TYPE_CHECKING:
    from ...protocol.records._kernel import BatchScanner
    from ..producers.replay import ProducerReplay
    from ..segment.damage import Tail
    from ..segment.files import LogDirectory
    from .leader_epoch import LeaderEpochCache

logger = logging.getLogger(__name__)

_NO_GAP = 1 << 48
"""Offsets between two batches that no cleaning leaves: nobody writes so many records into one log."""
_OFFSETS_CONTRADICT = ("offsets out of order", "offset too far from the segment's base offset")


class Progress(NamedTuple):
    """Progress of recovery: `total(n)` announces n more bytes to read, `done(n)` says that they were read. Any thread."""

    total: Callable[[int], None]
    done: Callable[[int], None]


NO_PROGRESS = Progress(lambda _bytes: None, lambda _bytes: None)


class Promise(NamedTuple):
    """Facts about a log from checkpoints, outside of its segments.

    Attributes:
        recovery_point: what lies below was durable; None: not known.
        gaps_below: compaction has not been at or above it: a gap between segments there is of records that are gone.
        cleaned: a gap below it is compaction's.
        policy: log.damage.policy.
    """

    recovery_point: int | None = None
    gaps_below: int = 0
    cleaned: int = 0
    policy: str = HOLE


class Verdict(NamedTuple):
    """Decision about a segment that was read: sound (neither), with holes, or the one that the log ends in."""

    rot: tuple[Damage, ...] = ()
    """Stretches that were durable once, and become holes."""
    cut: Damage | None = None
    """Position at which the log ends."""


SOUND = Verdict()


class LogRecovery:
    """Recovery of one log at its load; one thread. Blocks. OSError, DamagedLogError.

    Attributes:
        holes: known and new ones, in the order of their offsets.
        stats: what it cost and found.
    """

    def __init__(
        self,
        directory: LogDirectory,
        promise: Promise,
        holes: Iterable[Hole],
        log_start_offset: int,
        progress: Progress,
    ) -> None:
        """`holes`: those that there are files of."""
        self._directory = directory
        self._fs = directory.file_system
        self._promise = promise
        self._log_start_offset = log_start_offset
        self._progress = progress
        self._holes = set(holes)
        self.stats = RecoveryStats()

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(sorted(self._holes, key=lambda hole: hole.first_offset))

    # --- files that are not there ---

    def look_for_lost_files(self, segments: Sequence[LogSegment], files: Iterable[LogFileName]) -> None:
        """An index without its log, or beside an empty one, tells of a segment that was there: so a gap before the next one is
        a hole. After an unclean stop that is seen anyway from the recovery point on."""
        if not segments:
            return
        sizes = {segment.base_offset: segment.size for segment in segments}
        for base in sorted(
            {file.base_offset for file in files if file.suffix == OFFSET_INDEX_SUFFIX and not file.stage}
        ):
            if sizes.get(base, 0) or not segments[0].base_offset <= base < segments[-1].base_offset:
                continue
            before = max((s for s in segments if s.base_offset <= base), key=lambda s: s.base_offset)
            following = min((s for s in segments if s.base_offset > base), key=lambda s: s.base_offset)
            if base in sizes and not self._has_entries(base):
                continue
            try:
                end_offset = before.read_next_offset()
            except CorruptRecordError:
                continue  # this damage is told where it is met
            finally:
                before.abandon()
            end_offset = max(end_offset, self._log_start_offset)
            if end_offset < following.base_offset and self._is_loss(end_offset, following.base_offset):
                self._tell_missing(end_offset, following.base_offset, f"segment {base} is missing")
            if base in sizes:
                self._drop_indexes(before)

    def _drop_indexes(self, segment: LogSegment) -> None:
        """Remove the indexes of an empty closed segment: they name records that are gone."""
        segment.abandon()
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            self._fs.unlink(self._directory.file(segment.base_offset, suffix), missing_ok=True)

    def _has_entries(self, base_offset: int) -> bool:
        index, _ = self._directory.indexes(base_offset, writable=False)
        try:
            return index.entries > 0
        except (FileNotFoundError, CorruptIndexError):
            return False
        finally:
            index.close_map()

    def lift_end(self, segments: list[LogSegment], end_offset: int | None, now_ms: int) -> int | None:
        """The log's end, not below its recovery point: an offset that was durable is not given out again."""
        point = self._promise.recovery_point
        first = max(self._log_start_offset, -1 if end_offset is None else end_offset)
        if point is None or point <= first or self._promise.policy == KAFKA:
            return end_offset
        if not any(hole.first_offset <= first and hole.last_offset >= point - 1 for hole in self._holes):
            what = "there is no segment" if end_offset is None else f"the log ends at offset {end_offset}"
            self._tell_missing(first, point, what)
        if end_offset is None or end_offset < self._log_start_offset:
            # The log still begins where it did: what is kept of the hole goes when retention comes there, not at once.
            self.remove(segments, list(segments))
            segments.append(LogSegment.create(self._directory, first, created_ms=now_ms))
        segments.append(LogSegment.create(self._directory, point, created_ms=now_ms))
        return point

    def _is_loss(self, offset: int, next_offset: int) -> bool:
        """True if offsets that are missing between two segments were lost, and no hole says so yet."""
        if offset < self._promise.cleaned or "compact" in self._directory.config.cleanup_policy:
            return False
        return not self._is_known(offset, next_offset)

    def _is_known(self, offset: int, next_offset: int) -> bool:
        return any(hole.first_offset <= offset and hole.last_offset >= next_offset - 1 for hole in self._holes)

    def _tell_missing(self, first: int, end: int, what: str) -> None:
        if self._promise.policy == KAFKA:
            return
        self._stop_if_told_to(f"{what}: offsets {first} to {end - 1} are missing, and were durable")
        hole = Hole(first, 0, first, end - 1)
        note_missing(self._fs, self._directory.path, hole, what)
        self._holes.add(hole)

    def _stop_if_told_to(self, problem: str) -> None:
        stop_if_told_to(self._promise.policy, self._directory.path, problem)

    # --- segments ---

    def recover(
        self,
        segments: list[LogSegment],
        first: int,
        replay: ProducerReplay,
        epochs: LeaderEpochCache,
        split: Callable[[list[LogSegment], LogSegment, int], list[LogSegment]],
    ) -> int:
        """Check everything from segment number `first` on; returns the offset where the log ends. Shortens `segments`."""
        suspects = segments[first:]
        self._progress.total(sum(segment.size for segment in suspects))
        replay.catch_up(segments[:first], self._log_start_offset, suspects[0].base_offset)
        end_offset = suspects[0].base_offset
        for index, segment in enumerate(suspects):
            distance = segment.base_offset - suspects[index - 1].base_offset if index else 0
            if index and not self._goes_on(end_offset, segment.base_offset, distance):
                # The segment before lost its end, exactly between two batches: what follows was never promised to anybody.
                self._cut_segments(segments, suspects[index:], end_offset, "the end of the segment before is missing")
                break
            size = segment.size
            replay.begin_segment(segment.base_offset)
            scanner = self._scan(segment, replay, self._progress.done)
            verdict = self._judge(segment, scanner, suspects[index + 1 :])
            if verdict.rot or (verdict.cut is not None and verdict.cut.position != scanner.valid_bytes):
                self._mend(segment, verdict, suspects[index + 1 :])
                earlier = segments[: segments.index(segment)]
                replay.restart_segment(earlier, self._log_start_offset, segment.base_offset)
                scanner = self._scan(segment, replay, None)
                if scanner.valid_bytes < segment.size and not scanner.is_too_wide:
                    raise DamagedLogError(
                        self._directory.file(segment.base_offset, LOG_SUFFIX),
                        f"damaged in a way that recovery can't mend ({scanner.stopped} at {scanner.valid_bytes})",
                        f"restore it from a copy, or set {POLICY_SETTING}={KAFKA} to cut the log there",
                    )
            parts: list[LogSegment] = []
            if scanner.is_too_wide and (verdict.cut is None or scanner.valid_bytes < verdict.cut.position):
                parts = split(segments, segment, scanner.valid_bytes)
                suspects[index + 1 : index + 1] = parts
            end_offset = scanner.next_offset
            self._finish(segment, scanner, epochs)
            removed = size - verdict.cut.position if verdict.cut is not None else 0
            is_last = segment is suspects[-1] or (verdict.cut is not None and not parts)
            replay.end_segment(end_offset, is_last=is_last)
            self.stats = self.stats.plus(
                RecoveryStats(
                    segments_recovered=1,
                    bytes_scanned=scanner.valid_bytes,
                    bytes_truncated=removed,
                    holes=len(verdict.rot),
                )
            )
            if verdict.cut is not None:
                self._progress.done(removed)
                logger.info(
                    "%s: cut at offset %d, position %d of segment %d (%s): %d bytes",
                    self._directory.path,
                    end_offset,
                    scanner.valid_bytes,
                    segment.base_offset,
                    verdict.cut.reason,
                    removed,
                )
                behind = index + 1 + len(parts)
                self._cut_segments(segments, suspects[behind:], end_offset, verdict.cut.reason)
                del suspects[behind:]
        return end_offset

    def _goes_on(self, end_offset: int, base_offset: int, distance: int) -> bool:
        """True if the next segment belongs to the log, which ends at `end_offset` before it."""
        # No segment has more offsets than its indexes can say: a wider gap is not the lost end of one.
        if base_offset == end_offset or distance > MAX_RELATIVE_OFFSET + 1:
            return True
        if base_offset <= self._log_start_offset:
            return True  # what is missing was deleted, and so was what is there before it: a disk that failed has kept that
        point = self._promise.recovery_point
        if point is not None and end_offset >= max(point, self._promise.cleaned):
            return end_offset < self._promise.gaps_below
        if end_offset < base_offset and self._is_loss(end_offset, base_offset):
            self._tell_missing(end_offset, base_offset, f"the log breaks off before segment {base_offset}")
        return True

    def _scan(
        self, segment: LogSegment, replay: ProducerReplay, on_progress: Callable[[int], None] | None
    ) -> BatchScanner:
        return segment_scan.scan_segment(
            self._directory,
            segment,
            check_crc=True,
            on_batch=replay.add,
            on_progress=on_progress,
            durable_below=self._promise.recovery_point or 0,
        )

    def _finish(self, segment: LogSegment, scanner: BatchScanner, epochs: LeaderEpochCache) -> None:
        segment_scan.cut_log(self._directory, segment, scanner.valid_bytes)
        segment_scan.write_indexes(self._directory, segment, scanner, durable=False)
        segment.was_recovered(
            scanner.valid_bytes,
            scanner.first_timestamp,
            segment_scan.largest_timestamp(scanner, segment.base_offset),
        )
        latest = epochs.latest_epoch
        if latest is not None and scanner.leader_epoch <= latest:
            return  # nothing that isn't known
        for epoch, start_offset in self._epochs_of(segment, scanner):
            latest = epochs.latest_epoch
            if latest is None or epoch > latest:
                epochs.assign(epoch, start_offset)

    def _epochs_of(self, segment: LogSegment, scanner: BatchScanner) -> Iterable[tuple[int, int]]:
        """The leader epochs of its batches. No checksum covers them: a damaged one must not become the log's."""
        tail = self._tail(segment, scanner)
        if tail is None or tail.leader_epoch == scanner.leader_epoch:
            return scanner.leader_epochs
        file = self._directory.open_log(segment.base_offset, writable=False)
        try:
            return leader_epochs(file, scanner.valid_bytes)
        finally:
            file.close()

    def _tail(self, segment: LogSegment, scanner: BatchScanner) -> Tail | None:
        file = self._directory.open_log(segment.base_offset, writable=False)
        try:
            return tail_of(file, scanner.valid_bytes, segment.base_offset, scanner.offset_index_entries)
        finally:
            file.close()

    # --- damage ---

    def _judge(self, segment: LogSegment, scanner: BatchScanner, later: Sequence[LogSegment]) -> Verdict:
        """Decide which damage of the segment is rot, and where the log is to be cut in it."""
        limit = later[0].base_offset if later else None
        torn = scanner.stopped is not None or scanner.valid_bytes < segment.size
        contradicts = scanner.stopped in _OFFSETS_CONTRADICT or (limit is not None and scanner.next_offset > limit)
        has_gaps = scanner.record_count < scanner.next_offset - segment.base_offset
        if limit is None and not contradicts and has_gaps:
            tail = self._tail(segment, scanner)
            if tail is not None and tail.base_offset > tail.expected:
                contradicts = self._must_follow(tail.expected, tail.base_offset, tail.last_offset)
        if not torn and not contradicts:
            return SOUND
        here = Damage(
            scanner.valid_bytes, segment.size, scanner.next_offset, -1, scanner.stopped or "a batch is cut off"
        )
        is_torn_too_wide = limit is None and scanner.is_too_wide and self._has_no_offset(segment, scanner)
        if is_torn_too_wide or (not contradicts and not self._is_rot(scanner.next_offset, later)):
            return Verdict((), here)  # as a crash leaves it
        found = examine(self._directory, segment, limit, self._must_follow)
        rot: list[Damage] = []
        for damage in found:
            if self._promise.policy == KAFKA or not self._is_rot(damage.first_offset, later):
                return Verdict(tuple(rot), damage)
            rot.append(damage)
        if not found and torn and not scanner.is_too_wide:
            return Verdict((), here)
        return Verdict(tuple(rot), None)

    def _has_no_offset(self, segment: LogSegment, scanner: BatchScanner) -> bool:
        """True if the batch behind what is valid, which was not known to be durable, says that it begins where no log comes to.

        No checksum covers that: a power cut may have taken the sector that it stands in, and nothing else of the batch.
        """
        point = self._promise.recovery_point
        if point is None or scanner.next_offset < point:
            return False
        file = self._directory.open_log(segment.base_offset, writable=False)
        try:
            found = SegmentReader(file, file.size()).batch_at(scanner.valid_bytes)
        finally:
            file.close()
        return isinstance(found, str) or found.base_offset - scanner.next_offset > _NO_GAP

    def _is_rot(self, offset: int, later: Sequence[LogSegment]) -> bool:
        """True if damage that begins at that offset can't come from a crash."""
        point = self._promise.recovery_point
        return offset < point if point is not None else any(map(self._begins_soundly, later))

    def _begins_soundly(self, segment: LogSegment) -> bool:
        file = self._directory.open_log(segment.base_offset, writable=False)
        try:
            size = file.size()
            return size > 0 and not isinstance(SegmentReader(file, size).batch_at(0), str)
        finally:
            file.close()

    def _must_follow(self, expected: int, base_offset: int, last_offset: int) -> bool:
        """True if the log's last batch, which says it begins at `base_offset`, must begin at `expected`.

        A gap is not enough: compaction leaves some, and so does a hole whose file is gone since somebody took note of it.
        """
        if any(hole.first_offset <= expected <= hole.last_offset for hole in self._holes):
            return False
        point, cleaned = self._promise.recovery_point, self._promise.cleaned
        if "compact" not in self._directory.config.cleanup_policy:
            is_dense = expected >= cleaned
        else:
            is_dense = expected >= self._promise.gaps_below or (point is not None and cleaned <= expected < point)
        if not is_dense:
            return False
        if point is not None and expected < point:
            # Something ends at the recovery point, and no batch goes across it: what begins below ends there.
            return expected + (last_offset - base_offset + 1) == point
        return (expected ^ base_offset).bit_count() == 1

    def _mend(self, segment: LogSegment, verdict: Verdict, later: Sequence[LogSegment]) -> None:
        size = segment.size if verdict.cut is None else verdict.cut.position
        if not verdict.rot:
            segment_scan.cut_log(self._directory, segment, size)
            segment.size = size
            return
        self._stop_if_told_to(
            f"{len(verdict.rot)} damaged places in segment {segment.base_offset}, the first at position "
            f"{verdict.rot[0].position} ({verdict.rot[0].reason}), though they were durable"
        )
        holes = [self._hole(segment, damage, later) for damage in verdict.rot]
        put_aside(self._directory, segment, verdict.rot, holes, size)
        self._holes.update(holes)
        for hole, damage in zip(holes, verdict.rot, strict=True):
            logger.warning(
                "%s: bytes %d to %d of segment %d are damaged (%s) though they were durable: offsets %d to %d are a hole "
                "now, and the bytes are kept in %s",
                self._directory.path,
                damage.position,
                damage.end - 1,
                segment.base_offset,
                damage.reason,
                hole.first_offset,
                hole.last_offset,
                hole.name,
            )

    def _hole(self, segment: LogSegment, damage: Damage, later: Sequence[LogSegment]) -> Hole:
        first, end = damage.first_offset, damage.next_offset
        if end < 0:
            end = later[0].base_offset if later else self._promise.recovery_point or 0
        return Hole(segment.base_offset, damage.position, first, max(first, end - 1))

    # --- removal ---

    def _cut_segments(
        self, segments: list[LogSegment], doomed: Sequence[LogSegment], end_offset: int, reason: str
    ) -> None:
        if not doomed:
            return
        logger.warning(
            "%s: the log ends at offset %d (%s): %d segments behind go with all that is in them, from offset %d on, %d bytes",
            self._directory.path,
            end_offset,
            reason,
            len(doomed),
            doomed[0].base_offset,
            sum(segment.size for segment in doomed),
        )
        self.remove(segments, doomed)

    def remove(self, segments: list[LogSegment], doomed: Sequence[LogSegment]) -> None:
        """Take segments out of the log and the directory, durably."""
        for segment in doomed:
            self._progress.done(segment.size)
            segment.abandon(for_good=True)  # looking for its end has opened it
            for suffix in SEGMENT_SUFFIXES:
                self._fs.unlink(self._directory.file(segment.base_offset, suffix), missing_ok=True)
            segments.remove(segment)
        if doomed:
            # Durably, or a power cut brings them back behind records that get the same offsets.
            self._fs.sync_directory(self._directory.path)
        self.stats = self.stats._replace(segments_removed=self.stats.segments_removed + len(doomed))
