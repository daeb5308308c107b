"""Retention's outlook: what it would delete now and when it will next, from memory alone. For metrics, at every scrape.

Not the decision (`plan.py`, which may open files and ask installed policies), only the two built-in rules that can be
told from sizes and times that are known, and DeleteRecords. A segment whose times were not looked at since the start ends
what can be said; the first retention run looks at the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..deletion_policy import START_OFFSET
from .plan import DELETE_POLICY

if TYPE_CHECKING:
    from ...config.log_config import LogConfig


class KnownSegment(NamedTuple):
    """Facts of a segment that are in memory."""

    next_base_offset: int
    size: int
    largest_timestamp: int
    """Largest timestamp of its records, ms; -1: it has none, or was not read yet."""
    is_active: bool


class RetentionOutlook(NamedTuple):
    """`due_bytes`: what each policy by itself would delete now. `next_due_ms`: when time alone will make the oldest of the rest
    due; None: it won't, or that is not known."""

    due_bytes: Mapping[str, int]
    next_due_ms: int | None


def outlook(
    segments: Iterable[KnownSegment],
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
) -> RetentionOutlook:
    """Foretell retention of a log from all of its segments, oldest first. Any thread; no I/O."""
    known = list(segments)
    due = {START_OFFSET.name: 0}
    for segment in known:
        if segment.is_active or segment.next_base_offset > log_start_offset:
            break
        due[START_OFFSET.name] += segment.size
    if DELETE_POLICY not in config.cleanup_policy:
        return RetentionOutlook(due, None)
    next_due_ms: int | None = None
    if "time" in config.deletion_policies and config.retention_ms >= 0:
        due["time"] = 0
        for segment in known:
            if segment.largest_timestamp < 0 or segment.next_base_offset > high_watermark:
                break
            if now_ms - segment.largest_timestamp <= config.retention_ms:
                next_due_ms = segment.largest_timestamp + config.retention_ms + 1
                break
            due["time"] += segment.size
    if "size" in config.deletion_policies and config.retention_bytes >= 0:
        due["size"] = 0
        remaining = sum(segment.size for segment in known)
        for segment in known:
            remaining -= segment.size
            if remaining < config.retention_bytes or segment.is_active or segment.next_base_offset > high_watermark:
                break
            due["size"] += segment.size
    return RetentionOutlook(due, next_due_ms)
