"""The ends of transactions in partitions: writing a marker, and writing all of those of a transaction that is decided.

`MarkerWriter` writes one, where it belongs in the order of appends: through the writer thread of a slow directory. In
`__consumer_offsets` the group coordinator hears of it, since committed offsets become visible with it.

`Completions` takes a transaction from a Prepare state to Complete. It never gives up: the outcome is in the log, so that
what cannot be written now is tried again, after the next start too.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import ErrorCode, ProtocolError
from ...storage.exceptions import InvalidProducerEpochError
from ...storage.producers.transaction_marker import TransactionMarker, marker_batch
from ...storage.values import AppendOrigin
from ..metadata.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS
from ..runtime.error_codes import error_code
from .states import VERSION_2, Producer, completed

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.values import LogAppendInfo
    from ..groups.store.offsets import TopicPartition
    from ..partitions.partition import Partition, PartitionTable
    from ..runtime.timer import Timer
    from .log import TransactionEntry, TransactionLog

log = logging.getLogger(__name__)

#: Markers that are written in one turn of the loop: some milliseconds.
MARKERS_PER_TURN = 200
FIRST_RETRY_MS = 50
LAST_RETRY_MS = 5000

#: Nothing is left to be ended there: the topic is deleted, or somebody has ended more than this since.
_OVER = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
)


class Marker(Protocol):
    """Interface of `MarkerWriter` for `Completions`."""

    def write(
        self, partition: TopicPartition, producer: Producer, marker: TransactionMarker, version: int
    ) -> asyncio.Future[None] | None: ...


class CommittedOffsets(Protocol):
    """Interface of the group coordinator for `MarkerWriter`: an offset that was committed in a transaction counts with its
    marker.
    """

    def check_loaded(self, index: int) -> None:
        """Raises ProtocolError, COORDINATOR_LOAD_IN_PROGRESS, while that partition is read back: a marker would be missed."""

    def end_transaction(
        self, index: int, producer_id: int, committed: bool, unsynced: asyncio.Future[None] | None
    ) -> None:
        """A transaction's marker has been written to that partition, and is durable with `unsynced`."""


class MarkerWriter:
    """Writes the markers of ended transactions into their partitions. Loop thread."""

    __slots__ = ("_groups", "_loop", "_partitions", "_time")

    def __init__(
        self, partitions: PartitionTable, groups: CommittedOffsets, time: Time, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._time = time
        self._loop = loop

    def write(
        self, partition: TopicPartition, producer: Producer, marker: TransactionMarker, version: int
    ) -> asyncio.Future[None] | None:
        """Ends the producer's transaction in one partition. `version` is that of the transaction.

        None: it is done, and durable; else a future of that. Raises ProtocolError (UNKNOWN_TOPIC_OR_PARTITION,
        COORDINATOR_LOAD_IN_PROGRESS) and what an append raises; nothing was written then.
        """
        topic, index = partition
        found = self._partitions.get(topic, index)
        if found is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{index}")
        if topic == CONSUMER_OFFSETS:
            self._groups.check_loaded(index)
        data = marker_batch(producer.producer_id, producer.producer_epoch, marker, self._time.milliseconds())
        if found.offload.active and topic not in INTERNAL_TOPICS:
            # Behind the batches of the transaction that are waiting there.
            return self._loop.create_task(_written(found, data, producer, version))
        info = _append(found.log, data, producer, version)
        if info is None:
            return found.durable(found.log.log_end_offset)
        found.appended()
        unsynced = found.durable(info.last_offset + 1)
        if topic == CONSUMER_OFFSETS:
            self._groups.end_transaction(index, producer.producer_id, marker.is_commit, unsynced)
        return unsynced


async def _written(partition: Partition, data: bytearray, producer: Producer, version: int) -> None:
    end = partition.log.log_end_offset
    info = await partition.offload.submit(lambda: _append(partition.log, data, producer, version), len(data))
    if info is not None:
        partition.appended()
        end = info.last_offset + 1
    unsynced = partition.durable(end)
    if unsynced is not None:
        await unsynced


def _append(unified: UnifiedLog, data: bytearray, producer: Producer, version: int) -> LogAppendInfo | None:
    """None when the marker is there already.

    In version 2 each marker raises the epoch (KIP-1228): one that does not is either repeated, or late, and the open
    transaction is a later one.
    """
    if version >= VERSION_2:
        entry = unified.producers.entry(producer.producer_id)
        if entry is not None and entry.producer_epoch == producer.producer_epoch:
            if entry.current_txn_first_offset is None:
                return None
            raise InvalidProducerEpochError(
                f"{unified.name}: a marker of epoch {producer.producer_epoch} would end a transaction of that epoch"
            )
    return unified.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)


