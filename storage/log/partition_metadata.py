"""`partition.metadata` in each partition directory: which topic it is of, by id (KIP-516).

    version: 0
    topic_id: WSaPqH3DTKKfkASHybcnlA

Kafka's ids are UUIDs, written as 22 characters of URL-safe base64 without padding. The file has no newline at its end.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from ..exceptions import CorruptCheckpointError, StorageError
from ..io.filesystem import FileSystem, StrPath

PARTITION_METADATA_FILE = "partition.metadata"

ZERO_UUID = UUID(int=0)

_CURRENT_VERSION = 0
_CONTENT = re.compile(r"version:\s+([0-9]{1,5})\r?\ntopic_id:\s+(\S+)\s*")
_ENCODED = re.compile(r"[A-Za-z0-9_-]{22}")


def encode_uuid(value: UUID) -> str:
    """Kafka's spelling of a UUID."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


@lru_cache(256)  # all partitions of a topic say the same
def decode_uuid(text: str) -> UUID:
    """The UUID of Kafka's spelling; ValueError for anything else."""
    if not _ENCODED.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a UUID in 22 characters of base64")
    value = UUID(bytes=urlsafe_b64decode(text + "=="))
    if encode_uuid(value) != text:  # 22 characters hold 132 bits; the last four must be 0
        raise ValueError(f"{text!r} is not a UUID in base64")
    return value


class PartitionMetadata(NamedTuple):
    """Content of a `partition.metadata`."""

    topic_id: UUID
    version: int = _CURRENT_VERSION


def read_partition_metadata(file_system: FileSystem, directory: StrPath) -> PartitionMetadata | None:
    """Read the directory's file; None if there is none. Blocks.

    CorruptCheckpointError when it is damaged; the topic's id is in the metadata store too, and the file is written
    anew from there.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        text = file_system.read_bytes(path, limit=1 << 16).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise CorruptCheckpointError(f"{path}: not a text file") from None
    except StorageError as error:  # larger than the file can be
        raise CorruptCheckpointError(str(error)) from None
    match = _CONTENT.fullmatch(text)
    if match is None:
        raise CorruptCheckpointError(f"{path}: not `version: N` and `topic_id: ID` on two lines")
    try:
        topic_id = decode_uuid(match[2])
    except ValueError as error:
        raise CorruptCheckpointError(f"{path}: {error}") from None
    if topic_id == ZERO_UUID:
        raise CorruptCheckpointError(f"{path}: the topic id is zero")
    return PartitionMetadata(topic_id, int(match[1]))


def write_partition_metadata(file_system: FileSystem, directory: StrPath, topic_id: UUID) -> None:
    """Writes the directory's file, durably. Blocks."""
    content = f"version: {_CURRENT_VERSION}\ntopic_id: {encode_uuid(topic_id)}"
    file_system.write_atomically(f"{directory}/{PARTITION_METADATA_FILE}", content.encode())
