"""What is on disk when, on a real log (any history: tests/property/test_ledger.py; crashes: crash/test_cleaning_ring.py)."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import CleaningWorld, data_records, markers, put
from support.fake_filesystem import FakeFileSystem, Operation
from support.logs import ROOT
from tidelog.storage.ledger.ledger import LEDGER_FILE, Ledger
from tidelog.storage.log.unified_log import UnifiedLog

KAFKA_DATA = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
PATH = f"{ROOT}/t-0/{LEDGER_FILE}"
BOTH = frozenset({"compact", "delete"})


@pytest.fixture
def world() -> Iterator[CleaningWorld]:
    made = CleaningWorld()
    made.start(segment_bytes=300, cleanup_policy=BOTH, retention_ms=-1, min_cleanable_dirty_ratio=0.01)
    yield made
    if made.running:
        made.stop()


def fill(log: UnifiedLog, count: int = 40, keys: int = 4) -> None:
    for number in range(count):
        put(log, f"k{number % keys}", "x" * 20)


def ledger_of(log: UnifiedLog) -> Ledger:
    assert log.local.open_ledger()
    value = log.ledger.value
    assert value is not None
    assert value.is_balanced
    assert value.live(log.log_end_offset) == len(data_records(log))
    return value


def written(system: FakeFileSystem) -> Any:
    data = system.contents().get(PATH)
    return None if data is None else json.loads(data)


def touched(system: FakeFileSystem) -> list[Operation]:
    return [operation for operation in system.trace if LEDGER_FILE in operation.path]


def test_appends_and_rolls_and_starts_touch_nothing(world: CleaningWorld) -> None:
    fill(world.log())
    assert world.log().ledger.value == Ledger()
    world.stop()
    reads = len(world.fake.reads)
    world.start()
    assert world.log().ledger.value == Ledger()
    assert touched(world.fake) == []
    assert not [operation for operation in world.fake.reads[reads:] if LEDGER_FILE in operation.path]


def test_retention_of_a_log_that_was_never_compacted_does_what_it_did_before(world: CleaningWorld) -> None:
    world.start(segment_bytes=300, cleanup_policy=frozenset({"delete"}), retention_ms=-1, retention_bytes=0)
    fill(world.log())
    reads = len(world.fake.reads)
    gone = world.log().delete_old_segments()
    assert sum(deletion.live for deletion in gone) == world.log().log_start_offset > 0
    assert (touched(world.fake), world.fake.reads[reads:]) == ([], [])
    assert ledger_of(world.log()).removed == {"retention": world.log().log_start_offset}
    start = world.log().log_start_offset
    log = world.crash()
    assert ledger_of(log).removed == {"retention": start}


def test_the_counts_are_on_disk_before_a_group_is_swapped_in(world: CleaningWorld) -> None:
    log = world.log()
    fill(log)
    log.roll()
    told: list[Any] = []

    def look(operation: Operation) -> None:
        if operation.kind == "rename" and operation.path.endswith(".log.cleaned"):
            told.append(written(world.fake))

    world.fake.fail_when(look)
    world.clean_all()
    assert told
    assert all(one["pending"]["removed"] for one in told)
    assert told[0]["removed"] == {}
    final = written(world.fake)
    assert (final["pending"], final["removed"], final["checkpoint"]) == (None, {"superseded": 36}, 40)
    assert ledger_of(log).live(40) == 4
    log = world.restart()
    assert ledger_of(log).removed == {"superseded": 36}


def test_a_pass_that_changes_nothing_leaves_a_file_and_a_start_counts_nothing(world: CleaningWorld) -> None:
    fill(world.log(), keys=1000)
    world.log().roll()
    world.clean_all()
    assert written(world.fake)["removed"] == {}
    log = world.restart()
    reads = len(world.fake.reads)
    assert log.local.open_ledger()
    assert {operation.path for operation in world.fake.reads[reads:]} == {PATH}


def test_delete_records_writes_before_and_once(world: CleaningWorld) -> None:
    log = world.log()
    fill(log)
    border = log.segments[3].base_offset
    log.increment_log_start_offset(border)
    log.delete_old_segments()
    assert len([operation for operation in touched(world.fake) if operation.kind == "rename"]) == 1
    assert (written(world.fake)["deleting"], written(world.fake)["first"]) == (border, 0)
    assert ledger_of(log).removed == {"delete-records": border}
    log = world.crash()
    assert ledger_of(log).removed == {"delete-records": border}
    log.update_config(world.log_config)


def test_deletions_are_booked_as_done_once_they_are_durable(world: CleaningWorld) -> None:
    """A power cut may bring a segment's name back for as long as its directory is not synced: it would be live, and gone."""
    log = world.log()
    log.update_config(replace(log.config, segment_bytes=150))
    for number in range(30):
        put(log, f"k{number}", "x" * 20)
    log.roll()
    world.clean_all()
    log.flush()
    for base in [segment.base_offset for segment in log.segments[1:3]]:
        world.fake.trace.clear()
        log.increment_log_start_offset(base)
        assert len(log.delete_old_segments()) == 1
        kinds = [(operation.kind, operation.path) for operation in world.fake.trace]
    # The second deletion's cause is written with the first one's segment as gone.
    writes = [number for number, (_, path) in enumerate(kinds) if path.startswith(PATH)]
    assert ("sync_directory", f"{ROOT}/t-0") in kinds[: writes[0]]


