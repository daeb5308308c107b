"""The offset checkpoints in the root of a data directory, and the mark of a clean stop.

    recovery-point-offset-checkpoint   flushed up to here: recovery after a crash starts there
    log-start-offset-checkpoint        where a log starts when not at its first segment (DeleteRecords)
    replication-offset-checkpoint      high watermarks
    cleaner-offset-checkpoint          cleaned up to here

They are Apache Kafka's, text in UTF-8, every line ended by a newline:

    0                      version
    2                      how many lines follow
    orders 0 42            topic, partition, offset
    orders 1 0

Each is replaced atomically, so a damaged one is another's doing. An empty file says the same as none (Kafka makes
them so); anything else that is not whole is a CorruptCheckpointError, and the caller goes on as if the file were
empty: a missing recovery point means that more is recovered, a missing log start that the log starts at its first
segment, a missing high watermark that it is found again, a missing cleaner offset that more is cleaned.

`.kafka_cleanshutdown` is there after a clean stop, {"version":0,"brokerEpoch":12} in Kafka 4 and empty before; that
it is there is what counts. It is removed durably *before* logs are loaded, so that a crash while loading is seen
(KAFKA-10471).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

from ..exceptions import CorruptCheckpointError, StorageError
from .filesystem import FileSystem, StrPath

TopicPartition: TypeAlias = tuple[str, int]

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"

_VERSION = 0
_NUMBER = re.compile(r"[0-9]{1,19}")
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


def read_lines(file_system: FileSystem, path: StrPath) -> list[str]:
    """Read the entry lines of a Kafka text checkpoint (version, count, lines); none for a missing or empty file.

    CorruptCheckpointError for an unknown version, a wrong count, a last line that is cut off, or bytes that are no
    text.
    """
    try:
        return parse_lines(file_system.read_bytes(path), path)
    except FileNotFoundError:
        return []
    except CorruptCheckpointError:
        raise
    except StorageError as error:  # larger than any checkpoint
        raise CorruptCheckpointError(str(error)) from None


def parse_lines(data: bytes, path: StrPath) -> list[str]:
    """Parse a file's content, as `read_lines` does."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(f"{path}: not a text file: {error}") from None
    if not text:
        return []
    if not text.endswith("\n"):
        raise CorruptCheckpointError(f"{path}: the last line is cut off")
    version, *rest = text[:-1].split("\n")
    if version != str(_VERSION):
        raise CorruptCheckpointError(f"{path}: version {version[:20]!r} is unknown")
    if not rest or not _NUMBER.fullmatch(rest[0]):
        raise CorruptCheckpointError(f"{path}: no count in the second line")
    lines = rest[1:]
    if len(lines) != int(rest[0]):
        raise CorruptCheckpointError(f"{path}: {rest[0]} entries were announced, {len(lines)} are there")
    return lines


def format_lines(lines: list[str]) -> bytes:
    """Contents of a file for `read_lines`."""
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines)).encode()


def parse_number(text: str, limit: int, path: StrPath, line: str) -> int:
    """Parse a decimal number from 0 to `limit`, else CorruptCheckpointError."""
    if not _NUMBER.fullmatch(text) or int(text) > limit:
        raise CorruptCheckpointError(f"{path}: {line[:200]!r} has no valid number where {text[:30]!r} stands")
    return int(text)


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Contents of an offset checkpoint."""
    return format_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def parse_offsets(data: bytes, path: StrPath) -> dict[TopicPartition, int]:
    """Parse an offset checkpoint; CorruptCheckpointError when it is damaged. `path` is for the message."""
    return offsets_of_lines(parse_lines(data, path), path)


def offsets_of_lines(lines: list[str], path: StrPath) -> dict[TopicPartition, int]:
    """Parse lines of `topic partition offset`; CorruptCheckpointError when one is not. `path` is for the message."""
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        fields = line.split(" ")
        if len(fields) != 3 or not fields[0]:
            raise CorruptCheckpointError(f"{path}: {line[:200]!r} is not `topic partition offset`")
        partition = parse_number(fields[1], _MAX_INT32, path, line)
        offsets[fields[0], partition] = parse_number(fields[2], _MAX_INT64, path, line)
    return offsets


class OffsetCheckpointFile:
    """One of the four checkpoint files. Any thread; the caller keeps two writes from overlapping."""

    __slots__ = ("_file_system", "path")

    def __init__(self, file_system: FileSystem, path: StrPath) -> None:
        self._file_system = file_system
        self.path = str(path)

    def read(self) -> dict[TopicPartition, int]:
        """Offsets by topic and partition; empty without a file. CorruptCheckpointError when it is damaged."""
        return offsets_of_lines(read_lines(self._file_system, self.path), self.path)

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file, durably. Blocks."""
        self._file_system.write_atomically(self.path, format_offsets(offsets))


def _mark(broker_epoch: int) -> bytes:
    return json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


_OURS = _mark(-1) + b"\n"  # Kafka's epoch for "none": it counts registrations with a controller


class CleanShutdownFile:
    """Mark of a clean stop in a data directory. Blocks; not thread-safe."""

    __slots__ = ("_directory", "_file_system", "path")

    def __init__(self, file_system: FileSystem, directory: StrPath) -> None:
        self._file_system = file_system
        self._directory = str(directory)
        self.path = f"{self._directory}/{CLEAN_SHUTDOWN_FILE}"

    def exists(self) -> bool:
        """True if the last stop was clean."""
        return self._file_system.exists(self.path)

    def read(self) -> int | None:
        """The broker epoch in the mark; None if it has none or there is no mark. Any content is accepted."""
        try:
            content = json.loads(self._file_system.read_bytes(self.path))
        except (FileNotFoundError, StorageError, ValueError, RecursionError):
            return None
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) and epoch >= 0 else None

    def write(self, broker_epoch: int) -> None:
        """Write the mark: all logs are closed and flushed."""
        self._file_system.write_atomically(self.path, _mark(broker_epoch))

    def write_ours(self) -> None:
        """Write the mark in the form that `is_ours` recognizes."""
        self._file_system.write_atomically(self.path, _OURS)

    def is_ours(self) -> bool:
        """True if the last stop was clean and this program's: Apache Kafka ends the file without a newline."""
        try:
            return self._file_system.read_bytes(self.path) == _OURS
        except (FileNotFoundError, StorageError):
            return False

    def delete(self) -> None:
        """Remove the mark durably: not even a power cut can bring it back."""
        if self.exists():
            self._file_system.unlink(self.path)
            self._file_system.sync_directory(self._directory)
