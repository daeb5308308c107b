"""Room behind the copy of a checkpoint, in which changes are written down with one sync.

A checkpoint and its copy are two files that are replaced: four syncs, each a commit of the file system's journal. Who deletes
records waits for the answer until the new start of the log is durable. So the copy of `log-start-offset-checkpoint` ends with
zeros, and changes overwrite them: blocks that are there already, of which a sync writes nothing but the data.

    tidelog 1 5f3c09aa         the copy, as `checkpoint_copy.py` writes it
    0
    1
    orders 0 42
    <zeros>                    to the next multiple of 512, one at least
    93ab41c7                   first sector of the room: CRC-32C of what follows
    orders 0 50                changes since: topic, partition, offset; the greatest offset of a partition counts
    <zeros>                    to the end of the sector; then sectors like it, or zeros

Each sector is written once, so that a write that is torn by a power cut takes nothing with it that was acknowledged before.
The next checkpoint replaces the whole file. Blocks; one thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.records._kernel import crc32c
from ..exceptions import CorruptCheckpointError
from .checkpoint import TopicPartition, offsets_of_lines

if TYPE_CHECKING:
    from .filesystem import FileSystem

SECTOR = 512
ROOM_BYTES = 32 * SECTOR
_CRC_BYTES = 9  # 8 digits and the end of the line


def with_room(sealed: bytes) -> bytes:
    """A sealed copy with an empty room behind it."""
    return sealed + bytes(SECTOR - len(sealed) % SECTOR + ROOM_BYTES)


def without_room(data: bytes) -> bytes:
    """The copy without the room, if there is one: a copy is text, and has no zeros."""
    return data.partition(b"\0")[0]


def _begin_of_room(data: bytes) -> int:
    """Position of the first sector of the room; behind the end of a file that has none."""
    size = len(without_room(data))
    return size + SECTOR - size % SECTOR


def changes_in(data: bytes, path: str) -> dict[TopicPartition, int]:
    """Changes that were written into the room of a copy; what was torn is left out, since nobody was told that it is there."""
    changes: dict[TopicPartition, int] = {}
    for start in range(_begin_of_room(data), len(data), SECTOR):
        sector = data[start : start + SECTOR].rstrip(b"\0")
        lines = sector[_CRC_BYTES:]
        if not lines or sector[:_CRC_BYTES] != _sum_of(lines):
            continue
        try:
            found = offsets_of_lines(lines.decode().splitlines(), path)
        except (UnicodeDecodeError, CorruptCheckpointError):
            continue
        for key, offset in found.items():
            changes[key] = max(offset, changes.get(key, 0))
    return changes


def _sum_of(lines: bytes) -> bytes:
    return b"%08x\n" % crc32c(lines)


class CheckpointRoom:
    """The room of a copy that is on the disk."""

    __slots__ = ("_at", "_end", "_file_system", "_path")

    def __init__(self, file_system: FileSystem, path: str, at: int, end: int) -> None:
        self._file_system = file_system
        self._path = path
        self._at = at
        self._end = end

    @classmethod
    def of(cls, file_system: FileSystem, path: str, data: bytes) -> CheckpointRoom | None:
        """The room of the copy `path`, whose content is `data`; None if it has none, or if something is in it already."""
        begin = _begin_of_room(data)
        if begin >= len(data) or data[begin:].strip(b"\0"):
            return None
        return cls(file_system, path, begin, len(data))

    def add(self, changes: Mapping[TopicPartition, int]) -> bool:
        """Write changes down, durably. False: there is no room for them, and nothing was written. OSError: they may be there
        or not, and the room must not be used any more."""
        sectors = _sectors(changes)
        if self._at + len(sectors) > self._end:
            return False
        file = self._file_system.open(self._path)
        try:
            file.overwrite(sectors, self._at)
            file.sync()
        finally:
            file.close()
        self._at += len(sectors)
        return True


def _sectors(changes: Mapping[TopicPartition, int]) -> bytes:
    """Changes as whole sectors."""
    sectors, lines = bytearray(), b""
    for (topic, partition), offset in changes.items():
        line = f"{topic} {partition} {offset}\n".encode()
        if _CRC_BYTES + len(lines) + len(line) > SECTOR:
            sectors += (_sum_of(lines) + lines).ljust(SECTOR, b"\0")
            lines = b""
        lines += line
    if lines:
        sectors += (_sum_of(lines) + lines).ljust(SECTOR, b"\0")
    return bytes(sectors)
