"""Message sets are made ready in a thread and appended in order, whatever happens to the log meanwhile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from support.logs import World, append, batch, read_records, values_of
from support.mock_time import START_MS
from support.patience import PATIENCE_S
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import (
    JOB_BYTES,
    QUEUE_BYTES,
    QUICK_BYTES,
    TRIES,
    Conversions,
    LoopBudget,
    is_quick,
    quick_expansion,
)
from tidelog.broker.partitions.partition import Partition
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.protocol.records.record_batch import Record


def message_set(*values: str, magic: int = 1, codec: Compression = Compression.NONE) -> bytearray:
    records = [Record(0, START_MS, None, value.encode()) for value in values]
    return bytearray(build_legacy_set(records, magic=magic, compression=codec))


class Writer:
    """As the thread of a slow directory, at once."""

    def __init__(self) -> None:
        self.works = 0

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.works += 1
        done(work())


class Rig:
    """A partition, and conversions that can be looked at between being made ready and being appended."""

    def __init__(self, machine: World) -> None:
        self.machine = machine
        self.loop = asyncio.get_running_loop()
        self.log = machine.log()
        self.threads = Writer()
        self.offload = AppendOffload(self.log.log_directory.pace, self.threads, self.loop)
        self.conversions = Conversions(self.loop)
        self.partition = Partition(self.log, self.loop, None, self.offload, self.conversions)  # type: ignore[arg-type]
        self.runs = 0

    def interrupt(self, between: Callable[[], object]) -> None:
        """Has `between` called each time that something was made ready, before it is appended."""
        run = self.conversions._run

        async def interrupted(work: Callable[[], Any]) -> Any:
            done = await run(work)
            self.runs += 1
            between()
            return done

        self.conversions = _Interrupted(self.loop, interrupted)

    def values(self) -> list[bytes]:
        return values_of(read_records(self.log, 0))

    def formats(self) -> list[int]:
        file = self.log.segments[0].lease_file()
        data = file.pread(self.log.size, 0)
        file.release()
        return [header.magic for header in iterate_batches(data)]


class _Interrupted(Conversions):
    __slots__ = ("_run",)

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Any) -> None:
        super().__init__(loop)
        self._run = run  # type: ignore[method-assign]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    machine = World()
    machine.start()
    made = Rig(machine)
    yield made
    made.conversions.close()
    machine.stop()


async def test_sets_are_appended_in_the_order_in_which_they_came(rig: Rig) -> None:
    sets = [message_set(f"a{n}", f"b{n}", codec=Compression(n % 4)) for n in range(8)]
    infos = await asyncio.gather(*(rig.conversions.append(rig.partition, data) for data in sets))
    assert [(info.first_offset, info.last_offset) for info in infos] == [(2 * n, 2 * n + 1) for n in range(8)]
    assert rig.values() == [f"{letter}{n}".encode() for n in range(8) for letter in "ab"]
    assert rig.conversions.under_way == 0


async def test_what_was_appended_meanwhile_comes_first(rig: Rig) -> None:
    rig.interrupt(lambda: append(rig.log, "quick"))
    info = await rig.conversions.append(rig.partition, message_set("a", "b"))
    assert (info.first_offset, info.last_offset) == (1, 2)
    assert rig.values() == [b"quick", b"a", b"b"]
    assert rig.runs == 1


async def test_a_set_that_is_overtaken_again_and_again_gets_its_turn(rig: Rig) -> None:
    """Offsets within a wrapper of format 0 are absolute: it can't be moved, and is made anew."""
    rig.log.update_config(LogConfig(message_format_version="0.9.0", segment_index_bytes=4096))
    rig.interrupt(lambda: append(rig.log, "quick"))
    info = await rig.conversions.append(rig.partition, message_set("a", "b", magic=0, codec=Compression.GZIP))
    assert rig.runs == TRIES
    assert (info.first_offset, info.last_offset) == (TRIES, TRIES + 1)
    assert rig.values() == [b"quick"] * TRIES + [b"a", b"b"]


async def test_a_setting_that_changes_meanwhile_holds(rig: Rig) -> None:
    configs = [LogConfig(message_format_version="0.10.2", segment_index_bytes=4096)]
    rig.interrupt(lambda: rig.log.update_config(configs.pop()) if configs else None)
    await rig.conversions.append(rig.partition, message_set("a", "b"))
    assert (rig.runs, rig.formats(), rig.values()) == (2, [1, 1], [b"a", b"b"])


async def test_a_batch_that_needs_no_conversion_any_more(rig: Rig) -> None:
    rig.log.update_config(LogConfig(message_format_version="0.10.2", segment_index_bytes=4096))
    await rig.conversions.append(rig.partition, batch("a"))
    newest = LogConfig(segment_index_bytes=4096)
    rig.interrupt(lambda: rig.log.update_config(newest))
    await rig.conversions.append(rig.partition, batch("b", "c"))
    assert (rig.formats(), rig.values()) == ([1, 2], [b"a", b"b", b"c"])


