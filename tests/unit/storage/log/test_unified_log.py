from __future__ import annotations

import errno
import itertools
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.fake_filesystem import FakeFileSystem, Operation
from support.logs import ROOT, World, append, batch, read_records, values_of
from support.mock_time import START_MS
from support.patience import PATIENCE_S
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records import memory_records
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    FormatLacksFeatureError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
)
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record, iterate_batches
from tidelog.storage.exceptions import (
    InvalidProducerEpochError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
)
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.ledger.keeper import LedgerKeeper
from tidelog.storage.log import retention_executor
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.scheduler import ThreadPoolScheduler
from tidelog.storage.segment import file_records
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.values import AppendOrigin, LogAppendInfo

NEVER = 2**63 - 1


def stored(log: UnifiedLog, offset: int) -> bytes:
    info = log.read(offset, 1)
    assert info.file is not None
    data = info.file.pread(info.size, info.position)
    info.release()
    return data


# --- append ---


def test_offsets_are_given_out_without_gaps_and_read_back(world: World) -> None:
    log = world.log()
    assert [append(log, "a", "b"), append(log, "c"), append(log, "d", "e", "f")] == [0, 2, 3]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 6, 6)
    assert values_of(read_records(log, 0)) == [b"a", b"b", b"c", b"d", b"e", b"f"]


def test_a_slice_tells_whether_its_limit_lies_in_a_later_segment(world: World) -> None:
    log = world.log()

    def is_older(offset: int, limit_offset: int | None = None, **more: Any) -> bool:
        info = log.read(offset, 1 << 20, limit_offset=limit_offset, **more)
        info.release()
        return info.on_older_segment

    append(log, "a", "b")
    append(log, "c")
    assert not is_older(0)
    log.roll()
    append(log, "d")
    assert (is_older(0), is_older(2), is_older(3), is_older(4)) == (True, True, False, False)
    assert (is_older(0, limit_offset=2), is_older(0, limit_offset=3)) == (False, True)
    assert log.read(0, 1, min_one_message=False).on_older_segment, "nothing of it fits, and it is there all the same"


def test_the_answer_says_what_was_assigned(world: World) -> None:
    log = world.log()
    append(log, "a")
    data = batch("b", "c")
    info = log.append_as_leader(data, 0, len(data))
    assert info == (1, 2, -1, 0, 2, len(data), False)
    assert stored(log, 1) == bytes(data)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("topics_codec", ["producer", "gzip"])
def test_a_batch_of_exactly_max_message_bytes_is_taken_and_one_more_byte_is_not(
    world: World, compression: Compression, topics_codec: str
) -> None:
    data = batch(os.urandom(500), compression=compression)
    for limit in (len(data), len(data) - 1):
        # The size counts as it came; what another codec makes of it is a few bytes more or less.
        slack = 100 if topics_codec == "gzip" and limit == len(data) else 0
        world.start(max_message_bytes=limit + slack, compression_type=topics_codec)
        log = world.log(f"t{limit}")
        copy = bytearray(data)
        if limit == len(data):
            assert log.append_as_leader(copy, 0, len(copy)).first_offset == 0
        else:
            with pytest.raises(RecordTooLargeError, match=str(limit)):
                log.append_as_leader(copy, 0, len(copy))
            assert log.log_end_offset == 0


def test_a_batch_in_the_middle_of_a_request_is_patched_in_place(world: World) -> None:
    log = world.log()
    append(log, "a")
    data = batch("b")
    request = bytearray(b"head") + data + bytearray(b"tail")
    log.append_as_leader(request, 4, 4 + len(data))
    assert request[:4] + request[-4:] == b"headtail"
    assert stored(log, 1) == bytes(request[4:-4])


def test_append_time_replaces_the_records_times(world: World) -> None:
    world.start(message_timestamp_type="LogAppendTime")
    log = world.log("t2")
    world.time.advance(5000)
    data = batch("a", "b", timestamp=12)
    assert log.append_as_leader(data, 0, len(data)).log_append_time == START_MS + 5000
    assert [record.timestamp for record in read_records(log, 0)] == [START_MS + 5000] * 2


