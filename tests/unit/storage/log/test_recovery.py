"""What a start makes of damage, above the recovery point and below it, and of segments that are not there."""

from __future__ import annotations

import logging

import pytest
from support.cleaning import CleaningWorld, Producer, put
from support.logs import ROOT, World, append, read_records, three_segments, values_of
from support.mock_time import START_MS
from tidelog.storage.exceptions import StorageError
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.names import file_name

T = f"{ROOT}/t-0"
CHECKPOINT = f"{ROOT}/recovery-point-offset-checkpoint"
COPY = f"{ROOT}/tidelog-recovery-point-offset-checkpoint"
MARK = f"{ROOT}/.kafka_cleanshutdown"
VALUES = [value.encode() * 80 for value in "abcdefgh"]
WHOLE = list(enumerate(VALUES))


def path(base: int, suffix: str = ".log") -> str:
    return f"{T}/{file_name(base, suffix)}"


@pytest.fixture
def world() -> World:
    return three_segments()


def flip(world: World, base: int, position: int) -> None:
    data = world.fake.contents()[path(base)]
    world.fake.corrupt(path(base), position, bytes([data[position] ^ 1]))


def unclean(world: World, recovery_point: int | None) -> None:
    world.fake.unlink(MARK, missing_ok=True)
    if recovery_point is None:
        world.fake.put(CHECKPOINT, b"\xff not a checkpoint")
        world.fake.unlink(COPY)
    else:
        world.fake.put(CHECKPOINT, b"0\n1\nt 0 %d\n" % recovery_point)


def start(world: World, **options: str) -> UnifiedLog:
    world.file_system = world.fake.kill()  # whoever had it open is gone
    other = World(world.fake, **options)
    other.log_config = world.log_config
    other.start()
    log = other.manager.get("t", 0)
    assert log is not None
    return log


def content(log: UnifiedLog) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in read_records(log, 0, log.log_end_offset)]


def without(*offsets: int) -> list[tuple[int, bytes]]:
    return [(offset, value) for offset, value in WHOLE if offset not in offsets]


