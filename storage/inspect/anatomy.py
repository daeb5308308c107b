"""State of compaction of a log, section by section: `tidelog log anatomy`.

    logStartOffset        firstDirtyOffset        activeSegment       logEndOffset
          |------ clean ------|------- dirty -------|------ active ------|

*Clean* is what the cleaner has been through (below the offset in cleaner-offset-checkpoint), *dirty* what it may clean
next, *active* the segment that is being written and never cleaned. The ratio that min.cleanable.dirty.ratio is held
against is dirty / (clean + dirty), in bytes. A pass may end in the middle of a segment: sections are counted batch by batch.

Reads whole logs, one chunk at a time, takes no lock; a daemon may be running. Blocks; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from ...protocol.records._kernel import decode_records
from ...protocol.records.exceptions import RecordError
from ...protocol.records.legacy_record import iterate_legacy_records, read_legacy_record
from ...protocol.records.record_batch import MAGIC_V2, NO_TIMESTAMP, Record
from ..exceptions import CorruptCheckpointError, StorageError
from ..io.checkpoint import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, OffsetCheckpointFile, TopicPartition
from ..io.filesystem import FileSystem
from ..segment.batch_walk import Found, Stretch, walk
from ..segment.names import (
    CLUSTER_METADATA_TOPIC,
    LOG_SUFFIX,
    DirectoryState,
    Hole,
    file_name,
    parse_directory_name,
    parse_file_name,
    parse_hole,
)
from .dump_log import batch_header
from .key_count import KeyCounter


class Section(Enum):
    """Sections of a log."""

    CLEAN = "clean"
    DIRTY = "dirty"
    ACTIVE = "active"


class Totals(NamedTuple):
    """Counts and sizes of a segment or section.

    Attributes:
        size: bytes of whole batches.
        records: for applications; control records (transaction markers) are counted apart.
        tombstones: records with a key and a null value.
        keyless: records without a key, which compaction drops.
        keys: distinct keys; estimated unless `keys_exact`.
        largest_timestamp: ms, −1 for none.
    """

    size: int = 0
    batches: int = 0
    records: int = 0
    control_records: int = 0
    tombstones: int = 0
    keyless: int = 0
    keys: int = 0
    keys_exact: bool = True
    largest_timestamp: int = NO_TIMESTAMP


class SegmentAnatomy(NamedTuple):
    """Anatomy of one segment. `section` is that of its first batch; `clean_size` its bytes in the clean section."""

    base_offset: int
    end_offset: int
    section: Section
    clean_size: int
    totals: Totals


class LogAnatomy(NamedTuple):
    """Anatomy of one partition.

    Attributes:
        first_dirty_offset: None where the log was never cleaned.
        sections: what each section holds.
        keys: distinct ones in the whole log; estimated unless `keys_exact`.
        ratio: dirty / (clean + dirty) bytes, 0 when both are empty.
        unreadable: bytes that are no batch, or whose records can't be read; `log verify` says more.
        holes: what was lost to damage before, by the `.damaged` files.
    """

    topic: str
    partition: int
    directory: str
    log_start_offset: int
    first_dirty_offset: int | None
    log_end_offset: int
    segments: tuple[SegmentAnatomy, ...]
    sections: dict[Section, Totals]
    keys: int
    keys_exact: bool
    ratio: float
    unreadable: int
    holes: tuple[Hole, ...] = ()


class _Counter:
    """Adds up a segment or section."""

    def __init__(self) -> None:
        self.size = self.batches = self.records = self.control_records = self.tombstones = self.keyless = 0
        self.largest_timestamp = NO_TIMESTAMP
        self.keys = KeyCounter()

    def add_batch(self, size: int, max_timestamp: int) -> None:
        self.size += size
        self.batches += 1
        self.largest_timestamp = max(self.largest_timestamp, max_timestamp)

    def add_records(self, records: list[Record], *, is_control: bool) -> None:
        if is_control:
            self.control_records += len(records)
            return
        self.records += len(records)
        for record in records:
            if record.key is None:
                self.keyless += 1
            else:
                self.keys.add(record.key)
                self.tombstones += record.value is None

    def merge(self, other: _Counter) -> None:
        for name in ("size", "batches", "records", "control_records", "tombstones", "keyless"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.largest_timestamp = max(self.largest_timestamp, other.largest_timestamp)
        self.keys.merge(other.keys)

    def totals(self) -> Totals:
        return Totals(
            self.size,
            self.batches,
            self.records,
            self.control_records,
            self.tombstones,
            self.keyless,
            self.keys.count,
            self.keys.is_exact,
            self.largest_timestamp,
        )


def partitions_in(file_system: FileSystem, directory: str) -> list[str]:
    """Partition directories: `directory` itself, or those in it. StorageError when there is none; OSError."""
    directory = directory.rstrip("/") or "/"
    if not file_system.is_directory(directory):
        raise StorageError(f"{directory}: not a directory: name a data directory or a partition's")
    names = file_system.list_directory(directory)
    if parse_directory_name(directory.rpartition("/")[2]) and any(parse_file_name(name) for name in names):
        return [directory]
    found = []
    for name in names:
        parsed = parse_directory_name(name)
        path = f"{directory}/{name}"
        if parsed is None or parsed.state is not DirectoryState.LIVE or not file_system.is_directory(path):
            continue
        if parsed.topic == CLUSTER_METADATA_TOPIC and not any(map(parse_file_name, file_system.list_directory(path))):
            continue  # output of `tidelog log export-kraft`: a snapshot, and no log until Kafka has run
        found.append(path)
    if not found:
        raise StorageError(f"{directory}: neither a partition's directory nor one that has some")
    return found


def log_size(file_system: FileSystem, directory: str) -> int:
    """Number of bytes that `examine` will read there."""
    return sum(
        file_system.stat(f"{directory}/{file_name(base, LOG_SUFFIX)}").size for base in _bases(file_system, directory)
    )


def examine(
    file_system: FileSystem, directory: str, on_progress: Callable[[int], None] = lambda _bytes: None
) -> LogAnatomy:
    """The anatomy of one partition's directory. StorageError when it is none; OSError."""
    parent, _, entry = directory.rpartition("/")
    name = parse_directory_name(entry)
    bases = _bases(file_system, directory)
    if name is None or not bases:
        raise StorageError(f"{directory}: not a partition's directory")
    key = (name.topic, name.partition)
    first_dirty = _checkpointed(file_system, f"{parent or '.'}/{CLEANER_OFFSET_CHECKPOINT}", key)
    log_start = _checkpointed(file_system, f"{parent or '.'}/{LOG_START_OFFSET_CHECKPOINT}", key)
    reader = _Reader(file_system, directory, first_dirty or 0, bases[-1], on_progress)
    segments = tuple(reader.read(base) for base in bases)
    sections = {section: counter.totals() for section, counter in reader.sections.items()}
    holes = [hole for name in file_system.list_directory(directory) if (hole := parse_hole(name)) is not None]
    keys = KeyCounter()
    for counter in reader.sections.values():
        keys.merge(counter.keys)
    clean, dirty = sections[Section.CLEAN].size, sections[Section.DIRTY].size
    return LogAnatomy(
        name.topic,
        name.partition,
        directory,
        max(bases[0], log_start or 0),
        first_dirty,
        max(segment.end_offset for segment in segments),
        segments,
        sections,
        keys.count,
        keys.is_exact,
        dirty / (clean + dirty) if clean + dirty else 0.0,
        reader.unreadable,
        tuple(sorted(holes, key=lambda hole: hole.first_offset)),
    )


def _bases(file_system: FileSystem, directory: str) -> list[int]:
    parsed = (parse_file_name(name) for name in file_system.list_directory(directory))
    return sorted(file.base_offset for file in parsed if file and file.suffix == LOG_SUFFIX and not file.stage)


def _checkpointed(file_system: FileSystem, path: str, key: TopicPartition) -> int | None:
    try:
        return OffsetCheckpointFile(file_system, path).read().get(key)
    except CorruptCheckpointError:  # as the daemon does: as if it were empty
        return None


class _Reader:
    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        first_dirty: int,
        active_base: int,
        on_progress: Callable[[int], None],
    ) -> None:
        self._fs = file_system
        self._directory = directory
        self._first_dirty = first_dirty
        self._active_base = active_base
        self._on_progress = on_progress
        self.sections = {section: _Counter() for section in Section}
        self.unreadable = 0

    def read(self, base: int) -> SegmentAnatomy:
        parts = {section: _Counter() for section in Section}
        end = base
        section = self._section_of(base, base)
        file = self._fs.open(f"{self._directory}/{file_name(base, LOG_SUFFIX)}", writable=False)
        try:
            for found in walk(file):
                self._on_progress(found.size)
                if found.stretch is not Stretch.BATCH:
                    if found.stretch is not Stretch.ZEROS:
                        self.unreadable += found.size
                    continue
                header = batch_header(found)
                counter = parts[self._section_of(base, header.base_offset)]
                counter.add_batch(header.size, header.max_timestamp)
                end = max(end, header.last_offset + 1)
                try:
                    counter.add_records(list(_records(found)), is_control=header.is_control)
                except RecordError:
                    self.unreadable += found.size
        finally:
            file.close()
        whole = _Counter()
        for name, counter in parts.items():
            whole.merge(counter)
            self.sections[name].merge(counter)
        return SegmentAnatomy(base, end, section, parts[Section.CLEAN].size, whole.totals())

    def _section_of(self, base: int, offset: int) -> Section:
        if base == self._active_base:
            return Section.ACTIVE
        return Section.CLEAN if offset < self._first_dirty else Section.DIRTY


def _records(found: Found) -> Iterator[Record]:
    if not found.is_whole:
        return
    if found.magic < MAGIC_V2:
        yield from iterate_legacy_records(read_legacy_record(found.data))
    else:
        yield from decode_records(found.data, 0, len(found.data))