def test_what_must_not_be_appended_leaves_no_trace(world: World) -> None:
    world.start(max_message_bytes=300, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    log = world.log("t2")
    append(log, "a")
    good = batch("b")
    broken = bytearray(good)
    broken[-1] ^= 1
    for error, data in [
        (RecordTooLargeError, batch("x" * 400)),
        (CorruptRecordError, broken),
        (InvalidRecordError, good + good),
        (InvalidRecordError, good[:-3]),
        (InvalidTimestampError, batch("b", timestamp=START_MS - 1001)),
        (InvalidTimestampError, batch("b", timestamp=START_MS + 1001)),
    ]:
        with pytest.raises(error):
            log.append_as_leader(data, 0, len(data))
    assert (log.log_end_offset, log.size) == (1, len(good))
    assert append(log, "b") == 1


def test_limits_of_times_do_not_hold_for_records_without(world: World) -> None:
    world.start(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    assert append(world.log("t2"), "a", timestamp=-1, step=0) == 0
    assert append(world.log("t2"), "a", timestamp=START_MS - 1000, step=2000) == 1


def test_a_compacted_topic_takes_no_record_without_a_key(world: World) -> None:
    world.start(cleanup_policy=frozenset({"compact"}))
    log = world.log("t2")
    from tidelog.protocol.records.builder import build_batch
    from tidelog.protocol.records.record_batch import Record

    data = bytearray(build_batch([Record(0, START_MS, b"k", b"v"), Record(1, START_MS, None, b"v")]))
    with pytest.raises(InvalidRecordError) as caught:
        log.append_as_leader(data, 0, len(data))
    assert caught.value.record_index == 1


def test_a_topic_that_names_a_codec_gets_it(world: World) -> None:
    world.start(compression_type="zstd")
    log = world.log("t2")
    append(log, "a" * 500, "b" * 500)
    append(log, "c" * 500, compression=Compression.GZIP)
    already = batch("d" * 500, compression=Compression.ZSTD)
    log.append_as_leader(already, 0, len(already))
    records = read_records(log, 0)
    assert [record.value and record.value[:1] for record in records] == [b"a", b"b", b"c", b"d"]
    assert [record.offset for record in records] == [0, 1, 2, 3]
    for offset in (0, 2, 3):
        assert next(iter(iterate_batches(stored(log, offset)))).compression == Compression.ZSTD
    assert stored(log, 3) == bytes(already)  # never compressed twice


def test_a_batch_sent_again_gets_the_first_answer(world: World) -> None:
    log = world.log()
    append(log, "x")
    for sequence in range(3):
        append(log, "a", producer_id=7, producer_epoch=0, base_sequence=sequence)
    again = batch("a", producer_id=7, producer_epoch=0, base_sequence=1)
    info = log.append_as_leader(again, 0, len(again))
    assert (info.first_offset, info.last_offset, info.duplicate) == (2, 2, True)
    assert log.log_end_offset == 4
    with pytest.raises(OutOfOrderSequenceError):
        append(log, "a", producer_id=7, producer_epoch=0, base_sequence=9)
    assert log.log_end_offset == 4


def test_producers_are_known_after_stop_kill_and_truncation(world: World) -> None:
    world.start(segment_bytes=300)
    log = world.log("t2")
    for sequence in range(10):
        append(log, "a", producer_id=7, producer_epoch=0, base_sequence=sequence)
    for end in (world.kill, world.stop, world.kill):
        end()
        world.start(segment_bytes=300)
        log = world.log("t2")
        again = batch("a", producer_id=7, producer_epoch=0, base_sequence=9)  # a snapshot has only the last one
        info = log.append_as_leader(again, 0, len(again))
        assert (info.first_offset, info.duplicate) == (9, True)
    log.truncate_to(6)
    assert append(log, "a", producer_id=7, producer_epoch=0, base_sequence=6) == 6


@pytest.mark.parametrize("rolled", ["before", "by retention"])
def test_a_producer_is_known_after_a_kill_that_comes_right_after_retention(world: World, rolled: str) -> None:
    """The snapshot of the roll was still to be written when the records went."""
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=0, base_sequence=0)
    if rolled == "before":
        log.roll()
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    world.kill()
    world.start()
    again = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    info = world.log("t2").append_as_leader(again, 0, len(again))
    assert (info.first_offset, info.duplicate) == (0, True)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_batches_that_were_under_way_when_the_daemon_ended_are_known_though_a_snapshot_has_the_last_alone(
    world: World, end: str
) -> None:
    """It was OUT_OF_ORDER_SEQUENCE_NUMBER, for good: another producer's batches, markers and a roll are between."""
    world.start(segment_bytes=4000)
    log = world.log("t2")
    for sequence in range(10):
        append(log, "a", producer_id=7, producer_epoch=3, base_sequence=sequence)
        append(log, "b" * 100, producer_id=8, producer_epoch=3, base_sequence=sequence)
        if sequence == 6:
            log.roll()
    log.roll()
    getattr(world, end)()
    world.start(segment_bytes=4000)
    log = world.log("t2")

    def send_again(sequence: int, epoch: int = 3) -> tuple[int, bool]:
        again = batch("a", producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        info = log.append_as_leader(again, 0, len(again))
        return info.first_offset, info.duplicate

    assert [send_again(sequence) for sequence in range(5, 10)] == [
        (10, True),
        (12, True),
        (14, True),
        (16, True),
        (18, True),
    ]
    with pytest.raises(OutOfOrderSequenceError, match="sequence 4 does not follow 9"):
        send_again(4)
    assert send_again(10) == (20, False)
    assert send_again(6) == (12, True)
    with pytest.raises(OutOfOrderSequenceError):
        send_again(5)


def test_no_batch_of_an_earlier_epoch_is_found_in_the_log(world: World) -> None:
    log = world.log("t2")
    last = 2**31 - 1
    append(log, "a", producer_id=7, producer_epoch=2, base_sequence=last)
    append(log, "b", producer_id=7, producer_epoch=3, base_sequence=0)
    world.stop()
    world.start()
    again = batch("a", producer_id=7, producer_epoch=3, base_sequence=last)
    with pytest.raises(OutOfOrderSequenceError):
        world.log("t2").append_as_leader(again, 0, len(again))


def test_a_producer_that_steps_back_is_looked_for_in_the_log_once_and_not_far(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    headers_before = LogSegment.headers_before

    def counted(segment: LogSegment, offset: int) -> Any:
        headers = headers_before(segment, offset)
        looked.append(len(headers))
        return headers

    monkeypatch.setattr(LogSegment, "headers_before", counted)
    world.start(index_interval_bytes=200)
    log = world.log("t2")
    for sequence in range(400):
        append(log, "a" * 150, producer_id=7 + sequence % 2, producer_epoch=0, base_sequence=sequence // 2)
    world.stop()
    world.start(index_interval_bytes=200)
    log = world.log("t2")
    for _ in range(3):
        again = batch("a", producer_id=7, producer_epoch=0, base_sequence=100)
        with pytest.raises(OutOfOrderSequenceError):
            log.append_as_leader(again, 0, len(again))
    assert len(looked) == 1
    assert 10 <= looked[0] <= 130, "64 entries, of one or two batches each"


@pytest.mark.parametrize(("size", "segments"), [(60, 64), (20_000, 5)])
def test_a_producer_is_looked_for_in_few_segments_however_many_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int, segments: int
) -> None:
    """The look went through all of the log where its producer had but one batch: on the loop, for seconds."""
    looked: list[int] = []
    headers_before = LogSegment.headers_before

    def counted(segment: LogSegment, offset: int) -> Any:
        looked.append(len(headers := headers_before(segment, offset)))
        return headers

    monkeypatch.setattr(LogSegment, "headers_before", counted)
    world.start(segment_bytes=size)
    log = world.log("t2")
    for sequence in range(100 if size < 10_000 else 2_000):
        append(log, "a", producer_id=8, producer_epoch=0, base_sequence=sequence)
    append(log, "a", producer_id=7, producer_epoch=0, base_sequence=9)
    world.stop()
    world.start(segment_bytes=size)
    again = batch("a", producer_id=7, producer_epoch=0, base_sequence=8)
    with pytest.raises(OutOfOrderSequenceError):
        world.log("t2").append_as_leader(again, 0, len(again))
    assert 1 <= len(looked) <= segments


def test_a_producers_state_outlives_its_records_and_lasts_its_time() -> None:
    """KAFKA-9144, 7190, 7692: sequences wrap past 2^31 - 1; retention takes records, not what is known of their producer;
    that goes when producer.id.expiration.ms have passed, not before, and restarts make no difference.
    """
    hours = 3_600_000
    world = World(
        producer_id_expiration_ms=str(12 * hours),
        producer_id_expiration_check_interval_ms=str(hours),
        log_initial_task_delay_ms="0",
    )
    world.start(segment_bytes=200, retention_ms=hours)
    world.manager.start()
    log = world.log()
    last = 2**31 - 1
    for sequence in (last - 2, 1):  # four records: ... last, 0; then 1 ... 4
        append(log, *"abcd", producer_id=7, producer_epoch=0, base_sequence=sequence)

    def send_again(sequence: int) -> LogAppendInfo:
        again = batch(*"abcd", producer_id=7, producer_epoch=0, base_sequence=sequence)
        return log.append_as_leader(again, 0, len(again))

    assert [send_again(sequence).first_offset for sequence in (last - 2, 1)] == [0, 4]
    with pytest.raises(OutOfOrderSequenceError):
        send_again(last)
    world.time.advance(hours=2)
    assert (log.log_start_offset, log.log_end_offset) == (8, 8)
    for restart in (world.stop, world.kill):
        restart()
        world.start()
        world.manager.start()
        log = world.log()
        again = send_again(1)
        assert (again.first_offset, again.duplicate, log.log_end_offset) == (4, True, 8)
    world.time.advance(hours=9)
    assert send_again(1).duplicate
    world.time.advance(hours=4)  # a restart takes the snapshot's writing, an hour in, for a sign of life
    assert (send_again(1).duplicate, log.log_end_offset) == (False, 12)


def test_the_leader_epoch_is_in_the_batches_and_rises_with_each_start(world: World) -> None:
    log = world.log()
    append(log, "a", "b")
    for restart, expected in ((world.stop, 1), (world.kill, 2)):
        restart()
        world.start()
        log = world.log()
        assert log.leader_epoch == expected
        append(log, "c")
    headers = [next(iter(iterate_batches(stored(log, offset)))) for offset in (0, 2, 3)]
    assert [header.partition_leader_epoch for header in headers] == [0, 1, 2]
    assert [log.epoch_for_offset(offset) for offset in range(4)] == [0, 0, 1, 2]
    assert log.end_offset_for_epoch(1) == (1, 3)
    assert log.end_offset_for_epoch(2) == (2, 4)


def test_the_leader_epoch_does_not_go_back_where_a_power_cut_empties_the_log(world: World) -> None:
    """Found by the simulator (seed 21341): all records were deleted, and the log begins anew at a start beyond its end."""
    for _ in range(3):
        append(world.log(), "a")
        world.stop()
        world.start()
    log = world.log()
    known = log.leader_epoch
    append(log, "b", "c")
    log.raise_log_start_offset(log.log_end_offset)
    assert world.manager.checkpoint_log_start_offsets()
    for name, state in world.fake.power_cut_states(seeds=20):
        other = World(state, damaged="")
        other.start()
        found = other.log()
        assert (found.log_start_offset, found.log_end_offset) == (5, 5), name
        assert found.leader_epoch >= known, name
        assert append(found, "d") == 5
        assert found.end_offset_for_epoch(known - 1)[1] == 5, name


def test_a_log_with_the_greatest_leader_epoch_takes_appends(world: World) -> None:
    """Found by fuzzing: no checksum covers a batch's epoch, and one more than the greatest does not fit into a batch."""
    world.kill()
    world.file_system.put(f"{ROOT}/t-0/{0:020d}.log", bytes(batch("a", partition_leader_epoch=2**31 - 1)))
    world.start()
    assert append(world.log(), "b") == 1
    world.stop()
    world.start()
    assert append(world.log(), "c") == 2
    assert values_of(read_records(world.log(), 0)) == [b"a", b"b", b"c"]
    assert world.log().end_offset_for_epoch(2**31 - 1) == (2**31 - 1, 3)


# --- roll ---


def test_each_roll_condition_begins_a_segment(world: World) -> None:
    size = len(batch("a"))
    world.start(segment_bytes=2 * size, segment_ms=1000)
    by_size, by_time = world.log("size"), world.log("time")
    for _ in range(5):
        append(by_size, "a")
    assert [segment.base_offset for segment in by_size.segments] == [0, 2, 4]
    for timestamp in (0, 1000, 1001, 500):
        append(by_time, "a", timestamp=START_MS + timestamp)
    assert [segment.base_offset for segment in by_time.segments] == [0, 2]
    world.start(segment_index_bytes=24, index_interval_bytes=0)
    by_index = world.log("index")
    for _ in range(12):
        append(by_index, "a")
    assert len(by_index.segments) > 1


def test_new_settings_hold_for_the_next_append(world: World) -> None:
    """KAFKA-7366."""
    log = world.log()
    append(log, "a")
    append(log, "b")
    from tidelog.config.log_config import LogConfig

    log.update_config(LogConfig(segment_bytes=100))
    append(log, "c")
    assert [segment.base_offset for segment in log.segments] == [0, 2]


@pytest.mark.parametrize("how", ["plain", "checked", "prepared", "old"])
def test_settings_that_came_beside_an_append_that_hung_hold_for_the_next_one(world: World, how: str) -> None:
    """They waited for the scheduler's thread, and for the lock behind appends that came meanwhile."""
    log = world.log()
    data, messages = batch("x" * 500), message_set(b"x" * 500, magic=1)
    checked = log.check_batch(data, 0, len(data))
    prepared = log.prepare(messages, 0, len(messages))
    hangs, goes_on = threading.Event(), threading.Event()

    def append_that_hangs() -> None:
        with log.local.lock:
            hangs.set()
            assert goes_on.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(append_that_hangs)
        assert hangs.wait(PATIENCE_S)
        log.update_config(LogConfig(max_message_bytes=200))
        goes_on.set()
        under_way.result(PATIENCE_S)
        if how == "checked":
            assert log.append_checked(checked) is None
        elif how == "prepared":
            assert log.append_prepared(prepared) is None
        elif how == "plain":
            with pytest.raises(RecordTooLargeError):
                log.append_as_leader(data, 0, len(data))
        else:
            with pytest.raises(RecordTooLargeError):
                log.append_message_set(messages, 0, len(messages))
    assert log.log_end_offset == 0


def test_a_rolled_segments_indexes_are_trimmed_and_opened_read_only(world: World) -> None:
    world.start(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=4096)
    log = world.log("t2")
    sizes = {path: len(data) for path, data in world.fake.contents().items()}
    assert sizes[f"{ROOT}/t2-0/00000000000000000000.index"] == 4096
    while log.segment_count < 2:
        append(log, "a" * 50)
    sizes = {path: len(data) for path, data in world.fake.contents().items()}
    first = log.segments[0]
    files = first.acquire()
    assert files.offset_index.entries > 1
    assert sizes[f"{ROOT}/t2-0/00000000000000000000.index"] == 8 * files.offset_index.entries
    assert sizes[f"{ROOT}/t2-0/00000000000000000000.timeindex"] == 12 * files.time_index.entries
    assert not files.offset_index.writable
    assert not files.time_index.writable
    files.release()


def test_the_time_index_rises_though_producers_times_do_not_and_gets_its_last_entry_on_a_roll(world: World) -> None:
    """Its entries are a segment's largest timestamp so far and where that is, whatever came between."""
    times = [50, 40, 60, 10, 60, 55, 70, 0, 30]

    def entries(interval: int) -> list[tuple[int, int]]:
        world.start(index_interval_bytes=interval)
        log = world.log(f"every-{interval}")
        for time_ms in times:
            append(log, "a" * 50, timestamp=START_MS + time_ms)
        log.roll()
        files = log.segments[0].acquire()
        found = [(entry.timestamp - START_MS, entry.offset) for entry in files.time_index]
        files.release()
        return found

    assert entries(0) == [(50, 0), (60, 2), (70, 6)]
    assert entries(1 << 20) == [(70, 6)]


def test_an_idle_or_emptied_log_rolls_onto_no_existing_base_offset(world: World) -> None:
    """KAFKA-6388, 654, 6492."""
    log = world.log()
    log.roll()
    assert log.segment_count == 1
    append(log, "a")
    log.truncate_to(0)
    log.roll()
    assert log.segment_count == 1
    assert append(log, "a") == 0
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]


# --- read ---


def test_a_read_starts_with_the_batch_that_holds_the_offset(world: World) -> None:
    log = world.log()
    append(log, "a", "b", "c")
    append(log, "d")
    info = log.read(2, 10_000)
    assert info.file is not None
    assert (info.position, info.size) == (0, log.size)
    info.release()


def test_min_one_message_decides_about_a_batch_that_is_too_large(world: World) -> None:
    log = world.log()
    size = len(batch("a" * 100))
    for _ in range(3):
        append(log, "a" * 100)
    for offset in (0, 1):
        for max_bytes, expected in [
            (0, size),
            (1, size),
            (size, size),
            (size + 7, size + 7),
            (10**6, (3 - offset) * size),
        ]:
            info = log.read(offset, max_bytes)
            assert info.size == expected
            info.release()
        info = log.read(offset, size - 1, min_one_message=False)
        assert (info.file, info.size) == (None, 0)
    assert not any(file.leases > 1 for file in world.fake.open_files if file.path.endswith(".log"))


def test_reads_end_at_their_limit_and_outside_of_the_log_they_fail(world: World) -> None:
    log = world.log()
    for _ in range(4):
        append(log, "a")
    assert [record.offset for record in read_records(log, 0, limit_offset=2)] == [0, 1]
    assert log.read(2, 100, limit_offset=2).file is None
    assert log.read(3, 100, limit_offset=2).file is None
    assert log.read(4, 100).file is None
    for offset in (-1, 5):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 100)
    log.increment_log_start_offset(2)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(1, 100)


def test_a_limit_inside_of_a_batch_leaves_the_batch_out(world: World) -> None:
    log = world.log()
    append(log, "a")
    append(log, "b", "c", "d")
    assert [record.offset for record in read_records(log, 0, limit_offset=3)] == [0]


def test_a_fetch_in_flight_survives_retention_and_the_partitions_deletion(tmp_path: Path) -> None:
    world = World(RealFileSystem(), directories=[str(tmp_path)])
    world.start(segment_bytes=200, retention_ms=0, file_delete_delay_ms=0)
    log = world.log()
    for value in "abcdef":
        append(log, value * 50)
    expected = stored(log, 0)
    info = log.read(0, 1)
    world.time.advance(10)
    assert log.delete_old_segments()
    world.time.advance(10)
    assert not list(tmp_path.glob("t-0/*.deleted"))
    assert not (tmp_path / "t-0" / "00000000000000000000.log").exists()
    tail = log.log_end_offset
    append(log, "g")
    second = log.read(tail, 1)
    world.manager.delete("t", 0)
    world.time.advance(10)
    assert not list(tmp_path.glob("t-0*"))
    assert info.file is not None
    assert second.file is not None
    assert info.file.pread(info.size, info.position) == expected
    assert len(second.file.pread(second.size, second.position)) == second.size
    info.release()
    second.release()
    assert info.file.closed
    assert second.file.closed
    world.stop()


def world_with_a_race(event: str) -> tuple[World, UnifiedLog, list[str]]:
    """Six closed segments of one record and an active one. Whoever first opens a segment that `event` removes (retention
    below offset 2, truncation to 3, or both) is overtaken by it; then its path is in the list."""
    world = World()
    world.start(segment_bytes=100, retention_ms=-1, file_delete_delay_ms=0)
    log = world.log()
    for number, value in enumerate("abcdefg"):
        append(log, value * 50, timestamp=START_MS + number)
    world.stop()
    world.start()  # no file is open
    log = world.log()
    happened: list[str] = []
    bases = {"retention": (0, 1), "truncation": (4, 5), "both": (0, 1, 4, 5)}[event]
    doomed = {log.log_directory.file(base, ".log") for base in bases}
    original = world.fake.open

    def open_overtaken(path: str, **arguments: Any) -> Any:
        if not happened and path in doomed:
            happened.append(path)
            if event != "truncation":
                log.increment_log_start_offset(2)
                log.delete_old_segments()
            if event != "retention":
                log.truncate_to(3)
            world.time.advance(1)
            assert not world.fake.exists(path)
        return original(path, **arguments)

    world.fake.open = open_overtaken  # type: ignore[method-assign, assignment]
    return world, log, happened


@pytest.mark.parametrize("event", ["retention", "both"])
def test_a_reader_that_retention_overtakes_is_told_that_the_offset_has_gone(event: str) -> None:
    """KAFKA-9838: between the look at the list and the opening of the file."""
    _world, log, happened = world_with_a_race(event)
    with pytest.raises(OffsetOutOfRangeError, match="not within 2"):
        log.read(1, 1000)
    assert happened


def test_a_reader_that_truncation_overtakes_sees_the_log_as_it_is_then() -> None:
    world, log, happened = world_with_a_race("truncation")
    with pytest.raises(OffsetOutOfRangeError, match=r"not within 0\.\.3"):
        log.read(4, 1000)
    assert happened
    assert values_of(read_records(log, 0)) == [value.encode() * 50 for value in "abc"]
    assert append(log, "new") == 3
    world.stop()


@pytest.mark.parametrize(("event", "left"), [("retention", range(2, 7)), ("truncation", range(3)), ("both", [2])])
def test_a_look_up_that_is_overtaken_answers_from_what_is_left(event: str, left: Sequence[int]) -> None:
    """KAFKA-12153, 3510: by time, and for the largest timestamp."""
    target = 1 if event == "retention" else 4
    _world, log, happened = world_with_a_race(event)
    found = log.lookup_by_timestamp(START_MS + target)
    assert happened
    expected = next((number for number in left if number >= target), None)
    assert (found and found.offset) == expected
    _world, log, happened = world_with_a_race(event)
    largest = log.max_timestamp_offset()
    assert largest is not None
    assert largest.offset == left[-1]


@pytest.mark.parametrize("by", ["deletion", "retention"])
@pytest.mark.damaged("a name is put back")
def test_who_opens_files_late_that_are_deleted_does_not_keep_them_open(world: World, by: str) -> None:
    """Found by the simulator (seed 5799): the cache had them until others pushed them out, and the disk's room was not free."""
    world.start(file_delete_delay_ms=10_000)
    append(world.log(), "a")
    world.stop()
    world.start()
    segment = world.log().segments[0]
    if by == "deletion":
        world.manager.delete("t", 0)
    else:
        segment.mark_deleted()
        world.fake.rename(
            f"{ROOT}/t-0/{0:020d}.log.deleted", f"{ROOT}/t-0/{0:020d}.log"
        )  # opened just before it was renamed
    lease = segment.lease_file()
    assert lease.pread(10, 0)
    lease.release()
    assert not [file.path for file in world.fake.open_files if file.path.endswith(".log")]


def test_who_reads_the_largest_timestamp_while_the_first_record_comes_does_not_take_it_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator (seed 4908): retention went by an older one, and a wrong entry in the time index followed."""
    append(world.log(), "a", timestamp=START_MS)
    world.stop()
    world.start()
    log, agrees = world.log(), file_records.agrees
    late = START_MS + 1000

    def agrees_late(*asked: Any) -> bool:
        monkeypatch.setattr(file_records, "agrees", agrees)
        found = agrees(*asked)
        append(log, "b", timestamp=late)
        return found

    monkeypatch.setattr(file_records, "agrees", agrees_late)
    log.lookup_by_timestamp(late)
    assert log.log_end_offset == 2
    assert log.segments[0].largest_timestamp() == late
    log.roll()
    found = log.lookup_by_timestamp(late)
    assert found is not None
    assert found.offset == 1


@pytest.mark.damaged("reading it fails")
def test_a_disk_that_fails_under_a_reader_is_an_error_and_not_a_missing_offset(world: World) -> None:
    log = world.log()
    append(log, "a" * 50)
    world.stop()
    world.start()
    log = world.log()

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EIO, "broken")

    world.fake.open = broken  # type: ignore[method-assign]
    with pytest.raises(KafkaStorageError, match="reading at offset 0"):
        log.read(0, 1000)
    with pytest.raises(KafkaStorageError, match="looking up"):
        log.lookup_by_timestamp(START_MS)


def test_readers_race_with_rolls_truncation_and_retention(tmp_path: Path) -> None:
    """KAFKA-9838, 12153, 3510: four readers see whole batches, in order, or OFFSET_OUT_OF_RANGE; nothing else."""
    world = World(RealFileSystem(), directories=[str(tmp_path)])
    world.start(segment_bytes=1000, index_interval_bytes=100, segment_index_bytes=200, retention_bytes=6000)
    log = world.log()
    append(log, "0")
    failures: list[BaseException] = []
    done = threading.Event()

    def read(seed: int) -> None:
        offset = 0
        try:
            for step in itertools.count():
                if done.is_set() and step > 50:
                    return
                try:
                    info = log.read(offset, 500 + seed)
                    if step % 7 == 0:
                        log.lookup_by_timestamp(START_MS + offset)
                except OffsetOutOfRangeError:
                    offset = log.log_start_offset
                    continue
                if info.file is None:
                    offset = log.log_start_offset
                    continue
                data = info.file.pread(info.size, info.position)
                info.release()
                first = next(iter(iterate_batches(data)), None)
                if first is None:  # cut short by truncation under the reader
                    continue
                assert first.last_offset >= offset
                assert first.base_offset <= offset or offset < log.log_start_offset or seed < 0
                offset = first.last_offset + 1
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # races come a hundred times as often, and no thread keeps the others waiting
    try:
        for reader in readers:
            reader.start()
        # A second or so here; `make slow` goes on for ten minutes.
        end = time.monotonic() + float(os.environ.get("TIDELOG_STRESS_S", "0"))
        for step in itertools.takewhile(lambda step: step < 800 or time.monotonic() < end, itertools.count()):
            append(log, "x" * 60, timestamp=START_MS + log.log_end_offset)
            if step % 10 == 9:
                log.roll()
            if step % 50 == 49:
                log.delete_old_segments()
            if step % 200 == 199:
                log.truncate_to(log.log_end_offset - 3)
        done.set()
        for reader in readers:
            reader.join()
    finally:
        done.set()
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    world.stop()


# --- durability ---


def test_flush_messages_counts_records(world: World) -> None:
    """KAFKA-802: not batches."""
    world.start(flush_messages=5)
    log = world.log("t2")
    append(log, "a", "b", "c", "d")
    assert not log.needs_sync
    append(log, "e")
    assert log.needs_sync
    assert (log.high_watermark, log.log_end_offset) == (4, 5)


def test_the_high_watermark_waits_for_the_sync(world: World) -> None:
    world.start(flush_messages=1)
    log = world.log("t2")
    append(log, "a")
    append(log, "b")
    assert (log.needs_sync, log.high_watermark) == (True, 0)
    assert log.read(0, 100).file is None
    synced = log.flush()
    append(log, "c")
    assert log.complete_sync(synced) is True
    assert (log.high_watermark, log.log_end_offset) == (2, 3)
    assert [record.offset for record in read_records(log, 0)] == [0, 1]
    assert log.complete_sync(log.flush()) is False
    assert log.high_watermark == 3
    world.start(flush_messages=3)


def test_below_the_limit_all_is_readable_again_after_a_sync(world: World) -> None:
    world.start(flush_messages=3)
    log = world.log("t2")
    append(log, "a", "b", "c")
    synced = log.flush()
    append(log, "d")
    assert log.high_watermark == 0
    assert log.complete_sync(synced) is False
    assert log.high_watermark == 4
    append(log, "e")
    assert log.high_watermark == 5


def test_a_partial_sync_over_a_roll(world: World) -> None:
    world.start(flush_messages=1, segment_bytes=200)
    log = world.log("t2")
    for value in "abc":
        append(log, value * 60)
    synced = log.flush()
    for value in "de":
        append(log, value * 60)
    assert log.complete_sync(synced)
    assert [record.offset for record in read_records(log, 0)] == [0, 1, 2]


def test_the_recovery_point_moves_only_after_the_sync(world: World) -> None:
    """KAFKA-10101."""
    log = world.log()
    append(log, "a")
    seen: list[int] = []

    def note(operation: Operation) -> None:
        if operation.kind in ("sync", "sync_directory"):
            seen.append(log.recovery_point)

    world.fake.fail_when(note)
    assert log.flush() == 1
    assert seen
    assert set(seen) == {0}
    assert log.recovery_point == 1


def test_the_names_of_a_new_log_and_segment_are_durable_after_the_flush(world: World) -> None:
    """KAFKA-3968: whatever a power cut leaves, what was flushed is found."""
    world.start(segment_bytes=150)
    log = world.log("t2")
    append(log, "a")
    log.flush()
    append(log, "b" * 100)
    assert log.segment_count == 2
    log.flush()
    for name, state in world.fake.power_cut_states(seeds=20):
        other = World(state)
        other.start()
        assert values_of(read_records(other.log("t2"), 0)) == [b"a", b"b" * 100], name


def test_what_delete_records_took_does_not_come_back_when_one_segment_goes(world: World) -> None:
    """Its row leaves the checkpoint when the log begins at a segment: the old one's new name must be durable by then."""
    world.start(segment_bytes=150)
    log = world.log("t2")
    append(log, "a" * 100)
    append(log, "b" * 100)
    assert log.segment_count == 2
    log.flush()
    append(log, "c")
    log.flush()
    log.raise_log_start_offset(1)
    assert world.manager.checkpoint_log_start_offsets()
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    assert world.manager.checkpoint_log_start_offsets()
    for name, state in world.fake.power_cut_states(seeds=20):
        other = World(state, damaged="")
        other.start()
        assert other.log("t2").log_start_offset == 1, name


def test_what_delete_records_took_stays_in_a_checkpoint_that_comes_before_its_files_are_renamed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator (seed 6015): the list said already that the log begins at a segment, and the files did not."""
    world.start(segment_bytes=150)
    log = world.log("t2")
    append(log, "a" * 100)
    append(log, "b" * 100)
    log.flush()
    log.raise_log_start_offset(1)
    assert world.manager.checkpoint_log_start_offsets()
    states: list[tuple[str, FakeFileSystem]] = []

    def checkpointed(*_: Any) -> None:
        assert world.manager.checkpoint_log_start_offsets()
        states.extend(world.fake.power_cut_states(seeds=20))

    monkeypatch.setattr(LedgerKeeper, "delete", checkpointed)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    assert states
    for name, state in states:
        other = World(state, damaged="")
        other.start()
        assert other.log("t2").log_start_offset == 1, name


def test_a_producer_whose_snapshot_a_kill_prevented_is_known_after_retention_and_another_kill(world: World) -> None:
    """A start that begins behind the roll, since that was synced, makes no snapshot there: retention has to."""
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll()
    append(log, "other", timestamp=START_MS)
    log.flush()  # before the roll's own flush has come to its snapshot
    world.manager.checkpoint_recovery_points()
    world.kill()
    world.start(retention_ms=1000)
    log = world.log("t2")
    world.time.advance(milliseconds=100)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    world.kill()
    world.start()
    again = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    info = world.log("t2").append_as_leader(again, 0, len(again))
    assert (info.first_offset, info.duplicate) == (0, True)


def test_offsets_are_not_given_again_where_a_power_cut_takes_the_names_of_a_roll_and_a_deletion(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator (seed 2091): the name of the next segment was not durable yet when the last one went."""
    world.start(segment_bytes=1000, retention_ms=10, file_delete_delay_ms=0)
    log = world.log("t2")
    append(log, "a")
    log.flush()
    world.time.advance(1000)
    # The roll's flush has taken the snapshot along, and has not come to the directory yet.
    monkeypatch.setattr(retention_executor, "_keep_producers", lambda *_: None)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    for name, state in world.fake.power_cut_states(seeds=40):
        other = World(state, damaged="")
        other.start()
        assert other.log("t2").log_end_offset == 1, name


def test_a_failed_sync_stops_the_log(world: World) -> None:
    world.start(flush_messages=1)
    log = world.log("t2")
    append(log, "a")
    world.fake.fail_when(lambda operation: OSError(errno.EIO, "broken") if operation.kind == "sync" else None)
    with pytest.raises(KafkaStorageError, match="sync failed"):
        log.flush()
    world.fake.heal()
    assert (log.recovery_point, log.high_watermark) == (0, 0)
    with pytest.raises(KafkaStorageError, match="until a restart"):
        append(log, "b")
    assert log.log_end_offset == 1


def test_a_snapshot_that_a_full_disk_kept_from_being_written_is_written_by_the_stop(world: World) -> None:
    """Else no producer is known after the start, and a batch that is sent again is appended again."""
    log = world.log()
    append(log, "a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll()
    world.fake.fail_when(
        lambda operation: OSError(errno.ENOSPC, "full") if "leader-epoch-checkpoint" in operation.path else None
    )
    with pytest.raises(OSError, match="full"):
        world.time.advance(0)  # the checkpoint itself
    with pytest.raises(KafkaStorageError, match="no room"):
        world.time.advance(0)  # the roll's flush
    world.fake.heal()
    assert log.failure is None
    # Neither listed nor held: only what is on disk, or about to be, counts as a snapshot.
    assert log.producers.snapshot_offsets == []
    world.stop()
    world.start()
    again = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    info = world.log().append_as_leader(again, 0, len(again))
    assert (info.first_offset, info.duplicate) == (0, True)


def test_a_full_disk_at_any_call_of_an_append_gives_no_offset_twice(world: World) -> None:
    """KAFKA-7866: fail each mutating call of an append that rolls and indexes, then go on."""
    for fail_at in range(1, 14):
        world.start(segment_bytes=700, index_interval_bytes=0, segment_index_bytes=4096)
        log = world.log(f"t{fail_at}")
        for _ in range(3):
            append(log, "x" * 100)
        before = log.log_end_offset
        world.fake.fail_at(fail_at, OSError(errno.ENOSPC, "full"))
        appended = []
        for _ in range(6):
            try:
                appended.append(append(log, "y" * 100))
            except KafkaStorageError:
                assert log.log_end_offset == before + len(appended)
        world.fake.heal()
        appended.append(append(log, "z"))
        assert appended == list(range(before, log.log_end_offset))
        records = read_records(log, 0)
        assert [record.offset for record in records] == list(range(log.log_end_offset))
        world.kill()
        world.start(segment_bytes=700, index_interval_bytes=0, segment_index_bytes=4096)
        assert read_records(world.log(f"t{fail_at}"), 0) == records
        for offset in range(len(records)):
            assert read_records(world.log(f"t{fail_at}"), offset)[0].offset == offset


def test_a_roll_of_which_a_file_stays_is_the_last_append_before_a_restart(world: World) -> None:
    """The segment went on beyond the base of the file that stayed, and the next start lost what was acknowledged there."""
    world.start(segment_bytes=300)
    log = world.log()
    appended = [append(log, "x" * 100)]
    left = log.local.directory.file(log.log_end_offset, ".log")
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "bad")
            if operation.path.endswith(".index") or (operation.kind, operation.path) == ("unlink", left)
            else None
        )
    )
    with pytest.raises(KafkaStorageError, match="appending failed"):
        append(log, "x" * 200)
    world.fake.heal()
    assert world.fake.exists(left)
    with pytest.raises(
        KafkaStorageError, match=r"takes no appends until a restart: .* of a roll that failed can.t be removed"
    ):
        append(log, "y")
    for end in (world.kill, world.stop):
        end()
        world.start(segment_bytes=300)
        log = world.log()
        appended.append(append(log, "z" * 100))
    assert appended == [0, 1, 2]
    assert [record.offset for record in read_records(log, 0)] == [0, 1, 2]


