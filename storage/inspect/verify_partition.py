"""Checks one partition's directory: names, segments in order, epochs, identity and ledger (see
`verify.py`)."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ..exceptions import CorruptCheckpointError, StorageError
from ..ledger.keeper import is_strange, resolved
from ..ledger.ledger import LEDGER_FILE, SegmentExtent, decode
from ..log.leader_epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCache
from ..log.partition_metadata import PARTITION_METADATA_FILE, read_partition_metadata
from ..segment.names import LOG_SUFFIX, SNAPSHOT_SUFFIX, LogFileName, parse_file_name, parse_hole
from .dump import CLEANER_STATE, QUORUM_STATE
from .verify_producers import ProducerCheck
from .verify_report import unreadable_finding
from .verify_segment import SegmentCheck, Surroundings

if TYPE_CHECKING:
    from ..io.filesystem import FileSystem
    from ..segment.names import Hole
    from .verify_report import Report


class LedgerCheck:
    """Checks that live counts match a partition's ledger, and that its account balances. Read-only.

    Made before the segments are read, so that a running daemon's changes are noticed.
    """

    def __init__(self, file_system: FileSystem, directory: str, report: Report) -> None:
        self._fs = file_system
        self._path = f"{directory}/{LEDGER_FILE}"
        self._report = report
        self._data = self._read()

    def _read(self) -> bytes | None:
        try:
            return self._fs.read_bytes(self._path)
        except FileNotFoundError:
            return None

    def finish(
        self,
        segments: Sequence[SegmentExtent],
        live: Mapping[int, int],
        checkpoint: int | None,
        log_start_offset: int = 0,
        holes: Sequence[Hole] = (),
    ) -> None:
        """Compare. `live`: records by base offset of all `segments`, without those that could not be counted;
        `checkpoint`: the cleaner's.
        """
        if self._data is None or self._read() != self._data:
            return  # none is kept yet, or a daemon is at it
        found = decode(self._data)
        if found is None:
            self._report.add("ledger-corrupt", self._path, 0, "not understood, or appended is not live + removed")
            return
        ledger = resolved(found, segments, lambda segment: live.get(segment.base_offset, -1))
        assert ledger is not None
        if not {hole.name for hole in holes} <= set(ledger.holes):  # the daemon books them as it begins to work
            ledger = ledger.with_holes(holes, segments, lambda segment: live.get(segment.base_offset, 0))
        if is_strange(ledger, segments, checkpoint, log_start_offset):
            self._report.add("ledger-foreign", self._path, -1, "segments are not those that it was kept for")
            return
        for segment in segments:
            told, there = ledger.live_of(segment), live.get(segment.base_offset)
            if there is not None and told != there:
                what = f"segment {segment.base_offset} has {there} records; the ledger says {told}"
                self._report.add("ledger-differs", self._path, -1, what)


# KRaft's own, in __cluster_metadata-0; the cleaner's notes.
_KNOWN_FILES = frozenset((LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE, QUORUM_STATE, CLEANER_STATE, LEDGER_FILE))
_KRAFT_SUFFIXES = (".checkpoint", ".checkpoint.part", ".checkpoint.deleted")


class RootFacts(NamedTuple):
    """Checkpoint entries of a partition in its data directory; None: no checkpoint, or no entry.

    `has_cleaner`: there is a cleaner-offset-checkpoint, so a partition that is not in it was never cleaned.
    """

    is_stopped: bool = False
    has_cleaner: bool = False
    recovery_point: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    cleaned: int | None = None

    def first_offset(self, first_base: int) -> int | None:
        """Offset at which the log starts; None if only the partition's own directory is known."""
        if self.recovery_point is None and self.log_start is None:
            return None
        return max(first_base, self.log_start or 0)


class PartitionFacts(NamedTuple):
    """Facts of one partition, for the checks across partitions."""

    topic_id: UUID | None
    end_offset: int | None


