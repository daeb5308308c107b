"""Cold reads: one at a time on each disk, a bounded part of its time while others write, and none is lost."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

import pytest
from tidelog.broker.network.cold_reads import (
    LEAST_BYTES,
    LONG_S,
    LONGEST_PAUSE_S,
    MOST_BYTES,
    THREADS,
    WRITTEN_S,
    ColdReads,
)


class World:
    """A clock, a loop's timers, and disks that take their time: what is due happens in `run`."""

    def __init__(self, percent: int) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self.speed = 250e6
        self.delay_s = 0.0
        self.busy = self.most_busy = 0
        self.busy_s = 0.0
        self.read_s: list[float] = []
        self.closed = 0
        self.written = 0
        self.reads = ColdReads(
            self,  # type: ignore[arg-type]
            percent,
            threads_of=lambda _, device: Disk(self, device),
            device_of=lambda file: file.device,  # type: ignore[attr-defined]
            clock=lambda: self.now,
        )
        self.reads.written = lambda: self.written

    def at(self, when: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (when, self._count, call))

    def call_later(self, delay: float, call: Callable[..., None], *args: Any) -> Any:
        handle = Handle()
        self.at(self.now + delay, lambda: None if handle.cancelled else call(*args))
        return handle

    def run(self, until: float = 1e9) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, call = heapq.heappop(self._due)
            call()


class Handle:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Disk:
    def __init__(self, world: World, device: int) -> None:
        self.world, self.device = world, device

    def submit(self, task: Callable[[], float], done: Callable[[float, BaseException | None], None]) -> None:
        world = self.world
        file, position, count = task.args[1:]  # type: ignore[attr-defined]
        world.busy += 1
        world.most_busy = max(world.most_busy, world.busy)
        began = world.now
        if file.hangs:
            return

        def end() -> None:
            world.busy -= 1
            world.busy_s += world.now - began
            file.prefetched.append((position, count))
            file.release()
            if file.fails:
                done(0.0, OSError("rot"))
            else:
                world.read_s.append(world.now - began)
                done(world.now - began, None)

        world.at(world.now + world.delay_s + count / world.speed, end)

    def close(self) -> None:
        self.world.closed += 1


class File:
    def __init__(self, device: int = 1, hangs: bool = False, fails: bool = False) -> None:
        self.device, self.hangs, self.fails = device, hangs, fails
        self.leases = 0
        self.prefetched: list[tuple[int, int]] = []

    def retain(self) -> File:
        self.leases += 1
        return self

    def release(self) -> None:
        self.leases -= 1


class Consumer:
    """Reads a file to its end, a fetch of 1 MiB after the other, and producers write meanwhile."""

    def __init__(self, world: World, size: int, file: File | None = None, writes: bool = True) -> None:
        self.world, self.size, self.file, self.writes = world, size, file or File(), writes
        self.position = 0
        self.ended_at = 0.0
        self.sizes: list[int] = []
        self.ask()

    def ask(self) -> None:
        self.world.written += self.writes
        count = min(1 << 20, self.size - self.position)
        self.world.reads.read(self.file, self.position, count, self.done)  # type: ignore[arg-type]

    def done(self, count: int, error: BaseException | None) -> None:
        assert error is None
        self.sizes.append(count)
        self.position += count
        if self.position < self.size:
            self.ask()
        else:
            self.ended_at = self.world.now


@pytest.mark.parametrize("percent", [10, 50, 90])
@pytest.mark.parametrize("consumers", [1, 20])
def test_while_producers_write_a_disk_is_busy_with_cold_reads_for_its_part_of_the_time(
    percent: int, consumers: int
) -> None:
    chance = random.Random(percent)
    world = World(percent)
    all_of_them = [Consumer(world, 20 << 20) for _ in range(consumers)]
    while world._due:
        world.speed = chance.choice([50e6, 250e6, 2e9])
        world.delay_s = chance.choice([0.0, 0.0, 0.003, 0.05])
        world.run(world._due[0][0])
    assert all(one.position == one.size for one in all_of_them)
    assert world.most_busy == 1
    share = world.busy_s / (world.now or 1)
    assert share == pytest.approx(percent / 100, rel=0.1)
    assert world.reads.read_s == pytest.approx(world.busy_s)
    assert world.reads.read_bytes == consumers * (20 << 20)
    assert all(one.file.leases == 0 for one in all_of_them)
    assert world.reads.paused_s == pytest.approx(world.busy_s * (100 - percent) / percent, rel=0.1)


