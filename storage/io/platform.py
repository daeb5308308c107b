"""What systems do differently, in one place: Linux, which tidelog is for, and others that it is developed on (macOS).

Nobody else calls what Linux alone has, but for two options of sockets, which `broker/network/outbound.py` asks for by name, and
priorities of threads (`broker/runtime/threads.py`). Each function does the same as on Linux where the system can, else what is
nearest and safe: a sync is never weaker, advice is left out, "can't tell" is an answer. Only Linux is tested; how the others
behave is tried in a process from which Linux's calls were taken away (tests/client/test_other_systems.py). Any thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LINUX = sys.platform == "linux"

#: Flag of preadv2(2) that keeps what is read out of the page cache; 0 where reads take no flags.
RWF_DONTCACHE = 0x80 if LINUX else 0

_F_FULLFSYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_F_OFD_SETLK: int | None = getattr(fcntl, "F_OFD_SETLK", None) if LINUX else None
_RUSAGE_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)

# struct flock of 64-bit Linux: type, whence, start, length, pid; elsewhere the fields have another order.
_FLOCK = struct.Struct("hhqqi4x")
_ZEROS = bytes(1 << 16)
#: Open files that macOS allows at most where it calls its limit infinite.
_OPEN_MAX = 10_240
_PR_SET_PDEATHSIG = 1


# Files.


def sync_data(fd: int) -> None:
    """Has the file's bytes, and its size, on the disk when it returns."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        sync_all(fd)


def sync_all(fd: int) -> None:
    """The same for all that is known of a file or directory. macOS's fsync leaves bytes in the drive: F_FULLFSYNC does not."""
    if _F_FULLFSYNC is not None:
        try:
            fcntl.fcntl(fd, _F_FULLFSYNC)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(fd)


def expect_random_reads(fd: int) -> None:
    """Advises against reading ahead in the file."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def will_read(fd: int, position: int, length: int) -> None:
    """Advises to read the range now."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, length, os.POSIX_FADV_WILLNEED)


def will_not_read(fd: int, position: int, length: int) -> None:
    """Advises to drop the range from the page cache."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, position, length, os.POSIX_FADV_DONTNEED)


def allocate(fd: int, offset: int, length: int) -> None:
    """Gives the range disk blocks, so that a write to a map of it finds room; what is there stays. OSError: no room.

    Without posix_fallocate the range is read and written again as it is: nobody else may write to it meanwhile.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, offset, length)
        return
    end = offset + length
    while offset < end:
        there = os.pread(fd, min(len(_ZEROS), end - offset), offset)
        offset += os.pwrite(fd, there or _ZEROS[: end - offset], offset)


def lock_file(fd: int) -> None:
    """Locks the open file against all others, this process's own included. BlockingIOError or PermissionError: it is locked.

    Linux: an open-file-description lock, which POSIX locks (Kafka's) see too. Elsewhere flock(2), which may not see those.
    """
    if _F_OFD_SETLK is not None:
        fcntl.fcntl(fd, _F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    else:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def blocks_read() -> int:
    """Blocks that the calling thread has had read from disks, ever; 0 where that is not counted for a thread."""
    return 0 if _RUSAGE_THREAD is None else resource.getrusage(_RUSAGE_THREAD).ru_inblock


@contextmanager
def as_file(text: str) -> Iterator[str]:
    """Path to `text`, for a library that takes only paths. On Linux it is in memory and on no disk; elsewhere it is in a file
    of the user's alone for as long as the block runs."""
    if not hasattr(os, "memfd_create"):
        import tempfile  # a start has no time for it

        with tempfile.NamedTemporaryFile("w", prefix="tidelog-", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("text")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


# Sockets and descriptors.


def sendfile(to_socket: int, from_file: int, position: int, count: int) -> int:
    """Sends up to `count` bytes of a file; BlockingIOError if the socket takes none. For 0 bytes macOS would send all."""
    return os.sendfile(to_socket, from_file, position, count) if count else 0


def open_descriptors() -> int:
    """Descriptors that are open now; 0 where the system does not say."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(folder))
        except OSError:
            continue
    return 0


def raise_descriptor_limit() -> None:
    """Raises the soft limit of open files to the hard one; macOS calls it infinite and takes no more than OPEN_MAX."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        if LINUX:
            raise
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _OPEN_MAX), hard))


# The process.

_begun_s = time.monotonic()


def process_age_s() -> float:
    """Age of the process in seconds; without /proc, of this module in it, which is imported at the start."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        since_boot = time.clock_gettime(time.CLOCK_BOOTTIME)
    except (OSError, AttributeError):
        return time.monotonic() - _begun_s
    return since_boot - ticks / os.sysconf("SC_CLK_TCK")


def end_with_parent() -> None:
    """Has Linux kill this process when the thread that has started it ends. Elsewhere nothing happens. Imports ctypes."""
    if not LINUX:
        return
    # Builds of Python without libffi have no ctypes, and where memory may not be both written and run it may not get any.
    with suppress(ImportError, MemoryError, OSError, AttributeError):
        import ctypes  # a start has no time for it

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def give_way(niceness: int) -> None:
    """Lowers the priority of this process, which has one thread, to `niceness`; one that is as low stays."""
    with suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, 0) < niceness:
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


def resident_bytes(pid: int) -> int:
    """Memory of another process; 0 if it has ended, or the system does not say."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0
