"""Passes as they run and as they ended: over a real cleaner, looked at from within."""

from __future__ import annotations

from typing import Any

import pytest
from support.cleaning import CleaningWorld, put
from tidelog.cleaner.cleaning import PassResult
from tidelog.cleaner.exceptions import CleaningAborted
from tidelog.cleaner.pass_history import PassHistory, PassProgress


def test_a_running_pass_and_what_is_kept_of_it() -> None:
    history = PassHistory(kept=2)
    one = history.begin("t", 3, "asked for", 100, 400)
    assert history.running() == [], "it has not begun"
    result = PassResult(0, 10, started_ms=1000)
    one.watch(result)
    assert history.running() == [PassProgress("t", 3, "asked for", 1000, 0, 100, 0, 400, 0)]
    result.map_bytes, result.filtered_bytes = 100, 150
    (progress,) = history.running()
    assert progress.share == 0.5
    result.map_bytes, result.filtered_bytes = 130, 500
    assert history.running()[0].share == 1.0, "a log that grew is not more than done"
    history.end(one, 2000)
    assert history.running() == []
    (ended,) = history.ended()
    assert (ended.topic, ended.partition, ended.ended_ms, ended.failure, ended.result) == ("t", 3, 2000, None, result)


def test_the_last_ones_are_kept_newest_first() -> None:
    history = PassHistory(kept=2)
    for number in range(4):
        one = history.begin("t", number, "r", 0, 0)
        one.watch(PassResult(0, 0, 0))
        history.end(one, number, "broken" if number == 3 else None)
    assert [(one.partition, one.failure) for one in history.ended()] == [(3, "broken"), (2, None)]
    never_begun = history.begin("t", 9, "r", 0, 0)
    history.end(never_begun, 9)
    assert len(history.ended()) == 2


@pytest.mark.parametrize("is_stopped", [False, True])
def test_passes_of_a_cleaner(is_stopped: bool) -> None:
    world = CleaningWorld()
    world.start(segment_bytes=300)
    log = world.log()
    for number in range(40):
        put(log, f"k{number % 3}", "v" * 20)
    work = world.cleaners.take(log)
    assert work is not None
    seen: list[PassProgress] = []

    class Control:
        def check(self) -> None:
            seen.extend(world.cleaners.history.running())
            if is_stopped and len(seen) > 3:
                raise CleaningAborted("enough")

        def wait(self, milliseconds: float) -> None:
            raise AssertionError("there is no throttle")

    result: Any = world.cleaners.clean(work, world.cleaner, Control())
    shares = [one.share for one in seen]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert world.cleaners.history.running() == []
    (ended,) = world.cleaners.history.ended()
    assert ended.failure == ("enough" if is_stopped else None)
    if not is_stopped:
        assert ended.result is result
        assert result.filtered_bytes == result.bytes_read == work.eligibility.clean_bytes + work.eligibility.dirty_bytes
        assert 0.5 < shares[-1] <= 1.0
    world.stop()
