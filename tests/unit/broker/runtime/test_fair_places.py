"""Who works, who waits, and in which order: rows of clients, and so many places."""

from __future__ import annotations

import asyncio

import pytest
from support.patience import PATIENCE_S
from tidelog.broker.runtime.fair_places import FairPlaces


class Work:
    """Comes in its turn, unless it was given up."""

    def __init__(self, places: FairPlaces) -> None:
        self.places = places
        self.came: list[str] = []
        self.gone: set[str] = set()

    def join(self, *names: str, first: bool = False) -> None:
        """In the row of each name's first letter."""
        for name in names:
            self.places.join(name[0], lambda name=name: self._come(name), first=first)  # type: ignore[misc]

    def _come(self, name: str) -> bool:
        if name in self.gone:
            return False
        self.came.append(name)
        return True


def test_rows_take_turns_and_within_one_the_first_is_first() -> None:
    work = Work(places := FairPlaces(2))
    work.join("a1", "a2", "a3", "a4", "b1", "c1", "b2")
    assert work.came == ["a1", "a2"]
    assert places.waiting == 5
    for _ in range(5):
        places.leave()
    assert work.came == ["a1", "a2", "a3", "b1", "c1", "a4", "b2"]
    assert places.waiting == 0


def test_who_comes_again_is_before_all_else_of_its_row_and_not_of_others() -> None:
    work = Work(places := FairPlaces(1))
    work.join("a1", "b1", "a2", "b2")
    work.join("a0", first=True)
    for _ in range(4):
        places.leave()
    assert work.came == ["a1", "b1", "a0", "b2", "a2"]


def test_who_has_gone_takes_no_place() -> None:
    work = Work(places := FairPlaces(1))
    work.gone.update(("a1", "b1", "c1"))
    work.join("a1", "a2", "b1", "c1", "c2")
    places.leave()
    assert work.came == ["a2", "c2"]
    assert places.waiting == 0
    places.leave()
    work.join("d1")
    assert work.came[-1] == "d1"


async def test_who_leaves_while_it_waits_or_as_its_place_comes_holds_nobody_up() -> None:
    places = FairPlaces(1)
    await places.enter("a")
    waiting, comes = asyncio.ensure_future(places.enter("a")), asyncio.ensure_future(places.enter("b"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    places.leave()
    comes.cancel()  # the place is its, and it does not know yet
    with pytest.raises(asyncio.CancelledError):
        await comes
    async with asyncio.timeout(PATIENCE_S), places.place("c"):
        pass


async def test_what_fails_gives_its_place_up() -> None:
    places = FairPlaces(1)
    with pytest.raises(ValueError, match="x"):
        async with places.place("a"):
            raise ValueError("x")
    await places.enter("b")