def test_a_ledger_that_cant_be_written_stops_a_swap_and_no_deletion(
    world: CleaningWorld, caplog: pytest.LogCaptureFixture
) -> None:
    log = world.log()
    fill(log)
    log.roll()
    world.fake.fail_when(lambda operation: OSError(errno.ENOSPC, "full") if LEDGER_FILE in operation.path else None)
    assert world.clean_once() is None
    assert "full" in world.cleaners.uncleanable()[0][1].cause
    assert ledger_of(log).removed == {}
    log.increment_log_start_offset(log.segments[2].base_offset)
    with caplog.at_level(logging.WARNING):
        assert len(log.delete_old_segments()) == 2
    assert f"{PATH} could not be written" in caplog.text
    assert list(ledger_of(log).removed) == ["delete-records"]
    world.fake.fail_when(lambda operation: None)
    world.time.advance(3_600_000)
    assert world.clean_all()
    assert set(written(world.fake)["removed"]) == {"delete-records", "superseded"}


def test_a_log_that_was_compacted_elsewhere_is_counted_by_the_first_pass(world: CleaningWorld) -> None:
    log = world.log()
    fill(log)
    log.roll()
    world.clean_all()
    fill(log)
    world.stop()
    world.fake.unlink(PATH)
    log = world.start().logs()[0]
    world.make_cleaner()
    reads = len(world.fake.reads)
    assert not log.local.open_ledger()
    assert world.fake.reads[reads:] == []
    log.roll()
    world.clean_all()
    assert ledger_of(log).removed == {"elsewhere": 36, "superseded": 40}
    log = world.crash()
    assert ledger_of(log).removed == {"elsewhere": 36, "superseded": 40}


def test_another_cleaner_is_noticed_by_its_checkpoint_and_by_the_sizes(world: CleaningWorld) -> None:
    """By the former the log is counted; the latter shows where the checkpoint went no further."""
    log = world.log()
    fill(log)
    log.roll()
    world.clean_all()
    fill(log)
    before = world.fake.contents()[PATH]
    log.roll()
    world.clean_all()
    world.stop()
    world.fake.put(PATH, before)  # as if the second pass had been another's
    log = world.start().logs()[0]
    assert not log.local.open_ledger()
    assert log.local.open_ledger(count=True)
    assert ledger_of(log).removed == {"superseded": 36, "elsewhere": 40}


def test_cleaning_that_starts_over_at_the_logs_start_is_no_other_cleaner(world: CleaningWorld) -> None:
    """DeleteRecords takes all but the active segment; the checkpoint follows, past what is left of the log."""
    log = world.log()
    fill(log)
    log.roll()
    world.clean_all()
    fill(log, 5)
    log.increment_log_start_offset(log.log_end_offset)
    log.delete_old_segments()
    log.roll()
    fill(log, 3)
    world.cleaners.examine(log)
    log = world.restart()
    reads = len(world.fake.reads)
    assert log.local.open_ledger()
    assert [operation.path for operation in world.fake.reads[reads:]] == [PATH]
    assert sum(ledger_of(log).removed.values()) == log.log_end_offset - len(data_records(log))


