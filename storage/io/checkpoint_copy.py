"""Copies of the checkpoints with a checksum. Apache Kafka's files have none, and a wrong digit leaves them well-formed.

    recovery-point-offset-checkpoint            as Kafka reads and writes it
    tidelog-recovery-point-offset-checkpoint    tidelog 1 5f3c09aa     ← CRC-32C of what follows
                                                0                      ← what was written to the other file

A start holds the two against each other (`mend_checkpoint`) before the mark of the clean stop goes: what is damaged is made anew
from the copy then, so later readers of Kafka's file read what was written. Kafka may have run on the directory meanwhile;
it writes its own files and no copies. Design: docs/adr/0051-damage.md.

The file is written before its copy. Blocks; two writers of one file must not meet. OSError.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ...protocol.records._kernel import crc32c
from ..exceptions import StorageError
from .checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpointFile,
    TopicPartition,
    format_offsets,
    parse_offsets,
)
from .checkpoint_room import CheckpointRoom, changes_in, with_room, without_room
from .filesystem import FileSystem

logger = logging.getLogger(__name__)

COPY_PREFIX = "tidelog-"
_WITH_ROOM = f"{COPY_PREFIX}{LOG_START_OFFSET_CHECKPOINT}"
"""The copy behind which changes are noted (`checkpoint_room.py`)."""
COPIED_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT)
"""Checkpoints that get a copy. Not the high watermarks: they are written every 5 s, and found again from the logs."""


def seal(content: bytes) -> bytes:
    """Prefix the content with its checksum."""
    return b"tidelog 1 %08x\n" % crc32c(content) + content


def unsealed(data: bytes) -> bytes | None:
    """The content without its checksum; None if the checksum is wrong."""
    _, newline, content = data.partition(b"\n")
    return content if newline and data == seal(content) else None


def read_sealed(file_system: FileSystem, path: str) -> bytes | None:
    """Read the content of a sealed file; None if it is missing or damaged."""
    try:
        return unsealed(file_system.read_bytes(path))
    except (FileNotFoundError, StorageError):
        return None


def write_checkpoint(
    file_system: FileSystem,
    directory: str,
    name: str,
    offsets: Mapping[TopicPartition, int],
    *,
    must_copy: bool = False,
) -> CheckpointRoom | None:
    """Replace a checkpoint and its copy, each durably. On OSError no copy is left that contradicts the file.

    `must_copy`: also where there is nothing to copy. Returns the room behind the copy, if it has one.
    """
    OffsetCheckpointFile(file_system, f"{directory}/{name}").write(offsets)
    if name not in COPIED_CHECKPOINTS:
        return None
    copy_path, content = f"{directory}/{COPY_PREFIX}{name}", format_offsets(offsets)
    if not offsets and not must_copy and not file_system.exists(copy_path):
        return None
    error = _copy(file_system, content, copy_path, is_empty=False)
    if error is not None:
        raise error
    return (
        CheckpointRoom.of(file_system, copy_path, with_room(seal(content))) if copy_path.endswith(_WITH_ROOM) else None
    )


def room_of(file_system: FileSystem, directory: str, name: str) -> CheckpointRoom | None:
    """The room behind the copy of a checkpoint, if it has one with nothing in it. None behind a damaged copy: of that a start
    believes nothing, nor what is noted behind it. OSError.
    """
    path = f"{directory}/{COPY_PREFIX}{name}"
    try:
        data = file_system.read_bytes(path)
    except (FileNotFoundError, StorageError):
        return None
    return None if unsealed(without_room(data)) is None else CheckpointRoom.of(file_system, path, data)


def mend_checkpoint(file_system: FileSystem, directory: str, name: str, *, is_ours: bool) -> bool:
    """Replace a damaged checkpoint by its copy; True if that was done. A sound checkpoint gets a new copy.

    `is_ours`: the mark of a clean stop is there and this program's, so nobody else has written since.
    """
    path, copy_path = f"{directory}/{name}", f"{directory}/{COPY_PREFIX}{name}"
    content, changes = _read_copy(file_system, copy_path)
    found, problem = _read(file_system, path, name)
    if content is not None and changes:
        noted = _changed(content, changes, copy_path)
        if found == content:
            logger.info("%s: %d changes are taken over from its copy", path, len(changes))
            file_system.write_atomically(path, noted)
            return True
        content = noted
    if found is not None and found == content:
        return False
    if found is not None:
        problem = _problem(found, path)
    if content is not None and found is not None and not problem:
        # Somebody who writes it makes a new file, which is younger than the copy; a flipped bit changes no time.
        is_written = file_system.stat(path).modified_ms > file_system.stat(copy_path).modified_ms
        if parse_offsets(found, path) != parse_offsets(content, copy_path) and (is_ours or not is_written):
            problem = f"{path} is not what was written there"
    if content is not None and problem:
        logger.warning("%s; it is made anew from its copy, %s%s", problem, COPY_PREFIX, name)
        file_system.write_atomically(path, content)
        return True
    if found is not None and not problem:
        # Now: as long as the checkpoint need not change, nothing else writes the copy, and the next mark says that all was ours.
        error = _copy(file_system, found, copy_path, is_empty=not parse_offsets(found, path))
        if error is not None:
            logger.warning("%s could not be written: %s", copy_path, error)
    return False


def _read(file_system: FileSystem, path: str, name: str) -> tuple[bytes | None, str]:
    """Contents of a checkpoint; or None, and the reason."""
    try:
        return file_system.read_bytes(path), ""
    except FileNotFoundError:
        # Without the other two more is read or cleaned, and some remove them for that. Nothing else says where logs start.
        return None, "" if name != LOG_START_OFFSET_CHECKPOINT else f"{path} is missing"
    except StorageError as error:
        return None, str(error)


def _read_copy(file_system: FileSystem, path: str) -> tuple[bytes | None, dict[TopicPartition, int]]:
    """Contents of a copy, None if it is missing or damaged; and the changes that were noted behind it."""
    try:
        data = file_system.read_bytes(path)
    except (FileNotFoundError, StorageError):
        return None, {}
    content = unsealed(without_room(data))
    return content, {} if content is None else changes_in(data, path)


def _changed(content: bytes, changes: Mapping[TopicPartition, int], path: str) -> bytes:
    """What a checkpoint says with changes: an offset only rises."""
    offsets = parse_offsets(content, path)
    for key, offset in changes.items():
        offsets[key] = max(offset, offsets.get(key, 0))
    return format_offsets(offsets)


def _problem(found: bytes, path: str) -> str:
    try:
        parse_offsets(found, path)
    except StorageError as error:
        return str(error)
    return ""


def _copy(file_system: FileSystem, content: bytes, copy_path: str, *, is_empty: bool) -> OSError | None:
    """Replace a copy, or remove it and return why: no copy may contradict the file. OSError: one does.

    A checkpoint that `is_empty` gets no first copy.
    """
    if is_empty and not file_system.exists(copy_path):
        return None
    try:
        sealed = seal(content)
        file_system.write_atomically(copy_path, with_room(sealed) if copy_path.endswith(_WITH_ROOM) else sealed)
    except OSError as error:
        file_system.unlink(copy_path, missing_ok=True)
        return error
    return None