async def test_a_slow_directorys_writer_appends(rig: Rig) -> None:
    rig.offload.active = True
    info = await rig.conversions.append(rig.partition, message_set("a", "b"))
    assert (info.first_offset, rig.values(), rig.threads.works) == (0, [b"a", b"b"], 1)


async def test_an_error_is_the_callers(rig: Rig) -> None:
    broken = message_set("a")
    broken[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        await rig.conversions.append(rig.partition, broken)
    assert rig.log.size == 0


async def test_threads_take_turns_more_often_while_it_works(rig: Rig) -> None:
    ordinary = sys.getswitchinterval()
    seen = await asyncio.gather(*(rig.conversions.run(sys.getswitchinterval, "10.0.0.1") for _ in range(3)))
    assert max(seen) < ordinary
    assert sys.getswitchinterval() == ordinary


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_is_quick(magic: int) -> None:
    def made(size: int, codec: Compression = Compression.NONE) -> bytearray:
        records = [Record(0, START_MS, None, bytes(size))]
        make = build_batch if magic == 2 else lambda *given, **named: build_legacy_set(*given, magic=magic, **named)
        return bytearray(b"head" + make(records, compression=codec))

    def quick(data: bytearray) -> bool:
        return is_quick(data, 4, len(data), magic < 2)

    assert quick(made(100))
    assert quick(bytearray(b"head"))
    assert not quick(made(QUICK_BYTES))
    assert not any(quick(made(10, codec)) for codec in list(Compression)[1:4])


def compressed(*values: str, codec: Compression = Compression.GZIP, **fields: Any) -> bytearray:
    return bytearray(build_batch([Record(0, START_MS, b"k", v.encode()) for v in values], compression=codec, **fields))


async def checked(rig: Rig, data: bytearray) -> Any:
    return await rig.conversions.append_compressed(rig.partition, data, 0, len(data))


@pytest.mark.parametrize("config", [{}, {"message_timestamp_type": "LogAppendTime"}, {"compression_type": "zstd"}])
async def test_a_batch_that_was_checked_stands_in_the_log_as_if_it_had_come_alone(
    rig: Rig, config: dict[str, Any]
) -> None:
    rig.log.update_config(LogConfig(segment_index_bytes=4096, **config))
    rig.interrupt(lambda: append(rig.log, "between"))
    info = await checked(rig, compressed("a", "b", producer_id=7, producer_epoch=0, base_sequence=0))
    assert (info.first_offset, info.last_offset, info.record_count) == (1, 2, 2)
    rig.conversions = Conversions(rig.loop)
    again = await checked(rig, compressed("a", "b", producer_id=7, producer_epoch=0, base_sequence=0))
    assert (again.first_offset, again.duplicate) == (1, True)
    straight = compressed("c", "d", producer_id=7, producer_epoch=0, base_sequence=2)
    rig.partition.append(straight, 0, len(straight), LoopBudget("", 1 << 62))
    assert rig.values() == [b"between", b"a", b"b", b"c", b"d"]
    file = rig.log.segments[0].lease_file()
    data = file.pread(rig.log.size, 0)
    file.release()
    _, first, second = iterate_batches(data)
    for header in (first, second):
        assert header.crc == crc32c(data[header.position + 21 : header.position + header.size])
    assert first.base_offset == 1
    assert [placed(header) for header in (first, second)] == 2 * [placed(first)]


def placed(header: Any) -> tuple[int, ...]:
    return header.partition_leader_epoch, header.attributes, header.max_timestamp, header.producer_id


async def test_a_changed_setting_has_a_batch_checked_anew(rig: Rig) -> None:
    changes = iter([{"cleanup_policy": ("compact",)}])
    rig.interrupt(lambda: rig.log.update_config(LogConfig(segment_index_bytes=4096, **next(changes, {}))))
    await checked(rig, compressed("a"))
    assert rig.runs > 1
    assert rig.values() == [b"a"]


async def test_too_much_that_waits_is_refused_for_now(rig: Rig) -> None:
    data = compressed("a")
    rig.conversions.queued_bytes = QUEUE_BYTES
    with pytest.raises(ProtocolError) as caught:
        rig.conversions.append_compressed(rig.partition, data, 0, len(data))
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT, "clients try again"
    with pytest.raises(ProtocolError):
        rig.conversions.append(rig.partition, message_set("a"))
    assert rig.conversions.refused == 2
    rig.conversions.queued_bytes = 0
    await checked(rig, data)
    assert rig.conversions.queued_bytes == 0


async def test_many_small_batches_fill_the_queue_as_few_large_ones_do(rig: Rig) -> None:
    data = compressed("a")
    waiting = [rig.conversions.append_compressed(rig.partition, data, 0, len(data), "10.0.0.66") for _ in range(100)]
    assert rig.conversions.queued_bytes == 100 * len(data) + 99 * JOB_BYTES, "one is in work"
    assert len(asyncio.all_tasks()) <= 3, "what waits is no task"
    for future in waiting[1:]:
        future.cancel()
    await waiting[0]
    await asyncio.sleep(0)
    assert (rig.conversions.queued_bytes, rig.conversions.under_way) == (0, 0)
    assert len(rig.values()) == 1


async def test_what_its_client_gave_up_counts_until_its_turn_so_that_nobody_fills_the_rows_with_it(rig: Rig) -> None:
    data = compressed("a")
    first = rig.conversions.append_compressed(rig.partition, data, 0, len(data), "10.0.0.66")
    for _ in range(50):
        rig.conversions.append_compressed(rig.partition, data, 0, len(data), "10.0.0.66").cancel()
    await asyncio.sleep(0)
    assert rig.conversions.queued_bytes == len(data) + 50 * JOB_BYTES
    await first
    await asyncio.sleep(0)
    assert rig.conversions.queued_bytes == 0


async def test_a_client_that_leaves_in_the_moment_when_its_turn_comes_does_not_keep_the_thread(rig: Rig) -> None:
    data = compressed("a")
    thread = rig.conversions.thread
    await thread.enter("10.0.0.1")
    given_up = rig.conversions.append_compressed(rig.partition, data, 0, len(data), "10.0.0.66")
    given_up.cancel()
    thread.leave()  # in the same turn of the loop: nobody has been told of the cancellation yet
    assert await asyncio.wait_for(rig.conversions.run(lambda: "others", "10.0.0.1"), PATIENCE_S) == "others"
    assert (rig.conversions.queued_bytes, rig.conversions.under_way, rig.values()) == (0, 0, [])


async def test_who_sends_a_hundred_batches_keeps_another_back_by_one_of_them(rig: Rig) -> None:
    done: list[str] = []
    for number in range(100):
        data = compressed(f"many {number}")
        future = rig.conversions.append_compressed(rig.partition, data, 0, len(data), "10.0.0.66")
        future.add_done_callback(lambda _, number=number: done.append(f"many {number}"))
    for name in ("set", "batch"):
        data = message_set(name) if name == "set" else compressed(name)
        append = rig.conversions.append if name == "set" else rig.conversions.append_compressed
        other = append(rig.partition, data, 0, len(data), f"10.0.0.{len(name)}")
        other.add_done_callback(lambda _, name=name: done.append(name))
    converted = rig.conversions.run(lambda: done.append("fetch"), "10.0.0.1")
    await asyncio.gather(converted, other, future)
    await asyncio.sleep(0)
    assert done[:3] == ["many 0", "many 1", "set"]
    assert {*done[3:5]} == {"batch", "fetch"}
    assert done[5:] == [f"many {number}" for number in range(2, 100)]


async def test_a_slow_disk_holds_up_no_conversion_for_another(rig: Rig) -> None:
    """The thread is given up before the writer of a slow directory is waited for."""
    kept: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
    rig.offload.active = True
    rig.threads.submit = lambda work, done: kept.append((work, done))  # type: ignore[method-assign]
    slow = rig.conversions.append(rig.partition, message_set("a"), client="10.0.0.1")
    data = compressed("b")
    slower = rig.conversions.append_compressed(rig.partition, data, 0, len(data), "10.0.0.1")
    assert await rig.conversions.run(lambda: "others", "10.0.0.1") == "others"
    await asyncio.sleep(0)
    assert len(kept) == 2
    for work, done in kept:
        done(work())
    assert [(await one).first_offset for one in (slow, slower)] == [0, 1]
    assert rig.values() == [b"a", b"b"]


def test_small_batches_may_hold_little_and_large_ones_more() -> None:
    assert quick_expansion(100) == 256 << 10
    assert quick_expansion(100_000) == 1_600_000
    assert quick_expansion(1 << 20) == 4 << 20


async def test_an_append_that_is_given_up_behind_the_close_fails_nowhere(rig: Rig) -> None:
    """Found by the simulator: a stop cancels what waits, and the loop logged an error, since the thread was gone."""
    told: list[Any] = []
    rig.loop.set_exception_handler(lambda _loop, context: told.append(context))
    waiting = rig.conversions.append_compressed(rig.partition, batch("a"), 0, len(batch("a")))
    rig.conversions.checked += 1
    rig.conversions.close()
    waiting.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == []
