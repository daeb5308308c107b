"""Location of a log's files, and the open files of one segment with their leases."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import FileClosedError
from ..index.offset_index import OffsetIndex
from ..index.time_index import TimeIndex
from ..io.disk_space import DiskSpace
from ..io.write_pace import WritePace
from .names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, file_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...config.log_config import LogConfig
    from ..io.file_cache import FileCache
    from ..io.filesystem import File, FileStat, FileSystem
    from ..scheduler import Scheduler
    from .log_segment import LogSegment

logger = logging.getLogger(__name__)

_SPARE_BYTES = 16 << 10
"""Disk blocks behind a file's end that are not worth a system call: its last block, and the file system's own blocks
for a file of many extents, which count as the file's.
"""

# Kafka takes segment.index.bytes down to 4. Room for one entry, and in the time index for the one that a roll adds.
_MIN_OFFSET_INDEX = OffsetIndex.ENTRY_SIZE
_MIN_TIME_INDEX = 2 * TimeIndex.ENTRY_SIZE


class LogPlace(NamedTuple):
    """Directory of a log, and the objects that it shares with its data directory."""

    path: str
    space: DiskSpace
    pace: WritePace
    scheduler: Scheduler
    save_start_offset: Callable[[], bool]
    save_recovery_point: Callable[[], bool]


class SegmentFiles:
    """The open files of one segment, with leases (see `file_cache.Leased`). Any thread."""

    __slots__ = ("_leases", "_lock", "file", "offset_index", "time_index")

    def __init__(self, file: File, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        self.file = file
        self.offset_index = offset_index
        self.time_index = time_index
        self._lock = threading.Lock()
        self._leases = 1

    def retain(self) -> SegmentFiles:
        with self._lock:
            if not self._leases:
                raise FileClosedError(f"{self.file.path} is closed")
            self._leases += 1
        return self

    def release(self) -> None:
        with self._lock:
            self._leases -= 1
            if self._leases:
                return
        self.offset_index.close_map()
        self.time_index.close_map()
        self.file.close()


class LogDirectory:
    """Location, opener and settings of a log's files. One object for all segments of a log.

    `path` changes when the partition is deleted (its directory is renamed), `config` when the topic's settings are.
    `doubted` has closed and active segments whose indexes have shown a wrong entry, or are not there for want of room.
    `pinned` has the sizes of segments that were replaced, or are about to be, and that somebody still holds.
    """

    __slots__ = ("cache", "config", "doubted", "file_system", "pace", "path", "pinned", "space")

    def __init__(
        self,
        path: str,
        file_system: FileSystem,
        cache: FileCache[SegmentFiles],
        config: LogConfig,
        space: DiskSpace | None = None,
        pace: WritePace | None = None,
    ) -> None:
        self.path = path
        self.file_system = file_system
        self.cache = cache
        self.config = config
        self.space = space or DiskSpace()
        self.pace = pace or WritePace()
        self.pinned: dict[int, int] = {}
        self.doubted: dict[int, LogSegment] = {}

    def doubt(self, segment: LogSegment, what: str) -> None:
        """Report an index entry that contradicts the log. Any thread."""
        if self.doubted.get(segment.base_offset) is not segment:
            self.doubted[segment.base_offset] = segment
            logger.warning(
                "%s: an index of segment %d is wrong (%s): it is made anew, and not believed until then",
                self.path,
                segment.base_offset,
                what,
            )

    def file(self, base_offset: int, suffix: str, stage: str = "") -> str:
        return f"{self.path}/{file_name(base_offset, suffix, stage)}"

    def open_log(self, base_offset: int, *, create: bool = False, writable: bool = True) -> File:
        return self.file_system.open(self.file(base_offset, LOG_SUFFIX), create=create, writable=writable)

    def give_back_spare(self, base_offset: int, stat: FileStat | None = None) -> None:
        """Free disk blocks that `preallocate` has reserved behind the end of a log file that is no longer appended to.

        One look at the file (`stat`, where the caller has it) tells whether there are any, so that what an earlier run, or
        another setting, has reserved goes too. The file's modification time stays: retention goes by it where records have
        none. Blocks. A file system that refuses loses nothing but room: it is told, and the next start tries again.
        """
        path, file_system = self.file(base_offset, LOG_SUFFIX), self.file_system
        try:
            stat = stat or file_system.stat(path)
            if stat.allocated_bytes - stat.size <= _SPARE_BYTES:
                return
            file = file_system.open(path)
            try:
                file.truncate(stat.size)
            finally:
                file.close()
            file_system.set_modified_ms(path, stat.modified_ms)
        except FileNotFoundError:
            return  # retention took it
        except OSError as error:
            logger.warning("%s: disk blocks reserved behind its end could not be given back: %s", path, error)

    def indexes(self, base_offset: int, *, writable: bool) -> tuple[OffsetIndex, TimeIndex]:
        """Make the two index objects of a segment, neither opened nor mapped yet."""
        limit, file_system = self.config.segment_index_bytes, self.file_system
        offset_path = self.file(base_offset, OFFSET_INDEX_SUFFIX)
        time_path = self.file(base_offset, TIME_INDEX_SUFFIX)
        return (
            OffsetIndex(file_system, offset_path, base_offset, max(limit, _MIN_OFFSET_INDEX), writable=writable),
            TimeIndex(file_system, time_path, base_offset, max(limit, _MIN_TIME_INDEX), writable=writable),
        )
