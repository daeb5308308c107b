"""Decides which part of a log a pass may clean now, whether a pass should run, and if not why. Pure functions of values.

    log start      first dirty          first uncleanable     active
    | clean ......... | dirty .............. | not yet ......... | ...... |

**First dirty** is the checkpoint, or the log's start where that says nothing usable: none was written, it lies before the
start (retention, DeleteRecords) or behind the end (truncation, a lost directory). **First uncleanable** is the base offset of
the first segment that must stay as it is: the active one; the one that holds the last stable offset, since a transaction that
is open may abort; the first dirty one with a record younger than min.compaction.lag.ms. Whole segments only.

A log is worth a pass when its dirty share exceeds min.cleanable.dirty.ratio, when max.compaction.lag.ms is due for a record,
or when a delete horizon is: then whatever its dirty share is, since otherwise deletion marks stay for ever in a topic that
nobody writes to any more. So it is when the last pass did not come to its end, or somebody asks for one.
`cleaner_manager.py` gathers the values and acts on the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

NO_LIMIT_MS = 2**63 - 1
"""max.compaction.lag.ms when it is not set."""


class Cause(Enum):
    """Reasons not to clean a log now, or limits of the cleanable range."""

    NOT_COMPACTED = "cleanup.policy has no compact in it"
    UNCLEANABLE = "the last pass failed"
    ACTIVE = "only the active segment is dirty"
    OPEN_TRANSACTION = "a transaction is open"
    TOO_YOUNG = "younger than min.compaction.lag.ms"
    BELOW_RATIO = "dirty share not above min.cleanable.dirty.ratio"
    CLEAN = "nothing was written since the last pass"


class Reason(Enum):
    """Reasons to clean a log now."""

    RATIO = "dirty share above min.cleanable.dirty.ratio"
    MAX_LAG = "max.compaction.lag.ms is due"
    HORIZON = "a delete horizon is due"
    INTERRUPTED = "the last pass did not come to its end"
    ASKED = "asked for"


class SegmentFacts(NamedTuple):
    """Facts of one segment for this decision. Times in ms, -1 where no record has one."""

    base_offset: int
    size: int
    first_timestamp: int
    """Largest timestamp of its first batch."""
    largest_timestamp: int
    """Largest timestamp of its records, or the file's modification time."""


