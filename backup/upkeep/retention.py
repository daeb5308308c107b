"""Which cuts stay: a pure function of their times.

    younger than 10 minutes                                    all
    younger than a day                                         the last one of each minute
    the newest `hourly` hours that have a cut                  the last one of each
    the newest `daily` days, `weekly` weeks that have one      the last one of each
    older than `retention_ms`                                  none, whatever else would keep it, but for the newest of all

A cut stays if one line keeps it. Hours, days and weeks (from Monday) are UTC's, and are counted by those that have cuts: a daemon
that was off for a week keeps what was before. The last cut of an hour, so far, is kept by the hour itself; so nothing that a line
will keep later is dropped by a sweep before, whichever counts there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
ALL_MS = 10 * MINUTE_MS
MINUTELY_MS = DAY_MS
GRACE_MS = DAY_MS
"""An object that no kept cut names is deleted at this age."""
ALL = -1
"""A count of as many as are young enough."""
_MONDAY_MS = 3 * DAY_MS
"""1970 began on a Thursday."""


class Keep(NamedTuple):
    """What is kept: `retention_ms` bounds the age of all but the newest cut; counts of hours, days and weeks, or `ALL`."""

    retention_ms: int = 30 * DAY_MS
    hourly: int = 7 * 24
    daily: int = ALL
    weekly: int = ALL


def keep_of(config: BrokerConfig) -> Keep:
    """What the settings want kept."""
    return Keep(
        config.backup_retention_ms, config.backup_keep_hourly, config.backup_keep_daily, config.backup_keep_weekly
    )


def kept_cuts(cuts: Iterable[tuple[int, int]], now_ms: int, keep: Keep) -> set[int]:
    """Numbers of the cuts that stay; `cuts` are pairs of number and time in ms."""
    there = list(cuts)
    if not there:
        return set()
    young = [(number, at_ms) for number, at_ms in there if now_ms - at_ms <= keep.retention_ms]
    kept = {number for number, at_ms in young if now_ms - at_ms < ALL_MS}
    minutes = _last_of_each(((number, at_ms) for number, at_ms in young if now_ms - at_ms < MINUTELY_MS), MINUTE_MS)
    kept.update(minutes.values())
    for count, width, start in (
        (keep.hourly, HOUR_MS, 0),
        (keep.daily, DAY_MS, 0),
        (keep.weekly, WEEK_MS, _MONDAY_MS),
    ):
        if count:
            last = _last_of_each(young, width, start)
            newest = sorted(last, reverse=True)
            kept.update(last[bucket] for bucket in (newest if count == ALL else newest[:count]))
    kept.add(max(number for number, _ in there))
    return kept


def _last_of_each(cuts: Iterable[tuple[int, int]], width_ms: int, start_ms: int = 0) -> dict[int, int]:
    """The highest number in each span of time."""
    last: dict[int, int] = {}
    for number, at_ms in cuts:
        bucket = (at_ms + start_ms) // width_ms
        last[bucket] = max(last.get(bucket, number), number)
    return last
