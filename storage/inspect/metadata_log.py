"""Apache Kafka's metadata log on disk: `__cluster_metadata-0` beside the partitions' directories of a KRaft node.

    00000000000000000273-0000000002.checkpoint   a snapshot: everything that held before offset 273, written in epoch 2
    00000000000000000000.log                     record batches, as in any log; .index and .timeindex beside them
    quorum-state, leader-epoch-checkpoint        the controllers' own business

A snapshot is a row of batches too: one control batch with a header, batches of records, one control batch with a
footer. Without its footer it is not whole. Control records are told by their key, version int16 and type int16:

    2 leader change    3 snapshot header: version int16, timestamp int64 of the last record in it, tagged fields
    5 KRaft version    4 snapshot footer: version int16, tagged fields
    6 voters           5 and 6 are there where the quorum is kept in the log (KIP-853), not in server.properties

The records' content is not this module's business: it gives and takes their values. Reading never changes a file: Kafka may have
been killed, so what follows the last good batch of the last segment is left out, as Kafka's own start would cut it off.

Blocks; any thread, but the caller must have locked the directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from ...protocol.records._kernel import crc32c
from ...protocol.records.builder import build_batch
from ...protocol.records.exceptions import RecordError
from ...protocol.records.record_batch import (
    ATTRIBUTES_AT,
    LOG_OVERHEAD,
    OVERHEAD,
    BatchHeader,
    Record,
    iterate_records,
    read_batch_header,
)
from ..exceptions import DataDirectoryError
from ..io.filesystem import FileSystem, StrPath
from ..segment.names import CLUSTER_METADATA_TOPIC, LOG_SUFFIX, parse_file_name, partition_directory_name

METADATA_LOG_DIRECTORY = partition_directory_name(CLUSTER_METADATA_TOPIC, 0)

SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

_CONTROL_KEY = Struct(">hh")  # version, type
_HEADER_VALUE = Struct(">hqB")  # version, timestamp of the last record, no tagged fields
_FOOTER_VALUE = Struct(">hB")  # version, no tagged fields
assert _CONTROL_KEY.size == 4
assert _HEADER_VALUE.size == 11
assert _FOOTER_VALUE.size == 3

_SNAPSHOT_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")
_CHUNK_BYTES = 1 << 20
_BATCH_BYTES = 256 << 10  # of what is written; Kafka reads batches of up to 8 MiB
_LARGEST_BATCH = 64 << 20
_REMEDY = (
    f"start Apache Kafka once on the directory, which mends its log, or move {METADATA_LOG_DIRECTORY} away: topics are "
    "then found by their directories and keep everything until they are given settings"
)


class SnapshotId(NamedTuple):
    """Position of a snapshot: it replaces all records before `offset`, whose next one has `epoch` or a later one."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}.checkpoint"


class MetadataLogFiles(NamedTuple):
    """Files of a metadata log: its newest snapshot, if it has any, and the segments, (base offset, size), in order."""

    path: str
    snapshot: SnapshotId | None
    segments: tuple[tuple[int, int], ...]

    @property
    def position(self) -> str:
        """A text that changes whenever Kafka has run: each start of it appends at least one batch."""
        snapshot = self.snapshot.file_name if self.snapshot else "-"
        base_offset, size = self.segments[-1] if self.segments else (0, 0)
        return f"{snapshot} {base_offset}:{size}"


