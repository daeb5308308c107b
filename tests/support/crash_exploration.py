"""How far a scenario of the crash ring is looked into: so many inequivalent states, or all that there are.

A scenario is run several times, and what was recovered in one run is known in the next. The first run counts the moments. Each
later one asks every moment for its share of states that nobody has seen, simple ones first, until the scenario has as many
as it should, or every moment has shown all of its own. Scenarios do the same each time, so the runs agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from support.fake_states import Choice, Moment

_FRUITLESS = 3000
"""Choices one after the other that come to nothing new, after which a moment that can't be counted out is left."""
_RUNS = 12


class Figures(NamedTuple):
    """What was looked at, in one scenario."""

    moments: int
    choices: int
    """States that were made out, equivalent ones too."""
    states: int
    """Inequivalent ones, each of them recovered."""
    exhausted: int
    """Moments of which every state there is was looked at."""
    failures: int = 0
    """Input/output errors that were injected."""

    def plus(self, other: Figures) -> Figures:
        return Figures(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass
class Exploration:
    """States of one scenario that were recovered, over all its runs. `target`: inequivalent states to be recovered."""

    target: int
    most_in_a_run: int = 1 << 30
    """New states in one run: who judges them in its end has all of them in memory."""
    share: int = 0
    moments: int = 0
    choices: int = 0
    exhausted: int = 0
    _run: int = 0

    def __post_init__(self) -> None:
        self.outcomes: dict[Any, Any] = {}
        """By key of the state: what rings have found out in earlier runs."""
        self.settled: set[object] = set()
        """Recovered files from which all went well."""

    def runs(self) -> Iterator[int]:
        """Ends when there is nothing more to be done. Whoever iterates runs the scenario."""
        for self._run in range(_RUNS):
            self.moments = self.choices = self.exhausted = 0
            yield self._run
            missing = self.target - len(self.outcomes)
            left = self.moments - self.exhausted
            if missing <= 0 or (self._run and left <= 0):
                return
            self.share = -(-min(missing, self.most_in_a_run) // max(1, left))

    def choose(self, moment: Moment) -> Iterator[tuple[Choice, bytes]]:
        """The states of this moment to be judged, no two equivalent. The caller recovers those that `outcomes` lacks."""
        self.moments += 1
        seen: set[bytes] = set()
        new = fruitless = 0
        for choice in moment.all_choices(self.moments):
            key = moment.key(choice)
            self.choices += 1
            if key in seen:
                fruitless += 1
            else:
                seen.add(key)
                is_new = key not in self.outcomes
                if is_new and new >= self.share and len(seen) > 2:
                    return
                new += is_new
                fruitless = 0 if is_new else fruitless + 1
                yield choice, key
            if fruitless >= _FRUITLESS and not moment.is_counted_out:
                return
        self.exhausted += 1

    def met_one_state(self) -> None:
        """A moment that leaves nothing undecided: `kill -9`."""
        self.moments += 1
        self.choices += 1
        self.exhausted += 1

    def figures(self) -> Figures:
        """Figures of the last run."""
        return Figures(self.moments, self.choices, len(self.outcomes), self.exhausted)
