"""The oldest transaction that is open in a partition's files: committed data ends before it.

The newest producer snapshot at or below the wanted end says which transactions were open there; the headers of the batches behind
it say what became of them. A stream asks with each trigger, so a scan remembers how far it has come, and reads each header once.
It goes on in the file that has the last one where it was; another one may have the name, and the inode, of a file that is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ...protocol.records.attributes import CONTROL_MASK
from ...storage.exceptions import StorageError
from ...storage.io.filesystem import RealFileSystem
from ...storage.producers.snapshot import decode_snapshot
from ...storage.segment.names import SNAPSHOT_SUFFIX, file_name
from ..exceptions import CorruptLogError
from ..reading.segment_files import SegmentFile, floor
from .sparse_index import written_headers

if TYPE_CHECKING:
    from ...protocol.records.record_batch import BatchHeader
    from ...storage.io.filesystem import File


class TransactionScan:
    """Scan of one partition. One thread at a time; blocks."""

    def __init__(self) -> None:
        self._files = RealFileSystem()
        self._forget()

    def _forget(self) -> None:
        self._base_offset = -1  # of the segment that was read last
        self._last: BatchHeader | None = None  # of those that were read there
        self._end = -1
        self._open: dict[int, int] = {}

    def first_open(self, segments: list[SegmentFile], end: int) -> int:
        """First offset of the oldest transaction that is open at `end`; `end` when none is."""
        at = next((at for at, segment in enumerate(segments) if segment.base_offset == self._base_offset), None)
        if at is None or end < self._end or not self._go_on(segments[at:], end):
            self._forget()
            at, opened = self._from_snapshot(segments, end)
            self._open = dict(opened)
            self._go_on(segments[at:], end)
        self._end = end
        return min(self._open.values(), default=end)

    def _from_snapshot(self, segments: list[SegmentFile], end: int) -> tuple[int, Mapping[int, int]]:
        """Segment at which to begin, and what was open there: producer → first offset."""
        for at in range(max(floor(segments, end), 0), -1, -1):
            if at >= len(segments):
                continue
            path = os.path.join(segments[at].directory, file_name(segments[at].base_offset, SNAPSHOT_SUFFIX))
            try:
                entries = decode_snapshot(self._files.read_bytes(path))
            except (FileNotFoundError, StorageError):
                continue
            return at, {
                entry.producer_id: entry.current_txn_first_offset
                for entry in entries
                if entry.current_txn_first_offset is not None
            }
        return 0, {}

    def _go_on(self, segments: list[SegmentFile], end: int) -> bool:
        """Read headers up to `end`. False: what was read before is not what the file has now."""
        for segment in segments:
            last = self._last if segment.base_offset == self._base_offset else None
            if segment.base_offset >= end or (last is not None and last.last_offset + 1 >= end):
                return True
            try:
                file = self._files.open(segment.path, writable=False)
            except FileNotFoundError:
                continue
            try:
                headers = _behind(file, last)
                if headers is None:
                    return False
                self._base_offset, self._last = segment.base_offset, last
                for header in headers:
                    if header.base_offset >= end:
                        return True
                    self._last = header
                    if not header.is_transactional:
                        continue
                    if header.attributes & CONTROL_MASK:
                        self._open.pop(header.producer_id, None)
                    else:
                        self._open.setdefault(header.producer_id, header.base_offset)
            finally:
                file.close()
        return True


def _behind(file: File, last: BatchHeader | None) -> Iterator[BatchHeader] | None:
    """The headers behind the last one that was read; None if that is not where it was: another file, whatever its inode."""
    headers = written_headers(file, 0 if last is None else last.position)
    try:
        return headers if last is None or next(headers, None) == last else None
    except CorruptLogError:
        return None
