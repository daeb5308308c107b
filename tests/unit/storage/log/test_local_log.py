"""The files of a log by themselves: a `LocalLog` on the fake file system, with no watermarks, producers or log manager."""

from __future__ import annotations

import errno
import logging
import threading
import traceback
from collections.abc import Callable
from typing import NamedTuple

import pytest
from support.fake_disk import KeepNone
from support.fake_filesystem import FakeFileSystem, Operation
from support.mock_time import START_MS, MockScheduler, MockTime
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.exceptions import KafkaStorageError, LogClosedError
from tidelog.storage.index.time_index import TimestampOffset
from tidelog.storage.io.file_cache import FileCache
from tidelog.storage.ledger.keeper import LedgerKeeper
from tidelog.storage.log import reader
from tidelog.storage.log.local_log import TELL_MS, LocalLog, LogHooks
from tidelog.storage.segment.files import LogDirectory, SegmentFiles
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.segment.names import Hole
from tidelog.storage.segment.segment_list import SegmentList
from tidelog.storage.segment.swap import CleanedSegment
from tidelog.storage.values import LogOffsetMetadata

PATH = "/data/t-0"
DELAY_MS = 60_000
SIZE = len(build_batch([Record(0, START_MS, b"k", bytes(50))]))


class Machine(NamedTuple):
    fake: FakeFileSystem
    time: MockTime
    log: LocalLog

    def append(self, count: int = 1, *, timestamp: int = START_MS) -> None:
        """That many batches of one record each, one after the other."""
        for _ in range(count):
            offset = self.log.log_end_offset
            data = build_batch([Record(0, timestamp, b"k", bytes(50))], base_offset=offset)
            with self.log.lock:
                self.log.append(data, offset, offset, timestamp, self.time.milliseconds())

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments.view]

    def names(self, suffix: str = "") -> list[str]:
        """Files of the log whose names end so, without their directory."""
        return [path.removeprefix(f"{PATH}/") for path in self.fake.paths() if path.endswith(suffix)]

    def steps(self) -> list[tuple[str, str]]:
        """(kind, file's suffixes) of what was done to the disk since the trace was cleared."""
        return [(step.kind, step.path.rpartition("/")[2].lstrip("0123456789")) for step in self.fake.trace]


@pytest.fixture
def machine() -> Machine:
    """An empty log whose segments take three batches."""
    time = MockTime()
    fake = FakeFileSystem(time=time)
    fake.make_directory("/data")
    fake.sync_all()
    fake.make_directory(PATH)
    config = LogConfig(segment_bytes=3 * SIZE, segment_index_bytes=4096, file_delete_delay_ms=DELAY_MS)
    cache: FileCache[SegmentFiles] = FileCache(10)
    directory = LogDirectory(PATH, fake, cache, config)
    segments = SegmentList([LogSegment.create(directory, 0, created_ms=START_MS)])
    log = LocalLog(
        "t-0",
        directory,
        segments,
        log_end_offset=0,
        recovery_point=0,
        scheduler=MockScheduler(time),
        time=time,
        jitter=lambda _limit: 0,
    )
    log.mark_changed(is_new=True)
    log.save_recovery_point = lambda: True
    return Machine(fake, time, log)


def test_an_append_moves_the_end_and_a_flush_the_recovery_point(machine: Machine) -> None:
    machine.append(2)
    log = machine.log
    assert log.end == LogOffsetMetadata(2, 0, 2 * SIZE)
    assert (log.log_end_offset, log.recovery_point, log.size) == (2, 0, 2 * SIZE)
    assert log.flush() == 2
    assert (log.recovery_point, log.synced) == (2, log.end)
    left = machine.fake.rebuilt(KeepNone()).contents()
    assert len(left[f"{PATH}/{0:020d}.log"]) == 2 * SIZE


def test_a_batch_that_is_too_much_for_the_segment_begins_the_next(machine: Machine) -> None:
    seen: list[tuple[int, list[int], int]] = []
    machine.log.hooks = LogHooks(
        rolled=lambda base: seen.append((base, machine.bases, machine.log.end.segment_base_offset))
    )
    machine.append(7)
    assert machine.bases == [0, 3, 6]
    assert seen == [(3, [0, 3], 3), (6, [0, 3, 6], 6)], "its owner is told once the segment is in the list"
    assert machine.log.end == LogOffsetMetadata(7, 6, SIZE)


def test_an_empty_segment_is_not_rolled(machine: Machine) -> None:
    machine.log.roll()
    assert machine.bases == [0]
    machine.append()
    machine.log.roll()
    assert machine.bases == [0, 1]