def verify_partition(
    file_system: FileSystem,
    directory: str,
    root: RootFacts,
    report: Report,
    on_progress: Callable[[int], None] = lambda _bytes: None,
) -> PartitionFacts:
    """Check the directory. OSError when it can't be listed or read."""
    names = file_system.list_directory(directory)
    files, orphans = _check_names(directory, names, report)
    facts = _verify_files(file_system, directory, root, report, on_progress, names, files)
    for orphan in orphans:
        # A segment's files go one by one: beside a daemon the others have gone by now.
        if root.is_stopped or file_system.exists(orphan):
            report.add("orphan", orphan, -1, f"there is no {orphan.rpartition('/')[2].partition('.')[0]}.log")
        else:
            report.add("vanished", orphan, -1, "deleted meanwhile")
    return facts


def _verify_files(
    file_system: FileSystem,
    directory: str,
    root: RootFacts,
    report: Report,
    on_progress: Callable[[int], None],
    names: Sequence[str],
    files: Sequence[LogFileName],
) -> PartitionFacts:
    topic_id = _identity(file_system, directory, report)
    holes = tuple(hole for name in names if (hole := parse_hole(name)) is not None)
    bases = sorted(file.base_offset for file in files if file.suffix == LOG_SUFFIX)
    if not bases:
        report.add("no-segment", directory, -1, "no .log file")
        return PartitionFacts(topic_id, None)
    epochs = _epochs(file_system, directory, report)
    cleaned = _cleaned(file_system, directory, root)
    cleaned_below = None if cleaned == -1 else cleaned or 0
    producers = ProducerCheck(
        file_system, directory, report, cleaned_below=cleaned_below, log_start=root.log_start or 0
    )
    snapshots = _snapshots(directory, files)
    producers.begin(bases[0], snapshots)
    around = Surroundings(
        cleaned, root.first_offset(bases[0]), root.recovery_point or 0, root.is_stopped, epochs, holes
    )
    end_offset = bases[0]
    last_epoch = -1
    ledger = LedgerCheck(file_system, directory, report)
    sizes: dict[int, int] = {}
    live: dict[int, int] = {}
    has_vanished = False
    for base in bases:
        if has_vanished:
            end_offset, has_vanished = base, False
            producers.restart(base)
        segment = SegmentCheck(
            file_system, directory, base, around, producers, report,
            is_active=base == bases[-1], last_leader_epoch=last_epoch, on_progress=on_progress,
        )  # fmt: skip
        if not _is_read(segment, base, end_offset, file_system, report, is_stopped=root.is_stopped):
            has_vanished = True
            continue
        sizes[base] = segment.size
        if segment.live is not None:
            live[base] = segment.live
        end_offset = max(end_offset, segment.end_offset)
        last_epoch = max(last_epoch, segment.last_leader_epoch)
    if has_vanished:
        return PartitionFacts(topic_id, None)  # it ends behind what was listed
    producers.finish(end_offset, is_stopped=root.is_stopped)
    if len(sizes) == len(bases):
        ends = [*bases[1:], max(end_offset, bases[-1])]
        extents = [SegmentExtent(base, end, sizes[base]) for base, end in zip(bases, ends, strict=True)]
        ledger.finish(extents, live, root.cleaned, root.log_start or 0, holes)
    _check_snapshots(snapshots, bases, end_offset, report)
    _check_epochs_end(directory, epochs, end_offset, report)
    return PartitionFacts(topic_id, end_offset)


def _is_read(
    segment: SegmentCheck, base: int, end_offset: int, file_system: FileSystem, report: Report, *, is_stopped: bool
) -> bool:
    """Check the segment, before which the log ends at `end_offset`; False where it has gone meanwhile, or can't be read."""
    mark = report.mark()
    if base < end_offset:
        report.add("segment-overlap", segment.log_path, -1, f"the segment before ends at {end_offset - 1}")
    elif base > end_offset:
        segment.report_gap("segment-gap", segment.log_path, -1, end_offset, base)
    try:
        _run(segment, file_system)
    except FileNotFoundError:
        if is_stopped:
            raise
        # Its indexes may have gone before they were read, and what was said of the place before it means nothing.
        report.rewind(mark)
        report.add("vanished", segment.log_path, -1, "deleted or replaced meanwhile")
        return False
    except OSError as error:
        report.add(*unreadable_finding(error, segment.log_path))
        return False
    return True


