"""What is gone from closed segments between two runs is told; what retention, the cleaner or others have done is not."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from support.cleaning import Producer, aborted_transactions
from support.fake_filesystem import FakeFileSystem, PowerCut
from support.logs import ROOT, World, append, read_records
from tidelog.storage.io.checkpoint_copy import seal
from tidelog.storage.log.stop_record import LogFiles, read_stop_record, write_stop_record
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.hole import DamagedLogError
from tidelog.storage.segment.names import SEGMENT_SUFFIXES, file_name

T = f"{ROOT}/t-0"
MARK = f"{ROOT}/.kafka_cleanshutdown"


def stopped(**settings: Any) -> World:
    """Segments at 0, 3, 6 and 9."""
    world = World()
    world.start(segment_bytes=500, **settings)
    for value in "abcdefghij":
        append(world.log(), value * 80)
    assert [segment.base_offset for segment in world.log().segments] == [0, 3, 6, 9]
    world.stop()
    return world


def remove(world: World, *bases: int) -> None:
    for base in bases:
        for suffix in (*SEGMENT_SUFFIXES, ".snapshot"):
            world.fake.unlink(f"{T}/{file_name(base, suffix)}", missing_ok=True)


def start(world: World, **options: str) -> tuple[World, UnifiedLog]:
    again = World(world.fake.kill(), **options)
    again.log_config = world.log_config
    log = again.start().get("t", 0)
    assert log is not None
    return again, log


def booked(log: UnifiedLog) -> dict[str, int]:
    log.local.open_ledger(count=True)
    assert log.ledger.value is not None
    assert log.ledger.value.is_balanced
    return dict(log.ledger.value.removed)


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize(
    ("gone", "lost"),
    [((3,), [(3, 5)]), ((0,), [(0, 2)]), ((3, 6), [(3, 8)]), ((0, 6), [(0, 2), (6, 8)]), ((0, 3, 6), [(0, 8)])],
)
@pytest.mark.damaged("a segment is taken away")
def test_a_closed_segment_that_is_gone_is_told(
    gone: tuple[int, ...], lost: list[tuple[int, int]], policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = stopped(cleanup_policy=(policy,))
    remove(world, *gone)
    with caplog.at_level(logging.WARNING):
        again, log = start(world)
    assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == lost
    assert sum("is missing" in message for message in caplog.messages) == len(lost)
    left = [offset for offset in range(10) if not any(first <= offset <= last for first, last in lost)]
    assert [record.offset for record in read_records(log, 0)] == left
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    assert booked(log) == {"damaged": 10 - len(left)}
    # The next starts say it too, whoever stopped, and tell nothing new.
    again.stop()
    caplog.clear()
    last, log = start(again)
    assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == lost
    assert booked(log) == {"damaged": 10 - len(left)}
    assert not caplog.records
    append(log, "goes on")
    last.stop()


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize(
    ("emptied", "gone", "lost"),
    [((3,), (), [(3, 5)]), ((0,), (), [(0, 2)]), ((3,), (0,), [(0, 5)]), ((0, 3), (6,), [(0, 8)])],
)
def test_a_closed_segment_that_is_empty_is_told(
    emptied: tuple[int, ...],
    gone: tuple[int, ...],
    lost: list[tuple[int, int]],
    policy: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its index need not have an entry."""
    world = stopped(cleanup_policy=(policy,), index_interval_bytes=4096)
    world.damaged = "segments are emptied"
    for base in emptied:
        world.fake.put(f"{T}/{file_name(base, '.log')}", b"")
    remove(world, *gone)
    again, log = start(world)
    assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == lost
    assert log.log_start_offset == 0
    assert booked(log) == {"damaged": lost[0][1] - lost[0][0] + 1}
    assert [record.offset for record in read_records(log, 0)] == list(
        range(lost[0][1] + 1 if lost[0][0] == 0 else 0, 3)
    ) + [offset for offset in range(3, 10) if offset > lost[0][1]]
    name = f"{T}/{log.holes[0].name}"
    again.stop()
    caplog.clear()
    again, log = start(again)
    again.stop()
    again.damaged = "verify can't know that somebody has taken note of a hole"
    again.fake.unlink(name)
    again, log = start(again, damaged=again.damaged)
    assert log.holes == ()
    assert not caplog.records


def test_told_to_stop_a_start_stops_where_a_closed_segment_is_empty() -> None:
    world = stopped(index_interval_bytes=4096)
    world.damaged = "a segment is emptied"
    world.fake.put(f"{T}/{file_name(3, '.log')}", b"")
    with pytest.raises(DamagedLogError, match="segment 3 is empty"):
        start(world, log_damage_policy="stop")


