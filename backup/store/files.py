"""Objects as files of a directory, synced with their names before an operation returns.

An object is written under another name in `.tmp`, synced, moved to its own, and its directory is synced; so are the directories
on the way that this process finds for the first time, since a process that was killed may have made them a moment ago. `create`
moves by a rename that refuses to replace, on network file systems by a hard link, and where there is neither under a
lock of the whole store. What a crash leaves in `.tmp` is removed a day later.

Directories that a deletion leaves empty are removed.

The directory must exist: a share that is not mounted must not be taken for an empty store, nor one that goes away.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ...storage.clock import SystemTime, Time
from ...storage.exceptions import DirectoryLockedError
from ...storage.io.filesystem import FileSystem, RealFileSystem, has_no_room
from .errors import AlreadyThere, Denied, NotThere, StoreError, Unavailable
from .interface import Stored, WrongSize, blocks_of_size, check_key, check_prefix

_TEMPORARY = ".tmp"
_LOCK = "lock"
_STALE_MS = 24 * 3_600_000
_PART = 1 << 20
_WRITEBACK_BYTES = 8 << 20
_LOCK_TRIES = 500
_LOCK_PAUSE_S = 0.02
_MOVE_TRIES = 5

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NEVER = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EXDEV, errno.EEXIST)


class FileStore:
    """An `ObjectStore` in a directory. Any threads, several processes; state: which directories were synced, and whether `.tmp`
    was tidied, both under a lock.
    """

    def __init__(
        self,
        root: str,
        file_system: FileSystem | None = None,
        time: Time | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        """StoreError if `root` is no directory. `pause` takes seconds, between tries for a lock that is held."""
        self.name = f"file://{os.path.abspath(root)}"
        self._root = root.rstrip("/") or "/"
        self._files = file_system or RealFileSystem()
        self._time = time or SystemTime()
        self._pause = pause or threading.Event().wait
        self._lock = threading.Lock()
        self._durable: set[str] = set()
        self._is_tidy = False
        if not self._files.is_directory(self._root):
            raise NotThere("open", self.name, "", "there is no such directory", "make it, or mount what it is on")
        self._inode = self._files.stat(self._root).inode

    # --- ObjectStore ---

    def create(self, key: str, data: bytes) -> None:
        path = self._path(check_key(key))
        with self._explained("create", key):
            directory = self._prepare("create", path)
            if self._files.exists(path):
                self._refuse(key, path, directory)
            temporary = self._write("create", key, [data])
            try:
                self._place("create", path, lambda: self._move_new(temporary, path))
            except BaseException as error:
                with suppress(OSError):
                    self._files.unlink(temporary, missing_ok=True)
                if isinstance(error, FileExistsError):
                    self._refuse(key, path, directory)
                raise
            self._files.sync_directory(directory)

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        path = self._path(check_key(key))
        with self._explained("upload", key):
            directory = self._prepare("upload", path)
        try:
            # Errors of the caller's own iterator are not the store's: they go through as they are.
            temporary = self._write("upload", key, blocks_of_size(blocks, size, _PART))
        except WrongSize as error:
            raise StoreError("upload", self.name, key, str(error)) from None
        with self._explained("upload", key):
            try:
                self._place("upload", path, lambda: self._files.rename(temporary, path))
            except BaseException:
                with suppress(OSError):
                    self._files.unlink(temporary, missing_ok=True)
                raise
            self._files.sync_directory(directory)

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        path = self._path(check_key(key))
        with self._explained("read", key):
            try:
                file = self._files.open(path, writable=False)
                try:
                    rest = max(0, file.size() - start)
                    return file.pread(rest if length is None else min(length, rest), start)
                finally:
                    file.close()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                self._check_root("read")
                raise NotThere("read", self.name, key, "there is no such object") from None

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        check_prefix(prefix)
        self._check_root("list")
        return self._walk(prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        directories: dict[str, str] = {}
        for key in keys:
            path = self._path(check_key(key))
            with self._explained("delete", key), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                if self._files.is_directory(path):
                    continue
                self._files.unlink(path)
                directories[os.path.dirname(path)] = key
        for directory, key in directories.items():
            with self._explained("delete", key), suppress(FileNotFoundError):
                self._files.sync_directory(directory)
        for directory in directories:
            self._remove_empty(directory)

    def close(self) -> None:
        """Nothing is open between calls."""

    # --- inside ---

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _check_root(self, operation: str) -> None:
        """Unavailable if the directory is not the one that was opened."""
        try:
            inode = self._files.stat(self._root).inode
        except OSError as error:
            raise Unavailable(operation, self.name, "", str(error), "is it mounted?") from error
        if inode != self._inode:
            problem = "another directory than at the start is there"
            raise Unavailable(operation, self.name, "", problem, "mount what it was on, and start again")

    def _prepare(self, operation: str, path: str) -> str:
        """Directory of the path, made if missing, durable with all above it."""
        self._check_root(operation)
        self._tidy()
        directory = os.path.dirname(path)
        if directory in self._durable:
            return directory
        parts = directory[len(self._root) :].strip("/")
        above = self._root
        for part in parts.split("/") if parts else ():
            below = f"{above}/{part}"
            if below not in self._durable:
                self._files.make_directory(below)
                self._files.sync_directory(above)
                with self._lock:
                    self._durable.add(below)
            above = below
        return directory

    def _place(self, operation: str, path: str, move: Callable[[], None]) -> None:
        """Move a file to its name, whose directory somebody may have removed as empty since it was prepared."""
        directory = os.path.dirname(path)
        for _ in range(_MOVE_TRIES):
            try:
                move()
            except FileNotFoundError:
                self._forget(directory)
                self._prepare(operation, path)
            else:
                return
        move()

    def _forget(self, directory: str) -> None:
        """Have a directory, and those above it, made and synced anew when they are needed next."""
        with self._lock:
            while len(directory) > len(self._root):
                self._durable.discard(directory)
                directory = os.path.dirname(directory)

    def _remove_empty(self, directory: str) -> None:
        """Remove a directory, and those above it, as far as nothing is left in them. What fails is left: it does no harm."""
        with suppress(OSError):
            while len(directory) > len(self._root) and self._files.remove_directory(directory):
                self._forget(directory)
                directory = os.path.dirname(directory)

    def _tidy(self) -> None:
        """Make `.tmp`, and remove what crashes left there longer than a day ago. Once in a process."""
        with self._lock:
            if self._is_tidy:
                return
            directory = self._path(_TEMPORARY)
            self._files.make_directory(directory)
            oldest = self._time.milliseconds() - _STALE_MS
            for name in self._files.list_directory(directory):
                path = f"{directory}/{name}"
                with suppress(OSError):
                    if name != _LOCK and self._files.stat(path).modified_ms < oldest:
                        self._files.unlink(path, missing_ok=True)
            self._is_tidy = True

    def _write(self, operation: str, key: str, blocks: Iterable[bytes]) -> str:
        """A new file in `.tmp`, synced; nothing is left of it after an error."""
        path = self._path(f"{_TEMPORARY}/{secrets.token_hex(8)}")
        with self._explained(operation, key):
            file = self._files.open(path, exclusive=True)
        try:
            begun = 0
            for block in blocks:
                with self._explained(operation, key):
                    file.append(block)
                    if file.size() - begun >= _WRITEBACK_BYTES:
                        file.start_writeback(begun, file.size() - begun)
                        begun = file.size()
            with self._explained(operation, key):
                file.sync()
        except BaseException:
            with suppress(OSError):
                self._files.unlink(path, missing_ok=True)
            raise
        finally:
            file.close()
        return path

    def _move_new(self, temporary: str, path: str) -> None:
        """Rename unless there is something; FileExistsError."""
        try:
            self._files.rename_new(temporary, path)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            with self._locked():
                if self._files.exists(path):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
                self._files.rename(temporary, path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock of the store's creators, in this process and others. Blocks for up to some seconds."""
        path = self._path(f"{_TEMPORARY}/{_LOCK}")
        with self._lock:
            for _ in range(_LOCK_TRIES):
                try:
                    lock = self._files.lock(path)
                    break
                except DirectoryLockedError:
                    self._pause(_LOCK_PAUSE_S)
            else:
                raise Unavailable("lock", self.name, "", "another process holds the lock of this store", f"see {path}")
            try:
                yield
            finally:
                lock.release()

    def _refuse(self, key: str, path: str, directory: str) -> None:
        """Raise AlreadyThere, when what is there will still be there after a power cut."""
        self._files.sync_directory(directory)
        problem = "there is a directory" if self._files.is_directory(path) else "there is an object with this key"
        raise AlreadyThere("create", self.name, key, problem)

    def _walk(self, prefix: str, after: str) -> Iterator[Stored]:
        """Objects below `prefix`, in order of keys: a directory counts as its name with a `/` behind."""
        directory = self._path(prefix).rstrip("/")
        with self._explained("list", prefix.rstrip("/")):
            try:
                self._make_names_durable(directory)
                names = self._files.list_directory(directory)
            except (FileNotFoundError, NotADirectoryError):
                return
            entries = sorted(
                f"{name}/" if self._files.is_directory(f"{directory}/{name}") else name
                for name in names
                if not name.startswith(".")
            )
        for entry in entries:
            key = prefix + entry
            if entry.endswith("/"):
                if after < key or after.startswith(key):
                    yield from self._walk(key, after)
            elif key > after:
                with self._explained("list", key):
                    try:
                        stat = self._files.stat(f"{directory}/{entry}")
                    except FileNotFoundError:
                        continue
                yield Stored(key, stat.size, stat.modified_ms)

    def _make_names_durable(self, directory: str) -> None:
        """What a listing shows must stay: who made it may have been killed before it was synced."""
        try:
            self._files.sync_directory(directory)
        except OSError as error:
            if error.errno not in (*_DENIED, errno.EINVAL, errno.EBADF):  # media that are only read
                raise

    @contextmanager
    def _explained(self, operation: str, key: str) -> Iterator[None]:
        """Turn OSErrors into errors of stores."""
        try:
            yield
        except OSError as error:
            problem = error.strerror or str(error)
            if error.errno in _DENIED:
                raise Denied(
                    operation, self.name, key, problem, "give this user the right to read and write there"
                ) from error
            if error.errno in _NEVER:
                raise StoreError(operation, self.name, key, problem) from error
            remedy = "make room there" if has_no_room(error) else ""
            raise Unavailable(operation, self.name, key, problem, remedy) from error