# --- deletion ---


@pytest.mark.parametrize("ways", ["DeleteRecords", "retention"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_deleted_segment_whose_files_stay_takes_nothing_with_it_and_does_not_come_back(
    world: World, ways: str, end: str
) -> None:
    """The next start went on from it: it cut the log at its end, with all that was behind; or it read it again."""
    world.start(segment_bytes=300, retention_ms=1000)
    log = world.log("t2")
    old = START_MS - 5000 if ways == "retention" else START_MS
    for number in range(6):
        append(log, "x" * 200, timestamp=old if number < 4 else START_MS)
    assert [segment.base_offset for segment in log.segments] == list(range(6))
    if ways == "DeleteRecords":
        log.increment_log_start_offset(4)
        assert world.manager.checkpoint_log_start_offsets()
    stays = log.local.directory.file(1, ".log")
    world.fake.fail_when(
        lambda operation: OSError(errno.EIO, "bad") if operation.kind == "rename" and operation.path == stays else None
    )
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0, 1, 2, 3]
    world.fake.heal()
    world.manager.checkpoint_log_start_offsets()
    getattr(world, end)()
    world.start(segment_bytes=300)
    log = world.log("t2")
    assert (log.log_start_offset, log.log_end_offset, log.holes) == (4, 6, ())
    assert [record.offset for record in read_records(log, 4)] == [4, 5]


def leave_a_file(world: World) -> UnifiedLog:
    """Of segments 0 to 6 retention takes the first four, of which 1 to 3 stay on the disk; 4 is old in three seconds."""
    world.start(segment_bytes=300, retention_ms=1000)
    log = world.log("t2")
    for number in range(7):
        append(log, "x" * 200, timestamp=START_MS - 5000 if number < 4 else START_MS + (4000 if number > 4 else 0))
    world.time.advance(0)
    stays = log.local.directory.file(1, ".log")
    world.fake.fail_when(
        lambda operation: OSError(errno.EIO, "bad") if operation.kind == "rename" and operation.path == stays else None
    )
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0, 1, 2, 3]
    world.fake.heal()
    log.flush()
    world.time.advance(milliseconds=3000)
    return log


