"""IndexFile: base of offset and time index, a memory-mapped file of sorted entries of fixed size, with room to grow.

An index is a hint. It is sparse (one entry each `log.index.interval.bytes`), carries no checksum and is rebuilt from
the log whenever in doubt. The active segment's indexes are preallocated to `log.index.size.max.bytes`, rounded down
to whole entries (67 bytes hold eight 8-byte entries: 64), as holes: no disk until written. On roll they are cut to
what they hold. An empty one has 0 bytes then, which is sane: a segment smaller than the interval has no entries.

How many entries a file holds is not written anywhere. Apache Kafka takes the size for it; after a crash that counts the
preallocated zeros. Here trailing zero entries are not counted: an entry of zeros says "offset base + 0 at position 0"
(or "at time 0"), is legal only in slot 0, and says there no more than the base offset itself.

Threads: the log's writer (the loop thread, or recovery before the log is published) appends, truncates, resizes and
closes; lookups come from any thread, without a lock. They take the view as it is; when the writer drops it meanwhile
(it releases the memoryview first, so a stale one raises ValueError and is never a SIGBUS) they take the new one and
search again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from struct import Struct
from typing import ClassVar, Self

from ..exceptions import CorruptIndexError, InvalidOffsetError, StorageError
from ..io.filesystem import FileSystem, MappedFile, StrPath

MAX_RELATIVE_OFFSET = 2**31 - 1  # entries keep offset - baseOffset in 31 bits
DEFAULT_MAX_INDEX_SIZE = 10 * 1024 * 1024

# Lookups of tail readers hit the end of the index. Searching the last entries first touches only pages that each such
# lookup touches; a plain binary search would visit pages 1/2, 3/4 … that have long left the page cache. 8 KiB: at
# most three pages.
WARM_BYTES = 8192

# Disk blocks are taken for the map in steps, before the first write there (see MappedFile.reserve): 16 KiB of entries
# are 8 MiB of log at the default interval, so a step's three system calls vanish, and a small partition holds one step.
_RESERVE_BYTES = 16 * 1024

_UNKNOWN = -1


class IndexFile:
    """Base of `OffsetIndex` and `TimeIndex`; see the module for threads.

    Nothing is opened until it is needed, so that closed segments hold no map: `close_map` drops it, the next lookup
    maps again. A writable index whose file is missing makes it, preallocated, on first use; a read-only one takes a
    missing file for an error (FileNotFoundError).
    """

    ENTRY: ClassVar[Struct]
    ENTRY_SIZE: ClassVar[int]
    #: Slots at the end that only a roll uses.
    SPARE_SLOTS: ClassVar[int] = 0

    __slots__ = (
        "_count",
        "_file_system",
        "_lock",
        "_map",
        "_path",
        "_ready",
        "_reserved",
        "_view",
        "_writable",
        "base_offset",
        "max_index_size",
    )

    def __init__(
        self,
        file_system: FileSystem,
        path: StrPath,
        base_offset: int,
        max_index_size: int = DEFAULT_MAX_INDEX_SIZE,
        *,
        writable: bool = True,
    ) -> None:
        """`max_index_size` in bytes, at least one entry."""
        if max_index_size < self.ENTRY_SIZE:
            raise ValueError(f"an index of {max_index_size} bytes has no room for one entry of {self.ENTRY_SIZE}")
        self._file_system = file_system
        self._path = str(path)
        self.base_offset = base_offset
        self.max_index_size = max_index_size
        self._writable = writable
        self._lock = threading.Lock()  # over opening, closing and resizing the map
        self._map: MappedFile | None = None
        self._view: memoryview | None = None
        self._count = _UNKNOWN
        self._reserved = 0
        # Slots before it can be written at once: they are mapped, have disk blocks, and are no spare ones. Unknown: none.
        self._ready = _UNKNOWN

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r}, entries={self._count if self._count >= 0 else '?'})"

    # --- opening and closing ---

    @property
    def path(self) -> str:
        return self._path

    @property
    def is_mapped(self) -> bool:
        """True while the file is mapped."""
        return self._view is not None

    @property
    def writable(self) -> bool:
        return self._writable

    def open(self) -> Self:
        """Map the file now rather than on first use; creates it if writable and missing."""
        self._open_view()
        return self

    def _open_view(self) -> memoryview:
        with self._lock:
            if self._view is not None:
                return self._view
            if not self._writable:
                mapped = self._file_system.map(self._path, writable=False)
            elif self._file_system.exists(self._path):
                mapped = self._file_system.map(self._path, writable=True)
            else:
                mapped = self._file_system.map(self._path, self._rounded(self.max_index_size), writable=True)
                self._load_last(mapped.view, 0)
                self._count = 0
            return self._adopt(mapped)

    def _adopt(self, mapped: MappedFile) -> memoryview:
        self._map = mapped
        view = mapped.view
        if self._count == _UNKNOWN:
            count = self._find_count(view)
            self._load_last(view, count)
            self._count = count  # last: who finds it without the lock takes the rest for loaded
        self._reserved, self._ready = 0, _UNKNOWN
        self._view = view
        return view

    def _find_count(self, view: memoryview) -> int:
        """Number of entries before the zero tail; zeros never lie between entries.

        Gallops from the start, so that of a preallocated file about as many pages are touched as are used: each page of a
        hole that is read costs memory.
        """
        size = self.ENTRY_SIZE
        zeros = bytes(size)
        high = len(view) // size
        if not high or view[(high - 1) * size : high * size] != zeros:
            return high
        low, step = 0, 1
        # Invariant: slots before `low` are entries, slots from `high` on are zeros.
        while low < high:
            middle = min(low + step, (low + high) // 2)
            if view[middle * size : middle * size + size] == zeros:
                high, step = middle, high
            else:
                low, step = middle + 1, step * 2
        return low

    def close_map(self) -> None:
        """Unmap; the next use maps again.

        Syncs nothing: what was written is in the page cache. Any thread.
        """
        with self._lock:
            self._ready = _UNKNOWN
            self._view = None
            mapped, self._map = self._map, None
            if mapped is not None:
                mapped.close()

    def close(self) -> None:
        """Leave the file as it should lie on disk when the log is closed: trimmed, if writable and ever used; then
        unmap. Writer.
        """
        if self._writable and self.is_mapped:
            self.trim_to_valid_size()
        self.close_map()

    def seal(self) -> None:
        """Called when the segment was rolled: trim, unmap, and be read-only from now on.

        Writer; the caller syncs from the pool (`flush`).
        """
        if self._writable:
            self.trim_to_valid_size()
            self._writable = False
        self.close_map()

    def unseal(self) -> None:
        """Called when the segment becomes the active one again (truncation, or load): writable, with all its room.

        Writer.
        """
        if not self._writable:
            self.close_map()
            self._writable = True
        self.resize(self.max_index_size)

    def moved_to(self, path: StrPath) -> None:
        """Note the file's new path, after its directory was renamed."""
        self._path = str(path)
        mapped = self._map
        if mapped is not None:
            mapped.renamed(path)

    def flush(self) -> None:
        """Make contents and size durable. Any thread; blocks.

        FileNotFoundError when the file was moved or removed meanwhile.
        """
        file = self._file_system.open(self._path)
        try:
            file.sync()
        finally:
            file.close()

    # --- size ---

    def _rounded(self, size: int) -> int:
        return size - size % self.ENTRY_SIZE

    @property
    def entries(self) -> int:
        """Number of entries. Maps the file when nobody has asked yet, which may block. Any thread."""
        if self._count == _UNKNOWN:
            self._open_view()
        return self._count

    @property
    def size_in_bytes(self) -> int:
        """Size of all entries, in bytes."""
        return self.entries * self.ENTRY_SIZE

    @property
    def max_entries(self) -> int:
        """Number of entries that fit into the file as it is."""
        return len(self._view if self._view is not None else self._open_view()) // self.ENTRY_SIZE

    @property
    def is_full(self) -> bool:
        """True if no other entry fits (but those of the spare slots): the segment must roll."""
        return self.entries >= self.max_entries - self.SPARE_SLOTS

    def resize(self, size: int) -> None:
        """Resize the file to `size` bytes, rounded down to whole entries, but never below those it holds. Writer."""
        assert self._writable, f"{self._path} is read-only"
        rounded = max(self._rounded(size), self.size_in_bytes)
        view = self._view if self._view is not None else self._open_view()
        if len(view) == rounded:
            return
        with self._lock:
            mapped = self._map
            assert mapped is not None
            self._ready = _UNKNOWN
            self._view = None
            try:
                mapped.resize(rounded)
            finally:
                self._adopt(mapped)

    def trim_to_valid_size(self) -> None:
        """Cut the preallocated rest off. Writer."""
        self.resize(self.size_in_bytes)

    def reset(self) -> None:
        """Remove all entries and give the file all its room, to be filled from the log. Zeroes the old entries. Writer."""
        if self._writable:
            # Even a file that cannot be read as an index is one afterwards.
            with self._lock:
                self._ready = _UNKNOWN
                self._view = None
                mapped, self._map = self._map, None
                if mapped is not None:
                    mapped.close()
                mapped = self._file_system.map(self._path, 0, writable=True)
                mapped.resize(self._rounded(self.max_index_size))
                self._load_last(memoryview(b""), 0)
                self._count = 0
                self._adopt(mapped)
            return
        raise StorageError(f"{self._path} is read-only")

    # --- entries ---

    def _load_last(self, view: memoryview, count: int) -> None:
        """Set the subclass's cached copy of the last entry (or of none), of which there are `count`."""
        raise NotImplementedError

    def _writable_view(self, new_bytes: int) -> memoryview:
        """The view with disk blocks behind the next `new_bytes`.

        OSError (ENOSPC) when there are none; nothing has changed then.
        """
        assert self._writable, f"{self._path} is read-only"
        view = self._view if self._view is not None else self._open_view()
        end = self._count * self.ENTRY_SIZE + new_bytes
        if end > self._reserved:
            assert self._map is not None
            start = self._reserved if self._reserved else end - new_bytes
            start -= start % _RESERVE_BYTES
            end += -end % _RESERVE_BYTES
            self._map.reserve(start, end - start)
            self._reserved = end
        self._ready = min(self._reserved, len(view)) // self.ENTRY_SIZE - self.SPARE_SLOTS
        return view

    def _entry_at(self, slot: int) -> tuple[int, int]:
        """The raw entry in `slot`; maps again if another thread has closed the map meanwhile."""
        while True:
            view = self._view if self._view is not None else self._open_view()
            try:
                first, second = self.ENTRY.unpack_from(view, slot * self.ENTRY_SIZE)
            except ValueError:  # the view was released under us
                continue
            return first, second

    def _raw_entries(self) -> Iterator[tuple[int, int]]:
        """A copy of all entries as they are now."""
        while True:
            view = self._view if self._view is not None else self._open_view()
            try:
                data = bytes(view[: self._count * self.ENTRY_SIZE])
            except ValueError:
                continue
            return iter(self.ENTRY.iter_unpack(data))

    def _floor_slot(self, column: Struct, skip: int, target: int) -> int:
        """The last slot whose value in `column` is ≤ target, −1 when there is none. Any thread.

        `column` reads one value at `skip` bytes into an entry; the column must be sorted.
        """
        size = self.ENTRY_SIZE
        unpack = column.unpack_from
        while True:
            view = self._view if self._view is not None else self._open_view()
            count = self._count
            try:
                low, high = 0, count
                warm = count - WARM_BYTES // size
                if warm > 0:
                    if unpack(view, warm * size + skip)[0] <= target:
                        low = warm + 1
                    else:
                        high = warm
                # Invariant: slots before `low` are ≤ target, slots from `high` on are above it.
                while low < high:
                    middle = (low + high) >> 1
                    if unpack(view, middle * size + skip)[0] <= target:
                        low = middle + 1
                    else:
                        high = middle
            except ValueError:  # the view was released under us: take the new one
                continue
            return low - 1

    def _cut(self, count: int) -> None:
        """Remove the entries from slot `count` on. They are zeroed, so that a crash can't bring them back."""
        old = self.entries
        assert self._writable, f"{self._path} is read-only"
        assert 0 <= count <= old
        if count == old:
            return
        view = self._view if self._view is not None else self._open_view()
        start, end = count * self.ENTRY_SIZE, old * self.ENTRY_SIZE
        # Readers must not rely on slots that are being zeroed: count and last entry go first.
        self._count = count
        self._load_last(view, count)
        view[start:end] = bytes(end - start)

    def _relative(self, offset: int) -> int:
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise InvalidOffsetError(
                f"{self._path}: offset {offset} is not within 2^31 of the base offset {self.base_offset}"
            )
        return relative

    def _checked_size(self) -> int:
        """Size of the file; CorruptIndexError if it is impossible. The first step of every `sanity_check`."""
        try:
            if self._view is not None or not self._writable:
                size = len(self._view if self._view is not None else self._open_view())
            else:  # opening would make it where it is missing
                size = self._file_system.stat(self._path).size
        except FileNotFoundError:
            raise CorruptIndexError(f"{self._path} is missing") from None
        if size % self.ENTRY_SIZE:
            raise CorruptIndexError(f"{self._path} has {size} bytes, not a multiple of {self.ENTRY_SIZE}")
        return size

    def sanity_check(self) -> None:
        """Raise CorruptIndexError when size, first or last entry is impossible.

        Never another exception for what the bytes hold.
        """
        raise NotImplementedError
