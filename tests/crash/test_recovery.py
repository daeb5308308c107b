"""Power cuts and kills at random moments of random work: what was synced is there, nothing else, offsets unbroken.

A run appends, rolls, flushes, checkpoints, deletes records and makes topics until a chosen mutating call of the file system
"loses power". The fake file system then gives a legal state of the disk; the log is started on it and compared with what was
appended. A failing run names its seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from support.fake_filesystem import PowerCut
from support.logs import ROOT, World, append, read_records
from support.mock_time import START_MS
from tidelog.storage.log.unified_log import UnifiedLog

SEEDS = 120


@dataclass
class Expected:
    """What the test knows of one log."""

    values: list[bytes] = field(default_factory=list)
    """By offset, as far as appends have returned; one more may be in the files when the power goes in an append."""
    tried: bytes | None = None
    durable: int = 0
    start: int = 0
    may_start: int = 0
    """Up to where a deletion that the power cut short may have come."""


class Run:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.world = World()
        self.expected: dict[str, Expected] = {}
        self.counter = 0
        self.settings = {
            "segment_bytes": self.random.choice([500, 2000, 100_000]),
            "index_interval_bytes": self.random.choice([1, 200, 4096]),
            "segment_index_bytes": self.random.choice([64, 4096]),
            "flush_messages": self.random.choice([1, 5, 2**63 - 1]),
            "retention_bytes": self.random.choice([-1, -1, 3000]),
        }

    def start(self) -> None:
        self.world.start(**self.settings)

    def work(self, steps: int) -> None:
        """Random operations; PowerCut passes through."""
        for _ in range(steps):
            name = self.random.choice(["a", "a", "a", "b", "c"])
            known = self.expected.setdefault(name, Expected())
            log = self.world.log(name)
            action = self.random.choices(
                ["append", "flush", "roll", "checkpoint", "background", "delete records", "retention", "clean restart"],
                [40, 6, 3, 4, 6, 2, 2, 1],
            )[0]
            if action == "append":
                self.append(log, known)
            elif action == "flush":
                known.durable = max(known.durable, log.flush())
                log.complete_sync(known.durable)
            elif action == "roll":
                log.roll()
            elif action == "checkpoint":
                self.world.manager.checkpoint_recovery_points()
                self.world.manager.checkpoint_log_start_offsets()
            elif action == "background":
                self.world.time.advance(seconds=self.random.choice([0, 1, 70]))
            elif action == "delete records":
                known.may_start = log.high_watermark
                log.increment_log_start_offset(self.random.randint(known.start, log.high_watermark))
                known.start = log.log_start_offset
            elif action == "retention":
                known.may_start = log.high_watermark
                log.delete_old_segments()
                known.start = log.log_start_offset
            else:
                self.world.stop()
                for each in self.expected.values():
                    each.durable = len(each.values)
                self.start()

    def append(self, log: UnifiedLog, known: Expected) -> None:
        self.counter += 1
        value = b"%d " % self.counter + self.random.randbytes(self.random.choice([5, 50, 400]))
        known.tried = value
        assert append(log, value, timestamp=self.world.time.milliseconds()) == len(known.values)
        known.values.append(value)
        known.tried = None
        if log.needs_sync:
            assert log.high_watermark <= len(known.values) - 1 or self.settings["flush_messages"] != 1
            while log.needs_sync:
                known.durable = max(known.durable, log.flush())
                log.complete_sync(known.durable)
            assert log.high_watermark == log.log_end_offset

    def check(self, *, all_is_there: bool) -> None:
        for name, known in self.expected.items():
            log = self.world.manager.get(name, 0)
            least = len(known.values) if all_is_there else known.durable
            if log is None:
                assert least == 0, f"the log {name} is gone"
                known.values.clear()
                known.start = known.durable = 0
                continue
            assert log.recovery_point <= log.log_end_offset
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
            end = log.log_end_offset
            assert end >= least, f"{name}: {end} records of {least} that were durable"
            possible = [*known.values, known.tried] if known.tried is not None else known.values
            records = read_records(log, log.log_start_offset, limit_offset=end)
            assert [record.offset for record in records] == list(range(log.log_start_offset, end))
            assert [record.value for record in records] == possible[log.log_start_offset : end]
            # Of what was never synced the first segments may be the ones that are lost.
            assert log.log_start_offset <= max(known.start, known.may_start) or known.durable <= known.start
            del known.values[end:]
            if known.tried is not None and end > len(known.values):
                known.values.append(known.tried)
            known.tried = None
            known.start = known.may_start = log.log_start_offset
            known.durable = min(known.durable, end)
            for segment in log.segments:
                for offset in (segment.base_offset, end - 1):
                    if log.log_start_offset <= offset < end:
                        assert read_records(log, offset, limit_offset=end)[0].offset == offset


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.damaged("records that a kill brings back below the log's start have no leader epoch in the file")
def test_after_power_cuts_the_synced_records_are_there_and_nothing_else(seed: int) -> None:
    run = Run(seed)
    run.start()
    for cut in range(3):
        run.world.fake.fail_at(run.random.randint(1, 120), PowerCut(), repeat=True)
        try:
            run.work(60)
            run.world.stop()
            for known in run.expected.values():
                known.durable = len(known.values)
        except PowerCut:
            pass
        run.world.cut_power(seed * 31 + cut)
        if run.random.random() < 0.3:  # and once more while it recovers
            run.world.fake.fail_at(run.random.randint(1, 40), PowerCut(), repeat=True)
            try:
                run.start()
            except PowerCut:
                run.world.cut_power(seed * 37 + cut)
            else:
                run.world.fake.heal()
                run.world.kill()
        run.start()
        run.check(all_is_there=False)


@pytest.mark.parametrize("seed", range(SEEDS // 2))
@pytest.mark.damaged("records that a kill brings back below the log's start have no leader epoch in the file")
def test_a_kill_loses_nothing(seed: int) -> None:
    run = Run(seed)
    run.start()
    for _ in range(3):
        run.work(run.random.randint(1, 60))
        run.world.kill()
        run.start()
        run.check(all_is_there=True)


@pytest.mark.parametrize("seed", range(10))
def test_indexes_that_recovery_made_are_durable_after_a_stop_that_nothing_came_before(seed: int) -> None:
    """Found by the simulator (seed 5876): a power cut after that took them, and the next start believed what was left."""
    world = World()
    world.start()
    append(world.log(), "a", timestamp=START_MS)
    world.kill()
    world.start()
    world.log().flush()
    world.stop()
    world.cut_power(seed)
    world.start()
    assert world.log().segments[0].largest_timestamp() == START_MS
    found = world.log().lookup_by_timestamp(START_MS)
    assert found is not None
    assert found.offset == 0


@pytest.mark.parametrize("damage", ["cut short", "garbage", "zeros", "one bit"])
@pytest.mark.parametrize("seed", range(8))
def test_recovery_stops_at_the_first_bad_batch(damage: str, seed: int) -> None:
    run = Run(seed)
    run.settings |= {"flush_messages": 2**63 - 1, "segment_bytes": 2000, "retention_bytes": -1}
    run.start()
    log = run.world.log("a")
    known = run.expected.setdefault("a", Expected())
    for _ in range(60):
        run.append(log, known)
    victim = run.random.choice(log.segments)
    path = f"{ROOT}/a-0/{victim.base_offset:020d}.log"
    position = run.random.randrange(victim.size)
    run.world.kill()
    system = run.world.fake
    contents = system.contents()
    whole = contents[path]
    if damage == "cut short":
        system.put(path, whole[:position])
    elif damage == "garbage":
        system.corrupt(path, position, run.random.randbytes(len(whole) - position))
    elif damage == "zeros":
        system.corrupt(path, position, bytes(len(whole) - position))
    else:
        system.corrupt(path, position, bytes([whole[position] ^ 0x10]))
    run.start()
    run.check(all_is_there=False)
    log = run.world.log("a")
    # Whole batches before the damage are kept: one record each, so the log ends in the damaged batch or right before.
    assert victim.base_offset <= log.log_end_offset
    stats = run.world.manager.recovery_stats
    assert stats.bytes_scanned <= sum(len(data) for name, data in contents.items() if name.endswith(".log"))
    run.append(log, known)
    assert read_records(log, 0)[-1].value == known.values[-1]
