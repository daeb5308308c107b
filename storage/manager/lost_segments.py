"""Segments that had records at the last stop, and that the next start finds gone or empty.

    stop      `tidelog-last-stop` names the segments that each log has (`stop_record.py`)
    start     before any log is loaded, each run of neighbours that is missing becomes a hole: a `.damaged` file that is durable

Before and not where a log is loaded, since the record of the stop goes with the mark of the clean stop: a start that ends in
between would leave nobody who could know of them. Blocks; one thread. OSError. Design: docs/adr/0051-damage.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..segment.hole import note_missing, stop_if_told_to
from ..segment.names import (
    DAMAGED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    Hole,
    file_name,
    parse_file_name,
    parse_hole,
    partition_directory_name,
)

if TYPE_CHECKING:
    from ..io.checkpoint import TopicPartition
    from ..io.filesystem import FileSystem
    from ..log.stop_record import LogFiles


class LostSegments(NamedTuple):
    """A run of neighbouring segments that are gone.

    Attributes:
        base: of the first one.
        first_offset, next_offset: the offsets that they had and that were not deleted: from the one to below the other.
    """

    base: int
    first_offset: int
    next_offset: int


class _Found(NamedTuple):
    """The files of a log as they are now. `logs`: base offsets of its `.log` files, rising; `filled`: those that have bytes, and
    the last one; `holes`: what was noted as lost before."""

    logs: list[int]
    filled: set[int]
    holes: list[Hole]


def note_lost_segments(
    file_system: FileSystem,
    directory: str,
    last_stop: Mapping[TopicPartition, LogFiles],
    log_start_offsets: Mapping[TopicPartition, int],
    damage_policy: str,
) -> None:
    """Make holes of what the logs in the data directory `directory` have lost since `last_stop`. Durable when it returns.

    DamagedLogError: there is some, and `damage_policy` (log.damage.policy) says to stop.
    """
    for key, left in last_stop.items():
        path = f"{directory}/{partition_directory_name(*key)}"
        if _is_whole(file_system, path, left):
            continue  # as almost always
        found = _look(file_system, path)
        for lost in lost_segments(left.bases, found.filled, log_start_offsets.get(key, 0)) if found.filled else ():
            _note(file_system, path, lost, found, damage_policy)


def lost_segments(left: Sequence[int], here: Collection[int], log_start_offset: int) -> list[LostSegments]:
    """Segments of `left` that are missing from `here`. Missing ones at the end of the log are not reported.

    Both without those that are empty, but for the last one.

    A segment that was not left says that somebody has put another log here: nothing is concluded then.
    """
    if not set(here) <= set(left):
        return []
    lost: list[LostSegments] = []
    run: int | None = None
    for base in left:
        if base not in here:
            run = base if run is None else run
            continue
        if run is not None and log_start_offset < base:
            lost.append(LostSegments(run, max(run, log_start_offset), base))
        run = None
    return lost


def _is_whole(file_system: FileSystem, path: str, left: LogFiles) -> bool:
    """True if each segment but the last has its file, with bytes in it; also if the log itself has gone."""
    try:
        return all(file_system.stat(f"{path}/{file_name(base, LOG_SUFFIX)}").size for base in left.bases[:-1])
    except FileNotFoundError:
        return not file_system.exists(path)


def _look(file_system: FileSystem, path: str) -> _Found:
    names = file_system.list_directory(path)
    logs = sorted(
        parsed.base_offset
        for name in names
        if name.endswith(LOG_SUFFIX) and (parsed := parse_file_name(name)) is not None
    )
    filled = {
        base for base in logs if base == logs[-1] or file_system.stat(f"{path}/{file_name(base, LOG_SUFFIX)}").size
    }
    holes = [hole for name in names if name.endswith(DAMAGED_SUFFIX) and (hole := parse_hole(name)) is not None]
    return _Found(logs, filled, holes)


def _note(file_system: FileSystem, path: str, lost: LostSegments, found: _Found, damage_policy: str) -> None:
    hole = Hole(lost.first_offset, 0, lost.first_offset, lost.next_offset - 1)
    empty = [base for base in found.logs if lost.base <= base < lost.next_offset]
    what = f"segment {lost.base} is {'empty' if lost.base in empty else 'missing'}"
    stop_if_told_to(damage_policy, path, f"{what}: offsets {hole.first_offset} to {hole.last_offset} were durable")
    for base in empty:  # their indexes name what was in them
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            file_system.unlink(f"{path}/{file_name(base, suffix)}", missing_ok=True)
    if lost.base < found.logs[0]:  # so that the log still begins there, until retention comes
        file_system.open(f"{path}/{file_name(lost.base, LOG_SUFFIX)}", create=True).close()
    if any(known.first_offset <= hole.first_offset and known.last_offset >= hole.last_offset for known in found.holes):
        return  # a start before this one has noted it
    note_missing(file_system, path, hole, what)
