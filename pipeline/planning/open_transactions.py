"""The oldest transaction that is open in a partition's files: committed data ends before it.

The newest producer snapshot at or below the wanted end says which transactions were open there; the headers of the batches behind
it say what became of them. A stream asks with each trigger, so a scan remembers how far it has come, and reads each header once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ...protocol.records.attributes import CONTROL_MASK
from ...storage.exceptions import StorageError
from ...storage.io.filesystem import RealFileSystem
from ...storage.producers.snapshot import decode_snapshot
from ...storage.segment.file_records import read_headers
from ...storage.segment.names import SNAPSHOT_SUFFIX, file_name
from ..reading.segment_files import SegmentFile, floor


class TransactionScan:
    """Scan of one partition. One thread at a time; blocks."""

    def __init__(self) -> None:
        self._files = RealFileSystem()
        self._forget()

    def _forget(self) -> None:
        self._inode = -1
        self._position = 0
        self._end = -1
        self._open: dict[int, int] = {}

    def first_open(self, segments: list[SegmentFile], end: int) -> int:
        """First offset of the oldest transaction that is open at `end`; `end` when none is."""
        at = next((at for at, segment in enumerate(segments) if segment.inode == self._inode), None)
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
            if segment.base_offset >= end:
                return True
            try:
                file = self._files.open(segment.path, writable=False)
            except FileNotFoundError:
                continue
            try:
                inode = os.fstat(file.fileno()).st_ino
                position = 0
                if segment.inode == self._inode:
                    if inode != self._inode:
                        return False  # cleaning has replaced it since it was listed
                    position = self._position
                self._inode, self._position = inode, position
                for header in read_headers(file, position, file.size()):
                    if header.base_offset >= end:
                        return True
                    self._position = header.position + header.size
                    if not header.is_transactional:
                        continue
                    if header.attributes & CONTROL_MASK:
                        self._open.pop(header.producer_id, None)
                    else:
                        self._open.setdefault(header.producer_id, header.base_offset)
            finally:
                file.close()
        return True
