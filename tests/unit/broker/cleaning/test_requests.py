from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.cleaning import DAY_MS, CleaningWorld, Control, Producer, data_records, keyed, markers, put, state_of
from support.patience import PATIENCE_S, until
from tidelog.broker.cleaning.requests import MAX_WAITING, CleanRequest, CleanRequests, TooManyRequestsError
from tidelog.cleaner.cleaner_manager import Work
from tidelog.cleaner.cleaning import Cleaner
from tidelog.cleaner.kernel._kernel import OffsetMap
from tidelog.cleaner.walk import Walker
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.log.unified_log import UnifiedLog

COMPACT = frozenset({"compact"})


class Requests:
    """A world whose logs are cleaned on request."""

    def __init__(self, map_entries: int = 1000, **settings: object) -> None:
        self.world = CleaningWorld(map_entries=map_entries)
        self.world.start(**({"segment_bytes": 300, "min_cleanable_dirty_ratio": 1.0} | settings))
        self.requests = CleanRequests(self.world.cleaners, self.make_cleaner, self.world.time)

    def make_cleaner(self) -> Cleaner:
        world = self.world
        return Cleaner(
            Walker(OffsetMap(24 * world.map_entries, 1.0), buffer_bytes=1 << 16),
            throttler=world.throttler,
            time=world.time,
            secret=lambda: bytes(16),
        )

    def clean(self, *logs: UnifiedLog) -> CleanRequest:
        request = self.requests.ask("t", logs or [self.world.log()])
        assert request.done.wait(PATIENCE_S)
        return request

    def ask_while_taken(self, log: UnifiedLog) -> CleanRequest:
        """Ask for a log that the caller has taken; returns when the request's thread has met that, and waits."""
        take, refused = self.world.cleaners.take, threading.Event()

        def tell_of_refusal(log: UnifiedLog, *, roll: bool = True) -> Work | None:
            work = take(log, roll=roll)
            if work is None:
                refused.set()
            return work

        self.world.cleaners.take = tell_of_refusal  # type: ignore[method-assign]
        request = self.requests.ask("t", [log])
        assert refused.wait(PATIENCE_S)
        return request


@pytest.fixture
def made() -> Iterator[Requests]:
    requests = Requests()
    yield requests
    requests.requests.stop()


def removed(request: CleanRequest) -> dict[str, int]:
    return {cause: count for cause, count in request.describe()["removed"].items() if count}


def test_it_rolls_and_cleans_whatever_the_ratio_and_counts_by_cause(made: Requests) -> None:
    log = made.world.log()
    for number in range(50):
        put(log, f"k{number % 5}", f"{number}")
    put(log, "k0", None)
    before = state_of(data_records(log))
    request = made.clean()
    assert removed(request) == {"superseded": 46}
    assert state_of(data_records(log)) == before
    said = request.describe()
    assert (said["state"], said["partitions"], said["partitionsDone"], said["errors"]) == ("done", 1, 1, {})
    assert said["removedRecords"] == 46
    assert said["removedBytes"] > 0
    assert removed(made.clean()) == {}
    made.world.time.advance(DAY_MS)  # the deletion mark's time
    assert removed(made.clean()) == {"tombstone": 1}
    assert made.requests.get("t", request.number) is request
    assert made.requests.get("other", request.number) is None