def test_what_goes_with_records_is_saved_between_their_sync_and_the_recovery_point(machine: Machine) -> None:
    at: list[tuple[int, bool]] = []
    machine.append(4)
    machine.fake.trace.clear()

    def save() -> None:
        at.append((machine.log.recovery_point, ("sync", ".log") in machine.steps()))

    machine.log.hooks = LogHooks(flush=save)
    assert machine.log.flush() == 4
    assert at == [(0, True)]


def test_a_full_disk_for_what_goes_with_records_fails_the_flush_and_not_the_log(machine: Machine) -> None:
    machine.append()

    def no_room() -> None:
        raise KafkaStorageError("no room")

    machine.log.hooks = LogHooks(flush=no_room)
    with pytest.raises(KafkaStorageError, match="no room"):
        machine.log.flush()
    assert (machine.log.failure, machine.log.recovery_point) == (None, 0)
    machine.log.hooks = LogHooks()
    assert machine.log.flush() == 1
    left = machine.fake.rebuilt(KeepNone())
    assert left.exists(f"{PATH}/{0:020d}.log"), "the name of the new file is still made durable"


def test_after_a_sync_that_failed_nothing_is_appended(machine: Machine) -> None:
    machine.append()
    machine.fake.fail_when(lambda step: OSError(errno.EIO, "gone") if step.kind == "sync" else None)
    with pytest.raises(KafkaStorageError, match="sync failed"):
        machine.log.flush()
    machine.fake.heal()
    with pytest.raises(KafkaStorageError, match="takes no appends"):
        machine.append()
    with pytest.raises(KafkaStorageError, match="sync failed"):
        machine.log.flush()
    with pytest.raises(KafkaStorageError, match="sync failed"):
        machine.log.close()


def test_very_many_rolled_segments_are_synced_several_at_a_time(machine: Machine) -> None:
    machine.append(61)
    together = threading.Barrier(4)

    def wait(step: Operation) -> None:
        if step.kind == "sync" and step.path.endswith(".log") and f"{60:020d}" not in step.path:
            together.wait(30)  # fewer threads would wait for ever

    machine.fake.syncs_at_once = 4
    machine.fake.fail_when(wait)
    assert machine.log.flush() == 61
    machine.fake.heal()
    left = machine.fake.rebuilt(KeepNone()).contents()
    assert {path: len(data) for path, data in left.items() if path.endswith(".log")} == {
        f"{PATH}/{base:020d}.log": 3 * SIZE if base < 60 else SIZE for base in range(0, 61, 3)
    }


def test_a_sync_that_fails_among_very_many_leaves_the_recovery_point(machine: Machine) -> None:
    machine.append(61)
    machine.fake.syncs_at_once = 4
    bad = f"{PATH}/{30:020d}.timeindex"
    machine.fake.fail_when(lambda step: OSError(errno.EIO, "gone") if (step.kind, step.path) == ("sync", bad) else None)
    with pytest.raises(KafkaStorageError, match="sync failed"):
        machine.log.flush()
    assert machine.log.recovery_point == 0
    assert machine.log.failure is not None


def test_a_flush_that_ends_in_no_error_of_the_disk_leaves_the_directory_to_the_next(machine: Machine) -> None:
    """Its memory is short, say: the names of new segments are as little durable as before."""
    machine.append(61)
    machine.fake.fail_when(lambda step: MemoryError() if step.kind == "sync" and step.path.endswith(".index") else None)
    with pytest.raises(MemoryError):
        machine.log.flush()
    machine.fake.heal()
    machine.fake.trace.clear()
    machine.log.flush()
    assert machine.log.recovery_point == 61
    assert [step.path for step in machine.fake.trace if step.kind == "sync_directory"][:1] == [PATH]


