"""One pass, defect by defect that a real log cleaner shipped."""

from __future__ import annotations

import errno
import os
import struct
from dataclasses import replace
from functools import partial

import pytest
from support.cleaning import (
    DAY_MS,
    CleaningWorld,
    Producer,
    aborted_transactions,
    append_marker,
    cleaning_world,
    committed_records,
    data_records,
    headers,
    keyed,
    markers,
    pairs_of,
    put,
    state_of,
)
from support.fake_disk import BLOCK
from support.logs import read_records
from support.mock_time import START_MS
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, iterate_batches
from tidelog.storage.exceptions import OutOfOrderSequenceError

world = partial(cleaning_world, segment_bytes=1000)  # about a dozen small records each


def temporary_files(made: CleaningWorld) -> list[str]:
    return [path for path in made.fake.paths() if path.endswith((".cleaned", ".swap"))]


# --- what the documents tell ---


def test_offsets_36_37_and_38_are_equivalent_once_36_and_37_are_compacted_away() -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    for offset in range(45):
        put(log, {36: "a", 37: "b"}.get(offset, f"k{offset}"), str(offset))
    put(log, "a", "later")
    put(log, "b", "later")
    made.roll_and_clean()
    assert {36, 37}.isdisjoint(r.offset for r in data_records(log))
    for offset in (36, 37, 38):
        assert read_records(log, offset)[0].offset == 38
    assert log.lookup_by_timestamp(START_MS, limit_offset=None) is not None
    log = made.restart()
    assert [read_records(log, offset)[0].offset for offset in (35, 36, 37, 38)] == [35, 38, 38, 38]


def test_the_email_address_story() -> None:
    made = world()
    log = made.log()
    for address in ("bill@microsoft.com", "bill@gatesfoundation.org", "bill@gmail.com"):
        put(log, "123", address)
        for other in range(20):
            put(log, f"other-{other}", address)
    made.roll_and_clean()
    assert [r.value for r in data_records(log) if r.key == b"123"] == [b"bill@gmail.com"]
    assert len(data_records(log)) == 21


# --- defects that others shipped ---


def test_the_last_batch_of_the_range_stays_even_empty() -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    producer = Producer(7, is_transactional=True)
    put(log, "a", "1")
    producer.send(log, (b"b", b"aborted"))
    end = producer.end(log, commit=False) + 1
    log.roll()
    made.time.advance(days=2)
    log.remove_expired_producers()  # so that nothing but the rule keeps it
    made.clean_all()
    made.time.advance(days=2)
    made.clean_all()
    assert markers(log) == []
    assert headers(log)[-1].last_offset == end - 1
    assert made.restart().log_end_offset == end
    assert made.crash().log_end_offset == end


def test_a_partial_clean_keeps_the_abort_index_of_the_uncleaned_half() -> None:
    made = world(segment_bytes=100_000, map_entries=5)
    log = made.log()
    producer = Producer(7)
    producer.send(log, (b"k0", b"aborted"))
    for number in range(20):
        put(log, f"k{number}", "committed")
        producer.send(log, (b"k%d" % number, b"aborted"))
    producer.end(log, commit=False)
    log.roll()
    before = state_of(committed_records(log))
    first = made.clean_once()
    assert first is not None
    assert first.map_was_full
    assert first.end_offset < log.segments[-1].base_offset - 10
    assert len(aborted_transactions(log)) == 1
    assert state_of(committed_records(log)) == before
    log = made.restart()
    made.clean_all()
    assert state_of(committed_records(log)) == before
    assert b"aborted" not in {record.value for record in data_records(log)}