def test_damage_above_the_recovery_point_cuts_and_says_what_went(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    unclean(world, 3)
    flip(world, 3, 200)
    log = start(world)
    assert (log.log_end_offset, content(log)) == (4, WHOLE[:4])
    assert log.holes == ()
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "ends at offset 4" in line.getMessage()
    assert "1 segments behind go" in line.getMessage()
    assert "from offset 6 on" in line.getMessage()


def test_what_a_crash_left_half_written_is_no_warning(world: World, caplog: pytest.LogCaptureFixture) -> None:
    unclean(world, 6)
    data = world.fake.contents()[path(6)]
    world.fake.put(path(6), data[:-10])
    log = start(world)
    assert content(log) == WHOLE[:7]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("recovery_point", [6, 7])
def test_a_batch_that_lost_the_sector_of_its_offset_is_no_segment_of_its_own(world: World, recovery_point: int) -> None:
    """Found by the simulator (seed 3315): no checksum covers it, and the log went on at offset 130621507791816967."""
    unclean(world, recovery_point)
    data = bytearray(world.fake.contents()[path(6)])
    position = 12 + int.from_bytes(data[8:12], "big")
    data[position : position + 8] = (130_621_507_791_816_967).to_bytes(8, "big")
    world.fake.put(path(6), bytes(data))
    log = start(world)
    assert (log.log_end_offset, content(log)) == (7, WHOLE[:7])
    assert log.segment_count == 3


@pytest.mark.parametrize("recovery_point", [4, 5, 7, 8, None])
@pytest.mark.damaged("what lay in the damage is missing for good")
def test_damage_below_the_recovery_point_takes_nothing_sound_with_it(world: World, recovery_point: int | None) -> None:
    unclean(world, recovery_point)
    flip(world, 3, 75)
    log = start(world)
    if recovery_point is None or recovery_point < 6:
        assert (log.log_end_offset, content(log)) == (8, without(3))
        assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == [(3, 3)]
    else:  # its segment is not read at a start
        assert log.log_end_offset == 8


@pytest.mark.damaged("what lay in the damage is missing for good")
def test_with_the_checkpoint_lost_one_flip_in_the_first_segment_costs_one_batch(world: World) -> None:
    unclean(world, None)
    flip(world, 0, 75)
    assert content(start(world)) == without(0)


@pytest.mark.damaged("a segment is garbage: a hole stays")
def test_a_whole_segment_of_garbage_is_kept_aside_and_read_over(world: World) -> None:
    unclean(world, None)
    size = len(world.fake.contents()[path(3)])
    world.fake.put(path(3), b"\x55" * size)
    log = start(world)
    assert content(log) == without(3, 4, 5)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert read_records(log, 4, 8)[0].offset == 6
    again = start_again(log, world)
    assert content(again) == without(3, 4, 5)


def start_again(log: UnifiedLog, world: World) -> UnifiedLog:
    """After a kill: nothing more is found, nothing is told twice."""
    world.fake.unlink(MARK, missing_ok=True)
    holes = log.holes
    again = start(world)
    assert again.holes == holes
    assert again.log_end_offset == log.log_end_offset
    return again


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["emptied", "missing"])
def test_a_last_segment_that_is_gone_is_told_and_its_offsets_are_not_given_out_again(
    world: World, how: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if not clean:
        unclean(world, 8)
    if how == "emptied":
        world.fake.put(path(6), b"")
    else:
        for suffix in (".log", ".index", ".timeindex"):
            world.fake.unlink(path(6, suffix))
    log = start(world)
    assert (log.log_end_offset, content(log)) == (8, WHOLE[:6])
    assert any("offsets 6 to 7 are missing" in message for message in caplog.messages)
    assert [(hole.first_offset, hole.last_offset) for hole in log.holes] == [(6, 7)]
    assert append(log, "next") == 8


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("how", ["emptied", "log missing"])
def test_a_middle_segment_that_is_gone_is_told(
    world: World, how: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if not clean:
        unclean(world, 8)
    if how == "emptied":
        world.fake.put(path(3), b"")
    else:
        world.fake.unlink(path(3))
    log = start(world)
    assert (log.log_end_offset, content(log)) == (8, without(3, 4, 5))
    assert any("offsets 3 to 5 are missing" in message for message in caplog.messages)
    start_again(log, world)


def test_a_log_without_any_segment_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for name in world.fake.paths():
        if name.startswith(T) and name.endswith((".log", ".index", ".timeindex")):
            world.fake.unlink(name)
    log = start(world)
    assert log.log_end_offset == 8
    assert any("there is no segment: offsets 0 to 7 are missing" in message for message in caplog.messages)
    assert append(log, "next") == 8


@pytest.mark.damaged("a segment is damaged, and stays so")
def test_told_to_stop_a_start_stops_and_changes_nothing(world: World) -> None:
    unclean(world, 8)
    flip(world, 6, 75)
    before = {name: data for name, data in world.fake.contents().items() if name.startswith(T) and "snap" not in name}
    with pytest.raises(
        StorageError, match=r"segment 6.* restore the partition from a copy, or set log.damage.policy=hole"
    ):
        start(world, log_damage_policy="stop")
    after = {name: data for name, data in world.fake.contents().items() if name.startswith(T) and "snap" not in name}
    assert after == before, "all but snapshots, which are made anew"


@pytest.mark.damaged("a segment is damaged")
def test_told_to_do_as_kafka_a_start_cuts_at_the_damage(world: World, caplog: pytest.LogCaptureFixture) -> None:
    unclean(world, 4)
    flip(world, 3, 75)
    log = start(world, log_damage_policy="kafka")
    assert (log.log_end_offset, content(log)) == (3, WHOLE[:3])
    assert log.holes == ()
    assert any("1 segments behind go" in message for message in caplog.messages)


@pytest.mark.damaged("an epoch is damaged, which no checksum tells")
def test_no_leader_epoch_that_damage_has_made_gets_into_the_log(world: World) -> None:
    unclean(world, 6)
    data = world.fake.contents()[path(6)]
    world.fake.corrupt(path(6), 12, bytes([data[12] ^ 0x40]))
    log = start(world)
    assert content(log) == WHOLE
    assert log.epoch_for_offset(7) == 0
    assert log.epoch_for_offset(6) == 0


def test_the_ledger_says_that_the_records_were_damaged(world: World) -> None:
    unclean(world, 8)
    flip(world, 6, 75)
    log = start(world)
    assert log.local.open_ledger(count=True)
    ledger = log.ledger.value
    assert ledger is not None
    assert (ledger.live(8), ledger.appended(8), ledger.removed) == (7, 8, {"damaged": 1})
    assert ledger.is_balanced
    # It is booked once, whoever comes next.
    log = start_again(log, world)
    assert log.local.open_ledger(count=True)
    assert log.ledger.value == ledger
    assert not [finding for finding in verify(world.fake, ROOT) if finding.is_fault]


def test_retention_and_deletion_take_what_was_kept_aside_with_them(world: World) -> None:
    unclean(world, None)
    flip(world, 0, 75)
    other = World(world.fake)
    other.log_config = world.log_config
    other.start()
    log = other.manager.get("t", 0)
    assert log is not None
    (hole,) = log.holes
    log.increment_log_start_offset(3)
    log.delete_old_segments()
    log.local.forget_holes()
    assert log.holes == ()
    assert f"{T}/{hole.name}" not in other.fake.paths()
    assert values_of(read_records(log, 3)) == VALUES[3:]
    other.stop()


@pytest.mark.damaged("a segment is damaged below the recovery point")
def test_a_recovery_point_that_an_aborted_hole_left_is_reached_again(world: World) -> None:
    """The hole is named before the empty segment behind it is made: a crash between the two is made good."""
    world.fake.put(path(6), b"")
    log = start(world)
    world.fake.unlink(path(8))
    world.fake.unlink(MARK, missing_ok=True)
    again = start(world)
    assert again.log_end_offset == 8
    assert again.holes == log.holes


@pytest.mark.damaged("a checkpoint is damaged")
def test_a_damaged_log_start_checkpoint_makes_no_deleted_record_readable_again(world: World) -> None:
    other = World(world.fake.kill())
    other.log_config = world.log_config
    log = other.start().get("t", 0)
    assert log is not None
    log.increment_log_start_offset(2)
    other.stop()
    world.file_system = other.fake
    name = f"{ROOT}/log-start-offset-checkpoint"
    assert b"t 0 2" in other.fake.contents()[name]
    other.fake.put(name, b"0\n1\nt\xff0 2\n")
    assert start(world).log_start_offset == 2


@pytest.mark.damaged("a segment is damaged, and the file that was kept of it deleted")
def test_a_hole_whose_file_was_deleted_costs_no_record_behind_it(world: World) -> None:
    unclean(world, 8)
    flip(world, 6, 100)
    start(world)
    (damaged,) = [name for name in world.fake.contents() if name.endswith(".damaged")]
    world.fake.unlink(damaged)
    unclean(world, 8)
    log = start(world)
    assert (log.log_end_offset, log.holes) == (8, ())
    assert content(log) == without(6)


@pytest.mark.parametrize("position", [8, 11, 16, 100])
@pytest.mark.damaged("a segment is damaged")
def test_damage_below_the_logs_start_keeps_no_log_from_opening(world: World, position: int) -> None:
    unclean(world, 6)
    world.fake.put(f"{ROOT}/log-start-offset-checkpoint", b"0\n1\nt 0 4\n")
    flip(world, 0, len(world.fake.contents()[path(0)]) // 3 * 2 + position)
    log = start(world)
    assert (log.log_start_offset, log.log_end_offset) == (4, 8)
    assert [record.offset for record in read_records(log, 4, 8)] == [4, 5, 6, 7]


@pytest.mark.parametrize("lost", ["snapshots", "a transaction index"])
@pytest.mark.damaged("bits are flipped")
def test_a_log_with_transactions_opens_with_any_bit_of_a_closed_segment_flipped(lost: str) -> None:
    """What a start has to read of it for its producers can't keep the daemon from starting."""
    world = World()
    world.start(segment_bytes=600, index_interval_bytes=100)
    log, producer = world.log(), Producer(2)
    for number in range(5):
        producer.send(log, (b"a", b"%d" % number), timestamp=START_MS + number)
        append(log, b"b" * 60, timestamp=START_MS + number)
        producer.end(log, commit=number % 3 == 2, timestamp=START_MS + number)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    world.stop()
    sound = world.fake
    size = len(sound.contents()[path(6)])
    for position in range(size // 2):  # a batch of each kind
        world.file_system = sound.kill()
        unclean(world, 15)
        flip(world, 6, position)
        if lost == "snapshots":
            for name in [name for name in world.fake.contents() if name.endswith(".snapshot")]:
                world.fake.unlink(name)
        else:
            world.fake.corrupt(path(0, ".txnindex"), 9, b"\1")
        assert start(world).log_end_offset == 15, position


def test_after_a_crash_a_log_without_gaps_is_read_once(world: World) -> None:
    """Neither for the batch at its end nor for leader epochs that are known a second time."""
    unclean(world, 0)
    world.file_system = world.fake.kill()
    world.fake.reads.clear()
    log = start(world)
    sizes = {segment.base_offset: segment.size for segment in log.segments}
    reads = [(read.path, read.detail) for read in world.fake.reads if read.path.endswith(".log")]
    assert reads == [(path(base), size) for base, size in sizes.items()]


@pytest.mark.parametrize("how", ["known", "noted"])
def test_what_is_missing_of_a_log_that_begins_within_a_segment_is_told_once(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Below the log's start nothing is missing; and an index that a reader has made for the empty segment has no entries."""
    world = World()
    world.start(segment_bytes=500)
    for value in "abcdefgh":
        append(world.log(), value * 80)
    world.log().increment_log_start_offset(1)
    world.stop()
    for suffix in (".log", ".index", ".timeindex"):
        world.fake.unlink(path(0, suffix))
    world.start()
    (hole,) = world.log().holes
    assert (hole.first_offset, hole.last_offset, world.log().log_start_offset) == (1, 2, 1)
    if how == "noted":
        world.damaged = "verify can't know that somebody has taken note of a hole"
        world.fake.unlink(f"{T}/{hole.name}")
    for clean in (False, True, False):
        assert [record.offset for record in read_records(world.log(), 1)] == [3, 4, 5, 6, 7]
        caplog.clear()
        if not clean:
            world.kill()
        log = world.start().logs()[0]
        assert [hole.name for hole in log.holes] == ([hole.name] if how == "known" else [])
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_what_is_kept_of_a_log_of_which_nothing_is_left_stays_until_retention_comes_there(how: str) -> None:
    world = World()
    world.start()
    append(world.log(), "a", "b", "c", "d")
    world.log().increment_log_start_offset(2)
    world.stop()
    world.damaged = "its only segment is"
    if how == "damaged":
        unclean(world, 4)
        world.fake.put(f"{ROOT}/log-start-offset-checkpoint", b"0\n1\nt 0 2\n")
        flip(world, 0, 75)
    else:
        world.fake.unlink(path(0))
    again = World(world.fake.kill())
    (log,) = again.start().logs()
    assert (log.log_start_offset, log.log_end_offset) == (2, 4)
    (hole,) = log.holes
    again.manager.delete_old_segments()
    assert log.holes == (hole,)
    assert f"{T}/{hole.name}" in again.fake.paths()
    assert log.local.open_ledger(count=True)
    assert log.ledger.value is not None
    assert (log.ledger.value.live(4), log.ledger.value.removed["damaged"]) == (0, 2)
    assert append(log, "next") == 4
    log.increment_log_start_offset(4)
    again.manager.delete_old_segments()
    assert log.holes == ()


@pytest.mark.damaged("checkpoints are removed")
@pytest.mark.parametrize(
    ("gone", "is_told"),
    [(("cleaner",), False), (("recovery-point",), False), (("cleaner", "recovery-point"), True)],
    ids=["cleaner's", "recovery points", "both"],
)
def test_gaps_of_a_log_that_was_compacted_once_are_holes_only_where_no_checkpoint_knows_better(
    gone: tuple[str, ...], is_told: bool
) -> None:
    world = CleaningWorld()
    world.start(segment_bytes=500, segment_index_bytes=240)
    log = world.log()
    for number in range(24):
        put(log, f"k{number % 3}", f"{number}" * 60)
    log.roll()
    log.flush()
    world.clean_all()
    kept = [record.offset for record in read_records(log, 0)]
    assert len(kept) < 10
    world.manager.checkpoint_recovery_points()
    state = world.fake.kill()
    for name in state.list_directory(ROOT):
        if any(name.endswith(f"{one}-offset-checkpoint") for one in gone):
            state.unlink(f"{ROOT}/{name}")
    later = World(state)
    later.start(segment_bytes=500, segment_index_bytes=240, cleanup_policy=frozenset({"delete"}), retention_ms=-1)
    found = later.manager.get(log.topic, log.partition)
    assert found is not None
    assert [record.offset for record in read_records(found, 0)] == kept
    assert bool(found.holes) == is_told
