"""A directory that is slow: its appends go through one thread, in order, bounded; nobody else notices."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from support.logs import append, batch, read_records, values_of
from support.patience import PATIENCE_S
from support.slow_disks import ManualThreads, SlowDisks, answers_of
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.disk_workers import DiskWorkers
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.storage.io.write_pace import QUIET_S, WritePace

# --- the queue alone


class Queue:
    """A slow directory, its clock and its thread."""

    def __init__(self, queue_bytes: int = 100) -> None:
        self.now = 0.0
        self.done: list[object] = []
        self.pace = WritePace("/data", lambda: self.now)
        self.threads = ManualThreads()
        self.offload = AppendOffload(self.pace, self.threads, asyncio.get_running_loop(), queue_bytes)

    def work(self, name: object, seconds: float = 0.0) -> Callable[[], object]:
        def run() -> object:
            self.now += seconds
            self.pace.note(seconds)
            self.done.append(name)
            return name

        return run


async def test_it_is_active_with_the_first_slow_write_whoever_writes() -> None:
    queue = Queue()
    assert not queue.offload.active
    thread = threading.Thread(target=queue.pace.note, args=(1.0,))
    thread.start()
    thread.join(PATIENCE_S)
    assert queue.offload.active
    assert AppendOffload(queue.pace, queue.threads, asyncio.get_running_loop()).active


async def test_work_is_done_in_order_and_told_to_who_asked() -> None:
    queue = Queue()
    seen: list[object] = []
    futures = [queue.offload.submit(queue.work(n), 10, seen.append) for n in range(5)]
    assert queue.done == []
    assert queue.offload.queued_bytes == 50
    queue.threads.run(3)
    assert queue.done == seen == [0, 1, 2]
    assert [future.done() for future in futures] == [True, True, True, False, False]
    assert (queue.threads.run(9), queue.offload.queued_bytes, queue.offload.submitted) == (2, 0, 5)
    assert await asyncio.gather(*futures) == list(range(5))


async def test_an_error_is_for_who_asked() -> None:
    queue = Queue()
    seen: list[object] = []

    def fail() -> None:
        raise OSError(28, "full")

    failing, following = queue.offload.submit(fail, 1, seen.append), queue.offload.submit(queue.work("b"))
    queue.threads.run(2)
    with pytest.raises(OSError, match="full"):
        await failing
    assert await following == "b"
    assert seen == []


async def test_what_the_thread_has_is_bounded_and_the_rest_waits_in_order() -> None:
    queue = Queue(queue_bytes=100)
    for n, size in enumerate((60, 40, 1, 250, 5, 90)):
        queue.offload.submit(queue.work(n), size)
    handed = []
    while queue.threads.queue:
        handed.append((len(queue.threads.queue), queue.offload.queued_bytes))
        queue.threads.run()
    # 60 + 40; 40 + 1; 1 (the one larger than the bound has to be alone); 250; 5 + 90; 90
    assert handed == [(2, 100), (2, 41), (1, 1), (1, 250), (2, 95), (1, 90)]
    assert queue.done == list(range(6))


async def test_who_leaves_takes_along_what_the_thread_does_not_have() -> None:
    queue = Queue(queue_bytes=100)
    seen: list[object] = []
    handed, waiting, last = (queue.offload.submit(queue.work(n), 100, seen.append) for n in "abc")
    handed.cancel()
    waiting.cancel()
    queue.threads.run(9)
    assert queue.done == ["a", "c"]
    assert seen == ["a", "c"], "readers are woken though nobody waits for the answer"
    assert await last == "c"


async def test_it_lets_go_only_when_nothing_is_left() -> None:
    """A direct append must not overtake one that is queued."""
    queue = Queue(queue_bytes=10)
    queue.pace.note(1.0)
    queue.now += QUIET_S
    for n in range(3):
        queue.offload.submit(queue.work(n), 10)
    for left in (2, 1):
        queue.threads.run()
        assert not queue.pace.is_slow
        assert queue.offload.active, f"{left} are still to be done"
    queue.threads.run()
    assert not queue.offload.active
    queue.pace.note(1.0)
    assert queue.offload.active


async def test_it_stays_active_while_writes_are_slow() -> None:
    queue = Queue()
    queue.pace.note(1.0)
    queue.offload.submit(queue.work(1, seconds=0.2))
    queue.now += QUIET_S * 0.9
    queue.offload.submit(queue.work(2, seconds=0.2))
    queue.threads.run(2)
    assert queue.offload.active


# --- partitions on it


@pytest.fixture
async def disks(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SlowDisks]:
    made = SlowDisks(monkeypatch)
    yield made
    made.stop()


async def test_a_slow_write_sends_what_follows_through_the_thread(disks: SlowDisks) -> None:
    disks.write_s["/b"] = 0.2
    assert isinstance(disks.ask({0: batch("a"), 1: batch("a")}), bytes)
    assert [offload.active for offload in disks.offloads] == [False, True]
    answer = asyncio.ensure_future(disks.ask({0: batch("b"), 1: batch("b", "c")}))
    await disks.turn()
    assert not answer.done()
    assert [partition.log.log_end_offset for partition in disks.partitions] == [2, 1]
    await disks.drain()
    assert [(row.index, row.error_code, row.base_offset) for row in answers_of(await answer)] == [(0, 0, 1), (1, 0, 1)]
    assert values_of(read_records(disks.partitions[1].log, 0)) == [b"a", b"b", b"c"]
    assert disks.counters.produced_records == 5


async def test_errors_are_answered_as_on_the_short_way(disks: SlowDisks) -> None:
    broken, twice = batch("x"), batch("x", "y")
    broken[-1] ^= 1
    twice[65] ^= 2  # the first record's offset delta
    expected = [answers_of(disks.ask({1: data}))[0] for data in (broken, twice, bytes(70))]
    assert all(row.error_code for row in expected)
    counted = dict(disks.counters.produce_errors)
    disks.make_slow(1)
    for data, row in zip((broken, twice, bytes(70)), expected, strict=True):
        answer = asyncio.ensure_future(disks.ask({1: data}))
        await disks.turn()
        await disks.drain()
        assert answers_of(await answer)[0] == row
    assert disks.counters.produce_errors == {code: count * 2 for code, count in counted.items()}


async def test_without_acks_the_connection_waits_and_an_error_closes_it(disks: SlowDisks) -> None:
    disks.make_slow(1)
    answer = asyncio.ensure_future(disks.ask({1: batch("x")}, acks=0))
    await disks.turn()
    assert not answer.done()
    await disks.drain()
    assert await answer is None
    failing = asyncio.ensure_future(disks.ask({1: bytes(70)}, acks=0))
    await disks.turn()
    await disks.drain()
    with pytest.raises(ConnectionAborted, match="acks=0 failed: t-1: CORRUPT_MESSAGE"):
        await failing


async def test_who_leaves_before_its_turn_appends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = SlowDisks(monkeypatch, queue_bytes=1)
    disks.make_slow(1)
    answers = [asyncio.ensure_future(disks.ask({1: batch(value)})) for value in ("first", "leaves", "stays")]
    await disks.turn()
    answers[1].cancel()
    await disks.turn()
    await disks.drain()
    assert answers_of(await answers[2])[0].base_offset == 1
    assert values_of(read_records(disks.partitions[1].log, 0)) == [b"first", b"stays"]
    disks.stop()


async def test_answers_that_wait_for_a_sync_do_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = SlowDisks(monkeypatch, flush_messages=1)
    disks.make_slow(1)
    answer = asyncio.ensure_future(disks.ask({1: batch("x")}))
    await disks.turn()
    log, syncs = disks.partitions[1].log, disks.syncers[1]
    disks.writers[1].run()
    await disks.turn()
    assert (log.log_end_offset, log.high_watermark) == (1, 0)
    syncs.run()
    assert (len(syncs.queue), log.high_watermark) == (1, 0), "the lock is not taken on the loop"
    syncs.run()
    assert log.high_watermark == 1
    assert answers_of(await answer)[0].error_code == ErrorCode.NONE
    disks.stop()


async def test_a_sync_that_fails_fails_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = SlowDisks(monkeypatch, flush_messages=1)
    disks.make_slow(1)
    answer = asyncio.ensure_future(disks.ask({1: batch("x")}))
    await disks.turn()
    disks.writers[1].run()
    await disks.turn()
    disks.syncers[1].run()
    _, tell = disks.syncers[1].queue.popleft()
    tell(OSError(5, "disk"))
    assert answers_of(await answer)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disks.stop()


# --- with a thread that hangs


async def test_a_write_that_hangs_stops_nothing_but_its_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log's lock is the thread's all the while. Were it asked for on the loop, this test would not end."""
    writers: list[DiskWorkers[Any]] = [DiskWorkers(asyncio.get_running_loop(), f"w{n}", threads=1) for n in range(2)]
    disks = SlowDisks(monkeypatch, threads=writers)
    hangs, go_on = threading.Event(), threading.Event()

    def write(path: str) -> None:
        if path.startswith("/b/") and path.endswith(".log"):
            hangs.set()
            assert go_on.wait(PATIENCE_S)

    quick, slow = disks.partitions
    append(slow.log, "before")
    disks.make_slow(1)
    disks.write = write  # type: ignore[method-assign]
    answers = [asyncio.ensure_future(disks.ask({1: batch(f"slow {n}")}, acks)) for n, acks in enumerate((1, 0, -1))]
    assert await asyncio.to_thread(hangs.wait, PATIENCE_S)
    # the loop turns (heartbeats need no more), the other directory takes records
    for n in range(5):
        assert answers_of(disks.ask({0: batch(f"quick {n}")}))[0].base_offset == n
    # the partition is read as far as it was written
    assert values_of(read_records(slow.log, 0)) == [b"before"]
    assert (slow.log.high_watermark, slow.log.last_stable_offset, slow.log.log_end_offset) == (1, 1, 1)
    assert slow.durable(1) is None
    slow.log.update_config(LogConfig(max_message_bytes=1234, segment_index_bytes=4096))
    assert slow.log.config.max_message_bytes == 1234
    assert not any(answer.done() for answer in answers)
    go_on.set()
    first, nothing, third = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE_S)
    assert answers_of(first)[0].base_offset == 1
    assert nothing is None
    assert answers_of(third)[0].base_offset == 3
    assert values_of(read_records(slow.log, 1)) == [b"slow 0", b"slow 1", b"slow 2"]
    disks.machine.time.advance(1)  # the settings follow
    answer = asyncio.ensure_future(disks.ask({1: batch("x" * 1300)}))
    assert answers_of(await answer)[0].error_code == ErrorCode.MESSAGE_TOO_LARGE
    for writer in writers:
        writer.close()
        writer.join()
    assert quick.log.log_end_offset == 5
    disks.stop()
