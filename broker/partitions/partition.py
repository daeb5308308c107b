"""A partition as the network side sees it: its log, who waits for it, and the syncs that answers wait for.

The log decides when a sync is due (`flush.messages`) and holds its high watermark until it is done. Here the sync is
run: one at a time per log, in the threads of its directory; all answers that wait for the same log share it (group
commit). What was appended meanwhile is covered by the next one.

Appends happen on the loop thread, unless the log's directory is slow: then in its writer thread (`slow_directory.py`), and
whatever takes the log's lock, which that thread may hold for as long as its disk likes, happens in a thread too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.records.compression import DEFAULT_MAX_BYTES
from ...storage.exceptions import KafkaStorageError, StorageError
from ...storage.segment.segment_list import floor_index
from .log_syncer import LogSyncer
from .slow_directory import SlowDirectory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...storage.log.unified_log import UnifiedLog
    from ...storage.log.values import FetchDataInfo, LogAppendInfo
    from ..metadata.topics import TopicRegistry
    from .log_syncer import Outcome
    from .purgatory import DelayedFetch

log = logging.getLogger(__name__)

#: Gets None, or why the sync failed. Loop thread.
Tell = Callable[[Exception | None], None]

#: Bytes at the end of an active segment that were written a moment ago and are not asked after.
WARM_TAIL_BYTES = 32 << 20


class Partition:
    """Loop thread only."""

    __slots__ = ("_loop", "_syncer", "_syncing", "_unsynced", "directory", "log", "refused_sequences", "waiters")

    def __init__(
        self, log: UnifiedLog, loop: asyncio.AbstractEventLoop, syncer: LogSyncer[int], directory: SlowDirectory
    ) -> None:
        self.log = log
        #: How appends get to the log: while it is engaged, by `append_later`.
        self.directory = directory
        #: Fetches that are looked at again when the high watermark moves.
        self.waiters: set[DelayedFetch[Any]] = set()
        #: (producer id, epoch) → the lowest sequence of its transactional batches that were refused (`produce_admission.py`).
        self.refused_sequences: dict[tuple[int, int], int] = {}
        self._loop = loop
        self._syncer = syncer
        self._syncing = False
        # Who waits for a sync: (offset that the high watermark must reach, whom to tell), in append order.
        self._unsynced: deque[tuple[int, Tell]] = deque()

    def append(
        self,
        buffer: bytearray,
        start: int,
        end: int,
        max_decompressed: int = DEFAULT_MAX_BYTES,
        is_due: Callable[[], bool] | None = None,
    ) -> LogAppendInfo:
        """Appends the batch in buffer[start:end] (patched in place) and wakes the readers who can see it."""
        info = self.log.append_as_leader(buffer, start, end, max_decompressed=max_decompressed, is_due=is_due)
        if self.log.needs_sync:
            self.sync()
        elif self.waiters:
            self.wake()
        return info

    def append_set(self, buffer: bytearray | bytes, start: int, end: int) -> LogAppendInfo:
        """Appends the message set of format 0 or 1 in buffer[start:end], which may take long: see `Conversions`."""
        info = self.log.append_message_set(buffer, start, end)
        self.appended()
        return info

    def append_later(
        self, buffer: bytearray, start: int, end: int, *, is_set: bool = False
    ) -> asyncio.Future[LogAppendInfo]:
        """As `append`, or with `is_set` as `append_set`, by the directory's writer thread. What is in the buffer is copied; it is
        the caller's again at once.

        What an append raises is the future's. A future that is cancelled leaves open whether the batch is appended.
        """
        with memoryview(buffer) as view:
            data = bytearray(view[start:end])
        size = end - start
        append = self.log.append_message_set if is_set else self.log.append_as_leader
        return self.directory.submit(lambda: append(data, 0, size), size, self._written)

    def _written(self, _info: LogAppendInfo) -> None:
        self.appended()

    def appended(self) -> None:
        """For appends that went to the log directly (internal topics), or in another thread."""
        if self.log.needs_sync:
            self.sync()
        elif self.waiters:
            self.wake()

    def just_written(self, info: FetchDataInfo) -> bool:
        """True for a slice so close to the end of the log that its pages are in memory."""
        active = self.log.segments[-1]
        return active.size - info.position <= WARM_TAIL_BYTES and info.segment_base_offset == active.base_offset

    def is_warm(self, offset: int) -> bool:
        """True when a read at `offset` would find the index and the batch header in memory, as far as can be told."""
        view = self.log.segments
        active = view[-1]
        if active.hint(offset) is not None:
            return True  # a reader near the end, or one that goes from batch to batch
        index = floor_index(view, offset)
        return index < 0 or view[index].is_warm(offset)

    def warm(self, offset: int) -> None:
        """Brings into memory what `read` at `offset` needs. Pool thread; errors are left to the read itself."""
        with contextlib.suppress(StorageError, OSError):
            self.log.load_aborted()
            self.log.read(offset, 1).release()

    def moved(self, syncer: LogSyncer[int], directory: SlowDirectory) -> None:
        """From now on syncs and appends go these ways: the log lies in another directory, or is about to."""
        self._syncer, self.directory = syncer, directory

    @property
    def ways(self) -> tuple[LogSyncer[int], SlowDirectory]:
        """Who syncs the log, and how appends get to it."""
        return self._syncer, self.directory

    def wake(self) -> None:
        for waiter in self.waiters:
            waiter.wake()

    def durable(self, offset: int) -> asyncio.Future[None] | None:
        """None when the record before `offset` may be acknowledged now, else a future for when it may.

        The future fails with KafkaStorageError when the sync fails.
        """
        if self.log.high_watermark >= offset:
            return None
        future: asyncio.Future[None] = self._loop.create_future()

        def tell(failure: Exception | None) -> None:
            if future.done():
                return
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

        self.tell_when_durable(offset, tell)
        return future

    def tell_when_durable(self, offset: int, tell: Tell) -> None:
        """As `durable`, for where the high watermark lies below `offset`: `tell` gets None, or the failure, later."""
        self._unsynced.append((offset, tell))
        self.sync()

    def sync(self) -> None:
        """Starts a sync unless one is under way: when the loop has handled all that had come by now, so that it covers
        that too.
        """
        if not self._syncing:
            self._syncing = True
            self._loop.call_soon(self._start_sync)

    def _start_sync(self) -> None:
        self._syncer.submit(self.log.flush, self._synced)

    def _synced(self, outcome: Outcome) -> None:
        self._syncing = False
        if isinstance(outcome, BaseException):
            self._sync_failed(outcome)
        elif not self.directory.engaged:
            self.log.complete_sync(outcome)
            self._synced_up_to()
        else:
            # It takes the log's lock, for which the loop would wait as long as an append under way does for the disk.
            self._syncing = True
            log, offset = self.log, outcome

            def complete() -> int:
                log.complete_sync(offset)
                return offset

            self._syncer.submit(complete, self._completed)

    def _completed(self, outcome: Outcome) -> None:
        self._syncing = False
        if isinstance(outcome, BaseException):
            self._sync_failed(outcome)
        else:
            self._synced_up_to()

    def _sync_failed(self, error: BaseException) -> None:
        # A failed fsync may have dropped the pages: what was not acknowledged stays unacknowledged.
        log.error("%s-%d: sync failed: %s", self.log.topic, self.log.partition, error)
        failure = KafkaStorageError(f"{self.log.topic}-{self.log.partition}: sync failed: {error}")
        failed, self._unsynced = self._unsynced, deque()  # who is told may append at once, and wait for the next sync
        for _, tell in failed:
            self._tell(tell, failure)

    def _synced_up_to(self) -> None:
        """The high watermark has moved: who waited for that is told."""
        reached = self.log.high_watermark
        while self._unsynced and self._unsynced[0][0] <= reached:
            self._tell(self._unsynced.popleft()[1], None)
        if self.waiters:
            self.wake()
        if self.log.needs_sync:
            self.sync()

    def _tell(self, tell: Tell, failure: Exception | None) -> None:
        try:
            tell(failure)
        except Exception:  # one client's trouble is none of the others'
            log.exception("%s-%d: an answer after a sync failed", self.log.topic, self.log.partition)


class PartitionTable:
    """Partitions by topic name and by topic id, made from the logs when first asked for. Loop thread."""

    __slots__ = ("_by_id", "_by_name", "_directories", "_loop", "_syncers", "_topics", "_writers")

    def __init__(self, topics: TopicRegistry, loop: asyncio.AbstractEventLoop) -> None:
        self._topics = topics
        self._loop = loop
        #: By log directory.
        self._syncers: dict[str, LogSyncer[int]] = {}
        self._writers: dict[str, LogSyncer[Any]] = {}
        self._directories: dict[str, SlowDirectory] = {}
        self._by_name: dict[str, dict[int, Partition]] = {}
        self._by_id: dict[bytes, str] = {}

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic with this 16-byte id, or None."""
        name = self._by_id.get(topic_id)
        if name is None:
            topic = self._topics.by_id(topic_id)
            if topic is None:
                return None
            name = self._by_id[topic_id] = topic.name
        return name

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None when there is none of that name and index."""
        partitions = self._by_name.get(topic)
        if partitions is not None:
            partition = partitions.get(index)
            if partition is not None:
                return partition
        found = self._topics.log(topic, index)
        if found is None:
            return None
        partition = Partition(found, self._loop, *self.ways_of(found))
        self._by_name.setdefault(topic, {})[index] = partition
        return partition

    @property
    def directories(self) -> Mapping[str, SlowDirectory]:
        """Of each log directory that a partition here is in."""
        return self._directories

    @property
    def dead_threads(self) -> int:
        """Threads for syncs and for slow directories that ended by themselves. Any thread."""
        return sum(threads.dead_threads for threads in [*self._syncers.values(), *self._writers.values()])

    def ways_of(self, log: UnifiedLog) -> tuple[LogSyncer[int], SlowDirectory]:
        """Which threads sync that log, and how it is appended to."""
        path = os.path.dirname(log.directory)
        directory = self._directories.get(path)
        if directory is None:
            number = len(self._directories)
            self._syncers[path] = LogSyncer(self._loop, f"sync-{number}")
            self._writers[path] = LogSyncer(self._loop, f"writer-{number}", threads=1)
            directory = SlowDirectory(log.log_directory.pace, self._writers[path], self._loop)
            self._directories[path] = directory
        return self._syncers[path], directory

    def close(self) -> None:
        """No work is taken any more. Syncs under way end by themselves; their outcomes are not waited for."""
        for threads in (*self._syncers.values(), *self._writers.values()):
            threads.close()

    def join_writers(self) -> None:
        """After `close`: waits until appends that writer threads have are in the logs. Pool thread; blocks."""
        for writer in self._writers.values():
            writer.join()

    def forget(self, topic: str) -> None:
        """Called when a topic is deleted: its waiting fetches look again and find that it is gone."""
        for topic_id in [topic_id for topic_id, name in self._by_id.items() if name == topic]:
            del self._by_id[topic_id]
        for partition in self._by_name.pop(topic, {}).values():
            partition.wake()
