"""One turn a round, in order, and none is lost."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.turns import Turns


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
    turns = Turns(loop.call_soon)  # type: ignore[arg-type]
    for name in "abc":
        turns.join(lambda name=name: seen.append(name))  # type: ignore[misc]
    assert not seen, "the sockets are looked at first"
    for count in (1, 2, 3):
        loop.round()
        assert "".join(seen) == "abc"[:count]
    loop.round()
    assert (len(turns), turns.taken, loop.soon) == (0, 3, [])


def test_who_comes_again_stands_at_the_end() -> None:
    loop, seen = Loop(), list[str]()
    turns = Turns(loop.call_soon)  # type: ignore[arg-type]

    def again() -> None:
        seen.append("a")
        if len(seen) < 4:
            turns.join(again)

    turns.join(again)
    turns.join(lambda: seen.append("b"))
    for _ in range(5):
        loop.round()
    assert "".join(seen) == "abaa"


def test_places_that_were_given_up_take_no_round() -> None:
    loop, seen = Loop(), list[str]()
    turns = Turns(loop.call_soon)  # type: ignore[arg-type]
    gone = [turns.join(lambda: seen.append("gone")) for _ in range(3)]
    turns.join(lambda: seen.append("here"))
    for turn in gone:
        turn.cancel()
    assert gone[0].when() == 0
    loop.round()
    assert (seen, turns.taken) == (["here"], 1)
