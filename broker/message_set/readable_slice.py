"""A slice of a log for a reader of older formats: as it stands in its file, or as bytes that have to be converted down.

`fetch.py` asks for it, under message.set.max.magic below 2; Kafka's Fetch has `../produce_fetch/legacy_fetch.py`. Reading takes
the disk, looking at entries takes time: both happen in the I/O pool. Nothing is converted here: `fetch.py` hands the bytes to
`protocol/records/conversion.py:down_convert`, on the conversion thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.conversion import needs_conversion
from ..partitions.conversion_thread import CONVERTED_SLICE_BYTES

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.values import FetchDataInfo


class ReadableSlice(NamedTuple):
    """Result of `read_for_magic`.

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
