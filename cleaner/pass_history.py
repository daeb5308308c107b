"""PassHistory: the passes that run now, with how far they are, and the last ones that ended, with what they did.

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
    """How far a pass is. Bytes: a first walk over the dirty ones fills the map, a second one over all of them filters."""

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
        """Of the bytes of both walks, those that are done; 0 to 1."""
        whole = self.dirty_bytes + self.total_bytes
        return min(1.0, (self.mapped_bytes + self.filtered_bytes) / whole) if whole else 0.0


class EndedPass(NamedTuple):
    """A pass that has ended. `failure`: what ended it early, None when it was done; `result` has what it did till then."""

    topic: str
    partition: int
    reason: str
    ended_ms: int
    failure: str | None
    result: PassResult


class RunningPass:
    """One pass. `watch` is for the thread that cleans, `progress` for any."""

    __slots__ = ("_dirty_bytes", "_reason", "_result", "_total_bytes", "partition", "topic")

    def __init__(self, topic: str, partition: int, reason: str, dirty_bytes: int, total_bytes: int) -> None:
        self.topic = topic
        self.partition = partition
        self._reason = reason
        self._dirty_bytes = dirty_bytes
        self._total_bytes = total_bytes
        self._result: PassResult | None = None

    def watch(self, result: PassResult) -> None:
        """The pass has begun: `result` is what it fills."""
        self._result = result

    def progress(self) -> PassProgress | None:
        """None before it has begun."""
        result = self._result
        if result is None:
            return None
        return PassProgress(
            self.topic, self.partition, self._reason, result.started_ms,
            min(result.map_bytes, self._dirty_bytes), self._dirty_bytes,
            min(result.filtered_bytes, self._total_bytes), self._total_bytes, result.map_entries,
        )  # fmt: skip

    def ended(self, now_ms: int, failure: str | None) -> EndedPass | None:
        """What is kept of it; None when it never began."""
        if self._result is None:
            return None
        return EndedPass(self.topic, self.partition, self._reason, now_ms, failure, self._result)


class PassHistory:
    """Any thread."""

    def __init__(self, kept: int = KEPT) -> None:
        self._lock = threading.Lock()
        self._running: list[RunningPass] = []
        self._ended: deque[EndedPass] = deque(maxlen=kept)

    def begin(self, topic: str, partition: int, reason: str, dirty_bytes: int, total_bytes: int) -> RunningPass:
        """`end` must follow. `total_bytes`: what the second walk reads."""
        one = RunningPass(topic, partition, reason, dirty_bytes, total_bytes)
        with self._lock:
            self._running.append(one)
        return one

    def end(self, one: RunningPass, now_ms: int, failure: str | None = None) -> None:
        """It is over, well or not."""
        ended = one.ended(now_ms, failure)
        with self._lock:
            self._running.remove(one)
            if ended is not None:
                self._ended.append(ended)

    def running(self) -> list[PassProgress]:
        """Those that run, the oldest first."""
        with self._lock:
            running = list(self._running)
        return [found for one in running if (found := one.progress()) is not None]

    def ended(self) -> list[EndedPass]:
        """Those that ended, the last one first."""
        with self._lock:
            return list(reversed(self._ended))
