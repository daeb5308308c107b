"""A partition as the network side sees it: its log, who waits for it, and the syncs that answers wait for.

The log decides when a sync is due (`flush.messages`) and holds its high watermark until it is done. Here the sync is
run: one at a time per log, in the threads of its directory; all answers that wait for the same log share it (group
commit). What was appended meanwhile is covered by the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from typing import TYPE_CHECKING

from ..storage.exceptions import KafkaStorageError, StorageError
from ..storage.log_segments import floor_index
from .log_syncer import LogSyncer

if TYPE_CHECKING:
    from ..storage.log_values import FetchDataInfo, LogAppendInfo
    from ..storage.unified_log import UnifiedLog
    from .log_syncer import Outcome
    from .purgatory import DelayedFetch
    from .topics import TopicRegistry

log = logging.getLogger(__name__)

#: Bytes at the end of an active segment that were written a moment ago and are not asked after.
WARM_TAIL_BYTES = 32 << 20


class Partition:
    """Loop thread only."""

    __slots__ = ("_loop", "_syncer", "_syncing", "_unsynced", "log", "waiters")

    def __init__(self, log: UnifiedLog, loop: asyncio.AbstractEventLoop, syncer: LogSyncer) -> None:
        self.log = log
        #: Fetches that are looked at again when the high watermark moves.
        self.waiters: set[DelayedFetch] = set()
        self._loop = loop
        self._syncer = syncer
        self._syncing = False
        # Answers that wait for a sync: (offset that the high watermark must reach, future), in append order.
        self._unsynced: deque[tuple[int, asyncio.Future[None]]] = deque()

    def append(self, buffer: bytearray, start: int, end: int) -> LogAppendInfo:
        """Appends the batch in buffer[start:end] (patched in place) and wakes the readers who can see it."""
        info = self.log.append_as_leader(buffer, start, end)
        if self.log.needs_sync:
            self.sync()
        elif self.waiters:
            self.wake()
        return info

    def appended(self) -> None:
        """For appends that went to the log directly (internal topics)."""
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
        self._unsynced.append((offset, future))
        self.sync()
        return future

    def sync(self) -> None:
        """Starts a sync unless one is under way."""
        if not self._syncing:
            self._syncing = True
            self._syncer.submit(self.log.flush, self._synced)

    def _synced(self, outcome: Outcome) -> None:
        self._syncing = False
        if isinstance(outcome, BaseException):
            # A failed fsync may have dropped the pages: what was not acknowledged stays unacknowledged.
            log.error("%s-%d: sync failed: %s", self.log.topic, self.log.partition, outcome)
            failure = KafkaStorageError(f"{self.log.topic}-{self.log.partition}: sync failed: {outcome}")
            while self._unsynced:
                future = self._unsynced.popleft()[1]
                if not future.done():
                    future.set_exception(failure)
            return
        self.log.complete_sync(outcome)
        reached = self.log.high_watermark
        while self._unsynced and self._unsynced[0][0] <= reached:
            future = self._unsynced.popleft()[1]
            if not future.done():
                future.set_result(None)
        if self.waiters:
            self.wake()
        if self.log.needs_sync:
            self.sync()


class PartitionTable:
    """Partitions by topic name and by topic id, made from the logs when first asked for. Loop thread."""

    __slots__ = ("_by_id", "_by_name", "_loop", "_syncers", "_topics")

    def __init__(self, topics: TopicRegistry, loop: asyncio.AbstractEventLoop) -> None:
        self._topics = topics
        self._loop = loop
        #: By log directory.
        self._syncers: dict[str, LogSyncer] = {}
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
        partition = Partition(found, self._loop, self._syncer(found))
        self._by_name.setdefault(topic, {})[index] = partition
        return partition

    def _syncer(self, log: UnifiedLog) -> LogSyncer:
        directory = os.path.dirname(log.directory)
        syncer = self._syncers.get(directory)
        if syncer is None:
            syncer = self._syncers[directory] = LogSyncer(self._loop, f"sync-{len(self._syncers)}")
        return syncer

    def close(self) -> None:
        """Syncs under way end by themselves; their outcomes are not waited for."""
        for syncer in self._syncers.values():
            syncer.close()

    def forget(self, topic: str) -> None:
        """Called when a topic is deleted: its waiting fetches look again and find that it is gone."""
        for topic_id in [topic_id for topic_id, name in self._by_id.items() if name == topic]:
            del self._by_id[topic_id]
        for partition in self._by_name.pop(topic, {}).values():
            partition.wake()
