"""Reading facts of a log's files while retention and swaps take them: once more, with both kept out, when one is not there.

A list of segments is a snapshot; their files are opened by name when a fact is asked for. One that went meanwhile is no failure
of the log. The first try takes no lock, since reading may take long and retention must not wait for it as a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ..storage.log.unified_log import UnifiedLog
    from ..storage.log.values import SegmentView

T = TypeVar("T")


def settled(log: UnifiedLog, read: Callable[[], T]) -> T:
    """What `read` gives; it takes the log's segments itself. Any thread but the loop's. FileNotFoundError: one is missing."""
    try:
        return read()
    except FileNotFoundError:
        with log.steady():
            return read()


def settled_views(log: UnifiedLog) -> list[SegmentView]:
    """The facts of each segment, oldest first. As `settled`."""
    return settled(log, lambda: list(log.segment_views()))
