"""Promise: a restored cut is all partitions at the moment that it was taken, whatever happened before, meanwhile and after."""

from __future__ import annotations

import pytest
from support.backups import BackedUpWorld, check_cut
from tidelog.backup.store.memory import MemoryStore


@pytest.mark.parametrize("seed", range(12))
def test_a_restored_cut_is_what_was_seen_at_its_moment(seed: int) -> None:
    world = BackedUpWorld(MemoryStore(), seed)
    choose = world.random
    for _ in range(14):
        for _ in range(choose.randrange(12)):
            world.step()
        busy = choose.random() < 0.5
        world.meanwhile = lambda busy=busy: [world.step() for _ in range(choose.randrange(3) if busy else 0)]
        world.cut()
        world.meanwhile = lambda: None
        if choose.random() < 0.2:
            (world.restart if choose.random() < 0.5 else world.crash)()
            world.writer = world.new_writer()
    for number in choose.sample(sorted(world.models), min(5, len(world.models))):
        check_cut(world.store, number, world.models[number], world.time, world.damaged)
    world.stop()
