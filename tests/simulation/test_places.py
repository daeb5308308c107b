"""Places: functions of the daemon that a seed draws, and what happens where a thread comes to one of their statements."""

from __future__ import annotations

import ast
import builtins
import math
import random
import textwrap
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import pytest
from simulation import places
from simulation.places import MOST_HELD_S, Armed, Known, Place, Places, arm_hold, with_calls
from simulation.plan import Plan
from simulation.scheduler import SECOND, Simulation

PLACE = Place("storage/log/reader.py", "Reader.read")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Simulation, Places]]:
    monkeypatch.setattr(builtins, "__place__", None, raising=False)
    with Simulation(1) as sim:
        yield sim, Places(sim)


def come(times: int = 1, place: Place = PLACE) -> None:
    """What a statement of that function does."""
    for _ in range(times):
        builtins.__place__(str(place))  # type: ignore[attr-defined]


def as_daemon(sim: Simulation, *runs: Any) -> None:
    """Threads of a daemon that run these, until all have ended."""
    tasks = [sim.spawn(f"thread {number}", run, group="daemon 1") for number, run in enumerate(runs)]
    while not all(task.done for task in tasks):
        sim.sleep(0.01)


def test_each_statement_of_a_function_calls_first_and_no_other_function_does() -> None:
    source = textwrap.dedent('''
        class Reader:
            """What it is."""

            def read(self, limit):
                """What it does."""
                global seen
                if limit:
                    seen = 1
                else:
                    def inner():
                        return 2
                    seen = inner()
                return seen

        seen = 0
    ''')
    tree = with_calls(ast.parse(source), str(places.ROOT / PLACE.path))
    told: list[str] = []
    names: dict[str, Any] = {"__place__": told.append, "__name__": "m"}
    exec(compile(tree, "m", "exec"), names)
    assert told == []
    assert names["Reader"]().read(1) == 1
    assert told == [str(PLACE)] * 3
    told.clear()
    assert names["Reader"]().read(0) == 2
    assert told == [str(PLACE)] * 5
    assert names["Reader"].read.__doc__ == "What it does."


def test_functions_are_drawn_by_weight_and_by_name_alone() -> None:
    weights = {Place("storage/a.py", f"f{number}"): 1.0 for number in range(9)}
    weights[Place("storage/a.py", "long")] = 9.0
    known = Known(weights)
    drawn = Counter(known.draw(f"hold {seed}") for seed in range(1000))
    assert 400 < drawn[Place("storage/a.py", "long")] < 600
    assert len(drawn) == 10
    before = [known.draw(f"hold {seed}") for seed in range(1000)]
    new = Place("storage/b.py", "new")
    more = Known({**weights, new: 1.0})
    changed = sum(one != more.draw(f"hold {seed}") for seed, one in enumerate(before))
    assert changed == sum(more.draw(f"hold {seed}") == new for seed in range(1000)) > 0


@pytest.mark.parametrize("count", [0, 1, 2, 40, 700])
def test_a_draw_is_the_first_of_exponential_times(count: int) -> None:
    """Whatever is left out of the reckoning because it can't be first."""
    rng = random.Random(count)
    weights = {Place(f"storage/{number % 7}.py", f"f{number}"): rng.choice((0.2, 3.0, 40.0)) for number in range(count)}

    def time(place: Place, text: str) -> float:
        words = (f"{place.path} {place.qualname}", text)
        one, other = (int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big") for word in words)
        mixed = (one ^ other) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 31) * 0x94D049BB133111EB % 2**64
        return -math.log((mixed + 1) / 2**64) / weights[place]

    known = Known(weights)
    for number in range(300):
        text = f"trouble at a place {number}"
        assert known.draw(text) == min(weights, key=lambda place: time(place, text), default=None)


def test_parts_at_places_have_one_and_others_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "known", Known({PLACE: 1.0}))
    plans = [Plan.of(seed) for seed in range(100)]
    assert {part.kind for plan in plans for part in plan.parts if plan.place_of(part) is not None} == {
        "hold", "kill at a place", "power cut at a place", "trouble at a place",
    }  # fmt: skip
    assert any(not plan.places for plan in plans)
    assert all(plan.durable for plan in plans if any(part.kind == "power cut at a place" for part in plan.parts))


def test_half_of_the_runs_look_at_one_module_or_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {
        Place(f"{folder}/{name}.py", f"f{number}"): 1.0 for folder in "ab" for name in "cd" for number in range(9)
    }
    monkeypatch.setattr(places, "known", Known(weights))
    told: Counter[str] = Counter()
    for seed in range(200):
        plan = Plan.of(seed)
        assert all(place.path.startswith(plan.focus) for place in plan.places)
        told[plan.focus] += 1
    assert set(told) == {"", "a/", "b/", "a/c.py", "a/d.py", "b/c.py", "b/d.py"}
    assert 80 < told[""] < 120


def test_what_is_armed_happens_once_at_the_so_manieth_statement(running: tuple[Simulation, Places]) -> None:
    sim, there = running
    happened: list[str] = []
    there.arm(PLACE, Armed(3, lambda _: happened.append("third")))
    as_daemon(sim, lambda: come(2))
    assert happened == []
    as_daemon(sim, lambda: come(9, Place("storage/a.py", "f")), lambda: come(5))
    assert happened == ["third"]


def test_nothing_happens_in_a_thread_of_the_world_or_when_all_is_over(running: tuple[Simulation, Places]) -> None:
    sim, there = running
    happened: list[str] = []
    there.arm(PLACE, Armed(1, lambda _: happened.append("first")))
    come()
    sim.is_looking = True
    as_daemon(sim, come)
    sim.is_looking = False
    there.disarm()
    as_daemon(sim, come)
    assert happened == []


def test_nothing_happens_behind_a_hold_in_which_all_was_over(running: tuple[Simulation, Places]) -> None:
    sim, there = running
    happened: list[str] = []
    there.arm(PLACE, Armed(1, lambda _: there.hold(2.0)))
    there.arm(PLACE, Armed(1, lambda _: happened.append("second")))

    def ends() -> None:
        sim.sleep(1.0)
        there.disarm()

    as_daemon(sim, come, ends)
    assert happened == []


def test_a_thread_is_held_while_others_go_on(running: tuple[Simulation, Places]) -> None:
    sim, there = running
    told: list[str] = []
    there.arm(PLACE, Armed(1, lambda _: there.hold(2.0)))

    def held() -> None:
        come()
        told.append("held")

    def other() -> None:
        sim.sleep(1.0)
        told.append("other")

    as_daemon(sim, held, other)
    assert told == ["other", "held"]


def test_threads_of_one_daemon_are_held_for_so_long_and_no_longer(running: tuple[Simulation, Places]) -> None:
    sim, there = running

    def held() -> None:
        for _ in range(100):
            there.hold(1.0)

    began = sim.now_ns
    as_daemon(sim, held)
    assert (sim.now_ns - began) / SECOND == pytest.approx(MOST_HELD_S, abs=1.0)


def test_a_hold_is_one_of_several(running: tuple[Simulation, Places]) -> None:
    sim, there = running
    for seed in range(20):
        arm_hold(there, Place("storage/a.py", f"f{seed}"), random.Random(seed))
    as_daemon(sim, *(lambda seed=seed: come(3000, Place("storage/a.py", f"f{seed}")) for seed in range(20)))
    assert sim.counts["thread held at a place"] > 20
