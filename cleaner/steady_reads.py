"""Steady reads: facts of a log's files, read while retention and swaps may remove them. If a file is missing, they are read
again with both locked out.

A list of segments is a snapshot; their files are opened by name when a fact is asked for. One that went meanwhile is no failure
of the log. The first try takes no lock, since reading may take long and retention must not wait for it as a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ..storage.log.unified_log import UnifiedLog
    from ..storage.values import SegmentView

T = TypeVar("T")


def read_steady(log: UnifiedLog, read: Callable[[], T]) -> T:
    """Return `read()`, which must take the log's segments itself. Any thread but the loop's. FileNotFoundError: a file
    is missing even with retention and swaps locked out.
    """
    try:
        return read()
    except FileNotFoundError:
        with log.local.steady():
            return read()


def steady_views(log: UnifiedLog) -> list[SegmentView]:
    """Facts of each segment, oldest first. Threads and errors as `read_steady`."""
    return read_steady(log, lambda: list(log.local.segment_views()))
