"""A failure made smaller: fewer clients, operations and troubles, and an order of threads in which that still fails.

A run without some of its parts is another order of threads too, so that one try says little: a list of parts counts as failing
when it
does so in one of a few schedules. What is found is replayed exactly by the line that is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from simulation.plan import Part, Plan

SCHEDULES = 4
MOST_TRIES = 80


class Ended(Protocol):
    """What a run came to."""

    @property
    def failure(self) -> str: ...


def smaller(
    plan: Plan, run: Callable[[Iterable[Plan]], Iterator[tuple[Plan, Ended]]], has_time: Callable[[], bool]
) -> str:
    """What to print. `run` runs plans, and yields what became of each as it is known; `plan` is known to fail."""
    from tidelog.testing.shrink import shrink  # which imports the daemon: after what is simulated was put in its place

    best, failure = plan, ""

    def fails(parts: Sequence[Part]) -> bool:
        nonlocal best, failure
        schedules = dict.fromkeys((best.schedule, *range(SCHEDULES)))
        tried = [plan.keeping(tuple(parts), schedule) for schedule in schedules]
        found = False
        for one, ended in run(tried):
            if ended.failure and not found:
                best, failure, found = one, ended.failure, True
        return found

    shrunk = shrink(plan.parts, fails, most_tries=MOST_TRIES, has_time=has_time, simpler=Part.simpler)
    lines = [
        f"--- smaller: {len(shrunk.items)} of {len(plan.parts)} parts, after {shrunk.tries} tries",
        *(f"    {part}" for part in best.parts),
        f"--- make simulate SEED={plan.seed} KEEP={best.keep or ','} SCHEDULE={best.schedule}",
    ]
    if failure:
        lines.append(failure)
    return "\n".join(lines)
