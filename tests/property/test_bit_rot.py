"""One flipped bit anywhere in a log that was durable: no record but those of the damaged batch is lost, moved or changed, and
something is said. The oracle is the list of records that were appended."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World, append, read_records
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.protocol.records.record_batch import BatchHeader
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.unified_log import UnifiedLog

T = f"{ROOT}/t-0"
CHECKPOINT = f"{ROOT}/recovery-point-offset-checkpoint"
MARK = f"{ROOT}/.kafka_cleanshutdown"


class Kept(NamedTuple):
    """A log on its disk, cleanly stopped, and what is in it."""

    world: World
    values: list[bytes]
    batches: dict[str, list[BatchHeader]]
    """By path of the log file."""


@cache
def kept(seed: int) -> Kept:
    chance = random.Random(seed)
    world = World()
    world.start(
        segment_bytes=chance.choice([400, 1500, 100_000]),
        index_interval_bytes=chance.choice([1, 200, 4096]),
        retention_bytes=-1,
    )
    log = world.log()
    values: list[bytes] = []
    for _ in range(chance.choice([3, 12, 40])):
        more = [
            b"%d " % len(values) + chance.randbytes(chance.choice([3, 60])) for _ in range(chance.choice([1, 1, 3]))
        ]
        assert append(log, *more, timestamp=world.time.milliseconds()) == len(values)
        values += more
        world.time.advance(seconds=1)
    world.stop()
    batches = {
        path: list(iterate_batches(data)) for path, data in world.fake.contents().items() if path.endswith(".log")
    }
    return Kept(world, values, batches)


@contextmanager
def lines() -> Iterator[list[str]]:
    """Everything that storage says at WARNING or above."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logger = logging.getLogger("tidelog.storage")
    logger.addHandler(listener)
    try:
        yield said
    finally:
        logger.removeHandler(listener)


def flipped(base: Kept, path: str, bit: int) -> FakeFileSystem:
    system = base.world.fake.kill()
    data = system.contents()[path]
    system.corrupt(path, bit // 8, bytes([data[bit // 8] ^ 1 << bit % 8]))
    return system


def started(system: FakeFileSystem, base: Kept, **options: str) -> tuple[World, UnifiedLog]:
    world = World(system, **options)
    world.log_config = base.world.log_config
    world.start()
    log = world.manager.get("t", 0)
    assert log is not None
    return world, log


def judge(base: Kept, log: UnifiedLog, lost: set[int]) -> None:
    """What is not in `lost` is there, at its offset, for whoever comes from wherever; the log ends where it ended."""
    assert log.log_end_offset == len(base.values)
    expected = [(offset, value) for offset, value in enumerate(base.values) if offset not in lost]
    for start in (0, *sorted(lost), *(offset + 1 for offset in lost)):
        records = read_records(log, start, limit_offset=log.log_end_offset)
        assert [(record.offset, record.value) for record in records] == [e for e in expected if e[0] >= start]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 5), st.sampled_from(["checkpoint", "no checkpoint"]), st.data())
@pytest.mark.damaged("bits are flipped")
def test_a_start_that_reads_the_damage_loses_nothing_but_the_damaged_batch(
    seed: int, point: str, data: st.DataObject
) -> None:
    """Unclean stop, everything durable: the recovery point is at the end, or at the start of what is read."""
    base = kept(seed)
    paths = sorted(base.batches)
    # Closed segments below the recovery point are not read at a start.
    path = paths[-1] if point == "checkpoint" else data.draw(st.sampled_from(paths[:-1] or paths))
    size = len(base.world.fake.contents()[path])
    bit = data.draw(st.integers(0, 8 * size - 1))
    system = flipped(base, path, bit)
    system.unlink(MARK)
    if point == "no checkpoint":
        system.unlink(CHECKPOINT)
    victim = next(b for b in base.batches[path] if b.position <= bit // 8 < b.position + b.size)
    field = bit // 8 - victim.position
    lost = set(range(victim.base_offset, victim.last_offset + 1))
    is_harmless = 12 <= field < 16  # the leader epoch: nothing but its own history hangs on it
    with lines() as said:
        world, log = started(system, base)
    if is_harmless:
        judge(base, log, set())
        return
    if point == "no checkpoint" and path == paths[-1]:
        # Nothing says that it was durable, and nothing sound lies behind: the log is cut there, as after a crash.
        assert log.log_end_offset == victim.base_offset
        return
    judge(base, log, lost)
    assert any("a hole" in line for line in said), said
    assert len(log.holes) == 1
    assert append(log, "next") == len(base.values)
    world.stop()
    world.start()
    again = world.manager.get("t", 0)
    assert again is not None
    assert again.log_end_offset == len(base.values) + 1
    assert again.holes == log.holes
    faults = [f for f in verify(world.file_system, ROOT) if f.is_fault]
    assert not faults


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 5), st.data())
@pytest.mark.damaged("bits are flipped")
def test_after_a_clean_stop_the_end_of_the_log_is_where_it_was(seed: int, data: st.DataObject) -> None:
    base = kept(seed)
    path = max(base.batches)
    size = len(base.world.fake.contents()[path])
    victim = base.batches[path][-1]
    bit = data.draw(st.integers(8 * victim.position, 8 * size - 1))
    _, log = started(flipped(base, path, bit), base)
    assert log.log_end_offset == len(base.values)
    if log.holes:
        judge(base, log, set(range(victim.base_offset, victim.last_offset + 1)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5), st.data())
def test_told_to_stop_a_start_stops_and_changes_nothing(seed: int, data: st.DataObject) -> None:
    base = kept(seed)
    path = max(base.batches)
    size = len(base.world.fake.contents()[path])
    bit = data.draw(st.integers(0, 8 * size - 1))
    victim = next(b for b in base.batches[path] if b.position <= bit // 8 < b.position + b.size)
    system = flipped(base, path, bit)
    system.unlink(MARK)
    before = {name: content for name, content in system.contents().items() if name.startswith(T)}
    if 12 <= bit // 8 - victim.position < 16:
        return
    with pytest.raises(StorageError, match="restore"):
        started(system, base, log_damage_policy="stop")
    after = {name: content for name, content in system.contents().items() if name.startswith(T)}
    assert {n: c for n, c in after.items() if n.endswith(".log")} == {
        n: c for n, c in before.items() if n.endswith(".log")
    }
