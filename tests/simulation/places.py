"""Places: functions of the daemon that a seed draws, at whose statements a thread is held, or something happens.

Order of threads that is drawn at switch points is uniform over time: a thread comes to an append ten thousand times, and to
the lines around a rename twice. Places are drawn over the code instead, each function that a first run has come to as likely
as the root of its length, and those where nothing is shared less; in half of the runs all are of one module or folder
(`Plan.focus`). A drawn function has a call before each of its statements (its code is exchanged, as a planted defect's is,
`planted.plant`), so that others cost nothing: where a thread comes to one of them for the n-th time, `n` from 1 to hundreds,
it is held for a while of virtual time in which all others go on, or the daemon ends there, or somebody troubles it
(`chaos.py`). No place is chosen for what is wrong in it.

Which functions there are is found in the run that makes a process ready (`Collector`): the same in each process. A function is
drawn by a hash of its name, so that one more function in the daemon changes few draws.
"""

from __future__ import annotations

import ast
import builtins
import math
import random
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import compress
from operator import gt
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from simulation.scheduler import SECOND, WORLD, SimTask, Simulation

ROOT = Path(__file__).resolve().parents[2]
_CALL = "__place__"
#: Folders of the daemon whose functions are places, with weights: what is shared is in the first ones.
_ROOMS = (
    ("storage/scrub/", 0.2), ("storage/inspect/", 0.2), ("storage/", 1.0), ("cleaner/", 1.0), ("broker/partitions/", 1.0),
    ("broker/produce_fetch/", 1.0), ("broker/groups/", 0.6),
    ("broker/transactions/", 1.0), ("broker/coordinator/", 1.0), ("broker/share/", 1.0), ("broker/metadata/", 1.0),
    ("broker/network/", 1.0), ("broker/cleaning/", 1.0), ("broker/", 0.3),
)  # fmt: skip
#: Python calls these when nobody thinks of it.
_NEVER = ("__del__", "__hash__", "__eq__", "__repr__", "__lt__", "__str__")
LONGEST_S = 5.0
_LEAST_DIGITS = -4.0
MOST_HELD_S = 20.0
"""Of all threads together, in a life of the daemon: within that all that waits is still answered in time."""
HELD = "thread held at a place"
"""How a run counts that."""
MOST_TIMES = 8
_MOST = (1 << 64) - 1
_EXPECTED = 5.0


class Place(NamedTuple):
    """A function: the module's path below the repository, and its qualified name."""

    path: str
    qualname: str

    def __str__(self) -> str:
        return f"{self.path}:{self.qualname}"


class Known:
    """Functions that may be drawn, with weights.

    A draw is the first of exponential times, one for each function: SplitMix64 of its name's number and the text's, so that each
    bit of both makes a difference to each, and that one more function changes few draws. All numbers are mixed at once, in lanes
    of 128 bits of one integer, and a logarithm is taken of those alone that can be first: a run draws up to 60 times, of some
    1,800 functions.
    """

    def __init__(self, weights: Mapping[Place, float]) -> None:
        self._within: dict[str, Known] = {}
        self._places = list(weights)
        self._of_places = list(weights.values())
        self._numbers = sum(
            _number_of(f"{place.path} {place.qualname}") << 128 * lane for lane, place in enumerate(weights)
        )
        self._lanes = struct.Struct("<" + "Q8x" * len(weights))
        self._ones = sum(1 << 128 * lane for lane in range(len(weights)))
        self._soon = _EXPECTED / max(sum(weights.values()), 1e-9)
        """A time before which some are mostly there."""
        self._least = [int(_MOST * math.exp(-self._soon * weight) * (1 - 1e-9)) for weight in self._of_places]
        """A number below that is a later time."""

    def draw(self, text: str) -> Place | None:
        """The function that this text draws; None where none is known."""
        if not self._places:
            return None
        numbers = self._mixed(_number_of(text))
        lane, time = self._first(numbers, compress(range(len(numbers)), map(gt, numbers, self._least)))
        if time > self._soon:
            lane, _ = self._first(numbers, range(len(numbers)))
        return self._places[lane]

    def within(self, beginning: str) -> Known:
        """Those alone whose paths begin so: one module's, or a folder's."""
        found = self._within.get(beginning)
        if found is None:
            rows = zip(self._places, self._of_places, strict=True)
            found = Known({place: weight for place, weight in rows if place.path.startswith(beginning)})
            self._within[beginning] = found
        return found

    def _mixed(self, of_text: int) -> tuple[int, ...]:
        mask = _MOST * self._ones
        lanes = (self._numbers ^ of_text * self._ones) * 0xBF58476D1CE4E5B9 & mask
        lanes = (lanes ^ lanes >> 31 & mask) * 0x94D049BB133111EB & mask
        return self._lanes.unpack(lanes.to_bytes(self._lanes.size, "little"))

    def _first(self, numbers: tuple[int, ...], lanes: Iterable[int]) -> tuple[int, float]:
        times = ((-math.log((numbers[lane] + 1) / (_MOST + 1)) / self._of_places[lane], lane) for lane in lanes)
        time, lane = min(times, default=(math.inf, 0))
        return lane, time


