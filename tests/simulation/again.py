"""One run again and again, with objects at other addresses each time: whether it is the same, and the first step that is not.

    make simulate SEED=7 AGAIN=20
    make simulate SEED=7 STEPS=/tmp/steps          of one run, for a comparison with one of another process, or machine

A run may hang on its number alone. What is in a set of objects stands there by their addresses, and those hang on when real
threads began and ended: nearly always the same, and so the same run, until a loaded machine has it otherwise. So free memory
is shuffled before each run but the first.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from simulation.plan import Plan
from simulation.scheduler import Simulation

SHOWN_BEFORE = 12
"""Steps that are shown before the first one that differs."""
_SMALL, _ALIGNED, _EACH = 512, 16, 2000
_HEADER = sys.getsizeof(b"")

_kept: list[object] = []
E = TypeVar("E")


def shuffle_memory(number: int) -> None:
    """Has the objects that this process makes from now on stand in another order than with another number. 0: does nothing."""
    if not number:
        return
    rng = random.Random(number)
    for size in range(48, _SMALL + 1, _ALIGNED):
        blocks = [bytes(size - _HEADER) for _ in range(_EACH)]
        rng.shuffle(blocks)
        _kept.extend(blocks[::2])


def write_steps(path: Path) -> None:
    """Has the run that this process makes write each of its steps there, as it is in the digest."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    Simulation.tell_steps = staticmethod(partial(os.write, descriptor))


def again(
    plan: Plan, times: int, directory: Path, run: Callable[[Iterable[Plan], Callable[[int], object]], Iterator[E]]
) -> tuple[list[E], str]:
    """What the runs came to, and what to print where they are not the same.

    `run` runs plans, and calls what it is given in each one's process, with its place among them. `directory` is for the steps.
    """

    def begin(number: int) -> None:
        shuffle_memory(number)
        write_steps(directory / str(number))

    ended = list(run([plan] * times, begin))
    first = (directory / "0").read_text().splitlines()
    for number in range(1, times):
        if told := first_difference(first, (directory / str(number)).read_text().splitlines()):
            return ended, f"run {number} is another one than run 0\n{told}"
    return ended, ""


def first_difference(one: list[str], other: list[str]) -> str:
    """The first line that differs, with some before it; empty where none does."""
    for number, (mine, theirs) in enumerate(zip_longest(one, other, fillvalue="(the end)")):
        if mine != theirs:
            before = [f"    {line}" for line in one[max(0, number - SHOWN_BEFORE) : number]]
            return "\n".join([*before, f"line {number + 1}: {mine}", f"or: {theirs}"])
    return ""
