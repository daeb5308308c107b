"""Promise: whatever becomes of a request to the store, a published cut is whole and is what it was when it was taken.

A run of random logs and cuts is recorded without faults; then it is run again with one fault at each request, with two, and
with a second daemon that comes up at any moment. After a fault that kills, a new process goes on: a new writer over the same
store.
A sweep is broken at each of its requests: what is to stay is whole, and the next sweep comes to the same end.

`--backup-states N` runs N states of each kind, spread over all of them; 0: all. The states of one seed are some thousands
(`test_there_are_ten_thousand_states` counts them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import pytest
from support.backups import BackedUpWorld, Seen, check_cut
from support.flaky_store import (
    Fault,
    FlakyStore,
    Killed,
    Plan,
    contents,
    copy_of,
    every_pair_of_faults,
    every_single_fault,
    fault_at,
    no_faults,
)
from tidelog.backup.cut.writer import CutWriter, FencedError, OpenedLateError, VoidCut
from tidelog.backup.formats.keys import CUTS, cut_number
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.errors import StoreError
from tidelog.backup.store.memory import MemoryStore
from tidelog.backup.upkeep.retention import HOUR_MS, Keep, kept_cuts
from tidelog.backup.upkeep.sweep import named, sweep

Model = dict[tuple[str, int], Seen]
State = tuple[str, Callable[[], None]]

SEEDS = (7, 8, 9, 10, 11)
KEEP = Keep(2 * 24 * HOUR_MS, hourly=4, daily=1)
CUTS_OF_A_RUN = 3
STEPS = 6
TRIES = 12


def run(plan: Plan, seed: int) -> tuple[BackedUpWorld, FlakyStore]:
    """One run over a store with this plan; each cut is tried until it is there."""
    world = BackedUpWorld(MemoryStore(), seed)
    flaky = FlakyStore(world.store, plan)
    world.store = flaky
    world.damaged = "looked at by the model"
    seen: dict[int, Model] = {}
    world.writer = _writer(world)
    for _ in range(CUTS_OF_A_RUN):
        for _ in range(STEPS):
            world.step()
        _cut(world, flaky, seen)
    world.models = seen
    return world, flaky


def _cut(world: BackedUpWorld, flaky: FlakyStore, seen: dict[int, Model]) -> None:
    for _ in range(TRIES):
        world.time.advance(1000)
        before = set(Catalog(flaky.base).numbers)
        try:
            world.writer.attempt()
        except (StoreError, VoidCut):
            _note(world, flaky, before, seen)
            continue
        except (Killed, OpenedLateError):
            _note(world, flaky, before, seen)
            world.writer = _writer(world)
            continue
        _note(world, flaky, before, seen)
        return
    raise AssertionError("the store has come back, and no cut comes about")


def _writer(world: BackedUpWorld) -> CutWriter:
    """A new process's writer, opened however often it takes."""
    while True:
        with suppress(StoreError, Killed):
            return world.new_writer()


def _note(world: BackedUpWorld, flaky: FlakyStore, before: set[int], seen: dict[int, Model]) -> None:
    """Cuts that are in the store now and were not have to be what the last vector saw."""
    for number in set(Catalog(flaky.base).numbers) - before:
        seen[number] = world.last


def check(plan: Plan, seed: int) -> None:
    world, flaky = run(plan, seed)
    numbers = Catalog(flaky.base).numbers
    assert numbers == sorted(world.models)
    for number in numbers:
        check_cut(flaky.base, number, world.models[number], world.time, world.damaged)
    world.stop()


def singles() -> Iterator[State]:
    """One fault at any request."""
    for seed in SEEDS:
        for name, plan in every_single_fault(run(no_faults, seed)[1].trace):
            yield f"{seed}: {name}", lambda plan=plan, seed=seed: check(plan, seed)  # type: ignore[misc]


def pairs() -> Iterator[State]:
    """Two faults."""
    for seed in SEEDS:
        for name, plan in every_pair_of_faults(run(no_faults, seed)[1].trace):
            yield f"{seed}: {name}", lambda plan=plan, seed=seed: check(plan, seed)  # type: ignore[misc]


# --- two daemons ---