def test_nothing_at_or_above_the_last_stable_offset_is_touched() -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    put(log, "k", "old")
    log.roll()
    producer = Producer(7)
    producer.send(log, (b"k", b"new"))
    log.roll()
    put(log, "other", "x")
    log.roll()
    made.clean_all()
    assert [r.value for r in data_records(log)] == [b"old", b"new", b"x"]
    producer.end(log, commit=False)
    log.roll()
    made.clean_all()
    assert [(r.key, r.value) for r in data_records(log)] == [(b"k", b"old"), (b"other", b"x")]


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_state_is_carried_from_group_to_group(commit: bool) -> None:
    made = world(segment_bytes=1)
    log = made.log()
    producer = Producer(7)
    for number in range(5):
        producer.send(log, (b"k%d" % number, b"v"))
    producer.end(log, commit=commit)
    put(log, "other", "x")
    assert len(log.segments) == 7
    made.clean_all()
    kept = [r.key for r in data_records(log) if r.key != b"other"]
    assert kept == ([b"k%d" % n for n in range(5)] if commit else [])
    assert markers(log) == [5]
    made.time.advance(days=2)
    made.clean_all()
    # A marker stays as long as a record of its transaction does, or the empty batch that is its producer's last one:
    # who rebuilds the producer's state from the log must not find a transaction without an end.
    assert markers(log) == [5]
    log.remove_expired_producers()
    put(log, "k0", "later")
    put(log, "end", "x")
    made.clean_all()
    made.time.advance(days=2)
    made.clean_all()
    assert markers(log) == ([5] if commit else [])


def test_the_producers_last_batch_stays_and_its_retry_is_recognised() -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    producer = Producer(7, is_transactional=False)
    producer.send(log, (b"a", b"1"), (b"b", b"1"))
    first = producer.send(log, (b"a", b"2"), (b"b", b"2"))
    retry = dict(producer.last_arguments)
    put(log, "a", "3")
    put(log, "b", "3")
    made.roll_and_clean()
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers(log) if h.producer_id == 7] == [(2, 3, 0)]
    log = made.restart()
    # Nobody has a snapshot any more: the state comes from the batches.
    assert keyed(log, (b"a", b"2"), (b"b", b"2"), **retry) == first
    assert log.log_end_offset == 6
    made.kill()
    for path in [p for p in made.fake.paths() if p.endswith(".snapshot")]:
        made.fake.unlink(path)
    log = made.start_again()
    assert keyed(log, (b"a", b"2"), (b"b", b"2"), **retry) == first
    with pytest.raises(OutOfOrderSequenceError):
        keyed(log, (b"a", b"9"), **(retry | {"base_sequence": 9}))


def test_a_range_of_which_nothing_survives_keeps_the_end_of_the_log() -> None:
    made = world(segment_bytes=300)
    log = made.log()
    producers = [Producer(n, is_transactional=False) for n in range(3)]
    for _ in range(10):
        for producer in producers:
            producer.send(log, (b"k", b"v"))
    put(log, "k", "last")
    log.roll()
    end = log.log_end_offset
    made.clean_all()
    assert [r.value for r in data_records(log)] == [b"last"]
    assert made.restart().log_end_offset == end


def test_an_emptied_control_batch_is_read_by_everybody() -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    empty = build_batch(
        [], base_offset=0, last_offset=0, is_control=True, is_transactional=True, producer_id=7, producer_epoch=0,
        base_sequence=-1, partition_leader_epoch=0,
    )  # fmt: skip
    put(log, "replaced", "x")
    put(log, "replaced", "y")
    log.roll()
    path = log.log_directory.file(0, ".log")
    made.kill()
    made.fake.put(path, empty + build_batch([Record(0, START_MS, b"k", b"v")], base_offset=1, partition_leader_epoch=0))
    log = made.start_again()
    assert [r.offset for r in read_records(log, 0)] == [1]
    put(log, "k", "later")
    made.roll_and_clean()
    assert made.cleaners.uncleanable() == []
    assert [r.value for r in data_records(log)] == [b"later"]
    assert markers(log) == []


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4, Compression.SNAPPY])
def test_survivors_that_do_not_compress_make_larger_output(codec: Compression) -> None:
    made = world(segment_bytes=1 << 20, buffer_bytes=1 << 16)
    log = made.log()
    noise = os.urandom(150_000)
    # Together with its double the noise is small, alone it is not.
    keyed(log, (b"twin", noise), (b"stays", noise), compression=codec)
    put(log, "twin", "later")
    made.roll_and_clean()
    assert made.cleaners.uncleanable() == []
    assert state_of(data_records(log)) == {b"stays": noise, b"twin": b"later"}


