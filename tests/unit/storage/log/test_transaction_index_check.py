"""A transaction index is held against the log when that is loaded: no flipped bit makes aborted records committed ones."""

from __future__ import annotations

import logging

import pytest
from support.cleaning import CleaningWorld, Producer, aborted_transactions, put
from support.logs import ROOT, World, append
from tidelog.storage.log.transaction_index_check import HELD_AGAINST_LOG
from tidelog.storage.segment.names import file_name

INDEX = f"{ROOT}/t-0/{file_name(0, '.txnindex')}"


@pytest.fixture
def world() -> World:
    """A closed segment with three transactions, two of them aborted, and an active one."""
    world = World()
    world.start()
    log = world.log()
    one, other = Producer(7), Producer(8)
    append(log, "plain")
    one.send(log, (b"a", b"1"), (b"b", b"2"))
    other.send(log, (b"c", b"3"))
    one.end(log, commit=False)
    other.end(log, commit=True)
    other.send(log, (b"d", b"4"))
    append(log, "plain")
    other.end(log, commit=False)
    log.roll()
    append(log, "active")
    world.stop()
    return world


def test_no_flipped_bit_changes_what_a_reader_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    good = world.fake.contents()[INDEX]
    for entry in (0, 34):
        # The last stable offset behind these is Kafka's alone: nothing here reads it.
        for byte in range(entry, entry + 26):
            for bit in (0, 3, 7):
                state = world.fake.kill()
                state.corrupt(INDEX, byte, bytes([good[byte] ^ 1 << bit]))
                again = World(state)
                again.log_config = world.log_config
                caplog.clear()
                with caplog.at_level(logging.WARNING):
                    log = again.start().get("t", 0)
                assert log is not None
                assert [txn[:3] for txn in aborted_transactions(log)] == [(7, 1, 4), (8, 6, 8)], (
                    f"byte {byte}, bit {bit}"
                )
                assert state.contents()[INDEX] == good
                assert any("made anew from the log" in message for message in caplog.messages)


def test_a_torn_one_is_made_anew_and_a_sound_one_left_alone(world: World) -> None:
    good = world.fake.contents()[INDEX]
    for content in (good, good[:-5], good + b"\1"):
        state = world.fake.kill()
        state.put(INDEX, content)
        again = World(state)
        again.log_config = world.log_config
        again.start()
        assert state.contents()[INDEX] == good


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_reads_no_more_for_more_aborted_transactions(is_clean: bool) -> None:
    reads = []
    for count in (HELD_AGAINST_LOG, 4 * HELD_AGAINST_LOG):
        world = World()
        world.start()
        log, producer = world.log(), Producer(7)
        for number in range(count):
            producer.send(log, (b"a", b"%d" % number))
            producer.end(log, commit=False)
        log.roll()
        append(log, "active")
        world.stop()
        state = world.fake.kill()
        if not is_clean:
            state.unlink(f"{ROOT}/.kafka_cleanshutdown")
        again = World(state)
        again.log_config = world.log_config
        again.start()
        reads.append(sum(read.path.endswith(".log") for read in state.reads))
    assert reads[0] == reads[1]


def test_an_old_entry_that_can_not_be_right_is_noticed() -> None:
    world = World()
    world.start()
    log, producer = world.log(), Producer(7)
    for number in range(HELD_AGAINST_LOG + 3):
        producer.send(log, (b"a", b"%d" % number))
        producer.end(log, commit=False)
    log.roll()
    world.stop()
    good = world.fake.contents()[INDEX]
    for byte in (11, 16, 19, 24):  # the upper halves of first and last offset
        state = world.fake.kill()
        state.corrupt(INDEX, byte, bytes([good[byte] ^ 1]))
        again = World(state)
        again.log_config = world.log_config
        again.start()
        assert state.contents()[INDEX] == good, byte


@pytest.mark.parametrize("seed", range(24))
def test_a_power_cut_at_a_roll_behind_a_flush_takes_no_entry(seed: int) -> None:
    """flush.messages=1 syncs the log alone, and brings the recovery point to where the segment ends. The cut comes before
    the sync of the indexes that the roll asks for."""
    world = World()
    world.start(flush_messages=1)
    log = world.log()
    one, other = Producer(7), Producer(8)
    other.send(log, (b"c", b"3"))  # begins in a segment before
    log.roll()
    log.flush()
    one.send(log, (b"a", b"1"), (b"b", b"2"))
    one.end(log, commit=False)
    one.send(log, (b"a", b"3"))
    one.end(log, commit=True)
    other.end(log, commit=False)
    log.flush()
    assert world.manager.checkpoint_recovery_points()
    log.roll()
    append(log, "behind it")
    world.cut_power(seed)
    world.start()
    assert [txn[:3] for txn in aborted_transactions(world.log())] == [(7, 1, 3), (8, 0, 6)]


