"""Which cuts stay: a pure function of their times.

    younger than 10 minutes    all
    a day, a week, for ever    the last one of each minute, hour, day
    older than retention       none, but for the newest of all

The last one of an hour is the last one of its minute too, so that none that stays in an older class was dropped in a younger one.
"""

from __future__ import annotations

from collections.abc import Iterable

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
ALL_MS = 10 * MINUTE_MS
GRACE_MS = DAY_MS
"""An object that no kept cut names is deleted at this age."""
_CLASSES = ((DAY_MS, MINUTE_MS), (7 * DAY_MS, HOUR_MS))


def kept_cuts(cuts: Iterable[tuple[int, int]], now_ms: int, retention_ms: int) -> set[int]:
    """Numbers of the cuts that stay; `cuts` are pairs of number and time in ms."""
    kept: set[int] = set()
    last: dict[tuple[int, int], int] = {}
    newest = -1
    for number, at_ms in cuts:
        newest = max(newest, number)
        age = now_ms - at_ms
        if age > retention_ms:
            continue
        if age < ALL_MS:
            kept.add(number)
        width = next((width for limit, width in _CLASSES if age < limit), DAY_MS)
        bucket = (width, at_ms // width)
        last[bucket] = max(last.get(bucket, number), number)
    kept.update(last.values())
    if newest >= 0:
        kept.add(newest)
    return kept
