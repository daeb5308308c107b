"""Topics, partitions and readable offsets in log directories.

Without a broker's word the bounds are those of the checkpoints: the log start offset, and the high watermark of the last few
seconds. For readers of committed data the end is the last stable offset, found from the newest producer snapshot and the
batches behind it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...storage.exceptions import StorageError
from ...storage.io.checkpoint import LOG_START_OFFSET_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT, OffsetCheckpointFile
from ...storage.io.filesystem import RealFileSystem
from ...storage.ledger.ledger import DELETE_RECORDS, LEDGER_FILE, RETENTION
from ...storage.ledger.ledger import decode as decode_ledger
from ...storage.log.partition_metadata import PARTITION_METADATA_FILE, encode_uuid, read_partition_metadata
from ...storage.manager.meta_properties import read_meta_properties
from ...storage.segment.names import DirectoryState, parse_directory_name
from ..exceptions import CorruptLogError, DirectoryError, TopicError
from ..reading.segment_files import SegmentFile, SegmentLists
from .open_transactions import TransactionScan
from .places import INTERNAL_TOPICS, Bounds, Range, TopicPartition
from .sparse_index import first_at, start_position, written_headers
from .splits import AnySplit, SplitSize, estimate, plan, touched

#: Above every offset.
_NO_END = 1 << 63

_parsed = lru_cache(1 << 16)(parse_directory_name)


class _Checkpoints(NamedTuple):
    """What the checkpoints of one directory say at one look: (topic, partition) → offset. `ends` is None where there is no
    checkpoint of high watermarks: somebody's copy of partitions.
    """

    starts: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int] | None


class _Remembered:
    """Parsed files that are replaced as a whole, each parsed again only when it is another."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Any]] = {}

    def get(self, path: str, parse: Callable[[], Any]) -> Any:
        """What `parse` makes of the file; None without one."""
        try:
            status = os.stat(path)
        except OSError:
            return None
        what = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._known.get(path)
        if known is None or known[0] != what:
            known = self._known[path] = (what, parse())
        return known[1]


class LogDirectories:
    """Data directories of one daemon, read from outside: a `Place`. Reads only; blocks."""

    def __init__(self, paths: Sequence[str]) -> None:
        """DirectoryError: one of them is not there, or a newer daemon's."""
        self._files = RealFileSystem()
        self._homes: dict[tuple[str, int], str] = {}
        self._lists = SegmentLists()
        self._remembered = _Remembered()
        self._scans: dict[tuple[str, int], TransactionScan] = {}
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
            with os.scandir(path) as entries:
                for entry in entries:
                    parsed = _parsed(entry.name)
                    if parsed is not None and parsed.state is DirectoryState.LIVE and entry.is_dir():
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
        wanted, found = set(topics), dict[str, str]()
        for topic, number in sorted(place for place in self._homes if place[0] in wanted):
            if topic not in found:
                directory = self.directory(topic, number)
                try:
                    metadata = self._remembered.get(
                        os.path.join(directory, PARTITION_METADATA_FILE),
                        lambda directory=directory: read_partition_metadata(self._files, directory),  # type: ignore[misc]
                    )
                except StorageError as error:
                    raise DirectoryError(str(error)) from error
                if metadata is not None:
                    found[topic] = encode_uuid(metadata.topic_id)
        return found

    def bounds(self, wanted: Sequence[TopicPartition], *, read_committed: bool) -> dict[TopicPartition, Bounds]:
        gone = [str(where) for where in wanted if where not in self._homes]
        if gone:
            raise TopicError(f"{self.name}: no {', '.join(gone)} here; the topic was deleted")
        said = {home: self._checkpoints(home) for home in {self._homes[where] for where in wanted}}
        return {where: self._bounds(where, said[self._homes[where]], read_committed) for where in wanted}

    def offsets_at(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found: dict[TopicPartition, int | None] = {}
        for where, (start, end) in self.bounds(tuple(wanted), read_committed=False).items():
            timestamp = wanted[where]
            found[where] = first_at(self.segments(*where), timestamp, start, end)
        return found

    def splits(self, ranges: Sequence[Range], size: SplitSize) -> list[AnySplit]:
        parts = [
            (where, first, end, touched(self.segments(*where), first, end))
            for where, first, end in ranges
            if first < end
        ]
        total = sum(estimate(segments, first, end) for _, first, end, segments in parts if segments)
        split_bytes = size.bytes_for(total)
        return [
            split for where, first, end, segments in parts for split in plan(*where, segments, first, end, split_bytes)
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
        return self._lists.segments(self.directory(topic, partition))

    def directory(self, topic: str, partition: int) -> str:
        return os.path.join(self._homes[topic, partition], f"{topic}-{partition}")

    def partition_bounds(self, topic: str, partition: int, *, read_committed: bool = False) -> Bounds:
        """Readable offsets of one partition."""
        where = TopicPartition(topic, partition)
        return self.bounds([where], read_committed=read_committed)[where]

    def _bounds(self, where: TopicPartition, said: _Checkpoints, read_committed: bool) -> Bounds:
        segments = self.segments(*where)
        first = segments[0].base_offset if segments else 0
        start = max(first, said.starts.get(where, first))
        # A log of which nothing has been said yet is new, and its daemon has not come to a checkpoint since.
        end = self._log_end(segments) if said.ends is None else said.ends.get(where, start)
        if read_committed:
            end = min(end, self._scans.setdefault(where, TransactionScan()).first_open(segments, end))
        return Bounds(start, max(start, end))

    def _log_end(self, segments: list[SegmentFile]) -> int:
        if not segments:
            return 0
        end = segments[-1].base_offset
        file = self._files.open(segments[-1].path, writable=False)
        try:
            for header in written_headers(file, start_position(file, segments[-1], _NO_END)):
                end = header.last_offset + 1
        except CorruptLogError:
            raise DirectoryError(
                f"{segments[-1].path}: is damaged, and there is no {REPLICATION_OFFSET_CHECKPOINT} to say where it ends; "
                "`tidelog log verify` says more"
            ) from None
        finally:
            file.close()
        return end

    def _checkpoints(self, home: str) -> _Checkpoints:
        """Both checkpoints, each read once however many partitions there are."""
        starts = self._checkpoint(home, LOG_START_OFFSET_CHECKPOINT)
        return _Checkpoints(starts or {}, self._checkpoint(home, REPLICATION_OFFSET_CHECKPOINT))

    def _checkpoint(self, home: str, name: str) -> Mapping[tuple[str, int], int] | None:
        """None: there is no such file."""
        path = os.path.join(home, name)
        try:
            found: Mapping[tuple[str, int], int] | None = self._remembered.get(
                path, OffsetCheckpointFile(self._files, path).read
            )
        except StorageError as error:
            raise DirectoryError(
                f"{error}; without it there is no telling what may be read: start the daemon once"
            ) from error
        return found
