"""Time as an argument: nothing under storage/ or cleaner/ asks the operating system for the time.

`Time` is what code receives; `SystemTime` is the real one. Tests pass a clock that they move by hand.
"""

from __future__ import annotations

import time
from typing import Protocol


class Time(Protocol):
    """A wall clock and a monotonic clock. Any thread."""

    def milliseconds(self) -> int:
        """Wall clock: milliseconds since 1970-01-01 UTC. May step back."""

    def monotonic_ms(self) -> float:
        """Milliseconds since some fixed moment; never steps back. For delays and durations."""

    def monotonic(self) -> float:
        """As `monotonic_ms`, in seconds: without a multiplication, for every append."""


class SystemTime:
    """The operating system's clocks, without a state of its own."""

    __slots__ = ()

    def milliseconds(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic_ns() / 1e6

    monotonic = staticmethod(time.monotonic)  # no call of Python's around it: 60 ns, half of the other
