"""One turn a round, in order, and none is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tidelog.broker.network.fair_queue import FairQueue


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
