"""Gathers facts of a log's segments as values: for the decision (`eligibility.py`) and for metrics.

A list of segments is a snapshot; their files are opened by name when a fact is asked for, while retention and swaps may remove
them. A file that has gone meanwhile is no failure of the log: `read_steady` reads again with both locked out. The first try takes
no lock, since reading may take long and retention must not wait for it as a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..storage.segment import file_records
from .eligibility import NO_LIMIT_MS, SegmentFacts, first_dirty_offset

if TYPE_CHECKING:
    from ..config.log_config import LogConfig
    from ..storage.log.unified_log import UnifiedLog
    from ..storage.segment.log_segment import LogSegment
    from ..storage.values import SegmentView


COMPACT_POLICY = "compact"


class DirtySection(NamedTuple):
    """Boundary between clean and dirty part, as far as it is known in memory."""

    clean_bytes: int
    """Bytes of the clean segments, below the boundary."""
    first_timestamp: int
    """Timestamp in ms of the first dirty record: no superseded record has been kept for longer. -1: no such record, or
    not read yet.
    """


def segment_facts(segments: Sequence[LogSegment], config: LogConfig, checkpoint: int | None) -> list[SegmentFacts]:
    """Facts of each segment for `evaluate`. Reads timestamps only where the decision needs them, since that may open a
    file. OSError, StorageError.
    """
    facts = []
    # Beside what is decided on: the age of the first dirty record, for metrics.
    needs_first = config.max_compaction_lag_ms < NO_LIMIT_MS or COMPACT_POLICY in config.cleanup_policy
    needs_largest = config.min_compaction_lag_ms > 0
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        is_dirty = is_active or checkpoint is None or segments[number + 1].base_offset > checkpoint
        first = segment.first_timestamp() if is_dirty and needs_first and segment.size else -1
        if first >= 0:
            needs_first = config.max_compaction_lag_ms < NO_LIMIT_MS
        largest = segment.largest_timestamp() if is_dirty and needs_largest and not is_active else -1
        facts.append(SegmentFacts(segment.base_offset, segment.size, first, largest))
    return facts


def dirty_section(log: UnifiedLog, checkpoint: int | None) -> DirtySection:
    """The current boundary. Any thread; reads no file."""
    clean_bytes = 0
    segments = log.segments
    first_dirty, _ = first_dirty_offset(checkpoint, log.log_start_offset, log.log_end_offset)
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        if is_active or segments[number + 1].base_offset > first_dirty:
            if segment.size and (not is_active or log.log_end_offset > first_dirty):
                return DirtySection(clean_bytes, segment.known_first_timestamp)
        else:
            clean_bytes += segment.size
    return DirtySection(clean_bytes, -1)


def earliest_horizon(segment: LogSegment) -> int | None:
    """Earliest delete horizon among the batch headers of `segment`, ms. Blocks; OSError, CorruptRecordError."""
    file = segment.lease_file()
    try:
        headers: Iterable[int] = (
            header.base_timestamp
            for header in file_records.read_headers(file, 0, segment.size)
            if header.has_delete_horizon
        )
        return min(headers, default=None)
    finally:
        file.release()


T = TypeVar("T")


def read_steady(log: UnifiedLog, read: Callable[[], T]) -> T:
    """Return `read()`, which must take the log's segments itself. Any thread but the loop's. FileNotFoundError: a file
    is missing even with retention and swaps locked out.
    """
    try:
        return read()
    except FileNotFoundError:
        with log.local.steady():
            return read()


def steady_views(log: UnifiedLog) -> list[SegmentView]:
    """Facts of each segment, oldest first. Threads and errors as `read_steady`."""
    return read_steady(log, lambda: list(log.local.segment_views()))
