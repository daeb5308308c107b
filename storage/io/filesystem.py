"""File operations as Protocols, and their implementation. The only module under storage/ that calls the operating
system.

Everything else takes a `FileSystem`, so that tests fail the n-th write and cut the power
(tests/support/fake_filesystem.py). What is promised about disks: data is durable after `sync`, a name after
`sync_directory` of its directory, and nothing else is, in no order; a rename within a file system is atomic. What is
assumed: a sector that was synced is not torn by a later write to another one.

Errors are plain OSErrors (FileNotFoundError, ENOSPC …) unless a method says otherwise.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol, Self, TypeAlias

from ..exceptions import DirectoryLockedError, FileClosedError, StorageError
from . import page_cache, platform
from ._memory_map import MemoryMap
from .exclusive_rename import rename_exclusively

StrPath: TypeAlias = str | os.PathLike[str]
Buffer: TypeAlias = bytes | bytearray | memoryview

# Records are private. The group may read: a job over the files, a backup, the next broker. A umask
# makes it less, never more.
_FILE_MODE = 0o640
_DIRECTORY_MODE = 0o750
_SCRATCH_BYTES = 64 * 1024
_MOST_VECTORS = 1000  # below IOV_MAX
_RWF_DONTCACHE = 0x80
"""Drop the pages that this read brings into the cache, those read ahead too, and no others: Linux 6.14, by file system."""
TEMPORARY_SUFFIX = ".tmp"  # Kafka's too: whichever broker starts next knows what the file is

# struct flock of Linux with 64-bit offsets: type, whence, start, length, pid (0 for open-file-description locks).
_FLOCK = struct.Struct("hhqqi4x")


def has_no_room(error: OSError) -> bool:
    """True if the disk is full, or what this user or project may have of it."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class FileStat(NamedTuple):
    """Size in bytes, modification time in ms since 1970, inode number, bytes of allocated disk blocks, time of the last change,
    number of the file system.

    The blocks are more than the size where room was reserved behind the end, less where the file is sparse. The last change
    (ms since 1970) is of the contents, the name or the times that were set: nothing sets that one back.
    """

    size: int
    modified_ms: int
    inode: int
    allocated_bytes: int
    changed_ms: int
    device: int = 0


class FileLock(Protocol):
    """A lock that ends with `release` or with the process."""

    def release(self) -> None:
        """Release the lock; a second call does nothing."""


