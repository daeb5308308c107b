"""Keeps Python's garbage collector away from objects that live as long as the process.

Each log is some forty objects that its daemon keeps until the end. With ten thousand of them a full collection looks at
400,000 objects, finds nothing, and holds the loop thread for half a second. So what a start has loaded, or a large
request has made, is told to be permanent (`gc.freeze`), and the collector looks at the rest only. A few logs are no
matter: then nothing is frozen, as a process that is not ours alone (`tidelog.testing`) may want its own objects back.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Logs from which on a full collection is felt (some 25 ms).
MANY_LOGS = 500
#: Full collections are called for after so many times that they were held off, and so many seconds: with thousands of
#: connections one takes tens of milliseconds, and whoever sends bulk requests without a gap shall not have one each second.
_HELD_OFF_AT_MOST = 100
_APART_S = 10.0
_NEVER = 2**31 - 1

_lock = threading.Lock()
_held_off = 0
_gone_on = 0
_called_for = float("-inf")
_thresholds = gc.get_threshold()


def freeze_if_many(logs: int) -> None:
    """Called when `logs` logs were made. With many, all objects that exist now are frozen: the collector never looks at
    them again. Any thread.
    """
    if logs >= MANY_LOGS:
        gc.freeze()


@contextmanager
def gc_paused(logs: Callable[[], int]) -> Iterator[None]:
    """Collect nothing within the context: a load makes many objects that stay, and hardly a cycle. `logs` returns the
    number of logs at the end.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        freeze_if_many(logs())
        if was_enabled:
            gc.enable()


def pause_full_gc() -> None:
    """Stop full collections until `resume_full_gc`. Decoding a request of 100,000 names makes a million objects, all in
    use, and a collection that looks at them holds every thread. Young objects are collected as ever. Calls nest. Any
    thread.
    """
    global _held_off, _thresholds
    with _lock:
        if not _held_off:
            _thresholds = gc.get_threshold()
            gc.set_threshold(*_thresholds[:2], _NEVER)
        _held_off += 1


def resume_full_gc(now: Callable[[], float] = time.monotonic) -> None:
    """End one `pause_full_gc`. After a hundred calls, and ten seconds after the last time, a full collection is run, in case
    pauses follow one another without a gap. `now` gives seconds.
    """
    global _held_off, _gone_on, _called_for
    with _lock:
        _held_off -= 1
        _gone_on += 1
        if not _held_off:
            gc.set_threshold(*_thresholds)
        is_due = _gone_on >= _HELD_OFF_AT_MOST and (moment := now()) - _called_for >= _APART_S
        if is_due:
            _gone_on, _called_for = 0, moment
    if is_due:
        gc.collect()


def malloc_trim() -> None:
    """Return free memory to the system, which the C library would keep after an attack or much work. Pool thread. Does
    nothing where the library has no such call (it is glibc's).
    """
    import ctypes

    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
