"""What there is to read in log directories: topics, partitions, and between which offsets.

Without a broker's word the bounds are those of the checkpoints: the log start offset, and the high watermark of the last few
seconds. For readers of committed data the end is the last stable offset, found from the newest producer snapshot and the
batches behind it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..protocol.records.attributes import CONTROL_MASK
from ..protocol.records.exceptions import RecordError
from ..storage.checkpoint import LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, OffsetCheckpointFile
from ..storage.exceptions import StorageError
from ..storage.file_records import last_offset, read_headers
from ..storage.filesystem import RealFileSystem
from ..storage.log_names import SNAPSHOT_SUFFIX, DirectoryState, file_name, parse_directory_name
from ..storage.producer_snapshot import decode_snapshot
from .exceptions import DirectoryError
from .segment_files import SegmentFile, floor, list_segments


class Bounds(NamedTuple):
    """Offsets [start, end) of a partition that can be read."""

    start: int
    end: int


class LogDirectories:
    """One daemon's data directories, from outside. Reads only; blocks."""

    def __init__(self, paths: Sequence[str]) -> None:
        """DirectoryError: one of them is not there."""
        self._files = RealFileSystem()
        self._homes: dict[tuple[str, int], str] = {}
        for path in paths:
            if not os.path.isdir(path):
                raise DirectoryError(f"{path}: there is no such directory; path is a daemon's log.dirs")
            for name in os.listdir(path):
                parsed = parse_directory_name(name)
                if (
                    parsed is not None
                    and parsed.state is DirectoryState.LIVE
                    and os.path.isdir(os.path.join(path, name))
                ):
                    self._homes[parsed.topic, parsed.partition] = path
        self._paths = tuple(paths)

    @property
    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self._homes})

    def partitions(self, topic: str) -> list[int]:
        """DirectoryError when there are none."""
        found = sorted(number for name, number in self._homes if name == topic)
        if not found:
            raise DirectoryError(
                f"{', '.join(self._paths)}: no topic {topic} here; there are {', '.join(self.topics) or 'none'}"
            )
        return found

    def segments(self, topic: str, partition: int) -> list[SegmentFile]:
        return list_segments(self.directory(topic, partition))

    def directory(self, topic: str, partition: int) -> str:
        return os.path.join(self._homes[topic, partition], f"{topic}-{partition}")

    def bounds(self, topic: str, partition: int, *, read_committed: bool = False) -> Bounds:
        """Where the partition can be read."""
        home, place = self._homes[topic, partition], (topic, partition)
        segments = self.segments(topic, partition)
        first = segments[0].base_offset if segments else 0
        start = max(first, self._checkpoint(home, LOG_START_OFFSET_CHECKPOINT).get(place, first))
        if os.path.exists(os.path.join(home, REPLICATION_OFFSET_CHECKPOINT)):
            # A log of which nothing has been said yet is new, and its daemon has not come to a checkpoint since.
            end = self._checkpoint(home, REPLICATION_OFFSET_CHECKPOINT).get(place, start)
        else:  # somebody's copy of partitions
            end = self._log_end(segments)
        if read_committed:
            end = min(end, self._first_open_transaction(segments, end))
        return Bounds(start, max(start, end))

    def _log_end(self, segments: list[SegmentFile]) -> int:
        if not segments:
            return 0
        file = self._files.open(segments[-1].path, writable=False)
        try:
            last = last_offset(file, 0, file.size())
        except RecordError:
            raise DirectoryError(
                f"{segments[-1].path}: is damaged, and there is no {REPLICATION_OFFSET_CHECKPOINT} to say where it ends; "
                "`tidelog log verify` says more"
            ) from None
        finally:
            file.close()
        return segments[-1].base_offset if last is None else last + 1

    def _checkpoint(self, home: str, name: str) -> dict[tuple[str, int], int]:
        try:
            return OffsetCheckpointFile(self._files, os.path.join(home, name)).read()
        except StorageError as error:
            raise DirectoryError(
                f"{error}; without it there is no telling what may be read: start the daemon once"
            ) from error

    def _first_open_transaction(self, segments: list[SegmentFile], end: int) -> int:
        """First offset of the oldest transaction that is open at `end`; `end` when none is."""
        still_open: dict[int, int] = {}
        position = 0
        for position in range(max(floor(segments, end), 0), -1, -1):
            path = os.path.join(
                segments[position].directory, file_name(segments[position].base_offset, SNAPSHOT_SUFFIX)
            )
            try:
                entries = decode_snapshot(self._files.read_bytes(path))
            except (FileNotFoundError, StorageError):
                continue
            still_open = {
                one.producer_id: one.current_txn_first_offset
                for one in entries
                if one.current_txn_first_offset is not None
            }
            break
        for segment in segments[position:]:
            for producer_id, is_marker, base_offset in self._transactional(segment, end):
                if is_marker:
                    still_open.pop(producer_id, None)
                else:
                    still_open.setdefault(producer_id, base_offset)
        return min(still_open.values(), default=end)

    def _transactional(self, segment: SegmentFile, end: int) -> Iterator[tuple[int, bool, int]]:
        try:
            file = self._files.open(segment.path, writable=False)
        except FileNotFoundError:
            return
        try:
            for header in read_headers(file, 0, file.size()):
                if header.base_offset >= end:
                    return
                if header.is_transactional:
                    yield header.producer_id, bool(header.attributes & CONTROL_MASK), header.base_offset
        finally:
            file.close()
