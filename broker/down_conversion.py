"""Reading a log for a client that does not know its newest formats: looked at, and converted where need be.

Looking takes reading the slice, and converting makes every record an object for a while: both happen in the I/O pool, a
piece of bounded size at a time, whatever the client asked for. What comes out is sent from memory; a slice that is fit as it
stands is sent from its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.records.conversion import down_convert
from ..protocol.records.exceptions import RecordError
from ..protocol.records.memory_records import iterate_batches

if TYPE_CHECKING:
    from ..storage.log_values import FetchDataInfo
    from ..storage.unified_log import UnifiedLog

#: What is read and converted at once, but for a first entry that is larger: answers wait in memory for clients.
CONVERTED_SLICE_BYTES = 1 << 20


class ReadableSlice(NamedTuple):
    """What `read_for_magic` found.

    Attributes:
        info: a slice that is fit as it stands, with a lease; without a file when there is nothing to read, or `data`.
        data: what was converted, b"" when nothing was left of it (control batches).
        next_offset: behind what was looked at: where to go on when `data` is empty.
    """

    info: FetchDataInfo
    data: bytes | None
    next_offset: int


def read_for_magic(log: UnifiedLog, offset: int, max_bytes: int, magic: int, first_offset: int) -> ReadableSlice:
    """The entries from the one that holds `offset` on, in format `magic` or older: whole ones, at least one.

    `max_bytes` of the log are looked at, CONVERTED_SLICE_BYTES at most. Records below `first_offset` are left out of what is
    converted, where they would stand alone. An entry that can't be converted (zstd in an old format, say) ends the slice; it
    is the first of the next one then. Pool thread.

    Raises:
        RecordError: the first entry can't be converted.
        StorageError, OSError: as `UnifiedLog.read`.
    """
    info = log.read(offset, min(max_bytes, CONVERTED_SLICE_BYTES))
    if info.file is None:
        return ReadableSlice(info, None, offset)
    lent = False
    try:
        data = info.file.pread(info.size, info.position)
        made, next_offset = _convert(memoryview(data), magic, first_offset)
        if made is None:
            lent = True
            return ReadableSlice(info, None, next_offset)
    finally:
        if not lent:
            info.release()
    return ReadableSlice(info._replace(file=None, size=0), made, next_offset)


def _convert(data: memoryview, magic: int, first_offset: int) -> tuple[bytes | None, int]:
    """(converted entries, or None when all are fit; offset behind the last whole one)."""
    parts: list[bytes] = []
    converted = False
    next_offset = -1
    try:
        for header in iterate_batches(data):
            entry = data[header.position : header.position + header.size]
            if header.magic > magic:
                converted = True
                parts.append(down_convert(entry, magic, first_offset).data)
            else:
                parts.append(bytes(entry))
            next_offset = header.last_offset + 1
    except RecordError:
        if next_offset < 0:
            raise
        converted = True  # what is behind the one that stopped us must not go with it
    return (b"".join(parts) if converted else None), next_offset
