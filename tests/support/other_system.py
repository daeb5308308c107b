"""Runs the command line as on a system that is not Linux: other_system.py serve …

What Linux alone has is taken away before tidelog is imported: functions and constants of Python's modules, functions of the C
library, /proc and /sys. What other systems do differently is refused where it would go unnoticed: a sendfile of no bytes (macOS
sends all), flags of preadv, the priority of a thread by a number that is a process's, system calls by number. The kernels stay
those that were compiled here.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - looks at the system when it is imported, as the next ones do
import builtins
import ctypes
import fcntl
import multiprocessing  # noqa: F401
import os
import resource
import select  # noqa: F401
import socket
import ssl  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import time
import urllib.request  # noqa: F401
from collections.abc import Sequence
from typing import Any

import uvloop  # noqa: F401

GONE: dict[Any, tuple[str, ...]] = {
    os: (
        "fdatasync", "posix_fadvise", "posix_fallocate", "memfd_create", "sched_getscheduler", "sched_getaffinity",
        "sched_setaffinity", "sched_setscheduler", "copy_file_range", "splice", "eventfd", "preadv2", "getrandom", "gettid",
        "setns", "unshare", "pidfd_open", "RWF_NOWAIT",
    ),
    socket: ("MSG_MORE", "TCP_NOTSENT_LOWAT", "TCP_USER_TIMEOUT", "TCP_CORK", "TCP_QUICKACK", "SO_PEERCRED"),
    resource: ("RUSAGE_THREAD", "prlimit"),
    fcntl: ("F_OFD_SETLK", "F_OFD_SETLKW", "F_OFD_GETLK", "F_ADD_SEALS"),
    time: ("CLOCK_BOOTTIME",),
}  # fmt: skip
C_GONE = {
    "syscall",
    "sync_file_range",
    "fallocate",
    "fallocate64",
    "malloc_trim",
    "mallopt",
    "prctl",
    "adjtimex",
    "mincore",
}


def _sendfile(out: int, source: int, offset: int, count: int, _send: Any = os.sendfile) -> int:
    assert count > 0, "macOS would send all of the file"
    return int(_send(out, source, offset, count))


def _preadv(fd: int, buffers: Sequence[Any], offset: int, flags: int = 0, _read: Any = os.preadv) -> int:
    if flags:
        raise NotImplementedError("preadv2: not here")
    return int(_read(fd, buffers, offset))


def _setpriority(which: int, who: int, priority: int, _set: Any = os.setpriority) -> None:
    assert who in (0, os.getpid()), f"{who} is a thread, and may be a process of somebody else"
    _set(which, who, priority)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(("/proc", "/sys")):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def _without(library: Any) -> Any:
    class Lacking(library):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            if name in C_GONE:
                raise AttributeError(name)
            return super().__getattr__(name)

    return Lacking


def pretend() -> None:
    """Takes it all away, in this process, for good."""
    for module, names in GONE.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    os.sendfile = _sendfile  # type: ignore[assignment]
    os.preadv = _preadv  # type: ignore[assignment]
    os.setpriority = _setpriority  # type: ignore[assignment]
    ctypes.CDLL = _without(ctypes.CDLL)  # type: ignore[misc]
    ctypes.PyDLL = _without(ctypes.PyDLL)  # type: ignore[misc]
    sys.addaudithook(_audit)
    sys.platform = "darwin"
    assert not hasattr(os, "fdatasync")
    try:
        builtins.open("/proc/self/stat").close()
    except FileNotFoundError:
        return
    raise AssertionError("/proc is still there")


if __name__ == "__main__":
    pretend()
    from tidelog.cli.main import main

    sys.exit(main())