def test_a_flush_that_takes_long_says_how_far_it_is(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.append(61)

    def take_long(step: Operation) -> None:
        if step.kind == "sync" and step.path.endswith(".log"):
            machine.time.advance(TELL_MS / 5)

    machine.fake.fail_when(take_long)
    with caplog.at_level(logging.INFO):
        machine.log.flush()
    told = [record.message for record in caplog.records if "are synced" in record.message]
    assert told == [f"t-0: {count} of 21 segments are synced" for count in (5, 10, 15, 20)]


def test_files_of_a_deleted_segment_lose_their_names_now_and_go_after_the_delay(machine: Machine) -> None:
    machine.append(7)
    machine.fake.put(f"{PATH}/beside", b"x")

    def mark(base_offset: int) -> list[str]:
        if base_offset:
            return []
        machine.fake.rename(f"{PATH}/beside", f"{PATH}/beside.deleted")
        return [f"{PATH}/beside.deleted"]

    machine.log.hooks = LogHooks(mark_deleted=mark)
    log = machine.log
    with log.deletion_lock:
        with log.lock:
            doomed = log.take_out_below(6)
        log.delete_files(doomed)
    assert machine.bases == [6]
    assert len(machine.names(".deleted")) == 7
    machine.time.advance(DELAY_MS - 1)
    assert len(machine.names(".deleted")) == 7
    machine.time.advance(1)
    assert machine.names(".deleted") == []


def test_a_cut_takes_segments_from_the_end_and_the_end_comes_down_after_it(machine: Machine) -> None:
    machine.append(8)
    machine.log.flush()
    log = machine.log
    machine.fake.trace.clear()
    with log.deletion_lock, log.flush_lock, log.lock:
        log.lower_recovery_point(2)
        end = log.cut(2)
        assert log.log_end_offset == 8
        log.end_at(end)
    assert [step.path for step in machine.fake.trace if step.kind == "rename" and ".log" in step.path] == [
        f"{PATH}/{base:020d}.log" for base in (6, 3)
    ]
    assert (machine.bases, log.end) == ([0], LogOffsetMetadata(2, 0, 2 * SIZE))
    assert (log.log_end_offset, log.recovery_point, log.truncations) == (2, 2, 1)
    machine.append(2)
    assert machine.bases == [0, 3]


def test_a_log_starts_over_at_any_offset(machine: Machine) -> None:
    machine.append(5)
    log = machine.log
    with log.deletion_lock, log.flush_lock, log.lock:
        log.lower_recovery_point(0)
        log.end_at(log.start_over(100))
    machine.append()
    assert (machine.bases, log.log_end_offset) == ([100], 101)


def cleaned(machine: Machine, old: list[LogSegment]) -> CleanedSegment:
    """`.cleaned` files with the first batch of the first of `old`."""
    base = old[0].base_offset
    data = machine.fake.contents()[f"{PATH}/{base:020d}.log"][:SIZE]
    for suffix, content in ((".log", data), (".index", b""), (".timeindex", b"")):
        file = machine.fake.open(f"{PATH}/{base:020d}{suffix}.cleaned", create=True)
        file.append(content)
        file.close()
    return CleanedSegment(base, len(data), START_MS, TimestampOffset(START_MS, base), 1)


@pytest.mark.parametrize("first", [0, 1], ids=["the limit's segment has gone", "it is shorter"])
def test_a_read_whose_limit_was_found_before_a_swap_ends_at_it_all_the_same(machine: Machine, first: int) -> None:
    """Behind a high watermark at the end of a closed segment are records that a power cut may still take."""
    machine.append(6)
    limit = machine.log.end
    assert limit == LogOffsetMetadata(6, 3, 3 * SIZE)
    machine.append()
    machine.log.flush()
    old = list(machine.log.segments.view[first:2])
    assert machine.log.replace_segments([cleaned(machine, old)], old)
    view = machine.log.segments.view
    found = reader.read(view, 3 * first, limit, 100 * SIZE, True)
    assert found is not None
    assert (found.segment_base_offset, found.size) == (3 * first, SIZE)
    found.release()
    assert reader.read(view, 5, limit, 100 * SIZE, True) is None


def test_cleaned_segments_take_the_place_of_two(machine: Machine) -> None:
    machine.append(7)
    machine.log.flush()
    told: list[tuple[str, int]] = []
    machine.log.hooks = LogHooks(
        leave=lambda end: told.append(("leave", end)), forget=lambda base: told.append(("forget", base))
    )
    old = list(machine.log.segments.view[:2])
    assert machine.log.replace_segments([cleaned(machine, old)], old)
    assert machine.bases == [0, 6]
    assert machine.log.size == 2 * SIZE
    assert told == [("leave", 6), ("forget", 3)]
    machine.time.advance(0)
    assert machine.names(".log") == [f"{0:020d}.log", f"{6:020d}.log"]


def test_a_truncation_meanwhile_makes_cleaned_segments_void(machine: Machine) -> None:
    machine.append(7)
    old = list(machine.log.segments.view[:2])
    new = cleaned(machine, old)
    assert not machine.log.replace_segments([new], old, truncations=1)
    assert machine.bases == [0, 3, 6]
    assert machine.names(".cleaned") == []


def test_what_goes_with_a_log_is_written_at_a_clean_stop_after_its_records(machine: Machine) -> None:
    machine.append(4)
    at: list[int] = []
    machine.log.hooks = LogHooks(close=lambda: at.append(machine.log.recovery_point))
    machine.log.close()
    assert at == [4]
    left = machine.fake.rebuilt(KeepNone()).contents()
    assert sum(len(data) for path, data in left.items() if path.endswith(".log")) == 4 * SIZE


@pytest.mark.parametrize("end", [LocalLog.close, LocalLog.abandon], ids=["closed", "deleted"])
@pytest.mark.parametrize("job", ["roll", "roll if quiet", "holes", "indexes", "ledger", "pass", "swap", "move"])
def test_background_work_leaves_the_files_of_a_log_that_has_ended_as_they_are(
    machine: Machine, end: Callable[[LocalLog], None], job: str
) -> None:
    """A clean stop has told which files are there; a deleted log's directory may be another log's by now."""
    machine.append(7)
    log = machine.log
    hole = Hole(0, 0, 1, 1)
    machine.fake.put(f"{PATH}/{hole.name}", b"damaged")
    with log.deletion_lock, log.lock:
        log.delete_files(log.take_out_below(3))
    log.holes = (hole,)
    log.roll_if_quiet()
    machine.time.advance(2 * log.config.segment_ms)
    old = list(log.segments.view[:1])
    new = cleaned(machine, old)
    log.directory.doubted[3] = old[0]
    machine.fake.put(f"{PATH}/{3:020d}.index", b"")
    log.ledger = LedgerKeeper(log.directory, 3, checkpoint=0)
    end(log)
    machine.fake.trace.clear()
    if job == "roll":
        with pytest.raises(KafkaStorageError, match="closed"):
            log.roll()
    elif job == "roll if quiet":
        assert not log.roll_if_quiet()
    elif job == "holes":
        log.forget_holes()
    elif job == "indexes":
        log.mend_indexes()
    elif job == "ledger":
        assert not log.open_ledger(count=True)
    elif job == "pass":
        log.save_ledger(3)
    elif job == "swap":
        assert not log.replace_segments([new], old)
    else:
        with pytest.raises(KafkaStorageError, match="closed"), log.standing_still():
            pass
    assert [step for step in machine.fake.trace if not step.path.endswith(".cleaned")] == []


def test_an_abandoned_log_holds_no_files_and_takes_nothing(machine: Machine) -> None:
    machine.append(4)
    machine.log.abandon()
    assert not machine.fake.open_files
    with pytest.raises(KafkaStorageError, match="closed"):
        machine.append()


def test_a_roll_that_the_disk_refuses_leaves_the_log_as_it_was(machine: Machine) -> None:
    machine.append(3)

    def refuse(step: Operation) -> OSError | None:
        return OSError(errno.ENOSPC, "full") if step.kind == "create" else None

    machine.fake.fail_when(refuse)
    with pytest.raises(KafkaStorageError, match="appending failed"):
        machine.append()
    assert (machine.bases, machine.log.log_end_offset, machine.log.failure) == ([0], 3, None)
    machine.fake.heal()
    machine.append()
    assert machine.bases == [0, 3]


def test_a_closed_log_keeps_nothing_of_those_who_came_late(machine: Machine) -> None:
    """One exception that is raised again and again keeps each one's frames, with what they were about to append."""
    machine.log.abandon()
    for _ in range(3):
        with pytest.raises(LogClosedError):
            machine.append()
    assert machine.log.failure is not None
    assert machine.log.failure.__traceback__ is None


def test_a_failed_log_keeps_nothing_of_those_who_came_late(machine: Machine) -> None:
    machine.append()
    machine.fake.fail_when(lambda step: OSError(errno.EIO, "gone") if step.kind == "sync" else None)
    with pytest.raises(KafkaStorageError, match="sync failed"):
        machine.log.flush()
    machine.fake.heal()
    failure = machine.log.failure
    assert failure is not None
    before = list(traceback.walk_tb(failure.__traceback__))
    for _ in range(3):
        with pytest.raises(KafkaStorageError, match="sync failed") as flushed:
            machine.log.flush()
        assert isinstance(flushed.value.__cause__, OSError)
        with pytest.raises(KafkaStorageError, match="sync failed"), machine.log.standing_still():
            pass
    for _ in range(3):
        with pytest.raises(KafkaStorageError, match="sync failed"):
            machine.log.close()
    assert machine.log.failure is failure
    assert list(traceback.walk_tb(failure.__traceback__)) == before
