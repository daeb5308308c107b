"""The memory of requests that are not whole: who gets it, who waits, and who goes."""

from __future__ import annotations

import random

import pytest
from tidelog.broker.network.request_memory import (
    POOLED_BUFFER_BYTES,
    SLOWEST_BYTES_PER_S,
    SMALL_BYTES,
    BufferPool,
    RequestMemoryBudget,
)

KIB = 1024


class Client:
    """A connection that asks for `wants` bytes when it is told that there may be room."""

    def __init__(self, room: RequestMemoryBudget, have: int = 0) -> None:
        self.room = room
        self.request_bytes = have
        self.buffer: bytearray | None = None
        self.wants = 0
        self.reason = ""

    def ask(self, capacity: int) -> bool:
        self.wants = capacity
        held = 0 if self.buffer is None else len(self.buffer)
        if not self.room.try_reserve(self, capacity, held, waits=True):
            return False
        self.room.buffers.give(self.buffer)
        self.buffer = self.room.buffers.take(capacity)
        self.room.track(self)
        return True

    def go_on_receiving(self) -> None:
        self.ask(self.wants)

    def time_is_up(self, reason: str) -> None:
        self.reason = reason
        self.leave()

    def leave(self) -> None:
        self.room.buffers.give(self.buffer)
        self.buffer = None
        self.room.untrack(self)


def test_pooled_buffers_fit_are_reused_and_bounded() -> None:
    pool = BufferPool()
    first = pool.take(100_000)
    assert len(first) >= 100_000
    pool.give(first)
    assert pool.take(70_000) is first, "131,072 serves both"
    assert pool.take(70_000) is not first
    assert pool.lent == 2 * 131_072
    given = {id(buffer): buffer for buffer in (bytearray(4 << 20) for _ in range(10))}
    for buffer in given.values():
        pool.give(buffer)
    kept = sum(len(buffer) for buffer in (pool.take(4 << 20) for _ in given) if id(buffer) in given)
    assert kept == POOLED_BUFFER_BYTES
    pool.give(None)


def test_above_the_limit_others_wait_in_their_order_and_the_oldest_goes_on() -> None:
    room = RequestMemoryBudget(256 * KIB, 1000)
    first, second, third, fourth = (Client(room) for _ in range(4))
    assert first.ask(64 * KIB)
    assert second.ask(128 * KIB)
    assert not third.ask(128 * KIB)
    assert not fourth.ask(64 * KIB), "it would fit, but others wait"
    assert first.ask(256 * KIB), "the one that began first gets what it needs"
    assert room.buffers.lent == 384 * KIB
    assert (room.waits, room.waiting) == (2, 2)
    assert Client(room).ask(SMALL_BYTES), "small requests never wait"
    room.wake_waiters()
    assert room.waits == 2, "asking again is no other wait"
    first.leave()
    room.wake_waiters()
    assert third.buffer is None, "the second is the oldest now, and 144 + 128 KiB are too much"
    second.leave()
    room.wake_waiters()
    assert third.buffer is not None
    assert fourth.buffer is not None
    assert room.waiting == 0


@pytest.mark.parametrize("seed", range(20))
def test_whoever_comes_all_get_through_and_memory_stays_within_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    largest, limit = 256 * KIB, 512 * KIB
    room = RequestMemoryBudget(limit, 1000)
    clients = [Client(room) for _ in range(40)]
    left = {client: rng.choice([8, 16, 100, 256]) * KIB for client in clients}
    for client in clients:
        assert client.ask(4 * KIB)
    while left:
        ready = [c for c in left if c.buffer is not None and len(c.buffer) >= c.wants]
        assert ready, "somebody can always go on"
        client = rng.choice(ready)
        assert client.buffer is not None
        if len(client.buffer) >= left[client]:
            del left[client]
            client.leave()
            room.wake_waiters()
        else:
            client.ask(min(2 * len(client.buffer), largest))
        assert room.buffers.lent <= limit + largest + SMALL_BYTES * len(clients)
    assert room.buffers.lent == 0
    assert room.waits > 0


def test_a_request_has_its_time_and_more_for_what_has_come() -> None:
    room = RequestMemoryBudget(-1, 5000)
    stalled, steady = Client(room, 4), Client(room, 4)
    room.track(stalled)
    room.track(steady)
    for _ in range(5):
        steady.request_bytes += 2 * SLOWEST_BYTES_PER_S
        room.tick(1000)
    assert not stalled.reason
    room.tick(1000)
    assert stalled.reason == (
        "4 bytes of a request came in 6000 ms (request.receive.timeout.ms=5000, and a second more for each 16384 bytes)"
    )
    for _ in range(9):
        room.tick(1000)
    assert not steady.reason, "ten seconds' worth of bytes came"
    room.tick(1000)
    assert steady.reason
    assert room.timed_out == 2
    assert len(room) == 0


def test_a_byte_now_and_then_buys_no_time() -> None:
    room = RequestMemoryBudget(-1, 5000)
    dripping = Client(room)
    room.track(dripping)
    for _ in range(6):
        dripping.request_bytes += 1
        room.track(dripping)
        room.tick(1000)
    assert dripping.reason


def test_while_others_wait_the_slow_ones_go() -> None:
    room = RequestMemoryBudget(136 * KIB, 60_000)
    slow, small, quick, waiting = Client(room, 40 * KIB), Client(room, 10), Client(room, 4000 * KIB), Client(room, 1)
    assert slow.ask(64 * KIB)
    assert small.ask(4 * KIB)
    assert quick.ask(60 * KIB)
    for _ in range(5):
        room.tick(1000)
    assert not slow.reason, "while there is memory, slow ones have their time"
    assert not waiting.ask(64 * KIB)
    room.tick(1000)
    assert slow.reason.endswith("while others waited for memory (queued.max.request.bytes)")
    assert waiting.buffer is not None
    assert not small.reason, "it holds next to nothing"
    assert not quick.reason
    assert not waiting.reason, "the time that it waited for us is not its own"
    assert room.shed == 1


def test_one_that_leaves_waits_no_more() -> None:
    room = RequestMemoryBudget(64 * KIB, 1000)
    first, second = Client(room), Client(room)
    assert first.ask(64 * KIB)
    assert second.ask(4 * KIB)
    assert not second.ask(64 * KIB)
    assert not room.try_reserve(second, 64 * KIB, 4 * KIB, waits=False)
    second.leave()
    assert room.waiting == 0


def test_without_a_limit_nothing_is_ever_scarce() -> None:
    room = RequestMemoryBudget(-1, 1000)
    assert all(Client(room).ask(1 << 20) for _ in range(20))
    assert not room.scarce
    room.limit = 64 << 20
    assert room.scarce


def test_of_very_many_that_wait_each_may_go_at_no_cost() -> None:
    """Each looked for itself among the others: ten thousand that left together held the loop for a second."""

    class Counted(Client):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return self is other

        __hash__ = Client.__hash__

    room = RequestMemoryBudget(64 * KIB, 30_000)
    clients = [Counted(room, 20 * KIB) for _ in range(1000)]
    for client in clients:
        room.track(client)
    room.buffers.lent = 100 * KIB
    for client in clients[1:]:
        assert not room.try_reserve(client, 50 * KIB, 0, waits=True)
    assert room.waiting == 999
    random.Random(1).shuffle(clients)
    for client in clients:
        room.untrack(client)
    assert (room.waiting, len(room)) == (0, 0)
    assert Counted.compared < 1000
