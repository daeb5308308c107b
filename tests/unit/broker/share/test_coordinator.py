"""The share coordinator on a log in memory: what it writes, what a restart makes of that, and whom it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.groups import MemoryCoordinatorLog
from support.logs import World
from support.mock_time import MockTime, MockTimer
from tidelog.broker.coordinator.internal_topic import CoordinatorRecord, PartitionCoordinatorLog
from tidelog.broker.coordinator.runtime import RELOAD_MS
from tidelog.broker.metadata.topics import SHARE_GROUP_STATE
from tidelog.broker.runtime.cooperative import run_in_rounds
from tidelog.broker.share.coordinator import ShareCoordinator
from tidelog.broker.share.records import SNAPSHOT, RecordState, SharePartitionKey, StateBatch, read_key
from tidelog.broker.share.state import load_share_state
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.exceptions import RecordTooLargeError
from tidelog.storage.exceptions import KafkaStorageError

TOPIC = b"t" * 16
KEY = SharePartitionKey("g", TOPIC, 0)
ACKNOWLEDGED, AVAILABLE = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE


class StateLog(MemoryCoordinatorLog):
    """One partition, with its records as the share coordinator reads them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, partitions=1)
        self.most_bytes = 1 << 20

    def append(
        self, partition: int, records: Sequence[CoordinatorRecord], now_ms: int, *producer: int
    ) -> tuple[int, asyncio.Future[None] | None]:
        if sum(len(key) + len(value or b"") for key, value in records) > self.most_bytes:
            raise RecordTooLargeError("too large for the topic")
        return super().append(partition, records, now_ms, *producer)

    @property
    def start(self) -> int:
        return self.starts[0]

    def share_records(self) -> list[tuple[int, SharePartitionKey, bytes | None]]:
        """(kind, key, value) of all."""
        rows = [row for batch in self.batches[0] for row in batch.records]
        return [(*read, value) for _, key, value in rows if key is not None and (read := read_key(key)) is not None]


class Topics:
    """A TopicRegistry, as far as it is asked."""

    def __init__(self) -> None:
        self.partitions = {TOPIC: 3}

    def by_id(self, topic_id: bytes) -> Any:
        count = self.partitions.get(topic_id)
        return None if count is None else SimpleNamespace(partition_count=count)


