"""Reading from a snapshot of segments: slices for fetches, look-ups by time. Functions of the snapshot; no lock, any thread.

Gaps between offsets are normal (compaction, aborted appends): an offset stands for the first batch that ends at it or
after it, in its own segment or a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.records.exceptions import CorruptRecordError
from ..segment import file_records
from ..segment.segment_list import floor_index
from ..values import FetchDataInfo, LogOffsetMetadata

if TYPE_CHECKING:
    from ..index.time_index import TimestampOffset
    from ..segment.file_records import BatchPosition
    from ..segment.log_segment import LogSegment


def read(
    view: tuple[LogSegment, ...], offset: int, limit: LogOffsetMetadata, max_bytes: int, min_one_message: bool
) -> FetchDataInfo | None:
    """A slice that begins with the batch that holds `offset` and ends before `limit`; None when there is no such batch.

    The answer holds a lease. OSError when the disk fails, or when the segment's files are gone. CorruptRecordError where
    damage is in the way, and in the last segment also where it hides what follows it.
    """
    index = len(view) - 1
    segment = view[index]
    if offset < segment.base_offset:
        index = floor_index(view, offset)
        if index < 0:
            return None
        segment = view[index]
    while True:
        is_last = segment.base_offset == limit.segment_base_offset
        end = segment.size
        if is_last and limit.position < end:  # else the limit was found before the segment was cleaned
            end = limit.position
        hints = segment.hints
        hint = segment.hint(offset)
        if hint is not None and hint < end:
            found = None
            # A header that is damaged there says nothing of the batch: the look-up judges it.
            if end - hint <= max_bytes or (found := segment.batch_at_hint(hint, offset, end)) is not None:
                position = hint
                break
        found = segment.find(offset, end)
        if found is not None:
            _check_end(found, view[index : index + 2])
            position = found.position
            break
        index += 1
        if is_last or index >= len(view):
            if end == segment.size and not segment.is_filled_from(offset, end):
                # An empty answer would be the same for ever.
                raise CorruptRecordError(f"{segment!r}: damage hides the batch that holds offset {offset}")
            return None
        segment = view[index]
        if segment.base_offset >= limit.offset:  # the limit's segment has become a part of the one before
            return None
    file = segment.lease_file()
    size = end - position
    if found is not None and size > max_bytes:
        if found.size > max_bytes and not min_one_message:
            file.release()
            return FetchDataInfo(offset, None, 0, 0, segment.base_offset, not is_last)
        size = max(max_bytes, found.size)
        behind = position + found.size
        if behind < end:
            try:
                is_right = file_records.begins_from(file, behind, found.last_offset + 1)
            except BaseException:
                file.release()
                raise
            if is_right:
                segment.note_hint(hints, found.last_offset + 1, behind)
            else:
                # One of the two headers is damaged. A place that is noted by it would be another offset's, and a client that gets
                # both batches may end where it began, and ask for them for ever.
                size = found.size
    return FetchDataInfo(offset, file, position, size, segment.base_offset, not is_last)


def _check_end(found: BatchPosition, view: tuple[LogSegment, ...]) -> None:
    """CorruptRecordError if a batch of the first segment of `view` ends in the second one by its header. No checksum covers a
    base offset: a client would take it, and lose its place in the log.
    """
    if len(view) > 1 and found.last_offset >= view[1].base_offset:
        raise CorruptRecordError(
            f"{view[0]!r}: the batch at {found.position} ends behind the segment, at {found.last_offset}"
        )


def locate(view: tuple[LogSegment, ...], offset: int) -> LogOffsetMetadata:
    """Find the end of a read that must not pass `offset`: the start of the batch that holds it, or its segment's end."""
    segment = view[max(0, floor_index(view, offset))]
    position = segment.hint(offset)
    if position is None:
        size = segment.size
        found = segment.find(offset, size)
        position = size if found is None else found.position
    return LogOffsetMetadata(offset, segment.base_offset, position)


def find_timestamp(
    view: tuple[LogSegment, ...], timestamp: int, start_offset: int, limit_offset: int
) -> TimestampOffset | None:
    """The first record with a timestamp >= `timestamp` and an offset in [start_offset, limit_offset)."""
    for segment in view:
        if segment.base_offset >= limit_offset:
            break
        if segment.largest_timestamp_so_far().timestamp >= timestamp:
            found = segment.find_timestamp(timestamp, start_offset, limit_offset)
            if found is not None:
                return found
    return None


def find_largest_timestamp(
    view: tuple[LogSegment, ...], start_offset: int, limit_offset: int
) -> TimestampOffset | None:
    """The first record that has the largest timestamp of those with an offset in [start_offset, limit_offset)."""
    best: TimestampOffset | None = None
    for segment in view:
        if segment.base_offset >= limit_offset:
            break
        if best is None or segment.largest_timestamp_so_far().timestamp > best.timestamp:
            found = segment.find_largest_timestamp(start_offset, limit_offset)
            if found is not None and (best is None or found.timestamp > best.timestamp):
                best = found
    return best
