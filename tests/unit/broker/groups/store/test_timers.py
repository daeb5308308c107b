"""Delays of groups: renewed without a new timer, replaced, cleared, forgotten with their member or group."""

from __future__ import annotations

import pytest
from support.mock_time import MockTime, MockTimer
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.store.timers import DelayKind, GroupTimers

SESSION, REBALANCE, JOIN, SYNC = DelayKind.SESSION, DelayKind.REBALANCE, DelayKind.JOIN, DelayKind.SYNC


class Bench:
    def __init__(self):
        self.time = MockTime()
        self.calls = 0
        self.fired = []
        timer = MockTimer(self.time)

        class Counting:
            def call_later(_self, delay_ms, callback):  # noqa: N805
                self.calls += 1
                return timer.call_later(delay_ms, callback)

        self.timers = GroupTimers(
            Counting(), self.time, lambda group, what: self.fired.append((group, what, self.time.monotonic_ms()))
        )

    def set(self, kind=SESSION, member="m", ms=100, what=None, group="g", *, absent=False):
        self.timers.set(group, kind, ms, what or (kind, member), member_id=member, absent=absent)


@pytest.fixture
def bench():
    return Bench()


def test_one_fires_once(bench):
    bench.set()
    bench.time.advance(99)
    assert bench.fired == []
    bench.time.advance(1000)
    assert bench.fired == [("g", (SESSION, "m"), 100)]
    assert bench.timers.count("g") == 0


def test_a_renewal_costs_no_timer(bench):
    bench.set()
    for _ in range(50):
        bench.time.advance(10)
        bench.set(what="renewed")
    assert bench.calls <= 7
    assert bench.fired == []
    bench.time.advance(5000)
    assert bench.fired == [("g", "renewed", 600)]


def test_a_shorter_one_counts_at_once(bench):
    bench.set(ms=300_000)
    bench.set(ms=10, what="sooner")
    bench.time.advance(300_000)
    assert bench.fired == [("g", "sooner", 10)]


def test_only_the_first_of_absent_ones_counts(bench):
    bench.set(ms=100, what="first")
    bench.set(ms=500, what="second", absent=True)
    bench.set(ms=50, what="third", absent=True)
    bench.time.advance(1000)
    assert bench.fired == [("g", "first", 100)]


def test_one_can_be_cleared_and_set_again(bench):
    bench.set(ms=1000)
    bench.timers.clear("g", SESSION, member_id="m")
    bench.timers.clear("g", SESSION, member_id="m")
    bench.timers.clear("h", SESSION, member_id="m")
    bench.time.advance(500)
    bench.set(ms=1000)
    bench.time.advance(5000)
    assert bench.fired == [("g", (SESSION, "m"), 1500)]


def test_kinds_and_members_do_not_touch_each_other(bench):
    bench.set()
    bench.set(REBALANCE)
    bench.set(member="other")
    bench.set(group="h")
    bench.timers.clear("g", REBALANCE, member_id="m")
    bench.timers.clear("g", REBALANCE, member_id="nobody")
    bench.time.advance(100)
    assert sorted(bench.fired) == [
        ("g", (SESSION, "m"), 100),
        ("g", (SESSION, "other"), 100),
        ("h", (SESSION, "m"), 100),
    ]


def test_deadlines_of_a_group_replace_each_other(bench):
    bench.set(JOIN, "", 1000, "join 1")
    bench.set(JOIN, "", 2000, "join 2")
    bench.set(SYNC, "", 1000, "sync 1")
    bench.set(SYNC, "", 500, "sync 2")
    bench.time.advance(5000)
    assert bench.fired == [("g", "sync 2", 500), ("g", "join 2", 2000)]


def test_a_member_that_is_gone_has_none(bench):
    bench.set()
    bench.set(REBALANCE)
    bench.set(member="other")
    bench.timers.clear("g", *DelayKind, member_id="m")
    bench.time.advance(100)
    assert bench.fired == [("g", (SESSION, "other"), 100)]


def test_a_group_that_is_gone_has_none(bench):
    bench.set()
    bench.set(JOIN, "")
    bench.set(group="h")
    bench.timers.forget("g")
    bench.timers.forget("g")
    bench.time.advance(100)
    assert bench.fired == [("h", (SESSION, "m"), 100)]
    assert bench.timers.count("g") == bench.timers.count("h") == 0


def test_a_later_group_of_the_same_name_is_another(bench):
    old, new = GroupMetadata("g", 0), GroupMetadata("g", 0)
    bench.set(group=old)
    bench.set(group=new)
    bench.timers.forget(old)
    bench.time.advance(100)
    assert bench.fired == [(new, (SESSION, "m"), 100)]
