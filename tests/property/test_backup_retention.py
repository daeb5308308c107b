"""Promise: of any history of cuts those stay that the settings name, however often it was swept, and none that is too old."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pytest
from tidelog.backup.upkeep.retention import ALL, DAY_MS, HOUR_MS, MINUTE_MS, WEEK_MS, Keep, kept_cuts

Cuts = list[tuple[int, int]]


def history(choose: random.Random) -> Cuts:
    """Cuts of some weeks: close together, with gaps, now and then with the clock set back."""
    at_ms = 1_790_000_000_000 + choose.randrange(2 * WEEK_MS)
    cuts = []
    for number in range(1, choose.randrange(2, 160)):
        step = choose.choice((1_000, 20_000, MINUTE_MS, 7 * MINUTE_MS, HOUR_MS, 5 * HOUR_MS, DAY_MS, 9 * DAY_MS))
        at_ms += choose.randrange(step) + 1
        if choose.random() < 0.03:
            at_ms -= choose.randrange(3 * HOUR_MS)
        cuts.append((number, at_ms))
    return cuts


def terms(choose: random.Random) -> Keep:
    counts = (0, 1, 2, 5, 24, ALL)
    return Keep(
        choose.choice((HOUR_MS, DAY_MS + 1, 8 * DAY_MS, 30 * DAY_MS, 500 * DAY_MS)),
        choose.choice(counts),
        choose.choice(counts),
        choose.choice(counts),
    )


def expected(cuts: Cuts, now_ms: int, keep: Keep) -> set[int]:
    """The same by the calendar: each cut is asked for itself, and counts what is newer."""
    times = {number: datetime.fromtimestamp(at_ms / 1000, UTC) for number, at_ms in cuts}
    now = datetime.fromtimestamp(now_ms / 1000, UTC)

    def hour(at: datetime) -> datetime:
        return at.replace(minute=0, second=0, microsecond=0)

    def day(at: datetime) -> date:
        return at.date()

    def week(at: datetime) -> date:
        return at.date() - timedelta(days=at.weekday())

    def stays(number: int) -> bool:
        if number == max(times):
            return True
        at = times[number]
        age = now - at
        if age > timedelta(milliseconds=keep.retention_ms):
            return False
        if age < timedelta(minutes=10):
            return True
        later = [times[other] for other in times if other > number]
        minute = at.replace(second=0, microsecond=0)
        of_last_day = [one for one in later if now - one < timedelta(days=1)]
        if age < timedelta(days=1) and minute not in [one.replace(second=0, microsecond=0) for one in of_last_day]:
            return True
        young = [one for one in times.values() if now - one <= timedelta(milliseconds=keep.retention_ms)]
        for count, span in ((keep.hourly, hour), (keep.daily, day), (keep.weekly, week)):
            newer = {span(one) for one in young if span(one) > span(at)}
            if span(at) not in [span(one) for one in later if one in young] and (count == ALL or len(newer) < count):
                return True
        return False

    return {number for number in times if stays(number)}


@pytest.mark.parametrize("seed", range(60))
def test_those_cuts_stay_that_the_settings_name(seed: int) -> None:
    choose = random.Random(seed)
    cuts, keep = history(choose), terms(choose)
    now_ms = max(at_ms for _, at_ms in cuts) + choose.choice((0, HOUR_MS, 3 * DAY_MS))
    assert kept_cuts(cuts, now_ms, keep) == expected(cuts, now_ms, keep)


@pytest.mark.parametrize("seed", range(60))
def test_sweeps_on_the_way_drop_nothing_that_would_stay_at_the_end(seed: int) -> None:
    choose = random.Random(1_000 + seed)
    cuts, keep = history(choose), terms(choose)
    there: Cuts = []
    now_ms = 0
    for cut in cuts:
        there.append(cut)
        now_ms = max(now_ms, cut[1])
        if choose.random() < 0.5:
            kept = kept_cuts(there, now_ms, keep)
            there = [one for one in there if one[0] in kept]
    assert kept_cuts(there, now_ms, keep) == kept_cuts(cuts, now_ms, keep)


def test_counts_go_by_hours_days_and_weeks_that_have_cuts() -> None:
    monday = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp() * 1000)
    hours = [(number, monday + number * HOUR_MS) for number in range(10 * 24)]
    after_a_gap = [(1000, monday + 20 * DAY_MS), (1001, monday + 20 * DAY_MS + 1)]
    kept = kept_cuts(hours + after_a_gap, after_a_gap[-1][1], Keep(300 * DAY_MS, hourly=3, daily=4, weekly=3))
    # Three hours: the last one, and two of before the gap. Of four days so many lie before it; the first week ended on Sunday.
    assert kept == {1000, 1001, 10 * 24 - 1, 10 * 24 - 2, 9 * 24 - 1, 8 * 24 - 1, 7 * 24 - 1}


def test_no_count_keeps_what_is_older_than_retention_but_for_the_newest() -> None:
    cuts = [(number, number * HOUR_MS) for number in range(100)]
    now_ms = 99 * HOUR_MS + 3 * DAY_MS
    assert kept_cuts(cuts, now_ms, Keep(DAY_MS)) == {99}
    assert kept_cuts([], now_ms, Keep()) == set()
