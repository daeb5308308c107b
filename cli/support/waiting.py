"""What a command waits for, told on stderr: not at once, and not again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

#: A wait is told when it lasts so long, and again when it lasts.
FIRST_S, AGAIN_S = 2.0, 10.0
#: Without a call for so long, the next one begins a new wait.
_OVER_S = 5.0


class Notices:
    """Tells of waits. One thread."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._began = self._last = float("-inf")
        self._due = 0.0

    def wait(self, what: str) -> None:
        """Called each time before something is waited for or tried again: what it is."""
        now = self._clock()
        if now - self._last > _OVER_S:
            self._began, self._due = now, now + FIRST_S
        self._last = now
        if now >= self._due:
            self._due = now + AGAIN_S
            print(f"tidelog: waiting since {now - self._began:.0f} s: {what}", file=self._stream or sys.stderr)
