"""Bytes of a backup's objects, checked against the sums of the manifest. Any number of threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..formats.entries import Extent, Partition, Segment
from ..formats.keys import PACKS, new_sum, segment_key, segments_prefix, sum_of
from ..formats.sealed import DamagedBackupError
from ..store.errors import NotThere

if TYPE_CHECKING:
    from uuid import UUID

    from ..store.interface import ObjectStore

CHUNK_BYTES = 64 << 10
_CHUNKS = 512
"""Chunks of packs that are kept. Neighbours in a pack are asked for one after the other, but between two of them those of all
packs that their partition's end is in: many chunks do, and not long ones.
"""
BLOCK_BYTES = 4 << 20

Sink = Callable[[bytes], None]


class Fetcher:
    """Reads extents and objects of one store."""

    def __init__(self, store: ObjectStore, chunks: int = _CHUNKS) -> None:
        """`chunks`: how many pieces of packs, of CHUNK_BYTES, are kept."""
        self._store = store
        self._most = chunks
        self._chunks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def extent(self, extent: Extent) -> Iterator[bytes]:
        """Bytes of an extent. DamagedBackupError when they are not those that were sent, at the end; StoreError."""
        key = f"{PACKS}{extent.pack}"
        if extent.length <= CHUNK_BYTES:
            data = self._from_chunks(key, extent.offset, extent.length)
            _check(key, len(data) == extent.length and sum_of(data) == extent.sum)
            yield data
            return
        digest = new_sum()
        for block in self._blocks(key, extent.offset, extent.length):
            digest.update(block)
            yield block
        _check(key, digest.hexdigest() == extent.sum)

    def whole(self, entry: Partition, segment: Segment, topic_id: UUID | None) -> Iterator[bytes]:
        """Bytes of a segment's object: its log and its companions. Raises as `extent`."""
        key = segment_key(
            segments_prefix(entry.topic, topic_id, entry.partition), segment.base_offset, segment.object_sum
        )
        digest = new_sum()
        for block in self._blocks(key, 0, segment.object_size):
            digest.update(block)
            yield block
        _check(key, digest.hexdigest() == segment.object_sum)

    def _blocks(self, key: str, start: int, length: int) -> Iterator[bytes]:
        end = start + length
        while start < end:
            block = self._read(key, start, min(BLOCK_BYTES, end - start))
            _check(key, bool(block))
            yield block
            start += len(block)

    def _from_chunks(self, key: str, start: int, length: int) -> bytes:
        """A short piece, by chunks that several pieces are in."""
        parts = []
        position, end = start, start + length
        while position < end:
            number = position // CHUNK_BYTES
            chunk = self._chunk(key, number)
            inside = position - number * CHUNK_BYTES
            part = chunk[inside : inside + end - position]
            if not part:
                break
            parts.append(part)
            position += len(part)
        return b"".join(parts)

    def _chunk(self, key: str, number: int) -> bytes:
        with self._lock:
            found = self._chunks.get((key, number))
            if found is not None:
                self._chunks.move_to_end((key, number))
                return found
        data = self._read(key, number * CHUNK_BYTES, CHUNK_BYTES)
        with self._lock:
            self._chunks[key, number] = data
            while len(self._chunks) > self._most:
                self._chunks.popitem(last=False)
        return data

    def _read(self, key: str, start: int, length: int) -> bytes:
        try:
            return self._store.read(key, start, length)
        except NotThere as error:
            raise DamagedBackupError(f"{key} is missing: {error}") from None


def _check(key: str, is_right: bool) -> None:
    if not is_right:
        raise DamagedBackupError(f"{key} is damaged: its bytes do not fit the sum in the manifest")
