"""The shortest list that still fails: delta debugging over a list of anything, by a predicate.

Pure: it knows neither rules nor brokers, reads no clock of its own and draws no random numbers, so that it serves the
exploration of clients' tests and any other search that ends with a list of causes. The method is Zeller and Hildebrandt's
(«Simplifying and isolating failure-inducing input», 2002): halves first, then their complements, then finer parts, down to
single items; the result is 1-minimal when the bounds allow, i.e. no single item of it can be left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Shrunk(Generic[T]):
    """Result of `shrink`.

    Attributes:
        items: the shortest list found that fails. The given one if none of its parts did.
        tries: how many lists were tried.
        is_minimal: False if a bound ended the search, so that a shorter list may fail too.
    """

    items: tuple[T, ...]
    tries: int
    is_minimal: bool


def shrink(
    items: Sequence[T],
    fails: Callable[[Sequence[T]], bool],
    *,
    most_tries: int = 200,
    has_time: Callable[[], bool] = lambda: True,
    simpler: Callable[[T], Iterable[T]] = lambda _: (),
) -> Shrunk[T]:
    """Find a short part of `items` that fails, in the order of `items`; then make single items simpler.

    `fails` runs the experiment with a part of the list. It is not asked about the whole list, which is known to fail, nor
    twice about one part; parts that cannot be decided count as passed. `simpler` names for an item those to try in its
    place, the simplest first. The search ends after `most_tries` experiments or when `has_time` says False. Raises what
    `fails` raises.
    """
    search = _Search(fails, most_tries, has_time)
    kept = search.smallest_part(tuple(items))
    kept = search.simplified(kept, simpler)
    return Shrunk(kept, search.tries, not search.is_over)


class _Search(Generic[T]):
    """Experiments of one `shrink`, and what they may still cost."""

    def __init__(self, fails: Callable[[Sequence[T]], bool], most_tries: int, has_time: Callable[[], bool]) -> None:
        self._fails = fails
        self._most = most_tries
        self._has_time = has_time
        self.tries = 0
        self.is_over = False

    def fails(self, part: tuple[T, ...]) -> bool:
        """False without an experiment once a bound is reached."""
        if self.is_over or self.tries >= self._most or not self._has_time():
            self.is_over = True
            return False
        self.tries += 1
        return self._fails(part)

    def smallest_part(self, items: tuple[T, ...]) -> tuple[T, ...]:
        """ddmin. The tried parts are remembered by positions: items need be neither hashable nor different."""
        kept = tuple(range(len(items)))
        if not kept:
            return items
        tried = {kept}

        def still_fails(part: tuple[int, ...]) -> bool:
            if part in tried:
                return False
            tried.add(part)
            return self.fails(tuple(items[index] for index in part))

        if still_fails(()):  # it fails by itself: nothing in the list is to blame
            return ()
        pieces = 2
        while len(kept) > 1 and not self.is_over:
            parts = _split(kept, pieces)
            smaller = next((part for part in parts if still_fails(part)), None)
            if smaller is not None:
                kept, pieces = smaller, 2
                continue
            rests = (tuple(index for index in kept if index not in part) for part in parts)
            smaller = next((rest for rest in rests if still_fails(rest)), None)
            if smaller is not None:
                kept, pieces = smaller, max(pieces - 1, 2)
            elif pieces < len(kept):
                pieces = min(2 * pieces, len(kept))
            else:
                break
        return tuple(items[index] for index in kept)

    def simplified(self, items: tuple[T, ...], simpler: Callable[[T], Iterable[T]]) -> tuple[T, ...]:
        """Each item replaced by the first simpler one with which the list still fails, as long as there is one."""
        for position in range(len(items)):
            while not self.is_over:
                lists = ((*items[:position], other, *items[position + 1 :]) for other in simpler(items[position]))
                found = next((candidate for candidate in lists if self.fails(candidate)), None)
                if found is None:
                    break
                items = found
        return items


def _split(items: tuple[int, ...], pieces: int) -> list[tuple[int, ...]]:
    """So many parts of nearly the same length, none empty, in order. `pieces` is at most the number of items."""
    ends = [len(items) * number // pieces for number in range(pieces + 1)]
    return [items[start:end] for start, end in itertools.pairwise(ends)]
