"""What the backup has of logs, for `tidelog why`, HTTP and the console: which segments are safe elsewhere, and since when.

Any thread: what the backup's own thread has published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...backup.cut.service import BackupService
    from ...backup.cut.status import BackupStatus, SafePartition, SafeSegment, Unsent
    from ...backup.formats.entries import Drill
    from ...storage.log.unified_log import UnifiedLog


class BackupFacts:
    """Facts of one daemon's backup."""

    def __init__(self, backup: BackupService | None) -> None:
        """None: there is no backup."""
        self._backup = backup

    def of(self, log: UnifiedLog) -> SafePartition | None:
        """What of a log is in the store; None: nothing, or there is no backup."""
        return None if self._backup is None else self._backup.safe(log.topic, log.partition)

    def segments(self, log: UnifiedLog) -> Mapping[int, SafeSegment] | None:
        """By base offset, of the segments that the log has now; None: there is no backup."""
        if self._backup is None:
            return None
        safe = self.of(log)
        if safe is None:
            return {}
        there = dict(zip(safe.ids, safe.segments, strict=True))
        found = ((segment.base_offset, there.get(segment.identity)) for segment in log.segments)
        return {base: segment for base, segment in found if segment is not None}

    def describe(self, log: UnifiedLog) -> dict[str, Any]:
        """Facts of one partition as JSON."""
        if self._backup is None:
            return {"backup": None}
        safe = self.of(log)
        if safe is None:
            return {"backup": {"cut": None, "takenMs": None, "endOffset": None}}
        return {"backup": {"cut": safe.cut, "takenMs": safe.taken_ms, "endOffset": safe.end}}


NO_BACKUP = BackupFacts(None)
"""Facts where there is none."""


def describe_segment(safe: Mapping[int, SafeSegment] | None, base_offset: int, size: int) -> dict[str, Any] | None:
    """What of a segment of `size` bytes is safe, as JSON; None: there is no backup."""
    if safe is None:
        return None
    found = safe.get(base_offset)
    if found is None:
        return {"bytes": 0, "isWhole": False, "sinceMs": None}
    return {"bytes": found.size, "isWhole": found.size >= size, "sinceMs": found.since_ms}


def describe_backup(status: BackupStatus) -> dict[str, Any]:
    """State of the whole backup as JSON."""
    progress = status.progress
    return {
        "state": status.state,
        "reason": status.reason or None,
        "store": status.store or None,
        "intervalMs": status.interval_ms,
        "lagMs": None if status.lag_ms < 0 else status.lag_ms,
        "cuts": progress.cuts,
        "lastCut": progress.number or None,
        "lastCutMs": progress.taken_ms or None,
        "logBytes": progress.logs_bytes,
        "held": [
            {"topic": topic, "partition": partition, "reason": reason, "sinceMs": since}
            for topic, partition, reason, since in progress.held
        ],
        "beforePass": [describe_unsent(one) for one in progress.passes],
        "damaged": list(progress.damaged),
        "waitsFor": [describe_unsent(one) for one in progress.waits_for],
        "drill": None if status.drills.last is None else describe_drill(status.drills.last),
        "lastGoodDrill": None if status.drills.good is None else describe_drill(status.drills.good),
        "drillIntervalMs": status.drill_interval_ms,
        "isDrillRunning": status.drills.is_running,
        "requests": {
            kind: {
                "calls": count.calls, "requests": count.requests, "bytes": count.bytes, "errors": count.errors,
                "seconds": round(count.seconds, 3),
            }
            for kind, count in status.counts.items()
        },
        "recent": [
            {
                "cut": cut.number, "takenMs": cut.taken_ms, "partitions": cut.partitions, "bytes": cut.sent_bytes,
                "seconds": cut.seconds,
            }
            for cut in progress.recent
        ],
    }  # fmt: skip


def describe_unsent(unsent: Unsent) -> dict[str, Any]:
    """Segments of one partition that are being sent, as JSON."""
    return {
        "topic": unsent.topic, "partition": unsent.partition, "sinceMs": unsent.since_ms, "bytes": unsent.bytes,
    }  # fmt: skip


def describe_drill(drill: Drill) -> dict[str, Any]:
    """One drill as JSON."""
    return {
        "cut": drill.cut,
        "takenMs": drill.taken_ms,
        "endedMs": drill.ended_ms,
        "seconds": drill.seconds,
        "partitions": drill.partitions,
        "bytes": drill.bytes,
        "damage": drill.fault or None,
    }
