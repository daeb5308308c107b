from __future__ import annotations

import pytest
from support.mock_time import MockTime, MockTimer
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.store.timers import GroupTimers


class CountingTimer(MockTimer):
    calls = 0

    def call_later(self, delay_ms, callback):
        self.calls += 1
        return super().call_later(delay_ms, callback)


@pytest.fixture
def time():
    return MockTime()


@pytest.fixture
def timer(time):
    return CountingTimer(time)


@pytest.fixture
def expired():
    return []


@pytest.fixture
def timers(time, timer, expired):
    return GroupTimers(timer, time, lambda group, member: expired.append((group.group_id, member, time.monotonic_ms())))


GROUP = GroupMetadata("g", 0)
OTHER = GroupMetadata("g", 0)  # a later group of the same name


def test_a_session_ends(time, timers, expired):
    timers.start_session(GROUP, "m", 1000)
    time.advance(999)
    assert expired == []
    time.advance(5000)
    assert expired == [("g", "m", 1000)]


def test_a_renewed_session_ends_later(time, timer, timers, expired):
    timers.start_session(GROUP, "m", 1000)
    for _ in range(100):
        time.advance(100)
        timers.start_session(GROUP, "m", 1000)
    assert expired == []
    assert timer.calls < 20  # the timer is not set anew each time
    time.advance(5000)
    assert expired == [("g", "m", 11_000)]


def test_a_shorter_session_ends_sooner(time, timers, expired):
    timers.start_session(GROUP, "m", 300_000)
    timers.start_session(GROUP, "m", 1000)
    time.advance(300_000)
    assert expired == [("g", "m", 1000)]


def test_a_session_can_be_ended_and_begun_again(time, timers, expired):
    timers.start_session(GROUP, "m", 1000)
    timers.end_session(GROUP, "m")
    timers.end_session(GROUP, "m")
    timers.end_session(OTHER, "m")
    time.advance(500)
    timers.start_session(GROUP, "m", 1000)
    time.advance(5000)
    assert expired == [("g", "m", 1500)]


def test_deadlines_replace_each_other(time, timers):
    fired = []
    timers.set_join_deadline(GROUP, 1000, lambda: fired.append("join 1"))
    timers.set_join_deadline(GROUP, 2000, lambda: fired.append("join 2"))
    timers.set_sync_deadline(GROUP, 1000, lambda: fired.append("sync 1"))
    timers.set_sync_deadline(GROUP, 500, lambda: fired.append("sync 2"))
    time.advance(5000)
    assert fired == ["sync 2", "join 2"]


def test_deadlines_are_cleared(time, timers):
    fired = []
    timers.clear_join_deadline(GROUP)
    timers.clear_sync_deadline(GROUP)
    timers.set_join_deadline(GROUP, 1000, lambda: fired.append("join"))
    timers.set_sync_deadline(GROUP, 1000, lambda: fired.append("sync"))
    timers.clear_join_deadline(GROUP)
    timers.clear_sync_deadline(GROUP)
    time.advance(5000)
    assert fired == []


def test_a_forgotten_group_is_not_called_back(time, timers, expired):
    fired = []
    timers.start_session(GROUP, "m", 1000)
    timers.start_session(OTHER, "m", 1000)
    timers.set_join_deadline(GROUP, 1000, lambda: fired.append("join"))
    timers.set_sync_deadline(GROUP, 1000, lambda: fired.append("sync"))
    timers.forget(GROUP)
    timers.forget(GROUP)
    time.advance(5000)
    assert fired == []
    assert len(expired) == 1
