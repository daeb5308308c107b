"""DiskSpace: tells whether a data directory's disk has space for another append, without asking the disk each time.

    free    |<----------- appends of clients ----------->|<- coordinators' ->|<- what makes room ->|
                                                  reserve bytes        reserve / 2                  0

An append that meets ENOSPC leaves its log whole, but by then recovery, the cleaner and checkpoints have no room either, and they
are what a full disk needs. So clients are refused while `log.dir.reserve.bytes` are still free. Coordinators (committed
offsets: small, and consumers that commit go on to drain the disk's topics) may use half of the reserve. Reads, deletion and
retention go on; service resumes at the first look that finds room again, a tenth of the reserve more, so that it does not flap.

The disk is asked once a second, in the directory's own lane; in between each append is counted.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..exceptions import DiskFullError

if TYPE_CHECKING:
    from .filesystem import FileSystem

logger = logging.getLogger(__name__)

SAMPLE_MS = 1000
_NO_LIMIT = 1 << 62


class DiskSpace:
    """Free space of one data directory. `sample` runs on a pool thread; appending threads do the rest, any thread may
    read. With a slow directory two threads append: a lost subtraction between them is corrected by the next sample.

    Attributes:
        left: bytes that clients may still append before the reserve is reached, as far as is known.
        free_bytes: what the last look found; -1 before the first.
        is_full: whether clients are refused.
        refused: appends refused since the start.
    """

    __slots__ = ("_fs", "_path", "free_bytes", "is_full", "left", "refused", "reserve")

    def __init__(self, file_system: FileSystem | None = None, path: str = "", reserve: int = 0) -> None:
        """`reserve` is in bytes. With 0 no append is refused: the file system says when it is full."""
        self._fs = file_system
        self._path = path
        self.reserve = reserve
        self.left = _NO_LIMIT
        self.free_bytes = -1
        self.is_full = False
        self.refused = 0

    def check(self, size: int, *, is_client: bool) -> None:
        """Called when an append of `size` bytes exceeds `left`. DiskFullError: the append must not happen. Loop thread."""
        if not self.is_full and self.left < size:
            self._enter_full(max(0, self.left + self.reserve))
        if self.left < size if is_client else self.left + self.reserve - self.reserve // 2 < size:
            self.refused += 1
            raise DiskFullError(
                f"{self._path}: the disk is full but for log.dir.reserve.bytes={self.reserve}; "
                "appends are refused until there is room"
            )

    def sample(self) -> None:
        """Measure the free space. Blocks; after an OSError the old value stays, and the next append meets the error."""
        if self._fs is None:
            return
        try:
            free = self._fs.free_bytes(self._path)
        except OSError as error:
            logger.debug("%s: %s", self._path, error)
            return
        self.free_bytes = free
        if not self.reserve:
            return
        left = free - self.reserve
        if self.is_full:
            if left < self.reserve // 10:
                # Coordinators go by the truth, clients by the state.
                self.left = min(left, 0)
                return
            self.is_full = False
            logger.warning("%s: %d bytes are free again, appends are accepted", self._path, free)
        elif left <= 0:
            self._enter_full(free)
        self.left = left

    def _enter_full(self, free: int) -> None:
        self.is_full = True
        logger.warning(
            "%s: only %d bytes are free, log.dir.reserve.bytes is %d: appends are refused until there is room; "
            "reading, deletion and retention go on",
            self._path,
            free,
            self.reserve,
        )