@pytest.mark.parametrize("is_saved", [True, False], ids=["kill", "bad disk and kill"])
def test_a_segment_that_goes_after_others_have_stayed_leaves_no_gap_behind_them(world: World, is_saved: bool) -> None:
    """It was renamed before the start offset was written: the next start took the gap for the end, and cut the log there."""
    log = leave_a_file(world)

    def no_checkpoint(operation: Operation) -> OSError | None:
        is_it = "log-start-offset-checkpoint" in operation.path
        return OSError(errno.EIO, "bad") if is_it and not is_saved else None

    world.fake.fail_when(no_checkpoint)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [4]
    world.fake.heal()
    world.kill()
    world.start(segment_bytes=300)
    log = world.log("t2")
    assert log.log_end_offset == 7
    assert [record.offset for record in read_records(log, log.log_start_offset)][-2:] == [5, 6]


def test_a_start_keeps_no_file_open_of_the_segments_that_it_removes(world: World) -> None:
    assert leave_a_file(world).delete_old_segments()
    world.time.advance(days=1)
    world.stop()
    world.start(segment_bytes=300)
    there = set(world.fake.paths())
    assert [file.path for file in world.fake.open_files if file.path not in there] == []


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("end", ["power cut", "kill"])
@pytest.mark.damaged("a power cut takes what nobody has synced")
def test_what_retention_took_first_stays_deleted_once_delete_records_has_said_so(
    world: World, end: str, seed: int
) -> None:
    """DeleteRecords found the log at a start that retention had not made durable, and wrote nothing."""
    world.start(segment_bytes=300, retention_ms=1000)
    log = world.log("t2")
    for number in range(3):
        append(log, "x" * 200, timestamp=START_MS - 5000 if not number else START_MS)
    log.flush()
    if end == "kill":  # between the new start and the rename
        log.local.deletion_lock.acquire()
        log.raise_log_start_offset(1)
        log.local.take_out_below(1)
    else:
        assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    assert not log.increment_log_start_offset(1)
    assert world.manager.note_log_starts([("t2", 0)]) == set()
    world.kill() if end == "kill" else world.cut_power(seed)
    world.start(segment_bytes=300)
    assert world.log("t2").log_start_offset == 1


