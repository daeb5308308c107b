"""An entry of an index is believed when the batch that it names agrees; nothing is hidden by one that does not."""

from __future__ import annotations

import errno
import logging

import pytest
from support.logs import ROOT, World, append, read_records, values_of
from support.mock_time import START_MS
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.names import file_name

T = f"{ROOT}/t-0"
VALUES = [b"%d" % number * 30 for number in range(12)]


def path(base: int, suffix: str) -> str:
    return f"{T}/{file_name(base, suffix)}"


@pytest.fixture
def world() -> World:
    """A closed segment of twelve records and three times as many entries as flips need, and an active one."""
    world = World()
    world.start(index_interval_bytes=150)
    log = world.log()
    for number, value in enumerate(VALUES):
        append(log, value, timestamp=START_MS + 1000 * number)
    log.roll()
    append(log, "active", timestamp=START_MS + 20_000)
    world.stop()
    return world


def start(world: World) -> tuple[World, UnifiedLog]:
    other = World(world.fake.kill())
    other.log_config = world.log_config
    other.start()
    log = other.manager.get("t", 0)
    assert log is not None
    return other, log


def bits(world: World, suffix: str) -> range:
    return range(8 * len(world.fake.contents()[path(0, suffix)]))


def flip(world: World, suffix: str, bit: int) -> None:
    data = world.fake.contents()[path(0, suffix)]
    world.fake.corrupt(path(0, suffix), bit // 8, bytes([data[bit // 8] ^ 1 << bit % 8]))


@pytest.mark.damaged("bits of an index are flipped")
def test_no_flipped_bit_of_an_offset_index_hides_a_record(world: World) -> None:
    for bit in bits(world, ".index"):
        flip(world, ".index", bit)
        _, log = start(world)
        for offset in range(12):
            found = log.read(offset, 1)
            assert found.file is not None
            data = found.file.pread(found.size, found.position)
            found.release()
            assert int.from_bytes(data[:8], "big") == offset, f"bit {bit}"
        flip(world, ".index", bit)


@pytest.mark.damaged("bits of an index are flipped")
def test_no_flipped_bit_of_a_time_index_hides_a_record_or_its_age(world: World) -> None:
    for bit in bits(world, ".timeindex"):
        flip(world, ".timeindex", bit)
        _, log = start(world)
        for number in range(12):
            for late in (0, 500):
                found = log.lookup_by_timestamp(START_MS + 1000 * number - late)
                assert found is not None
                assert found.offset == number, f"bit {bit}"
        assert log.segments[0].largest_timestamp() == START_MS + 11_000, f"bit {bit}"
        flip(world, ".timeindex", bit)


@pytest.mark.damaged("an entry of an index is changed")
def test_an_entry_that_points_anywhere_hides_no_record_whatever_a_producer_put_there() -> None:
    world = World()
    world.start(index_interval_bytes=1)
    # Where a format of 0 or 1 would stand there are zeros, sizes and bytes of any kind.
    for value in (bytes(60), bytes(range(90)), b"\xff" * 8 + bytes(4) + b"\x01" + bytes(40), b"end"):
        append(world.log(), value)
    world.log().roll()
    append(world.log(), "active")
    world.stop()
    size = len(world.fake.contents()[path(0, ".log")])
    for position in range(1, size):
        index = bytearray(world.fake.contents()[path(0, ".index")])
        index[-4:] = position.to_bytes(4, "big")
        world.fake.corrupt(path(0, ".index"), 0, bytes(index))
        _, log = start(world)
        assert values_of(read_records(log, 3, 4)) == [b"end"], position


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.damaged("an index is damaged, and stays so for who does not use it")
def test_a_wrong_entry_is_told_once_and_the_index_is_made_anew(
    world: World, suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = world.fake.contents()[path(0, suffix)]
    flip(world, suffix, 8 * (len(good) - 1) + 2)
    other, log = start(world)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert values_of(read_records(log, 0, 12)) == VALUES
            assert values_of(read_records(log, 11, 12)) == VALUES[11:]
            log.lookup_by_timestamp(START_MS + 11_500)
    assert [message for message in caplog.messages if "is wrong" in message] == [caplog.messages[0]]
    log.local.mend_indexes()
    assert other.fake.contents()[path(0, suffix)] == good
    assert not log.log_directory.doubted
    assert values_of(read_records(log, 11, 12)) == VALUES[11:]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.damaged("an index is damaged, and stays so until there is room")
def test_a_wrong_index_stays_while_a_full_disk_has_no_room_for_a_right_one(world: World, suffix: str) -> None:
    """Without indexes look-ups would walk the segment, and no pass of the cleaner could replace it, until a restart."""
    good = world.fake.contents()[path(0, suffix)]
    flip(world, suffix, 8 * (len(good) - 1) + 2)
    other, log = start(world)
    for offset in (0, 11):
        assert values_of(read_records(log, offset, 12)) == VALUES[offset:]
    log.lookup_by_timestamp(START_MS + 11_500)
    before = other.fake.contents()
    other.fake.fail_when(lambda operation: OSError(errno.ENOSPC, "full") if operation.kind == "append" else None)
    log.local.mend_indexes()
    other.fake.fail_when(None)
    after = other.fake.contents()
    assert {p: after.get(p) for p in before} == before
    log.local.mend_indexes()
    assert other.fake.contents()[path(0, suffix)] == good
    assert not log.log_directory.doubted


@pytest.mark.damaged("an index is damaged")
def test_an_index_of_which_nothing_is_right_is_as_none(world: World) -> None:
    size = len(world.fake.contents()[path(0, ".index")])
    world.fake.corrupt(path(0, ".index"), 0, bytes(range(1, size + 1)))
    _, log = start(world)
    assert [values_of(read_records(log, offset, 12))[0] for offset in range(12)] == VALUES


def test_indexes_of_a_segment_that_was_replaced_meanwhile_are_left_alone(world: World) -> None:
    other, log = start(world)
    segment = log.segments[0]
    log.log_directory.doubt(segment, "a test")
    log.increment_log_start_offset(12)
    log.delete_old_segments()
    before = other.fake.contents()
    log.local.mend_indexes()
    assert other.fake.contents() == before
    assert not log.log_directory.doubted


@pytest.mark.damaged("an index is removed")
def test_indexes_for_which_a_start_had_no_room_are_made_once_there_is_some(world: World) -> None:
    good = world.fake.contents()[path(0, ".index")]
    world.fake.unlink(path(0, ".index"))
    full = World(world.fake.kill())
    full.log_config = world.log_config
    full.fake.fail_when(
        lambda operation: (
            OSError(errno.ENOSPC, "full") if operation.kind == "append" and "index" in operation.path else None
        )
    )
    full.start()
    full.fake.fail_when(None)
    log = full.log()
    assert path(0, ".index") not in full.fake.contents()
    log.local.mend_indexes()
    assert full.fake.contents()[path(0, ".index")] == good
    assert not log.log_directory.doubted


@pytest.mark.damaged("bits of a batch's header are flipped")
def test_a_damaged_batch_does_not_overrule_the_time_index(world: World) -> None:
    """Retention would go by a time that nobody wrote, which lies before or behind all that are."""
    log_path = path(0, ".log")
    data = world.fake.contents()[log_path]
    newest = data.rindex((START_MS + 11_000).to_bytes(8, "big"))  # largest timestamp of the last batch
    for bit in range(64):
        flipped = bytes([data[newest + bit // 8] ^ 1 << bit % 8])
        world.fake.corrupt(log_path, newest + bit // 8, flipped)
        _, log = start(world)
        assert log.segments[0].largest_timestamp() == START_MS + 11_000, f"bit {bit}"
        assert not log.log_directory.doubted
        world.fake.corrupt(log_path, newest + bit // 8, data[newest + bit // 8 : newest + bit // 8 + 1])


@pytest.mark.damaged("bits of a batch's length are flipped")
def test_a_log_that_can_not_be_read_to_its_end_does_not_overrule_the_time_index(world: World) -> None:
    """What lies behind the damage is younger, and retention would take it with what lies before."""
    log_path = path(0, ".log")
    data = world.fake.contents()[log_path]
    last = data.rindex(
        (11).to_bytes(8, "big")
    )  # the last batch of the segment; the one before it is where look-ups begin
    for batch in (0, data.index((10).to_bytes(8, "big")), last):
        for bit in range(32):
            at = batch + 8 + bit // 8
            world.fake.corrupt(log_path, at, bytes([data[at] ^ 1 << bit % 8]))
            _, log = start(world)
            assert log.segments[0].largest_timestamp() == START_MS + 11_000, f"bit {bit} at {batch}"
            world.fake.corrupt(log_path, at, data[at : at + 1])
