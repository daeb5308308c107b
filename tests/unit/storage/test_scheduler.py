"""Real threads, no sleeps: tasks tell the test when they ran."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Iterator

import pytest
from support.patience import PATIENCE_S, until
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.scheduler import ThreadPoolScheduler


class SetForward:
    """A clock that stands, and is set."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def milliseconds(self) -> int:
        return int(self.now_ms)

    def monotonic_ms(self) -> float:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000


class Clocked:
    """Two threads that go by a clock of the test's."""

    def __init__(self) -> None:
        self.time = SetForward()
        self.pool = ThreadPoolScheduler(2, time=self.time)

    def advance(self, milliseconds: float) -> None:
        """Runs what is due by then, to its end."""
        self.time.now_ms += milliseconds
        self.pool.time_moved()
        assert self.pool.settle(PATIENCE_S)


@pytest.fixture
def clocked() -> Iterator[Clocked]:
    clocked = Clocked()
    yield clocked
    clocked.pool.shutdown()


@pytest.fixture
def scheduler() -> Iterator[ThreadPoolScheduler]:
    scheduler = ThreadPoolScheduler(2)
    yield scheduler
    scheduler.shutdown()


def test_submit_gives_result_or_exception(scheduler: ThreadPoolScheduler) -> None:
    assert scheduler.submit("answer", lambda: 42).result(PATIENCE_S) == 42

    def fail() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        scheduler.submit("fail", fail).result(PATIENCE_S)


def test_threads_start_with_the_work_and_not_beyond_the_limit(scheduler: ThreadPoolScheduler) -> None:
    assert scheduler.threads == 0
    started: queue.Queue[str] = queue.Queue()
    go = threading.Event()

    def block() -> None:
        started.put(threading.current_thread().name)
        go.wait(PATIENCE_S)

    futures = [scheduler.submit("block", block) for _ in range(5)]
    names = {started.get(timeout=PATIENCE_S), started.get(timeout=PATIENCE_S)}
    assert len(names) == 2
    assert scheduler.threads == 2
    assert started.empty()
    go.set()
    for future in futures:
        future.result(PATIENCE_S)
    assert scheduler.threads == 2


def test_delays_run_at_their_times(clocked: Clocked) -> None:
    ran: list[str] = []
    clocked.pool.schedule("late", lambda: ran.append("late"), 40)
    clocked.pool.schedule("early", lambda: ran.append("early"), 5)
    clocked.pool.schedule("now", lambda: ran.append("now"), 0)
    seen = []
    for step in (0, 4, 1, 34, 1):
        clocked.advance(step)
        seen.append(list(ran))
    assert seen == [["now"], ["now"], ["now", "early"], ["now", "early"], ["now", "early", "late"]]


def test_delays_that_are_due_at_once_begin_in_the_order_of_their_times() -> None:
    time = SetForward()
    scheduler = ThreadPoolScheduler(1, time=time)
    ran: list[str] = []
    go = threading.Event()
    try:
        scheduler.submit("busy", lambda: go.wait(PATIENCE_S))
        for name, delay in (("late", 40), ("early", 5), ("now", 0)):
            scheduler.schedule(name, lambda name=name: ran.append(name), delay)
        time.now_ms = 50
        go.set()
        assert scheduler.settle(PATIENCE_S)
        assert ran == ["now", "early", "late"]
    finally:
        go.set()
        scheduler.shutdown()


def test_an_earlier_delay_is_not_held_up_by_a_thread_that_waits_for_a_later_one(scheduler: ThreadPoolScheduler) -> None:
    """By the real clock, since it is the waiting itself that is tried: however slow the machine, each comes within the hour."""
    ran: queue.Queue[str] = queue.Queue()
    scheduler.schedule("an hour", lambda: ran.put("hour"), 3_600_000)
    for number in range(20):
        scheduler.schedule("soon", lambda number=number: ran.put(str(number)), 1)
        assert ran.get(timeout=PATIENCE_S) == str(number)


