"""Bytes of segments: read by one thread for each data directory, so that a disk that hangs holds back its own logs alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ...storage.exceptions import StorageError
from ..formats.manifest import COMPANIONS

if TYPE_CHECKING:
    from ...storage.io.filesystem import File
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.segment.log_segment import LogSegment

T = TypeVar("T")

TIMEOUT_S = 10.0
"""For one read of up to a block, or for the lock that keeps files where they are."""
BLOCK_BYTES = 1 << 20
_LONGEST_COMPANION = 1 << 31
"""Transaction indexes have as many bytes, and others as many as log.index.size.max.bytes says."""


class SegmentGone(Exception):
    """Retention, the cleaner or a deletion has taken a segment whose bytes were still to be read: the cut is void."""

    def __init__(self, log: UnifiedLog) -> None:
        super().__init__(f"{log.name}: a segment went while it was backed up")
        self.key = (log.topic, log.partition)


class Unreadable(Exception):
    """A partition's files can't be read now: it holds back, and the cut goes on without what is new of it."""

    def __init__(self, log: UnifiedLog, reason: str) -> None:
        """`reason`: in words, for the manifest and for people."""
        super().__init__(f"{log.name}: {reason}")
        self.key = (log.topic, log.partition)
        self.reason = reason


class Readers:
    """The threads that read. Any thread may call; a call ends after `timeout_s` at the latest."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._hanging: dict[str, Future[object]] = {}
        self._lock = threading.Lock()

    def is_hanging(self, log: UnifiedLog) -> bool:
        """True if the log's data directory owes an answer."""
        hanging = self._hanging.get(log.directory.rpartition("/")[0])
        return hanging is not None and not hanging.done()

    def run(self, log: UnifiedLog, job: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
        """Result of `job`, which reads files of `log`. Unreadable; SegmentGone passes through.

        A result that comes too late is given to `undo`, on the directory's thread.
        """
        root = log.directory.rpartition("/")[0]
        with self._lock:
            hanging = self._hanging.get(root)
            if hanging is not None:
                if not hanging.done():
                    raise Unreadable(log, f"{root} does not answer")
                del self._hanging[root]
            pool = self._pools.get(root)
            if pool is None:
                pool = self._pools[root] = ThreadPoolExecutor(1, "backup-read")
        future = pool.submit(job)
        try:
            return future.result(self._timeout_s)
        except TimeoutError:
            with self._lock:
                self._hanging.setdefault(root, future)  # type: ignore[arg-type]  # its result is not asked for
            if undo is not None:
                future.add_done_callback(lambda late: _undone(late, undo))
            raise Unreadable(log, f"{root} has not answered for {self._timeout_s:g} s") from None
        except FileNotFoundError:
            raise SegmentGone(log) from None
        except (OSError, StorageError) as error:
            raise Unreadable(log, str(error)) from None

    def close(self) -> None:
        """End the threads, but for one that hangs."""
        with self._lock:
            for pool in self._pools.values():
                pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def leased(self, log: UnifiedLog, segment: LogSegment) -> Iterator[File]:
        """The segment's open file, whatever becomes of its name. SegmentGone, Unreadable."""
        file = self.run(log, lambda: lease(log, segment), lambda late: late.release())
        try:
            yield file
        finally:
            file.release()

    def blocks(self, log: UnifiedLog, file: File, start: int, end: int) -> Iterator[bytes]:
        """Bytes of a leased file in blocks. Unreadable, also where the file ends before `end`."""
        while start < end:
            block = self.run(log, lambda at=start: file.pread(min(BLOCK_BYTES, end - at), at))  # type: ignore[misc]
            if not block:
                raise Unreadable(log, f"{file.path} ends at byte {start}, before {end}")
            yield block
            start += len(block)

    def companions(
        self, log: UnifiedLog, segment: LogSegment, suffixes: tuple[str, ...] = COMPANIONS
    ) -> tuple[tuple[str, bytes], ...]:
        """Small files beside a segment's log: suffix and contents of those that are there. SegmentGone, Unreadable."""
        return self.run(log, lambda: read_companions(log, segment, suffixes))

    def file(self, log: UnifiedLog, name: str) -> bytes:
        """Contents of a small file in the log's directory. SegmentGone, Unreadable."""
        directory = log.log_directory
        return self.run(log, lambda: directory.file_system.read_bytes(f"{directory.path}/{name}"))


def _undone(late: Future[T], undo: Callable[[T], object]) -> None:
    if not late.cancelled() and late.exception() is None:
        undo(late.result())


def lease(log: UnifiedLog, segment: LogSegment) -> File:
    """Open a segment while its name is sure to be its own: a swap renames others to it. Blocks behind a deletion or a swap."""
    with log.local.steady():
        _must_be_there(log, segment)
        return segment.lease_file()


def read_companions(log: UnifiedLog, segment: LogSegment, suffixes: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """Contents of the segment's files with these suffixes, as far as there are any. Blocks."""
    found = []
    directory = log.log_directory
    with log.local.steady():
        _must_be_there(log, segment)
        for suffix in suffixes:
            try:
                data = directory.file_system.read_bytes(
                    directory.file(segment.base_offset, suffix), limit=_LONGEST_COMPANION
                )
            except FileNotFoundError:
                continue
            if data:
                found.append((suffix, data))
    return tuple(found)


def _must_be_there(log: UnifiedLog, segment: LogSegment) -> None:
    if not any(listed is segment for listed in log.segments) or log.local.is_closed:
        raise SegmentGone(log)
