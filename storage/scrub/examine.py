"""Examines what a look has found suspicious, with the code of `tidelog log verify`, and the small files beside a log.

What comes of it are findings of `verify_report.RULES`, faults only. The files may change meanwhile: the caller holds a `stamp` of
before against one of after, and believes findings where nothing has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exceptions import CorruptCheckpointError, CorruptSnapshotError
from ..inspect.verify_report import Finding, Report, unreadable_finding
from ..inspect.verify_segment import SegmentCheck, Surroundings
from ..log.leader_epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCache
from ..producers.snapshot import check_snapshot
from ..segment.names import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, file_name
from .segment_look import SegmentLook, SegmentPlace, producers_at, read_aside

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..io.filesystem import FileSystem

MOST_OF_A_SEGMENT = 10
"""Findings that are told of one segment: a damaged batch can make all that follow look wrong."""

Stamp = tuple["tuple[int, int, int] | None", ...]
"""Size, modification time and inode of each file of a segment; None for one that is not there; -1, the error's number and 0
for one that nobody may look at.
"""

_SNAPSHOT_LIMIT = 1 << 30
_LARGEST_WHOLE = 1 << 20
"""Bytes of a batch. Records are made with the interpreter held, beside a loop that has clients; no suspicion is about them."""


def stamp_of(file_system: FileSystem, directory: str, names: tuple[str, ...]) -> Stamp:
    """State of these files, which changes when one is written, replaced or removed. OSError that is not about a file."""
    stamps: list[tuple[int, int, int] | None] = []
    for name in names:
        path = f"{directory}/{name}"
        try:
            stat = file_system.stat(path)
        except FileNotFoundError:
            stamps.append(None)
        except OSError as error:
            unreadable_finding(error, path)  # raises what says nothing of this file
            stamps.append((-1, error.errno or 0, 0))
        else:
            stamps.append((stat.size, stat.modified_ms, stat.inode))
    return tuple(stamps)


def segment_files(base_offset: int) -> tuple[str, ...]:
    """Names of the files that a look at a segment reads."""
    return tuple(file_name(base_offset, suffix) for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX))


def look_at(
    file_system: FileSystem, place: SegmentPlace, block_bytes: int
) -> Generator[int, None, tuple[list[Finding], int]]:
    """Look at a segment, examine it if that is suspicious, and check its snapshot.

    Yields the bytes read; the value is the findings, and the leader epoch of the last batch. FileNotFoundError: a file has gone
    meanwhile. OSError: it could not be read for a reason that is no damage.
    """
    look = SegmentLook(file_system, place, block_bytes)
    try:
        suspicion = yield from look.steps()
        findings = (yield from examine(file_system, place)) if suspicion else []
    except OSError as error:
        findings = [unreadable_finding(error, place.path(LOG_SUFFIX), look.read_at)]
    snapshot, read = snapshot_findings(file_system, place.directory, place.base_offset)
    if read:
        yield read
    findings = [finding for finding in findings if finding not in snapshot] + snapshot
    return findings[:MOST_OF_A_SEGMENT], look.last_epoch


def examine(file_system: FileSystem, place: SegmentPlace) -> Generator[int, None, list[Finding]]:
    """Check every batch and record of a segment and its indexes, as `log verify` does; the value is the faults.

    Yields the bytes read. The log file is open from the first step to the last; `close` of the generator closes it. OSError.
    """
    report = Report()
    around = Surroundings(
        cleaned_below=-1,  # gaps are nothing that rots
        log_start=place.log_start,
        recovery_point=0,
        is_stopped=place.is_settled,
        epochs=place.epochs,
        holes=place.holes,
        largest_whole=_LARGEST_WHOLE,
    )
    check = SegmentCheck(
        file_system,
        place.directory,
        place.base_offset,
        around,
        producers_at(file_system, place, report),
        report,
        is_active=False,
        last_leader_epoch=place.epoch_before,
    )
    yield from check.steps()
    if check.end_offset > place.next_base:
        what = f"its offsets go up to {check.end_offset - 1}; the next segment begins at {place.next_base}"
        report.add("segment-overlap", check.log_path, -1, what)
    faults = [finding for finding in report.drain() if finding.is_fault]
    # Nothing else can be held against a log that is damaged itself.
    return [finding for finding in faults if finding.path == check.log_path] or faults


def snapshot_findings(file_system: FileSystem, directory: str, offset: int) -> tuple[list[Finding], int]:
    """Check the checksum of the producer snapshot of `offset`; none is no fault. The bytes read beside. OSError."""
    path = f"{directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"
    data = b""
    try:
        data = read_aside(file_system, path, _SNAPSHOT_LIMIT)
        check_snapshot(data)
    except FileNotFoundError:
        pass
    except CorruptSnapshotError as error:
        return [Finding("snapshot-corrupt", path, 0, str(error))], len(data)
    except OSError as error:
        return [unreadable_finding(error, path)], 0
    return [], len(data)


def epoch_findings(
    file_system: FileSystem, directory: str, expected: tuple[EpochEntry, ...] | None = None
) -> list[Finding]:
    """Check the leader epoch checkpoint: that it is one, and has the `expected` entries if they are known. OSError."""
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        entries = LeaderEpochCache.load(file_system, path).entries
    except CorruptCheckpointError as error:
        return [Finding("epochs-corrupt", path, 0, str(error).removeprefix(f"{path}: "))]
    except OSError as error:
        return [unreadable_finding(error, path)]
    if expected is not None and entries != expected:
        return [Finding("epochs-differ", path, -1, f"{_epochs(entries)} in the file, {_epochs(expected)} in the log")]
    return []


def _epochs(entries: tuple[EpochEntry, ...]) -> str:
    shown = ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in entries[-5:])
    return f"{'… ' if len(entries) > 5 else ''}{shown or 'none'}"
