"""Conditions for closing the active segment and beginning a new one: a pure function of values. `local_log.py` acts on it."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ..values import MAX_RELATIVE_OFFSET


class RollReason(Enum):
    """The condition that asks for a new segment."""

    SIZE = "segment.bytes"
    TIME = "segment.ms"
    INDEX_FULL = "segment.index.bytes"
    OFFSET_RANGE = "offset range"


class RollParams(NamedTuple):
    """All that the decision to roll depends on. Times in ms, sizes in bytes."""

    segment_size: int
    batch_size: int
    max_segment_bytes: int
    first_timestamp: int
    """Largest timestamp of the segment's first batch, -1 where it has none."""
    created_ms: int
    max_timestamp_in_messages: int
    now_ms: int
    roll_after_ms: int
    """segment.ms less the segment's own jitter."""
    index_is_full: bool
    base_offset: int
    last_offset: int


def roll_reason(params: RollParams) -> RollReason | None:
    """Decide why the batch must go to a new segment; None: it need not.

    Time compares the segment's first timestamp with the newest message, not with the clock: a replay of old data rolls as it
    did when it was new. Only where the first batch has no timestamp the segment's own age counts. Rolling an empty segment
    would gain nothing but for an offset that its indexes cannot express.
    """
    if params.last_offset - params.base_offset > MAX_RELATIVE_OFFSET:
        return RollReason.OFFSET_RANGE
    if params.segment_size == 0:
        return None
    if params.segment_size > params.max_segment_bytes - params.batch_size:
        return RollReason.SIZE
    if params.first_timestamp >= 0:
        waited = params.max_timestamp_in_messages - params.first_timestamp
    else:
        waited = params.now_ms - params.created_ms
    if waited > params.roll_after_ms:
        return RollReason.TIME
    return RollReason.INDEX_FULL if params.index_is_full else None


def is_due_without_write(first_timestamp: int, created_ms: int, now_ms: int, roll_after_ms: int) -> bool:
    """True if the time rule holds for a segment that nobody writes to: the clock stands in for the newest message.

    A first record without a timestamp, or with one that lies in the future, says nothing: then the segment's own age counts.
    """
    began = first_timestamp if 0 <= first_timestamp <= now_ms else created_ms
    return now_ms - began > roll_after_ms


class RollLimits(NamedTuple):
    """Limits within which no condition but a full index asks for a roll: a check of three integers per append.

    Follows from the same facts as `RollParams`. `roll_reason` is asked about what lies outside of the limits, and has
    the last word.
    """

    segment_size: int
    """Largest size of the segment with the batch."""
    timestamp: int
    """Largest timestamp; below any where the time that passed has to be asked each time."""
    last_offset: int


ASK_ALWAYS = RollLimits(-1, -2, -1)


def roll_limits(params: RollParams) -> RollLimits:
    """The limits for a segment that holds a batch; an empty one has none yet."""
    if params.segment_size == 0 or params.first_timestamp < 0:
        return ASK_ALWAYS
    return RollLimits(
        params.max_segment_bytes,
        params.first_timestamp + params.roll_after_ms,
        params.base_offset + MAX_RELATIVE_OFFSET,
    )
