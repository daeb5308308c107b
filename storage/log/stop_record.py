"""Record of each log's files at a clean stop, from which the next start notices files of closed segments that are gone.

    tidelog-last-stop     tidelog 1 93ab41c7                                CRC-32C of what follows
                          {"version":1,"logs":[
                            ["orders",0,[0,4096,9000],{"4096":2846194}]]}   topic, partition, base offsets of the segments,
                                                                            CRC-32C of each transaction index

One file in each data directory, written before the mark of the stop and believed together with it alone: the mark says that
nobody has changed anything since (`CleanShutdownFile.is_ours`). It is removed before the first log is loaded. Design:
docs/adr/0051-damage.md.

Blocks; one thread. OSError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...protocol.records._kernel import crc32c
from ..index.transaction_index import MOST_BYTES
from ..io.checkpoint import TopicPartition
from ..io.checkpoint_copy import read_sealed, seal
from ..io.filesystem import FileSystem
from ..segment.names import TRANSACTION_INDEX_SUFFIX, parse_file_name

STOP_FILE = "tidelog-last-stop"
_VERSION = 1


class LogFiles(NamedTuple):
    """Files of one log at a clean stop.

    Attributes:
        bases: base offsets of the segments that have records, and of the last one, in order.
        transaction_indexes: checksum of each transaction index, by base offset.
    """

    bases: tuple[int, ...]
    transaction_indexes: Mapping[int, int]


def files_of(file_system: FileSystem, directory: str, bases: Iterable[int]) -> LogFiles:
    """The `LogFiles` of a closed log with segments at `bases`."""
    known = tuple(bases)
    names = [name for name in file_system.list_directory(directory) if name.endswith(TRANSACTION_INDEX_SUFFIX)]
    indexes = sorted(parsed.base_offset for name in names if (parsed := parse_file_name(name)) is not None)
    checksums = {base: index_checksum(file_system, directory, base) for base in indexes if base in known}
    return LogFiles(known, {base: checksum for base, checksum in checksums.items() if checksum is not None})


def index_checksum(file_system: FileSystem, directory: str, base_offset: int) -> int | None:
    """Checksum of a segment's transaction index; None if it is missing or empty, which means the same."""
    try:
        data = file_system.read_bytes(f"{directory}/{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}", limit=MOST_BYTES)
    except FileNotFoundError:
        return None
    return crc32c(data) if data else None


def write_stop_record(file_system: FileSystem, directory: str, logs: Mapping[TopicPartition, LogFiles]) -> None:
    """Replace the record of a data directory, durably. OSError: the directory has no record then."""
    content = {
        "version": _VERSION,
        "logs": [
            [*key, list(files.bases), {str(base): checksum for base, checksum in files.transaction_indexes.items()}]
            for key, files in logs.items()
        ],
    }
    path = f"{directory}/{STOP_FILE}"
    try:
        file_system.write_atomically(path, seal(json.dumps(content, separators=(",", ":")).encode()))
    except OSError:
        file_system.unlink(path, missing_ok=True)
        raise


def read_stop_record(file_system: FileSystem, directory: str) -> dict[TopicPartition, LogFiles]:
    """Read the record; empty if it is missing, damaged or of another version."""
    content = read_sealed(file_system, f"{directory}/{STOP_FILE}")
    if content is None:
        return {}
    parsed = json.loads(content)  # the checksum says that it was written here
    if parsed["version"] != _VERSION:
        return {}
    return {
        (topic, partition): LogFiles(tuple(bases), {int(base): checksum for base, checksum in indexes.items()})
        for topic, partition, bases, indexes in parsed["logs"]
    }
