"""Rates against a brute force over all that was recorded, and the promise of a wait: afterwards the rate is the bound."""

from __future__ import annotations

import random

import pytest
from tidelog.broker.quotas.rate import TokenBucket, WindowedRate

WINDOW, WINDOWS = 1000, 11


def test_a_burst_at_the_start_counts_as_spread_over_the_windows() -> None:
    rate = WindowedRate(WINDOWS, WINDOW)
    assert rate.rate(0) == 0
    rate.record(1000, 5_000)
    assert rate.rate(5_000) == 100  # over the ten whole windows, of which none has passed
    assert rate.throttle_ms(100, 5_000) == 0
    rate.record(100, 5_000)
    assert rate.throttle_ms(100, 5_000) == 1000


@pytest.mark.parametrize("seed", range(20))
def test_nothing_older_than_the_windows_counts_and_all_else_does(seed: int) -> None:
    rng = random.Random(seed)
    rate, now, events = WindowedRate(WINDOWS, WINDOW), 0.0, []
    for _ in range(300):
        now += rng.choice((0, 1, 50, 400, 2_000, 30_000))
        units = rng.randrange(1_000)
        rate.record(units, now)
        events.append((now, units))
        young = sum(units for at, units in events if at > now - (WINDOWS - 1) * WINDOW)
        old = sum(units for at, units in events if at >= now - (WINDOWS + 1) * WINDOW)
        # What a window holds leaves with it as a whole: at most one window earlier or later than to the ms.
        assert young / (WINDOWS + 1) <= rate.rate(now) * WINDOW / 1000 <= old / (WINDOWS - 1) + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_who_waits_as_told_keeps_the_bound(seed: int) -> None:
    rng = random.Random(seed)
    rate, now, total, bound = WindowedRate(WINDOWS, WINDOW), 0.0, 0.0, 500
    while now < 120_000:
        units = rng.randrange(1, 3_000)
        rate.record(units, now)
        total += units
        now += rate.throttle_ms(bound, now) + rng.choice((0, 0, 1, 20))
    # The first windows may be filled at once; and windows leave as a whole, with requests as large as several of them.
    assert total <= 1.25 * bound * (now / 1000 + WINDOWS) + 3_000
    assert total >= bound * now / 1000 * 0.5


def test_tokens_are_saved_up_to_the_burst_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(11, 2.0, 0)
    assert bucket.refill(2.0, 60_000) == 22
    assert bucket.throttle_ms(2.0, 60_000) == 0
    bucket.take(30, 2.0, 60_000)
    assert bucket.throttle_ms(2.0, 60_000) == 4_000
    assert bucket.throttle_ms(2.0, 62_000) == 2_000
    assert bucket.throttle_ms(2.0, 64_000) == 0