def test_a_periodic_task_runs_again_after_an_exception(
    scheduler: ThreadPoolScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    ran: queue.Queue[int] = queue.Queue()
    numbers = itertools.count(1)

    def task() -> None:
        number = next(numbers)
        ran.put(number)
        if number == 1:
            raise OSError("once")

    with caplog.at_level(logging.ERROR):
        handle = scheduler.schedule("retention", task, 0, 1)
        for number in (1, 2, 3):
            assert ran.get(timeout=PATIENCE_S) == number
    handle.cancel()
    assert "retention failed: once; it runs again next time" in caplog.text


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [
        (OSError(5, "Input/output error"), False),
        (KafkaStorageError("t-0: sync failed"), False),
        (ValueError("a defect"), True),
    ],
)
def test_a_disk_that_fails_is_told_in_one_line_and_a_defect_with_its_traceback(
    scheduler: ThreadPoolScheduler, caplog: pytest.LogCaptureFixture, error: Exception, has_traceback: bool
) -> None:
    """`flush-log failed` had thirty lines of traceback for a sync that the disk refused."""

    def fail() -> None:
        raise error

    scheduler.schedule("flush-log", fail, 0)
    until(lambda: scheduler.statistics()["flush-log"].failures == 1, "the task")
    (record,) = caplog.records
    assert record.getMessage() == f"flush-log failed: {error}"
    assert bool(record.exc_info) == has_traceback


def test_a_cancelled_task_does_not_run(clocked: Clocked) -> None:
    ran: list[str] = []
    clocked.pool.schedule("cancelled", lambda: ran.append("cancelled"), 5).cancel()
    clocked.pool.schedule("after", lambda: ran.append("after"), 10)
    clocked.advance(10)
    assert ran == ["after"]


def test_a_task_may_cancel_itself(scheduler: ThreadPoolScheduler) -> None:
    ran: queue.Queue[int] = queue.Queue()
    handles: queue.Queue[object] = queue.Queue()

    def task() -> None:
        handles.get(timeout=PATIENCE_S).cancel()  # type: ignore[attr-defined]
        ran.put(1)

    handles.put(scheduler.schedule("once", task, 0, 1))
    assert ran.get(timeout=PATIENCE_S) == 1
    scheduler.shutdown()
    assert ran.empty()


def test_shutdown_finishes_what_was_submitted_and_forgets_delays() -> None:
    scheduler = ThreadPoolScheduler(1)
    go = threading.Event()
    ran: list[str] = []
    scheduler.submit("first", lambda: go.wait(PATIENCE_S))
    last = scheduler.submit("second", lambda: ran.append("second"))
    scheduler.schedule("delay", lambda: ran.append("delay"), 1)
    go.set()
    scheduler.shutdown()
    assert last.done()
    assert "second" in ran
    assert scheduler.threads == 0
    with pytest.raises(RuntimeError, match="shut down"):
        scheduler.submit("late", lambda: None)
    scheduler.schedule("late", lambda: ran.append("late"), 0)
    assert "late" not in ran


def test_shutdown_from_a_pool_thread_does_not_wait_for_itself() -> None:
    scheduler = ThreadPoolScheduler(1)
    scheduler.submit("stop", scheduler.shutdown).result(PATIENCE_S)


def test_resize(scheduler: ThreadPoolScheduler) -> None:
    go = threading.Event()
    started: queue.Queue[int] = queue.Queue()

    def block() -> None:
        started.put(1)
        go.wait(PATIENCE_S)

    futures = [scheduler.submit("block", block) for _ in range(4)]
    started.get(timeout=PATIENCE_S)
    started.get(timeout=PATIENCE_S)
    scheduler.resize(3)
    started.get(timeout=PATIENCE_S)
    assert scheduler.threads == 3
    scheduler.resize(1)
    go.set()
    for future in futures:
        future.result(PATIENCE_S)
    scheduler.submit("after", lambda: None).result(PATIENCE_S)
    scheduler.shutdown()
    assert scheduler.threads == 0
    with pytest.raises(ValueError, match="at least 1"):
        scheduler.resize(0)


