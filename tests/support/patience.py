"""Waiting for what other threads and processes do.

A test moves a clock where it can (`support.mock_time`). Some can't: they wait for a thread, a process or a socket, which only
the operating system's scheduler hurries. Those poll for the condition itself, never for a length of time, so that a busy
machine makes them slower and not wrong.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 120.0
"""How long a condition may take to come about. Only a test that fails waits as long."""

_LONGEST_POLL_S = 0.05


def until(condition: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """The first true value of `condition()`; AssertionError that names `what` when none comes within `patience_s` seconds."""
    deadline, pause_s = time.monotonic() + patience_s, 0.001
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {patience_s:g} s: {what}"
        threading.Event().wait(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_POLL_S)
    return found