class Completions:
    """Transactions that are decided and not all written. Loop thread."""

    __slots__ = ("_log", "_markers", "_time", "_timer", "_under_way", "closed")

    def __init__(self, transactions: TransactionLog, markers: Marker, time: Time, timer: Timer) -> None:
        self._log = transactions
        self._markers = markers
        self._time = time
        self._timer = timer
        self._under_way: dict[str, _Completion] = {}
        self.closed = False

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, entry: TransactionEntry, unsynced: asyncio.Future[None] | None = None) -> None:
        """The entry is in a Prepare state. Writes its markers, once `unsynced` says that the decision is durable."""
        if unsynced is None:
            self._begin(entry)
            return

        def decided(done: asyncio.Future[None]) -> None:
            # A decision that may be lost with the power must not show anywhere: the next start sees what is left of it.
            if not done.cancelled() and done.exception() is None:
                self._begin(entry)
            elif not self.closed:
                self._timer.call_later(LAST_RETRY_MS, lambda: self._ask_again(entry))

        unsynced.add_done_callback(decided)

    def _ask_again(self, entry: TransactionEntry) -> None:
        """The sync of the decision has failed: go on once another one has not, since a full disk has room again. A log that has
        failed for good leaves it to the next start."""
        if not self.closed and entry.metadata.is_prepared:
            self.begin(entry, self._log.unsynced_of(entry))

    def _begin(self, entry: TransactionEntry) -> None:
        name = entry.metadata.transactional_id
        if not self.closed and name not in self._under_way:
            self._under_way[name] = completion = _Completion(self, entry)
            completion.run()

    # -- what a completion asks

    def write(self, completion: _Completion, partition: TopicPartition) -> asyncio.Future[None] | None:
        metadata = completion.entry.metadata
        producer = Producer(metadata.producer_id, metadata.producer_epoch)
        marker = TransactionMarker(metadata.is_commit, self._log.epoch_of(metadata.transactional_id))
        return self._markers.write(partition, producer, marker, metadata.client_version)

    def finish(self, completion: _Completion) -> None:
        """All markers are durable. Raises ProtocolError when that cannot be written."""
        entry = completion.entry
        self._log.write(entry, completed(entry.metadata, self._time.milliseconds()))
        del self._under_way[entry.metadata.transactional_id]

    def later(self, completion: _Completion, delay_ms: int) -> None:
        if not self.closed:
            self._timer.call_later(delay_ms, completion.run)


class _Completion:
    """Completion of one transaction: its markers, then its last record."""

    __slots__ = ("_again", "_delay_ms", "_left", "_owner", "_waiting", "entry")

    def __init__(self, owner: Completions, entry: TransactionEntry) -> None:
        self.entry = entry
        self._owner = owner
        self._left = sorted(entry.metadata.partitions, reverse=True)
        #: Partitions whose write failed, and the number of those being synced.
        self._again: list[TopicPartition] = []
        self._waiting = 0
        self._delay_ms = FIRST_RETRY_MS

    def run(self) -> None:
        if self._owner.closed:
            return
        for _ in range(min(MARKERS_PER_TURN, len(self._left))):
            partition = self._left.pop()
            try:
                unsynced = self._owner.write(self, partition)
            except Exception as error:
                self._failed(partition, error)
            else:
                if unsynced is not None:
                    self._waiting += 1
                    unsynced.add_done_callback(partial(self._synced, partition))
        if self._left:
            self._owner.later(self, 0)
        else:
            self._settle()

    def _synced(self, partition: TopicPartition, done: asyncio.Future[None]) -> None:
        self._waiting -= 1
        error = None if done.cancelled() else done.exception()
        if done.cancelled():
            self._again.append(partition)
        elif error is not None:
            self._failed(partition, error)
        if not self._left:
            self._settle()

    def _failed(self, partition: TopicPartition, error: BaseException) -> None:
        code, message = error_code(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        if code in _OVER:
            log.info("%s: no marker in %s-%d: %s", self.entry.metadata.transactional_id, *partition, message)
        else:
            self._again.append(partition)

    def _settle(self) -> None:
        if self._waiting or self._owner.closed:
            return
        name = self.entry.metadata.transactional_id
        if not self._again:
            try:
                self._owner.finish(self)
            except ProtocolError as error:
                log.warning("%s: all markers are written, but not that they are: %s", name, error)
            else:
                return
        else:
            log.warning("%s: %d markers could not be written and are tried again", name, len(self._again))
        self._left, self._again = self._again, []
        self._owner.later(self, self._delay_ms)
        self._delay_ms = min(2 * self._delay_ms, LAST_RETRY_MS)