@pytest.mark.parametrize("is_clean", [True, False])
def test_it_is_made_anew_with_an_offset_index_that_was_deleted_beside_it(world: World, is_clean: bool) -> None:
    good = world.fake.contents()[INDEX]
    state = world.fake.kill()
    state.unlink(INDEX)
    state.unlink(INDEX.replace(".txnindex", ".index"))
    if not is_clean:
        state.unlink(f"{ROOT}/.kafka_cleanshutdown")
    again = World(state)
    again.log_config = world.log_config
    again.start()
    assert state.contents()[INDEX] == good


def test_entries_stay_of_which_the_log_has_no_records_any_more() -> None:
    """Compaction has taken a transaction's records, or a restored directory has its index and not its offset index."""
    world = CleaningWorld()
    world.start(cleanup_policy=frozenset({"compact"}))
    log, producer = world.log(), Producer(7)
    producer.send(log, (b"a", b"1"), (b"b", b"2"))
    producer.end(log, commit=False)
    producer.send(log, (b"c", b"1"))  # a producer's last batch stays, without records
    producer.end(log, commit=True)
    put(log, "k", "v")
    log.roll()
    log.flush()
    put(log, "k", "active")
    before = aborted_transactions(log)
    world.clean_all()
    assert [txn[:3] for txn in before] == [txn[:3] for txn in aborted_transactions(world.log())] == [(7, 0, 2)]
    world.stop()
    path = f"{ROOT}/t-0/{file_name(0, '.index')}"
    assert path in world.fake.contents()
    world.fake.unlink(path)
    world.start(cleanup_policy=frozenset({"compact"}))
    assert [txn[:3] for txn in aborted_transactions(world.log())] == [(7, 0, 2)]
    world.stop()


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_many_are_made_anew_in_one_walk(has_snapshots: bool) -> None:
    """As a restore leaves them: every offset index is missing. A transaction reaches over segments."""
    reads = []
    for count in (10, 20):
        world = World()
        world.start()
        log, one, other = world.log(), Producer(7), Producer(8)
        for number in range(count):
            one.send(log, (b"a", b"%d" % number))
            one.end(log, commit=False)
            other.send(log, (b"b", b"%d" % number))
            log.roll()
            other.end(log, commit=bool(number % 2))
        log.roll()
        append(log, "active")
        good = aborted_transactions(log)
        world.stop()
        state = world.fake.kill()
        for path in list(state.contents()):
            if path.endswith((".index", ".txnindex", *([] if has_snapshots else [".snapshot"]))):
                state.unlink(path)
        again = World(state)
        again.log_config = world.log_config
        loaded = again.start().get("t", 0)
        assert loaded is not None
        assert [txn[:3] for txn in aborted_transactions(loaded)] == [txn[:3] for txn in good]
        assert len(good) == count + count // 2
        reads.append(sum(read.path.endswith(".log") for read in state.reads))
        again.stop()
    assert reads[1] <= 2 * reads[0] + 4


@pytest.mark.parametrize("stop", ["clean stop", "unclean stop", "power cut"])
def test_it_keeps_a_transaction_that_began_in_a_segment_that_is_deleted(stop: str) -> None:
    """The log has the marker alone, or the last batches too. A power cut leaves zeros of an index that was not synced."""
    world = World()
    world.start()
    log, one, other = world.log(), Producer(7), Producer(8)
    one.send(log, (b"a", b"1"))
    other.send(log, (b"b", b"1"))
    log.roll()
    one.end(log, commit=False)
    other.send(log, (b"b", b"2"))
    other.end(log, commit=False)
    log.roll()
    append(log, "active")
    assert log.increment_log_start_offset(2)
    assert len(log.delete_old_segments()) == 1
    world.stop()
    path = INDEX.replace(file_name(0, ""), file_name(2, ""))
    good = world.fake.contents()[path]
    state = world.fake.kill()
    if stop == "power cut":
        state.put(path, bytes(len(good)))
        state.unlink(path.replace(".txnindex", ".index"))
    else:
        state.corrupt(path, 9, bytes([good[9] ^ 1]))
    if stop != "clean stop":
        state.unlink(f"{ROOT}/.kafka_cleanshutdown")
    again = World(state)
    again.log_config = world.log_config
    loaded = again.start().get("t", 0)
    assert loaded is not None
    assert [txn[:3] for txn in aborted_transactions(loaded)] == [(7, 0, 2), (8, 1, 4)]
    assert state.contents()[path] == good
    again.stop()
