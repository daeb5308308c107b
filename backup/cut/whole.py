"""A closed segment with its companions as one object, named by its sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..formats.entries import Segment
from ..formats.keys import new_sum, segment_key, segments_prefix
from .reading import Readers, Unreadable

if TYPE_CHECKING:
    from collections.abc import Container

    from ...storage.log.unified_log import UnifiedLog
    from ...storage.segment.log_segment import LogSegment
    from ..store.interface import ObjectStore


def send_whole(
    log: UnifiedLog, segment: LogSegment, size: int, readers: Readers, store: ObjectStore, present: Container[str]
) -> tuple[Segment, bool]:
    """Send a segment unless its object is `present`, which is the second result. Blocks; any thread. StoreError, SegmentGone,
    Unreadable.

    It is read twice: the sum is in the key. What comes otherwise the second time ends the upload, and nothing has the key.
    """
    with readers.leased(log, segment) as file:
        companions = readers.companions(log, segment)
        digest = new_sum()
        for block in readers.blocks(log, file, 0, size):
            digest.update(block)
        for _, data in companions:
            digest.update(data)
        expected = digest.hexdigest()
        made = Segment(segment.base_offset, size, expected, tuple((suffix, len(data)) for suffix, data in companions))
        key = segment_key(segments_prefix(log.topic, log.topic_id, log.partition), segment.base_offset, expected)

        def blocks() -> Iterator[bytes]:
            again = new_sum()
            for block in readers.blocks(log, file, 0, size):
                again.update(block)
                yield block
            for _, data in companions:
                again.update(data)
                yield data
            if again.hexdigest() != expected:
                raise Unreadable(log, f"{file.path} gave other bytes when it was read again")

        is_present = key in present
        if not is_present:
            store.upload(key, made.object_size, blocks())
    return made, is_present
