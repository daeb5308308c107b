"""Topics, partitions and readable offsets in log directories.

Without a broker's word the bounds are those of the checkpoints: the log start offset, and the high watermark of the last few
seconds. For readers of committed data the end is the last stable offset, found from the newest producer snapshot and the
batches behind it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

from ...protocol.records.attributes import CONTROL_MASK
from ...protocol.records.exceptions import RecordError
from ...storage.exceptions import StorageError
from ...storage.io.checkpoint import LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, OffsetCheckpointFile
from ...storage.io.filesystem import RealFileSystem
from ...storage.ledger.ledger import DELETE_RECORDS, LEDGER_FILE, RETENTION
from ...storage.ledger.ledger import decode as decode_ledger
from ...storage.log.partition_metadata import encode_uuid, read_partition_metadata
from ...storage.manager.meta_properties import read_meta_properties
from ...storage.producers.snapshot import decode_snapshot
from ...storage.segment.file_records import last_offset, read_headers
from ...storage.segment.names import SNAPSHOT_SUFFIX, DirectoryState, file_name, parse_directory_name
from ..exceptions import DirectoryError, TopicError
from ..reading.segment_files import SegmentFile, floor, list_segments
from .places import INTERNAL_TOPICS, Bounds, Range, TopicPartition
from .sparse_index import first_at
from .splits import AnySplit, plan


class LogDirectories:
    """Data directories of one daemon, read from outside: a `Place`. Reads only; blocks."""

    def __init__(self, paths: Sequence[str]) -> None:
        """DirectoryError: one of them is not there, or a newer daemon's."""
        self._files = RealFileSystem()
        self._homes: dict[tuple[str, int], str] = {}
        self._paths = tuple(paths)
        self.name = ", ".join(paths)
        self._look()

    def _look(self) -> None:
        homes = {}
        for path in self._paths:
            if not os.path.isdir(path):
                raise DirectoryError(f"{path}: there is no such directory; path is a daemon's log.dirs")
            try:
                read_meta_properties(self._files, path)
            except StorageError as error:
                raise DirectoryError(f"{error}; was it written by a newer daemon?") from error
            for name in os.listdir(path):
                parsed = parse_directory_name(name)
                if (
                    parsed is not None
                    and parsed.state is DirectoryState.LIVE
                    and os.path.isdir(os.path.join(path, name))
                ):
                    homes[parsed.topic, parsed.partition] = path
        self._homes = homes

    def topics(self) -> list[str]:
        self._look()
        return sorted({topic for topic, _ in self._homes})

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        self._look()
        found: dict[str, list[int]] = {topic: [] for topic in topics}
        for topic, number in sorted(self._homes):
            if topic in found:
                found[topic].append(number)
        for topic, numbers in found.items():
            if not numbers:
                there = ", ".join(name for name in self.topics() if name not in INTERNAL_TOPICS)
                raise TopicError(f"{self.name}: no topic {topic} here; there are {there or 'none'}")
        return found

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Topic ids from `partition.metadata`, which Kafka before 2.8 does not write."""
        found: dict[str, str] = {}
        for topic, number in sorted(self._homes):
            if topic in topics and topic not in found:
                try:
                    metadata = read_partition_metadata(self._files, self.directory(topic, number))
                except StorageError as error:
                    raise DirectoryError(str(error)) from error
                if metadata is not None:
                    found[topic] = encode_uuid(metadata.topic_id)
        return found

    def bounds(self, wanted: Sequence[TopicPartition], *, read_committed: bool) -> dict[TopicPartition, Bounds]:
        return {where: self.partition_bounds(*where, read_committed=read_committed) for where in wanted}

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for where, timestamp in wanted.items():
            start, end = self.partition_bounds(*where)
            found[where] = first_at(self.segments(*where), timestamp, start, end)
        return found

    def splits(self, ranges: Sequence[Range], split_bytes: int) -> list[AnySplit]:
        return [
            split
            for where, first, end in ranges
            for split in plan(*where, self.segments(*where), first, end, split_bytes)
        ]

    def why_gone(self, where: TopicPartition, start: int) -> str:
        """Cause of the loss, from the daemon's ledger. A log start inside a segment can only come from DeleteRecords."""
        segments = self.segments(*where)
        if segments and segments[0].base_offset < start:
            return "DeleteRecords has taken"
        try:
            ledger = decode_ledger(self._files.read_bytes(os.path.join(self.directory(*where), LEDGER_FILE)))
        except OSError:
            ledger = None
        causes = set() if ledger is None else {name for name, count in ledger.removed.items() if count}
        if RETENTION in causes and DELETE_RECORDS not in causes:
            return "retention has taken"
        if DELETE_RECORDS in causes and RETENTION not in causes:
            return "DeleteRecords has taken"
        return "retention or DeleteRecords has taken"

    def close(self) -> None:
        pass

    def segments(self, topic: str, partition: int) -> list[SegmentFile]:
        return list_segments(self.directory(topic, partition))

    def directory(self, topic: str, partition: int) -> str:
        return os.path.join(self._homes[topic, partition], f"{topic}-{partition}")

    def partition_bounds(self, topic: str, partition: int, *, read_committed: bool = False) -> Bounds:
        """Readable offsets of one partition."""
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
                entry.producer_id: entry.current_txn_first_offset
                for entry in entries
                if entry.current_txn_first_offset is not None
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
