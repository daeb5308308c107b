"""Keeps Python's garbage collector away from objects that live as long as the process.

Each log is some forty objects that its daemon keeps until the end. With ten thousand of them a full collection looks at
400,000 objects, finds nothing, and holds the loop thread for half a second. So what a start has loaded, or a large
request has made, is told to be permanent (`gc.freeze`), and the collector looks at the rest only. A few logs are no
matter: then nothing is frozen, as a process that is not ours alone (`tidelog.testing`) may want its own objects back.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Logs from which on a full collection is felt (some 25 ms).
MANY_LOGS = 500
#: Full collections are called for after so many times that they were held off.
_HELD_OFF_AT_MOST = 100
_NEVER = 2**31 - 1

_lock = threading.Lock()
_held_off = 0
_gone_on = 0
_thresholds = gc.get_threshold()


def keep(logs: int) -> None:
    """So many logs were made: with many, all that there is now is never looked at again. Any thread."""
    if logs >= MANY_LOGS:
        gc.freeze()


@contextmanager
def undisturbed(logs: Callable[[], int]) -> Iterator[None]:
    """Within, nothing is collected: a load makes much that stays and hardly a cycle. `logs` tells at the end how many."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        keep(logs())
        if was_enabled:
            gc.enable()


def hold_off() -> None:
    """No full collection until `go_on`: who reads a request of 100,000 names makes a million objects that are all in use, and
    looking at them holds every thread. Young objects are looked at as ever. Calls are counted. Any thread."""
    global _held_off, _thresholds
    with _lock:
        if not _held_off:
            _thresholds = gc.get_threshold()
            gc.set_threshold(*_thresholds[:2], _NEVER)
        _held_off += 1


def go_on() -> None:
    """For each `hold_off`. Where there is one after the other, there is a full collection now and then all the same."""
    global _held_off, _gone_on
    with _lock:
        _held_off -= 1
        _gone_on += 1
        if not _held_off:
            gc.set_threshold(*_thresholds)
        is_due = _gone_on % _HELD_OFF_AT_MOST == 0
    if is_due:
        gc.collect()


def give_back() -> None:
    """Gives memory that is free back to the system: after an attack, or much work, the C library keeps it. Pool thread; where
    the library has no such call (it is glibc's), nothing happens."""
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
