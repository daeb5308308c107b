"""Walks a `.log` file from its first byte to its last, through batches and through bytes that are no batch.

Base of the offline tools (`dump`, `verify`, `anatomy`). Recovery stops at the first bad byte and cuts; a tool must
tell what lies there, so this walk goes on: behind bytes that are no batch it looks for the next sound one. Memory is
bounded by the chunk and the largest batch that is taken whole (`LARGEST_BATCH`); of a larger one the header is given.

Reads only, no lock: below a running daemon the file may grow meanwhile (what was there when it was opened is walked), and
its last batch may look cut off.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple
from zlib import crc32

from ...protocol.records.crc import crc32c
from ...protocol.records.record_batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_UP_TO_MAGIC,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
)
from ..io.filesystem import Buffer, File

CHUNK_BYTES = 1 << 20
LARGEST_BATCH = 64 << 20
"""Largest batch read into memory: damaged bytes must not make us allocate the size that they claim."""

_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_LEGACY_CRC_AT = 12
# Offset, length, then by format: crc, magic, attributes, two lengths; the same and a timestamp; a V2 header.
_SMALLEST = (26, 34, RECORD_BATCH_OVERHEAD)
# Where a sound batch may start: an offset below 2^48, a length in 1 … 2^31 - 1, any 4 bytes, a magic.
_CANDIDATE = re.compile(rb"(?=\0\0.{6}(?!\0{4})[\0-\x7f].{7}[\0-\2])", re.DOTALL)
_SEARCH_BYTES = 256 << 20  # bytes that may be read or summed up while looking for a sound batch


class Stretch(Enum):
    """Kinds of stretches of a file."""

    BATCH = "batch"
    ZEROS = "zeros"
    CUT_OFF = "cut off"
    GARBAGE = "garbage"


class Found(NamedTuple):
    """A stretch of the file; stretches follow one another without a gap.

    Attributes:
        data: the bytes of a batch, or (`is_whole` False) only its header; nothing for what is no batch. Valid until the
            next step of the walk.
        magic: the batch's, −1 for what is none.
        reason: why it is no batch.
    """

    stretch: Stretch
    position: int
    size: int
    data: memoryview
    is_whole: bool
    magic: int
    reason: str


_NOTHING = memoryview(b"")


def stored_crc(data: Buffer, magic: int) -> int:
    """Checksum stored in a batch."""
    return int(_CRC.unpack_from(data, CRC_AT if magic == MAGIC_V2 else _LEGACY_CRC_AT)[0])


def computed_crc(data: Buffer, magic: int) -> int:
    """The checksum of a batch's bytes: CRC-32C from the attributes on (V2), CRC-32 from the magic on (V0, V1)."""
    view = memoryview(data)
    return crc32c(view[ATTRIBUTES_AT:]) if magic == MAGIC_V2 else crc32(view[MAGIC_AT:])


def walk(file: File, start: int = 0, end: int | None = None, largest: int | None = None) -> Iterator[Found]:
    """Iterate over the stretches of [start, end) of a `.log` file; `end` None: its size. OSError.

    `largest`: bytes of a batch of format 2 that is given whole; None: `LARGEST_BATCH`, as of formats 0 and 1, which have to be
    opened.
    """
    limit = file.size() if end is None else end
    chunk = _Chunk(file, limit)
    position = start
    while position < limit:
        head = chunk.get(position, HEADER_UP_TO_MAGIC)
        if not head:  # the file has become shorter
            return
        size, reason = _claimed_size(head, limit - position)
        if reason:
            found = _what_is_none(chunk, position, limit, size, reason)
        else:
            is_whole = size <= (LARGEST_BATCH if largest is None or head[MAGIC_AT] < MAGIC_V2 else largest)
            data = chunk.get(position, size if is_whole else RECORD_BATCH_OVERHEAD)
            if len(data) < (size if is_whole else RECORD_BATCH_OVERHEAD):
                return
            found = Found(Stretch.BATCH, position, size, data, is_whole, head[MAGIC_AT], "")
        yield found
        position += found.size


