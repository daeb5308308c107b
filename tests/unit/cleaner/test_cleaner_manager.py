"""Which log is next, what a failure does, and what is remembered."""

from __future__ import annotations

import errno
import gc
import itertools
import logging
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.cleaning import (
    DAY_MS,
    CleaningWorld,
    Control,
    Producer,
    cleaning_world,
    data_records,
    keyed,
    put,
    state_of,
)
from support.patience import PATIENCE_S
from tidelog.cleaner.cleaner_manager import FIRST_RETRY_MS, LONGEST_RETRY_MS, CleanerManager
from tidelog.cleaner.cleaner_state import read_state
from tidelog.cleaner.eligibility import Cause, CleaningFacts, Eligibility, Reason
from tidelog.config.log_config import LogConfig
from tidelog.storage.inspect.verify import verify
from tidelog.storage.io.checkpoint import OffsetCheckpointFile
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.local_log import LocalLog
from tidelog.storage.log.unified_log import UnifiedLog

CHECKPOINT = "/data/cleaner-offset-checkpoint"
COMPACT = frozenset({"compact"})


def fill(log: UnifiedLog, count: int = 60, keys: int = 5) -> dict[bytes, bytes]:
    """Superseded records, rolled; returns the state that they stand for."""
    for number in range(count):
        put(log, f"k{number % keys}", str(number))
    log.roll()
    return state_of(data_records(log))


def config(**settings: Any) -> LogConfig:
    return LogConfig(
        **(
            {
                "segment_bytes": 500,
                "segment_index_bytes": 4096,
                "cleanup_policy": COMPACT,
                "min_cleanable_dirty_ratio": 0.0,
            }
            | settings
        )
    )


def checkpoints(made: CleaningWorld) -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(made.file_system, CHECKPOINT).read()


def test_the_dirtiest_log_is_first_and_the_checkpoint_is_kafkas() -> None:
    made = cleaning_world()
    half, whole = made.log("half"), made.log("whole")
    fill(half)
    made.clean_all()
    fill(half, 10)
    fill(whole)
    work = made.cleaners.take_next()
    assert work is not None
    assert work.log is whole
    made.cleaners.give_back(work)
    made.clean_all()
    assert checkpoints(made) == {("half", 0): 70, ("whole", 0): 60}
    assert made.fake.contents()[CHECKPOINT].startswith(b"0\n2\n")


def test_a_log_in_work_is_not_given_out_twice() -> None:
    made = cleaning_world()
    fill(made.log())
    work = made.cleaners.take_next()
    assert work is not None
    assert made.cleaners.take_next() is None
    assert made.cleaners.take(work.log) is None
    made.cleaners.give_back(work)
    assert made.cleaners.take_next() is not None


