"""Promise: whatever becomes of a request to the store, a published cut is whole and is what it was when it was taken.

A run of random logs and cuts is recorded without faults; then it is run again with one fault at each request, and with two.
After a fault that kills, a new process goes on: a new writer over the same store.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice

import pytest
from support.backups import BackedUpWorld, Seen, check_cut
from support.flaky_store import FlakyStore, Killed, Plan, every_pair_of_faults, every_single_fault, no_faults
from tidelog.backup.cut.writer import CutWriter, OpenedLateError, VoidCut
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.errors import StoreError
from tidelog.backup.store.memory import MemoryStore

Model = dict[tuple[str, int], Seen]

SEED = 7
CUTS = 3
STEPS = 6
TRIES = 12


def run(plan: Plan) -> tuple[BackedUpWorld, FlakyStore]:
    """One run over a store with this plan; each cut is tried until it is there."""
    world = BackedUpWorld(MemoryStore(), SEED)
    flaky = FlakyStore(world.store, plan)
    world.store = flaky
    world.damaged = "looked at by the model"
    seen: dict[int, Model] = {}
    world.writer = _writer(world)
    for _ in range(CUTS):
        for _ in range(STEPS):
            world.step()
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
            break
        else:
            raise AssertionError("the store has come back, and no cut comes about")
    world.models = seen
    return world, flaky


def _writer(world: BackedUpWorld) -> CutWriter:
    """A new process's writer, opened however often it takes."""
    while True:
        with suppress(StoreError, Killed):
            return world.new_writer()


def _note(world: BackedUpWorld, flaky: FlakyStore, before: set[int], seen: dict[int, Model]) -> None:
    """Cuts that are in the store now and were not have to be what the last vector saw."""
    for number in set(Catalog(flaky.base).numbers) - before:
        seen[number] = world.last


def check(plan: Plan) -> None:
    world, flaky = run(plan)
    numbers = Catalog(flaky.base).numbers
    assert numbers == sorted(world.models)
    for number in numbers:
        check_cut(flaky.base, number, world.models[number], world.time, world.damaged)
    world.stop()


TRACE = run(no_faults)[1].trace
SINGLE = list(every_single_fault(TRACE))


@pytest.mark.parametrize("part", range(4))
def test_one_fault_at_any_request_leaves_every_cut_whole(part: int) -> None:
    for name, plan in SINGLE[part::4]:
        try:
            check(plan)
        except (Exception, Killed) as error:
            raise AssertionError(name) from error


def test_two_faults_at_any_requests_leave_every_cut_whole() -> None:
    """A slice of all pairs; `PAIRS_SLICE=1` takes all of them."""
    width = int(os.environ.get("PAIRS_SLICE", "97"))
    for name, plan in islice(every_pair_of_faults(TRACE), 0, None, width):
        try:
            check(plan)
        except (Exception, Killed) as error:
            raise AssertionError(name) from error
