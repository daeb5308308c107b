"""Removals: how many records went, and why: what `tidelog clean` and `tidelog log compact` tell at their end.

    superseded      a later record has the same key
    tombstone       a deletion mark whose time had come
    aborted         data of an aborted transaction
    keyless         no key, from before the topic was compacted
    marker          a transaction marker that nothing needs any more
    retention       a deletion policy named its segment
    delete-records  below the log start offset

The unit is the record, a transaction marker is one too. What retention takes is counted from the batch headers before it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.records.record_batch import MAGIC_V2
from ..storage import file_records
from ..storage.deletion_policy import START_OFFSET

if TYPE_CHECKING:
    from ..storage.log_segment import LogSegment
    from ..storage.unified_log import UnifiedLog
    from .kernel_results import FilterCounts


class Removals(NamedTuple):
    """Records by cause, and the bytes of `.log` files that went with them."""

    superseded: int = 0
    tombstone: int = 0
    aborted: int = 0
    keyless: int = 0
    marker: int = 0
    retention: int = 0
    delete_records: int = 0
    bytes: int = 0

    def plus(self, other: Removals) -> Removals:
        return Removals(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def by_cause(self) -> dict[str, int]:
        """Under the names that commands print."""
        return {name.replace("_", "-"): count for name, count in self._asdict().items() if name != "bytes"}

    @property
    def records(self) -> int:
        """Of all causes together."""
        return sum(self) - self.bytes


def removed_by_pass(counts: FilterCounts) -> Removals:
    """What a pass of the cleaner took."""
    return Removals(
        superseded=counts.superseded,
        tombstone=counts.tombstones_expired,
        aborted=counts.aborted,
        keyless=counts.keyless,
        marker=counts.markers_expired,
        delete_records=counts.below_start,
        bytes=max(0, counts.bytes_read - counts.bytes_kept),
    )


def apply_retention(log: UnifiedLog, would_go: Callable[[], list[int]]) -> Removals:
    """Run retention, and count what it takes. Pool threads; blocks. KafkaStorageError, OSError.

    `would_go()`: base offsets of the segments that it is going to delete, as far as can be told before: those are counted.
    One that becomes due between the two is counted by its offsets.
    """
    wanted = set(would_go())
    start = log.log_start_offset
    counted: dict[int, tuple[int, int]] = {}
    for segment in log.segments:
        if segment.base_offset in wanted:
            with suppress(FileNotFoundError):  # another run took it meanwhile
                counted[segment.base_offset] = _count(segment, start)
    total = Removals()
    for deletion in log.delete_old_segments():
        below, above = counted.get(deletion.base_offset, (0, deletion.next_base_offset - deletion.base_offset))
        if deletion.policy == START_OFFSET.name:
            below, above = below + above, 0
        total = total.plus(Removals(retention=above, delete_records=below, bytes=deletion.size))
    return total


def _count(segment: LogSegment, log_start_offset: int) -> tuple[int, int]:
    """Records below the log start offset and from there on, by the batch headers alone."""
    below = above = 0
    file = segment.lease_file()
    try:
        for header in file_records.read_headers(file, 0, segment.size):
            span = header.last_offset - header.base_offset + 1
            # Of a wrapper in format 0 or 1 the header tells no count; such logs have no gaps unless they were compacted.
            count = header.record_count if header.magic >= MAGIC_V2 else max(1, span)
            if header.last_offset < log_start_offset:
                below += count
            elif header.base_offset >= log_start_offset:
                above += count
            else:
                part = min(count, log_start_offset - header.base_offset)
                below, above = below + part, above + count - part
    finally:
        file.release()
    return below, above
