"""One turn a round, in order, and none is lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
from tidelog.broker.network.fair_queue import FairQueue, Ticket


class Loop:
    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    def round(self) -> None:
        calls, self.soon = self.soon, []
        for call in calls:
            call()


def test_each_round_serves_one_in_the_order_in_which_they_came() -> None:
    loop, seen = Loop(), list[str]()
    queue = FairQueue(loop.call_soon)  # type: ignore[arg-type]
    for name in "abc":
        queue.join("h", lambda name=name: seen.append(name))  # type: ignore[misc]
    assert not seen, "the sockets are looked at first"
    for count in (1, 2, 3):
        loop.round()
        assert "".join(seen) == "abc"[:count]
    loop.round()
    assert (len(queue), queue.taken, loop.soon) == (0, 3, [])


def test_who_comes_again_stands_at_the_end() -> None:
    loop, seen = Loop(), list[str]()
    queue = FairQueue(loop.call_soon)  # type: ignore[arg-type]

    def again() -> None:
        seen.append("a")
        if len(seen) < 4:
            queue.join("h", again)

    queue.join("h", again)
    queue.join("h", lambda: seen.append("b"))
    for _ in range(5):
        loop.round()
    assert "".join(seen) == "abaa"


def test_places_that_were_given_up_take_no_round() -> None:
    loop, seen = Loop(), list[str]()
    queue = FairQueue(loop.call_soon)  # type: ignore[arg-type]
    gone = [queue.join("h", lambda: seen.append("gone")) for _ in range(3)]
    queue.join("h", lambda: seen.append("here"))
    for ticket in gone:
        ticket.cancel()
    assert gone[0].when() == 0
    loop.round()
    assert (seen, queue.taken) == (["here"], 1)


def test_each_client_has_a_row_and_each_row_its_turn() -> None:
    loop, seen = Loop(), list[str]()
    queue = FairQueue(loop.call_soon)  # type: ignore[arg-type]
    for client, number in (("a", 4), ("b", 1), ("c", 2)):
        for n in range(number):
            queue.join(client, lambda client=client, n=n: seen.append(f"{client}{n}"))  # type: ignore[misc]
    assert len(queue) == 7
    for _ in range(4):
        loop.round()
    queue.join("d", lambda: seen.append("d0"))
    for _ in range(4):
        loop.round()
    assert seen == ["a0", "b0", "c0", "a1", "c1", "a2", "d0", "a3"]
    assert (len(queue), queue.has_row, queue.taken, loop.soon) == (0, False, 8, [])


def test_who_joins_in_its_turn_stands_behind_the_others_of_its_row() -> None:
    loop, seen = Loop(), list[str]()
    queue = FairQueue(loop.call_soon)  # type: ignore[arg-type]

    def first() -> None:
        seen.append("first")
        queue.join("a", lambda: seen.append("again"))

    queue.join("a", first)
    queue.join("a", lambda: seen.append("second"))
    queue.join("b", lambda: seen.append("b"))
    for _ in range(4):
        loop.round()
    assert seen == ["first", "b", "second", "again"]


def test_who_fails_in_its_turn_takes_nobody_elses() -> None:
    """A defect that one request met would stop all whose requests take long, for as long as the daemon runs."""
    loop, seen = Loop(), list[str]()
    queue = FairQueue(loop.call_soon)  # type: ignore[arg-type]

    def fail() -> None:
        raise ZeroDivisionError("a defect")

    queue.join("h", fail)
    queue.join("h", lambda: seen.append("same row"))
    queue.join("i", lambda: seen.append("other row"))
    with pytest.raises(ZeroDivisionError):
        loop.soon.pop()()
    for _ in range(3):
        loop.round()
    assert seen == ["other row", "same row"]
    assert (len(queue), loop.soon) == (0, [])
    queue.join("h", lambda: seen.append("later"))
    loop.round()
    assert seen[-1] == "later"


class Busy:
    """A loop with a thread's clock, in which light requests take their time in each round."""

    def __init__(self, light_ns: int, heavy_ns: int) -> None:
        self.soon: list[Callable[[], None]] = []
        self.now = self.served = self.light = self.heavy = 0
        self.light_ns, self.heavy_ns = light_ns, heavy_ns
        self.queue = FairQueue(self.soon.append, lambda: self.served, thread_now=lambda: self.now)  # type: ignore[arg-type]

    def ticket(self) -> None:
        self.now += self.heavy_ns
        self.heavy += self.heavy_ns
        self.queue.join("h", self.ticket)

    def round(self) -> None:
        if self.light_ns:
            self.now += self.light_ns
            self.light += self.light_ns
            self.served += 1
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()


