"""Batches of a producer that its snapshot has forgotten, found in the log again.

A snapshot has the last batch of a producer alone, as Kafka's format has it. A client with several requests under way when the
daemon ended sends the oldest of them again first. That one is in the log, in front of the one that is known, and would be
refused as out of order for good (Kafka does so), after which the client's records come twice or not at all. So the log is
looked at when a producer that a snapshot told of steps back, and not at each start, where nobody may ever ask. Once for each
producer and start: whoever sends nonsense costs one look, of some 64 entries of a segment's index, or of 64 small segments.
Blocks.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from .entry import BATCHES_TO_RETAIN, BatchMetadata, in_sequence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records.record_batch import BatchHeader
    from ..segment.log_segment import LogSegment
    from .entry import ProducerStateEntry

_MOST_SEGMENTS = 64
_ENOUGH_BATCHES = 500
"""Batches of whichever producer after which no further segment is read: what was under way is not so far back."""


def earlier_batches(segments: Sequence[LogSegment], entry: ProducerStateEntry) -> list[BatchMetadata]:
    """The batches that come right before the oldest known one of `entry`, in order: as many as it has room for, and as are
    near enough. `segments`: of the log, rising. OSError passes through.
    """
    oldest = entry.batches[0] if entry.batches else None
    room = BATCHES_TO_RETAIN - len(entry.batches)
    found: list[BatchMetadata] = []
    if oldest is None:
        return found
    below = (segment for segment in reversed(segments) if segment.base_offset < oldest.first_offset)
    looked_at = 0
    for segment in islice(below, _MOST_SEGMENTS):
        headers = _headers_before(segment, oldest.first_offset)
        for batch in reversed(_of(headers, entry)):
            if len(found) == room or not in_sequence(batch.last_sequence, oldest.first_sequence):
                return found[::-1]
            found.append(batch)
            oldest = batch
        looked_at += len(headers)
        if looked_at >= _ENOUGH_BATCHES:
            break
    return found[::-1]


def _headers_before(segment: LogSegment, end_offset: int) -> list[BatchHeader]:
    """The last stretch of the segment below `end_offset`; a damaged one has none."""
    try:
        return segment.headers_before(end_offset)
    except RecordError:
        return []


def _of(headers: Sequence[BatchHeader], entry: ProducerStateEntry) -> list[BatchMetadata]:
    """Those of the producer, in its epoch."""
    return [
        BatchMetadata(
            header.last_sequence, header.last_offset, header.last_offset - header.base_offset, header.max_timestamp
        )
        for header in headers
        if header.producer_id == entry.producer_id
        and header.producer_epoch == entry.producer_epoch
        and not header.is_control
        and header.base_sequence >= 0
    ]
