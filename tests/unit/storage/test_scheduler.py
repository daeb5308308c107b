"""Real threads, no sleeps: tasks tell the test when they ran."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator

import pytest
from tidelog.storage.scheduler import ThreadPoolScheduler

WAIT = 10.0  # seconds; only a failing test waits this long


@pytest.fixture
def scheduler() -> Iterator[ThreadPoolScheduler]:
    scheduler = ThreadPoolScheduler(2)
    yield scheduler
    scheduler.shutdown()


def test_submit_gives_result_or_exception(scheduler: ThreadPoolScheduler) -> None:
    assert scheduler.submit("answer", lambda: 42).result(WAIT) == 42

    def fail() -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        scheduler.submit("fail", fail).result(WAIT)


def test_threads_start_with_the_work_and_not_beyond_the_limit(scheduler: ThreadPoolScheduler) -> None:
    assert scheduler.threads == 0
    started: queue.Queue[str] = queue.Queue()
    go = threading.Event()

    def block() -> None:
        started.put(threading.current_thread().name)
        go.wait(WAIT)

    futures = [scheduler.submit("block", block) for _ in range(5)]
    names = {started.get(timeout=WAIT), started.get(timeout=WAIT)}
    assert len(names) == 2
    assert scheduler.threads == 2
    assert started.empty()
    go.set()
    for future in futures:
        future.result(WAIT)
    assert scheduler.threads == 2


def test_delays_run_in_the_order_of_their_times(scheduler: ThreadPoolScheduler) -> None:
    ran: queue.Queue[str] = queue.Queue()
    scheduler.schedule("late", lambda: ran.put("late"), 40)
    scheduler.schedule("early", lambda: ran.put("early"), 5)
    scheduler.schedule("now", lambda: ran.put("now"), 0)
    assert [ran.get(timeout=WAIT) for _ in range(3)] == ["now", "early", "late"]


def test_an_earlier_delay_is_not_held_up_by_a_thread_that_waits_for_a_later_one(scheduler: ThreadPoolScheduler) -> None:
    ran: queue.Queue[str] = queue.Queue()
    scheduler.schedule("an hour", lambda: ran.put("hour"), 3_600_000)
    for number in range(20):
        scheduler.schedule("soon", lambda number=number: ran.put(str(number)), 1)
        assert ran.get(timeout=WAIT) == str(number)


def test_a_periodic_task_runs_again_after_an_exception(
    scheduler: ThreadPoolScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    ran: queue.Queue[int] = queue.Queue()

    def task() -> None:
        ran.put(1)
        if ran.qsize() == 1:
            raise OSError("once")

    with caplog.at_level(logging.ERROR):
        handle = scheduler.schedule("retention", task, 0, 1)
        for _ in range(3):
            ran.get(timeout=WAIT)
    handle.cancel()
    assert "retention failed; it runs again next time" in caplog.text


def test_a_cancelled_task_does_not_run(scheduler: ThreadPoolScheduler) -> None:
    ran: queue.Queue[str] = queue.Queue()
    scheduler.schedule("cancelled", lambda: ran.put("cancelled"), 5).cancel()
    scheduler.schedule("after", lambda: ran.put("after"), 10)
    assert ran.get(timeout=WAIT) == "after"
    assert ran.empty()


def test_a_task_may_cancel_itself(scheduler: ThreadPoolScheduler) -> None:
    ran: queue.Queue[int] = queue.Queue()
    handles: queue.Queue[object] = queue.Queue()

    def task() -> None:
        handles.get(timeout=WAIT).cancel()  # type: ignore[attr-defined]
        ran.put(1)

    handles.put(scheduler.schedule("once", task, 0, 1))
    assert ran.get(timeout=WAIT) == 1
    scheduler.shutdown()
    assert ran.empty()


def test_shutdown_finishes_what_was_submitted_and_forgets_delays() -> None:
    scheduler = ThreadPoolScheduler(1)
    go = threading.Event()
    ran: list[str] = []
    scheduler.submit("first", lambda: go.wait(WAIT))
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
    scheduler.submit("stop", scheduler.shutdown).result(WAIT)


def test_resize(scheduler: ThreadPoolScheduler) -> None:
    go = threading.Event()
    started: queue.Queue[int] = queue.Queue()

    def block() -> None:
        started.put(1)
        go.wait(WAIT)

    futures = [scheduler.submit("block", block) for _ in range(4)]
    started.get(timeout=WAIT)
    started.get(timeout=WAIT)
    scheduler.resize(3)
    started.get(timeout=WAIT)
    assert scheduler.threads == 3
    scheduler.resize(1)
    go.set()
    for future in futures:
        future.result(WAIT)
    scheduler.submit("after", lambda: None).result(WAIT)
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
        go.wait(WAIT)

    blocked = [slow.submit("block", block) for _ in range(5)]
    slow.schedule("block later", block, 0)
    started.get(timeout=WAIT)
    for _ in range(20):
        fast.submit("quick", lambda: None).result(WAIT)
    assert started.empty()  # the second thread is not for the slow lane
    counts = scheduler.statistics()["block"]
    assert (counts.running, counts.waiting, counts.runs) == (1, 4, 0)
    assert scheduler.statistics()["quick"].runs >= 19
    go.set()
    for future in blocked:
        future.result(WAIT)
    scheduler.shutdown()
    assert scheduler.statistics()["block"] == (0, 0, 0, 5, 0)


def test_there_is_a_thread_for_each_lane_whatever_the_setting_says() -> None:
    scheduler = ThreadPoolScheduler(1)
    go = threading.Event()
    scheduler.lane("a").submit("block", lambda: go.wait(WAIT))
    assert scheduler.lane("b").submit("free", lambda: 7).result(WAIT) == 7
    assert scheduler.limit == 2
    go.set()
    scheduler.shutdown()


def test_what_waits_runs_and_fails_is_counted_by_name(scheduler: ThreadPoolScheduler) -> None:
    handle = scheduler.schedule("delete-file", lambda: None, 3_600_000)
    assert scheduler.statistics()["delete-file"].scheduled == 1
    failed = scheduler.submit("flush-log", lambda: 1 // 0)
    assert isinstance(failed.exception(WAIT), ZeroDivisionError)
    handle.cancel()
    scheduler.shutdown()
    assert scheduler.statistics() == {"delete-file": (0, 0, 0, 0, 0), "flush-log": (0, 0, 0, 1, 1)}


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


def test_a_clock_set_forward_starts_what_is_due_and_settle_waits_for_it() -> None:
    time = SetForward()
    scheduler = ThreadPoolScheduler(2, time=time)
    runs: list[float] = []
    follow_ups: list[float] = []

    def task() -> None:
        runs.append(time.now_ms)
        scheduler.submit("follow-up", lambda: follow_ups.append(time.now_ms))

    try:
        scheduler.schedule("daily", task, 86_400_000, 86_400_000)
        assert scheduler.settle(WAIT)
        assert runs == []
        for day in (1, 2, 3):
            time.now_ms = day * 86_400_000.0
            scheduler.time_moved()
            assert scheduler.settle(WAIT)
            assert (len(runs), len(follow_ups)) == (day, day)
    finally:
        scheduler.shutdown()


def test_finish_waits_for_tasks_of_one_name_whenever_they_are_due() -> None:
    scheduler = ThreadPoolScheduler(2)
    go = threading.Event()
    runs: list[str] = []
    try:
        assert scheduler.finish("never heard of", 0)
        scheduler.submit("other", lambda: go.wait(WAIT))
        scheduler.schedule("ours", lambda: runs.append("ours"), 20)
        assert not scheduler.finish("other", 0)
        assert scheduler.finish("ours", WAIT)
        assert runs == ["ours"]
    finally:
        go.set()
        scheduler.shutdown()


def test_settle_does_not_wait_for_what_is_stuck() -> None:
    scheduler = ThreadPoolScheduler(1)
    go = threading.Event()
    try:
        scheduler.submit("stuck", lambda: go.wait(WAIT))
        assert not scheduler.settle(0.01)
        go.set()
        assert scheduler.settle(WAIT)
    finally:
        go.set()
        scheduler.shutdown()
