from __future__ import annotations

import math

import pytest
from support.mock_time import MockTime
from tidelog.cleaner.exceptions import CleaningAborted
from tidelog.cleaner.throttler import STEP_MS, Throttler


def test_the_rate_holds_and_a_change_holds_at_once() -> None:
    time = MockTime()
    throttler = Throttler(1_000_000, time)
    for _ in range(100):
        throttler.pay(100_000, time.advance)
    assert time.monotonic_ms() == pytest.approx(10_000, rel=0.02)
    throttler.set_rate(5_000_000)
    begun = time.monotonic_ms()
    for _ in range(100):
        throttler.pay(100_000, time.advance)
    assert time.monotonic_ms() - begun == pytest.approx(2_000, rel=0.1)
    assert throttler.total_bytes == 20_000_000
    assert throttler.waited_ms == pytest.approx(time.monotonic_ms(), rel=0.01)


def test_who_waits_notices_a_new_rate() -> None:
    time = MockTime()
    throttler = Throttler(1, time)

    def wait(milliseconds: float) -> None:
        assert milliseconds <= STEP_MS
        time.advance(milliseconds)
        if time.monotonic_ms() >= 1000:
            throttler.set_rate(math.inf)

    throttler.pay(1_000_000, wait)  # eleven days at the first rate
    assert time.monotonic_ms() <= 1000 + STEP_MS


def test_a_process_may_move_a_fiftieth_of_a_second_ahead() -> None:
    throttler = Throttler(1_000_000, MockTime())
    assert throttler.allowance == 20_000
    throttler.set_rate(1)
    assert throttler.allowance == 1
    throttler.set_rate(math.inf)
    assert throttler.allowance == -1


def test_bytes_of_a_time_without_a_limit_are_counted_and_owed_by_nobody() -> None:
    time = MockTime()
    throttler = Throttler(math.inf, time)
    throttler.set_rate(1000)
    throttler.note(1_000_000)
    throttler.pay(1000, time.advance)
    assert throttler.total_bytes == 1_001_000
    assert time.monotonic_ms() == pytest.approx(1000)


def test_no_limit_never_waits() -> None:
    Throttler(math.inf, MockTime()).pay(1 << 40, lambda _: pytest.fail("it waited"))


def test_idle_time_allows_no_burst() -> None:
    time = MockTime()
    throttler = Throttler(1000, time)
    time.advance(days=1)
    begun = time.monotonic_ms()
    throttler.pay(10_000, time.advance)
    assert time.monotonic_ms() - begun > 9_000


def test_a_stop_gets_out_of_a_wait() -> None:
    def stop(_milliseconds: float) -> None:
        raise CleaningAborted("stop")

    with pytest.raises(CleaningAborted):
        Throttler(1, MockTime()).pay(1000, stop)
