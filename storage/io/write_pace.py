"""WritePace: tells whether a data directory takes writes quickly, from the time that each append's write took.

    quick  -- a write of SLOW_S or longer -->                                           slow
    slow   -- a quick write, QUIET_S or more after the end of the last slow one -->     quick

An append only copies into the page cache, microseconds, unless the system makes the writer wait: too many dirty pages, a
full journal, a disk that hangs. Appends go another way while the directory is slow (`broker/partitions/append_offload.py`).
The one thing that shows that it is quick again is a write, so a directory to which nothing is written stays as it is.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

SLOW_S = 0.1
"""Longest write, in seconds, that counts as quick. All clients wait while an append on the loop thread writes."""

QUIET_S = 10.0
"""Seconds without a slow write after which a directory is quick again. Kernels write dirty pages back every 5 s: one
quick round tells little, two tell enough.
"""


def _nobody() -> None:
    pass


class WritePace:
    """Pace of one data directory. `note` is called by the thread that wrote, one at a time per log; any thread reads.

    Attributes:
        clock: seconds, monotonic; for the code that measures.
        notice_s: a write that took longer than this has to be noted; others need not be.
        is_slow: see above.
        slow_writes: writes of SLOW_S or longer since the start.
        longest_s: the longest write since `take_longest`.
        on_slow: called by `note` when the directory has become slow, in the thread that wrote.
    """

    __slots__ = ("_last_slow", "_path", "clock", "is_slow", "longest_s", "notice_s", "on_slow", "slow_writes")

    def __init__(self, path: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self.clock = clock
        self.notice_s = 0.0
        self.is_slow = False
        self.slow_writes = 0
        self.longest_s = 0.0
        self.on_slow: Callable[[], None] = _nobody
        self._last_slow = 0.0

    def note(self, took_s: float) -> None:
        """Record a write that has just ended, successfully or not, after `took_s` seconds."""
        if took_s > self.longest_s:
            self.longest_s = took_s
        if took_s >= SLOW_S:
            self.slow_writes += 1
            self._last_slow = self.clock()
            if not self.is_slow:
                self.is_slow = True
                logger.warning(
                    "%s: a write took %.0f ms: clients' appends go through a thread until writes are quick again",
                    self._path,
                    took_s * 1000,
                )
                self.on_slow()
        elif self.is_slow and self.clock() - self._last_slow >= QUIET_S:
            self.is_slow = False
            logger.warning("%s: no slow write for %.0f s: appends go the short way again", self._path, QUIET_S)
        # While it is slow each write counts; else only those that change something.
        self.notice_s = -1.0 if self.is_slow else min(self.longest_s, SLOW_S)

    def take_longest(self) -> float:
        """Longest write since the last call of this method, in seconds."""
        longest, self.longest_s = self.longest_s, 0.0
        if not self.is_slow:
            self.notice_s = 0.0
        return longest
