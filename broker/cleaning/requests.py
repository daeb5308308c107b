"""`tidelog clean`: cleaning and retention of one topic on request, now.

One thread does all requests, in their order, with a cleaner of its own: an offset map with one cleaner thread's share of
log.cleaner.dedupe.buffer.size, there only while a request is in work. It rolls the active segments and takes no notice of
dirty ratio and back-off, nor of log.cleaner.enable; lags, open transactions and delete horizons are honoured, since they are
promises to consumers. A partition that a cleaner thread is just at is waited for, and what that pass removed is counted.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...cleaner.exceptions import CleaningAborted
from ...cleaner.log_facts import COMPACT_POLICY
from ...cleaner.removal_counts import RemovalCounts, removed_between, removed_by_pass, removed_by_retention
from ...protocol.records.exceptions import RecordError
from ...storage.exceptions import StorageError, raised_again
from .ledger_facts import describe_ledger

if TYPE_CHECKING:
    from ...cleaner.cleaner_manager import CleanerManager, Work
    from ...cleaner.cleaning import Cleaner
    from ...storage.clock import Time
    from ...storage.ledger.ledger import Ledger
    from ...storage.log.unified_log import UnifiedLog

log = logging.getLogger(__name__)

MAX_WAITING = 32
MAX_KEPT = 100
MAX_TRIES = 10
_POLL_S = 0.02
_STOP_TIMEOUT_S = 10.0


class TooManyRequestsError(Exception):
    """So many wait already that this one was not taken."""


class CleanRequest:
    """One request and how far it is. Written by the cleaning thread; any thread reads."""

    def __init__(self, number: int, topic: str, now_ms: int) -> None:
        self.number = number
        self.topic = topic
        self.requested_ms = now_ms
        self.started_ms: int | None = None
        self.finished_ms: int | None = None
        self.partitions = 0
        self.partitions_done = 0
        self.removed: dict[int, RemovalCounts] = {}
        self.ledgers: dict[int, dict[str, Any] | None] = {}
        self.errors: dict[int, str] = {}
        self.done = threading.Event()

    def describe(self) -> dict[str, Any]:
        """The request as JSON has it. `state` is waiting, running, and at the end done, or failed if a partition could not be
        cleaned, or not to its end: `errors` has those.
        """
        total = RemovalCounts()
        for removed in list(self.removed.values()):
            total = total.plus(removed)
        finished = "failed" if self.errors else "done"
        state = finished if self.finished_ms is not None else "waiting" if self.started_ms is None else "running"
        return {
            "topic": self.topic,
            "request": self.number,
            "state": state,
            "requestedMs": self.requested_ms,
            "startedMs": self.started_ms,
            "finishedMs": self.finished_ms,
            "partitions": self.partitions,
            "partitionsDone": self.partitions_done,
            "removed": total.by_cause(),
            "removedRecords": total.records,
            "removedBytes": total.bytes,
            "byPartition": {
                str(partition): {
                    "removed": removed.by_cause(),
                    "removedBytes": removed.bytes,
                    "ledger": self.ledgers.get(partition),
                }
                for partition, removed in sorted(self.removed.items())
            },
            "errors": {str(partition): error for partition, error in sorted(self.errors.items())},
        }


class CleanRequests:
    """Any thread. `stop` blocks until the pass under way has ended."""

    def __init__(
        self,
        manager: CleanerManager,
        make_cleaner: Callable[[], Cleaner],
        time: Time,
        lower_priority: Callable[[], None] = lambda: None,
    ) -> None:
        """`lower_priority` is called in the thread as it begins."""
        self._manager = manager
        self._make_cleaner = make_cleaner
        self._time = time
        self._lower_priority = lower_priority
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: deque[tuple[CleanRequest, Sequence[UnifiedLog]]] = deque()
        self._kept: dict[int, CleanRequest] = {}
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def ask(self, topic: str, logs: Sequence[UnifiedLog]) -> CleanRequest:
        """Clean these logs of the topic. A request that waits for the same topic is joined. TooManyRequestsError."""
        with self._lock:
            for waiting, _ in self._waiting:
                if waiting.topic == topic:
                    return waiting
            if len(self._waiting) >= MAX_WAITING or self._stopping.is_set():
                raise TooManyRequestsError(f"{len(self._waiting)} requests to clean wait already; try again later")
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="clean-requests", daemon=True)
                thread.start()  # may be refused: nothing waits for it then
                self._thread = thread
            request = CleanRequest(next(self._numbers), topic, self._time.milliseconds())
            request.partitions = len(logs)
            self._kept[request.number] = request
            for number in list(self._kept)[:-MAX_KEPT]:
                if self._kept[number].done.is_set():
                    del self._kept[number]
            self._waiting.append((request, logs))
            return request

    def get(self, topic: str, number: int) -> CleanRequest | None:
        """A request that was made; the last hundred are kept."""
        request = self._kept.get(number)
        return request if request is not None and request.topic == topic else None

    def stop(self) -> None:
        """Begin no further request; the pass under way ends where it is. Waits for the thread, up to `_STOP_TIMEOUT_S`."""
        self._stopping.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_STOP_TIMEOUT_S)

    # --- the thread ---

    def _run(self) -> None:
        self._lower_priority()
        with ExitStack() as ends:
            self._work(ends)

    def _work(self, ends: ExitStack) -> None:
        """Do requests until none waits. `ends` gets what is to be closed with the thread."""
        cleaner: Cleaner | None = None
        while True:
            with self._lock:
                if not self._waiting or self._stopping.is_set():
                    # The map, or the process that has it, goes with the thread.
                    self._thread = None
                    while self._waiting:
                        request, logs = self._waiting.popleft()
                        request.errors.update({partition_log.partition: "the daemon stops" for partition_log in logs})
                        self._finish(request)
                    return
                request, logs = self._waiting.popleft()
            request.started_ms = self._time.milliseconds()
            for partition_log in logs:
                partition_log.local.open_ledger(count=True)
                before = partition_log.ledger.value
                try:
                    if partition_log.failure is not None:  # deleted while the request waited, or its disk has failed
                        raise raised_again(partition_log.failure)
                    if COMPACT_POLICY in partition_log.config.cleanup_policy:
                        if cleaner is None:
                            cleaner = self._make_cleaner()
                            ends.callback(cleaner.close)
                        self._clean(request, partition_log, cleaner)
                    else:
                        partition_log.roll()
                    self._delete(request, partition_log)
                except (StorageError, RecordError, OSError, CleaningAborted) as error:
                    request.errors[partition_log.partition] = str(error)
                except Exception as error:  # nothing may end the thread
                    log.exception("%s: cleaning on request failed", partition_log.name)
                    request.errors[partition_log.partition] = f"{type(error).__name__}: {error}"
                self._settle(request, partition_log, before)
                if partition_log.failure is not None:  # met by a sync beside the pass
                    request.errors.setdefault(partition_log.partition, str(partition_log.failure))
                request.partitions_done += 1
            self._finish(request)

    def _finish(self, request: CleanRequest) -> None:
        request.finished_ms = self._time.milliseconds()
        request.done.set()

    def _clean(self, request: CleanRequest, partition_log: UnifiedLog, cleaner: Cleaner) -> None:
        work = self._take(request, partition_log, roll=True)
        tries = 0
        while True:
            found = work.eligibility
            if found.reason is None and not found.dirty_bytes:
                self._manager.give_back(work)
                return
            result = self._manager.clean(work, cleaner, self)
            if result is None:
                failed = dict(self._manager.uncleanable()).get(partition_log.name)
                tries += 1
                if failed is not None or tries == MAX_TRIES or self._stopping.wait(_POLL_S * tries):
                    request.errors[partition_log.partition] = (
                        failed.cause if failed is not None else "the pass was ended early"
                    )
                    return
                # Retention took segments from under it.
                work = self._take(request, partition_log, roll=False)
                continue
            self._add(request, partition_log, removed_by_pass(result.counts))
            if not result.map_was_full:
                return
            work = self._take(request, partition_log, roll=False)

    def _take(self, request: CleanRequest, partition_log: UnifiedLog, *, roll: bool) -> Work:
        before, _ = self._manager.passes(partition_log)
        while (work := self._manager.take(partition_log, roll=roll)) is None:
            if self._stopping.wait(_POLL_S) or partition_log.failure is not None:
                raise CleaningAborted("the daemon stops" if self._stopping.is_set() else str(partition_log.failure))
        after, last = self._manager.passes(partition_log)
        if after != before and last is not None:  # the one that was waited for
            self._add(request, partition_log, removed_by_pass(last.counts))
        return work

    def _delete(self, request: CleanRequest, partition_log: UnifiedLog) -> None:
        self._add(request, partition_log, removed_by_retention(partition_log.delete_old_segments()))

    @staticmethod
    def _settle(request: CleanRequest, partition_log: UnifiedLog, before: Ledger | None) -> None:
        """The ledger has what passes took that did not come to their end, too."""
        request.ledgers[partition_log.partition] = describe_ledger(partition_log)
        after, told = partition_log.ledger.value, request.removed.get(partition_log.partition, RemovalCounts())
        if before is not None and after is not None:
            told = removed_between(before, after)._replace(bytes=told.bytes)
        request.removed[partition_log.partition] = told

    @staticmethod
    def _add(request: CleanRequest, partition_log: UnifiedLog, removed: RemovalCounts) -> None:
        request.removed[partition_log.partition] = request.removed.get(partition_log.partition, RemovalCounts()).plus(
            removed
        )

    # --- the control of a pass ---

    def check(self) -> None:
        if self._stopping.is_set():
            raise CleaningAborted("the daemon stops")

    def wait(self, milliseconds: float) -> None:
        if self._stopping.wait(milliseconds / 1000):
            raise CleaningAborted("the daemon stops")
