"""Answers that are not taken: bounded in time and in memory, at the cost of those who do not read."""

from __future__ import annotations

import gc
import random
import time

from tidelog.broker.network.response_memory import LEAST_CHARGE, OLD_MS, STILL_MS, ResponseMemoryBudget


class Client:
    def __init__(self, unsent_bytes: int, client: str = "User:a") -> None:
        self.unsent_bytes = unsent_bytes
        self.client = client
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
        gc.collect()
        gc.disable()  # a collection walks over all who wait
        try:
            began = time.thread_time()
            for client in more:
                room.track(client)
            return time.thread_time() - began
        finally:
            gc.enable()
            assert room.shed == len(more)

    few, many = min(of_one_more(100) for _ in range(5)), min(of_one_more(10_000) for _ in range(5))
    assert many < 30 * few, "it was 100 times as much when they were sorted each time"


def test_a_client_above_its_bound_pays_itself_however_many_connections_it_has() -> None:
    room = ResponseMemoryBudget(-1, 60_000, client_limit=100_000)
    others = [Client(60_000, "User:b"), Client(30_000, "User:b")]
    for other in others:
        room.track(other)
    mine = [Client(40_000) for _ in range(5)]
    for client in mine:
        room.track(client)
        assert not client.reason, "never the newest"
    assert [bool(client.reason) for client in mine] == [True, True, True, False, False]
    assert mine[0].reason == (
        "the client does not take its answer, and 120000 bytes of answers to User:a wait "
        "(queued.max.response.bytes.per.client=100000)"
    )
    assert not any(other.reason for other in others)
    assert (room.client_shed, room.shed, room.held) == (3, 0, 170_000)
    for client in (*mine, *others):
        room.untrack(client)
    assert (room.held, room.held_back) == (0, set())


def test_many_small_answers_count_too_and_slices_of_files_do_not() -> None:
    room = ResponseMemoryBudget(-1, 60_000, client_limit=10 * LEAST_CHARGE)
    small, files = [Client(1) for _ in range(12)], [Client(0) for _ in range(50)]
    for client in (*files, *small):
        room.track(client)
    assert [bool(client.reason) for client in small] == [True] * 2 + [False] * 10
    assert not any(client.reason for client in files)


def test_from_half_of_its_bound_a_client_is_held_back_until_it_has_taken_some() -> None:
    room = ResponseMemoryBudget(-1, 60_000, client_limit=100_000)
    released: list[str] = []
    room.on_released = released.append
    one, two, other = Client(30_000), Client(30_000), Client(50_000, "User:b")
    room.track(other)
    room.track(one)
    assert room.held_back == set()
    room.track(two)
    assert room.held_back == {"User:a"}
    room.untrack(one)
    assert (room.held_back, released) == (set(), ["User:a"])
    room.track(one)
    room.set_client_limit(1_000_000)
    assert (room.held_back, released) == (set(), ["User:a", "User:a"])
    room.set_client_limit(50_000)
    assert room.held_back == {"User:a", "User:b"}


def test_who_keeps_an_answer_while_others_of_its_client_wait_is_closed_soon() -> None:
    """Else a new connection from the same address would wait as long as the other takes nothing, or next to nothing."""
    room = ResponseMemoryBudget(-1, 10 * OLD_MS, client_limit=100_000)
    waits = False
    room.is_waited_for = lambda client: waits and client == "User:a"
    still, dripping, reading, other = Client(40_000), Client(40_000), Client(20_000), Client(90_000, "User:b")
    for client in (other, still, dripping, reading):
        room.track(client)
    assert room.held_back == {"User:a", "User:b"}
    room.tick(STILL_MS)
    assert not still.reason, "nobody waits"
    waits = True
    for _ in range(OLD_MS // 1000 - STILL_MS // 1000):
        assert not dripping.reason
        dripping.send_progress += 1
        reading.send_progress += 1
        room.untrack(reading)
        room.track(reading)  # the next answer
        room.tick(1000)
        assert still.reason
    assert "while other requests of User:a wait for room" in still.reason
    assert dripping.reason, "an answer kept for half a minute"
    assert not reading.reason
    assert not other.reason


def test_what_each_client_keeps_is_what_was_counted_for_it_at_every_moment() -> None:
    chance = random.Random(11)
    for _ in range(30):
        limit = chance.choice([20_000, 60_000, 200_000])
        room = ResponseMemoryBudget(chance.choice([-1, 300_000]), 5000, limit)
        waited, released = {"a"}, set[str]()
        room.is_waited_for, room.on_released = waited.__contains__, released.add
        there: list[Client] = []
        for _ in range(200):
            before = set(room.held_back)
            released.clear()
            match chance.randrange(5):
                case 0 | 1:
                    newest = Client(chance.choice([0, 1, 5000, 15_000]), chance.choice("abc"))
                    room.track(newest)
                    there.append(newest)
                    assert not newest.reason
                case 2 if there:
                    room.untrack(there.pop(chance.randrange(len(there))))
                case 3 if there:
                    chance.choice(there).send_progress += 1
                case _:
                    room.tick(500)
            there = [client for client in there if not client.reason]
            kept = {
                name: sum(
                    max(client.unsent_bytes, LEAST_CHARGE)
                    for client in there
                    if client.client == name and client.unsent_bytes
                )
                for name in "abc"
            }
            assert room.held == sum(client.unsent_bytes for client in there)
            assert all(charge <= limit for charge in kept.values())
            assert room.held_back == {name for name, charge in kept.items() if 2 * charge > limit}
            assert released >= before - room.held_back
        for client in there:
            room.untrack(client)
        assert (room.held, room.held_back, len(room)) == (0, set(), 0)