def _cleaned(file_system: FileSystem, directory: str, root: RootFacts) -> int | None:
    """Offset below which the log may have been cleaned; None: never was, -1: not known."""
    state = _unfinished_pass(file_system, directory)
    if state is not None and root.recovery_point is not None:
        # Its checkpoint moves at the end; segments that it has put in place lie below its end, or below the recovery point
        # where the state does not name it.
        end = state.get("interrupted_end")
        return max(root.cleaned or 0, end if type(end) is int else root.recovery_point)
    return root.cleaned if root.has_cleaner else -1


def _run(segment: SegmentCheck, file_system: FileSystem) -> None:
    """Check the segment. FileNotFoundError: it was deleted or replaced meanwhile."""
    inode = file_system.stat(segment.log_path).inode
    segment.run()
    if file_system.stat(segment.log_path).inode != inode:
        raise FileNotFoundError(errno.ENOENT, "replaced meanwhile", segment.log_path)


def _check_snapshots(
    snapshots: Iterable[tuple[int, str]], bases: Sequence[int], end_offset: int, report: Report
) -> None:
    for offset, path in snapshots:
        if offset not in bases and offset < end_offset:
            report.add("snapshot-stray", path, -1, f"no segment begins at {offset}")


def _unfinished_pass(file_system: FileSystem, directory: str) -> dict[str, object] | None:
    """The cleaner's state file (`cleaner/cleaner_state.py`) if by it a pass runs or was interrupted, else None."""
    try:
        content = json.loads(file_system.read_bytes(f"{directory}/{CLEANER_STATE}"))
    except (FileNotFoundError, ValueError, RecursionError, StorageError):
        return None
    return content if isinstance(content, dict) and content.get("interrupted") is True else None


def _check_names(directory: str, names: Iterable[str], report: Report) -> tuple[list[LogFileName], list[str]]:
    """Files in use, and the paths of those that belong to no live log."""
    found: list[LogFileName] = []
    for name in names:
        parsed = parse_file_name(name)
        path = f"{directory}/{name}"
        if parsed is None:
            if name.endswith(".tmp"):
                report.add("leftover", path, -1, "temporary")
            elif (hole := parse_hole(name)) is not None:
                report.add("hole", path, -1, f"offsets {hole.first_offset}–{hole.last_offset}")
            elif name not in _KNOWN_FILES and not name.endswith(_KRAFT_SUFFIXES):
                report.add("foreign-file", path, -1, "not a name of a log's files")
        elif parsed.stage:
            report.add("leftover", path, -1, parsed.stage.removeprefix("."))
        else:
            found.append(parsed)
    logs = {file.base_offset for file in found if file.suffix == LOG_SUFFIX}
    orphans = [
        f"{directory}/{file.base_offset:020d}{file.suffix}"
        for file in found
        if file.suffix not in (LOG_SUFFIX, SNAPSHOT_SUFFIX) and file.base_offset not in logs
    ]
    return found, orphans


def _snapshots(directory: str, files: Iterable[LogFileName]) -> list[tuple[int, str]]:
    offsets = sorted(file.base_offset for file in files if file.suffix == SNAPSHOT_SUFFIX)
    return [(offset, f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}") for offset in offsets]


def _identity(file_system: FileSystem, directory: str, report: Report) -> UUID | None:
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        metadata = read_partition_metadata(file_system, directory)
    except CorruptCheckpointError as error:
        report.add("metadata-corrupt", path, 0, str(error).removeprefix(f"{path}: "))
        return None
    if metadata is None:
        report.add("metadata-missing", path, -1, "the topic's id is not known here")
        return None
    return metadata.topic_id


def _epochs(file_system: FileSystem, directory: str, report: Report) -> tuple[EpochEntry, ...] | None:
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        # An epoch without records leaves its place to the next one, so two may start at one offset.
        return LeaderEpochCache.load(file_system, path).entries
    except CorruptCheckpointError as error:
        report.add("epochs-corrupt", path, 0, str(error).removeprefix(f"{path}: "))
        return None


def _check_epochs_end(directory: str, epochs: tuple[EpochEntry, ...] | None, end_offset: int, report: Report) -> None:
    for entry in epochs or ():
        if entry.start_offset > end_offset:
            path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
            what = f"epoch {entry.epoch} starts at {entry.start_offset}; the log ends at {end_offset}"
            report.add("epochs-beyond", path, -1, what)