def test_every_cause_is_told_and_adds_up_with_the_ledger() -> None:
    """What one run took by cause is what the ledger has more of; and all of it together is every offset there ever was."""
    made = Requests(cleanup_policy=frozenset({"delete"}), retention_ms=-1, retention_bytes=-1)
    log, producer = made.world.log(), Producer(7)
    for number in range(12):
        put(log, f"early{number}", "x" * 100)
    keyed(log, (None, b"without a key"))
    log.update_config(replace(log.config, cleanup_policy=frozenset({"compact", "delete"}), delete_retention_ms=DAY_MS))
    log.increment_log_start_offset(log.segments[1].base_offset)
    for number in range(20):
        put(log, f"k{number % 2}", "x")
    put(log, "k0", None)
    for commit in (False, True):
        producer.send(log, (b"k1", b"transactional"))
        producer.end(log, commit=commit)
    first = made.clean()
    assert set(removed(first)) == {"superseded", "aborted", "keyless", "delete-records"}
    made.world.time.advance(DAY_MS)
    second = made.clean()
    assert removed(second) == {"tombstone": 1, "marker": 1}
    log.update_config(replace(log.config, retention_bytes=log.segments[-1].size + log.segments[-2].size))
    third = made.clean()
    assert set(removed(third)) == {"retention"}
    told = Counter(removed(first)) + Counter(removed(second)) + Counter(removed(third))
    ledger = third.describe()["byPartition"]["0"]["ledger"]
    assert ledger["removed"] == told
    live = len(data_records(log)) + len(markers(log))
    assert ledger == {"appended": log.log_end_offset, "live": live, "removed": dict(told)}
    assert log.log_end_offset == live + told.total()
    made.requests.stop()


def test_what_a_pass_took_that_was_ended_early_is_told_too(made: Requests) -> None:
    log = made.world.log()
    for number in range(50):
        put(log, f"k{number % 5}", f"{number}")
    work = made.world.cleaners.take(log)
    assert work is not None
    request = made.ask_while_taken(log)
    assert not request.done.is_set()
    assert made.world.cleaners.clean(work, made.world.cleaner, Control(made.world.time, abort_at=22)) is None
    assert log.ledger.value is not None
    assert log.ledger.value.removed, "a group is in place"
    assert request.done.wait(PATIENCE_S)
    assert removed(request) == {"superseded": 45}


def test_promises_are_kept() -> None:
    made = Requests(min_compaction_lag_ms=DAY_MS)
    log = made.world.log()
    for number in range(50):
        put(log, f"k{number % 5}", f"{number}")
    assert removed(made.clean()) == {}
    made.world.time.advance(DAY_MS)
    producer = Producer(7)
    producer.send(log, (b"k1", b"open"))
    assert removed(made.clean()) == {"superseded": 45}
    producer.end(log, commit=False)
    made.world.time.advance(DAY_MS)
    assert removed(made.clean())["aborted"] == 1
    made.requests.stop()


def test_a_map_that_is_too_small_takes_as_many_passes_as_it_needs() -> None:
    made = Requests(map_entries=64)
    log = made.world.log()
    for number in range(400):
        put(log, f"k{number % 200}", "v")
    assert removed(made.clean()) == {"superseded": 200}
    made.requests.stop()


def test_retention_of_a_topic_that_is_not_compacted() -> None:
    made = Requests(cleanup_policy=frozenset({"delete"}), retention_ms=-1, retention_bytes=500)
    log = made.world.log()
    for number in range(30):
        put(log, f"{number}", "x" * 50)
    request = made.clean()
    assert removed(request) == {"retention": log.log_start_offset}
    assert log.log_start_offset > 0
    made.requests.stop()


@pytest.mark.damaged("a batch is damaged")
def test_a_failure_is_told_and_the_next_partition_is_cleaned_all_the_same(made: Requests) -> None:
    broken, sound = made.world.log(), made.world.log("t", 1)
    for log in (broken, sound):
        for number in range(50):
            put(log, f"k{number % 5}", f"{number}")
        log.roll()
        log.flush()
    path = f"{broken.directory}/{broken.segments[0].base_offset:020}.log"
    file = made.world.file_system.open(path)
    size = file.size()
    file.truncate(size - 20)
    file.append(b"\xff" * 20)
    file.close()
    request = made.clean(broken, sound)
    assert removed(request) == {"superseded": 45}
    assert list(request.errors) == [0]
    assert "CorruptRecordError" in request.errors[0] or "InvalidRecordError" in request.errors[0]
    told = request.describe()
    assert (told["state"], told["partitionsDone"], list(told["errors"])) == ("failed", 2, ["0"])
    assert made.clean(sound).describe()["state"] == "done"


