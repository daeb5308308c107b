"""One pack: pieces of segments, and small files, one behind the other, read while they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..formats.entries import Extent
from ..formats.keys import new_sum, sum_of
from .reading import BLOCK_BYTES, Readers, SegmentGone, Unreadable, lease

if TYPE_CHECKING:
    from .tracker import Piece


class Pack:
    """Collects pieces, then gives their bytes, then their extents. One thread; `blocks` once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self._pieces: list[Piece] = []
        self._offsets: list[int] = []
        self._sums: list[str] = []

    def add(self, piece: Piece) -> int:
        """Add a piece; returns its number, for `extent`."""
        self._pieces.append(piece)
        self._offsets.append(self.size)
        self.size += piece.length
        return len(self._pieces) - 1

    def extent(self, number: int) -> Extent:
        """Where a piece is. After `blocks` has ended."""
        return Extent(self.name, self._offsets[number], self._pieces[number].length, self._sums[number])

    def blocks(self, readers: Readers) -> Iterator[bytes]:
        """Bytes in blocks; sums are made on the way. SegmentGone, Unreadable."""
        batch: list[Piece] = []
        size, root = 0, ""
        for piece in self._pieces:
            its_root = piece.log.directory.rpartition("/")[0]
            if batch and (size + piece.length > BLOCK_BYTES or its_root != root):
                yield self._batch(batch, readers)
                batch, size = [], 0
            if piece.length > BLOCK_BYTES and piece.segment is not None:
                yield from self._long(piece, readers)
                continue
            batch.append(piece)
            size, root = size + piece.length, its_root
        if batch:
            yield self._batch(batch, readers)

    def _batch(self, batch: list[Piece], readers: Readers) -> bytes:
        datas = readers.run(batch[0].log, lambda: [_read(piece) for piece in batch])
        self._sums += [sum_of(data) for data in datas]
        return b"".join(datas)

    def _long(self, piece: Piece, readers: Readers) -> Iterator[bytes]:
        assert piece.segment is not None
        digest = new_sum()
        with readers.leased(piece.log, piece.segment) as file:
            for block in readers.blocks(piece.log, file, piece.start, piece.start + piece.length):
                digest.update(block)
                yield block
        self._sums.append(digest.hexdigest())


def _read(piece: Piece) -> bytes:
    """Bytes of one piece. The directory's thread."""
    if piece.segment is None:
        assert piece.data is not None
        return piece.data
    try:
        file = lease(piece.log, piece.segment)
        try:
            data = file.pread(piece.length, piece.start)
        finally:
            file.release()
    except FileNotFoundError:
        raise SegmentGone(piece.log) from None
    except OSError as error:
        raise Unreadable(piece.log, str(error)) from None
    if len(data) != piece.length:
        raise Unreadable(piece.log, f"{file.path} is shorter than {piece.start + piece.length} bytes")
    return data
