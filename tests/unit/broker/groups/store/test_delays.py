"""Delays: renewed without a new timer, forgotten with their member or group."""

from __future__ import annotations

import pytest
from support.mock_time import MockTime, MockTimer
from tidelog.broker.groups.modern.outcome import Delay, DelayCleared, DelayKind, DelaySet, MemberGone
from tidelog.broker.groups.store.timers import Delays

SESSION, REBALANCE = DelayKind.SESSION, DelayKind.REBALANCE


class Bench:
    def __init__(self):
        self.time = MockTime()
        self.timers = 0
        self.fired = []
        timer = MockTimer(self.time)

        class Counting:
            def call_later(_self, delay_ms, callback):  # noqa: N805
                self.timers += 1
                return timer.call_later(delay_ms, callback)

        self.delays = Delays(Counting(), self.time, lambda *what: self.fired.append(what))

    def set(self, kind=SESSION, member="m", ms=100, epoch=0, group="g", *, absent=False):
        self.delays.apply(group, DelaySet(Delay(kind, member, epoch), ms, absent))


@pytest.fixture
def bench():
    return Bench()


def test_one_fires_once(bench):
    bench.set()
    bench.time.advance(99)
    assert bench.fired == []
    bench.time.advance(1000)
    assert bench.fired == [("g", Delay(SESSION, "m"))]
    assert bench.delays.count("g") == 0


def test_a_renewal_costs_no_timer(bench):
    bench.set()
    for _ in range(50):
        bench.time.advance(10)
        bench.set()
    assert bench.timers <= 7
    assert bench.fired == []
    bench.time.advance(100)
    assert len(bench.fired) == 1


def test_a_shorter_one_counts_at_once(bench):
    bench.set(ms=1000)
    bench.set(ms=10, epoch=7)
    bench.time.advance(10)
    assert bench.fired == [("g", Delay(SESSION, "m", 7))]
    bench.time.advance(5000)
    assert len(bench.fired) == 1


def test_only_the_first_of_absent_ones_counts(bench):
    bench.set(ms=100, epoch=1)
    bench.set(ms=500, epoch=2, absent=True)
    bench.time.advance(100)
    assert bench.fired == [("g", Delay(SESSION, "m", 1))]


def test_what_is_cleared_does_not_fire(bench):
    bench.set()
    bench.set(REBALANCE)
    bench.set(member="other")
    bench.set(group="h")
    bench.delays.apply("g", DelayCleared(Delay(REBALANCE, "m", 99)))
    bench.delays.apply("g", DelayCleared(Delay(REBALANCE, "nobody")))
    bench.time.advance(100)
    assert sorted(bench.fired) == [
        ("g", Delay(SESSION, "m")),
        ("g", Delay(SESSION, "other")),
        ("h", Delay(SESSION, "m")),
    ]


def test_a_member_that_is_gone_has_none(bench):
    bench.set()
    bench.set(REBALANCE)
    bench.set(member="other")
    bench.delays.apply("g", MemberGone("m"))
    bench.time.advance(100)
    assert bench.fired == [("g", Delay(SESSION, "other"))]


def test_a_group_that_is_gone_has_none(bench):
    bench.set()
    bench.set(group="h")
    bench.delays.forget("g")
    bench.delays.forget("g")
    bench.time.advance(100)
    assert bench.fired == [("h", Delay(SESSION, "m"))]
    assert bench.delays.count("g") == bench.delays.count("h") == 0