def test_retention_leaves_a_log_alone_that_has_failed(world: World) -> None:
    """It went on with rolls and deletions, whose producer snapshots a failed log does not write any more."""
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=0, base_sequence=0)
    world.fake.fail_when(lambda operation: OSError(errno.EIO, "bad") if operation.kind == "sync" else None)
    with pytest.raises(KafkaStorageError):
        log.flush()
    world.fake.heal()
    assert log.delete_old_segments() == []
    world.kill()
    world.start(retention_ms=1000)
    log = world.log("t2")
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    world.kill()
    world.start()
    assert world.log("t2").producers.entry(7) is not None


def no_room_for_snapshots(operation: Operation) -> OSError | None:
    return OSError(errno.ENOSPC, "full") if operation.path.endswith(".snapshot.tmp") else None


def test_retention_makes_room_on_a_full_disk_though_a_snapshot_has_none(world: World) -> None:
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=0, base_sequence=0)
    world.fake.fail_when(no_room_for_snapshots)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    assert (log.log_start_offset, log.local.failure) == (1, None)


def test_a_producer_is_known_after_a_kill_once_the_room_that_retention_made_is_there(world: World) -> None:
    """Found by the simulator (seed 19810): the snapshot that had no room was never written, and its segments were gone."""
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=3, base_sequence=5)
    world.fake.fail_when(no_room_for_snapshots)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    assert log.delete_old_segments() == []  # there is still none
    world.fake.fail_when(None)
    assert log.delete_old_segments() == []
    writes = len(world.fake.trace)
    assert log.delete_old_segments() == []
    assert len(world.fake.trace) == writes, "it is owed no more"
    world.kill()
    world.start()
    late = batch("late", producer_id=7, producer_epoch=2, base_sequence=0)
    with pytest.raises(InvalidProducerEpochError):
        world.log("t2").append_as_leader(late, 0, len(late))


