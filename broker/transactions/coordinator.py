"""The transaction coordinator: which transactional ids there are, who may use them, and how their transactions end.

    apis/init_producer_id, … ──► TransactionCoordinator ─┬─► states (decides)
    produce_admission                                    ├─► TransactionLog ─► CoordinatorRuntime: `__transaction_state`
    apis/txn_offset_commit                               └─► Completions ─► MarkerWriter ─► the partitions' logs

A decision is written before anybody hears of it, and durable (as far as the topic is asked to be) before anything is
built on it: partitions are in the log before the records that they are for, an outcome before its markers.

Loop thread, except that `load` reads the log in pool threads. A request whose client goes away leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.records.exceptions import RecordTooLargeError
from ..coordinator.internal_topic import CoordinatorLog
from ..coordinator.runtime import Coordinator, CoordinatorRuntime, RunBlocking, Unsynced, when_durable
from ..metadata.features import TRANSACTION_VERSION
from ..metadata.topics import TRANSACTION_STATE
from ..runtime.cooperative import Steps, batches
from . import states
from .log import LoadedTransactions, TransactionEntry, TransactionLog, TransactionShard, load_transactions
from .markers import MARKERS_PER_TURN, Completions, Marker, MarkerWriter
from .states import Producer, TransactionMetadata, TransactionState

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...storage.clock import Time
    from ..coordinator.parts import CoordinatorParts
    from ..groups.store.offsets import TopicPartition
    from ..metadata.features import Features
    from ..runtime.timer import Timer
    from .markers import CommittedOffsets

log = logging.getLogger(__name__)

#: Time that a start waits for transactional ids before it accepts connections.
START_PATIENCE_S = 0.1
#: An expiry looks at this many ids at a time, and writes at most that many tombstones in one batch.
IDS_PER_EXPIRY_SLICE = 1000
#: And at ids of about this many characters together: less than a batch of max.message.bytes, in UTF-8 too.
CHARACTERS_PER_EXPIRY_SLICE = 256 << 10
#: Ids that a list looks at in the time of one name of a request.
IDS_IN_UNIT = 10


class TransactionFilter(NamedTuple):
    """Filter of ListTransactions. Fields that are empty or negative let everything through."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int = -1


