"""Which part of a log a pass may clean now, whether it should, and if not why: a pure function of values.

    log start      first dirty          first uncleanable     active
    | clean ......... | dirty .............. | not yet ......... | ...... |

**First dirty** is the checkpoint, or the log's start where that says nothing usable: none was written, it lies before the
start (retention, DeleteRecords) or behind the end (truncation, a lost directory). **First uncleanable** is the base offset of
the first segment that must stay as it is: the active one; the one that holds the last stable offset, since a transaction that
is open may abort; the first dirty one with a record younger than min.compaction.lag.ms. Whole segments only.

A log is worth a pass when its dirty share exceeds min.cleanable.dirty.ratio, when max.compaction.lag.ms is due for a record,
or when a delete horizon is: then whatever its dirty share is, since otherwise deletion marks stay for ever in a topic that
nobody writes to any more. `cleaner_manager.py` gathers the values and acts on the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

NO_LIMIT_MS = 2**63 - 1
"""max.compaction.lag.ms when it is not set."""


class Cause(Enum):
    """Why a log is not cleaned now, or what ends the range that could be."""

    NOT_COMPACTED = "cleanup.policy has no compact in it"
    UNCLEANABLE = "the last pass failed"
    ACTIVE = "only the active segment is dirty"
    OPEN_TRANSACTION = "a transaction is open"
    TOO_YOUNG = "younger than min.compaction.lag.ms"
    BELOW_RATIO = "dirty share not above min.cleanable.dirty.ratio"
    CLEAN = "nothing was written since the last pass"


class Reason(Enum):
    """Why a log is cleaned now."""

    RATIO = "dirty share above min.cleanable.dirty.ratio"
    MAX_LAG = "max.compaction.lag.ms is due"
    HORIZON = "a delete horizon is due"
    INTERRUPTED = "the last pass did not come to its end"
    ASKED = "asked for"


class SegmentFacts(NamedTuple):
    """One segment as far as this decision goes. Times in ms, -1 where no record has one."""

    base_offset: int
    size: int
    first_timestamp: int
    """Largest timestamp of its first batch."""
    largest_timestamp: int
    """Of its records, or the file's modification time."""


