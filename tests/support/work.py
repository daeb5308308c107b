"""Counts what a call does instead of timing it: the same number on every machine, however busy.

    with counted_work(limit=1000) as work:
        log.delete_old_segments()
    assert work.count <= 1000      # beyond the limit the call is ended right there

Counted are lines of the storage package that run, comprehensions' rounds included, and comparisons of segments, which a
search through a list makes in C.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tidelog.storage.segment import log_segment
from tidelog.storage.segment.log_segment import LogSegment

_COUNTED = str(Path(log_segment.__file__).parent)


class TooMuchWork(AssertionError):
    """The limit is passed."""


class Work:
    """How much has been done so far."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._limit = limit

    def add(self) -> None:
        self.count += 1
        if self.count > self._limit:
            raise TooMuchWork(f"more than {self._limit} steps")


@contextmanager
def counted_work(limit: int) -> Iterator[Work]:
    """Counts within the block, in this thread. TooMuchWork comes out of whatever the block runs."""
    work = Work(limit)

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_COUNTED):
            return None
        if event == "line":
            work.add()
        return trace

    def compared(one: LogSegment, other: object) -> bool:
        work.add()
        return one is other

    before, plain = sys.gettrace(), LogSegment.__eq__
    LogSegment.__eq__ = compared  # type: ignore[assignment, method-assign]
    sys.settrace(trace)
    try:
        yield work
    finally:
        sys.settrace(before)
        LogSegment.__eq__ = plain  # type: ignore[method-assign]