def check_two(plan: Plan, seed: int, second_at: int) -> None:
    """A second daemon comes up before request `second_at` of the first, and makes a cut; one of the two goes on, in order."""
    base = MemoryStore()
    world = BackedUpWorld(base, seed)
    world.damaged = "looked at by the model"
    seen: dict[int, Model] = {}
    second: list[CutWriter] = []
    fenced: list[str] = []

    def comes_up(number: int, operation: str, key: str) -> Fault | None:
        if number == second_at and not second:
            last = world.last
            world.store = base
            second.append(world.new_writer())
            before = set(Catalog(base).numbers)
            with suppress(VoidCut):
                second[0].attempt()
            for found in set(Catalog(base).numbers) - before:
                seen[found] = world.last
            world.store, world.last = flaky, last
        return plan(number, operation, key)

    flaky = FlakyStore(base, comes_up)
    world.store = flaky
    world.writer = _writer(world)
    for _ in range(CUTS_OF_A_RUN):
        for _ in range(STEPS):
            world.step()
        try:
            _cut(world, flaky, seen)
        except FencedError as error:
            fenced.append(str(error))
            break
    numbers = Catalog(base).numbers
    assert numbers == sorted(seen)
    if fenced:
        assert "another daemon has published cut" in fenced[0]
    for number in numbers:
        check_cut(base, number, seen[number], world.time, world.damaged)
    world.stop()


def daemons() -> Iterator[State]:
    """A second daemon before any request, with and without a fault there."""
    for seed in SEEDS:
        trace = run(no_faults, seed)[1].trace
        for at in range(len(trace)):
            for fault in (None, Fault.BEFORE, Fault.AFTER, Fault.STALE, Fault.KILL, Fault.KILL_AFTER):
                for later in (0, 1, 2) if fault is not None else (0,):
                    plan = no_faults if fault is None else fault_at(at + later, fault)
                    name = f"{seed}: a second daemon before {at}, {fault and fault.value} at {at + later}"
                    yield name, lambda plan=plan, seed=seed, at=at: check_two(plan, seed, at)  # type: ignore[misc]


# --- sweeps ---


def swept_world(seed: int) -> tuple[BackedUpWorld, MemoryStore]:
    """A backup of some days."""
    world = BackedUpWorld(MemoryStore(), seed)
    base = MemoryStore(time=world.time)
    world.store = base
    world.writer = world.new_writer()
    world.damaged = "looked at by the model"
    for _ in range(10):
        for _ in range(3):
            world.step()
        world.cut()
        world.time.advance(world.random.choice((1_000, HOUR_MS, 9 * HOUR_MS)))
    return world, base


def sweeps() -> Iterator[State]:
    """A fault, or two, at any request of a sweep."""
    for seed in SEEDS:
        world, base = swept_world(seed)
        flaky = FlakyStore(copy_of(base, world.time))
        sweep(flaky, KEEP)
        plans = [*every_single_fault(flaky.trace), *every_pair_of_faults(flaky.trace, within=3)]
        expected = contents(flaky.base)
        for name, plan in plans:
            yield (
                f"{seed}: {name}",
                lambda plan=plan, world=world, base=base, expected=expected: check_sweep(plan, world, base, expected),  # type: ignore[misc]
            )


def check_sweep(plan: Plan, world: BackedUpWorld, base: MemoryStore, expected: dict[str, bytes]) -> None:
    copy = copy_of(base, world.time)
    cuts = [
        (number, stored.modified_ms) for stored in copy.list(CUTS) if (number := cut_number(stored.key)) is not None
    ]
    kept = kept_cuts(cuts, max(at_ms for _, at_ms in cuts), KEEP)
    with suppress(StoreError, Killed):
        sweep(FlakyStore(copy, plan), KEEP)
    there = contents(copy)
    catalog = Catalog(copy)
    assert kept <= set(catalog.numbers)
    for number in kept:
        assert all(key in there for key in named(catalog.cut(number))), number
    sweep(copy, KEEP)
    assert contents(copy) == expected


# --- the ring ---

KINDS: dict[str, Callable[[], Iterator[State]]] = {
    "one fault": singles,
    "two faults": pairs,
    "two daemons": daemons,
    "sweep": sweeps,
}
PARTS = 4


def chosen(states: Sequence[State], count: int) -> Sequence[State]:
    """`count` of the states, spread over all; 0: all."""
    width = max(1, len(states) // count) if count else 1
    return states[::width]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_published_cut_is_whole_whatever_becomes_of_requests(
    kind: str, part: int, pytestconfig: pytest.Config
) -> None:
    count = int(pytestconfig.getoption("--backup-states", default=8))
    for name, look in chosen(list(KINDS[kind]()), count)[part::PARTS]:
        try:
            look()
        except (Exception, Killed) as error:
            raise AssertionError(name) from error


def test_there_are_ten_thousand_states() -> None:
    counts = {kind: sum(1 for _ in states()) for kind, states in KINDS.items()}
    print(counts)
    assert sum(counts.values()) >= 10_000, counts