def test_the_first_retention_run_opens_it_for_who_asks_without_waiting(world: CleaningWorld) -> None:
    world.start(segment_bytes=300, cleanup_policy=frozenset({"delete"}), retention_ms=-1)
    log = world.log()
    fill(log)
    log.increment_log_start_offset(log.segments[3].base_offset)
    log.delete_old_segments()
    start = log.log_start_offset
    log = world.restart()
    assert log.ledger.value is None
    world.manager.delete_old_segments()
    assert log.ledger.value is not None
    assert log.ledger.value.removed == {"delete-records": start}


def test_a_file_that_is_damaged_costs_the_history_and_a_count(
    world: CleaningWorld, caplog: pytest.LogCaptureFixture
) -> None:
    fill(world.log())
    world.log().roll()
    world.clean_all()
    world.stop()
    world.fake.put(PATH, b"{")
    log = world.start().logs()[0]
    with caplog.at_level(logging.WARNING):
        assert log.local.open_ledger(count=True)
    assert f"{PATH} is not understood; records are counted anew" in caplog.text
    assert ledger_of(log).removed == {"elsewhere": 36}


@pytest.mark.damaged("a segment is damaged")
def test_a_count_that_fails_is_no_failure_of_the_log(world: CleaningWorld, caplog: pytest.LogCaptureFixture) -> None:
    log = world.log()
    fill(log)
    log.roll()
    world.clean_all()
    fill(log)
    log.roll()
    log.flush()
    segment = f"{ROOT}/t-0/{log.segments[-2].base_offset:020}.log"
    world.stop()
    world.fake.unlink(PATH)
    world.fake.put(segment, b"\xff" * len(world.fake.contents()[segment]))
    log = world.start().logs()[0]
    with caplog.at_level(logging.WARNING):
        assert not log.local.open_ledger(count=True)
    assert "the ledger is not known" in caplog.text
    log.increment_log_start_offset(log.segments[1].base_offset)
    assert len(log.delete_old_segments()) == 1


def test_truncation(world: CleaningWorld) -> None:
    log = world.log()
    fill(log)
    log.roll()
    world.clean_all()
    fill(log, 10)
    log.truncate_to(45)
    assert ledger_of(log).appended(45) == 45
    log.truncate_to(38)
    ledger = ledger_of(log)
    assert ledger.appended(log.log_end_offset) == log.log_end_offset + ledger.reused
    fill(log, 7)
    assert ledger_of(log).removed == {"superseded": 36}
    world.kill()
    log = world.start().logs()[0]
    assert log.local.open_ledger(count=True)
    assert ledger_of(log).removed == {"superseded": 36}
    log.truncate_fully_and_start_at(1000)
    fill(log, 3)
    assert (ledger_of(log).appended(1003), ledger_of(log).removed) == (3, {})


@pytest.mark.parametrize("topic", ["compact", "compact-lz4", "compact-txn", "compact-delete", "mixed"])
def test_a_directory_of_apache_kafka(topic: str) -> None:
    """What its cleaner took is elsewhere, what its retention took is retention's; appended = live + both."""
    system = FakeFileSystem()
    for path in [*KAFKA_DATA.glob("*"), *(KAFKA_DATA / f"{topic}-0").iterdir()]:
        if path.is_file():
            name = path.name.replace("kafka_clean", ".kafka_clean")
            system.put(f"{ROOT}/{name}" if path.parent == KAFKA_DATA else f"{ROOT}/{topic}-0/{name}", path.read_bytes())
    made = CleaningWorld(file_system=system)
    (log,) = made.start().logs()
    present = len(data_records(log)) + len(markers(log))
    assert log.local.open_ledger() == (topic == "mixed")
    assert log.local.open_ledger(count=True)
    ledger = log.ledger.value
    assert ledger is not None
    assert (ledger.appended(log.log_end_offset), ledger.live(log.log_end_offset)) == (log.log_end_offset, present)
    first = log.segments[0].base_offset
    expected = {"retention": first, "elsewhere": log.log_end_offset - first - present}
    assert ledger.removed == {cause: count for cause, count in expected.items() if count}
    assert (topic == "mixed") == ("elsewhere" not in ledger.removed)
    made.stop()