def test_a_producer_is_known_after_a_kill_though_there_was_no_room_in_several_passes_of_retention(world: World) -> None:
    """What is owed of the first pass has to be in what the second one owes: nothing in the log tells of that producer."""
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=3, base_sequence=5)
    world.fake.fail_when(no_room_for_snapshots)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    append(log, "b", timestamp=START_MS - 5000, producer_id=8, producer_epoch=4, base_sequence=0)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [1]
    world.fake.fail_when(None)
    assert log.delete_old_segments() == []
    world.kill()
    world.start()
    log = world.log("t2")
    for producer, epoch in ((7, 2), (8, 3)):
        late = batch("late", producer_id=producer, producer_epoch=epoch, base_sequence=0)
        with pytest.raises(InvalidProducerEpochError):
            log.append_as_leader(late, 0, len(late))


def test_a_snapshot_that_is_owed_is_written_no_more_once_its_segment_has_gone_too(world: World) -> None:
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a", timestamp=START_MS - 5000, producer_id=7, producer_epoch=3, base_sequence=5)
    world.fake.fail_when(no_room_for_snapshots)
    log.delete_old_segments()
    append(log, "b", timestamp=START_MS - 5000, producer_id=7, producer_epoch=3, base_sequence=6)
    world.fake.fail_when(None)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [1]
    world.time.advance(hours=1)
    assert [path for path in world.fake.paths() if ".snapshot" in path] == [
        f"{ROOT}/t2-0/00000000000000000002.snapshot"
    ]
    assert log.producers.snapshot_offsets == [2]


