"""A partition as the network side sees it: its log, who waits for it, and the syncs that answers wait for.

The log decides when a sync is due (`flush.messages`) and holds its high watermark until it is done. Here the sync is
run: one at a time per log, in the threads of its directory; all answers that wait for the same log share it (group
commit). Records appended meanwhile are covered by the next one.

`Partition.append` alone chooses which way a client's batch takes to its log:

    small and plain                     on the loop thread, at once: by far the most
    needs another format                prepared by `conversion_thread.py`, unless it is quick
    takes long to look at               checked by that thread: compressed ones, and very large ones (`LoopBudget`)
    its directory's disk is slow        written by the directory's writer thread (`append_offload.py`), also what was prepared

While a disk is slow, whatever takes the log's lock, which the writer may hold for as long as the disk likes, happens in a thread
too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.records.attributes import COMPRESSION_MASK
from ...protocol.records.exceptions import OutOfTimeError, RecordTooLargeError
from ...protocol.records.record_batch import ATTRIBUTES_AT
from ...storage.exceptions import KafkaStorageError, StorageError
from ...storage.segment.segment_list import floor_index
from .append_offload import AppendOffload
from .conversion_thread import CHECK_NS, LOOP_NS, MOST_QUICK_BYTES, TIMED_BYTES, is_quick, quick_expansion
from .disk_workers import DiskWorkers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...storage.log.unified_log import UnifiedLog
    from ...storage.values import FetchDataInfo, LogAppendInfo
    from ..metadata.topics import TopicRegistry
    from .conversion_thread import CheckAgain, Conversions, LoopBudget
    from .disk_workers import Outcome
    from .purgatory import DelayedFetch

    #: `Conversions.append` or `append_compressed`.
    _ThreadAppend = Callable[["Partition", bytearray, int, int, str, CheckAgain | None], asyncio.Future[LogAppendInfo]]

log = logging.getLogger(__name__)

Appended = TypeVar("Appended", bound="LogAppendInfo | None")

#: Where the codec stands in a batch of format 2: low byte of its attributes.
CODEC_AT = ATTRIBUTES_AT + 1

#: Gets None, or why the sync failed. Loop thread.
Tell = Callable[[Exception | None], None]

#: Bytes at the end of an active segment that were written a moment ago and are not asked after.
WARM_TAIL_BYTES = 32 << 20


class Partition:
    """One partition as its clients use it. Loop thread only."""

    __slots__ = (
        "_conversions",
        "_loop",
        "_sync_workers",
        "_syncing",
        "_unsynced",
        "log",
        "offload",
        "refused_sequences",
        "waiters",
    )

    def __init__(
        self,
        log: UnifiedLog,
        loop: asyncio.AbstractEventLoop,
        sync_workers: DiskWorkers[int],
        offload: AppendOffload,
        conversions: Conversions,
    ) -> None:
        self.log = log
        #: While this is active, appends are done by its writer thread.
        self.offload = offload
        #: Fetches that are looked at again when the high watermark moves.
        self.waiters: set[DelayedFetch[Any]] = set()
        #: (producer id, epoch) → the lowest sequence of its transactional batches that were refused (`produce_admission.py`).
        self.refused_sequences: dict[tuple[int, int], int] = {}
        self._conversions = conversions
        self._loop = loop
        self._sync_workers = sync_workers
        self._syncing = False
        # Callbacks that wait for a sync: (offset that the high watermark must reach, callback), in append order.
        self._unsynced: deque[tuple[int, Tell]] = deque()

    def append(
        self, buffer: bytearray, start: int, end: int, budget: LoopBudget, is_set: bool = False
    ) -> LogAppendInfo | asyncio.Future[LogAppendInfo]:
        """Appends the batch in buffer[start:end], or with `is_set` the message set of format 0 or 1, and wakes its readers.

        If the loop may append, that has been done on return: the buffer is patched in place. For the rest there is a future; the
        batch was copied, and the buffer is the caller's again. A future that is cancelled leaves open whether the batch is
        appended. Batches of one partition with the same budget keep their order.

        Raises what `UnifiedLog.append_as_leader` does, or has the future raise it, or what `budget.check_again` does;
        ProtocolError REQUEST_TIMED_OUT where too much waits for the conversion thread.
        """
        log, size = self.log, end - start
        if is_set or size > TIMED_BYTES or self.offload.active or log.converts_batches or budget.ahead is not None:
            return self._append_by_rules(buffer, start, end, budget, is_set)
        if size > CODEC_AT and buffer[start + CODEC_AT] & COMPRESSION_MASK:
            return self._append_compressed(buffer, start, end, budget)
        info = log.append_as_leader(buffer, start, end)
        if log.needs_sync:
            self.sync()
        elif self.waiters:
            self.wake()
        return info

    def _append_by_rules(
        self, buffer: bytearray, start: int, end: int, budget: LoopBudget, is_set: bool
    ) -> LogAppendInfo | asyncio.Future[LogAppendInfo]:
        """`append` of what may not be quick, or must not overtake what is not: the first rule that holds decides."""
        log, size = self.log, end - start
        if is_set or log.converts_batches:
            # The thread may have what comes before it, where a request names a partition twice.
            is_cheap = budget.ahead is None and budget.convertible > 0 and is_quick(buffer, start, end, is_set)
            budget.convertible -= size
            if not is_cheap:
                return self._hand_over(self._conversions.append, buffer, start, end, budget)
            return self._write(log.append_message_set if is_set else log.append_as_leader, buffer, start, end)
        if budget.ahead is not None and self in budget.ahead:
            return self._check_in_thread(buffer, start, end, budget)
        if self.offload.active:
            return self._write(log.append_as_leader, buffer, start, end)
        if size > CODEC_AT and buffer[start + CODEC_AT] & COMPRESSION_MASK:
            return self._append_compressed(buffer, start, end, budget)
        # 2 ms a megabyte of the smallest records.
        if size > MOST_QUICK_BYTES or (size > TIMED_BYTES and perf_counter_ns() - budget.since > LOOP_NS):
            return self._check_in_thread(buffer, start, end, budget)
        return self._write(log.append_as_leader, buffer, start, end)

    def _append_compressed(
        self, buffer: bytearray, start: int, end: int, budget: LoopBudget
    ) -> LogAppendInfo | asyncio.Future[LogAppendInfo]:
        """On the loop, unless its records take long to look at, or the request has taken long."""
        now = perf_counter_ns()
        if budget.ahead is not None or now - budget.since >= LOOP_NS:
            return self._check_in_thread(buffer, start, end, budget)
        until, most = now + CHECK_NS, quick_expansion(end - start)
        try:
            info = self.log.append_as_leader(
                buffer, start, end, max_decompressed=most, is_due=lambda: perf_counter_ns() >= until
            )
        except (RecordTooLargeError, OutOfTimeError):  # for the loop, that is
            return self._check_in_thread(buffer, start, end, budget)
        self.appended()
        return info

    def _check_in_thread(
        self, buffer: bytearray, start: int, end: int, budget: LoopBudget
    ) -> LogAppendInfo | asyncio.Future[LogAppendInfo]:
        self.log.check_size(end - start)
        return self._hand_over(self._conversions.append_compressed, buffer, start, end, budget)

    def _hand_over(
        self, thread: _ThreadAppend, buffer: bytearray, start: int, end: int, budget: LoopBudget
    ) -> asyncio.Future[LogAppendInfo]:
        future = thread(self, buffer, start, end, budget.client, budget.check_again)
        if budget.ahead is None:
            budget.ahead = set()
        budget.ahead.add(self)
        return future

    def _write(
        self, append: Callable[[bytearray, int, int], LogAppendInfo], buffer: bytearray, start: int, end: int
    ) -> LogAppendInfo | asyncio.Future[LogAppendInfo]:
        """Have the log `append` the buffer's batches: now, or a copy of them by the directory's writer while its disk is slow."""
        if not self.offload.active:
            info = append(buffer, start, end)
            self.appended()
            return info
        with memoryview(buffer) as view:
            data = bytearray(view[start:end])
        size = end - start
        return self.offload.submit(lambda: append(data, 0, size), size, self._written)

    def commit(self, append: Callable[[], Appended], size: int) -> Appended | asyncio.Future[Appended]:
        """Runs `append`, which writes `size` bytes that were made ready, as `append` does; it returns None where nothing was
        appended. For `Conversions`."""
        if not self.offload.active:
            info = append()
            self._written(info)
            return info
        return self.offload.submit(append, size, self._written)

    def _written(self, info: LogAppendInfo | None) -> None:
        if info is not None:
            self.appended()

    def appended(self) -> None:
        """Sync, or wake waiting fetches, after an append that went to the log directly (internal topics), or in another thread.
        Loop thread."""
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

    def rebind(self, sync_workers: DiskWorkers[int], offload: AppendOffload) -> None:
        """Use these threads for syncs and appends from now on: the log lies in another directory, or is about to."""
        self._sync_workers, self.offload = sync_workers, offload

    @property
    def disk_binding(self) -> tuple[DiskWorkers[int], AppendOffload]:
        """Threads that sync the log, and the offload of its appends."""
        return self._sync_workers, self.offload

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

        self.on_durable(offset, tell)
        return future

    def on_durable(self, offset: int, tell: Tell) -> None:
        """Call `tell` with None, or with the failure, when all below `offset` is durable. Only if the high watermark is below
        it.
        """
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
        self._sync_workers.submit(self.log.flush, self._synced)

    def _synced(self, outcome: Outcome) -> None:
        self._syncing = False
        if isinstance(outcome, BaseException):
            self._sync_failed(outcome)
        elif not self.offload.active:
            try:
                self.log.complete_sync(outcome)
            except Exception as error:  # it may read the log to find its offset
                self._sync_failed(error)
            else:
                self._synced_up_to()
        else:
            # It takes the log's lock, for which the loop would wait as long as an append under way does for the disk.
            self._syncing = True
            log, offset = self.log, outcome

            def complete() -> int:
                log.complete_sync(offset)
                return offset

            self._sync_workers.submit(complete, self._completed)

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
        failed, self._unsynced = self._unsynced, deque()  # a callback may append at once, and wait for the next sync
        for _, tell in failed:
            self._tell(tell, failure)

    def _synced_up_to(self) -> None:
        """The high watermark has moved: call the callbacks that wait for it."""
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

    __slots__ = (
        "_conversions",
        "_loop",
        "_offloads",
        "_sync_workers",
        "_topics",
        "_writers",
        "by_id",
        "by_name",
        "fence",
    )

    def __init__(self, topics: TopicRegistry, loop: asyncio.AbstractEventLoop, conversions: Conversions) -> None:
        self._conversions = conversions
        self._topics = topics
        self._loop = loop
        #: By log directory.
        self._sync_workers: dict[str, DiskWorkers[int]] = {}
        self._writers: dict[str, DiskWorkers[Any]] = {}
        self._offloads: dict[str, AppendOffload] = {}
        #: Those that were asked for: look-ups of requests that mustn't cost a call. All else asks `get` and `name_of`.
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, str] = {}
        #: Says why no records of clients may be taken now, or None; no function where nothing ever forbids it.
        self.fence: Callable[[], str | None] | None = None

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic with this 16-byte id, or None."""
        name = self.by_id.get(topic_id)
        if name is None:
            topic = self._topics.by_id(topic_id)
            if topic is None:
                return None
            name = self.by_id[topic_id] = topic.name
        return name

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, or None when there is none of that name and index."""
        partitions = self.by_name.get(topic)
        if partitions is not None:
            partition = partitions.get(index)
            if partition is not None:
                return partition
        found = self._topics.log(topic, index)
        if found is None:
            return None
        partition = Partition(found, self._loop, *self.disk_binding_of(found), self._conversions)
        self.by_name.setdefault(topic, {})[index] = partition
        return partition

    @property
    def offloads(self) -> Mapping[str, AppendOffload]:
        """Offload of each log directory that holds one of the partitions, by path."""
        return self._offloads

    @property
    def dead_threads(self) -> int:
        """Threads for syncs and for slow directories that ended by themselves. Any thread."""
        return sum(threads.dead_threads for threads in [*self._sync_workers.values(), *self._writers.values()])

    def disk_binding_of(self, log: UnifiedLog) -> tuple[DiskWorkers[int], AppendOffload]:
        """Threads that sync this log, and the offload of its appends."""
        path = os.path.dirname(log.directory)
        offload = self._offloads.get(path)
        if offload is None:
            number = len(self._offloads)
            self._sync_workers[path] = DiskWorkers(self._loop, f"sync-{number}")
            self._writers[path] = DiskWorkers(self._loop, f"writer-{number}", threads=1)
            offload = AppendOffload(log.log_directory.pace, self._writers[path], self._loop)
            self._offloads[path] = offload
        return self._sync_workers[path], offload

    def close(self) -> None:
        """Have the directories' threads take no further work. Syncs under way end by themselves; nobody waits for them."""
        for threads in (*self._sync_workers.values(), *self._writers.values()):
            threads.close()

    def join_writers(self) -> None:
        """After `close`: waits until appends that writer threads have are in the logs. Pool thread; blocks."""
        for writer in self._writers.values():
            writer.join()

    def forget(self, topic: str) -> None:
        """Called when a topic is deleted: its waiting fetches look again and find that it is gone."""
        for topic_id in [topic_id for topic_id, name in self.by_id.items() if name == topic]:
            del self.by_id[topic_id]
        for partition in self.by_name.pop(topic, {}).values():
            partition.wake()