def test_a_roll_within_a_group_changes_nothing_but_the_files() -> None:
    survivors = []
    for limit in (2**31 - 1, 400):
        made = CleaningWorld()
        made.max_segment_bytes = limit
        made.start(segment_bytes=4000)
        log = made.log()
        producer = Producer(7)
        for number in range(30):
            put(log, f"k{number % 25}", str(number))
            producer.send(log, (b"t%d" % number, b"x"))
            if number % 5 == 4:
                producer.end(log, commit=number % 10 == 4)
        made.roll_and_clean()
        assert made.cleaners.uncleanable() == []
        survivors.append(
            (
                pairs_of(data_records(log)),
                markers(log),
                aborted_transactions(log),
                state_of(committed_records(made.restart())),
            )
        )
        assert (len(log.segments) > 8) is (limit == 400)
    assert survivors[0] == survivors[1]


def test_a_second_pass_over_a_sparse_log_does_no_io() -> None:
    made = world(segment_bytes=300)
    log = made.log()
    for number in range(200):
        put(log, f"k{number % 3}", str(number))
    log.roll()
    made.clean_all()
    calls = len(made.fake.trace)
    assert made.clean_once() is None
    assert len(made.fake.trace) == calls


def test_a_map_much_smaller_than_a_segment_gets_there_in_many_passes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = world(segment_bytes=1 << 20, map_entries=10)
    log = made.log()
    for turn in range(3):
        for start in range(0, 1000, 50):
            keyed(log, *[(b"k%d" % n, b"%d" % turn) for n in range(start, start + 50)])
    log.roll()
    results = made.clean_all()
    assert len(results) >= 100
    assert all(result.map_was_full for result in results[:-1])
    assert "log.cleaner.dedupe.buffer.size" in caplog.text
    assert [(r.key, r.value) for r in data_records(log)] == [(b"k%d" % n, b"2") for n in range(1000)]


def test_a_map_that_fits_some_segments_ends_at_a_whole_one() -> None:
    made = world(segment_bytes=1000, map_entries=30)
    log = made.log()
    for number in range(100):
        put(log, f"k{number}", "v")
    log.roll()
    first = made.clean_once()
    assert first is not None
    assert first.end_offset in {segment.base_offset for segment in log.segments}
    assert first.end_offset > 13
    made.clean_all()
    assert len(data_records(log)) == 100


def test_an_abort_marker_at_the_base_of_a_cleaned_segment_keeps_its_index_entry() -> None:
    """A fetch that still holds the records in the old files, or a log that is cleaned on, must find them aborted."""
    made = world(segment_bytes=1 << 20)
    log = made.log()
    producer = Producer(7)
    put(log, "k", "old")
    producer.send(log, (b"a", b"aborted"))
    log.roll()
    base = producer.end(log, commit=False)
    put(log, "k", "new")
    put(log, "k", "newest")
    log.roll()
    log.update_config(replace(log.config, segment_bytes=1))  # so that no two segments are joined
    assert made.clean_all()
    assert made.cleaners.uncleanable() == []
    assert [segment.base_offset for segment in log.segments[:2]] == [0, base]
    assert markers(log) == [base]
    index = made.fake.contents()[log.log_directory.file(base, ".txnindex")]
    assert index, "the marker's segment has no entry"
    assert [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in aborted_transactions(log)] == [(7, 1, base)]


def test_a_batch_larger_than_the_present_limit_is_cleaned() -> None:
    """KAFKA-6834, 4019: read whole, for which the buffer grows, and cleaned as any other."""
    made = world(segment_bytes=1 << 20, buffer_bytes=1 << 16)
    log = made.log()
    value = os.urandom(300_000)
    keyed(log, (b"big", value), (b"small", b"x"))
    log.update_config(type(made.log_config)(segment_bytes=1 << 20, cleanup_policy=frozenset({"compact"}), max_message_bytes=1000,
                                            min_cleanable_dirty_ratio=0.0))  # fmt: skip
    put(log, "small", "y")
    results = made.roll_and_clean()
    assert made.cleaners.uncleanable() == []
    assert [(result.counts.superseded, result.end_offset) for result in results] == [(1, 3)]
    assert pairs_of(data_records(log)) == [(0, b"big", value), (2, b"small", b"y")]
    assert len(made.cleaner.walker.input) == len(made.cleaner.walker.output) == 1 << 16


