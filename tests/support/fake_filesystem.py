"""A file system in memory that remembers what was synced, fails on demand, and loses power.

`FakeFileSystem` is a `tidelog.storage.io.filesystem.FileSystem`. Model:

- A file (inode) has its present bytes, and what is durable: the bytes at the last sync, plus the list of writes,
  truncations and extensions since. Writes through a map are found by comparing when the power goes.
- A directory has its present names, and the durable ones, plus the list of name changes since its last
  `sync_directory`. A rename is one change. The root is durable.
- After a power cut any of the changes since may be there or not: data per sector (512 bytes) and in any order; names
  per change. Where a file became longer and its data did not make it, zeros or garbage are found.
- A sync that fails (`fail_at`) loses what it should have written, as on Linux: readers, and a process that comes after a
  kill, still see it; a later sync succeeds without it; what is written once more becomes durable with the next one.

`power_cut(seed)` gives one such state, chosen at random; `power_cut_states()` the plain extremes. Both leave this
object alone and return new file systems, so that one run yields many crashes.

Every mutating call is an `Operation` in `trace`. `fail_at(n, error)` makes the n-th from now raise; `PowerCut` as the
error ends the run there, as `kill -9` or a plug would: it is a BaseException, which nobody handles. One thread at a
time.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol, Self

from support.fake_disk import (
    Chooser,
    Directory,
    Inode,
    KeepAll,
    KeepData,
    KeepNames,
    KeepNone,
    KeepRandom,
    NameChange,
    TearLast,
)
from tidelog.storage.exceptions import DirectoryLockedError, FileClosedError, StorageError
from tidelog.storage.io.filesystem import Buffer, FileStat, StrPath, write_atomically, write_new


class PowerCut(BaseException):
    """The machine stops here."""


class Operation(NamedTuple):
    """One mutating call: what, where, and how much (bytes, or the new name)."""

    kind: str
    path: str
    detail: int | str = 0


class WallClock(Protocol):
    def milliseconds(self) -> int: ...


class FakeFile:
    """`File` in memory."""

    def __init__(self, system: FakeFileSystem, inode: Inode, path: str, writable: bool) -> None:
        self._system = system
        self._inode = inode
        self._writable = writable
        self._leases = 1
        self._owned = True
        self.path = path
        self.cached: bool | None = True
        system.open_files.add(self)

    def __repr__(self) -> str:
        return f"FakeFile({self.path!r}, size={len(self._inode.data)})"

    @property
    def leases(self) -> int:
        return self._leases

    def _check(self, *, write: bool = False) -> None:
        if not self._leases:
            raise FileClosedError(f"{self.path} is closed")
        if write and not self._writable:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)

    @property
    def identity(self) -> tuple[int, int]:
        return 0, self._inode.number

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def append(self, buffer: Buffer) -> None:
        self._check(write=True)
        data = bytes(buffer)
        self._system._enter("append", self.path, len(data))
        self._system._take_space(len(data))
        self._inode.write(len(self._inode.data), data)
        self._system._touch(self._inode)

    def rewrite(self, buffer: Buffer, offset: int) -> None:
        self._check(write=True)
        data = bytes(buffer)
        assert self._inode.data[offset : offset + len(data)] == data
        self._system._enter("rewrite", self.path, len(data))
        self._inode.write(offset, data)
        self._system._touch(self._inode)

    def overwrite(self, buffer: Buffer, offset: int) -> None:
        self._check(write=True)
        data = bytes(buffer)
        assert offset + len(data) <= len(self._inode.data)
        self._system._enter("overwrite", self.path, len(data))
        self._inode.write(offset, data)
        self._system._touch(self._inode)

    def pread(self, length: int, offset: int) -> bytes:
        self._check()
        self._system._read("pread", self.path, length)
        return bytes(self._inode.data[offset : offset + length])

    def pread_into(self, view: memoryview | bytearray, offset: int) -> int:
        self._check()
        self._system._read("pread", self.path, len(view))
        data = self._inode.data[offset : offset + len(view)]
        view[: len(data)] = data
        return len(data)

    def pread_aside(self, view: memoryview | bytearray, offset: int) -> int:
        return self.pread_into(view, offset)

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check(write=True)
        self._system._enter("truncate", self.path, size)
        self._inode.resize(size)
        self._system._touch(self._inode)

    def sync(self) -> None:
        self._check()
        try:
            self._system._enter("sync", self.path)
        except OSError:
            self._inode.fail_sync()
            raise
        self._inode.sync()

    def start_writeback(self, offset: int, length: int) -> None:
        self._check()

    def preallocate(self, size: int) -> None:
        self._check(write=True)
        self._system._enter("preallocate", self.path, size)
        self._inode.reserved = max(self._inode.reserved, size)

    def is_cached(self, position: int, length: int) -> bool | None:
        self._check()
        return self.cached

    def prefetch(self, position: int, length: int) -> None:
        self._check()
        self._system._read("prefetch", self.path, length)
        self.cached = True

    def retain(self) -> Self:
        self._check()
        self._leases += 1
        return self

    def release(self) -> None:
        assert self._leases > 0, f"{self.path}: a lease was given back twice"
        self._leases -= 1
        if not self._leases:
            self._system.open_files.discard(self)

    def close(self) -> None:
        if self._owned:
            self._owned = False
            self.release()

    @property
    def closed(self) -> bool:
        return not self._leases


class FakeMappedFile:
    """`MappedFile` in memory: the view is over the inode's own bytes."""

    def __init__(self, system: FakeFileSystem, inode: Inode, path: str, writable: bool) -> None:
        self._system = system
        self._inode = inode
        self._writable = writable
        self.path = path
        inode.mapped = True
        self._map()

    def _map(self) -> None:
        view = memoryview(self._inode.data)
        self.view = view if self._writable else view.toreadonly()
        self._system.maps.add(self)

    def reserve(self, offset: int, length: int) -> None:
        self._system._enter("reserve", self.path, length)
        self._system._take_space(0)

    def resize(self, size: int) -> None:
        assert self._writable
        self._system._enter("resize", self.path, size)
        self._inode.note_mapped_writes()
        self.view.release()
        self._inode.resize(size)
        self._system._touch(self._inode)
        self._map()

    def sync(self) -> None:
        try:
            self._system._enter("sync", self.path)
        except OSError:
            self._inode.fail_sync()
            raise
        self._inode.sync()

    def renamed(self, path: StrPath) -> None:
        self.path = os.fspath(path)

    def close(self) -> None:
        self.view.release()
        self._system.maps.discard(self)


