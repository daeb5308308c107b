"""ProcessCounts: the processes of a cleaner's passes in numbers. Kept by the pool, so that a daemon knows them before its first
pass, which is when it imports `process/`.
"""

from __future__ import annotations

import threading
from enum import Enum

from ..storage.io.platform import resident_bytes


class Trouble(Enum):
    """Why a process failed its pass. The values are a metric's label."""

    START = "start"
    """It could not be started."""
    END = "end"
    """It has ended: it was killed, or has met a defect."""
    SILENCE = "silence"
    """It has said nothing for long, and was killed."""
    NONSENSE = "nonsense"
    """It has said what it can't mean, and was killed."""


class ProcessCounts:
    """Any thread. Attributes:

    started: processes so far.
    cpu_s: processor time in seconds that they have told of.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._troubles = dict.fromkeys(Trouble, 0)
        self.started = 0
        self.cpu_s = 0.0

    def began(self, pid: int) -> None:
        """Count a process that was started."""
        with self._lock:
            self.started += 1
            self._pids.add(pid)

    def ended(self, pid: int) -> None:
        """Take note of its end."""
        with self._lock:
            self._pids.discard(pid)

    def met(self, trouble: Trouble) -> None:
        """Count a trouble."""
        with self._lock:
            self._troubles[trouble] += 1

    def used(self, cpu_s: float) -> None:
        """Add processor time."""
        with self._lock:
            self.cpu_s += cpu_s

    @property
    def pids(self) -> list[int]:
        """Process ids of those that are there."""
        with self._lock:
            return sorted(self._pids)

    @property
    def troubles(self) -> dict[Trouble, int]:
        """How often each has come."""
        with self._lock:
            return dict(self._troubles)

    @property
    def resident_bytes(self) -> int:
        """Memory of those that are there, all together; 0 where the system does not say."""
        return sum(resident_bytes(pid) for pid in self.pids)