def test_a_segment_that_goes_as_a_whole_needs_no_larger_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-6854: that nothing comes out of a buffer is no sign that it is too small. Neither of the two grows."""
    made = world(segment_bytes=1 << 20, buffer_bytes=1 << 16)
    log = made.log()
    producer = Producer(7)
    for _ in range(20):
        producer.send(log, (b"k", bytes(60_000)))
    producer.end(log, commit=False)
    log.roll()
    for buffer in ("grow_input", "grow_output"):
        monkeypatch.setattr(
            made.cleaner.walker, buffer, lambda _needed, buffer=buffer: pytest.fail(f"{buffer} was called")
        )
    (result,) = made.clean_all()
    assert made.cleaners.uncleanable() == []
    assert result.counts.aborted == 20
    assert data_records(log) == []


@pytest.mark.parametrize("size", [100, 4_000, 4_096, 5_000, 70_000])
@pytest.mark.parametrize("place", ["dirty", "clean"])
@pytest.mark.damaged("bytes of a batch are flipped, and stay")
def test_a_batch_of_any_size_whose_checksum_is_wrong_is_not_cleaned(size: int, place: str) -> None:
    """Rewritten it would get a right one. `clean` is a batch that only the second walk reads; 70,000 bytes fit no buffer."""
    made = world(segment_bytes=1 << 20, buffer_bytes=1 << 16)
    log = made.log()
    keyed(log, (b"kept", os.urandom(size)), (b"k", b"old"))
    log.roll()
    if place == "clean":
        made.clean_all()
    put(log, "k", "new")
    log.roll()
    path = log.log_directory.file(0, ".log")
    before = made.fake.contents()[path]
    made.fake.corrupt(path, len(before) - 20, bytes([before[-20] ^ 1]))  # within the records
    damaged = made.fake.contents()[path]
    assert made.clean_once() is None
    ((name, failure),) = made.cleaners.uncleanable()
    assert name == "t-0"
    assert "CRC" in failure.cause or "checksum" in failure.cause
    assert made.fake.contents()[path] == damaged
    assert temporary_files(made) == []


@pytest.mark.parametrize("codec", list(Compression))
def test_survivors_of_each_codec_keep_it_and_their_offsets(codec: Compression) -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    keyed(log, *[(b"k%d" % n, b"v%d" % n) for n in range(50)], compression=codec)
    for number in range(0, 50, 3):
        put(log, f"k{number}", "later")
    made.roll_and_clean()
    first = headers(log)[0]
    assert (first.compression, first.base_offset, first.last_offset) == (codec, 0, 49)
    assert [r.offset for r in data_records(log) if r.offset < 50] == [n for n in range(50) if n % 3]


def test_a_tombstone_gets_a_horizon_in_the_first_pass_and_goes_in_the_first_after_it() -> None:
    made = world(segment_bytes=100_000, delete_retention_ms=DAY_MS)
    log = made.log()
    put(log, "k", "v")
    put(log, "k", None)
    put(log, "end", "x")
    log.roll()
    made.clean_all()
    assert [(r.key, r.value) for r in data_records(log)] == [(b"k", None), (b"end", b"x")]
    assert [h.base_timestamp for h in headers(log) if h.has_delete_horizon] == [made.time.milliseconds() + DAY_MS]
    made.time.advance(DAY_MS - 1)
    assert made.clean_once() is None
    made.time.advance(1)
    assert made.clean_all()
    assert [r.key for r in data_records(log)] == [b"end"]
    assert made.clean_once() is None


@pytest.mark.parametrize("how", ["restart", "crash", "lost state file", "cleaned by another"])
def test_horizons_are_known_again_after_a_restart(how: str) -> None:
    made = world(segment_bytes=100_000, delete_retention_ms=DAY_MS)
    log = made.log()
    put(log, "k", "v")
    put(log, "k", None)
    put(log, "end", "x")
    log.roll()
    made.clean_all()
    if how == "restart":
        log = made.restart()
    else:
        path = f"{log.directory}/tidelog-cleaner.json"
        made.kill()
        if how == "lost state file":
            made.fake.unlink(path)
        elif how == "cleaned by another":
            made.fake.put(path, b'{"version":1,"checkpoint":1,"interrupted":false,"horizons":{}}')
        log = made.start_again()
    assert made.clean_once() is None
    made.time.advance(DAY_MS)
    assert made.clean_all()
    assert [r.key for r in data_records(log)] == [b"end"]


def test_a_horizon_once_set_never_moves() -> None:
    made = world(segment_bytes=100_000, delete_retention_ms=DAY_MS)
    log = made.log()
    put(log, "k", None)
    put(log, "end", "x")
    log.roll()
    made.clean_all()
    stamped = headers(log)[0].base_timestamp
    for retention in (0, 100 * DAY_MS):
        made.log_config = type(made.log_config)(
            segment_bytes=100_000, cleanup_policy=frozenset({"compact"}), delete_retention_ms=retention,
            min_cleanable_dirty_ratio=0.0,
        )  # fmt: skip
        log.update_config(made.log_config)
        put(log, "end", "y")
        made.roll_and_clean()
        assert headers(log)[0].base_timestamp == stamped


def test_a_tombstone_beyond_the_end_of_the_map_is_not_stamped() -> None:
    """Else it could go in the very pass that removes the value before it."""
    made = world(segment_bytes=100_000, map_entries=2, delete_retention_ms=DAY_MS)
    log = made.log()
    put(log, "a", "1")
    put(log, "b", "1")
    put(log, "c", "1")
    put(log, "a", None)
    log.roll()
    first = made.clean_once()
    assert first is not None
    assert first.end_offset == 2
    assert not any(h.has_delete_horizon for h in headers(log))


def test_keyless_records_of_an_earlier_policy_are_dropped_and_counted() -> None:
    made = CleaningWorld()
    made.start(segment_bytes=100_000, cleanup_policy=frozenset({"delete"}))
    log = made.log()
    keyed(log, (None, b"no key"), (b"k", b"v"), (None, b"nor here"))
    keyed(log, (None, b"none"))
    log.update_config(type(made.log_config)(segment_bytes=100_000, cleanup_policy=frozenset({"compact"}),
                                            min_cleanable_dirty_ratio=0.0))  # fmt: skip
    log.roll()
    results = made.clean_all()
    assert sum(result.counts.keyless for result in results) == 3
    assert pairs_of(data_records(log)) == [(1, b"k", b"v")]


def test_a_preallocated_log_leaves_no_room_in_cleaned_files() -> None:
    made = world(segment_bytes=100_000, preallocate=True)
    log = made.log()

    def held() -> list[int]:
        paths = [log.log_directory.file(segment.base_offset, ".log") for segment in log.segments]
        return [made.fake.stat(path).allocated_bytes for path in paths]

    for number in range(300):
        put(log, f"k{number % 5}", "v" * 800)
    log.roll()
    made.time.advance(seconds=1)
    assert len(log.segments) > 3
    assert held()[-1] >= 100_000
    for segment, blocks in zip(log.segments[:-1], held(), strict=False):
        assert segment.size <= blocks < segment.size + BLOCK
    made.clean_all()
    for segment, blocks in zip(log.segments[:-1], held(), strict=False):
        data = made.fake.contents()[log.log_directory.file(segment.base_offset, ".log")]
        assert len(data) == segment.size == sum(header.size for header in iterate_batches(data))
        assert segment.size <= blocks < segment.size + BLOCK


def test_an_aborted_pass_leaves_no_temporary_file_and_is_taken_up_again() -> None:
    made = world(segment_bytes=500)
    log = made.log()
    for number in range(200):
        put(log, f"k{number % 7}", str(number))
    log.roll()
    expected = state_of(data_records(log))
    for abort_at in (1, 5, 30, 60):
        assert made.clean_once(abort_at=abort_at) is None
        assert temporary_files(made) == []
        assert state_of(data_records(log)) == expected
    made.clean_all()
    assert len(data_records(log)) == 7


def test_cleaning_leaves_the_file_times_of_segments() -> None:
    made = world(segment_bytes=500)
    log = made.log()
    for number in range(100):
        put(log, f"k{number % 50}", str(number))
        made.time.advance(1000)
    log.roll()
    newest = max(segment.modified_ms() for segment in log.segments[:-1])
    times = {segment.base_offset: segment.modified_ms() for segment in log.segments[:-1]}
    made.time.advance(DAY_MS)
    made.clean_all()
    assert max(segment.modified_ms() for segment in log.segments[:-1]) == newest
    assert {segment.modified_ms() for segment in log.segments[:-1]} <= set(times.values())


# --- failures ---


@pytest.mark.parametrize("count", range(1, 60, 3))
def test_a_failing_disk_loses_nothing_and_leaves_nothing_behind(count: int) -> None:
    made = world(segment_bytes=400)
    log = made.log()
    for number in range(60):
        put(log, f"k{number % 4}", str(number))
    log.roll()
    expected = state_of(data_records(log))
    made.fake.fail_at(count, OSError(errno.ENOSPC, "disk full"))
    made.clean_once()
    made.fake.heal()
    if log.failure is not None:
        log = made.crash()
    assert state_of(data_records(log)) == expected
    made.time.advance(60_000)
    made.clean_all()
    assert temporary_files(made) == []
    assert len(data_records(log)) == 4
    assert made.cleaners.uncleanable() == []


@pytest.mark.damaged("bytes of a batch are flipped, and stay")
def test_a_damaged_batch_fails_the_pass_and_leaves_the_log_as_it_was() -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    for number in range(10):
        put(log, "k", str(number))
    log.roll()
    path = log.log_directory.file(0, ".log")
    made.fake.corrupt(path, 100, b"\xff")
    before = made.fake.contents()[path]
    assert made.clean_once() is None
    ((name, failure),) = made.cleaners.uncleanable()
    assert name == "t-0"
    assert "CorruptRecordError" in failure.cause
    assert made.fake.contents()[path] == before
    assert temporary_files(made) == []


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 5, 8, 31, 45, 62])
@pytest.mark.parametrize("victim", [0, 3, 9])
@pytest.mark.damaged("bits of base offsets are flipped, and stay")
def test_no_flipped_bit_of_a_base_offset_makes_an_older_value_win(victim: int, bit: int) -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    for number in range(10):
        put(log, "only" if number in (2, 3, 9) else f"k{number}", str(number))
    log.roll()
    put(log, "later", "")
    path = log.log_directory.file(0, ".log")
    batches = headers(log)
    data = made.fake.contents()[path]
    at = batches[victim].position + 7 - bit // 8
    made.fake.corrupt(path, at, bytes([data[at] ^ 1 << bit % 8]))
    before = made.fake.contents()[path]
    assert made.clean_once() is None
    ((name, failure),) = made.cleaners.uncleanable()
    assert name == "t-0"
    assert "belong" in failure.cause
    assert made.fake.contents()[path] == before
    assert temporary_files(made) == []


@pytest.mark.parametrize("offset", [-1, 4, 8, 1 << 40])
@pytest.mark.damaged("a base offset is changed, and stays")
def test_the_second_pass_looks_at_offsets_of_what_was_clean_before(offset: int) -> None:
    made = world(segment_bytes=100_000)
    log = made.log()
    for number in range(4):
        put(log, f"k{number}", "old")
    log.roll()
    assert made.clean_once() is not None
    path = log.log_directory.file(0, ".log")
    made.fake.corrupt(path, headers(log)[2].position, struct.pack(">q", offset))
    put(log, "k2", "new")
    log.roll()
    put(log, "later", "")
    assert made.clean_once() is None
    assert "belong" in made.cleaners.uncleanable()[0][1].cause


def test_a_group_of_one_in_which_nothing_changes_is_not_written() -> None:
    made = world(segment_bytes=500)
    log = made.log()
    for number in range(40):
        put(log, f"k{number}", "v")
    log.roll()
    result = made.clean_once()
    assert result is not None
    assert (result.segments_unchanged, result.bytes_written) == (result.segments_before, 0)


def test_what_came_before_the_first_change_is_copied() -> None:
    made = world(segment_bytes=1 << 20, buffer_bytes=1 << 16)
    log = made.log()
    for number in range(20):
        keyed(log, (b"k%d" % number, os.urandom(20_000)))
    put(log, "k19", "later")
    before = pairs_of(data_records(log))
    made.roll_and_clean()
    assert pairs_of(data_records(log)) == before[:19] + before[20:]


def test_counts_add_up() -> None:
    made = world(segment_bytes=600)
    log = made.log()
    producer = Producer(7)
    for number in range(60):
        put(log, f"k{number % 9}", None if number % 11 == 0 else str(number))
        producer.send(log, (b"t%d" % (number % 4), b"x"))
        if number % 6 == 5:
            append_marker(log, 7, 0, commit=number % 12 == 5)
    log.roll()
    for result in made.clean_all():
        counts = result.counts
        assert counts.records_read == counts.records_kept + counts.removed
        assert 0 < result.map_utilization <= 1
        assert result.map_entries <= result.map_records


def test_repeated_keys_reuse_their_entry() -> None:
    made = world(segment_bytes=100_000, map_entries=100)
    log = made.log()
    for number in range(90):
        put(log, f"k{number % 10}", "v")
    log.roll()
    result = made.clean_once()
    assert result is not None
    assert (result.map_entries, result.map_utilization, result.map_records) == (10, 0.1, 90)


# --- message formats 0 and 1 ---


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.SNAPPY])
@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
def test_old_formats_keep_format_codec_and_offsets(version: str, codec: Compression) -> None:
    made = world(segment_bytes=600, message_format_version=version)
    log = made.log()
    last: dict[bytes, tuple[int, bytes | None]] = {}
    for number in range(60):
        pairs = [(b"k%d" % (number % 7), b"v%d" % number), (b"j%d" % (number % 3), b"w")]
        offset = keyed(log, *pairs, compression=codec)
        for index, (key, value) in enumerate(pairs):
            last[key] = (offset + index, value)
    log.roll()
    made.clean_all()
    assert made.cleaners.uncleanable() == []
    magics = {
        made.fake.contents()[path][16]
        for path in made.fake.paths()
        if path.endswith(".log") and made.fake.contents()[path]
    }
    assert magics == {0 if version == "0.9.0" else 1}
    assert {r.key: (r.offset, r.value) for r in data_records(log)} == last
    assert len(data_records(log)) == 10
    log = made.restart()
    assert log.log_end_offset == 120
    assert len(data_records(log)) == 10


def test_tombstones_of_old_formats_go_by_file_times() -> None:
    made = world(segment_bytes=1 << 20, message_format_version="0.10.0", delete_retention_ms=DAY_MS)
    log = made.log()
    put(log, "k", "v")
    put(log, "k", None)
    put(log, "a", "1")
    log.roll()
    made.clean_all()
    assert [(r.key, r.value) for r in data_records(log)] == [(b"k", None), (b"a", b"1")]
    # The last clean segment is as old as the tombstone's: it stays.
    put(log, "a", "2")
    log.roll()
    made.clean_all()
    assert (b"k", None) in [(r.key, r.value) for r in data_records(log)]
    made.time.advance(DAY_MS + 1000)
    for value in ("3", "4", "5"):
        put(log, "a", value)
        made.log_config = replace(made.log_config, segment_bytes=1)
        log.update_config(made.log_config)
        log.roll()
        made.clean_all()
    assert [(r.key, r.value) for r in data_records(log)] == [(b"a", b"5")]


def test_what_supersedes_a_record_is_durable_before_that_goes() -> None:
    """The marker that decides it is in the active segment, which nobody has synced: a power cut must not take it alone."""
    made = world()
    log = made.log()
    producer = Producer(1)
    put(log, "a", "old")
    log.flush()
    producer.send(log, (b"a", b"new"))
    log.roll()
    producer.end(log, commit=True)
    assert made.clean_all()
    assert [r.value for r in data_records(log)] == [b"new"]
    made.scheduler.shutdown()
    made.file_system = next(made.fake.power_cut_states())[1]  # all that was not synced is lost
    assert state_of(committed_records(made.start_again())) == {b"a": b"new"}
