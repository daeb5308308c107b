"""Partitions: appends wake readers, answers wait for syncs that they share, deletion is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.logs import World, append, batch
from support.topic_world import topic_world
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import LoopBudget
from tidelog.broker.partitions.partition import WARM_TAIL_BYTES, Partition
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.log import reader as log_reader
from tidelog.storage.values import LogAppendInfo


class Syncer:
    """Runs a sync when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], int], Callable[[Any], None]]] = []

    def submit(self, sync: Callable[[], int], tell: Callable[[Any], None]) -> None:
        self.waiting.append((sync, tell))

    async def run(self, outcome: BaseException | None = None) -> None:
        await asyncio.sleep(0)  # a sync is handed over at the end of the loop's turn
        sync, tell = self.waiting.pop(0)
        tell(sync() if outcome is None else outcome)


class Reader:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


def partition_of(machine: World, syncer: Syncer) -> Partition:
    log, loop = machine.log(), asyncio.get_running_loop()
    directory = AppendOffload(log.log_directory.pace, syncer, loop)
    return Partition(log, loop, syncer, directory, None)  # type: ignore[arg-type]


def produce(partition: Partition, *values: str) -> int:
    data = batch(*values)
    info = partition.append(data, 0, len(data), LoopBudget("", 0))
    assert isinstance(info, LogAppendInfo)
    return info.last_offset


@pytest.fixture
async def rig() -> Any:
    """A partition of which each record has to be synced, its syncer, and a reader."""
    machine = World()
    machine.start(flush_messages=1)
    syncer, reader = Syncer(), Reader()
    partition = partition_of(machine, syncer)
    partition.waiters.add(reader)  # type: ignore[arg-type]
    yield partition, syncer, reader
    machine.stop()


async def test_answers_share_a_sync_and_those_behind_it_get_the_next(rig: Any) -> None:
    partition, syncer, reader = rig
    first = [partition.durable(produce(partition, "a") + 1), partition.durable(produce(partition, "b") + 1)]
    assert not syncer.waiting, "what comes in the same turn of the loop shall share it"
    await asyncio.sleep(0)
    assert len(syncer.waiting) == 1
    assert reader.woken == 0, "nobody reads what a power cut can take back"
    sync, tell = syncer.waiting.pop()
    outcome = sync()
    late = partition.durable(produce(partition, "c") + 1)
    tell(outcome)
    assert [future.done() for future in (*first, late)] == [True, True, False]
    assert (reader.woken, partition.log.high_watermark) == (1, 2)
    await syncer.run()
    assert late.done()
    assert (reader.woken, partition.log.high_watermark) == (2, 3)
    assert partition.durable(3) is None
    assert not syncer.waiting


async def test_a_failed_sync_fails_those_that_wait(rig: Any) -> None:
    partition, syncer, reader = rig
    waits = [partition.durable(produce(partition, "a") + 1) for _ in range(3)]
    waits[1].cancel()  # its client has gone
    await syncer.run(OSError(5, "disk"))
    for future in (waits[0], waits[2]):
        with pytest.raises(KafkaStorageError, match="t-0: sync failed"):
            await future
    assert reader.woken == 0
    assert partition.log.high_watermark == 0


async def test_who_waits_for_a_sync_is_told_when_the_high_watermark_cannot_follow_it(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition, syncer, _ = rig
    waiting = partition.durable(produce(partition, "a") + 1)
    await asyncio.sleep(0)
    sync, tell = syncer.waiting.pop()
    outcome = sync()
    produce(partition, "b")
    partition.log.flush()  # flush.ms, or a backup, meanwhile: the place of the first sync's end is looked up in the log
    produce(partition, "c")

    def broken(*_: object) -> None:
        raise OSError(5, "disk")

    with monkeypatch.context() as patch:
        patch.setattr(log_reader, "locate", broken)
        tell(outcome)
    with pytest.raises(KafkaStorageError, match="t-0: sync failed"):
        await waiting
    again = partition.durable(3)
    await syncer.run()
    assert (again.done(), partition.log.high_watermark) == (True, 3)


async def test_who_is_told_may_append_at_once_and_waits_for_the_next_sync(rig: Any) -> None:
    """The next request of a client that pipelines is handled while the answer before it is sent."""
    partition, syncer, _ = rig
    seen: list[Exception | None] = []

    def tell(failure: Exception | None) -> None:
        seen.append(failure)
        if len(seen) < 5:
            partition.on_durable(produce(partition, "again") + 1, tell)

    partition.on_durable(produce(partition, "a") + 1, tell)
    await syncer.run()
    assert seen == [None]
    await syncer.run(OSError(5, "disk"))
    assert [type(failure) for failure in seen] == [type(None), KafkaStorageError]
    await asyncio.sleep(0)
    assert len(syncer.waiting) == 1


async def test_trouble_with_one_answer_is_none_of_the_others(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    partition, syncer, _ = rig
    seen: list[object] = []

    def broken(_: Exception | None) -> None:
        raise ValueError("this client's")

    for tell in (broken, seen.append):
        partition.on_durable(produce(partition, "a") + 1, tell)
    await syncer.run()
    assert seen == [None]
    assert "this client's" in caplog.text


async def test_without_syncs_readers_are_woken_at_once() -> None:
    machine = World()
    machine.start()
    reader = Reader()
    partition = partition_of(machine, Syncer())
    partition.waiters.add(reader)  # type: ignore[arg-type]
    assert partition.durable(produce(partition, "a") + 1) is None
    append(partition.log, "b")
    partition.appended()
    assert reader.woken == 2
    machine.stop()


async def test_the_tail_is_known_to_be_in_memory() -> None:
    machine = World()
    machine.start(segment_bytes=200)
    partition = partition_of(machine, Syncer())
    for _ in range(6):
        produce(partition, "x" * 100)
    assert len(partition.log.segments) > 2
    old, new = partition.log.read(0, 1), partition.log.read(5, 1)
    assert not partition.just_written(old)
    assert partition.just_written(new)
    assert partition.is_warm(5)
    assert partition.is_warm(-1), "an error needs no disk"
    partition.warm(0)
    partition.warm(99)  # an error is the read's to tell
    for info in (old, new):
        info.release()
    assert WARM_TAIL_BYTES > 0
    machine.stop()


async def test_the_table_makes_partitions_once_and_forgets_deleted_topics(tmp_path: Path) -> None:
    machine = World()
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 2, {})
        table = world.partitions
        one = table.get("t", 1)
        assert one is not None
        assert one is table.get("t", 1)
        assert one is not table.get("t", 0)
        assert table.get("t", 2) is table.get("none", 0) is None
        topic = world.topics.get("t")
        assert topic is not None
        topic_id = topic.topic_id.bytes
        assert table.name_of(topic_id) == "t"
        assert table.name_of(bytes(16)) is None
        reader = Reader()
        one.waiters.add(reader)  # type: ignore[arg-type]
        world.topics.on_deleted.append(table.forget)
        await world.topics.delete("t")
        assert reader.woken == 1
        assert table.get("t", 1) is table.name_of(topic_id) is None
        table.close()
    machine.stop()