def test_retention_reaches_the_active_segment_with_no_write_arriving(world: World) -> None:
    """KAFKA-15047."""
    world.start(retention_ms=1000)
    log = world.log("t2")
    append(log, "a")
    world.time.advance(1002)
    assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0]
    assert (log.log_start_offset, log.log_end_offset, log.size) == (1, 1, 0)
    assert append(log, "b", timestamp=world.time.milliseconds()) == 1


def test_file_times_count_only_without_timestamps_and_survive_a_restart(world: World) -> None:
    """KAFKA-3802."""
    world.start(retention_ms=10_000, segment_bytes=100)
    log = world.log("t2")
    append(log, "a", timestamp=-1, step=0)
    append(log, "b", timestamp=-1, step=0)
    path = f"{ROOT}/t2-0/00000000000000000000.log"
    written = world.fake.stat(path).modified_ms
    world.time.advance(6000)
    world.kill()
    world.start(retention_ms=10_000, segment_bytes=100)
    assert world.fake.stat(path).modified_ms == written
    assert world.log("t2").delete_old_segments() == []
    world.time.advance(4002)
    assert [deletion.base_offset for deletion in world.log("t2").delete_old_segments()] == [0, 1]


def test_files_go_after_the_delay(world: World) -> None:
    world.start(segment_bytes=100, retention_bytes=100, file_delete_delay_ms=5000)
    log = world.log("t2")
    for _ in range(3):
        append(log, "a" * 50)
    log.delete_old_segments()
    marked = [path for path in world.fake.paths() if path.endswith(".deleted")]
    assert len([path for path in marked if ".log." in path]) == 2
    world.time.advance(4999)
    assert [path for path in world.fake.paths() if path.endswith(".deleted")] == marked
    world.time.advance(1)
    assert not [path for path in world.fake.paths() if path.endswith(".deleted")]


@pytest.mark.parametrize("index_bytes", [24, 1 << 20])
def test_retention_bytes_is_each_partitions_and_counts_log_files_alone(world: World, index_bytes: int) -> None:
    """Preallocated or filled indexes make no difference."""
    size = len(batch("a" * 50))
    settings = {"segment_bytes": size, "index_interval_bytes": 0, "segment_index_bytes": index_bytes}
    world.start(retention_bytes=3 * size, **settings)
    logs = [world.manager.get_or_create("sized", partition, UUID(int=9), world.log_config) for partition in (0, 1)]
    for log in logs:
        for _ in range(5):
            append(log, "a" * 50)
        assert [deletion.base_offset for deletion in log.delete_old_segments()] == [0, 1]
        assert log.size == 3 * size


@pytest.mark.parametrize("what", ["segments", "topic"])
def test_with_no_delay_files_go_at_once_and_a_stop_ends(tmp_path: Path, what: str) -> None:
    """KAFKA-16588: with the pool's own threads, which a task that is due again and again would keep for ever."""

    class ThreadedWorld(World):
        def make_manager(self) -> LogManager:
            self.scheduler = ThreadPoolScheduler(2)  # type: ignore[assignment]
            return LogManager(self.config, self.file_system, self.time, self.scheduler)

    world = ThreadedWorld(RealFileSystem(), directories=[str(tmp_path)])
    world.start(segment_bytes=100, retention_bytes=100, file_delete_delay_ms=0)
    log = world.log()
    for value in "abc":
        append(log, value * 50)
    if what == "segments":
        assert len(log.delete_old_segments()) == 2
        left = {f"{2:020d}.log"}
    else:
        world.manager.delete("t", 0)
        left = set()
    # Until nothing is due any more: no period of a real second is waited for, only a hang would take as long.
    assert world.scheduler.settle(PATIENCE_S)
    assert {path.name for path in tmp_path.glob("t-*/*") if ".log" in path.name} == left
    stop = threading.Thread(target=world.stop, daemon=True)
    stop.start()
    stop.join(PATIENCE_S)
    assert not stop.is_alive()
    assert world.scheduler.threads == 0


def test_the_end_is_kept_when_everything_was_deleted(world: World) -> None:
    """KAFKA-8306."""
    for restart in (world.stop, world.kill):
        log = world.log()
        first = append(log, "a", "b")
        log.increment_log_start_offset(log.log_end_offset)
        world.manager.checkpoint_log_start_offsets()
        log.delete_old_segments()
        restart()
        world.start()
        log = world.log()
        assert (log.log_start_offset, log.log_end_offset) == (first + 2, first + 2)
        assert append(log, "c") == first + 2


def test_delete_records_stays_at_or_below_the_high_watermark(world: World) -> None:
    world.start(flush_messages=1)
    log = world.log("t2")
    append(log, "a")
    with pytest.raises(OffsetOutOfRangeError):
        log.increment_log_start_offset(1)
    log.complete_sync(log.flush())
    assert log.increment_log_start_offset(1)
    assert not log.increment_log_start_offset(1)
    assert not log.increment_log_start_offset(0)


def test_delete_records_into_an_open_transaction_leave_no_stable_offset_below_the_start(world: World) -> None:
    log = world.log()
    append(log, "a", "b", producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, "x", "y", "z")
    assert log.last_stable_offset == 0
    log.increment_log_start_offset(4)
    world.manager.checkpoint_log_start_offsets()
    for restart in (world.stop, world.kill):
        assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (4, 4, 5)
        assert read_records(log, 4, limit_offset=log.last_stable_offset) == []
        restart()
        world.start()
        log = world.log()
    assert log.last_stable_offset == 4


def test_an_index_entry_comes_after_more_than_the_interval_and_so_does_one_that_recovery_makes(world: World) -> None:
    size = len(batch("a" * 50))
    for interval, entries in ((2 * size - 1, [2, 4, 6]), (2 * size, [3, 6]), (2 * size + 1, [3, 6])):
        world.start(index_interval_bytes=interval)
        log = world.log(f"t{interval}")
        for _ in range(8):
            append(log, "a" * 50)
        path = log.log_directory.file(0, ".index")
        for stop in (world.stop, world.kill):
            stop()
            found = [relative for relative, _ in struct.iter_unpack(">ii", world.fake.contents()[path]) if relative]
            assert found == entries, f"interval {interval}, after {stop.__name__}"
            world.start()


def test_delete_records_lists_no_directory(world: World) -> None:
    """KAFKA-9393: 10,000 segments; neither the deletion nor the look-ups scan the directory."""
    world.start(segment_bytes=70)
    log = world.log("t2")
    for _ in range(300):
        append(log, "a")
    assert log.segment_count == 300
    listed: list[str] = []
    original = world.fake.list_directory

    def list_directory(path: str) -> list[str]:
        listed.append(path)
        return original(path)

    world.fake.list_directory = list_directory  # type: ignore[method-assign, assignment]
    log.increment_log_start_offset(log.log_end_offset)
    assert len(log.delete_old_segments()) == 299
    assert log.segment_count == 1
    assert listed == []


def test_sizes_are_not_cut_to_32_bits(world: World) -> None:
    """KAFKA-5584."""
    world.start(segment_bytes=100)
    log = world.log("t2")
    for _ in range(3):
        append(log, "a" * 50)
    for segment in log.segments:
        segment.size = 2**31 - 1  # as a sparse file would be
    assert log.size == 3 * (2**31 - 1) > 2**32
    assert sum(view.size for view in log.local.segment_views()) == log.size
    for segment in log.segments:
        segment.size = 117


# --- truncation ---


def test_truncation_takes_everything_down_with_the_end(world: World) -> None:
    world.start(segment_bytes=200)
    log = world.log("t2")
    for value in "abcdefgh":
        append(log, value * 40)
    log.flush()
    assert log.truncate_to(5)
    assert (log.high_watermark, log.log_end_offset, log.recovery_point) == (5, 5, 5)
    assert values_of(read_records(log, 0)) == [value.encode() * 40 for value in "abcde"]
    assert append(log, "new") == 5
    assert not log.truncate_to(6)
    assert log.lookup_by_timestamp(START_MS + 10**9) is None