def test_a_log_whose_disk_fails_beside_the_pass_is_no_log_that_was_cleaned(
    made: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roll's sync runs elsewhere; the pass itself met nothing."""
    log = made.world.log()
    put(log, "k", "v")
    delete = UnifiedLog.delete_old_segments

    def with_failure(log: UnifiedLog) -> Any:
        found = delete(log)
        log.local.failure = KafkaStorageError("t-0: sync failed: EIO")
        return found

    monkeypatch.setattr(UnifiedLog, "delete_old_segments", with_failure)
    told = made.clean().describe()
    assert (told["state"], told["errors"]) == ("failed", {"0": "t-0: sync failed: EIO"})


def test_a_pass_under_way_is_waited_for_and_counted(made: Requests) -> None:
    log = made.world.log()
    for number in range(50):
        put(log, f"k{number % 5}", f"{number}")
    work = made.world.cleaners.take(log)
    assert work is not None
    request = made.ask_while_taken(log)
    assert not request.done.is_set()
    assert request.describe()["state"] == "running"
    made.world.cleaners.clean(work, made.world.cleaner, Control(made.world.time))
    assert request.done.wait(PATIENCE_S)
    assert removed(request) == {"superseded": 45}


def test_a_topic_that_is_deleted_while_its_request_waits_is_not_touched(made: Requests) -> None:
    first, second = made.world.log(), made.world.log("u")
    put(first, "k", "v")
    put(second, "k", "v")
    work = made.world.cleaners.take(first)
    assert work is not None
    made.requests.ask("t", [first])
    request = made.requests.ask("u", [second])
    made.world.manager.delete("u", 0)
    again = made.world.log("u")
    made.world.cleaners.examine(again)
    made.world.cleaners.give_back(work)
    assert request.done.wait(PATIENCE_S)
    assert request.errors == {0: "u-0 is closed"}
    examined = [(one.topic, one.partition) for one in made.world.cleaners.partitions()]  # of logs that are open
    assert ("u", 0) in examined
    assert made.world.manager.get("u", 0) is again


def test_a_failed_log_keeps_nothing_of_the_requests_that_met_it(made: Requests) -> None:
    log = made.world.log()
    log.local.failure = KafkaStorageError("the disk is gone")
    for _ in range(3):
        assert made.clean().errors == {0: "the disk is gone"}
    assert log.local.failure.__traceback__ is None


def test_a_request_for_which_the_system_has_no_thread_is_refused_and_the_next_one_is_done(
    made: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(made.world.log(), "k", "v")

    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                made.requests.ask("t", [made.world.log()])
    request = made.clean()
    assert (request.number, request.errors) == (1, {})


def test_waiting_requests_are_joined_and_bounded(made: Requests) -> None:
    log = made.world.log()
    put(log, "k", "v")
    work = made.world.cleaners.take(log)
    assert work is not None
    first = made.requests.ask("t", [log])
    until(lambda: first.started_ms is not None, "its thread")
    second = made.requests.ask("t", [log])
    assert second is not first
    assert made.requests.ask("t", [log]) is second
    for number in range(MAX_WAITING - 1):
        made.requests.ask(f"topic-{number}", [])
    with pytest.raises(TooManyRequestsError, match=f"{MAX_WAITING} requests"):
        made.requests.ask("one-more", [])
    made.world.cleaners.give_back(work)
    assert second.done.wait(PATIENCE_S)


def test_a_stop_does_not_wait_for_a_log_that_is_taken(made: Requests) -> None:
    log = made.world.log()
    put(log, "k", "v")
    assert made.world.cleaners.take(log) is not None
    request = made.requests.ask("t", [log])
    made.requests.stop()
    assert request.done.wait(PATIENCE_S)
    assert request.errors == {0: "the daemon stops"}
    assert not [thread for thread in threading.enumerate() if thread.name == "clean-requests"]
