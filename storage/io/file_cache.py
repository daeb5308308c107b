"""FileCache: closed segments hold no descriptor and no map until they are read; the most recently read ones stay open.

Descriptors are often limited to 20,000 or fewer and maps to 65,530 (vm.max_map_count), segments are not. The cache holds one
lease on each of at most `capacity` entries and hands out further ones; an entry that falls out is closed when its last
reader gives its lease back. So a fetch in mid-sendfile outlives eviction, retention and the cleaner's swap.

Any thread. Files are opened outside the lock: a slow disk delays who asked for that file, nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from ..exceptions import FileClosedError

DEFAULT_CAPACITY = 512
"""Entries, not descriptors: a segment's log file and two index maps are one entry here, and up to three descriptors."""


class Leased(Protocol):
    """An object with leases, closed with the last one. It is created with one lease, which belongs to its creator."""

    def retain(self) -> object:
        """Take another lease; FileClosedError when the last one is gone already."""

    def release(self) -> None:
        """Give a lease back; the last one closes the object."""


E = TypeVar("E", bound=Leased)


class FileCache(Generic[E]):
    """Bounded LRU cache of open entries, shared by all logs. Safe from any thread."""

    __slots__ = ("_capacity", "_entries", "_lock")

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"a file cache needs room for at least one entry, not {capacity}")
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: dict[Hashable, E] = {}  # in order of use, oldest first

    def __len__(self) -> int:
        return len(self._entries)

    def acquire(self, key: Hashable, opener: Callable[[], E]) -> E:
        """The entry of `key`, opened when it is not there, with a lease for the caller. Raises what `opener` does."""
        entry = self.peek(key)
        if entry is not None:
            return entry
        opened = opener()
        # Another thread may have opened it meanwhile: then theirs serves both.
        entry = self.peek(key)
        if entry is not None:
            opened.release()
            return entry
        opened.retain()
        self.put(key, opened)
        return opened

    def put(self, key: Hashable, entry: E) -> None:
        """Take over the caller's lease on an open entry, in place of the old entry of `key`."""
        with self._lock:
            dropped = [self._entries.pop(key)] if key in self._entries else []
            self._entries[key] = entry
            while len(self._entries) > self._capacity:
                dropped.append(self._entries.pop(next(iter(self._entries))))
        for old in dropped:
            old.release()

    def discard(self, key: Hashable) -> None:
        """Drop the entry of `key`, whose files were deleted, replaced or truncated. Leases given out stay valid."""
        with self._lock:
            entry = self._entries.pop(key, None)
        if entry is not None:
            entry.release()

    def close(self) -> None:
        """Drop all entries, and keep none from now on: a thread that still reads gives back what it opens. Leases given out stay
        valid."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
            self._capacity = 0
        for entry in entries:
            entry.release()

    def peek(self, key: Hashable) -> E | None:
        """The entry of `key` with a lease for the caller, if it is open."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is None:
                return None
            try:
                entry.retain()
            except FileClosedError:
                return None
            self._entries[key] = entry
            return entry