@dataclass(frozen=True, slots=True)
class CleaningFacts:
    """Input of the decision. Times in ms, sizes in bytes."""

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
    interrupted_end: int | None = None
    """End offset of a pass that began to swap segments in and did not come to its end; None: there was none."""
    is_compacted: bool = True
    min_dirty_ratio: float = 0.5
    min_lag_ms: int = 0
    max_lag_ms: int = NO_LIMIT_MS
    failure: str | None = None
    """Error of the last pass, while its back-off lasts."""
    retry_ms: int | None = None
    """End of that back-off, ms since the epoch."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The decision. `reason` is set when a pass should run now, else `cause` says why not."""

    first_dirty: int
    first_uncleanable: int
    """Segments from this offset on stay as they are. May be below `first_dirty`, where a pass ended inside of a segment
    that must now stay.
    """
    clean_bytes: int
    dirty_bytes: int
    """Cleanable bytes: the segments from the one that holds `first_dirty` up to `first_uncleanable`."""
    threshold: float
    reason: Reason | None
    cause: Cause | None
    held_by: Cause
    """The limit of the range: the active segment, an open transaction, or records that are too young."""
    reset: str | None
    """Reason to ignore the checkpoint, which should then be rewritten; None when the checkpoint is valid."""
    overdue_ms: int
    """Time in ms since max.compaction.lag.ms became due for the oldest dirty record; 0 if it is not due."""
    roll_is_due: bool
    """True if max.compaction.lag.ms is due for a record of the active segment, which should then be rolled."""
    next_ms: int | None
    """Time at which the cause ends by itself; None when only an event ends it."""
    future_bytes: int = 0
    """Bytes of dirty segments that min.compaction.lag.ms holds since a record in them is dated in the future."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def first_dirty_offset(checkpoint: int | None, log_start_offset: int, log_end_offset: int) -> tuple[int, str | None]:
    """Offset at which the dirty part begins, and the reason if the checkpoint was overruled."""
    if checkpoint is None:
        return log_start_offset, None
    if checkpoint < log_start_offset:
        return log_start_offset, f"the checkpoint {checkpoint} lies before the log's start {log_start_offset}"
    if checkpoint > log_end_offset:
        return log_start_offset, f"the checkpoint {checkpoint} lies behind the log's end {log_end_offset}"
    return checkpoint, None


def evaluate(facts: CleaningFacts) -> Eligibility:
    """Decide on one log. Pure, never raises; the caller takes all facts from one snapshot."""
    first_dirty, reset = first_dirty_offset(facts.checkpoint, facts.log_start_offset, facts.log_end_offset)
    closed, active = facts.segments[:-1], facts.segments[-1]
    ends = [segment.base_offset for segment in facts.segments[1:]]
    # A segment is dirty if it ends behind the first dirty offset.
    dirty = [segment for segment, end in zip(closed, ends, strict=True) if end > first_dirty]

    limit, held_by, young_until = _limit(facts, dirty)
    cleanable = [segment for segment in dirty if segment.base_offset < limit]
    # Where the last pass ended inside of a segment, the whole segment counts as dirty.
    edge = min(first_dirty, cleanable[0].base_offset if cleanable else limit)
    clean_bytes = sum(segment.size for segment in closed if segment.base_offset < edge)
    dirty_bytes = sum(segment.size for segment in cleanable)

    due_before = facts.now_ms - facts.max_lag_ms
    oldest = min((s.first_timestamp for s in cleanable if s.first_timestamp > 0), default=None)
    overdue_ms = max(0, due_before - oldest) if oldest is not None else 0
    roll_is_due = facts.is_compacted and active.size > 0 and 0 < active.first_timestamp < due_before

    # A horizon in a segment beyond `limit` is not due: that segment can't be cleaned yet.
    horizon_ms = _earliest(*(facts.horizons.get(s.base_offset) for s in closed if s.base_offset < limit))
    has_nothing_dirty = first_dirty >= facts.log_end_offset
    reason, cause, next_ms = _verdict(
        facts,
        clean_bytes,
        dirty_bytes,
        oldest,
        horizon_ms,
        (held_by, young_until),
        has_nothing_dirty=has_nothing_dirty,
        # A pass that can't come to the interrupted one's end would not make up for it, and be asked for for ever.
        must_repeat=facts.interrupted_end is not None and facts.interrupted_end <= limit,
    )
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
        sum(segment.size for segment in dirty if segment.largest_timestamp > facts.now_ms)
        if facts.min_lag_ms > 0
        else 0,
    )


def _limit(facts: CleaningFacts, dirty: Sequence[SegmentFacts]) -> tuple[int, Cause, int | None]:
    """Offset below which segments may be cleaned, what holds it there, and until when, in ms, if it is a record's age."""
    closed, active = facts.segments[:-1], facts.segments[-1]
    limit, held_by = active.base_offset, Cause.ACTIVE
    young_until: int | None = None
    if facts.min_lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp > facts.now_ms - facts.min_lag_ms:
                limit, held_by = segment.base_offset, Cause.TOO_YOUNG
                young_until = segment.largest_timestamp + facts.min_lag_ms
                break
    stable = min(facts.last_stable_offset, facts.high_watermark)
    if stable < limit:
        # Round down to the start of the segment with the last stable offset: a pass takes whole segments.
        limit = max((s.base_offset for s in closed if s.base_offset <= stable), default=facts.log_start_offset)
        held_by = Cause.OPEN_TRANSACTION
    return limit, held_by, young_until


def _verdict(
    facts: CleaningFacts,
    clean_bytes: int,
    dirty_bytes: int,
    oldest: int | None,
    horizon_ms: int | None,
    held: tuple[Cause, int | None],
    *,
    has_nothing_dirty: bool,
    must_repeat: bool,
) -> tuple[Reason | None, Cause | None, int | None]:
    """The reason to clean, or the cause not to, and when that cause ends by itself.

    `oldest`: time of the first dirty record that may go; `held`: what holds the limit, and until when.
    """
    reason: Reason | None = None
    cause: Cause | None = None
    next_ms: int | None = None
    total = clean_bytes + dirty_bytes
    ratio = dirty_bytes / total if total else 0.0
    if not facts.is_compacted:
        cause = Cause.NOT_COMPACTED
    elif facts.failure is not None:
        cause, next_ms = Cause.UNCLEANABLE, facts.retry_ms
    elif dirty_bytes and oldest is not None and oldest < facts.now_ms - facts.max_lag_ms:
        reason = Reason.MAX_LAG
    elif ratio > facts.min_dirty_ratio:
        reason = Reason.RATIO
    elif must_repeat:
        reason = Reason.INTERRUPTED
    elif horizon_ms is not None and horizon_ms <= facts.now_ms:
        reason = Reason.HORIZON
    elif dirty_bytes:
        cause = Cause.BELOW_RATIO
        is_limited = oldest is not None and facts.max_lag_ms < NO_LIMIT_MS
        next_ms = _earliest(horizon_ms, oldest + facts.max_lag_ms + 1 if oldest is not None and is_limited else None)
    elif has_nothing_dirty:
        cause, next_ms = Cause.CLEAN, horizon_ms
    else:
        cause, young_until = held
        next_ms = _earliest(horizon_ms, young_until if cause is Cause.TOO_YOUNG else None)
    return reason, cause, next_ms


def _earliest(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)
