"""Results of the two walks of the cleaner's kernel: values only, shared by the kernel and its twin in Python.

Stands at the bottom of the cleaner: imports nothing of ours.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_HORIZON = -1


class Stop(IntEnum):
    """Reason why a kernel call returned. In any case `consumed` bytes are finished and never need to be passed again."""

    INPUT = 0  # every whole batch of the input is done: more bytes are needed (`needed`, when the next batch tells)
    OUTPUT = 1  # the output buffer is full: write it out and call again from there (`needed` when even empty it is too small)
    OLD_FORMAT = 2  # the next message has format 0 or 1: `mixed_formats` handles it, and never returns this
    MAP_FULL = 3  # build only: the record at `full_at` has a key that did not fit
    END = 4  # build only: the next batch begins at or above the end of the range


class BuildStep(NamedTuple):
    """Result of one call of `OffsetMap.build`.

    Attributes:
        consumed: bytes done with, from the call's start. After MAP_FULL the batch with the record that did not fit is not
            among them.
        stopped: why the call returned.
        needed: size in bytes of the batch at start + consumed where that is known and it is cut off; else 0.
        full_at: offset of the record that did not fit: every record below it is in the map; −1 unless MAP_FULL.
        records: records looked at, those of skipped batches too.
    """

    consumed: int
    stopped: Stop
    needed: int
    full_at: int
    records: int


class FilterStep(NamedTuple):
    """Result of one call of `RecordFilter.filter`.

    Attributes:
        consumed: bytes of the input done with, from the call's start.
        produced: bytes written to the output, from its start: whole batches.
        stopped: why the call returned.
        needed: INPUT: size in bytes of the batch that is cut off, where known; OUTPUT with nothing produced: bytes of output
            that the next batch may take; else 0.
    """

    consumed: int
    produced: int
    stopped: Stop
    needed: int


class FilterCounts(NamedTuple):
    """Records removed and kept by filtering. The unit is the record, that is the offset; a marker counts as one.

    Attributes:
        superseded: a later record has the same key.
        tombstones_expired: delete markers whose horizon has passed.
        aborted: records of aborted transactions.
        keyless: records without a key, from before the topic was compacted.
        markers_expired: transaction markers whose horizon has passed.
        below_start: records below the log start offset.
        records_read, bytes_read, batches_read: of the input.
        records_kept, bytes_kept, batches_kept: of the output; records_read = records_kept + Σ removed.
        batches_copied: of batches_kept, those written as they were read.
        tombstones_kept: among what was filtered (records beyond the map's end are not looked into).
        markers_kept: transaction markers and other control records.
        earliest_horizon: smallest delete horizon of a kept batch in which it has something to remove, ms; −1 for none.
        last_offset: of the last kept batch, −1 when none was.
        max_timestamp: largest of the kept batches, −1 for none.
        offset_of_max_timestamp: last offset of the first kept batch with that timestamp; −1.
    """

    superseded: int = 0
    tombstones_expired: int = 0
    aborted: int = 0
    keyless: int = 0
    markers_expired: int = 0
    below_start: int = 0
    records_read: int = 0
    bytes_read: int = 0
    batches_read: int = 0
    records_kept: int = 0
    bytes_kept: int = 0
    batches_kept: int = 0
    batches_copied: int = 0
    tombstones_kept: int = 0
    markers_kept: int = 0
    earliest_horizon: int = NO_HORIZON
    last_offset: int = NO_OFFSET
    max_timestamp: int = NO_TIMESTAMP
    offset_of_max_timestamp: int = NO_OFFSET

    @property
    def removed(self) -> int:
        """Number of records removed, all causes together."""
        return (
            self.superseded
            + self.tombstones_expired
            + self.aborted
            + self.keyless
            + self.markers_expired
            + self.below_start
        )

    def plus(self, other: FilterCounts) -> FilterCounts:
        """The sum of two stretches."""
        horizons = [counts.earliest_horizon for counts in (self, other) if counts.earliest_horizon != NO_HORIZON]
        newest = max(self, other, key=lambda counts: (counts.max_timestamp, -counts.offset_of_max_timestamp))
        sums = {name: value + getattr(other, name) for name, value in self._asdict().items() if name not in _NOT_SUMS}
        return FilterCounts(
            **sums,
            earliest_horizon=min(horizons, default=NO_HORIZON),
            last_offset=max(self.last_offset, other.last_offset),
            max_timestamp=newest.max_timestamp,
            offset_of_max_timestamp=newest.offset_of_max_timestamp,
        )


_NOT_SUMS = frozenset({"earliest_horizon", "last_offset", "max_timestamp", "offset_of_max_timestamp"})
