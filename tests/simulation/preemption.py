"""Threads that are switched between two lines of chosen modules: for races of plain assignments, which no lock or call is
between.

CPython may give the interpreter to another thread after any call and at any jump back, so that whoever publishes a watermark
one line before the bytes can be seen there. `sys.settrace` tells of each line, and slows down all that a thread does while it
is on. So a thread is traced in stretches, from one switch point to the next, drawn at each: a line in a stretch is a switch
point the more often the fewer stretches there are, and each line is one with the same chance. Few runs have it, each in few
modules (`Plan.rooms`). Compiled modules have no lines, and are alone from call to call.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import tidelog.storage
from simulation.scheduler import SimTask, Simulation

ROOT = Path(tidelog.storage.__file__).parents[1]

LEAST_SHARE = 0.04
"""Of the stretches between switch points, in how many lines are traced, where lines are seldom switch points."""
_MOST_OF_STRETCH = 0.5
"""Chance of a switch point at each line of a stretch, above which more stretches are traced."""


class Preemption:
    """`at_point` is what `Simulation.at_point` is. The thread with the baton.

    Attributes:
        switches: how often it has offered one.
    """

    def __init__(self, sim: Simulation, rooms: tuple[str, ...], chance: float) -> None:
        """`rooms`: folders below tidelog's; all modules below them. `chance`: of a switch point, at each line."""
        self._sim = sim
        self._prefixes = tuple(f"{ROOT / room}/" for room in rooms)
        self._rng = random.Random(f"lines {sim.seed} {sim.schedule}")
        self._known: dict[str, bool] = {}
        self._share = min(max(LEAST_SHARE, chance / _MOST_OF_STRETCH), 1.0)
        self._chance = chance / self._share
        self._left = self._next()
        self.switches = 0

    def _next(self) -> int:
        return 1 + int(self._rng.expovariate(self._chance))

    def at_point(self, task: SimTask) -> None:
        """Decides whether the thread is traced from here to its next switch point, lines aside."""
        if task.where.startswith("line "):
            return
        if self._rng.random() < self._share:
            self._trace_from(sys._getframe(1))
        elif sys.gettrace() is not None:
            sys.settrace(None)

    def _trace_from(self, frame: FrameType | None) -> None:
        """Tells of the lines that the thread comes back to, and of those of all calls from now on."""
        while frame is not None:
            if self._is_known(frame):
                frame.f_trace = self._on_line
            frame = frame.f_back
        sys.settrace(self._on_call)

    def _is_known(self, frame: FrameType) -> bool:
        path = frame.f_code.co_filename
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = path.startswith(self._prefixes)
        return known

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._on_line if self._is_known(frame) else None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._left -= 1
            if self._left <= 0:
                self._left = self._next()
                sim = self._sim
                if Simulation.active is sim and not sim.current.killed:
                    self.switches += 1
                    sim.switch(f"line {frame.f_lineno}")
        return self._on_line
