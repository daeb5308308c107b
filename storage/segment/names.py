"""File and directory names of a log: formatting and parsing. Pure; no file system.

    <log.dir>/orders-0/                                a partition: topic, dash, partition number
    <log.dir>/orders-0.8a6f…-delete/                   deleted, waiting for file.delete.delay.ms
    <log.dir>/orders-0.8a6f…-future/                   being copied here from another data directory
    <log.dir>/orders-0/00000000000000114514.log        batches; the name is the base offset in 20 digits
                                           .index      offset index
                                           .timeindex  time index
                                           .txnindex   aborted transactions
                                           .snapshot   producer state *before* that offset
                       00000000000000114514.81920.114600-114609.damaged
                                           bytes that recovery has put aside: they stood at 81920 of that segment, where
                                           offsets 114600 to 114609 were
    A second suffix tells a file's stage: `.cleaned` (being written by the cleaner), `.swap` (complete, replaces the
    originals), `.deleted` (waits for removal).

20 digits so that names sort as offsets do (2^63 has 19).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DAMAGED_SUFFIX = ".damaged"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

CLEANED_STAGE = ".cleaned"
SWAP_STAGE = ".swap"
DELETED_STAGE = ".deleted"

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Topic of Apache Kafka's Raft log; its directory lies among ours when a Kafka directory is opened."""

MAX_TOPIC_LENGTH = 249
_MAX_DIRECTORY_NAME = 255
_MAX_OFFSET = 2**63 - 1
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.cleaned|\.swap|\.deleted)?")
_DAMAGED = re.compile(r"(\d{20})\.(\d{1,19})\.(\d{1,19})-(\d{1,19})\.damaged")
_DIRECTORY = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_MARKED = re.compile(r"(?P<name>.+)\.(?P<unique>[0-9a-z]{8,32})-(?P<mark>delete|future|stray)")


class LogFileName(NamedTuple):
    """Parsed name of a file in a partition directory. `stage` is empty for a file in use."""

    base_offset: int
    suffix: str
    stage: str


class Hole(NamedTuple):
    """Offsets that a log has lost to damage, as in the name of the file that keeps the damaged bytes."""

    base_offset: int
    """Base offset of the segment."""
    position: int
    """Position of the bytes in its log file."""
    first_offset: int
    last_offset: int

    @property
    def name(self) -> str:
        """Name of the hole's file."""
        return f"{self.base_offset:020d}.{self.position}.{self.first_offset}-{self.last_offset}.damaged"


def parse_hole(name: str) -> Hole | None:
    """Parse the name of a `.damaged` file; None for any other name."""
    match = _DAMAGED.fullmatch(name)
    hole = Hole(*map(int, match.groups())) if match else None
    return hole if hole is not None and hole.name == name and hole.first_offset <= hole.last_offset else None


class DirectoryState(Enum):
    """State of a partition directory, as its name says."""

    LIVE = "live"
    DELETED = "delete"
    FUTURE = "future"
    STRAY = "stray"


class DirectoryName(NamedTuple):
    """Parsed name of a partition directory; `unique` is empty for a live one."""

    topic: str
    partition: int
    state: DirectoryState
    unique: str = ""


def file_name(base_offset: int, suffix: str, stage: str = "") -> str:
    """Name of a segment's file: `file_name(42, ".log")` is `00000000000000000042.log`."""
    return f"{base_offset:020d}{suffix}{stage}"


def parse_file_name(name: str) -> LogFileName | None:
    """Parse the name of a segment's file; None for any other (checkpoints, metadata, foreign files)."""
    match = _FILE.fullmatch(name)
    if match is None or (base_offset := int(match[1])) > _MAX_OFFSET:
        return None
    return LogFileName(base_offset, match[2], match[3] or "")


def is_valid_topic(name: str) -> bool:
    """True if Kafka allows the topic name; such a name is also safe as part of a path."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def partition_directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def deleted_directory_name(topic: str, partition: int, unique: str) -> str:
    """`topic-partition.unique-delete`, with the topic cut if the name would exceed the file system's 255 bytes."""
    suffix = f"-{partition}.{unique}-delete"
    return topic[: _MAX_DIRECTORY_NAME - len(suffix)] + suffix


def future_directory_name(topic: str, partition: int, unique: str) -> str | None:
    """`topic-partition.unique-future`; None if that is too long for the file system, since a cut topic would be
    another.
    """
    name = f"{partition_directory_name(topic, partition)}.{unique}-future"
    return name if len(name) <= _MAX_DIRECTORY_NAME else None


def parse_directory_name(name: str) -> DirectoryName | None:
    """Parse the name of a partition's directory; None for any other, which is left alone."""
    state, unique = DirectoryState.LIVE, ""
    if marked := _MARKED.fullmatch(name):
        name, state, unique = marked["name"], DirectoryState(marked["mark"]), marked["unique"]
    match = _DIRECTORY.fullmatch(name)
    if match is None or not is_valid_topic(match["topic"]):
        return None
    partition = int(match["partition"])
    if partition > 0x7FFFFFFF or str(partition) != match["partition"]:  # "orders-00" would be a second orders-0
        return None
    return DirectoryName(match["topic"], partition, state, unique)
