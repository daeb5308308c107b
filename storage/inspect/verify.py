"""Checks a data directory, or one partition's, against every invariant of a log: `tidelog log verify`.

    verify_report.py     the table of what can be found, each with what to do about it
    here                 the data directory: whose it is, checkpoints, what holds across partitions
    verify_partition.py  names, segments in order, epochs, topic id
    verify_segment.py    batches, records and the indexes beside them
    verify_producers.py  a replay of the producers against snapshots and transaction indexes

Reads only, takes no lock, one file at a time: a daemon may be running. Writes of a running daemon meanwhile (the tail of an
active segment, a preallocated index, a segment that retention takes) is no fault unless the directory is marked as cleanly
stopped. Blocks; any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

from ..exceptions import CorruptCheckpointError, DataDirectoryError, StorageError
from ..io.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    OffsetCheckpointFile,
    TopicPartition,
)
from ..io.checkpoint_copy import COPY_PREFIX
from ..io.filesystem import FileSystem
from ..log.stop_record import STOP_FILE
from ..manager.data_directory import LOCK_FILE, RESTORE_FILE, SCRUB_FILE
from ..manager.meta_properties import META_PROPERTIES_FILE, read_meta_properties
from ..segment.names import CLUSTER_METADATA_TOPIC, LOG_SUFFIX, DirectoryState, parse_directory_name, parse_file_name
from .verify_partition import PartitionFacts, RootFacts, verify_partition
from .verify_report import Finding, Report

_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
# Ours and Kafka's, that say nothing of a log.
_KNOWN_FILES = frozenset(
    (
        *_CHECKPOINTS,
        *(f"{COPY_PREFIX}{name}" for name in _CHECKPOINTS),
        *(
            META_PROPERTIES_FILE,
            LOCK_FILE,
            CLEAN_SHUTDOWN_FILE,
            STOP_FILE,
            SCRUB_FILE,
            RESTORE_FILE,
            "bootstrap.checkpoint",
        ),
    )
)
_KNOWN_PREFIXES = ("metadata.db", "kafka_cleanshutdown")


class Progress(NamedTuple):
    """Progress of a check: `total(n)` announces bytes to read, `done(n)` reports bytes read."""

    total: Callable[[int], None] = lambda _bytes: None
    done: Callable[[int], None] = lambda _bytes: None


_SILENT = Progress()


def verify(file_system: FileSystem, directory: str, progress: Progress = _SILENT) -> Iterator[Finding]:
    """Check a data directory, or one partition's; findings come as they are found.

    StorageError when it is neither; OSError when something can't be read.
    """
    directory = directory.rstrip("/") or "/"
    if not file_system.is_directory(directory):
        raise StorageError(f"{directory}: not a directory: name a data directory or a partition's")
    name = parse_directory_name(directory.rpartition("/")[2])
    names = file_system.list_directory(directory)
    is_partition = any(parse_file_name(entry) is not None for entry in names)
    report = Report()
    if is_partition or (name is not None and not _looks_like_root(names)):
        yield from _verify_one(file_system, directory, report, progress)
    elif _looks_like_root(names) or any(parse_directory_name(entry) for entry in names):
        yield from _verify_root(file_system, directory, names, report, progress)
    else:
        raise StorageError(
            f"{directory}: neither a data directory nor a partition's: no checkpoint, no <topic>-<partition> directory "
            "and no .log file in it"
        )


def _looks_like_root(names: list[str]) -> bool:
    return any(name in (*_CHECKPOINTS, META_PROPERTIES_FILE) for name in names)


def _verify_one(file_system: FileSystem, directory: str, report: Report, progress: Progress) -> Iterator[Finding]:
    """Check one partition, with the data directory around it if there is one."""
    parent, _, entry = directory.rpartition("/")
    name = parse_directory_name(entry)
    key = (name.topic, name.partition) if name is not None else None
    root = RootFacts()
    parent = parent or ("." if not directory.startswith("/") else "/")
    if key is not None and _looks_like_root(file_system.list_directory(parent)):
        checkpoints = _Checkpoints(file_system, parent, Report())  # its faults are not asked for here
        root = checkpoints.facts(key)
    progress.total(_log_bytes(file_system, directory))
    facts = verify_partition(file_system, directory, root, report, progress.done)
    if key is not None:
        _check_bounds(parent, key, root, facts, report)
    yield from report.drain()


def _verify_root(
    file_system: FileSystem, directory: str, names: list[str], report: Report, progress: Progress
) -> Iterator[Finding]:
    _check_meta_properties(file_system, directory, report)
    # Before the logs: these only grow.
    checkpoints = _Checkpoints(file_system, directory, report)
    partitions: list[tuple[TopicPartition, str]] = []
    for entry in names:
        path = f"{directory}/{entry}"
        name = parse_directory_name(entry)
        if not file_system.is_directory(path):
            if entry.endswith(".tmp"):
                report.add("leftover", path, -1, "temporary")
            elif entry not in _KNOWN_FILES and not entry.startswith(_KNOWN_PREFIXES):
                report.add("foreign-file", path, -1, "not a name of a data directory's files")
        elif name is None:
            report.add("foreign-directory", path, -1, "not <topic>-<partition>")
        elif name.state is not DirectoryState.LIVE:
            report.add("leftover", path, -1, f"a partition that is marked {name.state.value}")
        elif name.topic == CLUSTER_METADATA_TOPIC and not any(map(parse_file_name, file_system.list_directory(path))):
            continue  # output of `tidelog log export-kraft`: a snapshot, and no log until Kafka has run
        else:
            partitions.append(((name.topic, name.partition), path))
    progress.total(sum(_log_bytes(file_system, path) for _, path in partitions))
    yield from report.drain()
    ids: dict[UUID, str] = {}
    topics: dict[str, UUID] = {}
    for key, path in sorted(partitions):
        root = checkpoints.facts(key)
        try:
            facts = verify_partition(file_system, path, root, report, progress.done)
        except FileNotFoundError:
            if root.is_stopped:
                raise
            report.add("vanished", path, -1, "deleted meanwhile")
            continue
        if facts.topic_id is not None:
            if topics.setdefault(key[0], facts.topic_id) != facts.topic_id:
                report.add("topic-id", path, -1, f"another partition of {key[0]} has another topic id")
            elif ids.setdefault(facts.topic_id, key[0]) != key[0]:
                report.add("topic-id", path, -1, f"{ids[facts.topic_id]} has the same topic id")
        _check_bounds(directory, key, root, facts, report)
        yield from report.drain()
    checkpoints.check_unknown({key for key, _ in partitions})
    yield from report.drain()


def _log_bytes(file_system: FileSystem, directory: str) -> int:
    total = 0
    for entry in file_system.list_directory(directory):
        parsed = parse_file_name(entry)
        if parsed is not None and parsed.suffix == LOG_SUFFIX and not parsed.stage:
            try:
                total += file_system.stat(f"{directory}/{entry}").size
            except FileNotFoundError:
                continue
    return total


def _check_meta_properties(file_system: FileSystem, directory: str, report: Report) -> None:
    path = f"{directory}/{META_PROPERTIES_FILE}"
    try:
        if read_meta_properties(file_system, directory) is None:
            report.add("meta-properties", path, -1, "missing")
    except DataDirectoryError as error:
        report.add("meta-properties", path, 0, error.problem)


class _Checkpoints:
    """Offset checkpoints of a data directory, as far as they are readable."""

    def __init__(self, file_system: FileSystem, directory: str, report: Report) -> None:
        self._directory = directory
        self._report = report
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        for name in _CHECKPOINTS:
            path = f"{directory}/{name}"
            try:
                if file_system.exists(path):
                    self._offsets[name] = OffsetCheckpointFile(file_system, path).read()
            except CorruptCheckpointError as error:
                report.add("checkpoint-corrupt", path, 0, str(error).removeprefix(f"{path}: "))
        self._is_stopped = file_system.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}")

    def facts(self, key: TopicPartition) -> RootFacts:
        """Entries of one partition in all checkpoints."""
        recovery, start, high, cleaned = (self._offsets.get(name, {}).get(key) for name in _CHECKPOINTS)
        return RootFacts(self._is_stopped, CLEANER_OFFSET_CHECKPOINT in self._offsets, recovery, start, high, cleaned)

    def check_unknown(self, partitions: set[TopicPartition]) -> None:
        """Report entries of partitions that do not exist."""
        for name, offsets in self._offsets.items():
            for topic, partition in offsets.keys() - partitions:
                self._report.add("checkpoint-unknown", f"{self._directory}/{name}", -1, f"{topic}-{partition}")


def _check_bounds(directory: str, key: TopicPartition, root: RootFacts, facts: PartitionFacts, report: Report) -> None:
    if facts.end_offset is None:
        return
    values = (root.recovery_point, root.log_start, root.high_watermark, root.cleaned)
    for name, value in zip(_CHECKPOINTS, values, strict=True):
        if name == REPLICATION_OFFSET_CHECKPOINT and not root.is_stopped:
            continue  # readable before a truncation, or a crash: a start takes it as far as the log goes
        if value is not None and value > facts.end_offset:
            what = f"{key[0]}-{key[1]} {value}; the log ends at {facts.end_offset}"
            report.add("checkpoint-bounds", f"{directory}/{name}", -1, what)
