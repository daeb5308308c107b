"""Threads that are switched between two lines of chosen modules: for races of plain assignments, which no lock or call is
between.

CPython may give the interpreter to another thread after any call and at any jump back, so that whoever publishes a watermark
one line before the bytes can be seen there. `sys.settrace` tells of each line; a run with it costs about twice as much, so
that few
runs have it, each in few modules (`Plan.rooms`). Compiled modules have no lines, and are alone from call to call.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import FrameType
from typing import Any

import tidelog.storage
from simulation.scheduler import Simulation

ROOT = Path(tidelog.storage.__file__).parents[1]


class Preemption:
    """What `Simulation.tracer` is: `on_call` is every traced thread's trace function. The thread with the baton.

    Attributes:
        switches: how often it has offered one.
    """

    def __init__(self, sim: Simulation, rooms: tuple[str, ...], chance: float) -> None:
        """`rooms`: folders below tidelog's; all modules below them. `chance`: of a switch point, at each line."""
        self._sim = sim
        self._prefixes = tuple(f"{ROOT / room}/" for room in rooms)
        self._rng = random.Random(f"lines {sim.seed} {sim.schedule}")
        self._known: dict[str, bool] = {}
        self._chance = chance
        self._left = self._next()
        self.switches = 0

    def _next(self) -> int:
        return 1 + int(self._rng.expovariate(self._chance))

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        path = frame.f_code.co_filename
        known = self._known.get(path)
        if known is None:
            known = self._known[path] = path.startswith(self._prefixes)
        return self._on_line if known else None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._left -= 1
            if self._left <= 0:
                self._left = self._next()
                sim = self._sim
                if Simulation.active is sim and not sim.current.killed and not sim.is_looking:
                    self.switches += 1
                    sim.switch(f"line {frame.f_lineno}")
        return self._on_line
