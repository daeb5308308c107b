"""Which way a batch takes to its log: what `Partition.append` decides by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.logs import SMALL_INDEX, World, batch, read_records, values_of
from support.mock_time import START_MS
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import QUICK_BYTES, Conversions, LoopBudget
from tidelog.broker.partitions.partition import Partition
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import RecordTooLargeError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.values import LogAppendInfo

FRESH = 1 << 62
"""When a request came that has not taken long."""


class HeldWriter:
    """As the thread of a slow directory, when it is told to."""

    def __init__(self) -> None:
        self.queue: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.queue.append((work, done))

    def run(self) -> None:
        while self.queue:
            work, done = self.queue.pop(0)
            done(work())


class HeldConversions:
    """Takes notes of what the conversion thread is handed."""

    def __init__(self) -> None:
        self.handed: list[tuple[str, Partition]] = []

    def _note(self, kind: str, partition: Partition) -> asyncio.Future[LogAppendInfo]:
        self.handed.append((kind, partition))
        return asyncio.get_running_loop().create_future()

    def append(self, partition: Partition, *_: Any) -> asyncio.Future[LogAppendInfo]:
        return self._note("convert", partition)

    def append_compressed(self, partition: Partition, *_: Any) -> asyncio.Future[LogAppendInfo]:
        return self._note("check", partition)


class Rig:
    """Partitions of one directory whose threads do nothing by themselves."""

    def __init__(self, machine: World, conversions: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.writer = HeldWriter()
        self.conversions = conversions or HeldConversions()
        self.offload = AppendOffload(machine.log("t", 0).log_directory.pace, self.writer, self.loop)
        syncer: Any = SimpleNamespace(submit=lambda *_: None)
        self.partitions = [
            Partition(machine.log("t", number), self.loop, syncer, self.offload, self.conversions)
            for number in range(3)
        ]

    def append(self, number: int, data: bytes, budget: LoopBudget, *, is_set: bool = False) -> str:
        """Where it went: "loop", "writer", or what the conversion thread was handed it for."""
        buffer = bytearray(b"--" + data)
        queued, handed = len(self.writer.queue), len(self.conversions.handed)
        info = self.partitions[number].append(buffer, 2, len(buffer), budget, is_set)
        buffer[:] = bytes(len(buffer))  # it is another request's now
        if isinstance(info, LogAppendInfo):
            return "loop"
        if len(self.conversions.handed) > handed:
            kind, partition = self.conversions.handed[-1]
            assert partition is self.partitions[number]
            return kind
        assert len(self.writer.queue) > queued
        return "writer"

    def values(self, number: int) -> list[bytes]:
        return values_of(read_records(self.partitions[number].log, 0))


PLAIN = bytes(batch("p"))
COMPRESSED = build_batch([Record(0, START_MS, None, b"c")], compression=Compression.GZIP)
SET = build_legacy_set([Record(0, START_MS, None, b"s")], magic=1)
LARGE_SET = build_legacy_set([Record(0, START_MS, None, bytes(QUICK_BYTES))], magic=1)


async def test_what_is_quick_is_appended_on_the_loop(machine: World) -> None:
    rig, budget = Rig(machine), LoopBudget("10.0.0.1", FRESH)
    assert [rig.append(0, data, budget) for data in (PLAIN, COMPRESSED)] == ["loop", "loop"]
    assert rig.append(0, SET, budget, is_set=True) == "loop"
    assert rig.values(0) == [b"p", b"c", b"s"]


async def test_what_takes_long_goes_to_the_conversions_thread(machine: World) -> None:
    assert Rig(machine).append(0, COMPRESSED, LoopBudget("", 0)) == "check", "the request has had its time"
    assert Rig(machine).append(0, LARGE_SET, LoopBudget("", FRESH), is_set=True) == "convert"


async def test_what_the_new_limit_refuses_is_not_decompressed_on_the_loop_while_the_old_one_holds(
    machine: World,
) -> None:
    """A lowered max.message.bytes waits for an append that hangs in its disk: until then the log takes larger ones."""
    rig, budget = Rig(machine), LoopBudget("", 0)
    log = rig.partitions[0].log
    with log.local.lock:
        log.update_config(LogConfig(max_message_bytes=len(COMPRESSED) - 1, segment_index_bytes=SMALL_INDEX))
    assert rig.append(0, COMPRESSED, budget) == "check"
    machine.time.advance(0)
    with pytest.raises(RecordTooLargeError):
        rig.append(0, COMPRESSED, budget)
    assert log.size == 0


async def test_only_so_many_bytes_of_a_request_are_converted_on_the_loop(machine: World) -> None:
    rig, budget = Rig(machine), LoopBudget("", FRESH, convertible=len(SET) + 1)
    assert [rig.append(0, SET, budget, is_set=True) for _ in range(3)] == ["loop", "loop", "convert"]


class NeverWalked(set[Any]):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("a walk over all that a thread has, for each batch behind it")


async def test_batches_behind_those_of_a_thread_do_not_look_at_each_of_them(machine: World) -> None:
    """Of a request of 49,000 compressed batches and as many plain ones that is 2.4 billion looks."""
    rig, budget = Rig(machine), LoopBudget("", 0)
    assert rig.append(0, COMPRESSED, budget) == "check"
    assert budget.ahead == {rig.partitions[0]}
    budget.ahead = NeverWalked(budget.ahead)
    assert [rig.append(number, PLAIN, budget) for number in (1, 0, 2)] == ["loop", "check", "loop"]


async def test_a_quick_set_does_not_overtake_what_the_thread_has(machine: World) -> None:
    rig, budget = Rig(machine), LoopBudget("", FRESH)
    assert rig.append(0, LARGE_SET, budget, is_set=True) == "convert"
    assert rig.append(0, SET, budget, is_set=True) == "convert"


async def test_while_a_disk_is_slow_its_writer_appends_copies_in_their_order(machine: World) -> None:
    rig, budget = Rig(machine), LoopBudget("", 0)
    rig.offload.active = True
    assert [rig.append(0, data, budget) for data in (PLAIN, COMPRESSED)] == ["writer", "writer"]
    assert rig.append(0, SET, budget, is_set=True) == "writer"
    assert rig.values(0) == []
    rig.writer.run()
    assert rig.values(0) == [b"p", b"c", b"s"]
    assert not rig.offload.active


class Reader:
    """A fetch that waits for data."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1


