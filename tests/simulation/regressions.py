"""Seeds that found defects of the daemon, which are mended: each is run again (`test_simulation.py`).

A change of the simulator, or of what the daemon asks of its disk, makes another run of the same number: then a seed here is
one more
run, and what holds the defect is the test that is named beside it.
"""

from __future__ import annotations

from typing import NamedTuple


class Regression(NamedTuple):
    """`what`: the defect, and the test that was written for it."""

    seed: int
    what: str
    keep: str = ""
    schedule: int = 0

    def __str__(self) -> str:
        return f"seed {self.seed}"


REGRESSIONS: list[Regression] = [
    Regression(
        104,
        "test_an_index_that_a_full_disk_left_short_is_whole_after_a_start: the recovery point passed it",
        "0,3,6,7,8",
    ),
]