def test_truncate_fully_and_start_elsewhere(world: World) -> None:
    log = world.log()
    append(log, "a", "b")
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (100, 100, 100)
    assert append(log, "c") == 100
    world.kill()
    world.start()
    assert (world.log().log_start_offset, world.log().log_end_offset) == (100, 101)


def test_origin_replication_is_not_checked_for_sequences(world: World) -> None:
    log = world.log()
    append(log, "a", producer_id=3, producer_epoch=0, base_sequence=0)
    data = batch("b", producer_id=3, producer_epoch=0, base_sequence=5)
    log.append_as_leader(data, 0, len(data), origin=AppendOrigin.REPLICATION)
    assert log.log_end_offset == 2


def test_closed_segments_hold_no_file_until_they_are_read() -> None:
    world = World(FakeFileSystem())
    world.start(segment_bytes=100)
    log = world.log()
    for _ in range(20):
        append(log, "a" * 50)
    world.stop()
    world.start(segment_bytes=100)
    assert not [file for file in world.fake.open_files if file.path.endswith(".log")]
    assert not world.fake.maps
    assert values_of(read_records(world.log(), 3))[0] == b"a" * 50
    assert [file for file in world.fake.open_files if file.path.endswith(".log")]
    world.stop()
    assert not world.fake.open_files
    assert not world.fake.maps


# --- message formats ---


def message_set(
    *values: bytes, magic: int = 1, codec: Compression = Compression.NONE, timestamp: int = START_MS
) -> bytes:
    records = [Record(0, timestamp + index, b"k", value) for index, value in enumerate(values)]
    return build_legacy_set(records, magic=magic, compression=codec)


def whole(log: UnifiedLog) -> bytes:
    """The bytes of all segments."""
    data = b""
    for segment in log.segments:
        file = segment.lease_file()
        data += file.pread(segment.size, 0)
        file.release()
    return data


def append_set(log: UnifiedLog, data: bytes) -> LogAppendInfo:
    return log.append_message_set(data, 0, len(data))


@pytest.mark.parametrize(("version", "magic"), [("0.8.2", 0), ("0.10.1-IV2", 1), ("0.11.0", 2), ("2", 2)])
def test_a_topic_is_kept_in_the_format_that_it_names(world: World, version: str, magic: int) -> None:
    world.start(message_format_version=version)
    log = world.log("t2")
    assert append(log, "a", "b") == 0
    info = append_set(log, message_set(b"c", b"d", b"e"))
    assert (info.first_offset, info.last_offset, info.record_count, info.log_append_time) == (2, 4, 3, -1)
    data = whole(log)
    assert {header.magic for header in memory_records.iterate_batches(data)} == {magic}
    assert len(list(memory_records.iterate_batches(data))) == (5 if magic < 2 else 2)
    assert log.end_offset_for_epoch(log.leader_epoch) == ((0, 5) if magic == 2 else (-1, -1))


def test_the_format_of_a_running_log_changes_from_the_next_append_on(world: World) -> None:
    log = world.log()
    for version in ("0.9.0", "0.10.2", "3.0-IV1", "0"):
        log.update_config(LogConfig(message_format_version=version, segment_index_bytes=4096))
        append(log, "v")
    assert [h.magic for h in memory_records.iterate_batches(whole(log))] == [0, 1, 2, 0]
    world.kill()
    world.start()
    assert world.log().log_end_offset == 4
    assert world.log().leader_epoch == 1


def test_old_formats_take_no_producer_ids_and_no_transactions(world: World) -> None:
    world.start(message_format_version="0.10.2")
    log = world.log("t2")
    for fields in (
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True},
    ):
        data = batch("a", **fields)
        with pytest.raises(FormatLacksFeatureError):
            log.append_as_leader(data, 0, len(data))
    assert log.size == 0
    assert log.producers.is_empty
    # What the broker writes itself stays as it is: its own readers expect it.
    data = batch("mine")
    log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)
    assert [h.magic for h in memory_records.iterate_batches(whole(log))] == [2]


def test_a_message_set_that_must_not_be_appended_leaves_no_trace(world: World) -> None:
    config: dict[str, Any] = {
        "max_message_bytes": 300,
        "message_timestamp_before_max_ms": 1000,
        "message_timestamp_after_max_ms": 1000,
    }
    log = world.log()
    good = message_set(b"v")
    for error, data in [
        (RecordTooLargeError, message_set(b"x" * 400)),
        (RecordTooLargeError, message_set(*[b"x" * 200] * 3, codec=Compression.GZIP)),
        (CorruptRecordError, good[:-1] + b"x"),
        (InvalidRecordError, good[:-3]),
        (InvalidRecordError, good + good[:3]),
        (InvalidRecordError, b""),
        (InvalidRecordError, good + message_set(b"v", magic=0)),
        (InvalidRecordError, good + message_set(b"v", codec=Compression.GZIP)),
        (InvalidTimestampError, message_set(b"v", timestamp=START_MS - 1001)),
        (InvalidTimestampError, message_set(b"v", timestamp=START_MS + 1001, codec=Compression.LZ4)),
    ]:
        # A wrapper that is small enough may be too large once its records stand alone.
        config["compression_type"] = "uncompressed" if error is RecordTooLargeError else "producer"
        log.update_config(LogConfig(**config))
        with pytest.raises(error):
            append_set(log, data)
    assert (log.log_end_offset, log.size) == (0, 0)


@pytest.mark.parametrize("version", ["0.10.2", "3.0-IV1"])
def test_append_times_never_go_back_though_the_clock_does(world: World, version: str) -> None:
    configured = {"message_timestamp_type": "LogAppendTime", "message_format_version": version, "segment_bytes": 200}
    world.start(**configured)
    chance = random.Random(version)

    def write(log: UnifiedLog) -> None:
        for _ in range(6):
            world.time.set_wall_clock(START_MS + chance.randint(-5000, 5000))
            before = log.log_end_offset
            if chance.random() < 0.5:
                data = batch("a", "b")
                told = log.append_as_leader(data, 0, len(data)).log_append_time
            else:
                told = append_set(log, message_set(b"v", codec=chance.choice(list(Compression)[:4]))).log_append_time
            found = log.lookup_by_timestamp(told)
            assert found is not None
            assert found.offset <= before

    write(world.log())
    world.stop()
    world.time.set_wall_clock(START_MS - 60_000)
    world.start(**configured)
    write(world.log())
    world.kill()
    world.time.set_wall_clock(START_MS - 60_000)
    world.start(**configured)
    log = world.log()
    log.roll()  # an empty active segment: what is before it says the time
    write(log)
    times = []
    data = whole(log)
    for header in memory_records.iterate_batches(data):
        assert header.is_append_time
        times += [record.timestamp for record in memory_records.iterate_records(data, header.position)]
    assert len(times) == log.log_end_offset
    assert times == sorted(times)
    assert times[-1] > START_MS


def test_times_of_producers_do_not_hold_up_append_times(world: World) -> None:
    """A producer's clock that runs ahead says nothing about this machine's."""
    log = world.log()
    append(log, "a", timestamp=START_MS + 3_000_000)
    log.update_config(LogConfig(message_timestamp_type="LogAppendTime", segment_index_bytes=4096))
    data = batch("b")
    assert log.append_as_leader(data, 0, len(data)).log_append_time == START_MS


def test_file_time_stays_when_recovery_cuts_a_log_without_timestamps(world: World) -> None:
    """Formats 0's segments are aged by their file's time: a restart must not make them young."""
    world.start(message_format_version="0.9.0")
    log = world.log("t2")
    append_set(log, message_set(b"a", b"b", magic=0))
    log.flush()
    path = f"{log.directory}/00000000000000000000.log"
    file = world.fake.open(path)
    file.append(b"torn")
    file.close()
    written = world.fake.stat(path).modified_ms
    world.kill()
    world.time.advance(days=3)
    world.start(message_format_version="0.9.0")
    log = world.log("t2")
    assert log.log_end_offset == 2
    assert world.fake.stat(path).size == log.size
    assert log.segments[0].largest_timestamp() == world.fake.stat(path).modified_ms == written
