"""Time that a test moves: both clocks, the timers on it, and the steps of an advance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tidelog.testing.clock import STEPS, Clock, MovableTime, MovableTimer, steps_of


class FakeLoop:
    """Remembers what it was asked to call, and when."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Any, Any]] = []
        self.errors: list[dict[str, Any]] = []

    def call_later(self, delay_s: float, callback: Any) -> Any:
        handle = asyncio.Handle(callback, (), self)  # type: ignore[arg-type]
        self.calls.append((delay_s, callback, handle))
        return handle

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)


class StandingTime(MovableTime):
    """Moves by hand alone, so that a test may count milliseconds."""

    def milliseconds(self) -> int:
        return int(self.ahead_ms)

    def monotonic_ms(self) -> float:
        return self.ahead_ms


def timer_at(time: MovableTime) -> tuple[MovableTimer, FakeLoop]:
    loop = FakeLoop()
    return MovableTimer(loop, time), loop  # type: ignore[arg-type]


def test_both_clocks_move_together_and_go_on() -> None:
    time = MovableTime()
    wall, steady, seconds = time.milliseconds(), time.monotonic_ms(), time.monotonic()
    time.move(8 * 86_400_000)
    assert time.milliseconds() >= wall + 8 * 86_400_000
    assert time.monotonic_ms() >= steady + 8 * 86_400_000
    assert time.monotonic() >= seconds + 8 * 86_400
    assert time.ahead_ms == 8 * 86_400_000


@pytest.mark.parametrize("backwards", [-1, float("nan")])
def test_time_never_goes_back(backwards: float) -> None:
    with pytest.raises(ValueError, match="forward"):
        MovableTime().move(backwards)
    with pytest.raises(ValueError, match="forward"):
        Clock(MovableTime(), lambda _: None).advance(backwards)


def test_delays_are_called_in_the_order_of_their_times_when_the_clock_has_passed_them() -> None:
    time = StandingTime()
    timer, _ = timer_at(time)
    called: list[str] = []
    timer.call_later(300, lambda: called.append("c"))
    timer.call_later(100, lambda: called.append("a"))
    timer.call_later(200, lambda: called.append("b"))
    timer.call_later(250, lambda: called.append("never")).cancel()
    assert timer.run_due() == 0
    time.move(200)
    assert timer.run_due() == 2
    assert called == ["a", "b"]
    time.move(100)
    assert timer.run_due() == 1
    assert called == ["a", "b", "c"]


def test_a_callback_may_cancel_one_that_is_due_with_it_and_add_another() -> None:
    time = StandingTime()
    timer, _ = timer_at(time)
    called: list[str] = []
    second = timer.call_later(20, lambda: called.append("second"))
    timer.call_later(10, lambda: (second.cancel(), timer.call_later(0, lambda: called.append("third"))))
    time.move(50)
    assert timer.run_due() == 1
    assert called == []
    assert timer.run_due() == 1
    assert called == ["third"]


def test_the_loop_wakes_it_for_the_soonest_delay_in_real_time() -> None:
    time = StandingTime()
    timer, loop = timer_at(time)
    called: list[str] = []
    timer.call_later(5000, lambda: called.append("later"))
    timer.call_later(1000, lambda: called.append("sooner"))
    timer.call_later(3000, lambda: called.append("between"))
    assert [delay for delay, _, _ in loop.calls] == [5, 1]
    assert loop.calls[0][2].cancelled()
    time.move(1000)
    loop.calls[1][1]()
    assert called == ["sooner"]
    assert loop.calls[-1][0] == 2


def test_a_delay_set_after_a_move_does_not_wait_for_the_one_before_it_in_real_time() -> None:
    time = StandingTime()
    timer, loop = timer_at(time)
    timer.call_later(45_000, lambda: None)
    timer.call_later(60_000, lambda: None)
    time.move(46_000)
    timer.run_due()
    called: list[str] = []
    timer.call_later(0, lambda: called.append("at once"))
    live = [(delay, callback) for delay, callback, handle in loop.calls if not handle.cancelled()]
    assert [delay for delay, _ in live] == [0]
    live[0][1]()
    assert called == ["at once"]


def test_a_callback_that_fails_keeps_nobody_else_from_being_called() -> None:
    time = StandingTime()
    timer, loop = timer_at(time)
    called: list[str] = []
    timer.call_later(1, lambda: [][0])
    timer.call_later(2, lambda: called.append("second"))
    time.move(10)
    timer.run_due()
    assert called == ["second"]
    assert isinstance(loop.errors[0]["exception"], IndexError)


@pytest.mark.parametrize(
    ("total_ms", "steps"), [(0, 1), (1, 1), (999, 1), (1000, 1), (2000, 2), (15_999, 15), (16_000, 16), (1e12, STEPS)]
)
def test_an_advance_has_few_steps_and_none_below_a_second(total_ms: float, steps: int) -> None:
    made = steps_of(total_ms)
    assert len(made) == steps
    assert sum(made) == pytest.approx(total_ms)


def test_advance_adds_up_its_units() -> None:
    time = StandingTime()
    clock = Clock(time, time.move)
    clock.advance(1, days=1, hours=2, minutes=3, seconds=4)
    assert time.milliseconds() == 86_400_000 + 2 * 3_600_000 + 3 * 60_000 + 4 * 1000 + 1
    assert clock.ahead_s == pytest.approx(93_784.001)
    assert clock.now.timestamp() == pytest.approx(93_784.001)
