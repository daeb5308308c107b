"""Rolling with no write arriving, retention and truncation as a log's own calls (more: test_unified_log, test_log_upkeep)."""

from __future__ import annotations

from typing import Any

import pytest
from support.cleaning import Producer
from support.fake_disk import KeepNone
from support.fake_filesystem import Operation, PowerCut
from support.logs import ROOT, World, append, read_records, values_of
from tidelog.storage.exceptions import KafkaStorageError, OffsetOutOfRangeError
from tidelog.storage.retention.plan import RetentionRecord, SegmentDeletion
from tidelog.storage.segment.names import parse_file_name

DAY = 86_400_000


def test_a_log_is_called_silent_only_when_nothing_came_between_two_looks() -> None:
    world = World()
    world.start(segment_ms=DAY)
    log = world.log()
    assert not log.local.roll_if_quiet()  # empty
    append(log, "a")
    world.time.advance(2 * DAY)
    assert not log.local.roll_if_quiet()  # something came since
    append(log, "b", timestamp=world.time.milliseconds() - 2 * DAY)
    assert not log.local.roll_if_quiet()
    assert log.local.roll_if_quiet()
    assert not log.local.roll_if_quiet()
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    world.stop()


def test_a_first_record_of_the_future_leaves_the_segments_own_age() -> None:
    world = World()
    world.start(segment_ms=DAY, message_timestamp_after_max_ms=2**63 - 1)
    log = world.log()
    append(log, "a", timestamp=4_102_444_800_000)
    log.local.roll_if_quiet()
    world.time.advance(DAY)
    assert not log.local.roll_if_quiet()
    world.time.advance(1)
    assert log.local.roll_if_quiet()
    world.stop()


def test_the_start_moves_up_to_the_high_watermark_and_not_beyond() -> None:
    world = World()
    world.start(segment_bytes=100, retention_ms=-1)
    log = world.log()
    for value in "abc":
        append(log, value * 50)
    assert log.increment_log_start_offset(2)
    assert not log.increment_log_start_offset(1)
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start_offset(4)
    assert [(d.base_offset, d.policy) for d in log.delete_old_segments()] == [(0, "start-offset"), (1, "start-offset")]
    world.stop()


def test_an_active_segment_that_is_written_to_while_retention_decides_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.start(retention_ms=DAY)
    log = world.log()
    append(log, "old")
    world.time.advance(2 * DAY)
    decide = RetentionRecord.plan

    def decide_and_append(*facts: Any) -> list[SegmentDeletion]:
        deletions = decide(*facts)
        assert [deletion.base_offset for deletion in deletions] == [0]
        append(log, "new")
        return deletions

    monkeypatch.setattr(RetentionRecord, "plan", decide_and_append)
    assert log.delete_old_segments() == []
    assert values_of(read_records(log, 0)) == [b"old", b"new"]
    assert log.segment_count == 1
    world.stop()


def test_after_a_roll_the_readers_of_the_closed_segment_are_told_that_the_log_goes_on() -> None:
    """As in Kafka: a fetch that waits for min_bytes is answered with the end of that segment, to which nothing is added."""
    world = World()
    world.start()
    log = world.log()
    append(log, "a")
    told = []
    for _ in range(2):
        info = log.read(0, 1000)
        told.append(info.on_older_segment)
        info.release()
        log.roll()
    assert told == [False, True]
    world.stop()


@pytest.mark.parametrize("end", ["flush", "close"])
def test_a_segment_that_retention_has_deleted_does_not_come_back_once_the_log_is_durable(end: str) -> None:
    """A power cut would bring its records back above the start of the log, which only the list of segments tells."""
    world = world_of_six_segments()
    log = world.log()
    log.increment_log_start_offset(1)
    assert len(log.delete_old_segments()) == 1
    log.flush() if end == "flush" else log.close()
    left = world.fake.rebuilt(KeepNone())
    assert not left.exists(f"{ROOT}/t-0/{0:020d}.log")
    assert left.exists(f"{ROOT}/t-0/{1:020d}.log")
    world.kill()


def world_of_six_segments() -> World:
    """One record of 50 bytes in each."""
    world = World()
    world.start(segment_bytes=100, retention_ms=-1)
    log = world.log()
    for value in "abcdef":
        append(log, value * 50)
    log.flush()
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2, 3, 4, 5]
    return world


@pytest.mark.damaged("a truncation is cut off at each call")
def test_a_truncation_that_is_cut_short_anywhere_leaves_no_hole() -> None:
    calls = 0
    while True:
        world = world_of_six_segments()
        world.fake.fail_at(calls + 1, PowerCut())
        try:
            world.log().truncate_to(2)
        except PowerCut:
            pass
        else:
            break
        # Every call is durable by the next one that counts, so two states are all there are: with the last and without.
        for state in (world.fake.kill(), world.fake.rebuilt(KeepNone())):
            names = (parse_file_name(name) for name in state.list_directory(f"{ROOT}/t-0"))
            bases = sorted(name.base_offset for name in names if name and name.suffix == ".log" and not name.stage)
            assert bases == list(range(len(bases))), f"after {calls} calls"
            assert len(bases) >= 3
            again = World(state)
            again.start(segment_bytes=100, retention_ms=-1)
            records = values_of(read_records(again.log(), 0))
            assert records == [value.encode() * 50 for value in "abcdef"[: len(records)]]
        calls += 1
    assert calls > 8  # three segments of three files, or there was nothing to cut short


