from __future__ import annotations

import pytest
from support.mock_time import START_MS, MockScheduler, MockTime, MockTimer


def test_both_clocks_move_together_and_the_wall_clock_may_step() -> None:
    time = MockTime()
    time.advance(1500)
    time.advance(days=1, hours=2, seconds=3)
    assert time.monotonic_ms() == 1500 + 86_400_000 + 7_200_000 + 3000
    assert time.milliseconds() == START_MS + time.monotonic_ms()
    time.set_wall_clock(5)
    time.advance(10)
    assert time.milliseconds() == 15


def test_tasks_run_in_order_at_their_own_time() -> None:
    time = MockTime()
    scheduler, timer = MockScheduler(time), MockTimer(time)
    ran: list[tuple[str, float]] = []
    scheduler.schedule("b", lambda: ran.append(("b", time.monotonic_ms())), 1000, 1000)
    timer.call_later(1500, lambda: ran.append(("t", time.monotonic_ms())))
    scheduler.schedule("a", lambda: ran.append(("a", time.monotonic_ms())), 0)
    assert ran == []
    assert time.waiting() == ["a", "b", "timer"]
    time.advance(3000)
    assert ran == [("a", 0), ("b", 1000), ("t", 1500), ("b", 2000), ("b", 3000)]


def test_what_a_task_schedules_runs_in_the_same_advance() -> None:
    time = MockTime()
    timer = MockTimer(time)
    ran: list[float] = []
    timer.call_later(10, lambda: timer.call_later(5, lambda: ran.append(time.monotonic_ms())))
    time.advance(20)
    assert ran == [15]


def test_cancel() -> None:
    time = MockTime()
    ran: list[int] = []
    scheduler = MockScheduler(time)
    handle = scheduler.schedule("x", lambda: ran.append(1), 10, 10)
    time.advance(25)
    handle.cancel()
    time.advance(100)
    assert ran == [1, 1]
    MockTimer(time).call_later(5, lambda: ran.append(2)).cancel()
    time.advance(10)
    assert ran == [1, 1]


def test_submit_at_once_or_when_told() -> None:
    time = MockTime()
    assert MockScheduler(time).submit("x", lambda: 7).result() == 7
    manual = MockScheduler(time, manual=True)
    first, second = manual.submit("first", lambda: 1), manual.submit("second", lambda: 1 / 0)
    assert not first.done()
    assert manual.submitted == ["first", "second"]
    assert manual.run_submitted(1) == 1
    assert (first.result(), second.done()) == (1, False)
    manual.shutdown()
    with pytest.raises(ZeroDivisionError):
        second.result()
    with pytest.raises(RuntimeError):
        manual.submit("late", lambda: 1)
    assert manual.schedule("late", lambda: 1, 0).cancelled
