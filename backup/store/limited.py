"""A store that takes no more than so many bytes a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

from ...storage.clock import SystemTime, Time
from .interface import ObjectStore, Stored

_BURST_S = 0.25
_BLOCK = 256 << 10


class Limited:
    """An `ObjectStore` over another one, whose contents pass at `bytes_per_second` in all threads together.

    Bytes that are written wait before they are sent, those that are read before they are handed on. A quarter of a second's
    bytes pass at once. State, under a lock: when the next byte may pass.
    """

    def __init__(
        self,
        store: ObjectStore,
        bytes_per_second: float,
        time: Time | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        if bytes_per_second <= 0:
            raise ValueError(f"not a rate: {bytes_per_second} bytes a second")
        self.name = store.name
        self._store = store
        self._rate = bytes_per_second
        self._time = time or SystemTime()
        self._pause = pause or threading.Event().wait
        self._lock = threading.Lock()
        self._next = self._time.monotonic() - _BURST_S

    def create(self, key: str, data: bytes) -> None:
        self._pass(len(data))
        self._store.create(key, data)

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        def paced() -> Iterator[bytes]:
            for block in blocks:
                for start in range(0, len(block), _BLOCK):
                    piece = block[start : start + _BLOCK]
                    self._pass(len(piece))
                    yield piece

        self._store.upload(key, size, paced())

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        data = self._store.read(key, start, length)
        self._pass(len(data))
        return data

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        return self._store.list(prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        self._store.delete(keys)

    def close(self) -> None:
        self._store.close()

    def _pass(self, count: int) -> None:
        """Wait until `count` more bytes may pass. Each thread takes its place in the row first."""
        with self._lock:
            now = self._time.monotonic()
            self._next = max(self._next, now - _BURST_S) + count / self._rate
            wait = self._next - now
        if wait > 0:
            self._pause(wait)
