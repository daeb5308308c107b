"""After a restart: which of the last cut's segments are still what is on disk.

A power cut takes records that the backup has, and others get their offsets; a cleaner may have rewritten a segment to the same
size. So a segment is believed if it is on disk as long as the cut says, was last written before the cut, and was durable then.
Of every other one the local bytes are held against the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.ledger.ledger import Ledger, decode
from ..formats.entries import Partition, Segment
from ..formats.keys import new_sum
from .reading import Readers
from .tracker import Tracked

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.segment.log_segment import LogSegment
    from .vector import LogCut

_MARGIN_MS = 5000
"""A file that was changed so shortly before the cut is read: clocks of file systems are coarse, and clocks are set."""


def resumed(cut: LogCut, entry: Partition, taken_ms: int, readers: Readers) -> Tracked | None:
    """The partition as the last cut, taken at `taken_ms`, has it, as far as that is still so; None: nothing of it.

    Blocks, reads up to all of it. SegmentGone, Unreadable.
    """
    log = cut.log
    if entry.topic_id != (log.topic_id.hex if log.topic_id is not None else ""):
        return None
    last_base = cut.high.segment_base_offset
    before = {segment.base_offset: segment for segment in entry.segments}
    ends = {one.base_offset: other.base_offset for one, other in zip(entry.segments, entry.segments[1:], strict=False)}
    same: list[tuple[LogSegment, Segment]] = []
    for segment in cut.view:
        if segment.base_offset > last_base:
            break
        known = before.get(segment.base_offset)
        if known is None:
            continue
        is_closed = segment.base_offset < last_base
        size = segment.size if is_closed else cut.high.position
        if known.size > size or (known.object_sum and (known.size != size or not is_closed)):
            continue
        was_durable = ends.get(segment.base_offset, entry.end + 1) <= entry.recovery_point
        is_as_long = known.size == segment.size
        if (was_durable and is_as_long and _changed_ms(log, segment, readers) < taken_ms - _MARGIN_MS) or is_same(
            log, segment, known, readers
        ):
            same.append((segment, known))
    if not same:
        return None
    # Companions of one that has closed since are not in the store, nor are those of one that a pass has made of several:
    # it may begin with the bytes of its first.
    active = entry.segments[-1].base_offset
    closed = frozenset(
        segment.identity for segment, known in same if known.base_offset != active and known.size == segment.size
    )
    names = {file.name for file in entry.files}
    return Tracked(
        log,
        entry._replace(segments=tuple(known for _, known in same), held="", held_since_ms=0),
        tuple(segment.identity for segment, _ in same),
        closed,
        -1,
        None,
        _ledger_of(entry),
        tuple(names),
    )


def _ledger_of(entry: Partition) -> Ledger | None:
    """The ledger that the cut has of a partition; None: none."""
    if entry.ledger:
        return decode(entry.ledger.encode())
    return None if entry.cleaned >= 0 else Ledger().gone(entry.segments[0].base_offset)


def _changed_ms(log: UnifiedLog, segment: LogSegment, readers: Readers) -> int:
    """When the file was changed or got its name: a pass of the cleaner sets its modification time back."""
    directory = log.log_directory
    return readers.run(log, lambda: directory.file_system.stat(directory.file(segment.base_offset, ".log")).changed_ms)


def is_same(log: UnifiedLog, segment: LogSegment, known: Segment, readers: Readers) -> bool:
    """True if the segment begins with the bytes that the store has. Blocks. SegmentGone, Unreadable."""
    with readers.leased(log, segment) as file:
        if known.object_sum:
            digest = new_sum()
            for block in readers.blocks(log, file, 0, known.size):
                digest.update(block)
            companions = dict(readers.companions(log, segment))
            if tuple((suffix, len(data)) for suffix, data in companions.items()) != known.companions:
                return False
            for data in companions.values():
                digest.update(data)
            return digest.hexdigest() == known.object_sum
        position = 0
        for extent in known.extents:
            digest = new_sum()
            for block in readers.blocks(log, file, position, position + extent.length):
                digest.update(block)
            if digest.hexdigest() != extent.sum:
                return False
            position += extent.length
    return True
