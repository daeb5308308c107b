"""Cold reads: one at a time on each disk, a bounded part of its time while others write, and none is lost."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
from tidelog.broker.network.cold_reads import (
    FIRST_BYTES,
    LEAST_BYTES,
    LONG_S,
    LONGEST_PAUSE_S,
    MOST_AHEAD_BYTES,
    MOST_AHEAD_OF_ALL,
    MOST_BYTES,
    THREADS,
    WRITTEN_S,
    ColdReads,
)
from tidelog.broker.network.read_ahead import MOST_STREAMS
from tidelog.storage.exceptions import FileClosedError

PAGE = 4096


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
            file.release()
            if file.fails or position <= file.rots_at < position + count:
                done(0.0, OSError("rot"))
            else:
                world.read_s.append(world.now - began)
                file.prefetched.append((position, count))
                file.pages.update(range(position // PAGE, -(-(position + count) // PAGE)))
                done(world.now - began, None)

        world.at(world.now + world.delay_s + count / world.speed, end)

    def close(self) -> None:
        self.world.closed += 1


class File:
    def __init__(self, device: int = 1, hangs: bool = False, fails: bool = False) -> None:
        self.identity = (device, id(self))
        self.hangs, self.fails = hangs, fails
        self.rots_at = -1
        self.length = 0
        self.leases = 0
        self.is_open = True
        self.prefetched: list[tuple[int, int]] = []
        self.pages: set[int] = set()

    def retain(self) -> File:
        if not self.is_open:
            raise FileClosedError("closed")
        self.leases += 1
        return self

    def release(self) -> None:
        self.leases -= 1

    def size(self) -> int:
        return self.length

    def is_cached(self, position: int, length: int) -> bool:
        return self.pages.issuperset(range(position // PAGE, -(-(position + length) // PAGE)))


class Consumer:
    """Reads a file from a position to its end, a fetch of 1 MiB after the other, each sent in `take_s`; producers write
    meanwhile."""

    def __init__(
        self,
        world: World,
        size: int,
        file: File | None = None,
        writes: bool = True,
        take_s: float = 0.0,
        position: int = 0,
    ) -> None:
        self.world, self.size, self.file, self.writes = world, size, file or File(), writes
        self.file.length = max(self.file.length, size)
        self.take_s = take_s
        self.position = position
        self.ended_at = 0.0
        self.sizes: list[int] = []
        self.is_gone = False
        self.ask()

    def ask(self) -> None:
        self.world.written += self.writes
        while self.position < self.size and not self.is_gone:
            count = min(1 << 20, self.size - self.position)
            if not self.file.is_cached(self.position, count):
                there = self.world.reads.brought(self.file, self.position, count)  # type: ignore[arg-type]
                if not there:
                    self.world.reads.read(self.file, self.position, count, self.done)  # type: ignore[arg-type]
                    return
                count = there
            self.world.reads.passed(self.file, self.position, count)  # type: ignore[arg-type]
            self.position += count
            if self.take_s:
                self.world.at(self.world.now + self.take_s, self.ask)
                return
        self.ended_at = self.world.now

    def done(self, count: int, error: BaseException | None) -> None:
        assert error is None
        assert count > 0
        assert self.file.is_cached(self.position, count)
        self.sizes.append(count)
        self.position += count
        if self.take_s:
            self.world.at(self.world.now + self.take_s * count / (1 << 20), self.ask)
        else:
            self.ask()


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
    assert slow.sizes[0] == FIRST_BYTES
    assert min(slow.sizes) >= LEAST_BYTES
    assert max(world.read_s[5:]) <= 2 * LONG_S
    world = World(50)
    world.speed = 1e9
    quick = Consumer(world, 100 << 20, take_s=0.001, writes=False)
    world.run()
    assert max(count for _, count in quick.file.prefetched) == MOST_BYTES


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


@pytest.mark.parametrize(("percent", "writes"), [(100, True), (50, False)])
def test_the_disk_reads_on_while_a_slice_is_sent(percent: int, writes: bool) -> None:
    """Else it would take as long as both together."""
    world = World(percent)
    one = Consumer(world, 100 << 20, take_s=(1 << 20) / world.speed, writes=writes)
    world.run()
    assert one.position == one.size
    assert one.ended_at < 1.15 * world.busy_s
    assert world.reads.read_bytes == 100 << 20
    assert world.reads.ahead_bytes > 90 << 20


def test_of_a_read_that_is_made_ahead_nothing_is_read_twice() -> None:
    """Who asks for its pages while it is under way waits for its end."""
    world = World(50)
    world.delay_s = 0.01
    one = Consumer(world, 30 << 20, take_s=0.005, writes=False)
    world.run()
    assert one.position == one.size
    assert world.reads.read_bytes == 30 << 20
    assert world.reads.ahead_bytes > 0
    ends = sorted(one.file.prefetched)
    assert all(first[0] + first[1] == second[0] for first, second in itertools.pairwise(ends))


@pytest.mark.parametrize(("percent", "most"), [(50, 2 * MOST_BYTES), (100, 2 * MOST_AHEAD_BYTES)])
def test_for_one_who_goes_away_little_was_read_ahead(percent: int, most: int) -> None:
    world = World(percent)
    one = Consumer(world, 1000 << 20, take_s=0.001)
    world.run(0.05)
    one.is_gone = True
    world.run()
    assert 0 < world.reads.read_bytes - one.position <= most
    assert one.file.leases == 0


def test_for_very_many_readers_no_more_is_read_ahead_than_for_all_together_may_be() -> None:
    world = World(100)
    all_of_them = [Consumer(world, 1000 << 20, take_s=1000.0) for _ in range(2 * MOST_STREAMS)]
    world.run(900.0)  # each has its first slice, and is busy with it
    assert all(one.position == 1 << 20 for one in all_of_them)
    # The first readers had more before the others came.
    assert world.reads.ahead_bytes <= 2 * MOST_AHEAD_OF_ALL
    late = [Consumer(world, 1000 << 20, take_s=1000.0) for _ in range(MOST_STREAMS)]
    before = world.reads.ahead_bytes
    world.run(950.0)
    assert all(one.position == 1 << 20 for one in late)
    assert 0 < world.reads.ahead_bytes - before <= MOST_AHEAD_OF_ALL


def test_what_somebody_waits_for_is_read_before_what_nobody_has_asked_for() -> None:
    world = World(50)
    Consumer(world, 1000 << 20, take_s=0.02)
    world.run(0.0045)  # its first slice is read; the disk rests, and a read ahead waits
    other = Consumer(world, 1 << 20)
    world.run(0.2)
    assert world.reads.ahead_bytes > 0
    assert other.ended_at < 0.0045 + 3 * MOST_BYTES / world.speed


def test_a_read_ahead_that_fails_is_told_to_nobody_who_has_not_asked_for_what_is_lost() -> None:
    world, told = World(100), list[tuple[int, BaseException | None]]()
    file = File()
    file.rots_at = 3 << 20
    one = Consumer(world, 2 << 20, file)
    file.length = 100 << 20
    world.run()
    assert one.position == 2 << 20
    world.reads.read(file, 3 << 20, 10, lambda count, error: told.append((count, error)))  # type: ignore[arg-type]
    world.run()
    assert isinstance(told[0][1], OSError)
    assert (len(told), file.leases) == (1, 0)


@pytest.mark.parametrize("end", ["told", "failed", "forgotten", "closed"])
def test_a_file_that_was_opened_anew_while_it_is_read_ahead_has_its_own_lease(end: str) -> None:
    """A lease on the one was given back on the other: who sent from that one lost it, and this one stayed open for ever."""
    world, told = World(100), list[int]()
    one = Consumer(world, 100 << 20, take_s=0.001)
    anew = File()
    anew.identity, anew.pages, anew.length = one.file.identity, one.file.pages, one.size
    under_way: list[tuple[int, int]] = []
    for milliseconds in range(1, 1000):
        world.run(milliseconds / 1000)
        under_way = [
            (job.position, job.count)
            for device in world.reads._devices.values()
            for job in device.under_way
            if job.done is None
        ]
        if under_way:
            break
    one.is_gone = True
    ((position, count),) = under_way[:1]
    one.file.fails = end == "failed"
    forget = world.reads.read(anew, position, count, lambda count, error: told.append(count))  # type: ignore[arg-type]
    if end == "forgotten":
        forget()
    elif end == "closed":
        world.reads.close()
    world.run()
    assert len(told) == (end in ("told", "failed"))
    assert (one.file.leases, anew.leases) == (0, 0)


def test_for_a_file_that_nobody_has_open_any_more_nothing_is_read_ahead() -> None:
    world = World(50)
    one = Consumer(world, 100 << 20, take_s=0.001)
    one.file.is_open = False
    one.is_gone = True
    world.run()
    assert world.reads.read_bytes == 1 << 20


def test_of_a_reader_who_goes_away_while_he_waits_nothing_is_read() -> None:
    """The reads of connections that had gone stood before everybody else's, and kept their files open."""
    world, told = World(50), list[int]()
    hung, gone, other = File(hangs=True), File(), File(2)
    take_back_first = world.reads.read(hung, 0, 1000, lambda count, _: told.append(count))  # type: ignore[arg-type]
    takes = [
        world.reads.read(gone, place << 20, 1 << 20, lambda count, _: told.append(count))  # type: ignore[arg-type]
        for place in range(100)
    ]
    stays = world.reads.read(gone, 500 << 20, 10, lambda count, _: told.append(count))  # type: ignore[arg-type]
    assert (len(world.reads), gone.leases) == (101, 101)
    for take_back in (take_back_first, *takes, *takes):
        take_back()
    assert (len(world.reads), gone.leases, hung.leases) == (1, 1, 1)
    Consumer(world, 1 << 20, other)
    world.run()
    assert told == []
    stays()
    assert (len(world.reads), gone.leases) == (0, 0)


