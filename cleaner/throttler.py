"""Throttler: limits the bytes that all cleaner threads read and write to log.cleaner.io.max.bytes.per.second.

A bucket of tokens: bytes are paid when they are moved, and a caller that has overdrawn waits until the account is level again. It
holds a tenth of a second's worth, so that an idle time does not allow a burst. The limit may change at any moment; waiting
callers take it into account within `STEP_MS`.

Any thread. Waiting happens in steps through `wait`, which also tells whether to stop: a stop or an abort never waits for
the throttle.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..storage.clock import Time

STEP_MS = 100.0
"""Longest single wait, in ms."""
_BURST_S = 0.1
_ALLOWANCE_S = 0.02


class Throttler:
    """Rate limit shared by all cleaner threads. `waited_ms` is the time that they have waited, added up."""

    def __init__(self, bytes_per_second: float, time: Time) -> None:
        """`bytes_per_second` may be inf: no limit."""
        self._time = time
        self._lock = threading.Lock()
        self._rate = bytes_per_second
        self._balance = 0.0
        self._as_of_ms = time.monotonic_ms()
        self.waited_ms = 0.0
        self.total_bytes = 0

    @property
    def bytes_per_second(self) -> float:
        return self._rate

    def set_rate(self, bytes_per_second: float) -> None:
        """Set a new limit, effective now; the debt under the old one is forgiven."""
        with self._lock:
            self._rate = bytes_per_second
            self._balance = 0.0
            self._as_of_ms = self._time.monotonic_ms()

    @property
    def allowance(self) -> int:
        """Bytes that a process may move before it pays for them: those of a fiftieth of a second; −1: there is no limit."""
        rate = self._rate
        return -1 if math.isinf(rate) else max(1, int(rate * _ALLOWANCE_S))

    def note(self, count: int) -> None:
        """Count bytes that were moved while there was no limit: a limit that came meanwhile does not hold for them."""
        with self._lock:
            self.total_bytes += count

    def pay(self, count: int, wait: Callable[[float], None]) -> None:
        """Account for `count` bytes and wait until the rate is within the limit. `wait(ms)` may raise to abort."""
        with self._lock:
            self.total_bytes += count
            if math.isinf(self._rate):
                return
            self._refill()
            self._balance -= count
        while True:
            with self._lock:
                self._refill()
                short = 0.0 if math.isinf(self._rate) else -self._balance / self._rate * 1000
            # Rounding must not make a wait of a billionth of a millisecond out of a level account.
            if short <= 0.001:
                return
            step = min(short, STEP_MS)
            wait(step)
            with self._lock:
                self.waited_ms += step

    def _refill(self) -> None:
        now = self._time.monotonic_ms()
        earned = (now - self._as_of_ms) / 1000 * self._rate if not math.isinf(self._rate) else 0.0
        self._balance = min(self._balance + earned, self._rate * _BURST_S) if not math.isinf(self._rate) else 0.0
        self._as_of_ms = now
