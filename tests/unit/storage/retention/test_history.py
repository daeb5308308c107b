from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from support.logs import World, append, batch
from support.mock_time import START_MS
from support.work import TooMuchWork, counted_work
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.exceptions import InvalidTimestampError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.segment import segment_list as log_segments

YEAR_2100 = 4_102_444_800_000
DAY = 86_400_000
WORK_PER_SEGMENT = 200
"""Steps of `counted_work` for each segment that is deleted: twice what it takes."""


def test_a_record_from_the_year_2100_is_refused_or_counted(world: World) -> None:
    """KAFKA-20609, KIP-937: refused by default; where the limit was lifted it holds its segment as in Kafka, and is counted;
    retention by append time, chosen in one of two ways, is not held."""
    limit = {"message_timestamp_after_max_ms": 2**63 - 1, "retention_ms": 7 * DAY, "segment_bytes": 100}
    with pytest.raises(InvalidTimestampError):
        append(world.log("default"), "a", timestamp=YEAR_2100)

    world.start(**limit)
    log = world.log("as-kafka")
    append(log, "a", timestamp=YEAR_2100)
    append(log, "b", timestamp=START_MS)
    assert log.local.dated_after(world.time.milliseconds()) == (log.segments[0].size, 1)
    world.time.advance(days=1000)
    assert log.delete_old_segments() == []
    assert log.local.dated_after(world.time.milliseconds()) == (log.segments[0].size, 1)

    world.start(**limit, message_timestamp_type="LogAppendTime")
    log = world.log("append-time-topic")
    append(log, "a", timestamp=YEAR_2100)
    assert log.local.dated_after(world.time.milliseconds()) == (0, 0)
    world.time.advance(days=7, milliseconds=1)
    assert [(d.base_offset, d.policy) for d in log.delete_old_segments()] == [(0, "time")]

    world.start(**limit, deletion_policies=("append-time", "size"))
    log = world.log("append-time-policy")
    append(log, "a", timestamp=YEAR_2100)
    world.time.advance(days=7)
    assert log.delete_old_segments() == []
    world.time.advance(milliseconds=1)
    assert [(d.base_offset, d.policy) for d in log.delete_old_segments()] == [(0, "append-time")]


def test_new_segment_settings_hold_at_once(world: World) -> None:
    """KAFKA-7366: alter, and the next append rolls."""
    for changed in (
        {"segment_bytes": 100},
        {"segment_ms": 10},
    ):
        log = world.log(next(iter(changed)).replace("_", "-"))
        append(log, "a" * 50)
        append(log, "b" * 50, timestamp=START_MS + 11)
        assert log.segment_count == 1
        log.update_config(LogConfig(segment_index_bytes=4096, **changed))
        append(log, "c" * 50, timestamp=START_MS + 11)
        assert log.segment_count == 2


@pytest.mark.damaged("the files are sparse: zeros, no batches")
def test_sizes_of_a_log_beyond_two_and_four_gib_are_right(tmp_path: Path) -> None:
    """KAFKA-5584, with real files that have the size and no blocks."""
    world = World(RealFileSystem(), directories=[str(tmp_path)])
    world.start(segment_bytes=100, retention_ms=-1)
    log = world.log()
    for _ in range(4):
        append(log, "a" * 50)
    paths = [f"{log.directory}/{segment.base_offset:020d}.log" for segment in log.segments]
    world.stop()
    for path in paths[:3]:
        os.truncate(path, 2**31 - 1)
    world.start(segment_bytes=100, retention_ms=-1)
    log = world.log()
    assert log.size == 3 * (2**31 - 1) + os.path.getsize(paths[3]) > 2**32
    world.start(segment_bytes=100, retention_ms=-1, retention_bytes=2**32)
    assert [d.size for d in world.log().delete_old_segments()] == [2**31 - 1]
    assert world.log().size > 2**32 - 2
    world.stop()


