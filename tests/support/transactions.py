"""A broker's transactions without a broker: real logs on a fake disk, both coordinators, a clock that the test moves.

    node = Node()
    producer = node.init("tx")                          # Producer(id, epoch)
    node.produce("tx", producer, "t", 0, "a", "b")
    producer = node.end("tx", producer, commit=True)    # version 2: the next epoch
    assert node.committed("t", 0) == [b"a", b"b"]

`Node.kill` and `Node.stop` go through the disk. With `sync_at_once=False` syncs happen when the test says `settle`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from support.fake_filesystem import FakeFileSystem
from support.groups import CONFIG, run_callbacks
from support.logs import World, batch
from support.mock_time import MockTimer
from support.nodes import made
from tidelog.broker.coordinator.internal_topic import PartitionCoordinatorLog
from tidelog.broker.groups.coordinator import GROUP_METADATA_TOPIC, GroupCoordinator
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit, TopicToFetch, TxnCommitRequest
from tidelog.broker.groups.store.offsets import TopicPartition
from tidelog.broker.metadata.features import Features
from tidelog.broker.metadata.topics import TRANSACTION_STATE
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import LoopBudget
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.produce_fetch.produce_admission import admit
from tidelog.broker.transactions.coordinator import TransactionCoordinator
from tidelog.broker.transactions.markers import MarkerWriter
from tidelog.broker.transactions.states import Producer
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import LogAppendInfo

T = TypeVar("T")

TOPICS = {"t": 2, "u": 1, GROUP_METADATA_TOPIC: 2, TRANSACTION_STATE: 2}
TOPIC_IDS = {name: name.encode().ljust(16, b"\1")[:16] for name in TOPICS}
TRANSACTION_CONFIG = {
    "transaction_max_timeout_ms": 900_000,
    "transactional_id_expiration_ms": 7 * 24 * 3_600_000,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 10_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 3_600_000,
    "transaction_partition_verification_enable": True,
}
ABORT_KEY = b"\0\0\0\0"


class Syncer:
    """A `DiskWorkers` without threads."""

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))
        if self.at_once:
            self.run()

    def run(self) -> None:
        while self.waiting:
            work, done = self.waiting.pop(0)
            try:
                outcome: Any = work()
            except Exception as error:
                outcome = error
            done(outcome)


class Node:
    """One broker's life on one disk. `version` is the finalised level of transaction.version."""

    def __init__(
        self,
        file_system: FakeFileSystem | None = None,
        *,
        version: int = 2,
        sync_at_once: bool = True,
        loop: asyncio.AbstractEventLoop | None = None,
        ids: itertools.count[int] | None = None,
        now_ms: int | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are every topic's. `ids` are producer ids that were not given out yet."""
        self.loop = loop or asyncio.new_event_loop()
        self.owns_loop = loop is None
        self.ids = ids or itertools.count(1)
        self.settings = settings
        self.version = version
        self.sync_at_once = sync_at_once
        self.config = SimpleNamespace(**CONFIG, **TRANSACTION_CONFIG)
        self.world = World(file_system)
        if now_ms is not None:
            self.world.time.set_wall_clock(now_ms)
        self.time = self.world.time
        #: What clients have begun and may still wait for.
        self._begun: list[asyncio.Future[Any]] = []
        self.start()

    # -- life

    def start(self) -> None:
        self.world.start(**self.settings)
        self.syncer = Syncer(at_once=self.sync_at_once)
        self._table: dict[tuple[str, int], Partition] = {}
        self.topics: Any = SimpleNamespace(get=self._topic, log=self._log, ensure=self._ensure)
        names = {topic_id: name for name, topic_id in TOPIC_IDS.items()}
        self.partitions: Any = SimpleNamespace(fence=None, get=self._partition, name_of=names.get)
        for topic, count in TOPICS.items():
            for index in range(count):
                self._partition(topic, index)
        self.environment: Any = None  # there are no heartbeat groups here
        self.features = Features({"transaction.version": self.version})
        self.timer = MockTimer(self.time)
        self.groups = GroupCoordinator(
            PartitionCoordinatorLog(GROUP_METADATA_TOPIC, self.partitions, self.topics),
            self.config,  # type: ignore[arg-type]
            self.time,
            self.timer,
            self.loop,
            self._run,
            lambda: self.environment,
        )
        self.groups.open()
        self.transactions = TransactionCoordinator(
            PartitionCoordinatorLog(TRANSACTION_STATE, self.partitions, self.topics),
            MarkerWriter(self.partitions, self.groups, self.time, self.loop),
            self.features,
            self.config,  # type: ignore[arg-type]
            self.time,
            self.timer,
            self.loop,
            self._run,
            self._new_id,
        )
        self.wait(self.groups.load())
        self.wait(self.transactions.start())
        self.settle()

    @property
    def services(self) -> Any:
        """What handlers use of it."""
        return SimpleNamespace(partitions=self.partitions, config=self.config, transactions=made(self.transactions))

    def stop(self) -> None:
        """And start again."""
        self._leave()
        self.world.stop()
        self.start()

    def kill(self) -> None:
        """`kill -9`, and start again."""
        self._leave()
        self.world.kill()
        self.start()

    def _leave(self) -> None:
        self.transactions.close()
        self.groups.close()
        self.syncer.waiting.clear()
        for outcome in self._begun:
            outcome.cancel()  # no sync ends that wait any more
        run_callbacks(self.loop)

    def close(self) -> None:
        self._leave()
        if self.owns_loop:
            self.loop.close()

    # -- what it is made of

    def _topic(self, name: str) -> Any:
        return SimpleNamespace(name=name, partition_count=TOPICS[name]) if name in TOPICS else None

    def _log(self, name: str, index: int) -> UnifiedLog | None:
        return self.world.log(name, index) if index < TOPICS.get(name, 0) else None

    async def _ensure(self, name: str) -> None:
        assert name in TOPICS

    def _partition(self, topic: str, index: int) -> Partition | None:
        found = self._table.get((topic, index))
        log = self._log(topic, index) if found is None else None
        if log is not None:
            directory = AppendOffload(log.log_directory.pace, self.syncer, self.loop)
            found = self._table[topic, index] = Partition(log, self.loop, self.syncer, directory, None)  # type: ignore[arg-type]
        return found

    async def _run(self, task: Callable[[], T]) -> T:
        return task()

    async def _new_id(self) -> int:
        return next(self.ids)

    # -- what clients ask

    def wait(self, outcome: Awaitable[T]) -> T:
        """Its outcome; syncs that it waits for happen."""
        task = asyncio.ensure_future(outcome, loop=self.loop)
        for _ in range(50):
            run_callbacks(self.loop)
            if task.done():
                break
            self.syncer.run()
        return task.result()

    def begin(self, outcome: Awaitable[T]) -> asyncio.Future[T]:
        """Starts it and goes on. Where the node is left before it is done, it is cancelled."""
        task = asyncio.ensure_future(outcome, loop=self.loop)
        self._begun.append(task)
        run_callbacks(self.loop)
        return task

    def settle(self) -> None:
        """Syncs what is to be synced, and lets what waits for it go on."""
        for _ in range(8):
            self.syncer.run()
            run_callbacks(self.loop)

    def init(self, name: str = "tx", expected: Producer | None = None, timeout_ms: int = 60_000) -> Producer:
        for _ in range(20):
            try:
                return self.wait(self.transactions.init_producer_id(name, timeout_ms, expected))
            except ProtocolError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                self.settle()  # as clients do: they come again
        raise AssertionError(f"{name}: {self.state(name)} for ever")

    def add(self, name: str, producer: Producer, *places: tuple[str, int], version: int = 0) -> None:
        """AddPartitionsToTxn."""
        wait = self.transactions.add_partitions(name, producer, {TopicPartition(*place) for place in places}, version)
        if wait is not None:
            self.wait(wait)

    def produce(
        self, name: str, producer: Producer, topic: str, index: int, *values: str, sequence: int = 0, version: int = 12
    ) -> int:
        """Produce in this version; the offset of the first record. ProtocolError or StorageError when it is refused."""
        data = batch(
            *values, timestamp=self.time.milliseconds(), producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch, base_sequence=sequence, is_transactional=True,
        )  # fmt: skip
        admission = admit(self.services, data, [(topic, [(index, 0, len(data))])], version, name)
        if admission.wait is not None:
            self.wait(admission.wait)
        for code, message in admission.refused.values():
            raise ProtocolError(code, message)
        partition = self._partition(topic, index)
        assert partition is not None
        info = partition.append(data, 0, len(data), LoopBudget("", 0))
        assert isinstance(info, LogAppendInfo)
        if (unsynced := partition.durable(info.last_offset + 1)) is not None:
            self.wait(unsynced)
        return info.first_offset

    def commit_offsets(
        self, name: str, producer: Producer, group: str, *offsets: tuple[str, int, int]
    ) -> list[ErrorCode]:
        """TxnOffsetCommit in version 5."""
        self.add(name, producer, self.groups.partition_of(group), version=2)
        commit = CommitRequest(group, [OffsetToCommit(*offset) for offset in offsets])
        outcome = self.groups.commit_in_transaction(TxnCommitRequest(commit, *producer))
        return outcome if isinstance(outcome, list) else self.wait(outcome)

    def end(self, name: str, producer: Producer, *, commit: bool, version: int = 2) -> Producer:
        """EndTxn."""
        return self.wait(self.transactions.end(name, producer, commit, version))

    def state(self, name: str = "tx") -> str:
        return self.transactions.describe(name).state.label

    # -- what readers see

    def log(self, topic: str, index: int = 0) -> UnifiedLog:
        found = self._log(topic, index)
        assert found is not None
        return found

    def committed(self, topic: str, index: int = 0) -> list[bytes]:
        """What a read_committed consumer takes, from the start on: up to the last stable offset, without aborted ones."""
        log = self.log(topic, index)
        found: list[bytes] = []
        offset = log.log_start_offset
        while True:
            info = log.read(offset, 1 << 20, limit_offset=log.last_stable_offset)
            if info.file is None:
                return found
            pending = sorted((txn.first_offset, txn.producer_id) for txn in log.aborted_transactions(offset, info))
            data = info.file.pread(info.size, info.position)
            info.release()
            skipped: set[int] = set()
            for header in iterate_batches(data):
                while pending and pending[0][0] <= header.last_offset:
                    skipped.add(pending.pop(0)[1])
                records = list(iterate_records(data, header.position))
                if header.is_control:
                    if records and records[0].key == ABORT_KEY:
                        skipped.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in skipped):
                    found += [record.value or b"" for record in records]
                offset = header.last_offset + 1

    def all_values(self, topic: str, index: int = 0) -> list[bytes]:
        """What a read_uncommitted consumer takes."""
        log = self.log(topic, index)
        data = b""
        offset = log.log_start_offset
        found: list[bytes] = []
        while (info := log.read(offset, 1 << 20)).file is not None:
            data = info.file.pread(info.size, info.position)
            info.release()
            for header in iterate_batches(data):
                if not header.is_control:
                    found += [record.value or b"" for record in iterate_records(data, header.position)]
                offset = header.last_offset + 1
        return found

    def offset(self, group: str, topic: str = "t", partition: int = 0, *, stable: bool = True) -> int | ErrorCode:
        """The group's committed offset, or why there is no telling."""
        outcome = self.groups.fetch_offsets(group, [TopicToFetch(topic, [partition])], require_stable=stable)
        fetched: Any = self.wait(outcome) if hasattr(outcome, "__await__") else outcome
        (answer,) = fetched.topics[0].partitions
        return answer.offset if answer.error is ErrorCode.NONE else answer.error
