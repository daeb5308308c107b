"""Reads a split from segment files, whatever their daemon does to them meanwhile.

A file that is open stays readable when retention removes it or cleaning replaces it, and what it has is right: so each segment is
opened once and read to its end. For the next one the directory is looked at anew, by offset, before the file is closed: behind
that its inode, by which it is known, may be another one's. Missing offsets there were taken by
retention or DeleteRecords: compaction leaves gaps between batches, never before the first segment.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from ...storage.exceptions import StorageError
from ...storage.index.transaction_index import AbortedTxn, TransactionIndex
from ...storage.io.filesystem import RealFileSystem
from ...storage.log.partition_metadata import encode_uuid, read_partition_metadata
from ...storage.segment.batch_walk import Stretch, walk
from ...storage.segment.names import TRANSACTION_INDEX_SUFFIX, file_name
from ..exceptions import CorruptLogError, DataLossError
from ..planning.sparse_index import start_position
from ..planning.splits import LOOK_UP, Split
from .batch_decoder import AbortedRanges, BatchDecoder
from .columns import EVERYTHING, Columns, Wish
from .segment_files import SegmentFile, floor, list_segments

if TYPE_CHECKING:
    from ...storage.io.filesystem import File
    from ..planning.splits import AnySplit

logger = logging.getLogger(__name__)

CHUNK_BYTES = 4 << 20
_BASE_OFFSET = struct.Struct(">q")


def read_split(
    split: Split, wish: Wish = EVERYTHING, *, read_committed: bool = False, check_crc: bool = True,
    fail_on_data_loss: bool = True, skip_corrupt: bool = False,
) -> Iterator[Columns]:  # fmt: skip
    """The split's records in order. Blocks.

    DataLossError, CorruptLogError (with file, offset and cause), DirectoryError.
    """
    aborted = read_aborted(split) if read_committed and os.path.isdir(split.segment.directory) else None
    decoder = BatchDecoder(
        split.first_offset, split.end_offset, wish, aborted=aborted, check_crc=check_crc, skip_corrupt=skip_corrupt
    )
    buffer = bytearray(CHUNK_BYTES)
    segment: SegmentFile | None = split.segment
    position = split.position
    if position == LOOK_UP and not decoder.is_done:
        segment = _next_segment(split, split.first_offset, None, fail_on_data_loss=fail_on_data_loss)
    while segment is not None and not decoder.is_done:
        file = _open(segment)
        try:
            if file is not None:
                # Behind the open: as long as the directory is that topic's, so was the file.
                if made_anew(split, _topic_id(segment.directory), fail_on_data_loss=fail_on_data_loss):
                    break
                decoder.next_offset = max(decoder.next_offset, segment.base_offset)  # nothing lies between
                start = _start(file, segment, position, decoder.next_offset)
                yield from _read_segment(file, segment, start, decoder, buffer, skip_corrupt=skip_corrupt)
            position = LOOK_UP
            if not decoder.is_done:
                # With the file open: a later segment may have its inode as soon as it is closed and deleted.
                read = None if file is None else segment.inode
                segment = _next_segment(
                    split, decoder.next_offset, read, fail_on_data_loss=fail_on_data_loss, skipped=decoder.skipped
                )
        finally:
            if file is not None:
                file.close()
    if (last := decoder.take()) is not None:
        yield last
    if decoder.skipped:
        logger.warning(
            "%s-%d: left out %d damaged batches between offsets %d and %d",
            split.topic, split.partition, decoder.skipped, split.first_offset, split.end_offset,
        )  # fmt: skip


def _topic_id(directory: str) -> str:
    """Id of the topic that the directory is of now; empty if that is not known, or the directory is on its way out."""
    try:
        metadata = read_partition_metadata(RealFileSystem(), directory)
    except StorageError:
        return ""
    return "" if metadata is None else encode_uuid(metadata.topic_id)


def made_anew(split: AnySplit, topic_id: str, *, fail_on_data_loss: bool) -> bool:
    """True if a topic of that id is another one than was planned with, and nobody minds. DataLossError."""
    if not topic_id or not split.topic_id or topic_id == split.topic_id:
        return False
    if fail_on_data_loss:
        raise DataLossError(
            f"{split.topic}-{split.partition}: the topic was deleted and made anew (it had the id {split.topic_id}, and has "
            f"{topic_id}) before offsets {split.first_offset} to {split.end_offset - 1} were read; set failOnDataLoss to false "
            "to go on without them"
        )
    return True


def _open(segment: SegmentFile) -> File | None:
    """Open a segment; None if the file is no longer the one that was planned with."""
    try:
        file = RealFileSystem().open(segment.path, writable=False)
    except FileNotFoundError:
        return None
    if os.fstat(file.fileno()).st_ino == segment.inode:
        return file
    file.close()
    return None


def _start(file: File, segment: SegmentFile, position: int, offset: int) -> int:
    """Position from which to read for `offset`. One that was planned counts where the batch that begins with `offset` is there:
    after two passes of the cleaner another file may have the inode.
    """
    if position > 0 and file.pread(_BASE_OFFSET.size, position) != _BASE_OFFSET.pack(offset):
        position = LOOK_UP
    return start_position(file, segment, offset) if position == LOOK_UP else position


def _next_segment(
    split: Split, offset: int, read: int | None, *, fail_on_data_loss: bool, skipped: int = 0
) -> SegmentFile | None:
    """Segment that holds `offset` or what follows it now; None if that lies behind the split. DataLossError.

    `read`: inode of the file that is open and has been read to its end. `skipped`: damaged batches, whose offsets nobody knows.
    """
    directory = split.segment.directory
    # A log.dir that is not there either is one that this machine does not see.
    if not os.path.isdir(directory) and os.path.isdir(os.path.dirname(directory)):
        if fail_on_data_loss:
            raise DataLossError(
                f"{split.topic}-{split.partition}: the topic was deleted before offsets {offset} to {split.end_offset - 1} were "
                "read; set failOnDataLoss to false to go on without them"
            )
        return None
    segments = list_segments(directory)
    index = floor(segments, offset)
    if index < 0 and segments and fail_on_data_loss and segments[0].base_offset > offset:
        raise DataLossError(gone_in_mid_read(split, offset, segments[0].base_offset))
    for segment in segments[max(index, 0) :]:
        if segment.base_offset >= split.end_offset:
            return None
        if segment.inode != read:
            return segment
    # A log ends with its last batch, or with the name of a segment that has none yet: here there is no gap of compaction's.
    if fail_on_data_loss and not skipped:
        raise DataLossError(
            f"{split.topic}-{split.partition}: offsets {offset} to {split.end_offset - 1} are gone: the files in {directory} end "
            "before them, so the log was truncated while they were to be read, or these are not all that its broker has; set "
            "failOnDataLoss to false to go on without them"
        )
    return None


def gone_in_mid_read(split: AnySplit, offset: int, start: int) -> str:
    """Error text for a log whose start has moved past the offset to read."""
    return (
        f"{split.topic}-{split.partition}: offsets {offset} to {min(start, split.end_offset) - 1} are gone: retention or "
        "DeleteRecords has taken them while they were to be read; set failOnDataLoss to false to go on without them"
    )


def _read_segment(
    file: File, segment: SegmentFile, position: int, decoder: BatchDecoder, buffer: bytearray, *, skip_corrupt: bool
) -> Iterator[Columns]:
    """Everything of the file from `position` on, until the split ends."""
    view = memoryview(buffer)
    begin = end = fed = 0  # view[begin:end] is what the file has from `position` on
    while not decoder.is_done:
        got = 1
        if not fed:  # only then: what is left over is moved once a chunk
            view[: end - begin] = view[begin:end]
            begin, end = 0, end - begin
            got = file.pread_into(view[end:], position + end)
            end += got
        try:
            stopped = decoder.feed(view, begin, end)
        except RecordError as error:
            damaged = position + decoder.failed_at - begin
            position = _past_damage(file, segment, damaged, decoder, skip_corrupt, str(error))
            begin = end = fed = 0
            continue
        if decoder.is_full and (columns := decoder.take()) is not None:
            yield columns
        fed, begin = stopped - begin, stopped
        position += fed
        if fed:
            continue
        if decoder.needed > len(view) and position + decoder.needed <= file.size():
            view = memoryview(bytearray(decoder.needed))
            begin = end = 0
        elif not got:
            left = view[begin:end]
            if len(left) < _BASE_OFFSET.size or _BASE_OFFSET.unpack_from(left)[0] >= decoder.end_offset:
                return  # of the active segment, as far as it is written
            cause = "a batch is cut off by the end of the file"
            position = _past_damage(file, segment, position, decoder, skip_corrupt, cause)
            begin = end = 0


def _past_damage(
    file: File, segment: SegmentFile, position: int, decoder: BatchDecoder, skip_corrupt: bool, cause: str
) -> int:
    """Position at which to go on behind bytes that are no sound batch; the end of the file if no batch follows.

    CorruptLogError, unless damage is to be skipped, or it is the room that an active segment has reserved.
    """
    stretch = next(walk(file, position), None)
    if stretch is None:
        return file.size()
    if stretch.stretch is Stretch.ZEROS and list_segments(segment.directory)[-1].inode == segment.inode:
        return file.size()
    if not skip_corrupt:
        raise CorruptLogError(
            f"{segment.path}: damaged at byte {position}, behind offset {decoder.next_offset - 1}: {cause}; "
            "`tidelog log verify` says more; set corruptBatches to skip to leave out what is damaged"
        )
    decoder.skipped += 1
    return position + stretch.size


def read_aborted(split: Split) -> AbortedRanges:
    """The aborted transactions that concern the split, from the `.txnindex` files of its segments and those behind it.

    Files that are swapped meanwhile, or deleted, are looked for anew: what one of them said may stand in another by then.
    """
    directory = split.segment.directory
    segments = list_segments(directory)
    while True:
        found = _aborted_in(segments, split)
        if _files(now := list_segments(directory)) == _files(segments):
            return AbortedRanges(found)
        segments = now


def _files(segments: list[SegmentFile]) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.inode) for segment in segments]


def _aborted_in(segments: list[SegmentFile], split: Split) -> list[AbortedTxn]:
    found: list[AbortedTxn] = []
    for segment in segments[max(0, floor(segments, split.first_offset)) :]:
        path = os.path.join(segment.directory, file_name(segment.base_offset, TRANSACTION_INDEX_SUFFIX))
        if not os.path.exists(path):
            continue
        index = TransactionIndex(RealFileSystem(), path, segment.base_offset)
        result = index.collect(split.first_offset, split.end_offset)
        found += result.aborted
        if result.is_complete:
            break
    return found