@pytest.mark.parametrize("light_ns", [10_000, 200_000, 5_000_000])
@pytest.mark.parametrize("heavy_ns", [100_000, 1_000_000, 15_000_000])
def test_tickets_have_a_quarter_of_a_loop_that_others_use(light_ns: int, heavy_ns: int) -> None:
    busy = Busy(light_ns, heavy_ns)
    busy.queue.join("h", busy.ticket)
    while busy.now < 1_000 * max(light_ns, heavy_ns):
        busy.round()
    share = busy.heavy / busy.now
    assert share < 0.26
    assert share > (0.24 if light_ns < heavy_ns else 0.5 * heavy_ns / (light_ns + heavy_ns)), "and not much less"


def test_tickets_have_all_of_a_loop_that_nobody_else_uses() -> None:
    busy = Busy(0, 1_000_000)
    busy.queue.join("h", busy.ticket)
    for _ in range(100):
        busy.round()
    assert busy.heavy == busy.now == 100_000_000
    busy.light_ns = 1000
    busy.round()
    busy.light_ns = 0
    busy.round()
    busy.round()
    assert busy.heavy >= 101_000_000, "as soon as a round was idle"


def test_a_ticket_of_seconds_holds_back_the_others_no_longer_than_20_ms_would() -> None:
    busy = Busy(100_000, 3_000_000_000)
    busy.queue.join("h", busy.ticket)
    busy.round()
    assert busy.heavy
    rounds = 0
    busy.heavy = 0
    while not busy.heavy:
        busy.round()
        rounds += 1
    assert rounds == pytest.approx(600, abs=2)


def test_what_is_held_back_comes_one_by_one_until_it_is_held_back_again() -> None:
    loop, seen, held = Loop(), list[str](), {"a"}
    queue = FairQueue(loop.call_soon, held_back=held)  # type: ignore[arg-type]

    def begin(name: str) -> None:
        seen.append(name)
        if name == "a1":
            held.add("a")

    for name in ("a0", "a1", "a2"):
        queue.join_to_begin("a", lambda name=name: begin(name))  # type: ignore[misc]
    gone = queue.join_to_begin("a", lambda: seen.append("gone"))
    queue.join("a", lambda: seen.append("a chunk of what has begun"))
    queue.join_to_begin("b", lambda: seen.append("b0"))
    assert (len(queue), queue.put_off, queue.holds("a"), queue.holds("b")) == (6, 4, True, False)
    for _ in range(5):
        loop.round()
    assert seen == ["a chunk of what has begun", "b0"]
    assert queue.has_row, "new connections are to ask"
    queue.release("a")
    assert not loop.soon, "it is held back still"
    held.discard("a")
    queue.release("a")
    for _ in range(5):
        loop.round()
    assert seen[2:] == ["a0", "a1"]
    gone.cancel()
    held.discard("a")
    queue.release("a")
    for _ in range(5):
        loop.round()
    assert seen[4:] == ["a2"]
    assert (len(queue), queue.has_row, queue.holds("a"), loop.soon) == (0, False, False, [])


def test_whatever_comes_no_ticket_is_lost_and_none_begins_that_is_held_back() -> None:
    for seed in range(200):
        chance, loop, held = random.Random(seed), Loop(), set[str]()
        queue = FairQueue(loop.call_soon, held_back=held)  # type: ignore[arg-type]
        waiting: dict[int, Ticket] = {}

        for number in range(100):
            client = chance.choice("abc")
            match chance.randrange(6):
                case 0 | 1:
                    waiting[number] = queue.join_to_begin(client, partial(waiting.pop, number))
                case 2 if waiting:
                    waiting.pop(chance.choice(list(waiting))).cancel()
                case 3:
                    held.add(client)
                case 4:
                    held.discard(client)
                    queue.release(client)
                case _:
                    loop.round()
            assert len(loop.soon) <= 1
        for client in list(held):
            held.discard(client)
            queue.release(client)
        for _ in range(150):
            loop.round()
        assert (waiting, len(queue), loop.soon) == ({}, 0, [])
