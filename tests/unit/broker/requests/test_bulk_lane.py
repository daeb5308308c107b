"""One request with very many names at a time; who waits is let in by size and by age, in turns."""

from __future__ import annotations

import asyncio
import gc
import random
import threading

from tidelog.broker.requests.bulk_lane import LEFT_IN_HEAP, BulkRequestLane, Permit


class Waiting:
    """Connections that come back with `try_acquire` when it is their turn, and leave at once."""

    def __init__(self, requests: BulkRequestLane) -> None:
        self.requests = requests
        self.served: list[str] = []
        self.held: list[Permit] = []

    def joins(self, name: str, size: int) -> None:
        def go_on() -> None:
            self.served.append(name)
            permit = self.requests.try_acquire()
            assert permit is not None, "whoever is called finds room"
            self.held.append(permit)

        self.requests.join(size, go_on)


async def test_one_is_let_in_and_the_next_when_it_leaves() -> None:
    requests = BulkRequestLane(asyncio.get_running_loop())
    first = requests.try_acquire()
    assert first is not None
    assert requests.try_acquire() is None
    waiting = Waiting(requests)
    waiting.joins("a", 1)
    assert (len(requests), waiting.served) == (1, [])
    first.release()
    assert (len(requests), waiting.served) == (0, ["a"])
    first.release()  # harmless: it is somebody else's now
    assert requests.try_acquire() is None
    waiting.held.pop().release()
    assert requests.taken == 2
    assert requests.try_acquire() is not None


async def test_the_smallest_and_the_oldest_go_on_in_turns() -> None:
    requests = BulkRequestLane(asyncio.get_running_loop())
    first = requests.try_acquire()
    assert first is not None
    waiting = Waiting(requests)
    for name, size in (("oldest", 900), ("big", 800), ("small", 10), ("smaller", 5), ("late", 700)):
        waiting.joins(name, size)
    first.release()
    while waiting.held:
        waiting.held.pop().release()
    assert waiting.served == ["smaller", "oldest", "small", "big", "late"]


async def test_the_next_one_is_found_among_many_as_by_a_look_at_all() -> None:
    requests = BulkRequestLane(asyncio.get_running_loop())
    chance = random.Random(7)
    first = requests.try_acquire()
    assert first is not None
    waiting = Waiting(requests)
    waiting.held.append(first)
    left: list[tuple[int, int]] = []  # (size, number), in the order in which they came
    expected: list[str] = []
    for number in range(2000):
        size = chance.randrange(50)
        left.append((size, number))
        waiting.joins(str(number), size)
        while len(left) > 1 and chance.random() < 0.5:
            following = min(left) if requests.taken % 2 else left[0]
            left.remove(following)
            expected.append(str(following[1]))
            waiting.held.pop().release()
            assert len(requests._by_size) <= 2 * len(requests) + LEFT_IN_HEAP + 4
    assert waiting.served == expected
    assert len(expected) > 1000


async def test_who_has_gone_or_does_not_come_back_is_passed_over() -> None:
    requests = BulkRequestLane(asyncio.get_running_loop())
    first = requests.try_acquire()
    assert first is not None
    called = []
    requests.join(1, lambda: called.append("muted"))
    requests.join(2, lambda: called.append("gone")).cancel()
    waiting = Waiting(requests)
    waiting.joins("there", 3)
    first.release()
    assert (called, waiting.served) == (["muted"], ["there"])


async def test_reading_is_done_by_another_thread() -> None:
    requests = BulkRequestLane(asyncio.get_running_loop())
    other = await requests.aside(threading.get_ident)
    assert other != threading.get_ident()
    assert await requests.aside(threading.get_ident) == other
    requests.close()


async def test_while_one_is_in_work_no_full_collection_holds_the_loop() -> None:
    before = gc.get_threshold()
    requests, others = (BulkRequestLane(asyncio.get_running_loop()) for _ in range(2))
    first, second = requests.try_acquire(), others.try_acquire()
    assert first is not None
    assert second is not None
    assert gc.get_threshold()[2] > 1_000_000
    first.release()
    assert gc.get_threshold()[2] > 1_000_000, "the other one is still in work"
    second.release()
    assert gc.get_threshold() == before
