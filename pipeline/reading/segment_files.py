"""The segment files of one partition, as another process than their daemon sees them.

The daemon may roll, delete and swap at any moment. One listing of the directory may therefore be inconsistent: a swap is
several renames, and between them offsets can be in no `.log` file at all. So a listing counts only when a second one shows
the same files and none of them is in mid-swap. A segment that cleaning has replaced has the old one's name: what tells them
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

from ...storage.segment.names import LOG_SUFFIX, SWAP_STAGE, file_name, parse_file_name
from ..exceptions import DirectoryError

#: A swap takes milliseconds. A daemon that has not ended it by then has crashed in it.
PATIENCE_S = 10.0
_PAUSE_S = 0.02


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
    before: list[SegmentFile] | None = None
    while True:
        found = _look(directory)
        if found is not None:
            # The active segment grows between two looks, which tears nothing.
            if before is not None and [segment[:3] for segment in found] == [segment[:3] for segment in before]:
                return found
            before = found
            continue
        before = None
        if clock() > deadline:
            raise DirectoryError(
                f"{directory}: segments are in the middle of a swap, and no daemon ends it; start the daemon on this "
                "directory once, which recovers it"
            )
        sleep(_PAUSE_S)


def _look(directory: str) -> list[SegmentFile] | None:
    """None: it is changing at this moment."""
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                name = parse_file_name(entry.name)
                if name is None or name.suffix != LOG_SUFFIX:
                    continue
                if name.stage == SWAP_STAGE:
                    return None
                if name.stage:
                    continue
                status = entry.stat()
                found.append(SegmentFile(directory, name.base_offset, status.st_ino, status.st_size))
    except FileNotFoundError:
        if os.path.isdir(directory):
            return None  # an entry went between its listing and its stat
        raise DirectoryError(f"{directory}: there is no such directory") from None
    except OSError as error:
        raise DirectoryError(f"{directory}: cannot be read ({error.strerror})") from error
    return sorted(found, key=lambda segment: segment.base_offset)


def floor(segments: list[SegmentFile], offset: int) -> int:
    """Index of the segment that holds `offset` if any does; −1 when it lies below the first."""
    return bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
