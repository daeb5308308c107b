"""Answers that are not taken: bounded in time and in memory, at the cost of those who do not read."""

from __future__ import annotations

import random
import time

from tidelog.broker.network.response_memory import ResponseMemoryBudget


class Client:
    def __init__(self, unsent_bytes: int) -> None:
        self.unsent_bytes = unsent_bytes
        self.send_progress = 0
        self.reason = ""

    def time_is_up(self, reason: str) -> None:
        self.reason = reason


def test_who_takes_nothing_for_so_long_is_closed() -> None:
    room = ResponseMemoryBudget(-1, 3000)
    stalled, slow = Client(10), Client(10)
    room.track(stalled)
    room.track(slow)
    for _ in range(10):
        slow.send_progress += 1
        room.tick(1000)
    assert stalled.reason.startswith("the client took nothing of its answer for 4000 ms (response.send.timeout.ms=3000")
    assert not slow.reason
    room.untrack(stalled)
    room.untrack(slow)
    room.untrack(slow)
    assert (room.held, len(room), room.timed_out) == (0, 0, 1)


def test_above_the_limit_those_go_that_stand_still_for_longest_and_never_the_newest() -> None:
    room = ResponseMemoryBudget(100, 60_000)
    still, moving, files = Client(40), Client(40), Client(0)
    room.track(moving)
    room.track(still)
    room.track(files)
    room.tick(1000)
    moving.send_progress += 1
    room.tick(1000)
    newest = Client(50)
    room.track(newest)
    assert still.reason == (
        "the client does not take its answer, and 130 bytes of answers wait (queued.max.response.bytes=100)"
    )
    assert not moving.reason
    assert not files.reason, "nothing is gained by closing it"
    assert (room.held, room.shed) == (90, 1)
    large = Client(500)
    room.track(large)
    assert moving.reason
    assert newest.reason
    assert not large.reason
    assert room.held == 500


def test_with_many_that_do_not_read_the_kernel_is_to_have_little_of_each() -> None:
    room = ResponseMemoryBudget(100 * 200 * 1024, 60_000)
    clients = [Client(0) for _ in range(101)]
    for client in clients[:-1]:
        room.track(client)
        assert not room.is_crowded(False)
    room.track(clients[-1])
    assert room.is_crowded(False)
    for client in clients[:50]:
        assert room.is_crowded(True)
        room.untrack(client)
    assert room.is_crowded(True)
    room.untrack(clients[50])
    assert not room.is_crowded(True), "half as many"
    unbounded = ResponseMemoryBudget(-1, 60_000)
    unbounded.track(clients[0])
    assert not unbounded.is_crowded(False)


def test_whoever_goes_has_stood_still_for_as_long_as_anybody_who_stays() -> None:
    chance = random.Random(5)
    for _ in range(30):
        room = ResponseMemoryBudget(200, 1 << 40)
        still: dict[Client, int] = {}  # by hand: milliseconds without progress
        seen: dict[Client, int] = {}
        for _ in range(300):
            action = chance.random()
            if action < 0.5:
                newest = Client(chance.choice([0, 10, 30, 70]))
                room.track(newest)
                gone = [client for client in still if client.reason]
                stays = [client for client in still if not client.reason and client.unsent_bytes]
                assert not newest.reason
                assert all(client.unsent_bytes for client in gone), "nothing is gained by closing it"
                assert not gone or not stays or min(still[one] for one in gone) >= max(still[one] for one in stays)
                for client in gone:
                    del still[client]
                still[newest] = 0
                assert room.held == sum(client.unsent_bytes for client in still)
                assert room.held <= 200
            elif action < 0.7 and still:
                chance.choice(list(still)).send_progress += 1
            elif action < 0.8 and still:
                left = chance.choice(list(still))
                room.untrack(left)
                del still[left]
            else:
                moved = {client: client.send_progress for client in still}
                room.tick(100)
                for client, progress in moved.items():
                    still[client] = 0 if progress != seen.get(client, 0) else still[client] + 100
                seen = moved
        assert room.shed


def test_above_the_limit_one_more_costs_the_same_however_many_wait() -> None:
    def of_one_more(waiting: int) -> float:
        room = ResponseMemoryBudget(waiting * 10, 60_000)
        for _ in range(waiting):
            room.track(Client(10))
            room.track(Client(0))
        more = [Client(10) for _ in range(100)]
        began = time.thread_time()
        for client in more:
            room.track(client)
        assert room.shed == len(more)
        return time.thread_time() - began

    few, many = min(of_one_more(100) for _ in range(5)), min(of_one_more(10_000) for _ in range(5))
    assert many < 10 * few, "it was 100 times as much when they were sorted each time"
