"""Objects in a dictionary: for tests, and for trying out."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Iterator, Sequence

from ...storage.clock import SystemTime, Time
from .errors import AlreadyThere, NotThere, StoreError
from .interface import Stored, WrongSize, blocks_of_size, check_key, check_prefix

_PART = 1 << 20


class MemoryStore:
    """An `ObjectStore` in memory. One lock, held for no longer than a look-up; a listing sees what was there at its start."""

    def __init__(self, name: str = "memory:", time: Time | None = None) -> None:
        self.name = name
        self._time = time or SystemTime()
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}  # key: content, modified_ms

    def create(self, key: str, data: bytes) -> None:
        with self._lock:
            if check_key(key) in self._objects:
                raise AlreadyThere("create", self.name, key, "there is an object with this key")
            self._objects[key] = (bytes(data), self._time.milliseconds())

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        check_key(key)
        try:
            data = b"".join(blocks_of_size(blocks, size, _PART))
        except WrongSize as error:
            raise StoreError("upload", self.name, key, str(error)) from None
        with self._lock:
            self._objects[key] = (data, self._time.milliseconds())

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        with self._lock:
            found = self._objects.get(check_key(key))
        if found is None:
            raise NotThere("read", self.name, key, "there is no such object")
        return found[0][start : None if length is None else start + length]

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        check_prefix(prefix)
        with self._lock:
            keys = sorted(self._objects)
            behind = keys[bisect.bisect_right(keys, after) :]
            found = [
                Stored(key, len(self._objects[key][0]), self._objects[key][1])
                for key in behind
                if key.startswith(prefix)
            ]
        return iter(found)

    def delete(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in keys:
                self._objects.pop(check_key(key), None)

    def close(self) -> None:
        """Keeps what is there: whoever holds this object, or its name, goes on with it."""
