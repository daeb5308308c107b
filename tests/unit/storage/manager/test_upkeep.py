from __future__ import annotations

import errno
import random
import threading
from collections.abc import Iterator

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, TOPIC_ID, World, append, batch
from support.mock_time import START_MS, MockTime
from support.patience import PATIENCE_S, until
from tidelog.config.loader import load_config
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.record_batch import MAGIC_AT
from tidelog.storage.log.local_log import LocalLog
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.scheduler import ThreadPoolScheduler
from tidelog.storage.values import SegmentView

DAY = 86_400_000


def test_the_defaults_are_the_documents() -> None:
    config = load_config(None, {}, [])
    assert config.log_retention_check_interval_ms == 300_000
    assert config.log_segment_delete_delay_ms == LogConfig().file_delete_delay_ms == 60_000
    assert LogConfig().retention_ms == 7 * DAY


@pytest.mark.parametrize(("check_ms", "initial_ms", "first_ms"), [(300_000, 30_000, 30_000), (5_000, 30_000, 5_000)])
def test_the_first_pass_comes_after_the_smaller_of_both_delays(check_ms: int, initial_ms: int, first_ms: int) -> None:
    world = World(log_retention_check_interval_ms=str(check_ms), log_initial_task_delay_ms=str(initial_ms))
    world.start(segment_bytes=100, retention_ms=0)
    log = world.log()
    append(log, "a")
    world.manager.start()
    world.time.advance(first_ms - 1)
    assert log.log_start_offset == 0
    world.time.advance(1)
    assert log.log_start_offset == 1
    append(log, "b")
    world.time.advance(check_ms - 1)
    assert log.log_start_offset == 1
    world.time.advance(1)
    assert log.log_start_offset == 2
    world.stop()


def test_deleted_files_wait_a_minute_for_the_task_delete_file(world: World) -> None:
    """All files of the segment get the suffix: log, both indexes, aborted transactions, producers."""
    world.start(segment_bytes=100, retention_ms=0)
    log = world.log("t2")
    for value in "abc":
        append(log, value * 50, producer_id=7, producer_epoch=0, base_sequence="abc".index(value))
    world.time.advance(10)  # snapshots are written in the background
    world.fake.write_new(f"{log.directory}/{1:020d}.txnindex", b"")
    log.delete_old_segments()
    assert world.time.waiting().count("delete-file") == 1

    def marked() -> set[str]:
        return {path.rpartition("/")[2] for path in world.fake.paths() if path.endswith(".deleted")}

    assert {
        f"{1:020d}{suffix}.deleted" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    } <= marked()
    world.time.advance(59_999)
    assert marked()
    world.time.advance(1)
    assert not marked()


# --- rolling with no write arriving ---


def test_a_silent_topic_rolls_when_segment_ms_has_passed(world: World) -> None:
    world.start(segment_ms=DAY, cleanup_policy=frozenset({"compact"}))
    log, silent_without_times = world.log("quiet"), world.log("timeless")
    append(log, "a")
    append(silent_without_times, "a", timestamp=-1, step=0)
    world.manager.delete_old_segments()  # takes note of where the logs end
    world.time.advance(DAY)
    world.manager.delete_old_segments()
    assert (log.segment_count, silent_without_times.segment_count) == (1, 1)
    world.time.advance(1)
    world.manager.delete_old_segments()
    assert (log.segment_count, silent_without_times.segment_count) == (2, 2)
    world.time.advance(10 * DAY)
    world.manager.delete_old_segments()
    assert log.segment_count == 2  # an empty segment is not rolled again


def test_a_topic_that_is_written_to_follows_its_messages_and_not_the_clock(world: World) -> None:
    """A replay of old records must not leave a segment behind with each look."""
    world.start(segment_ms=DAY)
    log = world.log("replay")
    for minute in range(10):
        append(log, "old", timestamp=START_MS - 1000 * DAY + minute)
        world.manager.delete_old_segments()
        world.time.advance(60_000)
    # retention.ms would take these in the first pass otherwise
    assert log.log_end_offset == 10
    replay = world.log("kept")
    world.start(segment_ms=DAY, retention_ms=-1)
    replay = world.log("kept")
    for minute in range(10):
        append(replay, "old", timestamp=START_MS - 1000 * DAY + minute)
        world.manager.delete_old_segments()
        world.time.advance(60_000)
    assert replay.segment_count == 1
    world.manager.delete_old_segments()
    assert replay.segment_count == 2