def test_a_lane_takes_no_more_than_its_share(scheduler: ThreadPoolScheduler) -> None:
    slow, fast = scheduler.lane("slow"), scheduler.lane("fast")
    go = threading.Event()
    started: queue.Queue[int] = queue.Queue()

    def block() -> None:
        started.put(1)
        go.wait(PATIENCE_S)

    blocked = [slow.submit("block", block) for _ in range(5)]
    slow.schedule("block later", block, 0)
    started.get(timeout=PATIENCE_S)
    for _ in range(20):
        fast.submit("quick", lambda: None).result(PATIENCE_S)
    assert started.empty()  # the second thread is not for the slow lane
    counts = scheduler.statistics()["block"]
    assert (counts.running, counts.waiting, counts.runs) == (1, 4, 0)
    assert scheduler.statistics()["quick"].runs >= 19
    go.set()
    for future in blocked:
        future.result(PATIENCE_S)
    scheduler.shutdown()
    assert scheduler.statistics()["block"] == (0, 0, 0, 5, 0)


def test_there_is_a_thread_for_each_lane_whatever_the_setting_says() -> None:
    scheduler = ThreadPoolScheduler(1)
    go = threading.Event()
    scheduler.lane("a").submit("block", lambda: go.wait(PATIENCE_S))
    assert scheduler.lane("b").submit("free", lambda: 7).result(PATIENCE_S) == 7
    assert scheduler.limit == 2
    go.set()
    scheduler.shutdown()


def test_what_waits_runs_and_fails_is_counted_by_name(scheduler: ThreadPoolScheduler) -> None:
    handle = scheduler.schedule("delete-file", lambda: None, 3_600_000)
    assert scheduler.statistics()["delete-file"].scheduled == 1
    failed = scheduler.submit("flush-log", lambda: 1 // 0)
    assert isinstance(failed.exception(PATIENCE_S), ZeroDivisionError)
    handle.cancel()
    scheduler.shutdown()
    assert scheduler.statistics() == {"delete-file": (0, 0, 0, 0, 0), "flush-log": (0, 0, 0, 1, 1)}


def test_a_clock_set_forward_starts_what_is_due_and_settle_waits_for_it(clocked: Clocked) -> None:
    runs: list[float] = []
    follow_ups: list[float] = []

    def task() -> None:
        runs.append(clocked.time.now_ms)
        clocked.pool.submit("follow-up", lambda: follow_ups.append(clocked.time.now_ms))

    clocked.pool.schedule("daily", task, 86_400_000, 86_400_000)
    clocked.advance(0)
    assert runs == []
    for day in (1, 2, 3):
        clocked.advance(86_400_000)
        assert (len(runs), len(follow_ups)) == (day, day)


def test_finish_waits_for_tasks_of_one_name_whenever_they_are_due() -> None:
    scheduler = ThreadPoolScheduler(2)
    go = threading.Event()
    runs: list[str] = []
    try:
        assert scheduler.finish("never heard of", 0)
        scheduler.submit("other", lambda: go.wait(PATIENCE_S))
        scheduler.schedule("ours", lambda: runs.append("ours"), 20)
        assert not scheduler.finish("other", 0)
        assert scheduler.finish("ours", PATIENCE_S)
        assert runs == ["ours"]
    finally:
        go.set()
        scheduler.shutdown()


def test_settle_does_not_wait_for_what_is_stuck() -> None:
    scheduler = ThreadPoolScheduler(1)
    go = threading.Event()
    try:
        scheduler.submit("stuck", lambda: go.wait(PATIENCE_S))
        assert not scheduler.settle(0.01)
        go.set()
        assert scheduler.settle(PATIENCE_S)
    finally:
        go.set()
        scheduler.shutdown()


def test_a_system_that_gives_no_more_threads_costs_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that asked for another one died of it, with its task: retention and flushes came to an end for ever."""
    ran: list[str] = []
    clocked = Clocked()
    clocked.pool.schedule("often", lambda: ran.append("often"), 10, 10)
    until(lambda: clocked.pool._idle == 1, "a thread that waits")
    clocked.pool.schedule("seldom", lambda: ran.append("seldom"), 10, 10_000)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", refuse)
        clocked.advance(10)
        clocked.advance(10)
    assert sorted(ran) == ["often", "often", "seldom"]
    clocked.advance(10)
    assert ran.count("often") == 3
    clocked.pool.shutdown()


def test_what_needs_the_first_thread_fails_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPoolScheduler(2)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as no_threads:
        no_threads.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.schedule("task", lambda: None, 0)
    pool.shutdown()