def test_deletion_and_look_ups_among_ten_thousand_segments_touch_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA-9393. Deletion lists no directory, publishes in one step; a look-up touches O(log n) segments."""
    world.start(segment_bytes=70, retention_ms=-1)
    log = world.log("t2")
    data = batch("a")
    for _ in range(10_000):
        copy = bytearray(data)
        log.append_as_leader(copy, 0, len(copy))
    assert log.segment_count == 10_000

    touched: list[int] = []

    class Watched(tuple):  # type: ignore[type-arg]
        __slots__ = ()

        def __getitem__(self, index: int) -> object:  # type: ignore[override]
            touched.append(index)
            return super().__getitem__(index)

    view = Watched(log.segments)
    for offset in (0, 1, 4_999, 7_777, 9_998, 9_999):
        touched.clear()
        assert log_segments.floor_index(view, offset) == offset
        assert len(touched) <= 14  # 2^14 > 10,000
    monkeypatch.setattr(log._segments, "view", view)
    touched.clear()
    log.read(5_000, 100).release()
    assert len(touched) <= 20
    monkeypatch.undo()

    listed: list[str] = []
    monkeypatch.setattr(world.fake, "list_directory", listed.append)
    assert log.increment_log_start_offset(9_999)
    assert len(log.delete_old_segments()) == 9_999
    assert (log.segment_count, log.log_start_offset, listed) == (1, 9_999, [])
    assert log.retention.deleted["start-offset"].segments == 9_999


def test_deleting_many_segments_takes_as_much_work_for_each_as_deleting_few(world: World) -> None:
    """And DeleteRecords itself, which leaves them to retention, takes the same whatever their number."""
    world.start(segment_bytes=70, retention_ms=-1)
    for count in (200, 2_000):
        log = world.log(f"t{count}")
        for _ in range(count + 1):
            append(log, "a")
        assert log.segment_count == count + 1
        with counted_work(200):
            assert log.increment_log_start_offset(count)
        with counted_work(WORK_PER_SEGMENT * count):
            assert len(log.delete_old_segments()) == count
        assert (log.segment_count, log.log_start_offset) == (1, count)


def test_the_count_of_work_sees_searches_that_are_made_in_c(world: World) -> None:
    world.start(segment_bytes=70, retention_ms=-1)
    log = world.log("t2")
    for _ in range(20):
        append(log, "a")
    view = list(log.segments)
    with counted_work(1000) as work:
        assert all(segment in view for segment in view)
    assert work.count == 20 * 19 // 2
    with pytest.raises(TooMuchWork), counted_work(100):
        assert all(segment in view for segment in view)
    with counted_work(0):
        assert view.index(view[0]) == 0


def test_what_went_is_counted_by_policy_and_said_in_one_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.start(segment_bytes=100, retention_bytes=200, retention_ms=1000)
    log = world.log("t2")
    for value in "abcdef":
        append(log, value * 50)
    size = log.segments[0].size
    log.increment_log_start_offset(2)
    with caplog.at_level(logging.INFO):
        log.delete_old_segments()
    assert log.retention.deleted == {"start-offset": (2, 2 * size), "size": (2, 2 * size)}
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"t2-0: deleted 2 segments, 0 to 1, {2 * size} bytes (log start offset)",
        f"t2-0: deleted 2 segments, 2 to 3, {2 * size} bytes (retention.bytes)",
    ]
    world.time.advance(2000)
    log.delete_old_segments()
    assert log.retention.deleted["time"] == (2, 2 * size)


@pytest.mark.usefixtures("installed_policies")
def test_a_broken_policy_is_told_for_each_partition_and_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.start(segment_bytes=100, deletion_policies=("broken", "gone", "newest-three"))
    logs = [world.log("t2", 0), world.log("t2", 1)]
    for log in logs:
        for value in "abcdef":
            append(log, value * 50)
    for _ in range(3):
        world.manager.delete_old_segments()
    for log in logs:
        assert [failure.policy for failure in log.retention.failures] == ["gone", "broken"]
        assert log.retention.failed_runs == {"gone": 3, "broken": 3}
        assert log.retention.deleted.keys() == {"newest-three"}
        assert log.segment_count == 3
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 4
    assert sum("t2-1: deletion policy broken deletes nothing: ValueError" in line for line in errors) == 1