def test_what_a_truncation_cut_off_does_not_come_back() -> None:
    """The recovery point stands at the cut: recovery would take the old records behind it for sound."""
    world = World()
    world.start(segment_bytes=10_000, retention_ms=-1)
    log = world.log()
    for value in "abcdef":
        append(log, value * 50)
    log.flush()
    assert log.truncate_to(2)
    path = log.log_directory.file(0, ".log")
    left = world.fake.rebuilt(KeepNone())
    assert left.contents()[path] == world.fake.contents()[path]
    assert len(left.contents()[path]) == log.segments[0].size
    world.stop()


def test_before_many_segments_go_the_new_start_of_the_log_is_on_disk() -> None:
    """A power cut may bring any of their files back: below the start they are not seen."""
    world = world_of_six_segments()
    log = world.log()
    log.increment_log_start_offset(4)
    world.fake.trace.clear()
    assert len(log.delete_old_segments()) == 4
    checkpoint = f"{ROOT}/log-start-offset-checkpoint"
    steps = [operation.detail if operation.detail == checkpoint else operation.kind for operation in world.fake.trace]
    assert checkpoint in steps, "it was not written"
    assert steps.index(checkpoint) < steps.index("rename", steps.index(checkpoint) + 1)
    assert all(
        not str(operation.detail).endswith(".deleted") for operation in world.fake.trace[: steps.index(checkpoint)]
    )
    assert world.fake.rebuilt(KeepNone()).contents()[checkpoint] == b"0\n1\nt 0 4\n"
    world.stop()


def test_before_the_one_segment_goes_that_tells_of_an_abort_the_new_start_of_the_log_is_on_disk() -> None:
    """Where a power cut brings its records back and not their index, readers would be given them as committed."""
    world = World()
    world.start(segment_bytes=1000, retention_bytes=1)
    log = world.log()
    producer = Producer(7)
    producer.send(log, (b"k", b"v"))
    producer.end(log, commit=False)
    log.roll()
    append(log, "a")
    log.flush()
    world.time.advance(0)
    world.fake.trace.clear()
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    checkpoint = f"{ROOT}/log-start-offset-checkpoint"
    steps = [operation.detail for operation in world.fake.trace if operation.kind == "rename"]
    assert checkpoint in steps, "it was not written"
    assert any(str(detail).endswith(".deleted") for detail in steps[steps.index(checkpoint) :])
    assert not any(str(detail).endswith(".deleted") for detail in steps[: steps.index(checkpoint)])
    world.stop()


def test_nothing_is_truncated_while_the_lowered_recovery_point_cannot_be_written() -> None:
    """Recovery takes what lies below the written one for sound: other records would get these offsets."""
    world = world_of_six_segments()
    log = world.log()
    world.manager.checkpoint_recovery_points()

    def no_checkpoint(operation: Operation) -> OSError | None:
        return OSError(28, "full") if "recovery-point-offset-checkpoint" in operation.path else None

    world.fake.fail_when(no_checkpoint)
    with pytest.raises(KafkaStorageError, match="not truncated"):
        log.truncate_to(2)
    assert (log.log_end_offset, log.segment_count) == (6, 6)
    assert len(read_records(log, 0)) == 6
    world.fake.heal()
    assert log.truncate_to(2)
    assert values_of(read_records(log, 0)) == [b"a" * 50, b"b" * 50]
    world.stop()


def test_a_truncation_to_where_the_log_was_rolled_forgets_the_producers_batches_behind() -> None:
    """Else the batch that is cut off would be answered as a duplicate when it is sent again, and be lost."""
    world = World()
    world.start()
    log = world.log()
    arguments = {"producer_id": 1, "producer_epoch": 0}
    append(log, "a", base_sequence=0, **arguments)
    log.roll()
    world.time.advance(1)
    append(log, "b", base_sequence=1, **arguments)
    log.truncate_to(1)
    entry = log.producers.entry(1)
    assert entry is not None
    assert entry.last_offset == 0
    assert append(log, "b", base_sequence=1, **arguments) == 1
    assert log.log_end_offset == 2


@pytest.mark.damaged("the disk fails in the middle of each truncation")
@pytest.mark.parametrize("offset", [5, 2, -1], ids=["one segment", "more", "all"])
def test_a_truncation_that_the_disk_has_cut_short_is_the_logs_last_change(offset: int) -> None:
    """Its ends are not what the files say, and what a failed sync has lost no later one brings back."""
    failed = 0
    for number in range(1, 100):
        world = world_of_six_segments()
        log = world.log()
        append(log, "not on the disk yet")
        world.manager.checkpoint_recovery_points()
        world.fake.fail_at(number, OSError(5, "input/output error"))
        try:
            log.truncate_fully_and_start_at(3) if offset < 0 else log.truncate_to(offset)
        except KafkaStorageError:
            world.fake.heal()
            has_failed = log.failure is not None
            failed += has_failed
            if has_failed:
                with pytest.raises(KafkaStorageError):
                    append(log, "behind it")
            else:
                assert log.log_end_offset == 7
            world.stop()
            assert world.fake.exists(f"{ROOT}/.kafka_cleanshutdown") != has_failed
        else:
            world.fake.heal()
            world.stop()
            if len(world.fake.trace) < number:
                break
        state = world.fake.kill()
        later = World(state)
        later.log_config = world.log_config
        later.start()
        found = values_of(read_records(later.log(), later.log().log_start_offset))
        whole = [*(value.encode() * 50 for value in "abcdef"), b"not on the disk yet"]
        first = whole.index(found[0]) if found else 0
        assert found == whole[first : first + len(found)]
        assert offset < 0 or not first
        later.stop()
    assert failed
