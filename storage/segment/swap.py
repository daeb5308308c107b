"""SegmentSwap: replaces segments by the cleaned ones made from them, as one step whatever happens meanwhile.

    prepare   1  .cleaned files are synced, then their names (and that of the ledger, which has the swap's counts)
              2  .cleaned → .swap, the last segment first, each segment's names durable before the next one's
    commit    3  the old segments' files → .deleted                               names durable
              4  .swap → live: the logs                                           names durable
              5  .swap → live: what belongs to them                               names durable
    then the log publishes its new list, and the .deleted files go

A load after a crash (`LogLoader`, passes 1 and 2) takes any `.cleaned` for "not complete: drop the swaps from here on" and a
`.log.swap` without one for "complete: finish". So step 2 goes from the last segment to the first, and since a disk may keep
the younger of two renames and lose the older, the directory is synced wherever the order matters. Step 3 before step 4: old
segments that the new ones don't overwrite must not come back when no `.swap` is left to tell on them. Step 4 before step 5:
beside a `.log.swap`, a load takes an index without `.swap` for the original's.

Readers notice nothing. The old segments' files are opened before their names change and stay open as long as anybody holds
the segment: `LogSegment.pin`. Their space is free when the last reader is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import StorageError
from ..index.time_index import TimestampOffset
from ..io.filesystem import unlink_all
from .log_segment import LogSegment
from .names import CLEANED_STAGE, DELETED_STAGE, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, SWAP_STAGE

if TYPE_CHECKING:
    from .files import LogDirectory


class CleanedSegment(NamedTuple):
    """Facts of a segment whose `.cleaned` files are written and closed: log, both indexes, trimmed, and the transaction
    index where there is one.
    """

    base_offset: int
    size: int
    """Size of the log file, in bytes."""
    first_timestamp: int
    """Largest timestamp of the first batch, ms; -1 if it has none."""
    largest: TimestampOffset
    """Largest timestamp of the records, and the last offset of its batch."""
    live: int
    """Number of records; -1 if not counted, as in a load."""


class SegmentSwap:
    """The file side of `LocalLog.replace_segments`. One thread, under the log's deletion lock. Blocks."""

    def __init__(
        self,
        directory: LogDirectory,
        new: Sequence[CleanedSegment],
        old: Sequence[LogSegment],
        *,
        has_readers: bool = True,
    ) -> None:
        """`new` and `old` are in offset order and not empty. `has_readers`: True if the log is loaded and served."""
        self._directory = directory
        self._fs = directory.file_system
        self._new = new
        self._old = old
        self._has_readers = has_readers
        self._deleted: list[str] = []

    def prepare(self) -> None:
        """Steps 1 and 2. OSError, StorageError: nothing has changed; call `discard`."""
        try:
            if self._has_readers:
                for segment in self._old:
                    segment.pin()
            for cleaned in self._new:
                for suffix in self._suffixes(cleaned.base_offset, CLEANED_STAGE):
                    file = self._fs.open(self._directory.file(cleaned.base_offset, suffix, CLEANED_STAGE))
                    try:
                        file.sync()
                    finally:
                        file.close()
            self._sync_names()
            for cleaned in reversed(self._new):
                self._rename(cleaned.base_offset, CLEANED_STAGE, SWAP_STAGE)
                self._sync_names()
        except (OSError, StorageError):
            for segment in self._old:
                segment.unpin()
            raise

    def discard(self) -> str | None:
        """Remove the new files, as far as the disk lets: the next load deals with the rest. The path of one that stays and
        that it will take for complete, whatever has become of the originals by then; None: there is none.
        """
        left = None
        for stage in (SWAP_STAGE, CLEANED_STAGE):
            if left is not None:
                break  # a load drops a `.swap` beside which a `.cleaned` says that the swap was not complete
            for cleaned in self._new:
                for suffix in SEGMENT_SUFFIXES:
                    path = self._directory.file(cleaned.base_offset, suffix, stage)
                    try:
                        self._fs.unlink(path, missing_ok=True)
                    except OSError:
                        if stage == SWAP_STAGE:
                            left = path
        return left

    def commit(self) -> None:
        """Steps 3 to 5. OSError: the next load completes the swap; nothing may be appended before."""
        kept = {cleaned.base_offset for cleaned in self._new}
        for segment in self._old:
            base_offset = segment.base_offset
            self._deleted += self._rename(base_offset, "", DELETED_STAGE)
            if base_offset not in kept:
                self._deleted += self._rename(base_offset, "", DELETED_STAGE, (SNAPSHOT_SUFFIX,))
        self._sync_names()
        for suffixes in (SEGMENT_SUFFIXES[:1], SEGMENT_SUFFIXES[1:]):
            for cleaned in self._new:
                self._rename(cleaned.base_offset, SWAP_STAGE, "", suffixes)
            self._sync_names()

    def deletion(self) -> Callable[[], None]:
        """A function that removes the old files, to be called once the new segments are published. OSError: the next
        load removes them.
        """
        # The paths, and not the segments, which live as long as somebody holds them.
        return partial(unlink_all, self._fs, self._deleted)

    def segments(self, *, created_ms: int) -> list[LogSegment]:
        """Objects for the new segments, to be published after `commit`."""
        segments = []
        for cleaned in self._new:
            segment = LogSegment(self._directory, cleaned.base_offset, created_ms=created_ms, size=cleaned.size)
            segment.was_recovered(cleaned.size, cleaned.first_timestamp, cleaned.largest)
            segment.was_synced()
            segments.append(segment)
        return segments

    def _suffixes(self, base_offset: int, stage: str) -> list[str]:
        return [s for s in SEGMENT_SUFFIXES if self._fs.exists(self._directory.file(base_offset, s, stage))]

    def _rename(
        self, base_offset: int, stage: str, new_stage: str, suffixes: Sequence[str] = SEGMENT_SUFFIXES
    ) -> list[str]:
        renamed = []
        for suffix in suffixes:
            target = self._directory.file(base_offset, suffix, new_stage)
            try:
                self._fs.rename(self._directory.file(base_offset, suffix, stage), target)
            except FileNotFoundError:
                continue  # no .txnindex, no snapshot
            renamed.append(target)
        return renamed

    def _sync_names(self) -> None:
        self._fs.sync_directory(self._directory.path)
