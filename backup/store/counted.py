"""A store that counts: calls, requests as they are charged, bytes, errors and time, by operation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...storage.clock import SystemTime, Time
from .errors import AlreadyThere, NotThere
from .interface import ObjectStore, Stored, StoreOptions

OPERATIONS = ("create", "upload", "read", "list", "delete")
_PAGE = 1000


@dataclass(slots=True)
class Count:
    """What one operation came to."""

    calls: int = 0
    requests: int = 0
    """Estimated from sizes as clouds charge them: parts of an upload and two more, pages of a listing, thousands deleted;
    without what was tried again.
    """
    bytes: int = 0
    """Contents that were sent or read; of failed calls too, as far as they were taken."""
    errors: int = 0
    seconds: float = 0.0


class Tally:
    """Counts by operation, of one store or of several one after the other. Any threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {operation: Count() for operation in OPERATIONS}

    def counts(self) -> dict[str, Count]:
        """By operation, as of now."""
        with self._lock:
            return {operation: replace(count) for operation, count in self._counts.items()}

    def add(
        self, operation: str, calls: int = 0, requests: int = 0, size: int = 0, errors: int = 0, seconds: float = 0.0
    ) -> None:
        """Add to the counts of one operation."""
        with self._lock:
            count = self._counts[operation]
            count.calls += calls
            count.requests += requests
            count.bytes += size
            count.errors += errors
            count.seconds += seconds


class Counted:
    """An `ObjectStore` over another one. Any threads."""

    def __init__(
        self,
        store: ObjectStore,
        time: Time | None = None,
        part_bytes: int = StoreOptions().part_bytes,
        tally: Tally | None = None,
    ) -> None:
        """`tally` is added to; default: one of its own."""
        self.name = store.name
        self._store = store
        self._time = time or SystemTime()
        self._part = part_bytes
        self._tally = tally or Tally()

    def counts(self) -> dict[str, Count]:
        """By operation, as of now."""
        return self._tally.counts()

    def create(self, key: str, data: bytes) -> None:
        self._timed("create", lambda: self._store.create(key, data), 1, lambda: len(data))

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        sent = 0

        def counted() -> Iterator[bytes]:
            nonlocal sent
            for block in blocks:
                sent += len(block)
                yield block

        parts = -(-size // self._part)
        requests = 1 if parts <= 1 else parts + 2
        self._timed("upload", lambda: self._store.upload(key, size, counted()), requests, lambda: sent)

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        data: list[bytes] = []

        def read() -> None:
            data.append(self._store.read(key, start, length))

        self._timed("read", read, 1, lambda: sum(map(len, data)))
        return data[0]

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        found: list[Iterator[Stored]] = []

        def begin() -> None:
            found.append(self._store.list(prefix, after))

        self._timed("list", begin, 1, lambda: 0)
        return self._pages(found[0])

    def delete(self, keys: Sequence[str]) -> None:
        requests = -(-len(keys) // _PAGE)
        self._timed("delete", lambda: self._store.delete(keys), requests, lambda: 0)

    def close(self) -> None:
        self._store.close()

    def _pages(self, entries: Iterator[Stored]) -> Iterator[Stored]:
        """The first page was counted by its call."""
        number = 0
        while True:
            entry: list[Stored] = []
            try:
                entry.extend(stored for stored in [next(entries, None)] if stored is not None)
            except Exception:
                self._tally.add("list", errors=1)
                raise
            if not entry:
                return
            number += 1
            if number > 1 and number % _PAGE == 1:
                self._tally.add("list", requests=1)
            yield entry[0]

    def _timed(self, operation: str, call: Callable[[], Any], requests: int, size: Callable[[], int]) -> None:
        begun = self._time.monotonic()
        failed = True
        try:
            call()
            failed = False
        except (AlreadyThere, NotThere):  # an answer like another
            failed = False
            raise
        finally:
            took = self._time.monotonic() - begun
            self._tally.add(operation, 1, requests, size(), int(failed), took)