async def test_what_the_writer_of_a_slow_disk_has_appended_wakes_its_readers(machine: World) -> None:
    rig, reader = Rig(machine), Reader()
    rig.partitions[0].waiters.add(reader)  # type: ignore[arg-type]
    rig.offload.active = True
    assert rig.append(0, PLAIN, LoopBudget("", 0)) == "writer"
    assert reader.woken == 0
    rig.writer.run()
    assert reader.woken == 1


async def test_nothing_overtakes_what_the_thread_has_where_the_disk_turns_slow_meanwhile(machine: World) -> None:
    rig, budget = Rig(machine), LoopBudget("", 0)
    assert rig.append(0, COMPRESSED, budget) == "check"
    rig.offload.active = True
    assert [rig.append(number, PLAIN, budget) for number in (0, 1)] == ["check", "writer"]


async def test_what_was_prepared_goes_to_the_log_by_the_writer_too(machine: World) -> None:
    conversions = Conversions(asyncio.get_running_loop())
    rig = Rig(machine, conversions)
    large, budget = bytearray(LARGE_SET), LoopBudget("", FRESH)
    rig.offload.active = True
    appended = rig.partitions[0].append(large, 0, len(large), budget, True)
    assert isinstance(appended, asyncio.Future)
    while not rig.writer.queue:  # noqa: ASYNC110 - a thread is at it
        await asyncio.sleep(0.001)
    assert rig.values(0) == []
    rig.writer.run()
    assert (await appended).first_offset == 0
    assert rig.values(0) == [bytes(QUICK_BYTES)]
    conversions.close()
