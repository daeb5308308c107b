"""The segment files of one partition, as another process than their daemon sees them.

The daemon may roll, delete and swap at any moment. One listing of the directory may therefore be inconsistent: a swap is
several renames, between which offsets can be in no `.log` file at all, and then the new files have no `.txnindex`, without which
aborted records look like others. So a listing counts only when a second one shows the same files and none of either kind is in
mid-swap. A segment that cleaning has replaced has the old one's name: what tells them
apart is the inode.

Reading only; any thread or process may.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ...storage.segment.names import LOG_SUFFIX, SWAP_STAGE, TRANSACTION_INDEX_SUFFIX, file_name, parse_file_name
from ..exceptions import DirectoryError

#: A swap takes milliseconds. A daemon that has not ended it by then has crashed in it.
PATIENCE_S = 10.0
_PAUSE_S = 0.02
_INDEX_IN_SWAP = TRANSACTION_INDEX_SUFFIX + SWAP_STAGE


class SegmentFile(NamedTuple):
    """A `.log` file; `size` in bytes, for the active one at the time of the listing."""

    directory: str
    base_offset: int
    inode: int
    size: int

    @property
    def path(self) -> str:
        return os.path.join(self.directory, file_name(self.base_offset, LOG_SUFFIX))


def list_segments(
    directory: str | Path, *, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> list[SegmentFile]:
    """The partition's segments in order of their offsets.

    DirectoryError: it is not there, or a swap does not end.
    """
    directory = str(directory)
    deadline = clock() + PATIENCE_S
    before: dict[str, int] | None = None
    while True:
        found = _look(directory, before)
        if isinstance(found, list):
            return found
        if found is not None:
            before = found
            continue
        before = None
        if clock() > deadline:
            raise DirectoryError(
                f"{directory}: segments are in the middle of a swap, and no daemon ends it; start the daemon on this "
                "directory once, which recovers it"
            )
        sleep(_PAUSE_S)


def _look(directory: str, before: dict[str, int] | None) -> list[SegmentFile] | dict[str, int] | None:
    """Names and inodes of the `.log` files, or, when those are as they were `before`, the segments with their sizes.

    None: the directory is changing at this moment.
    """
    there: dict[str, int] = {}
    logs = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                is_log = LOG_SUFFIX in entry.name
                if not is_log and not entry.name.endswith(_INDEX_IN_SWAP):
                    continue
                if (name := parse_file_name(entry.name)) is None:
                    continue
                if name.stage == SWAP_STAGE:
                    return None
                if is_log and not name.stage:
                    there[entry.name] = entry.inode()
                    logs.append((name.base_offset, entry))
        if there != before:
            return there
        found = []
        for base_offset, entry in logs:
            status = entry.stat()
            found.append(SegmentFile(directory, base_offset, status.st_ino, status.st_size))
    except FileNotFoundError:
        if os.path.isdir(directory):
            return None  # an entry went between its listing and its stat
        raise DirectoryError(f"{directory}: there is no such directory") from None
    except OSError as error:
        raise DirectoryError(f"{directory}: cannot be read ({error.strerror})") from error
    return sorted(found, key=lambda segment: segment.base_offset)


#: A directory's time of change has ticks (2 s on FAT, some ms elsewhere). One that lies further back than this stands for what
#: was listed since: whatever changes now gets a later one.
_SETTLED_NS = 3_000_000_000


class SegmentLists:
    """Listings of partitions, kept for as long as their directories do not change: a stream looks with each trigger. One thread
    at a time.
    """

    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._now_ns = now_ns
        self._kept: dict[str, tuple[int, int, list[SegmentFile]]] = {}

    def segments(self, directory: str) -> list[SegmentFile]:
        """As `list_segments`. An unchanged directory costs two stats: its own and that of its last segment, which grows."""
        try:
            status = os.stat(directory)
        except OSError:
            return list_segments(directory)  # which says what is wrong
        kept = self._kept.get(directory)
        is_same = kept is not None and kept[:2] == (status.st_ino, status.st_mtime_ns)
        if kept is not None and is_same and (segments := _grown(kept[2])) is not None:
            return segments
        self._kept.pop(directory, None)
        found = list_segments(directory)
        if self._now_ns() - status.st_mtime_ns > _SETTLED_NS:
            self._kept[directory] = (status.st_ino, status.st_mtime_ns, found)
        return found


def _grown(segments: list[SegmentFile]) -> list[SegmentFile] | None:
    """The segments with the last one's present size; None if that is another file by now."""
    if not segments:
        return segments
    try:
        status = os.stat(segments[-1].path)
    except OSError:
        return None
    if status.st_ino != segments[-1].inode:
        return None
    return (
        segments
        if status.st_size == segments[-1].size
        else [*segments[:-1], segments[-1]._replace(size=status.st_size)]
    )


def floor(segments: list[SegmentFile], offset: int) -> int:
    """Index of the segment that holds `offset` if any does; −1 when it lies below the first."""
    return bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