def test_where_nobody_writes_or_catching_up_goes_first_there_are_no_pauses() -> None:
    world = World(50)
    world.reads._seen = world.written = 1
    alone = Consumer(world, 50 << 20, writes=False)
    world.run()
    assert alone.ended_at == pytest.approx(world.busy_s)
    first = World(100)
    all_of_them = [Consumer(first, 5 << 20) for _ in range(10)]
    first.run()
    assert (first.most_busy, first.reads.paused_s) == (THREADS, 0.0)
    assert all(set(one.sizes) == {1 << 20} for one in all_of_them)


def test_pauses_end_a_while_after_the_last_produce() -> None:
    world = World(50)
    one = Consumer(world, 2000 << 20)
    one.writes = False
    world.run(WRITTEN_S / 2)
    assert world.reads.paused_s == pytest.approx(world.reads.read_s, rel=0.05)
    world.run()
    assert world.reads.paused_s < WRITTEN_S


def test_a_read_is_as_large_as_the_disk_reads_in_some_milliseconds() -> None:
    world = World(50)
    world.speed, world.delay_s = 20e6, 0.0
    slow = Consumer(world, 20 << 20)
    world.run()
    assert slow.sizes[0] == MOST_BYTES
    assert min(slow.sizes) >= LEAST_BYTES
    assert max(world.read_s[5:]) <= 2 * LONG_S
    world.speed = 1e9
    quick = Consumer(world, 20 << 20)
    world.run()
    assert max(quick.sizes) == MOST_BYTES


def test_a_disk_that_hangs_holds_up_its_own_readers_only() -> None:
    world = World(50)
    world.reads.read(File(1, hangs=True), 0, 1000, lambda *_: None)  # type: ignore[arg-type]
    behind, other = Consumer(world, 1 << 20, File(1)), Consumer(world, 30 << 20, File(2))
    world.run()
    assert (behind.position, other.position) == (0, 30 << 20)
    assert len(world.reads) == 1


def test_the_pause_after_a_read_that_took_for_ever_has_an_end() -> None:
    world = World(1)
    world.delay_s = 60.0
    Consumer(world, 2 << 20)
    world.run()
    assert world.reads.paused_s == pytest.approx(LONGEST_PAUSE_S * world.reads.reads)


def test_a_read_that_fails_is_told_and_the_next_one_goes_on() -> None:
    world, told = World(50), list[tuple[int, BaseException | None]]()
    bad = File(fails=True)
    world.reads.read(bad, 0, 10, lambda count, error: told.append((count, error)))  # type: ignore[arg-type]
    good = Consumer(world, 3 << 20)
    world.run()
    assert isinstance(told[0][1], OSError)
    assert (good.position, bad.leases) == (3 << 20, 0)


def test_after_the_end_nobody_is_told_and_every_file_is_given_back() -> None:
    world, told = World(50), list[int]()
    files = [File(number % 2) for number in range(6)]
    for file in files:
        world.reads.read(file, 0, 1 << 20, lambda count, _: told.append(count))  # type: ignore[arg-type]
    world.reads.close()
    world.run()
    assert told == []
    assert all(file.leases == 0 for file in files)
    assert (len(world.reads), world.closed) == (0, 2)


def test_a_reader_who_takes_little_waits_for_one_read_of_each_other_one() -> None:
    world = World(50)
    for _ in range(8):
        Consumer(world, 1000 << 20)
    world.run(0.2)
    small = Consumer(world, 4096)
    began = world.now
    world.run(began + 1.0)
    assert small.ended_at - began < 9 * 2 * 1.2 * MOST_BYTES / world.speed