class FakeFileLock:
    def __init__(self, system: FakeFileSystem, path: str) -> None:
        self._system = system
        self._path = path

    def release(self) -> None:
        self._system._locks.discard(self._path)


@lru_cache(maxsize=1 << 14)
def _parts(path: str) -> tuple[str, ...]:
    """The crash rings ask for the same few paths millions of times."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


class FakeFileSystem:
    """See the module. Paths are absolute or not, `/` separates, `.` and `..` mean nothing."""

    file_type: type[FakeFile] = FakeFile
    mapped_type: type[FakeMappedFile] = FakeMappedFile
    syncs_at_once = 1

    def __init__(self, *, time: WallClock | None = None, capacity: int = 1 << 40) -> None:
        self.time = time
        self.free = capacity  # bytes that appends may still take
        self.renames_exclusively = True  # False: `rename_new` is not supported
        self.trace: list[Operation] = []
        self.reads: list[Operation] = []
        self.open_files: set[FakeFile] = set()  # what is open now: tests look for leaks
        self.maps: set[FakeMappedFile] = set()
        self._root = Directory()
        self._locks: set[str] = set()
        self._inodes = 0
        self._ticks = 0
        self._failures: list[tuple[int, BaseException, bool]] = []
        self._failure_rule: Callable[[Operation], BaseException | None] | None = None

    # --- what tests do to it ---

    def fail_at(self, count: int, error: BaseException, *, repeat: bool = False) -> None:
        """The `count`-th mutating operation from now (1 is the next one) raises `error` instead;

        with `repeat` all after it too.
        """
        self._failures.append((len(self.trace) + count, error, repeat))

    def fail_when(self, rule: Callable[[Operation], BaseException | None] | None) -> None:
        """Asks `rule` before each mutating operation; what it returns is raised. None takes the rule away."""
        self._failure_rule = rule

    def heal(self) -> None:
        """Forgets all failures ordered so far."""
        self._failures.clear()
        self._failure_rule = None

    def paths(self) -> list[str]:
        """All files, sorted."""
        return sorted(path for path, _ in self._walk(self._root, ""))

    def directories(self) -> list[str]:
        """All directories, sorted."""

        def visit(directory: Directory, prefix: str) -> Iterator[str]:
            for name, node in directory.names.items():
                if isinstance(node, Directory):
                    yield f"{prefix}/{name}"
                    yield from visit(node, f"{prefix}/{name}")

        return sorted(visit(self._root, ""))

    def contents(self) -> dict[str, bytes]:
        """All files with their bytes."""
        return {path: bytes(inode.data) for path, inode in self._walk(self._root, "")}

    def corrupt(self, path: StrPath, position: int, data: bytes) -> None:
        """Overwrites bytes behind everyone's back, durably."""
        inode = self._inode(path)
        inode.data[position : position + len(data)] = data
        inode.sync()

    def directory(self, path: StrPath) -> Directory:
        """What the disk knows of it: names, and which of them are durable."""
        return self._directory(path)

    def put(self, path: StrPath, data: bytes) -> None:
        """Makes a durable file, its directories included, without a trace. One that it replaces was older."""
        directory = self._root
        *parents, name = self._parts(path)
        for part in parents:
            child = directory.names.get(part)
            if not isinstance(child, Directory):
                child = Directory()
                directory.names[part] = directory.durable[part] = child
            directory = child
        inode = self._new_inode()
        inode.data = bytearray(data)
        inode.sync()
        before = directory.names.get(name)
        if isinstance(before, Inode):
            inode.modified_ms = max(inode.modified_ms, before.modified_ms + 1)
        directory.names[name] = directory.durable[name] = inode

    def sync_all(self) -> None:
        """Everything as it is becomes durable, as after a while on a quiet machine."""

        def visit(directory: Directory) -> None:
            directory.sync()
            for node in directory.names.values():
                if isinstance(node, Directory):
                    visit(node)
                else:
                    node.sync()

        visit(self._root)

    def kill(self) -> FakeFileSystem:
        """What the next process finds after `kill -9`: everything, as durable as it was; no locks, no open files."""
        return self.rebuilt(KeepAll(), keep_durability=False)

    def power_cut(self, seed: int) -> FakeFileSystem:
        """One state, chosen by `seed`, that a power cut now may leave."""
        return self.rebuilt(KeepRandom(seed))

    def power_cut_states(self, seeds: int = 0) -> Iterator[tuple[str, FakeFileSystem]]:
        """The plain extremes, each with its name, then `seeds` random states."""
        yield "all that was not synced is lost", self.rebuilt(KeepNone())
        yield "all of it made it", self.rebuilt(KeepAll())
        yield "names made it, data did not: zeros", self.rebuilt(KeepNames(garbage=False))
        yield "names made it, data did not: garbage", self.rebuilt(KeepNames(garbage=True))
        yield "data made it, names did not", self.rebuilt(KeepData())
        yield "the last write of each file is torn", self.rebuilt(TearLast())
        for seed in range(seeds):
            yield f"seed {seed}", self.power_cut(seed)

    def rebuilt(self, chooser: Chooser, *, keep_durability: bool = True) -> FakeFileSystem:
        """A new file system with what `chooser` lets survive: durable, or after a kill as durable as before."""
        new = FakeFileSystem(time=self.time)
        new.free = self.free
        new.renames_exclusively = self.renames_exclusively
        copies: dict[int, Inode] = {}
        directories: dict[int, Directory] = {}

        def copy_inode(inode: Inode) -> Inode:
            if inode.number not in copies:
                inode.note_mapped_writes()
                copy = Inode(
                    inode.number,
                    bytearray(chooser.data(inode)),
                    modified_ms=inode.modified_ms,
                    changed_ms=inode.changed_ms,
                    reserved=inode.reserved,
                )
                if keep_durability:
                    copy.sync()
                else:
                    copy.durable, copy.changes = inode.durable, list(inode.changes)
                    copy.clean = inode.clean
                copies[inode.number] = copy
            return copies[inode.number]

        def copy_node(node: Inode | Directory) -> Inode | Directory:
            return copy_directory(node) if isinstance(node, Directory) else copy_inode(node)

        def copy_directory(directory: Directory) -> Directory:
            if id(directory) in directories:
                return directories[id(directory)]
            copy = directories[id(directory)] = Directory()
            for name, node in chooser.names(directory).items():
                copy.names[name] = copy_node(node)
            if keep_durability:
                copy.sync()
            else:
                copy.durable = {name: copy_node(node) for name, node in directory.durable.items()}
                copy.changes = [
                    NameChange(change.removed, change.added, None if change.node is None else copy_node(change.node))
                    for change in directory.changes
                ]
            return copy

        new._root = copy_directory(self._root)
        new._inodes = self._inodes
        new._ticks = self._ticks
        return new

    @property
    def root(self) -> Directory:
        return self._root

    # --- FileSystem ---

    def open(self, path: StrPath, *, create: bool = False, exclusive: bool = False, writable: bool = True) -> FakeFile:
        name = os.fspath(path)
        node = self._find(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        if node is not None and exclusive:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if node is None:
            if not (create or exclusive):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            node = self._create(name)
        return self.file_type(self, node, name, writable)

    def map(self, path: StrPath, size: int | None = None, *, writable: bool) -> FakeMappedFile:
        assert writable or size is None
        name = os.fspath(path)
        node = self._find(name)
        if node is None:
            if size is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
            node = self._create(name)
        assert isinstance(node, Inode)
        if size is not None and len(node.data) != size:
            self._enter("resize", name, size)
            node.note_mapped_writes()
            node.resize(size)
            self._touch(node)
        return self.mapped_type(self, node, name, writable)

    def read_bytes(self, path: StrPath, limit: int = 64 << 20) -> bytes:
        inode = self._inode(path)
        if len(inode.data) > limit:
            raise StorageError(f"{path} has {len(inode.data)} bytes, more than the {limit} that are allowed here")
        self._read("read", os.fspath(path), len(inode.data))
        return bytes(inode.data)

    def write_atomically(self, path: StrPath, data: Buffer) -> None:
        write_atomically(self, path, data)

    def write_new(self, path: StrPath, data: Buffer) -> None:
        write_new(self, path, data)

    def rename(self, source: StrPath, target: StrPath) -> None:
        old, new = os.fspath(source), os.fspath(target)
        node = self._find(old)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        self._enter("rename", old, new)
        if isinstance(node, Inode):
            node.changed_ms = self._now_ms()
        old_directory, old_name = self._parent(old)
        new_directory, new_name = self._parent(new)
        if old_directory is new_directory:
            old_directory.change(old_name, new_name, node)
        else:
            new_directory.change(None, new_name, node)
            old_directory.change(old_name, None, None)

    def rename_new(self, source: StrPath, target: StrPath) -> None:
        if not self.renames_exclusively:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), os.fspath(target))
        if self._find(source) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(source))
        if self._find(target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
        self.rename(source, target)

    def unlink(self, path: StrPath, *, missing_ok: bool = False) -> None:
        name = os.fspath(path)
        if not isinstance(self._find(name), Inode):
            if missing_ok:
                return
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        self._enter("unlink", name)
        directory, entry = self._parent(name)
        directory.change(entry, None, None)

    def make_directory(self, path: StrPath) -> None:
        directory = self._root
        for part in self._parts(path):
            child = directory.names.get(part)
            if child is None:
                self._enter("mkdir", os.fspath(path))
                child = Directory()
                directory.change(None, part, child)
            if not isinstance(child, Directory):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
            directory = child

    def sync_directory(self, path: StrPath) -> None:
        directory = self._directory(path)
        self._enter("sync_directory", os.fspath(path))
        directory.sync()

    def list_directory(self, path: StrPath) -> list[str]:
        return sorted(self._directory(path).names)

    def exists(self, path: StrPath) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: StrPath) -> bool:
        return isinstance(self._find(path), Directory)

    def stat(self, path: StrPath) -> FileStat:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        if isinstance(node, Directory):
            return FileStat(0, 0, 0, 0, 0)
        return FileStat(len(node.data), node.modified_ms, node.number, node.allocated_bytes, node.changed_ms)

    def set_modified_ms(self, path: StrPath, modified_ms: int) -> None:
        inode = self._inode(path)
        inode.modified_ms = modified_ms
        inode.changed_ms = self._now_ms()

    def remove_directory(self, path: StrPath) -> bool:
        node = self._find(path)
        if not isinstance(node, Directory) or node.names:
            return False
        self._enter("rmdir", os.fspath(path))
        directory, entry = self._parent(path)
        directory.change(entry, None, None)
        return True

    def remove_tree(self, path: StrPath) -> None:
        node = self._find(path)
        if not isinstance(node, Directory):
            return
        for name in list(node.names):
            child = f"{os.fspath(path)}/{name}"
            if isinstance(node.names.get(name), Directory):
                self.remove_tree(child)
            else:
                self.unlink(child, missing_ok=True)  # another thread may delete the same files
        self._enter("rmdir", os.fspath(path))
        directory, entry = self._parent(path)
        directory.change(entry, None, None)

    def lock(self, path: StrPath) -> FakeFileLock:
        name = os.fspath(path)
        if name in self._locks:
            raise DirectoryLockedError(os.path.dirname(name), "another process has it", "stop that one")
        if not self.exists(name):
            self._create(name)
        self._locks.add(name)
        return FakeFileLock(self, name)

    def free_bytes(self, path: StrPath) -> int:
        return self.free

    def blocks_read(self) -> int:
        return 0

    # --- inside ---

    def _enter(self, kind: str, path: str, detail: int | str = 0) -> None:
        """Notes a mutating operation, or fails it."""
        operation = Operation(kind, path, detail)
        self.trace.append(operation)
        for number, error, repeat in self._failures:
            if len(self.trace) == number or (repeat and len(self.trace) > number):
                raise error
        if self._failure_rule is not None and (failure := self._failure_rule(operation)) is not None:
            raise failure

    def _read(self, kind: str, path: str, detail: int) -> None:
        self.reads.append(Operation(kind, path, detail))

    def _take_space(self, count: int) -> None:
        if count > self.free or (self.free <= 0 and not count):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.free -= count

    def _touch(self, inode: Inode) -> None:
        self._ticks += 1
        inode.modified_ms = inode.changed_ms = self._now_ms()

    def _now_ms(self) -> int:
        return self.time.milliseconds() if self.time is not None else self._ticks

    def _new_inode(self) -> Inode:
        self._inodes += 1
        inode = Inode(self._inodes)
        self._touch(inode)
        return inode

    def _create(self, path: str) -> Inode:
        self._enter("create", path)
        directory, name = self._parent(path)
        inode = self._new_inode()
        directory.change(None, name, inode)
        return inode

    @staticmethod
    def _parts(path: StrPath) -> tuple[str, ...]:
        return _parts(os.fspath(path))

    def _find(self, path: StrPath) -> Inode | Directory | None:
        node: Inode | Directory | None = self._root
        for part in _parts(os.fspath(path)):
            if node.__class__ is not Directory:
                return None
            node = node.names.get(part)  # type: ignore[union-attr]
        return node

    def _inode(self, path: StrPath) -> Inode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        return node

    def _directory(self, path: StrPath) -> Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
        return node

    def _parent(self, path: StrPath) -> tuple[Directory, str]:
        *parents, name = self._parts(path)
        return self._directory("/".join(parents)), name

    def _walk(self, directory: Directory, prefix: str) -> Iterator[tuple[str, Inode]]:
        for name, node in directory.names.items():
            if isinstance(node, Directory):
                yield from self._walk(node, f"{prefix}/{name}")
            else:
                yield f"{prefix}/{name}", node