def test_who_goes_away_while_pages_are_read_ahead_is_not_told_and_others_are() -> None:
    world, told = World(100), list[int]()
    file = File()
    file.length = 100 << 20
    world.reads.read(file, 0, 1 << 20, lambda count, _: None)  # type: ignore[arg-type]
    world.run(1e-9 + (1 << 20) / world.speed)  # the next pages are being read
    takes = [
        world.reads.read(file, 1 << 20, 4096, lambda count, _, place=place: told.append(place))  # type: ignore[arg-type, misc]
        for place in range(3)
    ]
    takes[1]()
    takes[1]()
    world.run()
    takes[0]()
    assert (told, file.leases) == ([0, 2], 0)


def test_of_readers_that_are_forgotten_nothing_waits_to_be_read_ahead() -> None:
    """While others wait nothing is read ahead. The wish of each place that was ever read stayed, with the file open, and was read
    when they had gone."""
    world = World(100)
    files = [File() for _ in range(20)]
    for file in files:
        file.length = 1 << 40
    left = 2000

    def again(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left > 0:
            file = files[left % len(files)]
            world.reads.read(file, left * (50 << 20), 1 << 20, again)  # type: ignore[arg-type]

    for _ in range(3 * THREADS):
        again()
    while left > 0:
        world.run(world._due[0][0])
        (device,) = world.reads._devices.values()
        assert len(device.ahead) <= MOST_STREAMS
    world.run()
    assert world.reads.ahead_bytes <= MOST_AHEAD_OF_ALL
    assert all(file.leases == 0 for file in files)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_reads_what_where_has_it_all(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance.choice([20, 50, 100]))
    files = [File(number % 2) for number in range(4)]
    for file in files:
        file.length = 30 << 20
    all_of_them = [
        Consumer(
            world,
            chance.randrange(1, 30 << 20),
            chance.choice(files),
            writes=chance.random() < 0.5,
            take_s=chance.choice([0.0, 0.001, 0.02]),
            position=chance.choice([0, 0, 1 << 20, 5_000_000]),
        )
        for _ in range(chance.choice([1, 3, 30]))
    ]
    while world._due:
        world.speed = chance.choice([50e6, 250e6, 2e9])
        if chance.random() < 0.02:
            for file in files:  # others want the memory
                file.pages.clear()
        world.run(world._due[0][0])
    assert all(one.position >= one.size for one in all_of_them)
    assert all(file.leases == 0 for file in files)
    assert len(world.reads) == 0
