"""Reads facts of a log's files while retention and swaps may remove them: reads again, with both locked out, if a file
is missing.

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
    """Return `read()`, which must take the log's segments itself. Any thread but the loop's. FileNotFoundError: a file
    is missing even with retention and swaps locked out.
    """
    try:
        return read()
    except FileNotFoundError:
        with log.local.steady():
            return read()


def settled_views(log: UnifiedLog) -> list[SegmentView]:
    """Facts of each segment, oldest first. Threads and errors as `settled`."""
    return settled(log, lambda: list(log.local.segment_views()))
