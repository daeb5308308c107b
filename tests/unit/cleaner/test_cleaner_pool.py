"""The threads themselves: real ones, on the fake file system, with an event to wait for rather than a sleep."""

from __future__ import annotations

import errno
import math
import threading
import time as clock
from dataclasses import replace
from typing import Any

import pytest
from support.cleaning import SECRET, CleaningWorld, cleaning_world, data_records, put
from support.patience import PATIENCE_S, until
from tidelog.cleaner.cleaner_pool import AFTER_ABORT_MS, CleanerPool, PoolSettings, Worker
from tidelog.cleaner.cleaning import Cleaner
from tidelog.cleaner.walk import Walker

SMALL = PoolSettings(dedupe_buffer_bytes=24 * 1000, io_buffer_bytes=1 << 17, backoff_ms=60_000)


def pool_of(made: CleaningWorld, settings: PoolSettings = SMALL, **arguments: Any) -> CleanerPool:
    return CleanerPool(made.cleaners, settings, time=made.time, secret=lambda: SECRET, **arguments)


def world(count: int = 100) -> CleaningWorld:
    made = cleaning_world()
    log = made.log()
    for number in range(count):
        put(log, f"k{number % 5}", str(number))
    log.roll()
    return made


def test_threads_clean_what_is_due_and_wait_then() -> None:
    made = world()
    begun = []
    pool = pool_of(made, lower_priority=lambda: begun.append(threading.current_thread().name))
    pool.start()
    try:
        until(lambda: made.cleaners.partitions() and made.cleaners.partitions()[0].passes == 1, "the first pass")
        assert begun == ["cleaner-0"]
        put(made.log(), "k0", "new")
        made.log().roll()
        pool.settle(0)
        until(lambda: made.cleaners.partitions()[0].passes == 2, "the second pass")
    finally:
        pool.stop(PATIENCE_S)
    assert len(data_records(made.log())) == 5
    assert (pool.thread_count, pool.dead_threads) == (0, 0)
    assert len(pool.results()) == 1


def test_five_resizes_change_nothing_but_the_threads() -> None:
    made = world()
    pool = pool_of(made)
    pool.start()
    try:
        for threads in (3, 1, 4, 2, 5):
            pool.configure(replace(SMALL, threads=threads))
            until(lambda threads=threads: pool.thread_count == threads, f"{threads} threads")
            assert pool.dead_threads == 0
            names = {thread.name for thread in threading.enumerate() if thread.name.startswith("cleaner-")}
            assert names == {f"cleaner-{number}" for number in range(threads)}
        until(lambda: made.cleaners.partitions()[0].passes >= 1, "a pass")
    finally:
        pool.stop(PATIENCE_S)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cleaner-")]


def test_a_new_rate_reaches_a_pass_under_way() -> None:
    made = world(200)

    class Wall:
        milliseconds = staticmethod(made.time.milliseconds)

        @staticmethod
        def monotonic_ms() -> float:
            return clock.monotonic() * 1000

        monotonic = staticmethod(clock.monotonic)

    pool = CleanerPool(made.cleaners, replace(SMALL, io_bytes_per_second=1.0), time=Wall(), secret=lambda: SECRET)
    pool.start()
    try:
        until(lambda: pool.throttler.total_bytes > 0, "a pass that waits for its rate")
        assert made.cleaners.partitions()[0].passes == 0
        pool.configure(replace(SMALL, io_bytes_per_second=math.inf))
        until(lambda: made.cleaners.partitions()[0].passes == 1, "a whole pass")
    finally:
        pool.stop(PATIENCE_S)


def test_a_stop_wakes_a_pass_that_waits_for_the_throttle() -> None:
    made = world(200)
    pool = pool_of(made, replace(SMALL, io_bytes_per_second=1.0))
    pool.start()
    until(lambda: pool.throttler.total_bytes > 0, "a pass that waits for its rate")
    pool.stop(PATIENCE_S)  # at one byte per second the pass would wait for minutes: only the stop can have ended it
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cleaner-")]
    assert made.cleaners.partitions()[0].passes == 0
    assert not [path for path in made.fake.paths() if path.endswith((".cleaned", ".swap"))]
    assert made.clean_all()
    assert len(data_records(made.log())) == 5


def test_an_error_of_the_cleaner_itself_ends_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    real, calls = made.cleaners.take_next, []

    def take_next() -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("a defect")
        return real()

    monkeypatch.setattr(made.cleaners, "take_next", take_next)
    pool = pool_of(made)
    pool.start()
    try:
        until(lambda: len(calls) == 1, "the error")
        until(
            lambda: pool.dead_threads == 0 and bool(pool.settle(0) or made.cleaners.partitions()), "a look at the logs"
        )
        until(lambda: made.cleaners.partitions()[0].passes == 1, "a whole pass")
    finally:
        pool.stop(PATIENCE_S)


@pytest.mark.parametrize("error", [MemoryError("no map"), OSError(errno.EMFILE, "Too many open files")])
def test_a_cleaner_that_could_not_be_made_leaves_no_log_claimed(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world()
    pool = pool_of(made)
    real, errors = pool.make_cleaner, [error]

    def make() -> Cleaner:
        if errors:
            raise errors.pop()
        return real()

    monkeypatch.setattr(pool, "make_cleaner", make)
    pool.start()
    try:
        until(lambda: not errors, "the error")
        assert pool.settle(PATIENCE_S)
        assert pool.settle(PATIENCE_S)
        assert not made.cleaners.is_in_work(made.log())
        assert made.cleaners.passes(made.log())[0] == 1
    finally:
        pool.stop(PATIENCE_S)


def test_memory_is_shared_out_and_taken_when_there_is_work() -> None:
    """1 GB for five threads are 200 MB each, as the documents have it."""
    made = world()
    pool = pool_of(made, PoolSettings(threads=5, dedupe_buffer_bytes=1_000_000_000))
    cleaner = pool.make_cleaner()
    assert isinstance(cleaner, Cleaner)
    assert isinstance(cleaner.walker, Walker)
    assert cleaner.walker.offset_map.memory <= 200_000_000
    assert cleaner.walker.offset_map.slots == 200_000_000 // 24


def test_a_log_whose_passes_all_end_early_does_not_keep_a_core_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world()
    calls: list[object] = []
    pauses: list[tuple[int, float]] = []
    paused_twice, go_on = threading.Event(), threading.Event()

    def pause(worker: Any, milliseconds: float) -> None:
        pauses.append((len(calls), milliseconds))
        if len(pauses) == 2:
            paused_twice.set()
            assert go_on.wait(PATIENCE_S)
            worker.stopping.set()

    monkeypatch.setattr(made.cleaners, "clean", lambda work, *_rest: calls.append(made.cleaners.give_back(work)))
    monkeypatch.setattr(Worker, "pause", pause)
    pool = pool_of(made)
    pool.start()
    try:
        assert paused_twice.wait(PATIENCE_S)
    finally:
        go_on.set()
        pool.stop(PATIENCE_S)
    assert pauses == [(1, AFTER_ABORT_MS), (2, AFTER_ABORT_MS)]


def test_settle_returns_when_all_that_can_be_cleaned_is() -> None:
    made = world()
    pool = pool_of(made, replace(SMALL, threads=2))
    assert pool.settle(PATIENCE_S)  # no thread runs: nothing to wait for
    pool.start()
    try:
        for passes in (1, 2, 3):
            assert pool.settle(PATIENCE_S)
            assert made.cleaners.partitions()[0].passes == passes
            put(made.log(), "k0", "new")
            made.log().roll()
    finally:
        pool.stop(PATIENCE_S)
