from __future__ import annotations

import pytest
from support.logs import World, append, read_records, values_of


@pytest.fixture
def world() -> World:
    world = World()
    world.start()
    return world


def test_offsets_are_given_out_without_gaps_and_read_back(world: World) -> None:
    log = world.log()
    assert [append(log, "a", "b"), append(log, "c"), append(log, "d", "e", "f")] == [0, 2, 3]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 6, 6)
    assert values_of(read_records(log, 0)) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_kill_and_start_again(world: World) -> None:
    log = world.log()
    append(log, "a", "b")
    world.kill()
    world.start()
    assert values_of(read_records(world.log(), 0)) == [b"a", b"b"]