class File(Protocol):
    """An open file with leases (see `file_cache.Leased`).

    It is opened with one lease, its owner's, which `close` gives back. A reader that sends from the file on its own
    time takes another (`retain`) and gives it back (`release`); the descriptor is closed with the last one, so that
    neither retention nor a swap can pull it, or worse a recycled number, from under a sendfile. Leases, pread, sync
    and the hints may be called from any thread; append and truncate from one at a time, the log's writer.
    """

    @property
    def path(self) -> str:
        """Path that the file was opened under; not updated by a rename."""

    @property
    def identity(self) -> tuple[int, int]:
        """Device and number of the file, the same for whoever has it open under whatever name."""

    def fileno(self) -> int:
        """The descriptor, for sendfile. Valid while the caller holds a lease."""

    def append(self, buffer: Buffer) -> None:
        """Writes all of `buffer` (contiguous bytes) at the end. On an OSError the file is as long as before."""

    def rewrite(self, buffer: Buffer, offset: int) -> None:
        """Write over the bytes at `offset` with the same bytes, so that the next `sync` writes them to disk. Needed
        after a failed sync, which may have marked dirty pages as clean.

        Linux takes pages for clean when a sync has failed: they read well, a later sync succeeds, and they were never written.
        """

    def overwrite(self, buffer: Buffer, offset: int) -> None:
        """Write over the bytes at `offset`, all of them within the file. OSError: any of them may be there."""

    def pread(self, length: int, offset: int) -> bytes:
        """Up to `length` bytes from `offset`: fewer only at the end of the file."""

    def pread_into(self, view: memoryview | bytearray, offset: int) -> int:
        """Fills `view` from `offset`; returns how many bytes came, fewer only at the end of the file."""

    def pread_aside(self, view: memoryview | bytearray, offset: int) -> int:
        """As `pread_into`, and leaves the page cache as it was: nothing is read ahead, and pages that were not there are dropped
        again. Blocks. For a file that nobody else reads through this object: it is not read ahead from then on.
        """

    def size(self) -> int:
        """Size in bytes, as this object left it: no system call."""

    def truncate(self, size: int) -> None:
        """Cuts the file (or extends it with zeros), and frees disk blocks reserved behind `size`, its own size included."""

    def sync(self) -> None:
        """fdatasync: contents and size are durable afterwards, the name is not. Blocks."""

    def start_writeback(self, offset: int, length: int) -> None:
        """Hint: begin writing that range's dirty pages, length 0 to the end. May block; promises nothing."""

    def preallocate(self, size: int) -> None:
        """Hint: reserve disk blocks up to `size`, with the size unchanged."""

    def is_cached(self, position: int, length: int) -> bool | None:
        """True if the range can be read without the disk; None when the system does not tell. False while `prefetch` reads
        some of it: to the kernel such pages are there, and who touches one waits for the disk.

        Never blocks (about 2 µs).
        """

    def prefetch(self, position: int, length: int) -> None:
        """Reads the range into the page cache. Blocks: pool threads only."""

    def retain(self) -> Self:
        """Take another lease; FileClosedError when the last one is gone (then open the file again)."""

    def release(self) -> None:
        """Give one lease back; the last one closes the descriptor. Any thread."""

    def close(self) -> None:
        """Give the owner's lease back; a second call does nothing."""

    @property
    def closed(self) -> bool:
        """True once the descriptor is closed."""


class MappedFile(Protocol):
    """A memory-mapped file.

    Reading from any thread; `resize` and `close` invalidate `view`, whose users then get ValueError.
    """

    @property
    def path(self) -> str: ...

    @property
    def view(self) -> memoryview:
        """The whole file as bytes; read-only if mapped so."""

    def reserve(self, offset: int, length: int) -> None:
        """Allocate disk blocks for that range of `view`, so that writing to it can't fail for lack of space.

        A map over a sparse file has no way to report ENOSPC but a SIGBUS that kills the process; here it is an OSError.
        """

    def resize(self, size: int) -> None:
        """Cut the file, or extend it with zeros, and map it anew."""

    def sync(self) -> None:
        """Make the contents of `view` durable. Any thread; blocks."""

    def renamed(self, path: StrPath) -> None:
        """Note the file's new path, which `resize` to 0, `reserve` and `sync` use."""

    def close(self) -> None:
        """Unmap, without a sync; a second call does nothing."""