@dataclass(frozen=True, slots=True)
class CleaningFacts:
    """All that the decision depends on. Times in ms, sizes in bytes."""

    segments: Sequence[SegmentFacts]
    """Oldest first; the last one is active."""
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    high_watermark: int
    checkpoint: int | None
    """First dirty offset as the last pass left it, None where there was none."""
    now_ms: int
    horizons: Mapping[int, int] = field(default_factory=dict)
    """Base offset of a segment → the earliest delete horizon in it."""
    was_interrupted: bool = False
    """A pass began to swap segments in and did not come to its end."""
    is_compacted: bool = True
    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = NO_LIMIT_MS
    failure: str | None = None
    """What the last pass died of, while its back-off lasts."""
    retry_ms: int | None = None
    """When that back-off ends."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The answer. `reason` is set when a pass should run now, else `cause` says why not."""

    first_dirty: int
    first_uncleanable: int
    """No segment from here on is touched. Below `first_dirty` where a pass ended within a segment that must now stay."""
    clean_bytes: int
    dirty_bytes: int
    """Cleanable ones: those of the segments from the one that holds `first_dirty` up to `first_uncleanable`."""
    threshold: float
    reason: Reason | None
    cause: Cause | None
    held_by: Cause
    """What ends the range: the active segment, an open transaction, or records that are too young."""
    reset: str | None
    """Why the checkpoint was not taken at its word; it should be written back then."""
    overdue_ms: int
    """For how long max.compaction.lag.ms has been due for the oldest dirty record; 0: it is not."""
    roll_is_due: bool
    """The active segment holds a record for which max.compaction.lag.ms is due: it should be rolled."""
    next_ms: int | None
    """When the cause will be gone by time alone; None when only an event can do that."""
    future_bytes: int = 0
    """Of dirty segments that min.compaction.lag.ms holds since a record in them is dated in the future."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def first_dirty_offset(checkpoint: int | None, log_start_offset: int, log_end_offset: int) -> tuple[int, str | None]:
    """Where the dirty part begins, and why the checkpoint was overruled if it was."""
    if checkpoint is None:
        return log_start_offset, None
    if checkpoint < log_start_offset:
        return log_start_offset, f"the checkpoint {checkpoint} lies before the log's start {log_start_offset}"
    if checkpoint > log_end_offset:
        return log_start_offset, f"the checkpoint {checkpoint} lies behind the log's end {log_end_offset}"
    return checkpoint, None


def evaluate(facts: CleaningFacts) -> Eligibility:
    """What to do with this log now. Never raises; the caller has the facts from one snapshot."""
    first_dirty, reset = first_dirty_offset(facts.checkpoint, facts.log_start_offset, facts.log_end_offset)
    closed, active = facts.segments[:-1], facts.segments[-1]
    ends = [segment.base_offset for segment in facts.segments[1:]]
    # Only what ends behind the first dirty offset is dirty.
    dirty = [segment for segment, end in zip(closed, ends, strict=True) if end > first_dirty]

    limit, held_by = active.base_offset, Cause.ACTIVE
    young_until: int | None = None
    future_bytes = 0
    if facts.min_lag_ms > 0:
        future_bytes = sum(segment.size for segment in dirty if segment.largest_timestamp > facts.now_ms)
        for segment in dirty:
            if segment.largest_timestamp > facts.now_ms - facts.min_lag_ms:
                limit, held_by = segment.base_offset, Cause.TOO_YOUNG
                young_until = segment.largest_timestamp + facts.min_lag_ms
                break
    stable = min(facts.last_stable_offset, facts.high_watermark)
    if stable < limit:
        # Round down to the segment that holds it: a pass takes segments as a whole.
        limit = max((s.base_offset for s in closed if s.base_offset <= stable), default=facts.log_start_offset)
        held_by = Cause.OPEN_TRANSACTION
    cleanable = [segment for segment in dirty if segment.base_offset < limit]
    # A segment that a pass left in its middle is dirty as a whole.
    edge = min(first_dirty, cleanable[0].base_offset if cleanable else limit)
    clean_bytes = sum(segment.size for segment in closed if segment.base_offset < edge)
    dirty_bytes = sum(segment.size for segment in cleanable)

    due_before = facts.now_ms - facts.max_lag_ms
    oldest = min((s.first_timestamp for s in cleanable if s.first_timestamp > 0), default=None)
    overdue_ms = max(0, due_before - oldest) if oldest is not None else 0
    roll_is_due = facts.is_compacted and active.size > 0 and 0 < active.first_timestamp < due_before

    reason, cause, next_ms = None, None, None
    total = clean_bytes + dirty_bytes
    ratio = dirty_bytes / total if total else 0.0
    # What lies in segments that must stay is due when they needn't any more.
    horizon_ms = _earliest(*(facts.horizons.get(s.base_offset) for s in closed if s.base_offset < limit))
    if not facts.is_compacted:
        cause = Cause.NOT_COMPACTED
    elif facts.failure is not None:
        cause, next_ms = Cause.UNCLEANABLE, facts.retry_ms
    elif dirty_bytes and overdue_ms:
        reason = Reason.MAX_LAG
    elif ratio > facts.min_dirty_ratio:
        reason = Reason.RATIO
    elif facts.was_interrupted:
        reason = Reason.INTERRUPTED
    elif horizon_ms is not None and horizon_ms <= facts.now_ms:
        reason = Reason.HORIZON
    elif dirty_bytes:
        cause = Cause.BELOW_RATIO
        is_limited = oldest is not None and facts.max_lag_ms < NO_LIMIT_MS
        next_ms = _earliest(horizon_ms, oldest + facts.max_lag_ms + 1 if oldest is not None and is_limited else None)
    elif first_dirty >= facts.log_end_offset:
        cause, next_ms = Cause.CLEAN, horizon_ms
    else:
        cause = held_by
        next_ms = _earliest(horizon_ms, young_until if held_by is Cause.TOO_YOUNG else None)
    return Eligibility(
        first_dirty,
        limit,
        clean_bytes,
        dirty_bytes,
        facts.min_dirty_ratio,
        reason,
        cause,
        held_by,
        reset,
        overdue_ms,
        roll_is_due,
        next_ms,
        future_bytes,
    )


def _earliest(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)
