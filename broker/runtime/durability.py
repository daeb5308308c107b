"""Durability levels in force, for the log line at start and for a metric.

`page cache`: an answer means that the kernel has the records. `interval`: it syncs every `flush.messages` records or
`flush.ms`. `ack after sync` (`flush.messages=1`): an answer means that the disk has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config.log_config import LogConfig

LEVELS = ("page cache", "interval", "ack after sync")


def durability_line(defaults: LogConfig, logs: Iterable[LogConfig]) -> str:
    """Text with the level of new topics, and the number of logs with another level. Any thread."""
    usual = defaults.durability
    counts = Counter(config.durability for config in logs)
    others = [
        f"{counts[level]} of {counts.total()} logs: {level}" for level in LEVELS if level != usual and counts[level]
    ]
    return "; ".join([f"durability: {usual}", *others])
