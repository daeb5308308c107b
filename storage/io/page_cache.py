"""Queries of the page cache and hints to it: Linux calls that Python's `os` lacks. Used by `filesystem.py` alone.

All are advice. On another system, and where the kernel or a sandbox refuses a call, the answer is "can't tell" or nothing is
done.

- `resident` asks whether a range can be read without the disk; it neither copies nor blocks. cachestat(2) (Linux 6.5)
  takes about 2 µs for 1 MiB, most of it ctypes; before 6.5 mincore(2) on a map that is never dereferenced.
  `preadv2(RWF_NOWAIT)` would copy what it probes, and tmpfs and overlayfs refuse it.
- `start_writeback` is sync_file_range(2) with WRITE only: starts writing dirty pages and waits for none, so that a
  later fdatasync finds little left. It says nothing about durability. For the cleaner: beside appends it costs more than
  it gives (docs/adr/0017-slow-disks.md).
- `reserve_blocks` is fallocate(2) with KEEP_SIZE: the blocks are the file's from now on, its size stays.

The probes go through `PyDLL`, which keeps the GIL: they never sleep, and a thread that gives the GIL away for a
microsecond can wait a whole switch interval (5 ms) to get it back. The other two may block, so they let it go.
"""

from __future__ import annotations

import mmap
from functools import cache
from itertools import groupby
from typing import Any

from .platform import LINUX

_SYS_CACHESTAT = 451  # the same on every architecture but Alpha
_SYNC_FILE_RANGE_WRITE = 2
_FALLOC_FL_KEEP_SIZE = 1
_PROT_NONE = 0
_MAP_SHARED = 1
_MAP_FAILED = 2**64 - 1
_PAGE = mmap.PAGESIZE


@cache
def system_calls() -> Any:
    """ctypes and the bound functions, loaded on first use: the import takes 1.5 ms, and reads at the tail never need
    it.
    """
    import ctypes
    from types import SimpleNamespace

    class Range(ctypes.Structure):
        _fields_ = [("offset", ctypes.c_uint64), ("length", ctypes.c_uint64)]

    class Cachestat(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")]

    quick: Any = ctypes.PyDLL(None)
    blocking: Any = ctypes.CDLL(None)
    quick.syscall.argtypes = [ctypes.c_long, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    quick.syscall.restype = ctypes.c_long
    quick.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    quick.mmap.restype = ctypes.c_uint64
    quick.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
    quick.mincore.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p]
    sync_file_range = getattr(blocking, "sync_file_range", None)
    if sync_file_range is not None:
        sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    fallocate = getattr(blocking, "fallocate64", None) or getattr(blocking, "fallocate", None)
    if fallocate is not None:
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]

    def new_pair() -> tuple[Any, Any, int, int]:
        asked, answer = Range(), Cachestat()
        return asked, answer, ctypes.addressof(asked), ctypes.addressof(answer)

    return SimpleNamespace(
        create_string_buffer=ctypes.create_string_buffer,
        addressof=ctypes.addressof,
        new_pair=new_pair,
        spare_pairs=[],
        syscall=quick.syscall,
        mmap=quick.mmap,
        munmap=quick.munmap,
        mincore=quick.mincore,
        sync_file_range=sync_file_range,
        fallocate=fallocate,
        cachestat_works=True,
    )


def resident(fd: int, position: int, length: int) -> bool | None:
    """True if every page of [position, position + length) is in the page cache; None when the kernel does not tell.

    The range must lie inside the file. Any thread, never blocks. True may be out of date when the caller reads.
    """
    if length <= 0:
        return True
    if not LINUX:
        return None
    calls = system_calls()
    if calls.cachestat_works:
        # Making two ctypes structs costs more than the call; list.pop and append are atomic, so each pair has one user.
        try:
            pair = calls.spare_pairs.pop()
        except IndexError:
            pair = calls.new_pair()
        asked, answer, asked_at, answer_at = pair
        asked.offset, asked.length = position, length
        if calls.syscall(_SYS_CACHESTAT, fd, asked_at, answer_at, 0) == 0:
            cached = answer.cached
            calls.spare_pairs.append(pair)
            return bool(cached >= (position + length - 1) // _PAGE - position // _PAGE + 1)
        calls.cachestat_works = False  # too old a kernel, or a seccomp filter
    return resident_by_mincore(fd, position, length)


def resident_by_mincore(fd: int, position: int, length: int) -> bool | None:
    """`resident` for kernels before 6.5, which answer only those who own the file or may write it."""
    flags = _page_flags(fd, position, length)
    return None if flags is None else all(flag & 1 for flag in flags)


def cold_ranges(fd: int, position: int, length: int) -> list[tuple[int, int]]:
    """Stretches (position, bytes) of whole pages that [position, position + length) touches and that are not in the page cache.

    None where the kernel does not tell. The range must lie inside the file. Any thread, never blocks.
    """
    if resident(fd, position, length) is not False or (flags := _page_flags(fd, position, length)) is None:
        return []
    first = position // _PAGE
    cold: list[tuple[int, int]] = []
    for is_cold, pages in groupby(range(len(flags)), lambda page: not flags[page] & 1):
        run = list(pages)
        if is_cold:
            cold.append(((first + run[0]) * _PAGE, len(run) * _PAGE))
    return cold


def _page_flags(fd: int, position: int, length: int) -> bytes | None:
    """What mincore(2) says of each page of the range: bit 0 is residency, the others are reserved. None: it refuses."""
    if not LINUX:
        return None
    calls = system_calls()
    start = position - position % _PAGE
    span = position + length - start
    pages = -(-span // _PAGE)
    address = calls.mmap(None, span, _PROT_NONE, _MAP_SHARED, fd, start)
    if address == _MAP_FAILED:
        return None
    try:
        flags = calls.create_string_buffer(pages)
        if calls.mincore(address, span, calls.addressof(flags)) != 0:
            return None
        raw: bytes = flags.raw
        return raw
    finally:
        calls.munmap(address, span)


def start_writeback(fd: int, offset: int, length: int) -> None:
    """Start writing the range's dirty pages (length 0: to the end of the file).

    Pool thread: it blocks when the device's queue is full.
    """
    calls = system_calls() if LINUX else None
    if calls is not None and calls.sync_file_range is not None:
        calls.sync_file_range(fd, offset, length, _SYNC_FILE_RANGE_WRITE)


def reserve_blocks(fd: int, length: int) -> None:
    """Gives the file disk blocks for its first `length` bytes without changing its size;

    nothing where that is unknown.
    """
    calls = system_calls() if LINUX else None
    if calls is not None and calls.fallocate is not None:
        calls.fallocate(fd, _FALLOC_FL_KEEP_SIZE, 0, length)
