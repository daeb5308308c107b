"""Lets threads switch more often than every 5 ms while other threads run long Python code (a scrape, a conversion).

The event loop needs the interpreter once or twice for each request; a thread that is busy gives it up only when its turn is over.
The interval is the whole interpreter's, so it is counted who wants it short. Any thread.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

SWITCH_INTERVAL_S = 0.0005

_lock = threading.Lock()
_wanted = 0
_ordinary_s = 0.0


@contextlib.contextmanager
def shortened_switch_interval() -> Iterator[None]:
    """Set the interpreter's switch interval to `SWITCH_INTERVAL_S` until the last thread has left this context."""
    global _wanted, _ordinary_s
    with _lock:
        if not _wanted:
            _ordinary_s = sys.getswitchinterval()
            sys.setswitchinterval(min(SWITCH_INTERVAL_S, _ordinary_s))
        _wanted += 1
    try:
        yield
    finally:
        with _lock:
            _wanted -= 1
            if not _wanted:
                sys.setswitchinterval(_ordinary_s)
