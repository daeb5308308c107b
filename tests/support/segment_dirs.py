"""Partition directories on a real disk, made byte by byte from batches: what readers of files are tested against."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tidelog.protocol.records.memory_records import iterate_batches, read_header
from tidelog.storage.index.offset_index import OffsetIndex
from tidelog.storage.io.checkpoint import format_lines
from tidelog.storage.segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, file_name


def write_segment(directory: Path, base_offset: int, batches: Sequence[bytes], *, index_interval: int = 200) -> None:
    """A segment and its sparse index, as the daemon's cleaner writes them: whole, then renamed into place."""
    data, entries, since, position = b"".join(batches), b"", 0, 0
    for header in iterate_batches(data):
        if since > index_interval:
            entries += OffsetIndex.ENTRY.pack(header.last_offset - base_offset, header.position)
            since = 0
        since += header.size
        position = header.position + header.size
    assert position == len(data)
    directory.mkdir(parents=True, exist_ok=True)
    for suffix, content in ((OFFSET_INDEX_SUFFIX, entries), (LOG_SUFFIX, data)):
        path = directory / file_name(base_offset, suffix)
        path.with_name("new").write_bytes(content)
        os.replace(path.with_name("new"), path)


def write_log(directory: Path, segments: Sequence[Sequence[bytes]], *, index_interval: int = 200) -> None:
    """Each segment is named by its first batch's base offset; a wrapper's is not known, so the first says where it begins."""
    end = 0
    for batches in segments:
        first = read_header(batches[0])
        write_segment(directory, end if first.magic < 2 else first.base_offset, batches, index_interval=index_interval)
        end = max(header.last_offset for header in iterate_batches(batches[-1])) + 1  # plain messages are several


def write_segment_into(old: Path, base_offset: int, batches: Sequence[bytes]) -> None:
    """A segment whose file has the inode of `old`, which is gone: file systems give an inode that is free to the next file."""
    directory = old.parent
    old.rename(directory / "free")
    write_segment(directory, base_offset, batches)
    path = directory / file_name(base_offset, LOG_SUFFIX)
    (directory / "free").write_bytes(path.read_bytes())
    os.replace(directory / "free", path)


def write_checkpoint(path: Path, offsets: dict[tuple[str, int], int]) -> None:
    path.write_bytes(format_lines([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]))
