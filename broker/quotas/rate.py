"""Rates over a sliding number of windows, and token buckets. They measure as Kafka's quotas do (KIP-13, KIP-599), so
that its settings have the same effect here.

No clock: times are arguments, in ms, and never go back. One thread.
"""

from __future__ import annotations

import math
from collections import deque


class WindowedRate:
    """Units a second over the last `windows` windows of `window_ms`, the current one included.

    As long as fewer have been begun, the others count as empty ones: a burst at the start is no breach.
    """

    __slots__ = ("_samples", "_window_ms", "_windows", "last_ms")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._samples: deque[list[float]] = deque()  # [begun at, units], oldest first
        self.last_ms = 0.0
        """Time of the last `record`, ms."""

    def record(self, units: float, now_ms: float) -> None:
        """Add `units` at `now_ms`, milliseconds of a monotonic clock."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, 0.0])
            self._purge(now_ms)
        samples[-1][1] += units
        self.last_ms = now_ms

    def rate(self, now_ms: float) -> float:
        """Rate in units a second."""
        self._purge(now_ms)
        return 1000 * sum(units for _, units in self._samples) / self._elapsed_ms(now_ms)

    def throttle_ms(self, bound: float, now_ms: float) -> int:
        """Time in ms without new units after which the rate is down to `bound`; 0 if it is not above it."""
        rate = self.rate(now_ms)
        if rate <= bound:
            return 0
        return _whole((rate - bound) / bound * self._elapsed_ms(now_ms))

    def _purge(self, now_ms: float) -> None:
        oldest = now_ms - self._windows * self._window_ms
        samples = self._samples
        while samples and samples[0][0] < oldest:
            samples.popleft()

    def _elapsed_ms(self, now_ms: float) -> float:
        elapsed = now_ms - self._samples[0][0] if self._samples else 0.0
        full = int(elapsed // self._window_ms)
        return max(1.0, elapsed + max(0, self._windows - 1 - full) * self._window_ms)


class TokenBucket:
    """A bucket that gains `rate` tokens a second up to `burst`. It may be overdrawn; then nobody gets any for a while."""

    __slots__ = ("_burst_seconds", "_tokens", "last_ms")

    def __init__(self, burst_seconds: float, rate: float, now_ms: float) -> None:
        """The bucket starts full, with `rate` times `burst_seconds` tokens."""
        self._burst_seconds = burst_seconds
        self._tokens = rate * burst_seconds
        self.last_ms = now_ms

    def refill(self, rate: float, now_ms: float) -> float:
        """Add the tokens earned until now; returns the number of tokens."""
        grown = self._tokens + rate * (now_ms - self.last_ms) / 1000
        self._tokens = min(rate * self._burst_seconds, grown)
        self.last_ms = now_ms
        return self._tokens

    def take(self, tokens: float, rate: float, now_ms: float) -> None:
        """Take tokens; the bucket may go below zero."""
        self.refill(rate, now_ms)
        self._tokens -= tokens

    def throttle_ms(self, rate: float, now_ms: float) -> int:
        """Time in ms until the bucket is no longer overdrawn; 0 if it is not."""
        tokens = self.refill(rate, now_ms)
        return _whole(-tokens / rate * 1000) if tokens < 0 else 0


def _whole(milliseconds: float) -> int:
    """Round up, ignoring the error of floating-point arithmetic on a whole number."""
    return math.ceil(milliseconds - 1e-6)
