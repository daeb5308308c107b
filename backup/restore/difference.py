"""What the restore of an older cut brings back, and what it leaves behind, against the newest one. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..formats.entries import Cut


class Difference(NamedTuple):
    """By topic. Offsets that compaction took since are not among them: they come back too, and are not counted."""

    deleted_topics: tuple[str, ...]
    """Topics that were deleted since, and come back."""
    deleted: dict[str, int]
    """Offsets that retention or DeleteRecords took since, and that come back."""
    later: dict[str, int]
    """Offsets that were written since, and that are not in the older cut."""


def difference(older: Cut, newest: Cut) -> Difference:
    """Compare a cut with the newest one. A topic that was made anew under its name is another one."""
    gone: dict[str, None] = {}
    deleted: Counter[str] = Counter()
    later: Counter[str] = Counter()
    for key, entry in older.partitions.items():
        now = newest.partitions.get(key)
        if now is None or now.topic_id != entry.topic_id:
            gone[entry.topic] = None
            continue
        deleted[entry.topic] += max(0, min(now.start, entry.end) - entry.start)
        later[entry.topic] += max(0, now.end - entry.end)
    for key, entry in newest.partitions.items():
        before = older.partitions.get(key)
        if before is None or before.topic_id != entry.topic_id:
            later[entry.topic] += entry.end - entry.start
    return Difference(
        tuple(gone),
        {topic: count for topic, count in deleted.items() if count},
        {topic: count for topic, count in later.items() if count},
    )
