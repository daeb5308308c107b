"""Holes: how recovery treats bytes that were durable once and are damaged now (docs/adr/0051-damage.md).

    000…56.log            | sound | damaged | sound |      →   | sound | sound |, by way of `.cleaned` and `.swap`
    000…56.1234.60-69.damaged                                  the damaged bytes, for tools that can read something out of them

The log keeps its other offsets: a hole reads as a gap that compaction has left, here and in Apache Kafka. The `.damaged` file is
durable before the segment changes, so at any crash the bytes are in one of the two; its name says what was lost, also
where there are no bytes to keep (a segment that is missing). Deleting the file acknowledges the loss.

Loading only. Blocks; one thread.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..exceptions import CorruptIndexError, DataDirectoryError
from ..index.time_index import TimestampOffset
from ..io.filesystem import has_no_room
from ..values import NO_TIMESTAMP
from .damage import Damage, MustFollow, SearchGivenUpError, find_damage
from .names import CLEANED_STAGE, LOG_SUFFIX, Hole
from .swap import CleanedSegment, SegmentSwap

if TYPE_CHECKING:
    from ..index.offset_index import OffsetPosition
    from ..io.filesystem import File, FileSystem
    from .files import LogDirectory
    from .log_segment import LogSegment

logger = logging.getLogger(__name__)

POLICY_SETTING = "log.damage.policy"
HOLE, STOP, KAFKA = "hole", "stop", "kafka"

_COPY_BYTES = 1 << 20
_PART = ".tmp"


class DamagedLogError(DataDirectoryError):
    """A log has lost durable records to damage, and recovery must not, or can't, continue."""


def examine(directory: LogDirectory, segment: LogSegment, limit: int | None, must_follow: MustFollow) -> list[Damage]:
    """Find the damaged stretches of a segment (`find_damage`). OSError; DamagedLogError when the search was given up."""
    entries: list[OffsetPosition] = []
    index, _ = directory.indexes(segment.base_offset, writable=False)
    try:
        entries = list(index)
    except (OSError, CorruptIndexError):
        pass  # found without
    finally:
        index.close_map()
    file = directory.open_log(segment.base_offset, writable=False)
    try:
        return list(find_damage(file, file.size(), segment.base_offset, limit, must_follow=must_follow, hints=entries))
    except SearchGivenUpError as error:
        raise DamagedLogError(
            file.path,
            f"damaged, and {error}",
            f"restore it from a copy, or set {POLICY_SETTING}={KAFKA} to cut the log there",
        ) from error
    finally:
        file.close()


def put_aside(
    directory: LogDirectory, segment: LogSegment, damage: Sequence[Damage], holes: Sequence[Hole], size: int
) -> None:
    """Copy each damaged stretch to the file of its hole, and cut it out of the segment, which then has `size` bytes.

    Durable when it returns. OSError: the log is as it was. DamagedLogError: there is no room.
    """
    segment.abandon()
    base = segment.base_offset
    swap = SegmentSwap(
        directory,
        [CleanedSegment(base, _size_without(damage, size), NO_TIMESTAMP, TimestampOffset(NO_TIMESTAMP, base), -1)],
        [segment],
        has_readers=False,
    )
    file = directory.open_log(base, writable=False)
    try:
        for stretch, hole in zip(damage, holes, strict=True):
            _keep(directory, file, stretch, hole)
        directory.file_system.sync_directory(directory.path)
        _copy_sound(directory, file, base, damage, size)
        swap.prepare()
    except OSError as error:
        swap.discard()
        if has_no_room(error):
            raise DamagedLogError(
                file.path,
                f"damaged, and there is no room to put {sum(d.end - d.position for d in damage)} bytes of it aside and "
                f"write {size} anew",
                f"make room and start again, or set {POLICY_SETTING}={KAFKA} to cut the log there",
            ) from error
        raise
    finally:
        file.close()
    swap.commit()
    swap.deletion()()
    segment.size = _size_without(damage, size)


def stop_if_told_to(policy: str, directory: str, problem: str) -> None:
    """Raise `DamagedLogError`, with what to do, if `policy` (log.damage.policy) is `stop`."""
    if policy == STOP:
        raise DamagedLogError(
            directory,
            problem,
            f"restore the partition from a copy, or set {POLICY_SETTING}={HOLE} to go on without them",
        )


def note_missing(file_system: FileSystem, directory: str, hole: Hole, what: str) -> None:
    """Create the file of a hole of which no bytes are left, and log it. Durable on return. OSError."""
    path = f"{directory}/{hole.name}"
    if not file_system.exists(path):
        file_system.write_atomically(path, b"")
    logger.warning(
        "%s: %s: offsets %d to %d are missing though they were durable; they are a hole now, as %s says",
        directory,
        what,
        hole.first_offset,
        hole.last_offset,
        hole.name,
    )


def _size_without(damage: Sequence[Damage], size: int) -> int:
    return size - sum(stretch.end - stretch.position for stretch in damage)


def _keep(directory: LogDirectory, file: File, stretch: Damage, hole: Hole) -> None:
    path = f"{directory.path}/{hole.name}"
    fs = directory.file_system
    size = stretch.end - stretch.position
    if fs.exists(path) and fs.stat(path).size == size:
        return  # an earlier start came this far
    part = path + _PART
    fs.unlink(part, missing_ok=True)
    target = fs.open(part, create=True)
    try:
        _copy(file, target, stretch.position, stretch.end)
        target.sync()
    except OSError:
        fs.unlink(part, missing_ok=True)
        raise
    finally:
        target.close()
    fs.rename(part, path)


def _copy_sound(directory: LogDirectory, file: File, base_offset: int, damage: Sequence[Damage], size: int) -> None:
    fs = directory.file_system
    path = directory.file(base_offset, LOG_SUFFIX, CLEANED_STAGE)
    fs.unlink(path, missing_ok=True)
    target = fs.open(path, create=True)
    try:
        position = 0
        for stretch in damage:
            _copy(file, target, position, stretch.position)
            position = stretch.end
        _copy(file, target, position, size)
        target.sync()
    finally:
        target.close()
    fs.set_modified_ms(path, fs.stat(file.path).modified_ms)


def _copy(file: File, target: File, position: int, end: int) -> None:
    buffer = bytearray(min(_COPY_BYTES, max(0, end - position)))
    while position < end:
        room = memoryview(buffer)[: end - position]
        got = file.pread_into(room, position)
        if not got:
            raise OSError(errno.EIO, "the file has become shorter", file.path)
        target.append(room[:got])
        position += got
