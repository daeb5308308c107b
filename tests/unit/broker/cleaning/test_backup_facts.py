"""Which segments are safe elsewhere, since when: of real logs, whose backup is made here."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.backups import BackedUpWorld
from support.cleaning import put
from tidelog.backup.store.memory import MemoryStore
from tidelog.broker.cleaning.backup_facts import NO_BACKUP, BackupFacts, describe_segment
from tidelog.broker.cleaning.why import why_partition
from tidelog.cli import why


@pytest.fixture
def world() -> Iterator[BackedUpWorld]:
    made = BackedUpWorld(MemoryStore(), 1)
    yield made
    made.stop()


def facts(world: BackedUpWorld) -> BackupFacts:
    service: Any = SimpleNamespace(safe=lambda topic, partition: world.writer.safe.get((topic, partition)))
    return BackupFacts(service)


def told(world: BackedUpWorld) -> list[tuple[int, int, bool, int | None]]:
    """Base offset, bytes, whole, since, of each segment of `plain`."""
    log = world.log("plain")
    safe = facts(world).segments(log)
    described = [(one.base_offset, describe_segment(safe, one.base_offset, one.size)) for one in log.segments]
    return [
        (base, found["bytes"], found["isWhole"], found["sinceMs"]) for base, found in described if found is not None
    ]


def fill(world: BackedUpWorld, count: int) -> None:
    for number in range(count):
        put(world.log("plain"), f"k{number}", "v" * 60, timestamp=world.time.milliseconds())


def test_a_segment_is_safe_from_the_cut_that_has_all_of_it(world: BackedUpWorld) -> None:
    log = world.log("plain")
    fill(world, 3)
    assert told(world) == [(0, 0, False, None)]
    world.cut()
    first_ms = world.writer.progress.taken_ms
    assert told(world) == [(0, log.segments[0].size, True, first_ms)]
    fill(world, 1)
    assert told(world)[0][1:] == (log.segments[0].size * 3 // 4, False, first_ms)
    log.roll()
    fill(world, 1)
    world.cut()
    second_ms = world.writer.progress.taken_ms
    assert [since for *_, since in told(world)] == [second_ms, second_ms]
    fill(world, 1)
    world.cut()
    assert [since for *_, since in told(world)] == [second_ms, world.writer.progress.taken_ms]
    assert all(whole for _, _, whole, _ in told(world))


def test_what_a_pass_of_the_cleaner_made_is_not_safe_before_the_next_cut(world: BackedUpWorld) -> None:
    fill(world, 6)
    world.log("plain").roll()
    fill(world, 6)
    world.log("plain").roll()
    world.cut()
    assert all(whole for _, _, whole, _ in told(world))
    world.time.advance(100_000)
    world.clean_all()
    assert not told(world)[0][2]
    world.cut()
    assert all(whole for _, _, whole, _ in told(world))


def test_a_partition_says_how_far_it_is(world: BackedUpWorld) -> None:
    fill(world, 3)
    log = world.log("plain")
    assert facts(world).describe(log) == {"backup": {"cut": None, "takenMs": None, "endOffset": None}}
    world.cut()
    taken_ms = world.writer.progress.taken_ms
    assert facts(world).describe(log) == {"backup": {"cut": 1, "takenMs": taken_ms, "endOffset": 3}}
    assert NO_BACKUP.describe(log) == {"backup": None}
    assert NO_BACKUP.segments(log) is None
    assert describe_segment(None, 0, 10) is None


def test_a_partition_that_is_gone_is_forgotten(world: BackedUpWorld) -> None:
    fill(world, 3)
    world.cut()
    world.manager.delete("plain", 0)
    world.cut()
    assert ("plain", 0) not in world.writer.safe


def test_why_shows_it(world: BackedUpWorld) -> None:
    fill(world, 6)
    world.log("plain").roll()
    world.cut()
    fill(world, 1)
    found = why_partition(world.log("plain"), world.cleaners, is_cleaner_enabled=True, backup=facts(world))
    answer = {
        "topic": "plain", "partitions": [found], "cleanerBackoffMs": 1000, "retentionCheckIntervalMs": 1000,
    }  # fmt: skip
    lines = why.picture(answer)
    assert any("in the backup up to offset 6 (by cut 1, " in line for line in lines)
    number = next(index for index, line in enumerate(lines) if line.split()[:2] == ["segment", "to"])
    column = lines[number].index("in the backup")
    cells = [line[column:].split("  ")[0] for line in lines[number + 1 :] if line.strip()[:1].isdigit()]
    assert cells[0] == f"since {why.time_text(world.writer.progress.taken_ms)}"
    assert cells[-1] == "no"
    plain = why.picture(
        answer | {"partitions": [why_partition(world.log("plain"), world.cleaners, is_cleaner_enabled=True)]}
    )
    assert not any("in the backup" in line for line in plain)