def find_metadata_log(file_system: FileSystem, directories: Iterable[StrPath]) -> MetadataLogFiles | None:
    """The metadata log in the first data directory that has one; None if Kafka never ran there.

    DataDirectoryError when it can't be listed.
    """
    for directory in directories:
        path = f"{directory}/{METADATA_LOG_DIRECTORY}"
        try:
            names = file_system.list_directory(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _unreadable(path, str(error.strerror or error)) from error
        snapshots: list[SnapshotId] = []
        segments: list[tuple[int, int]] = []
        for name in names:
            parsed = parse_file_name(name)
            if match := _SNAPSHOT_NAME.fullmatch(name):
                snapshots.append(SnapshotId(int(match[1]), int(match[2])))
            elif parsed is not None and parsed.suffix == LOG_SUFFIX and not parsed.stage:
                segments.append((parsed.base_offset, file_system.stat(f"{path}/{name}").size))
        newest = max(snapshots, key=lambda snapshot: (snapshot.epoch, snapshot.offset), default=None)
        if newest is not None or any(size for _, size in segments):
            return MetadataLogFiles(path, newest, tuple(sorted(segments)))
    return None


class MetadataLogReader:
    """Iterates over the values of data records: those of the snapshot, then those of the log behind it.

    Attributes, all complete when the iteration is over:
        end_offset, epoch: where the log ends, and the epoch of its last batch (or the snapshot's, if that is newer).
        control_values: type → value of the last control record of each type.
        cut_bytes: what was left out at the end, in bytes.
    """

    def __init__(self, file_system: FileSystem, files: MetadataLogFiles) -> None:
        self._fs = file_system
        self._files = files
        self.end_offset = 0
        self.epoch = 0
        self.control_values: dict[int, bytes] = {}
        self.cut_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """Iterate. DataDirectoryError if something is missing or damaged that Kafka would miss too."""
        snapshot, segments = self._files.snapshot, self._files.segments
        if snapshot is not None:
            yield from self._read_snapshot(snapshot)
            self.end_offset, self.epoch = snapshot
        first = segments[0][0] if segments else 0
        if first > self.end_offset:
            raise _unreadable(self._files.path, f"records {self.end_offset} to {first - 1} are missing")
        for number, (base_offset, size) in enumerate(segments):
            yield from self._read_segment(base_offset, size, is_last=number == len(segments) - 1)

    def _read_snapshot(self, snapshot: SnapshotId) -> Iterator[bytes]:
        path = f"{self._files.path}/{snapshot.file_name}"
        footer = False
        for header, batch in self._batches(path, self._fs.stat(path).size, can_be_cut=False):
            if footer:
                raise _unreadable(path, "something follows its footer")
            if header.is_control:
                footer = SNAPSHOT_FOOTER in self._take_control(path, batch)
            else:
                yield from _values(path, batch)
        if not footer:
            raise _unreadable(path, "is not whole: it has no footer")

    def _read_segment(self, base_offset: int, size: int, *, is_last: bool) -> Iterator[bytes]:
        path = f"{self._files.path}/{base_offset:020d}{LOG_SUFFIX}"
        start = self.end_offset
        for header, batch in self._batches(path, size, can_be_cut=is_last):
            if header.last_offset < start:  # the snapshot has it
                continue
            self.end_offset = header.last_offset + 1
            self.epoch = max(self.epoch, header.partition_leader_epoch)
            if header.is_control:
                self._take_control(path, batch)
            else:
                yield from _values(path, batch, start)

    def _take_control(self, path: str, batch: bytes) -> set[int]:
        """Note the control records of a batch; returns their types."""
        types: set[int] = set()
        for record in _records(path, batch):
            if record.key is None or len(record.key) < _CONTROL_KEY.size:
                raise _unreadable(path, f"the control record at offset {record.offset} does not say what it is")
            kind = _CONTROL_KEY.unpack_from(record.key)[1]
            self.control_values[kind] = record.value or b""
            types.add(kind)
        return types

    def _batches(self, path: str, size: int, *, can_be_cut: bool) -> Iterator[tuple[BatchHeader, bytes]]:
        """Iterate over header and bytes of each batch in a file; header positions count from the batch's start."""
        file = self._fs.open(path, writable=False)
        try:
            position, buffer, start = 0, b"", 0
            while position < size:
                at = position - start
                left = len(buffer) - at
                length = OVERHEAD.unpack_from(buffer, at)[1] + LOG_OVERHEAD if left >= LOG_OVERHEAD else 0
                if (not length or length > left) and start + len(buffer) < size and length <= _LARGEST_BATCH:
                    buffer = file.pread(min(max(_CHUNK_BYTES, length), size - position), position)
                    start = position
                    if buffer:
                        continue
                batch = buffer[at : at + length]
                header = _checked(batch, length)
                if header is None:
                    if not can_be_cut:
                        raise _unreadable(path, f"the batch at byte {position} is damaged")
                    self.cut_bytes = size - position
                    return
                yield header, batch
                position += length
        except OSError as error:
            raise _unreadable(path, str(error.strerror or error)) from error
        finally:
            file.close()


def write_snapshot(
    file_system: FileSystem,
    path: StrPath,
    snapshot: SnapshotId,
    values: Iterable[bytes],
    *,
    timestamp: int,
    control_values: Iterable[tuple[int, bytes]] = (),
) -> None:
    """Write a snapshot to the metadata log's directory, which is created if missing; durable on return.

    `timestamp` (ms) is that of all its records, `control_values` are (type, value) of control records to stand behind
    the header. OSError.
    """
    if not file_system.exists(path):
        file_system.make_directory(path)
        file_system.sync_directory(str(path).rpartition("/")[0] or "/")
    out = bytearray()
    offset = 0

    def add(records: list[Record], *, is_control: bool = False) -> None:
        nonlocal offset
        out.extend(
            build_batch(records, base_offset=offset, partition_leader_epoch=snapshot.epoch, is_control=is_control)
        )
        offset += len(records)

    def control(kind: int, value: bytes) -> Record:
        return Record(0, timestamp, _CONTROL_KEY.pack(0, kind), value)

    add(
        [
            control(SNAPSHOT_HEADER, _HEADER_VALUE.pack(0, timestamp, 0)),
            *(control(kind, value) for kind, value in control_values),
        ],
        is_control=True,
    )
    pending: list[Record] = []
    size = 0
    for value in values:
        pending.append(Record(0, timestamp, None, value))
        size += len(value)
        if size >= _BATCH_BYTES:
            add(pending)
            pending, size = [], 0
    if pending:
        add(pending)
    add([control(SNAPSHOT_FOOTER, _FOOTER_VALUE.pack(0, 0))], is_control=True)
    file_system.write_atomically(f"{path}/{snapshot.file_name}", bytes(out))


def _checked(batch: bytes, length: int) -> BatchHeader | None:
    """Header of a batch, if it is whole and its checksum right; else None."""
    if not length or len(batch) < length:
        return None
    try:
        header = read_batch_header(batch)
    except RecordError:
        return None
    return header if crc32c(memoryview(batch)[ATTRIBUTES_AT:]) == header.crc else None


def _records(path: str, batch: bytes) -> Iterator[Record]:
    try:
        yield from iterate_records(batch)
    except RecordError as error:
        raise _unreadable(path, str(error)) from error


def _values(path: str, batch: bytes, start: int = 0) -> Iterator[bytes]:
    """Values of the records from offset `start` on."""
    for record in _records(path, batch):
        if record.offset >= start and record.value is not None:
            yield record.value


def _unreadable(path: str, problem: str) -> DataDirectoryError:
    return DataDirectoryError(path, f"Apache Kafka's metadata can't be read: {problem}", _REMEDY)