class Collector:
    """Which functions of the daemon threads of a run come to. `at_point` is what `Simulation.at_point` is."""

    def __init__(self) -> None:
        self._sizes: dict[Place, int] = {}
        self._seen: dict[int, CodeType] = {}
        """By identity, which another one would have when it were gone."""

    def at_point(self, task: SimTask) -> None:
        """Looks at the calls of this thread from now on."""
        sys.setprofile(self._on_call)

    def _on_call(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or id(code) in self._seen:
            return
        self._seen[id(code)] = code
        path, name = code.co_filename, code.co_qualname
        if not path.startswith(f"{ROOT}/") or "<" in name or name.endswith(_NEVER):
            return
        place = Place(path[len(f"{ROOT}/") :], name)
        if _weight_of(place):
            self._sizes[place] = len(code.co_code)

    def keep(self) -> None:
        """These are the functions that runs of this process may draw."""
        global known
        sys.setprofile(None)
        known = Known({place: _weight_of(place) * math.sqrt(size) for place, size in sorted(self._sizes.items())})


def _weight_of(place: Place) -> float:
    return next((weight for room, weight in _ROOMS if place.path.startswith(room)), 0.0)


def _number_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


known = Known({})
"""Set by `Collector.keep`."""


def by_module(places: Iterable[Place]) -> dict[str, set[str]]:
    """Qualified names of functions, by the names of their modules."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for place in places:
        found[f"tidelog.{place.path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"].add(
            place.qualname
        )
    return found


def with_calls(tree: ast.Module, path: str) -> ast.Module:
    """The module, with a call before each statement of each function, which tells the outermost function's name."""
    below = str(Path(path).relative_to(ROOT))

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                _add_calls(child, f"{below}:{'.'.join((*names, child.name))}")
            elif isinstance(child, ast.ClassDef):
                visit(child, (*names, child.name))
            else:
                visit(child, names)

    visit(tree, ())
    return ast.fix_missing_locations(tree)


def _add_calls(function: ast.AST, name: str) -> None:
    for node in list(ast.walk(function)):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if (
                not isinstance(block, list)
                or not block
                or not isinstance(block[0], ast.stmt)
                or isinstance(node, ast.ClassDef)
            ):
                continue
            found: list[ast.stmt] = []
            for statement in block:
                is_plain = not isinstance(statement, ast.Global | ast.Nonlocal | ast.Pass) and not _is_text(statement)
                if is_plain:
                    call = ast.Expr(ast.Call(ast.Name(_CALL, ast.Load()), [ast.Constant(name)], []))
                    found.append(ast.copy_location(call, statement))
                found.append(statement)
            setattr(node, field, found)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def nothing_is_armed() -> None:
    """Functions with calls may run, before there are `Places`."""
    setattr(builtins, _CALL, lambda _name: None)


class Armed:
    """Something that happens when a thread of the daemon comes to a statement of a function for the so-manieth time.

    Attributes:
        left: how often it has still to come there; `happens` may set it anew.
        happens: in the thread that came there; may be a switch point, and may end the thread.
    """

    __slots__ = ("happens", "left")

    def __init__(self, left: int, happens: Callable[[Armed], object]) -> None:
        self.left = left
        self.happens = happens


class Places:
    """What is armed in a run."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._armed: dict[str, list[Armed]] = {}
        self._held_ns: dict[str, int] = {}
        setattr(builtins, _CALL, self._reached)

    def arm(self, place: Place, armed: Armed) -> None:
        self._armed.setdefault(str(place), []).append(armed)

    def disarm(self) -> None:
        """Nothing happens at any place from now on."""
        self._armed.clear()

    def _reached(self, name: str) -> None:
        """Called before each statement of a function that is a place."""
        armed = self._armed.get(name)
        if not armed:
            return
        sim = self._sim
        me = sim.current
        if Simulation.active is not sim or me.group == WORLD or me.killed or sim.is_looking:
            return
        for each in armed:
            each.left -= 1
            if each.left == 0:
                each.happens(each)
                if not self._armed:  # all was over while this thread was held
                    return

    def hold(self, seconds: float) -> None:
        """Holds this thread, which is the daemon's, unless its process was held for long enough."""
        sim = self._sim
        group = sim.current.group
        nanoseconds = int(seconds * SECOND)
        if self._held_ns.get(group, 0) + nanoseconds <= MOST_HELD_S * SECOND:
            self._held_ns[group] = self._held_ns.get(group, 0) + nanoseconds
            sim.counts[HELD] += 1
            sim.block("held at a place", nanoseconds)


def arm_hold(places: Places, place: Place, rng: random.Random) -> None:
    """Holds threads at that place, again and again."""
    times = rng.randrange(1, MOST_TIMES + 1)

    def happens(armed: Armed) -> None:
        nonlocal times
        times -= 1
        armed.left = count(rng) if times else 0
        places.hold(stretch(rng))

    places.arm(place, Armed(count(rng), happens))


def count(rng: random.Random) -> int:
    """The so-manieth time: mostly one of the first."""
    return int(10 ** (rng.random() * 2.3))


def stretch(rng: random.Random) -> float:
    """Seconds: a tenth of a millisecond as often as seconds."""
    return float(LONGEST_S * 10 ** (_LEAST_DIGITS * rng.random() * 1.2))
