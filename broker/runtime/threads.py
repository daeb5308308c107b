"""How threads share the interpreter and the processor: a shorter switch interval, and the priorities of cleaners and of the loop.

`shortened_switch_interval` lets threads switch more often than every 5 ms while other threads run long Python code (a scrape, a
conversion). The event loop needs the interpreter once or twice for each request; a thread that is busy gives it up only when its
interval is over. The interval is the whole interpreter's, so it is counted who wants it short.

`prefer_latency` and `lower_priority` tell Linux to run the loop as soon as it wakes, and cleaners when no other thread wants the
processor. Both are requests: where a system does not know them, or a sandbox forbids them, nothing happens.

A nice value alone shares out time; it does not say who waits. Linux lets a thread that runs finish its slice (some milliseconds)
before one that wakes gets its turn, a cleaner with a high nice value too: with a pass under way that was most of the 99th
percentile of produces. A thread may ask for a shorter slice of its own (since Linux 6.12), and is then let in at once; it gets no
more time than before. Measured on two busy cores, median of eight rounds each: p99 0.7 ms instead of 3.2 ms beside a pass.

A cleaner gives way, but not far: between its calls into the kernel it holds the GIL, and where others keep every core busy the
loop waits for as long as the cleaner is kept from running. At a load of four a core, medians of eight rounds in turns: p99 of
produces beside a pass 152 ms at nice 10 and 19 ms at nice 0; 25 at nice 4 and 21 at nice 0; 15 at nice 10 and 10 at nice 4.

Any thread.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
from collections.abc import Iterator
from struct import Struct

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


NICE = 4
"""Niceness of cleaner threads: a quarter of a core against one other thread, instead of half."""
SLICE_NS = 100_000
"""Time slice of the loop thread in ns, the shortest that Linux accepts."""

# struct sched_attr as of its first version: size, policy, flags, nice, priority, runtime (here: slice), deadline, period.
_SCHED_ATTR = Struct("=IIQiIQQQ")
_SCHED_OTHER = 0
_RESET_ON_FORK = 1
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274, "ppc64le": 355, "s390x": 345}

assert _SCHED_ATTR.size == 48


def lower_priority() -> None:
    """Give the calling thread a lower priority, where the system has thread priorities (Linux)."""
    if sys.platform != "linux":
        return  # elsewhere the number of a thread may be that of a process
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def prefer_latency(thread_id: int) -> bool:
    """Have the thread of that native id run soon after it wakes; threads that it starts are not affected. False: not
    possible.

    Any thread of the process; imports ctypes, so not one that is in a hurry.
    """
    number = SCHED_SETATTR.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return False
    import ctypes

    try:
        nice = os.getpriority(os.PRIO_PROCESS, thread_id)
        if os.sched_getscheduler(thread_id) != _SCHED_OTHER:  # somebody has chosen a policy for us
            return False
    except OSError:
        return False
    wanted = _SCHED_ATTR.pack(_SCHED_ATTR.size, _SCHED_OTHER, _RESET_ON_FORK, nice, 0, SLICE_NS, 0, 0)
    system: ctypes.CDLL = ctypes.CDLL(None)
    result: int = system.syscall(ctypes.c_long(number), ctypes.c_int(thread_id), wanted, ctypes.c_uint(0))
    return result == 0