def test_jitter_makes_segments_roll_earlier_each_by_its_own(world: World) -> None:
    world.start(segment_ms=DAY, segment_jitter_ms=DAY // 2, segment_bytes=100, retention_ms=-1)
    log = world.log("t2")
    for index in range(20):
        append(log, "a" * 50, timestamp=START_MS + index)
    jitters = [segment.jitter_ms for segment in log.segments]
    assert all(0 <= jitter < DAY // 2 for jitter in jitters)
    assert len(set(jitters)) > 15
    active = log.segments[-1]
    due = active.first_timestamp() + DAY - active.jitter_ms
    world.manager.delete_old_segments()
    world.time.advance(due - world.time.milliseconds())
    world.manager.delete_old_segments()
    assert log.segments[-1] is active
    world.time.advance(1)
    world.manager.delete_old_segments()
    assert log.segments[-1] is not active


# --- several directories ---


class HangingDisk(FakeFileSystem):
    """Below /slow renames and syncs of names wait for the gate. `renamed` tells of retention in /fast."""

    gate: threading.Event
    renamed: threading.Event

    def _pass(self, path: object) -> None:
        if str(path).startswith("/slow"):
            assert self.gate.wait(PATIENCE_S)

    def rename(self, source: object, target: object) -> None:  # type: ignore[override]
        self._pass(source)
        super().rename(source, target)  # type: ignore[arg-type]
        if str(target).startswith("/fast") and str(target).endswith(".deleted"):
            self.renamed.set()

    def sync_directory(self, path: object) -> None:  # type: ignore[override]
        self._pass(path)
        super().sync_directory(path)  # type: ignore[arg-type]


def test_a_disk_that_hangs_holds_up_no_other() -> None:
    """Two threads; the slow directory has more to do than both could take."""
    time = MockTime()
    disk = HangingDisk(time=time)
    disk.gate, disk.renamed = threading.Event(), threading.Event()
    disk.gate.set()
    config = load_config(
        None,
        {},
        ["log.dirs=/slow,/fast", "log.initial.task.delay.ms=0", "log.retention.check.interval.ms=1"],
    )
    scheduler = ThreadPoolScheduler(2)
    manager = LogManager(config, disk, time, scheduler, randomness=random.Random(1))
    settings = LogConfig(segment_index_bytes=4096, segment_bytes=100, retention_bytes=100, flush_ms=0)
    manager.load(lambda _topic: settings)
    logs = [manager.get_or_create("t", number, TOPIC_ID, settings) for number in range(8)]
    slow = [log for log in logs if log.directory.startswith("/slow")]
    fast = [log for log in logs if log.directory.startswith("/fast")]
    assert (len(slow), len(fast)) == (4, 4)
    disk.gate.clear()
    try:
        for log in (*slow, *fast):
            for _ in range(4):
                data = batch("a" * 50)
                log.append_as_leader(data, 0, len(data))  # each rolls, and asks for a flush
        disk.renamed.clear()
        time.advance(1000)
        manager.start()
        assert disk.renamed.wait(PATIENCE_S), "retention of the other directory"
        until(lambda: all(log.recovery_point == log.log_end_offset for log in fast), "syncs of the other directory")
        assert not disk.gate.is_set()
        assert all(log.log_start_offset == 0 for log in slow)
    finally:
        disk.gate.set()
        manager.shutdown()
        scheduler.shutdown()


def test_new_partitions_go_where_the_fewest_are() -> None:
    world = World(directories=["/a", "/b", "/c"])
    world.start()
    homes = [world.log("t", number).directory[:2] for number in range(7)]
    assert sorted(homes) == ["/a", "/a", "/a", "/b", "/b", "/c", "/c"]
    world.manager.delete("t", 1)
    assert world.log("u").directory[:2] in ("/b", "/c")
    assert ROOT not in homes
    world.stop()


def test_a_wall_clock_that_is_set_back_puts_off_no_flush(world: World) -> None:
    world.start(flush_ms=1000)
    log = world.log()
    world.manager.start()
    append(log, "one")
    world.time.advance(1000)
    assert log.recovery_point == 1
    world.time.set_wall_clock(world.time.milliseconds() - 1_800_000)
    append(log, "two")
    world.time.advance(1000)
    assert log.recovery_point == 2
    world.stop()


def test_many_rolls_wait_for_one_flush(world: World) -> None:
    """A disk that is slower than the rolls must not get a queue of tasks in front of retention."""
    world.start(segment_bytes=100, retention_ms=-1)
    log = world.log("t2")
    for index in range(50):
        append(log, "a" * 50, producer_id=7, producer_epoch=0, base_sequence=index)
    assert world.time.waiting().count("flush-log") == 1
    world.time.advance(0)
    assert log.recovery_point == log.segments[-1].base_offset == 49
    snapshots = [path for path in world.fake.paths() if path.endswith(".snapshot")]
    assert len(snapshots) == 49
    append(log, "a" * 50)
    assert world.time.waiting().count("flush-log") == 1


# --- what keeps retention from its work ---


def test_a_damaged_segment_keeps_retention_from_no_log() -> None:
    """A look at the age of a segment reads the header that its time index names, which may have rotted since it was written."""
    world = World(damaged="a byte of a header has flipped")
    world.start(segment_bytes=400, retention_ms=DAY)
    for name in ("damaged", "sound"):
        for number in range(8):
            append(world.log(name), "a" * 100, timestamp=START_MS + number)
    world.stop()
    size = len(batch("a" * 100))
    world.fake.corrupt(f"{ROOT}/damaged-0/{0:020d}.log", size + MAGIC_AT, b"\xff")
    world.start(segment_bytes=400, retention_ms=DAY)
    world.time.advance(DAY + 8)
    assert world.manager.delete_old_segments() == 8
    assert [world.log(name).log_start_offset for name in ("damaged", "sound")] == [8, 8]
    world.stop()


def test_an_error_of_records_in_the_retention_of_one_log_is_told_and_the_next_log_has_its_turn(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.start(segment_bytes=100, retention_ms=0)
    damaged, sound = world.log("a"), world.log("b")
    for log in (damaged, sound):
        append(log, "a", timestamp=START_MS - 1)
    views = LocalLog.segment_views

    def segment_views(self: LocalLog) -> Iterator[SegmentView]:
        if self is damaged.local:
            raise CorruptRecordError("no message format has the magic 255")
        return views(self)

    monkeypatch.setattr(LocalLog, "segment_views", segment_views)
    assert world.manager.delete_old_segments() == 1
    assert (damaged.log_start_offset, sound.log_start_offset) == (0, 1)
    assert [record.message for record in caplog.records] == ["a-0: no message format has the magic 255"]


def test_a_log_is_written_to_whose_active_segment_has_a_damaged_first_header() -> None:
    world = World(damaged="a byte of a header has flipped")
    world.start()
    for number in range(3):
        append(world.log(), "a" * 5000, timestamp=START_MS + number)
    world.stop()
    world.fake.corrupt(f"{ROOT}/t-0/{0:020d}.log", MAGIC_AT, b"\xff")
    world.start()
    assert append(world.log(), "b") == 3
    world.stop()


def test_retention_makes_room_on_a_disk_that_has_none_for_the_file_of_a_roll(world: World) -> None:
    """Neither the roll of the active segment, which is to go too, nor that of a quiet log may keep what lies before it."""
    world.start(segment_bytes=400, retention_ms=DAY, segment_ms=DAY)
    log = world.log()
    for number in range(8):
        append(log, "a" * 100, timestamp=START_MS + number)
    world.manager.delete_old_segments()  # takes note of where the log ends
    world.time.advance(3 * DAY)
    world.fake.fail_when(
        lambda operation: OSError(errno.ENOSPC, "full") if operation.path.endswith(f"{8:020d}.log") else None
    )
    assert world.manager.delete_old_segments() == 3
    assert (log.log_start_offset, log.log_end_offset, log.failure) == (6, 8, None)
    assert world.manager.delete_old_segments() == 0
    world.fake.fail_when(None)
    assert world.manager.delete_old_segments() == 1
    assert log.log_start_offset == 8


def test_a_log_with_append_times_is_written_to_whose_last_records_are_damaged() -> None:
    """The first append after a start looks for the newest append time, in a closed segment where the active one is empty."""
    world = World(damaged="a byte of a header has flipped")
    world.start(message_timestamp_type="LogAppendTime")
    append(world.log(), "a")
    world.log().roll()
    world.stop()
    world.fake.corrupt(f"{ROOT}/t-0/{0:020d}.log", MAGIC_AT, b"\xff")
    world.start(message_timestamp_type="LogAppendTime")
    assert append(world.log(), "b") == 1
    world.stop()


def test_a_file_that_a_disk_does_not_remove_keeps_no_other_one(world: World) -> None:
    """Else the room of all that was deleted together with it is taken until a restart."""
    world.start(segment_bytes=100, retention_ms=0)
    log = world.log()
    for value in "abc":
        append(log, value * 50, timestamp=START_MS - 1)
    assert len(log.delete_old_segments()) == 3
    stuck = f"{0:020d}.index.deleted"
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "bad") if operation.kind == "unlink" and operation.path.endswith(stuck) else None
        )
    )
    with pytest.raises(OSError, match="bad"):
        world.time.advance(log.config.file_delete_delay_ms)
    assert [path.rpartition("/")[2] for path in world.fake.paths() if path.endswith(".deleted")] == [stuck]
