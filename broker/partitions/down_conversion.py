"""Reading a log for a client that does not know its newest formats: is the slice fit as it stands, or to be converted?

Looking takes reading the slice, which happens in the I/O pool, a piece of bounded size at a time, whatever the client asked
for. A slice that is fit is sent from its file; another is given to `format_conversion.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.conversion import needs_conversion

if TYPE_CHECKING:
    from ...storage.log_values import FetchDataInfo
    from ...storage.unified_log import UnifiedLog

#: What is looked at at once, but for a first entry that is larger: what is converted waits in memory for its client.
CONVERTED_SLICE_BYTES = 1 << 20


class ReadableSlice(NamedTuple):
    """What `read_for_magic` found.

    Attributes:
        info: a slice that is fit as it stands, with a lease; without a file when there is nothing to read, or `data`.
        data: the slice, which has to be converted; None: it has not.
    """

    info: FetchDataInfo
    data: bytes | None


def read_for_magic(log: UnifiedLog, offset: int, max_bytes: int, magic: int) -> ReadableSlice:
    """The entries from the one that holds `offset` on, of which at least one is whole, for a reader of formats to `magic`.

    `max_bytes` are read, CONVERTED_SLICE_BYTES at most. Pool thread.

    Raises:
        CorruptRecordError: an entry has an impossible size.
        StorageError, OSError: as `UnifiedLog.read`.
    """
    info = log.read(offset, min(max_bytes, CONVERTED_SLICE_BYTES))
    if info.file is None:
        return ReadableSlice(info, None)
    lent = False
    try:
        data = info.file.pread(info.size, info.position)
        if not needs_conversion(data, magic):
            lent = True
            return ReadableSlice(info, None)
    finally:
        if not lent:
            info.release()
    return ReadableSlice(info._replace(file=None, size=0), data)