@pytest.mark.damaged("a segment is taken away")
def test_told_to_stop_a_start_changes_nothing() -> None:
    world = stopped()
    remove(world, 3)
    before = world.fake.contents()
    for _ in range(2):  # it is no other directory for having been looked at
        with pytest.raises(DamagedLogError, match="segment 3 is missing"):
            start(world, log_damage_policy="stop")
        assert world.fake.contents() == before
    _, log = start(world)
    assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == [(3, 5)]


def test_what_was_deleted_before_the_stop_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    world = stopped()
    again, log = start(world)
    log.increment_log_start_offset(4)
    log.delete_old_segments()
    again.stop()
    _, log = start(again)
    assert [segment.base_offset for segment in log.segments] == [3, 6, 9]
    assert (log.holes, booked(log)) == ((), {"delete-records": 3})
    assert not caplog.records


def test_a_segment_that_only_deleted_records_were_in_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    world = stopped()
    again, log = start(world)
    log.increment_log_start_offset(4)
    again.stop()
    remove(again, 0)
    _, log = start(again)
    assert (log.holes, log.log_start_offset) == ((), 4)
    assert not caplog.records


@pytest.mark.parametrize("mark", [b'{"version":0,"brokerEpoch":-1}', b'{"version":0,"brokerEpoch":7}', b"", None])
def test_what_another_has_done_since_is_its_own(mark: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    """Apache Kafka's retention and cleaner, or a kill of ours after which retention had run."""
    world = stopped()
    remove(world, 0, 3)
    if mark is None:
        world.fake.unlink(MARK)
    else:
        world.fake.put(MARK, mark)
    _, log = start(world)
    assert log.holes == ()
    assert booked(log) == {"retention": 6}
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_log_that_was_put_there_in_its_place_is_not_held_against_it(caplog: pytest.LogCaptureFixture) -> None:
    """Restored from a copy of before a pass of the cleaner, which had other segments."""
    world = stopped()
    record = read_stop_record(world.fake, ROOT)
    assert record == {("t", 0): LogFiles((0, 3, 6, 9), {})}
    write_stop_record(world.fake, ROOT, {("t", 0): LogFiles((0, 1, 6, 9), {})})
    _, log = start(world)
    assert log.holes == ()
    assert not caplog.records


def test_the_record_of_one_stop_is_not_found_beside_the_mark_of_another() -> None:
    world = stopped()
    again, _ = start(world)
    for seed in range(20):
        assert f"{ROOT}/tidelog-last-stop" not in again.fake.power_cut(seed).paths()
    again.kill()


def test_a_damaged_record_says_nothing() -> None:
    system = FakeFileSystem()
    system.make_directory(ROOT)
    path = f"{ROOT}/tidelog-last-stop"
    logs = {("t", 0): LogFiles((0, 3), {0: 7}), ("u", 12): LogFiles((5,), {})}
    write_stop_record(system, ROOT, logs)
    assert read_stop_record(system, ROOT) == logs
    good = system.contents()[path]
    for position in range(len(good)):
        system.put(path, good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
        assert read_stop_record(system, ROOT) == {}
    system.put(path, seal(b'{"version":2}'))
    assert read_stop_record(system, ROOT) == {}
    system.unlink(path)
    assert read_stop_record(system, ROOT) == {}


@pytest.mark.parametrize("left", [None, 0, 34])
@pytest.mark.parametrize("base", [0, 5])
@pytest.mark.damaged("an index is taken away or cut")
def test_a_transaction_index_that_is_gone_or_cut_is_made_anew(
    base: int, left: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    world.start()
    log, one = world.log(), Producer(7)
    for number in range(4):
        one.send(log, (b"a", b"%d" % number))
        one.end(log, commit=False)
        if number == 1:
            append(log, "between")
            log.roll()
    world.stop()
    path = f"{T}/{file_name(base, '.txnindex')}"
    good = world.fake.contents()[path]
    assert len(good) == 68
    if left is None:
        world.fake.unlink(path)
    else:
        world.fake.put(path, good[:left])
    with caplog.at_level(logging.WARNING):
        _, log = start(world)
    assert [txn[:3] for txn in aborted_transactions(log)] == [(7, 0, 1), (7, 2, 3), (7, 5, 6), (7, 7, 8)]
    assert any("made anew from the log" in message for message in caplog.messages)


def test_what_is_gone_is_told_though_the_first_start_ends_while_it_loads() -> None:
    """Only that start has the record of the stop."""
    world = stopped()
    world.damaged = "segments are taken away"
    remove(world, 0, 6)
    call = 0
    while True:
        call += 1
        again = World(world.fake.kill(), damaged="it stops while it loads")
        again.log_config = world.log_config
        again.fake.fail_at(call, PowerCut())
        try:
            again.start()
        except PowerCut:
            pass
        else:
            break
        _, log = start(again)
        assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == [(0, 2), (6, 8)], call
        assert log.log_start_offset == 0
    assert call > 5