class FileSystem(Protocol):
    """The file system operations that storage uses. Any thread; every call may block."""

    @property
    def syncs_at_once(self) -> int:
        """Number of threads in which syncs of many files are quickest (`sync_group.py`)."""

    def open(self, path: StrPath, *, create: bool = False, exclusive: bool = False, writable: bool = True) -> File:
        """Open a file; `create` makes it if missing, `exclusive` makes it and refuses an existing one
        (FileExistsError).
        """

    def map(self, path: StrPath, size: int | None = None, *, writable: bool) -> MappedFile:
        """Map a file into memory, resized to `size` bytes if that is given.

        With a `size` (writable only) it is made when missing and set to that size, new bytes zero and sparse.
        """

    def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
        """Read a whole file; StorageError when it is larger than `limit` bytes."""

    def write_atomically(self, path: StrPath, data: Buffer) -> None:
        """Replace a file so that after a crash either the old or the new content is there. Durable on return."""

    def write_new(self, path: StrPath, data: Buffer) -> None:
        """Create a file, durable with its name on return. FileExistsError."""

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Move a file or directory, replacing a file. Atomic; durable after `sync_directory`."""

    def rename_new(self, source: StrPath, target: StrPath) -> None:
        """Move a file to a name that nothing has: FileExistsError, and both stay. Of two callers one succeeds.

        Durable after `sync_directory`; after a crash both names may be there. OSError with EOPNOTSUPP where the file
        system has neither such a rename nor hard links.
        """

    def unlink(self, path: StrPath, *, missing_ok: bool = False) -> None:
        """Remove a name. Durable after `sync_directory`."""

    def make_directory(self, path: StrPath) -> None:
        """Create a directory and its parents, if missing."""

    def sync_directory(self, path: StrPath) -> None:
        """Make the creations, renames and removals of names in a directory durable."""

    def list_directory(self, path: StrPath) -> list[str]:
        """Names in a directory, sorted."""

    def exists(self, path: StrPath) -> bool: ...

    def is_directory(self, path: StrPath) -> bool: ...

    def stat(self, path: StrPath) -> FileStat: ...

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        """Set the modification time, ms since 1970."""

    def remove_directory(self, path: StrPath) -> bool:
        """Removes an empty directory; False: something is in it, or it is gone already."""

    def remove_tree(self, path: StrPath) -> None:
        """Remove a directory and all in it, if it exists."""

    def lock(self, path: StrPath) -> FileLock:
        """Locks the file (made when missing) against other processes and other callers;

        DirectoryLockedError when held.
        """

    def free_bytes(self, path: StrPath) -> int:
        """Bytes that an unprivileged user can still write there."""

    def blocks_read(self) -> int:
        """Blocks of 512 bytes that the calling thread has waited for a disk to read, so far; 0 if the system does not
        tell.
        """


def write_atomically(file_system: FileSystem, path: StrPath, data: Buffer) -> None:
    """`FileSystem.write_atomically` from other operations: temporary file, sync, rename, sync of the directory.

    A temporary file left by a crash is simply overwritten by the next writer.
    """
    replace_file(file_system, path, data)
    file_system.sync_directory(os.path.dirname(os.fspath(path)) or ".")


def replace_file(file_system: FileSystem, path: StrPath, data: Buffer) -> None:
    """`write_atomically` without the sync of the directory, for callers that sync it soon anyhow: until then a crash
    may leave the old content.
    """
    target = os.fspath(path)
    temporary = target + TEMPORARY_SUFFIX
    file = file_system.open(temporary, create=True)
    try:
        file.truncate(0)
        file.append(data)
        file.sync()
    finally:
        file.close()
    file_system.rename(temporary, target)


def write_new(file_system: FileSystem, path: StrPath, data: Buffer) -> None:
    """`FileSystem.write_new`, made of other operations of that file system: for implementations."""
    target = os.fspath(path)
    file = file_system.open(target, exclusive=True)
    try:
        file.append(data)
        file.sync()
    finally:
        file.close()
    file_system.sync_directory(os.path.dirname(target) or ".")


def unlink_all(file_system: FileSystem, paths: Iterable[str]) -> None:
    """Remove files, if they are there. The first OSError is raised when all were tried: one that stays keeps no other's room."""
    failure: OSError | None = None
    for path in paths:
        try:
            file_system.unlink(path, missing_ok=True)
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _pread(fd: int, length: int, offset: int) -> bytes:
    """Read `length` bytes from `offset` on; fewer only at the end of the file."""
    data = os.pread(fd, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    got = len(data)
    while got < length and (data := os.pread(fd, length - got, offset + got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


class _Stretches:
    """Stretches of files that are being read into the page cache now. Few at a time; any thread, and `has` without a lock."""

    __slots__ = ("_lock", "_of_file")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_file: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}  # none is empty

    def __bool__(self) -> bool:
        return bool(self._of_file)

    def add(self, identity: tuple[int, int], start: int, end: int) -> None:
        with self._lock:
            self._of_file[identity] = (*self._of_file.get(identity, ()), (start, end))

    def remove(self, identity: tuple[int, int], start: int, end: int) -> None:
        with self._lock:
            left = list(self._of_file.pop(identity))
            left.remove((start, end))
            if left:
                self._of_file[identity] = tuple(left)

    def has(self, identity: tuple[int, int], start: int, end: int) -> bool:
        """True if a byte of [start, end) is among them."""
        return any(begin < end and start < until for begin, until in self._of_file.get(identity, ()))


_PREFETCHING = _Stretches()


class RealFile:
    """A `File` on a descriptor.

    Appends go to the tracked size by pwrite, not to wherever the descriptor stands: what a failed write left behind,
    and could not be cut off on a failing disk, is overwritten by the next append instead of lying between two batches.
    """

    __slots__ = ("_fd", "_leases", "_lock", "_owned", "_size", "identity", "path")

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        self._fd = fd
        status = os.fstat(fd)
        self._size = status.st_size
        self.identity = (status.st_dev, status.st_ino)
        # += on an attribute is not atomic between threads, hence a lock for the count (60 ns when nobody else wants
        # it).
        self._lock = threading.Lock()
        self._leases = 1
        self._owned = True

    def __repr__(self) -> str:
        return f"RealFile({self.path!r}, fd={self._fd}, size={self._size})"

    def fileno(self) -> int:
        if self._fd < 0:
            raise FileClosedError(f"{self.path} is closed")
        return self._fd

    def append(self, buffer: Buffer) -> None:
        size = self._size
        try:
            written = os.pwrite(self._fd, buffer, size)
            if written != len(buffer):
                self._write_rest(memoryview(buffer).cast("B"), size, written)
        except OSError:
            # If cutting fails as well, the bytes stay beyond the tracked size and the next append overwrites them.
            with suppress(OSError):
                os.ftruncate(self._fd, size)
            raise
        self._size = size + len(buffer)

    def _write_rest(self, view: memoryview, offset: int, written: int) -> None:
        """Write what a short write left. Short writes occur only near the end of the disk, a limit or 2 GiB, or after a
        signal.
        """
        while written < len(view):
            count = os.pwrite(self._fd, view[written:], offset + written)
            if count <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def rewrite(self, buffer: Buffer, offset: int) -> None:
        self.overwrite(buffer, offset)

    def overwrite(self, buffer: Buffer, offset: int) -> None:
        assert offset + len(buffer) <= self._size
        written = os.pwrite(self._fd, buffer, offset)
        if written != len(buffer):
            self._write_rest(memoryview(buffer).cast("B"), offset, written)

    def pread(self, length: int, offset: int) -> bytes:
        return _pread(self._fd, length, offset)

    def pread_into(self, view: memoryview | bytearray, offset: int) -> int:
        return self._fill(view, offset, 0)

    def _fill(self, view: memoryview | bytearray, offset: int, flags: int) -> int:
        target = memoryview(view)
        got = 0
        while got < len(target):
            count = os.preadv(self._fd, [target[got:]], offset + got, flags)
            if count == 0:
                break
            got += count
        return got

    def pread_aside(self, view: memoryview | bytearray, offset: int) -> int:
        try:
            return self._fill(view, offset, platform.RWF_DONTCACHE)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
        cold = page_cache.cold_ranges(self._fd, offset, min(len(view), self._size - offset))
        # Pages read ahead would be found in the cache by the next read, and stay.
        platform.expect_random_reads(self._fd)
        try:
            return self.pread_into(view, offset)
        finally:
            for position, length in cold:
                platform.will_not_read(self._fd, position, length)

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        platform.sync_data(self._fd)

    def start_writeback(self, offset: int, length: int) -> None:
        page_cache.start_writeback(self._fd, offset, length)

    def preallocate(self, size: int) -> None:
        page_cache.reserve_blocks(self._fd, size)

    def is_cached(self, position: int, length: int) -> bool | None:
        if _PREFETCHING and _PREFETCHING.has(self.identity, position, position + length):
            return False
        return page_cache.resident(self._fd, position, min(length, self._size - position))

    def prefetch(self, position: int, length: int) -> None:
        end = position + length
        _PREFETCHING.add(self.identity, position, end)
        try:
            platform.will_read(self._fd, position, length)
            # The advice only queues the reads; taking the bytes is what waits for them.
            # All go to the same few pages, which stay in the processor's cache, and by one call: each would take the GIL again.
            scratch = memoryview(bytearray(min(length, _SCRATCH_BYTES)))
            at = position
            while at < end:
                whole, rest = divmod(end - at, len(scratch))
                count = os.preadv(self._fd, [*[scratch] * min(whole, _MOST_VECTORS), scratch[:rest]], at)
                if count == 0:
                    return
                at += count
        finally:
            _PREFETCHING.remove(self.identity, position, end)

    def retain(self) -> Self:
        with self._lock:
            if not self._leases:
                raise FileClosedError(f"{self.path} is closed")
            self._leases += 1
        return self

    def release(self) -> None:
        with self._lock:
            assert self._leases > 0, f"{self.path}: a lease was given back twice"
            self._leases -= 1
            if self._leases:
                return
            fd, self._fd = self._fd, -1
        os.close(fd)

    def close(self) -> None:
        with self._lock:
            owned, self._owned = self._owned, False
        if owned:
            self.release()

    @property
    def closed(self) -> bool:
        return self._fd < 0


class RealMappedFile:
    """A `MappedFile` by `MemoryMap`, which keeps no descriptor: each partition that is written to has two maps.

    `sync` opens the file by name and calls fdatasync, which writes mapped pages too: `mmap.flush` holds the GIL for
    as long as the disk takes (until Python 3.13), which would stall the loop thread from any other.
    """

    __slots__ = ("_map", "_writable", "path", "view")

    def __init__(self, fd: int, path: str, *, writable: bool) -> None:
        self.path = path
        self._writable = writable
        self._take(fd, os.fstat(fd).st_size)

    def _take(self, fd: int, size: int) -> None:
        self._map: MemoryMap | None = None
        if size:
            self._map = MemoryMap(fd, size, self._writable)
            if self._writable:
                # Else the first touch of a preallocated file reads ahead: megabytes of zeros, a millisecond or more.
                self._map.expect_random_access()
        # An empty range cannot be mapped, and an empty view needs no map.
        self.view = memoryview(b"" if self._map is None else self._map)

    def _drop(self) -> None:
        self.view.release()
        if self._map is not None:
            self._map.close()
            self._map = None

    def reserve(self, offset: int, length: int) -> None:
        length = min(length, len(self.view) - offset)
        if length <= 0:
            return
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            platform.allocate(fd, offset, length)
        except OSError as error:
            # File systems without reservation (and C libraries that don't imitate it) leave us with Kafka's risk.
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
        finally:
            os.close(fd)

    def resize(self, size: int) -> None:
        assert self._writable
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            # Readers in other threads must lose the old view before the file shrinks: reading it would be a SIGBUS.
            self._drop()
            try:
                os.ftruncate(fd, size)
            finally:
                self._take(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def sync(self) -> None:
        fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            platform.sync_data(fd)
        finally:
            os.close(fd)

    def renamed(self, path: StrPath) -> None:
        self.path = os.fspath(path)

    def close(self) -> None:
        self._drop()


class RealFileLock:
    """An open-file-description lock: it excludes POSIX locks of other processes (Kafka's) and our own second open."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _link_instead(source: StrPath, target: StrPath) -> None:
    """`rename_new` by a hard link, for network file systems, which have no rename that refuses."""
    try:
        os.link(source, target)
    except FileExistsError:
        # A server's answer was lost, and its client asked once more: the link is ours.
        if not os.path.samefile(source, target):
            raise
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise OSError(
                errno.EOPNOTSUPP, "no rename that refuses to replace, and no hard links", str(target)
            ) from error
        raise
    os.unlink(source)


class RealFileSystem:
    """The machine's file system. Stateless; any thread."""

    __slots__ = ()

    syncs_at_once = 8

    def open(self, path: StrPath, *, create: bool = False, exclusive: bool = False, writable: bool = True) -> RealFile:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        if exclusive:
            flags |= os.O_CREAT | os.O_EXCL
        elif create:
            flags |= os.O_CREAT
        name = os.fspath(path)
        return RealFile(os.open(name, flags, _FILE_MODE), name)

    def map(self, path: StrPath, size: int | None = None, *, writable: bool) -> RealMappedFile:
        assert writable or size is None, "only a writable map can set the size"
        name = os.fspath(path)
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC
        fd = os.open(name, flags | (os.O_CREAT if size is not None else 0), _FILE_MODE)
        try:
            if size is not None and os.fstat(fd).st_size != size:
                os.ftruncate(fd, size)
            return RealMappedFile(fd, name, writable=writable)
        finally:
            os.close(fd)

    def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
        # Three for each log at start: a `RealFile` with its leases would cost as much again as the system calls.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size > limit:
                raise StorageError(f"{path} has {size} bytes, more than the {limit} that are allowed here")
            return _pread(fd, size, 0)
        finally:
            os.close(fd)

    def write_atomically(self, path: StrPath, data: Buffer) -> None:
        write_atomically(self, path, data)

    def write_new(self, path: StrPath, data: Buffer) -> None:
        write_new(self, path, data)

    def rename(self, source: StrPath, target: StrPath) -> None:
        os.replace(source, target)

    def rename_new(self, source: StrPath, target: StrPath) -> None:
        if not rename_exclusively(source, target):
            _link_instead(source, target)

    def unlink(self, path: StrPath, *, missing_ok: bool = False) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def make_directory(self, path: StrPath) -> None:
        os.makedirs(path, _DIRECTORY_MODE, exist_ok=True)

    def sync_directory(self, path: StrPath) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            platform.sync_all(fd)
        finally:
            os.close(fd)

    def list_directory(self, path: StrPath) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: StrPath) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: StrPath) -> bool:
        return os.path.isdir(path)

    def stat(self, path: StrPath) -> FileStat:
        status = os.stat(path)
        return FileStat(
            status.st_size,
            status.st_mtime_ns // 1_000_000,
            status.st_ino,
            status.st_blocks * 512,
            status.st_ctime_ns // 1_000_000,
            status.st_dev,
        )

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def remove_directory(self, path: StrPath) -> bool:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY):
                return False
            raise
        return True

    def remove_tree(self, path: StrPath) -> None:
        # Another thread may be deleting the same segment files: what is gone already is fine.
        left: OSError | None = None  # of the first that stays, which keeps its directories, and nothing else
        for directory, subdirectories, files in os.walk(path, topdown=False):
            try:
                unlink_all(self, (os.path.join(directory, name) for name in files))
            except OSError as error:
                left = left or error
            for name in subdirectories:
                try:
                    os.rmdir(os.path.join(directory, name))
                except FileNotFoundError:
                    pass
                except OSError as error:
                    left = left or error
        if left is not None:
            raise left
        with suppress(FileNotFoundError):
            os.rmdir(path)

    def lock(self, path: StrPath) -> RealFileLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            platform.lock_file(fd)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DirectoryLockedError(
                    os.path.dirname(os.fspath(path)) or ".",
                    f"another process has this data directory open (lock file {os.fspath(path)})",
                    "stop that process or choose another log.dirs",
                ) from None
            raise
        return RealFileLock(fd)

    def free_bytes(self, path: StrPath) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def blocks_read(self) -> int:
        return platform.blocks_read()
