"""Which segments must go: a pure function of values. `unified_log.py` acts on the answer.

Three causes, oldest segment first, each stopping at the first segment it spares:

- **start offset**: every record lies below logStartOffset (DeleteRecords moved it). Applies to any cleanup.policy.
- **size** (retention.bytes): the log stays at least that large after the deletion, and the active segment stays.
- **time** (retention.ms): the newest record of the segment is older. Counts the file's modification time only where no
  record has a timestamp.

The causes are asked of one segment at a time, so that one call deletes all that repeated calls would. Nothing at or above
the high watermark is ever deleted. The active segment may be named (retention must work on a topic that nobody writes to
any more); the executor rolls it first. An empty one is never named: there would be nothing to gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..config.log_config import LogConfig
    from .log_values import SegmentView

DELETE_POLICY = "delete"


class DeletionReason(Enum):
    """Why, in the words of the setting that caused it."""

    START_OFFSET = "log start offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class SegmentDeletion(NamedTuple):
    """One segment that must go, and why."""

    base_offset: int
    next_base_offset: int
    size: int
    reason: DeletionReason


def deletable_segments(
    segments: Iterable[SegmentView],
    config: LogConfig,
    *,
    now_ms: int,
    log_size: int,
    log_start_offset: int,
    high_watermark: int,
) -> list[SegmentDeletion]:
    """The segments to delete now: always a prefix of `segments`, which are in offset order and sum up to `log_size`.

    `segments` is read only as far as the first one that stays, so it may be a generator over ten thousand.
    """
    by_policy = DELETE_POLICY in config.cleanup_policy
    deletions: list[SegmentDeletion] = []
    remaining = log_size
    for segment in segments:
        if segment.next_base_offset > high_watermark or (segment.is_active and segment.size == 0):
            break
        reason: DeletionReason | None = None
        if segment.next_base_offset <= log_start_offset and not segment.is_active:
            reason = DeletionReason.START_OFFSET
        elif by_policy and not segment.is_active and 0 <= config.retention_bytes <= remaining - segment.size:
            reason = DeletionReason.SIZE
        elif by_policy and 0 <= config.retention_ms < now_ms - segment.largest_timestamp:
            reason = DeletionReason.TIME
        if reason is None:
            break
        remaining -= segment.size
        deletions.append(SegmentDeletion(segment.base_offset, segment.next_base_offset, segment.size, reason))
    return deletions
