"""What one step of the event loop copies for a cut. Everything else is derived from it by threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from ...storage.ledger.ledger import Ledger
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.segment.log_segment import LogSegment
    from ...storage.values import LogOffsetMetadata


class LogCut(NamedTuple):
    """One log at the moment of a cut. The loop copies plain tuples of these fields, which cost half as much."""

    log: UnifiedLog
    view: tuple[LogSegment, ...]
    high: LogOffsetMetadata
    """High watermark, and the place in the files where the cut ends."""
    start: int
    ledger: Ledger | None

    @property
    def is_torn(self) -> bool:
        """True if the log was rolled between two fields: the cut has to be taken again."""
        return self.high.segment_base_offset > self.view[-1].base_offset


Row: TypeAlias = "tuple[UnifiedLog, tuple[LogSegment, ...], LogOffsetMetadata, int, Ledger | None]"
"""Fields of a `LogCut`."""


class Vector(NamedTuple):
    """All logs at one moment."""

    taken_ms: int
    rows: list[Row]
    changes: int
    """Number of the last change of the metadata that was asked for."""
    metadata: Future[bytes | None] | None
    """The metadata database as of that change (None: there is none); no future where the caller has that."""


TakeVector = Callable[[int], Vector]
"""Takes a vector by one step of the loop, with the metadata if their last change is not the given one (-1: always). Called by the
backup's thread; blocks until the loop comes to it. TimeoutError: it did not."""


def copied(logs: Iterable[UnifiedLog]) -> list[Row]:
    """Copy what a cut needs of each log. Loop thread: 0.2 µs a log, and nothing that waits.

    The order of the fields matters: the writer of a slow directory may roll meanwhile, and then the high watermark is in a
    segment that the list lacks, which the planner notices (`LogCut.is_torn`); the cleaner may swap meanwhile, and then the
    ledger does not go with the segments, which a load notices and counts them.
    """
    return [
        (log, (local := log.local).segments.view, log.high, log.log_start_offset, local.ledger.value) for log in logs
    ]
