"""PassHistory: running passes with their progress, and the last ended passes with their results.

A pass says what it has done as it goes (`PassResult`, whose numbers only rise); nothing is copied until somebody looks. One
cleaner thread writes to a pass, any thread reads.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .cleaning import PassResult

KEPT = 200


class PassProgress(NamedTuple):
    """Progress of a pass, in bytes: the first walk, over dirty segments, fills the map; the second, over all, filters."""

    topic: str
    partition: int
    reason: str
    started_ms: int
    mapped_bytes: int
    dirty_bytes: int
    filtered_bytes: int
    total_bytes: int
    map_entries: int

    @property
    def share(self) -> float:
        """Finished share of the bytes of both walks; 0 to 1."""
        whole = self.dirty_bytes + self.total_bytes
        return min(1.0, (self.mapped_bytes + self.filtered_bytes) / whole) if whole else 0.0


class EndedPass(NamedTuple):
    """A pass that has ended. `failure` is the error that ended it early, None on success; `result` holds the counts so
    far.
    """

    topic: str
    partition: int
    reason: str
    ended_ms: int
    failure: str | None
    result: PassResult


class RunningPass:
    """A running pass. `watch` is called by the thread that cleans; `progress` by any."""

    __slots__ = ("_dirty_bytes", "_reason", "_result", "_total_bytes", "partition", "topic")

    def __init__(self, topic: str, partition: int, reason: str, dirty_bytes: int, total_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self._reason = reason
        self._dirty_bytes = dirty_bytes
        self._total_bytes = total_bytes
        self._result: PassResult | None = None

    def watch(self, result: PassResult) -> None:
        """Note that the pass has begun, and the `result` object that it fills."""
        self._result = result

    def progress(self) -> PassProgress | None:
        """The progress now; None before the pass has begun."""
        result = self._result
        if result is None:
            return None
        return PassProgress(
            self.topic, self.partition, self._reason, result.started_ms,
            min(result.map_bytes, self._dirty_bytes), self._dirty_bytes,
            min(result.filtered_bytes, self._total_bytes), self._total_bytes, result.map_entries,
        )  # fmt: skip

    def ended(self, now_ms: int, failure: str | None) -> EndedPass | None:
        """The record of the pass to keep; None when the pass never began."""
        if self._result is None:
            return None
        return EndedPass(self.topic, self.partition, self._reason, now_ms, failure, self._result)


class PassHistory:
    """Running and ended passes. Safe from any thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self._lock = threading.Lock()
        self._running: list[RunningPass] = []
        self._ended: deque[EndedPass] = deque(maxlen=kept)

    def begin(self, topic: str, partition: int, reason: str, dirty_bytes: int, total_bytes: int) -> RunningPass:
        """Add a running pass; `end` must follow. `total_bytes` is the size that the second walk reads."""
        running = RunningPass(topic, partition, reason, dirty_bytes, total_bytes)
        with self._lock:
            self._running.append(running)
        return running

    def end(self, running: RunningPass, now_ms: int, failure: str | None = None) -> None:
        """Move a pass from the running to the ended ones. `failure` is None on success."""
        ended = running.ended(now_ms, failure)
        with self._lock:
            self._running.remove(running)
            if ended is not None:
                self._ended.append(ended)

    def running(self) -> list[PassProgress]:
        """Running passes, the oldest first."""
        with self._lock:
            running = list(self._running)
        return [progress for running_pass in running if (progress := running_pass.progress()) is not None]

    def ended(self) -> list[EndedPass]:
        """Ended passes, the last one first."""
        with self._lock:
            return list(reversed(self._ended))