def test_a_log_that_another_thread_has_cleaned_since_the_look_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulator (seed 5519): a second pass over what the first had cleaned took the checkpoint back."""
    made = cleaning_world()
    log = made.log()
    fill(log)
    examine = made.cleaners.examine

    def examine_late(log: UnifiedLog) -> Eligibility:
        found = examine(log)
        monkeypatch.setattr(made.cleaners, "examine", examine)
        made.clean_all()
        return found

    monkeypatch.setattr(made.cleaners, "examine", examine_late)
    assert made.cleaners.take_next() is None
    assert checkpoints(made) == {(log.topic, 0): 60}


def test_a_checkpoint_that_another_thread_has_set_right_is_not_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cleaning_world()
    log = made.log()
    fill(log)
    made.cleaners._state(log).checkpoint = 1000  # beyond the log's end
    facts = made.cleaners.facts

    def facts_late(log: UnifiedLog) -> CleaningFacts:
        found = facts(log)
        monkeypatch.setattr(made.cleaners, "facts", facts)
        made.clean_all()
        return found

    monkeypatch.setattr(made.cleaners, "facts", facts_late)
    made.cleaners.examine(log)
    assert checkpoints(made) == {(log.topic, 0): 60}


def test_a_failure_concerns_its_partition_alone_and_is_retried() -> None:
    made = cleaning_world()
    bad, good = made.log("bad"), made.log("good")
    fill(bad)
    fill(good)
    path = bad.log_directory.file(0, ".log")
    byte = made.fake.contents()[path][100:101]
    made.fake.corrupt(path, 100, b"\x00" if byte != b"\x00" else b"\x01")
    assert made.clean_once() is None or made.clean_once() is None
    made.clean_all()
    assert checkpoints(made) == {("good", 0): 60}
    ((name, failure),) = made.cleaners.uncleanable()
    assert (name, failure.attempts) == ("bad-0", 1)
    assert "CRC" in failure.cause or "checksum" in failure.cause
    assert made.cleaners.examine(bad).cause is Cause.UNCLEANABLE
    # Back-off doubles up to an hour.
    delays = []
    for _ in range(12):
        failure = made.cleaners.uncleanable()[0][1]
        delays.append(failure.retry_ms - made.time.milliseconds())
        made.time.advance(delays[-1] - 1)
        assert made.clean_once() is None
        assert made.cleaners.uncleanable()[0][1].attempts == failure.attempts
        made.time.advance(1)
        assert made.clean_once() is None
    assert delays[:3] == [FIRST_RETRY_MS, 2 * FIRST_RETRY_MS, 4 * FIRST_RETRY_MS]
    assert delays[-1] == LONGEST_RETRY_MS
    # It recovers without a restart.
    made.fake.corrupt(path, 100, byte)
    made.time.advance(LONGEST_RETRY_MS)
    made.clean_all()
    assert made.cleaners.uncleanable() == []
    assert checkpoints(made)["bad", 0] == 60


@pytest.mark.parametrize("name", ["tidelog-ledger.json", "cleaner-offset-checkpoint", "tidelog-cleaner.json"])
def test_a_pass_whose_end_could_not_be_written_is_made_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = cleaning_world()
    log = made.log()
    expected = fill(log)
    real = made.cleaners._done

    def no_room(operation: Any) -> BaseException | None:
        is_it = name in operation.path and operation.kind not in ("read", "stat")
        return OSError(errno.ENOSPC, "No space left on device") if is_it else None

    def done(*arguments: Any) -> None:
        made.fake.fail_when(no_room)
        try:
            real(*arguments)
        finally:
            made.fake.fail_when(None)

    with monkeypatch.context() as patch:
        patch.setattr(made.cleaners, "_done", done)
        for attempt, delay in enumerate((FIRST_RETRY_MS, 2 * FIRST_RETRY_MS), 1):
            assert made.clean_once() is None
            [(_, failure)] = made.cleaners.uncleanable()
            assert (failure.attempts, failure.retry_ms) == (attempt, made.time.milliseconds() + delay)
            assert made.cleaners.passes(log) == (0, None)
            made.time.advance(delay)
    made.clean_all()
    assert made.cleaners.uncleanable() == []
    assert checkpoints(made) == {("t", 0): 60}
    assert state_of(data_records(log)) == expected


def test_a_clock_that_was_set_back_keeps_no_retry_away() -> None:
    made = cleaning_world()
    log = made.log()
    fill(log)
    path = log.log_directory.file(0, ".log")
    byte = made.fake.contents()[path][100:101]
    made.fake.corrupt(path, 100, bytes([byte[0] ^ 1]))
    assert made.clean_once() is None
    assert made.cleaners.uncleanable()
    made.fake.corrupt(path, 100, byte)
    made.time.set_wall_clock(made.time.milliseconds() - 365 * DAY_MS)
    made.time.advance(LONGEST_RETRY_MS)
    made.clean_all()
    assert made.cleaners.uncleanable() == []


def test_new_settings_are_a_reason_to_try_again() -> None:
    made = cleaning_world()
    log = made.log()
    fill(log)
    path = log.log_directory.file(0, ".log")
    byte = made.fake.contents()[path][100:101]
    made.fake.corrupt(path, 100, b"\x00" if byte != b"\x00" else b"\x01")
    assert made.clean_once() is None
    made.fake.corrupt(path, 100, byte)
    assert made.clean_once() is None
    log.update_config(config())
    assert made.clean_once() is not None


@pytest.mark.parametrize("seed", range(30))
def test_any_checkpoint_file_is_survived_and_put_right(seed: int) -> None:
    chance = random.Random(seed)
    made = cleaning_world()
    log = made.log()
    expected = fill(log)
    if chance.random() < 0.3:
        log.increment_log_start_offset(20)
        log.delete_old_segments()
        expected = {k: v for k, v in expected.items() if int(v) >= 20}
    line = chance.choice(
        [b"t 0 %d\n" % chance.choice([0, 5, 19, 20, 21, 59, 60, 61, 10**6, 2**63 - 1]), b"t 0 x\n", b"gone 0 5\n", b""]
    )
    made.stop()
    count = chance.choice([b"1", b"1", b"1", b"7", b"-1"])
    made.fake.put(CHECKPOINT, chance.choice([b"0\n" + count + b"\n" + line, b"0\n0\n", b"", b"\xff", b"1\n0\n"]))
    log = made.start_again()
    calls = 0
    for _ in range(3):
        made.clean_all(limit=20)
        log = made.log()
        before = len(made.fake.trace)
        assert made.clean_once() is None
        calls += len(made.fake.trace) - before
    assert calls == 0, "the cleaner works on after it has caught up"
    assert state_of(data_records(log)) == expected
    assert all(offset <= log.log_end_offset for (topic, _), offset in checkpoints(made).items() if topic == "t")


def test_a_topic_made_anew_begins_dirty() -> None:
    made = cleaning_world()
    fill(made.log())
    made.clean_all()
    made.manager.delete("t", 0)
    made.cleaners.forget("t", 0)
    log = made.log()
    expected = fill(log, 90)
    assert made.cleaners.examine(log).first_dirty == 0
    made.clean_all()
    assert state_of(data_records(log)) == expected
    assert len(data_records(log)) == 5


def test_a_topic_made_anew_begins_dirty_even_when_nobody_told_the_cleaner() -> None:
    made = cleaning_world()
    fill(made.log())
    made.clean_all()
    made.manager.delete("t", 0)
    fill(made.log(), 90)
    assert made.cleaners.examine(made.log()).first_dirty == 0


def test_a_look_at_a_deleted_log_takes_nothing_from_the_one_that_has_its_name_now() -> None:
    made = cleaning_world()
    old = made.log()
    fill(old)
    made.clean_all()
    made.manager.delete(old.topic, 0)
    made.cleaners.forget(old.topic, 0)
    new = made.manager.get_or_create(old.topic, 0, UUID(int=77), made.log_config)
    fill(new)
    work = made.cleaners.take_next()
    assert work is not None
    assert work.log is new
    assert not made.cleaners.is_in_work(old)  # as a request does that has waited
    assert made.cleaners.passes(old) == (0, None)
    assert made.cleaners.is_in_work(new)
    assert made.cleaners.take_next() is None, "two threads are at one log"
    assert made.cleaners.clean(work, made.cleaner, Control(made.time)) is not None
    made.cleaners.truncated(old, 0)
    assert checkpoints(made) == {("t", 0): 60}


def test_truncation_makes_what_comes_after_it_dirty() -> None:
    made = cleaning_world()
    log = made.log()
    fill(log)
    made.clean_all()
    log.truncate_to(30)
    made.cleaners.truncated(log, log.log_end_offset)
    fill(log, 60)
    assert made.cleaners.examine(log).first_dirty <= 30
    made.clean_all()
    assert len(data_records(log)) == 5


def test_deleting_to_the_end_frees_every_closed_segment_of_a_compacted_log() -> None:
    made = cleaning_world()
    log = made.log()
    fill(log)
    made.clean_all()
    log.increment_log_start_offset(log.high_watermark)
    log.delete_old_segments()
    assert len(log.segments) == 1
    assert made.clean_once() is None
    fill(log, 20)
    made.clean_all()
    assert len(data_records(log)) == 5


def test_a_running_pass_ends_where_the_log_is_no_longer_compacted() -> None:
    """KAFKA-7322, 6568, 12840: at each of its checks. Nothing is replaced from then on, it is no failure, and once the log is
    compacted again another pass does it all."""
    compact, delete = config(), config(cleanup_policy=frozenset({"delete"}))
    flips = 0
    while True:
        made = cleaning_world()
        log = made.log()
        expected = fill(log)
        at_flip: list[tuple[object, ...]] = []

        class Flip(Control):
            def check(self) -> None:
                super().check()
                if self.checks == flips + 1:  # noqa: B023  # it is used within this round
                    log.update_config(delete)  # noqa: B023
                    at_flip.append(log.segments)  # noqa: B023

        work = made.cleaners.take_next()
        assert work is not None
        result = made.cleaners.clean(work, made.cleaner, Flip(made.time))
        if not at_flip:
            break
        flips += 1
        assert result is None, f"the pass went on after the flip at check {flips}"
        assert log.segments == at_flip[0]
        assert made.cleaners.uncleanable() == []
        assert made.clean_once() is None  # while it is not compacted
        log.update_config(compact)
        assert made.clean_all()
        assert state_of(data_records(log)) == expected
        assert len(data_records(log)) == 5
    assert flips > 10


def test_a_thousand_flips_of_the_policy_under_load_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cleaner's thread and retention's run beside the appends; what each sees of the policy is left to chance."""
    made = CleaningWorld(file_system=RealFileSystem(), directories=[str(tmp_path)])
    made.start(segment_bytes=500)
    log = made.log()
    compact = config()
    delete = config(cleanup_policy=frozenset({"delete"}), retention_bytes=3000, retention_ms=-1)
    appended: dict[int, tuple[bytes, bytes]] = {}
    done = threading.Event()
    failures: list[BaseException] = []

    def until_done(task: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            try:
                while not done.is_set():
                    task()
            except BaseException as error:
                failures.append(error)
                raise

        return run

    threads = [
        threading.Thread(target=until_done(made.clean_once)),
        threading.Thread(target=until_done(log.delete_old_segments)),
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for turn in range(1000):
            log.update_config(delete if turn % 2 else compact)
            key, value = b"k%d" % (turn % 7), b"%d" % turn
            appended[keyed(log, (key, value))] = key, value
    finally:
        done.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert not failures, failures[0]
    log.update_config(compact)
    log.roll()
    made.clean_all()
    assert made.cleaners.uncleanable() == []
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    # Retention moved the log's start under the one policy, and the cleaner looked under the other: then it is said.
    assert [line for line in told if "lies before the log's start" not in line] == []
    found = {record.offset: (record.key, record.value) for record in data_records(log)}
    newest = {key: offset for offset, (key, _) in appended.items()}
    assert found == {offset: appended[offset] for offset in newest.values()}
    made.time.advance(120_000)
    files = {path.name for path in tmp_path.glob("t-0/*.log*")}
    assert files == {f"{segment.base_offset:020d}.log" for segment in log.segments}
    made.stop()


def live_files(made: CleaningWorld, log: UnifiedLog) -> tuple[set[str], set[str]]:
    """The partition's segment files as they are, and as the log's segments say that they have to be."""
    suffixes = (".log", ".index", ".timeindex")
    directory = f"{log.directory}/"
    there = {path for path in made.fake.paths() if path.startswith(directory) and "0000" in path}
    there = {path for path in there if not path.endswith((".snapshot", ".txnindex"))}
    return there, {
        log.log_directory.file(segment.base_offset, suffix) for segment in log.segments for suffix in suffixes
    }


RACES = ("retention", "truncation", "truncation and appends", "both")


def interfere(made: CleaningWorld, log: UnifiedLog, how: str, appended: dict[int, bytes]) -> None:
    """What other threads may do to the log at any moment of a pass."""
    if how in ("retention", "both"):
        log.increment_log_start_offset(log.segments[len(log.segments) // 3].base_offset)
        log.delete_old_segments()
    if how != "retention":
        log.truncate_to(log.segments[-3].base_offset + 1)
        made.cleaners.truncated(log, log.log_end_offset)
        for offset in [offset for offset in appended if offset >= log.log_end_offset]:
            del appended[offset]
    if how in ("truncation and appends", "both"):
        for number in range(30):
            appended[put(log, f"new{number}", "after")] = b"after"


@pytest.mark.parametrize("how", RACES)
def test_files_are_those_of_live_segments_whatever_happens_during_a_pass(how: str) -> None:
    """KAFKA-7278, 12955, 12964: retention and truncation at every fourth check of a pass, and just before each swap."""
    rounds = 0
    for moment, step in (("check", 4), ("swap", 1)):
        for number in itertools.count(1, step):
            made = cleaning_world(segment_bytes=300)
            log = made.log()
            appended = {put(log, f"k{n % 5}", str(n)): str(n).encode() for n in range(60)}
            log.roll()
            happened = _pass_with_interference(made, log, how, appended, moment, number)
            if not happened:
                break
            rounds += 1
            log.roll()
            made.clean_all()
            made.time.advance(120_000)
            there, expected = live_files(made, log)
            assert there == expected, f"{moment} {number}"
            assert made.cleaners.uncleanable() == []
            records = data_records(log)
            assert {record.offset: record.value for record in records}.items() <= appended.items(), f"{moment} {number}"
            after = {offset for offset, value in appended.items() if value == b"after"}
            assert after <= {record.offset for record in records}, f"{moment} {number}"
    assert rounds > 10


def _pass_with_interference(
    made: CleaningWorld, log: UnifiedLog, how: str, appended: dict[int, bytes], moment: str, number: int
) -> bool:
    """Runs one pass; True if it came to its `number`-th check, or swap, and met with interference there."""
    calls = 0
    happened = False

    def count() -> None:
        nonlocal calls, happened
        calls += 1
        if calls == number:
            happened = True
            interfere(made, log, how, appended)

    class Interfering(Control):
        def check(self) -> None:
            super().check()
            if moment == "check":
                count()

    original = UnifiedLog.replace_segments

    def replace_segments(self: UnifiedLog, *arguments: Any, **named: Any) -> bool:
        count()
        return original(self, *arguments, **named)

    work = made.cleaners.take_next()
    assert work is not None
    with pytest.MonkeyPatch.context() as patch:
        if moment == "swap":
            patch.setattr(UnifiedLog, "replace_segments", replace_segments)
        made.cleaners.clean(work, made.cleaner, Interfering(made.time))
    return happened


def test_retention_of_all_that_a_pass_works_on_does_not_end_it() -> None:
    made = cleaning_world(cleanup_policy=frozenset({"compact", "delete"}), segment_bytes=300)
    log = made.log()
    fill(log, 60)

    class Retention(Control):
        def check(self) -> None:
            super().check()
            if self.checks == 25:  # in the second walk
                log.increment_log_start_offset(log.segments[1].base_offset)
                log.delete_old_segments()

    work = made.cleaners.take_next()
    assert work is not None
    made.cleaners.clean(work, made.cleaner, Retention(made.time))
    made.clean_all()
    assert made.cleaners.uncleanable() == []
    assert len(data_records(log)) == 5


def test_max_lag_rolls_a_quiet_active_segment() -> None:
    made = cleaning_world(max_compaction_lag_ms=60_000, min_cleanable_dirty_ratio=1.0)
    log = made.log()
    put(log, "k", "1", timestamp=made.time.milliseconds())
    put(log, "k", "2", timestamp=made.time.milliseconds())
    assert made.clean_once() is None
    made.time.advance(60_001)
    assert made.cleaners.examine(log).roll_is_due
    assert made.clean_once() is not None
    assert [r.value for r in data_records(log)] == [b"2"]
    assert made.clean_once() is None


def test_min_lag_keeps_young_records_of_any_key() -> None:
    made = cleaning_world(min_compaction_lag_ms=60_000, segment_bytes=1)
    log = made.log()
    put(log, "k", "1", timestamp=made.time.milliseconds())
    made.time.advance(30_000)
    put(log, "k", "2", timestamp=made.time.milliseconds())
    put(log, "k", "3", timestamp=made.time.milliseconds())
    log.roll()
    assert made.clean_all() == []
    made.time.advance(30_001)
    made.clean_all()
    assert [r.value for r in data_records(log)] == [b"1", b"2", b"3"]
    made.time.advance(30_000)
    made.clean_all()
    assert [r.value for r in data_records(log)] == [b"3"]


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_min_lag_counts_by_the_timestamp_that_the_topic_has(kind: str) -> None:
    """A producer's date of last year makes a record old only where the topic takes producers' dates."""
    made = cleaning_world(min_compaction_lag_ms=60_000, message_timestamp_type=kind)
    log = made.log()
    year_ms = 365 * 86_400_000
    for value in "12":
        put(log, "k", value, timestamp=made.time.milliseconds() - year_ms)
    log.roll()
    passes = made.clean_all()
    assert bool(passes) is (kind == "CreateTime")
    made.time.advance(60_000)
    made.clean_all()
    assert [r.value for r in data_records(log)] == [b"2"]


@pytest.mark.parametrize("how", ["abort", "crash"])
def test_a_pass_that_was_cut_short_is_done_again_whatever_is_dirty_by_then(how: str) -> None:
    made = cleaning_world(min_cleanable_dirty_ratio=0.5, segment_bytes=300)
    log = made.log()
    for number in range(40):
        put(log, f"once{number}", "v")
    log.roll()
    made.clean_all()
    put(log, "once39", None)
    for number in range(100):
        put(log, f"k{number % 3}", str(number))
    log.roll()
    before = log.size
    for abort_at in range(20, 400, 5):
        made.clean_once(abort_at=abort_at)
        if log.size < before:
            break
    assert made.cleaners.partitions()[0].checkpoint == 40
    if how == "crash":
        log = made.crash()
    log.update_config(config(segment_bytes=300, min_cleanable_dirty_ratio=1.0))  # nothing is dirty enough
    assert made.cleaners.examine(log).reason is Reason.INTERRUPTED
    made.clean_all()
    made.time.advance(DAY_MS + 1)
    made.clean_all()
    assert len(data_records(log)) == 39 + 3


def cut_short() -> CleaningWorld:
    """A log of which a pass has put some segments in place and was then stopped."""
    made = cleaning_world(segment_bytes=300)
    log = made.log()
    fill(log, 100)
    before = log.size
    for abort_at in itertools.count(5, 5):
        assert made.clean_once(abort_at=abort_at) is None
        if log.size < before:
            break
    assert interrupted_end(made) == log.segments[-1].base_offset
    return made


def interrupted_end(made: CleaningWorld) -> int | None:
    state = read_state(made.file_system, made.log().directory)
    assert state is not None
    assert state.is_interrupted == (state.interrupted_end is not None)
    return state.interrupted_end


def verified(made: CleaningWorld) -> list[str]:
    """What `log verify` says of the data directory, its rules by name."""
    return [finding.rule for finding in verify(made.file_system, "/data")]


@pytest.mark.parametrize("is_loaded_again", [False, True])
def test_a_pass_that_ends_below_one_that_was_cut_short_does_not_make_up_for_it(is_loaded_again: bool) -> None:
    """`log verify` called the gaps of the first one damage: the second had nothing to clean, as records had become too young."""
    made = cut_short()
    log = made.restart() if is_loaded_again else made.log()
    log.update_config(config(segment_bytes=300, min_compaction_lag_ms=DAY_MS))
    assert made.clean_all() == []
    work = made.cleaners.take(log, roll=False)
    assert work is not None
    assert made.cleaners.clean(work, made.cleaner, Control(made.time)) is not None
    assert interrupted_end(made) == log.segments[-1].base_offset
    made.stop()
    assert set(verified(made)) <= {"leftover"}  # files to be deleted are none of the log
    log = made.start_again()
    log.update_config(config(segment_bytes=300, min_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio=1.0))
    made.time.advance(DAY_MS + 1)
    assert made.cleaners.examine(log).reason is Reason.INTERRUPTED
    assert len(made.clean_all()) == 1
    assert interrupted_end(made) is None
    assert len(data_records(log)) == 5


def test_passes_with_a_small_map_make_up_for_one_that_was_cut_short_together() -> None:
    made = cut_short()
    made.map_entries = 3
    log = made.restart()
    log.update_config(config(segment_bytes=300, min_cleanable_dirty_ratio=1.0))
    results = made.clean_all()
    assert len(results) > 1
    assert interrupted_end(made) is None
    assert made.cleaners.partitions()[0].checkpoint == log.segments[-1].base_offset


def test_a_log_that_ends_below_a_pass_that_was_cut_short_needs_it_no_more() -> None:
    made = cut_short()
    log = made.log()
    log.truncate_to(10)
    made.cleaners.truncated(log, 10)
    assert len(made.clean_all()) <= 1
    assert interrupted_end(made) is None


def test_asked_for_takes_no_notice_of_ratio_and_back_off() -> None:
    made = cleaning_world(min_cleanable_dirty_ratio=1.0)
    log = made.log()
    put(log, "k", "1")
    put(log, "k", "2")
    assert made.clean_once() is None
    work = made.cleaners.take(log)
    assert work is not None
    assert made.cleaners.clean(work, made.cleaner, Control(made.time)) is not None
    assert [r.value for r in data_records(log)] == [b"2"]


def test_a_horizon_that_removes_nothing_is_not_asked_about_without_end() -> None:
    made = cleaning_world(delete_retention_ms=1000)
    log = made.log()
    producer = Producer(7)
    producer.send(log, (b"k", b"v"))
    producer.end(log, commit=False)
    put(log, "end", "x")
    log.roll()
    made.clean_all()
    for _ in range(5):
        made.time.advance(2000)
        made.clean_all(limit=3)
    before = made.cleaners.partitions()[0].passes
    made.time.advance(2000)
    assert made.clean_once() is None
    assert made.cleaners.partitions()[0].passes == before


def test_a_pass_for_a_horizon_forgets_no_horizon_of_what_it_does_not_go_over() -> None:
    """The one before ended within a segment, whose rest min.compaction.lag.ms holds now: this one goes over what is before it."""
    made = cleaning_world(delete_retention_ms=1000, segment_bytes=600, map_entries=6)
    log = made.log()
    now = made.time.milliseconds()
    for number in range(3):
        put(log, f"a{number}", None, timestamp=now)
    log.roll()
    put(log, "b0", None, timestamp=now)
    for number in range(1, 9):
        put(log, f"b{number}", "x", timestamp=now)
    log.roll()
    bases = [segment.base_offset for segment in log.segments]
    for _ in range(2):
        assert made.clean_once() is not None
    [told] = made.cleaners.partitions()
    assert told.checkpoint is not None
    assert bases[1] < told.checkpoint < bases[2]
    held = {"segment_bytes": 600, "delete_retention_ms": 1000, "min_cleanable_dirty_ratio": 1.0}
    log.update_config(config(**held, min_compaction_lag_ms=DAY_MS))
    made.time.advance(5000)
    assert made.clean_all()
    assert [record.key for record in data_records(log) if record.value is None] == [b"b0"]
    made.time.advance(2 * DAY_MS)
    made.clean_all()
    assert not [record for record in data_records(log) if record.value is None]


def test_horizons_are_known_after_the_policy_had_no_compact_for_a_while() -> None:
    made = cleaning_world(delete_retention_ms=1000)
    log = made.log()
    fill(log)
    put(log, "k1", None)
    put(log, "end", "x")
    log.roll()
    made.clean_all()
    assert [record.key for record in data_records(log) if record.value is None] == [b"k1"]
    made.stop()
    made.fake.unlink(f"{log.directory}/tidelog-cleaner.json")  # as where Apache Kafka has cleaned last
    log = made.start_again()
    log.update_config(config(cleanup_policy=frozenset({"delete"})))
    assert made.cleaners.facts(log).horizons == {}  # `tidelog why`
    log.update_config(config(delete_retention_ms=1000))
    made.time.advance(10_000)
    made.clean_all()
    assert not [record for record in data_records(log) if record.value is None]


def test_threads_share_the_manager() -> None:
    """Each log is cleaned by one thread at a time, and all are cleaned."""
    made = cleaning_world()
    logs = [made.manager.get_or_create(f"t{n}", 0, UUID(int=n + 1), made.log_config) for n in range(8)]
    for log in logs:
        fill(log)
    in_work: set[str] = set()
    clashes: list[str] = []
    lock = threading.Lock()

    def work() -> None:
        while (taken := made.cleaners.take_next()) is not None:
            with lock:
                if taken.log.name in in_work:
                    clashes.append(taken.log.name)
                in_work.add(taken.log.name)
            with lock:
                in_work.discard(taken.log.name)
            made.cleaners.give_back(taken)
            with made.cleaners._lock:
                made.cleaners._states[taken.log.topic, 0].checkpoint = 60

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert clashes == []
    assert {state.checkpoint for state in made.cleaners._states.values()} == {60}


def test_partitions_tell_what_metrics_need() -> None:
    made = cleaning_world()
    log = made.log()
    keyed(log, (b"k", b"1"))
    made.cleaners.examine(log)
    (one,) = made.cleaners.partitions()
    assert (one.topic, one.partition, one.passes, one.last_pass, one.checkpoint) == ("t", 0, 0, None, None)
    assert one.eligibility.cause is Cause.ACTIVE
    fill(log)
    made.clean_all()
    (one,) = made.cleaners.partitions()
    assert one.passes == 1
    assert one.last_pass is not None
    assert one.last_pass.counts.superseded > 0
    assert isinstance(made.cleaners, CleanerManager)


def test_a_log_that_is_held_is_not_cleaned_until_it_is_let_go() -> None:
    made = cleaning_world()
    log = made.log()
    fill(log)
    assert made.cleaners.hold(log)
    assert made.cleaners.take_next() is None
    assert made.cleaners.take(log) is None
    made.cleaners.let_go(log)
    work = made.cleaners.take_next()
    assert work is not None
    assert not made.cleaners.hold(log)  # the pass is asked to end, and has not yet
    made.cleaners.give_back(work)
    assert made.cleaners.hold(log)


def test_the_directory_that_a_log_goes_to_knows_how_far_it_is_cleaned() -> None:
    made = cleaning_world()
    log, key = made.log(), ("t", 0)
    fill(log)
    made.clean_all()
    cleaned = checkpoints(made)[key]
    made.file_system.make_directory("/other")
    made.cleaners.hold(log)
    made.cleaners.carry(log, "/other")
    there = OffsetCheckpointFile(made.file_system, "/other/cleaner-offset-checkpoint")
    assert there.read() == {key: cleaned}
    made.cleaners.let_go(log)  # it stays here after all
    fill(log)
    made.clean_all()
    assert checkpoints(made)[key] > cleaned


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_topic_made_anew_is_dirty_from_its_beginning_after_the_next_start_too(end: str) -> None:
    """The deleted one's entry in the checkpoint would have its records count as clean: what they hold twice would stay."""
    made = cleaning_world()
    for _ in range(3):
        for key in "abcdef":
            put(made.log(), key, "old")
    made.roll_and_clean()
    made.cleaners.forget("t", 0)
    made.manager.delete("t", 0)
    log = made.log()
    for number in range(3):
        for key in "abcdef":
            put(log, key, f"new {number}")
    log = made.restart() if end == "stop" else made.crash()
    log.roll()
    assert made.cleaners.examine(log).first_dirty == 0
    made.clean_all()
    assert len(data_records(log)) == 6
    made.stop()


def test_a_pass_over_a_log_that_is_about_to_be_deleted_leaves_its_successor_no_checkpoint() -> None:
    """The topic is forgotten first, and its logs go one after the other: a thread that looks for work finds them once more."""
    made = cleaning_world()
    fill(made.log())
    fill(made.log("other"))
    made.clean_all()
    made.cleaners.forget("t", 0)
    made.clean_all()
    fill(made.log("other"))
    work = made.cleaners.take_next()
    assert work is not None
    assert work.log.topic == "other"
    made.manager.delete("t", 0)
    fill(made.log(), 90)
    made.cleaners.clean(work, made.cleaner, Control(made.time))
    assert set(checkpoints(made)) == {("other", 0)}
    log = made.crash()
    assert made.cleaners.examine(log).first_dirty == 0
    made.stop()


def test_a_look_at_a_log_that_is_about_to_be_deleted_does_not_keep_it_in_memory() -> None:
    """Its state stayed, with the closed log and its indexes, until its name was used again."""
    made = cleaning_world()
    old = made.log()
    fill(old)
    fill(made.log("other"))
    made.cleaners.forget_topic("t")
    work = made.cleaners.take_next()
    assert work is not None
    made.cleaners.give_back(work)
    made.manager.delete("t", 0)
    del work
    made.clean_all()
    gc.collect()
    ours = [one for one in gc.get_objects() if type(one).__module__ == CleanerManager.__module__]
    assert not [one for one in ours if getattr(one, "log", None) is old]
    made.stop()


def test_a_pass_that_ends_behind_the_deletion_of_its_log_leaves_its_successor_no_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = cleaning_world()
    old = made.log()
    fill(old)
    made.cleaners.forget("t", 0)
    save_ledger = LocalLog.save_ledger

    def deleted_meanwhile(local: LocalLog, *arguments: Any) -> None:
        save_ledger(local, *arguments)
        if local is old.local:
            made.manager.delete("t", 0)
            made.log()

    monkeypatch.setattr(LocalLog, "save_ledger", deleted_meanwhile)
    made.clean_once()
    assert made.log() is not old
    assert checkpoints(made) == {}
    made.stop()


def test_two_moves_to_one_directory_at_once_both_leave_their_checkpoint_there() -> None:
    """Each writes the whole file."""
    made = cleaning_world()
    logs = [made.log(), made.log("other")]
    for log in logs:
        fill(log)
    made.clean_all()
    made.file_system.make_directory("/other")
    made.cleaners.forget_checkpoint("/other", ("t", 0))
    made.cleaners._checkpoint_locks["/other"] = Waited(lambda: made.cleaners.carry(logs[1], "/other"))  # type: ignore[assignment]
    made.cleaners.carry(logs[0], "/other")
    there = OffsetCheckpointFile(made.file_system, "/other/cleaner-offset-checkpoint")
    assert there.read() == checkpoints(made)
    made.stop()


def test_a_disk_that_hangs_while_its_checkpoint_is_written_holds_up_no_log_on_another() -> None:
    made = cleaning_world()
    made.file_system.make_directory("/other")
    with made.cleaners._changing("/data"):  # as long as the disk takes
        first_log_there = threading.Thread(
            target=made.cleaners.forget_checkpoint, args=("/other", ("u", 0)), daemon=True
        )
        first_log_there.start()
        first_log_there.join(PATIENCE_S)
        assert not first_log_there.is_alive()
    made.stop()


class Waited:
    """A lock; `meanwhile` is done by others before it is first free."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile: list[Callable[[], object]] = [meanwhile]
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self._meanwhile:
            self._meanwhile.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