class TransactionCoordinator(Coordinator[TransactionShard]):
    """Made at start; `start` when topics are known and groups are, `close` before the logs are closed.

    Attributes:
        log: entries of all transactional ids, in memory and in their partitions.
        timed_out: how many were aborted because their time was over.
    """

    __slots__ = (
        "_completions", "_expiration_ms", "_features", "_max_timeout_ms", "_new_id", "_time", "log",
        "timed_out",
    )  # fmt: skip

    def __init__(
        self,
        state_log: CoordinatorLog,
        markers: Marker,
        features: Features,
        config: BrokerConfig,
        time: Time,
        timer: Timer,
        loop: asyncio.AbstractEventLoop,
        run_blocking: RunBlocking,
        new_id: Callable[[], Awaitable[int]],
    ) -> None:
        """`new_id` gives producer ids that nobody had."""
        self._features = features
        self._time = time
        self._new_id = new_id
        self._runtime = CoordinatorRuntime(
            TRANSACTION_STATE, state_log, TransactionShard, time, timer, loop, run_blocking
        )
        self.log = TransactionLog(self._runtime, features)
        self._completions = Completions(self.log, markers, time, timer)
        self._max_timeout_ms = config.transaction_max_timeout_ms
        self._expiration_ms = config.transactional_id_expiration_ms
        #: Transactions that were aborted because their time was over, since the start.
        self.timed_out = 0
        self._runtime.every(config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.abort_overdue)
        self._runtime.every(config.transaction_remove_expired_transaction_cleanup_interval_ms, self._expire)

    @classmethod
    def of(
        cls,
        parts: CoordinatorParts,
        groups: CommittedOffsets,
        features: Features,
        new_id: Callable[[], Awaitable[int]],
    ) -> TransactionCoordinator:
        """The coordinator of a whole broker. `groups` commit what transactions did; `new_id` as of the constructor."""
        return cls(
            parts.log_of(TRANSACTION_STATE),
            MarkerWriter(parts.partitions, groups, parts.time, parts.loop),
            features,
            parts.config,
            parts.time,
            parts.timer,
            parts.loop,
            parts.run_blocking,
            new_id,
        )

    # -- life

    async def start(self, patience_s: float = START_PATIENCE_S) -> None:
        """Load the transactions' log. Arguments and errors as `CoordinatorRuntime.start`."""
        await self._runtime.start(self.load(), patience_s)

    async def load(self) -> None:
        """Reads all partitions, and goes on with what was decided and not written everywhere."""
        ids = decided = 0
        waiting: deque[TransactionEntry] = deque()  # of all shards: one goes on after the other

        def loaded(shard: TransactionShard, found: LoadedTransactions) -> None:
            nonlocal ids, decided
            for metadata in found.by_id.values():
                shard.put(TransactionEntry(metadata))
            ids += len(shard.entries)
            prepared = [entry for entry in shard.entries.values() if entry.metadata.is_prepared]
            decided += len(prepared)
            is_idle = not waiting
            waiting.extend(prepared)
            if is_idle:
                self._runtime.in_turns(self._go_on_with(waiting))

        await self._runtime.load(load_transactions, loaded)
        if ids:
            log.info("loaded %d transactional ids; %d transactions were to be completed", ids, decided)

    def _go_on_with(self, decided: deque[TransactionEntry]) -> Iterator[None]:
        """Begin to complete these, in slices of the work with a yield between: a kill may leave very many."""
        work = 0
        while decided:
            if work >= MARKERS_PER_TURN:
                work = 0
                yield
            entry = decided.popleft()
            work += 1 + len(entry.metadata.partitions)
            self._completions.begin(entry)

    def close(self) -> None:
        """Takes no requests any more; what is to be completed is, by the next start."""
        self._completions.closed = True
        self._runtime.close()

    # -- what metrics ask

    @property
    def id_count(self) -> int:
        return sum(len(shard.entries) for shard in self._runtime)

    @property
    def ongoing_count(self) -> int:
        return sum(len(shard.ongoing) for shard in self._runtime)

    @property
    def completing_count(self) -> int:
        """Decided, and not all markers are written."""
        return len(self._completions)

    # -- producers

    async def init_producer_id(self, transactional_id: str, timeout_ms: int, expected: Producer | None) -> Producer:
        """The id and epoch that the producer writes with from now on; those before it are fenced.

        Raises ProtocolError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS (come
        again), or what finding the id and writing raise.
        """
        if not transactional_id:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
        if not 0 < timeout_ms <= self._max_timeout_ms:
            raise ProtocolError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"{timeout_ms} ms are not within 1 and transaction.max.timeout.ms = {self._max_timeout_ms}",
            )
        while True:
            entry = self.log.shard_of(transactional_id).entries.get(transactional_id)
            new_id = states.NO_PRODUCER_ID
            if entry is None or states.may_need_new_id(entry.metadata):
                new_id = await self._new_id()
                entry = self.log.shard_of(transactional_id).entries.get(transactional_id)
            now = self._time.milliseconds()
            if entry is None:
                entry = TransactionEntry(states.created(transactional_id, new_id, timeout_ms, now))
            elif states.may_need_new_id(entry.metadata) and new_id == states.NO_PRODUCER_ID:
                continue  # it has come to that while we waited
            outcome = states.init_producer_id(
                entry.metadata, timeout_ms, expected, now, self._features.level(TRANSACTION_VERSION), new_id
            )
            unsynced = self.log.write(entry, _accepted(outcome))
            if not entry.metadata.is_prepared:
                producer = Producer(entry.metadata.producer_id, entry.metadata.producer_epoch)
                await when_durable(unsynced, None)
                return producer
            self._completions.begin(entry, unsynced)
            if entry.metadata.is_prepared:
                raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS)

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: AbstractSet[TopicPartition], client_version: int
    ) -> Unsynced:
        """The producer's transaction is about to write there; begins it if need be. None, or a future: only then may
        records follow. Raises ProtocolError."""
        entry = self.log.find(transactional_id)
        outcome = states.add_partitions(entry.metadata, producer, partitions, self._time.milliseconds(), client_version)
        if outcome is ErrorCode.NONE:
            return self.log.unsynced_of(entry)
        return self.log.write(entry, _accepted(outcome))

    def verify(self, transactional_id: str, producer: Producer, partition: TopicPartition) -> None:
        """Raises ProtocolError unless the producer's transaction under way is to write there."""
        code = states.verify(self.log.find(transactional_id).metadata, producer, partition)
        if code is not ErrorCode.NONE:
            raise ProtocolError(code)

    async def end(self, transactional_id: str, producer: Producer, is_commit: bool, client_version: int) -> Producer:
        """Commits or aborts; returns when that is certain, and what to go on with. Raises ProtocolError."""
        entry = self.log.find(transactional_id)
        new_id = states.NO_PRODUCER_ID
        if client_version >= states.VERSION_2 and entry.metadata.needs_new_id_to_end:
            new_id = await self._new_id()
            entry = self.log.find(transactional_id)
        outcome = states.end(entry.metadata, producer, is_commit, self._time.milliseconds(), client_version, new_id)
        if outcome is ErrorCode.NONE:
            following = states.next_producer(entry.metadata)
            await when_durable(self.log.unsynced_of(entry), None)
            return following
        decided = _accepted(outcome)
        unsynced = self.log.write(entry, decided)
        self._completions.begin(entry, unsynced)
        await when_durable(unsynced, None)
        return states.next_producer(decided)

    # -- time

    def abort_overdue(self) -> Iterator[None]:
        """Abort the transactions whose time is over; called at each cleanup interval. Yields after each slice of the work: after
        a long stop that may be all of them. Loop thread."""
        now = self._time.milliseconds()
        work = 0
        for shard in self._runtime:
            for transactional_id in list(shard.ongoing):
                if work >= MARKERS_PER_TURN:
                    work = 0
                    yield
                entry = shard.entries.get(transactional_id)
                if entry is None or not entry.metadata.is_overdue(now):
                    continue
                work += 1 + len(entry.metadata.partitions)
                try:
                    fenced = states.fenced(entry.metadata, now, self._features.level(TRANSACTION_VERSION))
                    unsynced = self.log.write(entry, fenced)
                except ProtocolError as error:
                    log.warning("%s: its time is over, but it cannot be aborted now: %s", transactional_id, error)
                    continue
                self.timed_out += 1
                log.info("%s: aborted, its %d ms are over", transactional_id, entry.metadata.timeout_ms)
                self._completions.begin(entry, unsynced)

    def _expire(self) -> Iterator[None]:
        """Forgets ids that nobody has used for long. Yields after each slice of the work."""
        for shard in self._runtime:
            for names in _expiry_slices(list(shard.entries)):
                self._expire_slice(shard, names)
                yield

    def _expire_slice(self, shard: TransactionShard, names: list[str]) -> None:
        now = self._time.milliseconds()
        gone = [
            name
            for name in names
            if (entry := shard.entries.get(name)) is not None and entry.metadata.expires(now, self._expiration_ms)
        ]
        if gone:
            self._forget(shard, gone)

    def _forget(self, shard: TransactionShard, names: list[str]) -> None:
        try:
            self.log.forget(shard, names)
        except ProtocolError as error:
            half = len(names) // 2
            if half and isinstance(error.__cause__, RecordTooLargeError):  # for the topic's max.message.bytes
                self._forget(shard, names[:half])
                self._forget(shard, names[half:])
            else:
                log.warning("expired transactional ids could not be removed: %s", error)

    # -- administration

    def list_transactions(self, wanted: TransactionFilter) -> Steps[list[TransactionMetadata]]:
        """In steps. Raises ProtocolError: COORDINATOR_LOAD_IN_PROGRESS while any partition is loading, a list would be false."""
        self._runtime.check_complete()
        now = self._time.milliseconds()
        named = {state for state in TransactionState if state.label in wanted.states}
        found: list[TransactionMetadata] = []
        for some in batches([entry for shard in self._runtime for entry in shard.entries.values()], IDS_IN_UNIT):
            yield 1
            found += [
                metadata
                for metadata in (entry.metadata for entry in some)
                if (not wanted.states or metadata.state in named)
                and (not wanted.producer_ids or metadata.producer_id in wanted.producer_ids)
                and (wanted.longer_than_ms < 0 or now - metadata.start_ms > wanted.longer_than_ms)
            ]
        return found

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Raises ProtocolError: TRANSACTIONAL_ID_NOT_FOUND, or what finding an id raises."""
        entry = self.log.shard_of(transactional_id).entries.get(transactional_id)
        if entry is None:
            raise ProtocolError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return entry.metadata


def _expiry_slices(names: list[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for name in names:
        some.append(name)
        size += len(name)
        if len(some) >= IDS_PER_EXPIRY_SLICE or size >= CHARACTERS_PER_EXPIRY_SLICE:
            yield some
            some, size = [], 0
    if some:
        yield some


def _accepted(outcome: states.Outcome) -> TransactionMetadata:
    if isinstance(outcome, ErrorCode):
        raise ProtocolError(outcome)
    return outcome
