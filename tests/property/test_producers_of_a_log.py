"""Whatever goes with retention and DeleteRecords, and however the daemon stops: the last batch of each producer is known when it
is sent again, until producer.id.expiration.ms have passed, and so are those of its last five whose records are there still. The
list of what was sent is the oracle.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from support.logs import World, batch
from tidelog.storage.log.unified_log import UnifiedLog

STEPS = 40


class Sent(NamedTuple):
    """A batch that a producer sent, and where it went."""

    base_sequence: int
    count: int
    first_offset: int


def send(log: UnifiedLog, producer_id: int, base_sequence: int, values: list[str]) -> tuple[int, bool]:
    """First offset, and whether it was known already."""
    data = batch(*values, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence)
    info = log.append_as_leader(data, 0, len(data))
    return info.first_offset, info.duplicate


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.damaged("records that a kill brings back below the log's start have no leader epoch in the file")
def test_the_last_batches_of_each_producer_are_known(seed: int) -> None:
    chance = random.Random(seed)
    world = World(producer_id_expiration_ms=str(2**31 - 1))
    settings = {
        "segment_bytes": chance.choice([200, 400, 1000]),
        "retention_bytes": chance.choice([-1, 300, 1000]),
    }
    world.start(**settings)
    log = world.log()
    sent: dict[int, list[Sent]] = {}
    for _ in range(STEPS):
        if chance.random() < 0.7:
            world.time.advance(0)  # snapshots are written in the pool
        step = chance.random()
        if step < 0.6:
            producer_id, count = chance.randint(1, 4), chance.randint(1, 3)
            before = sent.setdefault(producer_id, [])
            sequence = before[-1].base_sequence + before[-1].count if before else 0
            offset, known = send(log, producer_id, sequence, ["v" * chance.randint(1, 40)] * count)
            assert not known
            before.append(Sent(sequence, count, offset))
        elif step < 0.7:
            log.roll()
        elif step < 0.78:
            log.delete_old_segments()
        elif step < 0.84:
            log.increment_log_start_offset(chance.randint(log.log_start_offset, log.log_end_offset))
            if chance.random() < 0.5:
                world.manager.checkpoint_log_start_offsets()
        elif step < 0.92:
            log.flush()
            world.manager.checkpoint_recovery_points()
            world.time.advance(chance.choice([0, 70_000]))
        else:
            chance.choice([world.stop, world.kill])()
            world.start()
            log = world.log()
            for producer_id, batches in sent.items():
                there = [each for each in batches[-5:] if each.first_offset >= log.segments[0].base_offset]
                again = [*there[: chance.randint(0, 5)], batches[-1]]
                for sequence, count, offset in chance.sample(again, len(again)):
                    assert send(log, producer_id, sequence, ["v"] * count) == (offset, True), f"producer {producer_id}"