def summed_crc(file: File, found: Found) -> Iterator[tuple[int, int]]:
    """Make the checksum of a batch of format 2 that is not whole in memory: (bytes read, checksum so far), block by block.
    OSError.
    """
    position, end, crc = found.position + ATTRIBUTES_AT, found.position + found.size, 0
    while position < end and (data := file.pread(min(CHUNK_BYTES, end - position), position)):
        crc = crc32c(data, crc)
        position += len(data)
        yield len(data), crc


class _Chunk:
    """Read-ahead buffer, so that many small batches cost one system call."""

    def __init__(self, file: File, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._data = b""
        self._start = 0

    def get(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes at `position`, fewer only at the end."""
        size = min(size, self._limit - position)
        if position < self._start or position + size > self._start + len(self._data):
            self._data = self._file.pread(min(max(size, CHUNK_BYTES), self._limit - position), position)
            self._start = position
        start = position - self._start
        return memoryview(self._data)[start : start + size]


def _claimed_size(head: memoryview, left: int) -> tuple[int, str]:
    """Size that a batch's first 17 bytes claim, and why they can't be a batch's ("" if they can)."""
    if len(head) < HEADER_UP_TO_MAGIC:
        return left, f"{left} bytes are too few for a batch"
    size = LOG_OVERHEAD + int(_LENGTH.unpack_from(head, LENGTH_AT)[0])
    magic = head[MAGIC_AT]
    if magic > MAGIC_V2:
        return size, f"no message format has the magic {magic}"
    if size < _SMALLEST[magic]:
        return size, f"a batch of format {magic} can't have {size} bytes"
    if size > left:
        return size, f"a batch of {size} bytes is cut off after {left}"
    return size, ""


def _what_is_none(chunk: _Chunk, position: int, limit: int, claimed: int, reason: str) -> Found:
    zeros = _zeros(chunk, position, limit)
    if zeros >= HEADER_UP_TO_MAGIC or zeros == limit - position:
        # A batch may start with zeros (offset 0): leave it its first bytes.
        stop = position + zeros if position + zeros == limit else _next_sound(chunk, position, limit)
        size = limit - position if stop is None else stop - position
        if size <= zeros:
            return Found(Stretch.ZEROS, position, size, _NOTHING, False, -1, f"{size} bytes of zeros")
        return Found(Stretch.GARBAGE, position, size, _NOTHING, False, -1, reason)
    following = _next_sound(chunk, position, limit)
    if following is None:
        is_cut = claimed > limit - position or limit - position < HEADER_UP_TO_MAGIC
        kind = Stretch.CUT_OFF if is_cut else Stretch.GARBAGE
        return Found(kind, position, limit - position, _NOTHING, False, -1, reason)
    return Found(Stretch.GARBAGE, position, following - position, _NOTHING, False, -1, reason)


def _zeros(chunk: _Chunk, position: int, limit: int) -> int:
    """Number of zero bytes from `position` on."""
    count = 0
    while position + count < limit:
        data = chunk.get(position + count, CHUNK_BYTES)
        if not data:
            break
        rest = bytes(data).lstrip(b"\0")
        count += len(data) - len(rest)
        if rest:
            break
    return count


def _next_sound(chunk: _Chunk, position: int, limit: int) -> int | None:
    """Position of the next batch with a right checksum behind `position`; None if none is found."""
    budget = _SEARCH_BYTES
    at = position + 1
    while at < limit and budget > 0:
        window = bytes(chunk.get(at, CHUNK_BYTES))
        if len(window) < HEADER_UP_TO_MAGIC:
            return None
        budget -= len(window)
        for match in _CANDIDATE.finditer(window):
            candidate = at + match.start()
            size, reason = _claimed_size(memoryview(window)[match.start() :], limit - candidate)
            if reason or size > min(LARGEST_BATCH, budget):
                continue
            budget -= size
            data = chunk.get(candidate, size)
            magic = data[MAGIC_AT]
            if len(data) == size and stored_crc(data, magic) == computed_crc(data, magic):
                return candidate
        at += len(window) - HEADER_UP_TO_MAGIC + 1
    return None