class Rig:
    """A coordinator; `restarted` is another on the same log."""

    def __init__(
        self,
        log: StateLog | None = None,
        topics: Topics | None = None,
        run_blocking: Callable[[Any], Awaitable[Any]] | None = None,
        **config: Any,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = log or StateLog(self.loop)
        self.topics = topics or Topics()
        self.time = MockTime()
        self.timer = MockTimer(self.time)
        self.config = config

        async def run(load: Any) -> Any:
            return load()

        self.coordinator = ShareCoordinator(
            self.log, self.topics, BrokerConfig(**config), self.time, self.timer, self.loop, run_blocking or run
        )

    async def started(self) -> Rig:
        await self.coordinator.start()
        return self

    async def restarted(self) -> Rig:
        self.coordinator.close()
        return await Rig(self.log, self.topics, **self.config).started()

    def write(self, first: int, last: int, start: int = 0, **epochs: int) -> None:
        batches = [StateBatch(first, last, ACKNOWLEDGED, 1)]
        self.coordinator.write(KEY, epochs.get("state", 5), epochs.get("leader", -1), start, last - start + 1, batches)


def refused(call: Any, *arguments: Any) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        call(*arguments)
    return caught.value.code


async def test_what_is_written_is_there_after_a_restart() -> None:
    rig = await Rig().started()
    rig.coordinator.initialize(KEY, 5, -1)
    assert rig.coordinator.read(KEY, 7)[0].leader_epoch == 7
    rig.write(0, 9)
    rig.write(10, 19)
    rig.coordinator.write(KEY, 5, 7, 20, 0, [StateBatch(25, 29, AVAILABLE, 2)])
    state = rig.coordinator.read(KEY, 7)[0]
    assert (state.start_offset, state.state_epoch, state.delivery_complete_count) == (20, 5, 0)
    assert state.batches == (StateBatch(25, 29, AVAILABLE, 2),)
    again = await rig.restarted()
    assert again.coordinator.summary(KEY) == state
    assert again.coordinator.partition_count == 1


async def test_a_snapshot_comes_after_some_updates_and_makes_what_was_before_redundant() -> None:
    rig = await Rig(share_coordinator_snapshot_update_records_per_snapshot=3).started()
    rig.coordinator.initialize(KEY, 5, 0)
    for index in range(8):
        rig.write(index, index)
    kinds = [kind for kind, _, _ in rig.log.share_records()]
    assert [index for index, kind in enumerate(kinds) if kind == SNAPSHOT] == [0, 4, 8]
    state = rig.coordinator.summary(KEY)
    assert state is not None
    assert (state.snapshot_epoch, state.batches) == (2, (StateBatch(0, 7, ACKNOWLEDGED, 1),))
    rig.coordinator.prune()
    assert rig.log.start == 8
    assert (await rig.restarted()).coordinator.summary(KEY) == state


async def test_the_oldest_snapshot_holds_the_log_until_it_is_taken_again() -> None:
    rig = await Rig(share_coordinator_snapshot_update_records_per_snapshot=1).started()
    idle = SharePartitionKey("idle", TOPIC, 0)
    rig.coordinator.initialize(idle, 0, 0)
    rig.coordinator.initialize(KEY, 5, 0)
    for index in range(6):
        rig.write(index, index)
    rig.time.advance(299_000)
    assert rig.log.start == 0
    rig.time.advance(1_000)
    assert rig.log.start == 0, "pruned before the snapshot"
    rig.time.advance(300_000)
    assert rig.log.start == rig.log.end_offset(0) - 2
    before = rig.log.end_offset(0)
    assert not list(rig.coordinator.snapshot_cold())
    assert rig.log.end_offset(0) == before, "once is enough"
    rig.coordinator.close()


async def test_snapshots_of_cold_partitions_that_are_too_large_for_one_batch_are_taken_in_more() -> None:
    """The log grew for ever: the oldest snapshots held it."""
    rig = Rig(share_coordinator_snapshot_update_records_per_snapshot=500)
    rig.topics.partitions[TOPIC] = 150
    await rig.started()
    rig.log.most_bytes = 10_000
    for index in range(150):
        rig.coordinator.initialize(KEY._replace(partition=index), 5, 0)
        parts = [StateBatch(2 * number, 2 * number, AVAILABLE, 1) for number in range(40)]
        rig.coordinator.write(KEY._replace(partition=index), 5, -1, 0, 0, parts)
    before = rig.log.end_offset(0)
    rig.time.set_wall_clock(rig.time.milliseconds() + 300_000)
    steps = rig.coordinator.snapshot_cold()
    next(steps)
    assert rig.log.end_offset(0) == before + 100, "others are let in after a batch"
    rig.coordinator.write(KEY._replace(partition=149), 5, -1, 0, 0, [StateBatch(0, 0, ACKNOWLEDGED, 1)])
    list(steps)
    rig.coordinator.prune()
    assert rig.log.start == before
    state = rig.coordinator.summary(KEY._replace(partition=149))
    assert state is not None
    assert state.batches[0] == StateBatch(0, 0, ACKNOWLEDGED, 1)
    assert (await rig.restarted()).coordinator.summary(KEY._replace(partition=149)) == state


async def test_what_is_kept_of_a_topic_of_very_many_partitions_is_forgotten_in_turns() -> None:
    rig = Rig()
    rig.topics.partitions[TOPIC] = 250
    await rig.started()
    for index in range(250):
        rig.coordinator.initialize(KEY._replace(partition=index), 5, 0)
    del rig.topics.partitions[TOPIC]
    rig.coordinator.forget_deleted_topics()
    assert rig.log.end_offset(0) == 250 + 100
    rig.time.advance()
    assert (rig.log.end_offset(0), rig.coordinator.partition_count) == (500, 0)


async def test_nothing_is_pruned_before_what_makes_it_redundant_is_on_disk() -> None:
    rig = await Rig(share_coordinator_snapshot_update_records_per_snapshot=1).started()
    rig.coordinator.initialize(KEY, 5, 0)
    for index in range(4):
        rig.write(index, index)
    rig.log.durable = False
    rig.coordinator.prune()
    rig.write(4, 4)
    rig.write(5, 5)
    rig.coordinator.prune()
    assert rig.log.start == 0
    rig.log.durable = True
    rig.coordinator.prune()
    assert rig.log.start == 4, "what was redundant when a round first found it"
    rig.coordinator.prune()
    assert rig.log.start == 6


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_a_power_cut_after_rounds_of_pruning_leaves_what_is_kept(seed: int, rounds: int) -> None:
    """The start of the log was on disk before the snapshots that made the rest redundant: nothing was left, and nobody could
    read the partition any more."""
    world = World()

    def state_log() -> Any:
        found = world.log(SHARE_GROUP_STATE)
        partition = SimpleNamespace(
            log=found,
            appended=lambda: None,
            durable=lambda _: None,
            sync=lambda: world.scheduler.submit("", found.flush),
        )
        topics: Any = SimpleNamespace(
            get=lambda _: SimpleNamespace(partition_count=1), log=lambda _topic, _index: found
        )
        return PartitionCoordinatorLog(SHARE_GROUP_STATE, SimpleNamespace(get=lambda *_: partition), topics)  # type: ignore[arg-type]

    world.start(segment_bytes=2000)
    rig = await Rig(state_log(), share_coordinator_snapshot_update_records_per_snapshot=5).started()
    rig.coordinator.initialize(KEY, 5, 0)
    for index in range(60):
        rig.write(index, index)
    world.time.advance(seconds=40)
    for index in range(rounds):
        rig.write(60 + index, 60 + index)
        rig.coordinator.prune()
    found = world.log(SHARE_GROUP_STATE)
    assert (found.log_start_offset > 50) == (rounds == 2)
    found.delete_old_segments()
    world.time.advance(seconds=200)  # the start is checkpointed, files are deleted
    rig.coordinator.close()
    world.cut_power(seed)
    world.start()
    again = await Rig(state_log()).started()
    assert again.coordinator.summary(KEY) is not None
    again.coordinator.close()


async def test_older_epochs_are_fenced() -> None:
    rig = await Rig().started()
    rig.coordinator.initialize(KEY, 5, -1)
    rig.coordinator.read(KEY, 7)
    assert refused(rig.coordinator.read, KEY, 6) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(rig.coordinator.write, KEY, 5, 6, 0, 0, ()) is ErrorCode.FENCED_LEADER_EPOCH
    assert refused(rig.coordinator.write, KEY, 4, 7, 0, 0, ()) is ErrorCode.FENCED_STATE_EPOCH
    assert refused(rig.coordinator.initialize, KEY, 4, 0) is ErrorCode.FENCED_STATE_EPOCH
    rig.coordinator.initialize(KEY, 6, 100)
    state = rig.coordinator.summary(KEY)
    assert state is not None
    assert (state.start_offset, state.snapshot_epoch, state.batches) == (100, 1, ())
    assert refused(rig.coordinator.write, KEY, 5, 7, 0, 0, ()) is ErrorCode.FENCED_STATE_EPOCH


async def test_what_is_not_there_cannot_be_asked_for() -> None:
    rig = Rig()
    assert refused(rig.coordinator.summary, KEY) is ErrorCode.NOT_COORDINATOR
    await rig.started()
    assert refused(rig.coordinator.read, KEY, 0) is ErrorCode.INVALID_REQUEST
    assert refused(rig.coordinator.write, KEY, 0, 0, 0, 0, ()) is ErrorCode.INVALID_REQUEST
    assert rig.coordinator.delete(KEY) is None
    for key in (KEY._replace(partition=3), KEY._replace(topic_id=b"u" * 16)):
        assert refused(rig.coordinator.initialize, key, 0, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for key in (KEY._replace(partition=-1), KEY._replace(group="")):
        assert refused(rig.coordinator.initialize, key, 0, 0) is ErrorCode.INVALID_REQUEST
    rig.coordinator.close()
    assert refused(rig.coordinator.summary, KEY) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_write_that_fails_changes_nothing() -> None:
    rig = await Rig().started()
    rig.coordinator.initialize(KEY, 5, 0)
    rig.log.failure = KafkaStorageError("the disk")
    before = rig.coordinator.summary(KEY)
    assert (
        refused(rig.coordinator.write, KEY, 5, -1, 0, 1, [StateBatch(0, 0, ACKNOWLEDGED, 1)])
        is ErrorCode.NOT_COORDINATOR
    )
    assert refused(rig.coordinator.delete, KEY) is ErrorCode.NOT_COORDINATOR
    _, errors = await run_in_rounds(rig.coordinator.initialize_all({KEY: 4}, 9, lambda _: None))
    assert errors[KEY].code is ErrorCode.NOT_COORDINATOR
    assert rig.coordinator.summary(KEY) == before


async def test_who_writes_is_told_when_it_is_durable() -> None:
    rig = await Rig().started()
    rig.log.durable = False
    unsynced = rig.coordinator.initialize(KEY, 5, 0)
    assert unsynced is not None
    assert not unsynced.done()
    unsynced.set_result(None)


async def test_many_are_initialized_in_few_batches() -> None:
    rig = Rig()
    rig.topics.partitions[TOPIC] = 250
    await rig.started()
    starts = {KEY._replace(partition=index): index for index in range(251)}
    tried: list[SharePartitionKey] = []
    unsynced, errors = await run_in_rounds(rig.coordinator.initialize_all(starts, 1, tried.append))
    assert tried == list(starts)
    assert unsynced == [None] * 3
    assert {key.partition: error.code for key, error in errors.items()} == {250: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    state = (await rig.restarted()).coordinator.summary(KEY._replace(partition=249))
    assert state is not None
    assert state.start_offset == 249


async def test_others_are_let_in_while_many_are_initialized_and_what_is_written_is_seen_in_its_step() -> None:
    rig = Rig()
    rig.topics.partitions[TOPIC] = 250
    await rig.started()
    tried: list[SharePartitionKey] = []
    steps = rig.coordinator.initialize_all({KEY._replace(partition=index): 0 for index in range(250)}, 5, tried.append)
    assert [next(steps) for _ in range(250)] == [1] * 250
    assert not tried
    assert next(steps) == 100
    assert len(tried) == 100
    rig.coordinator.initialize(KEY._replace(partition=200), 9, 7)  # somebody else, in between, with a newer epoch
    assert (next(steps), next(steps), len(tried)) == (100, 50, 250)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    _, errors = ended.value.value
    assert {key.partition: error.code for key, error in errors.items()} == {200: ErrorCode.FENCED_STATE_EPOCH}
    state = rig.coordinator.summary(KEY._replace(partition=200))
    assert state is not None
    assert (state.state_epoch, state.start_offset) == (9, 7)


async def test_others_are_let_in_while_many_are_deleted() -> None:
    rig = Rig()
    rig.topics.partitions[TOPIC] = 250
    await rig.started()
    keys = [KEY._replace(partition=index) for index in range(250)]
    await run_in_rounds(rig.coordinator.initialize_all(dict.fromkeys(keys[1:], 0), 5, lambda _: None))
    deleting: list[SharePartitionKey] = []
    steps = rig.coordinator.delete_all(keys, deleting.append)
    assert [next(steps) for _ in range(250)] == [1] * 250
    assert deleting == keys[:1], "there is none"
    assert [next(steps), next(steps), next(steps)] == [100, 100, 49]
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value == [None] * 3
    assert (deleting, rig.coordinator.partition_count) == (keys, 0)
    assert (await rig.restarted()).coordinator.partition_count == 0


async def test_a_group_with_a_long_id_may_read_a_topic_of_many_partitions() -> None:
    rig = Rig()
    rig.topics.partitions[TOPIC] = 100
    await rig.started()
    keys = [SharePartitionKey("é" * 12_000, TOPIC, index) for index in range(100)]
    _, errors = await run_in_rounds(rig.coordinator.initialize_all(dict.fromkeys(keys, 0), 5, lambda _: None))
    assert (errors, rig.coordinator.partition_count) == ({}, 100)
    await run_in_rounds(rig.coordinator.delete_all(keys, lambda _: None))
    assert rig.coordinator.partition_count == 0


async def test_of_deleted_topics_nothing_is_kept() -> None:
    rig = await Rig().started()
    rig.topics.partitions[b"u" * 16] = 1
    other = SharePartitionKey("g", b"u" * 16, 0)
    rig.coordinator.initialize(KEY, 1, 0)
    rig.coordinator.initialize(other, 1, 0)
    del rig.topics.partitions[TOPIC]
    rig.coordinator.forget_deleted_topics()
    assert rig.log.share_records()[-1] == (SNAPSHOT, KEY, None)
    assert (await rig.restarted()).coordinator.partition_count == 1
    del rig.topics.partitions[b"u" * 16]
    assert (await rig.restarted()).coordinator.partition_count == 0, "one that went while nobody looked"


async def test_of_topics_that_went_while_the_disk_refused_to_be_read_nothing_is_kept_either() -> None:
    refusals = [KafkaStorageError("no")]

    async def run(load: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return load()

    rig = await Rig().started()
    rig.coordinator.initialize(KEY, 1, 0)
    rig.coordinator.close()
    rig = await Rig(rig.log, rig.topics, run).started()
    assert rig.coordinator.unloaded
    del rig.topics.partitions[TOPIC]
    rig.coordinator.forget_deleted_topics()
    rig.time.advance(RELOAD_MS)
    for _ in range(4):
        await asyncio.sleep(0)
    assert (rig.coordinator.unloaded, rig.coordinator.partition_count) == ({}, 0)
    assert rig.log.share_records()[-1] == (SNAPSHOT, KEY, None)


async def test_until_it_is_loaded_nobody_is_answered() -> None:
    waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def slow(load: Any) -> Any:
        await waiting
        return load()

    rig = Rig(run_blocking=slow)
    rig.log.put(0, -1, [(b"\x00\x00rubbish", b""), (None, b""), (b"\x00\x09", b"")])
    task = rig.loop.create_task(rig.coordinator.start())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert refused(rig.coordinator.summary, KEY) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    waiting.set_result(None)
    await task
    assert rig.coordinator.summary(KEY) is None


async def test_what_cannot_be_read_is_counted_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    rig = await Rig().started()
    rig.coordinator.initialize(KEY, 1, 3)
    rig.log.put(0, -1, [(b"\x00\x00rubbish", b""), (None, b""), (b"\x00\x09", b""), (b"\x00\x01", None)])
    rig.write(3, 5, 3)
    loaded = load_share_state("log", rig.log.replay(0))
    assert (loaded.skipped, loaded.broken) == (2, 2)
    assert len(caplog.records) == 1
    assert loaded.shard.entries[KEY].state.batches == (StateBatch(3, 5, ACKNOWLEDGED, 1),)
