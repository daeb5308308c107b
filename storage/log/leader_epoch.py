"""LeaderEpochCache: which leader epoch wrote which offsets of a log, and its file `leader-epoch-checkpoint`.

An entry (epoch, start offset) says: from that offset on, records are of that epoch, until the next entry. Both rise
strictly. The file is a Kafka text checkpoint (`checkpoint.py`) with a line `epoch start_offset` per entry.

The state is one immutable tuple behind one attribute: the log's writer replaces it, anyone reads it without a lock.
Changing it does no I/O; `flush` writes the file (pool). A crash in between costs nothing: recovery assigns epochs
again from the batches, and cuts entries that lie outside of the log.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ..exceptions import CorruptCheckpointError
from ..io.checkpoint import format_lines, parse_number, read_lines
from ..io.filesystem import FileSystem, StrPath

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

MAX_EPOCH = 2**31 - 1
_MAX_INT64 = 2**63 - 1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that it wrote, or would write."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """An epoch and the offset behind its last record; −1 and −1 when nothing is known."""

    epoch: int
    end_offset: int


_UNDEFINED = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class LeaderEpochCache:
    """One log's epochs; see the module for threads."""

    __slots__ = ("_entries", "_file_system", "_is_abandoned", "_lock", "_written", "path")

    def __init__(self, file_system: FileSystem, path: StrPath, entries: Iterable[EpochEntry] = ()) -> None:
        """Starts with `entries`, which count as not written yet. No I/O; `load` reads the file."""
        self._file_system = file_system
        self.path = str(path)
        self._entries: tuple[EpochEntry, ...] = ()
        self._written: tuple[EpochEntry, ...] | None = None  # None: the file is not known to hold anything
        self._lock = threading.Lock()  # over writing the file
        self._is_abandoned = False
        for entry in entries:
            self.assign(*entry)

    @classmethod
    def load(cls, file_system: FileSystem, path: StrPath) -> LeaderEpochCache:
        """Read the file; without one, an empty cache. Blocks.

        CorruptCheckpointError when it is damaged: start empty then, and let recovery assign the epochs of the batches.
        """
        entries = []
        before = EpochEntry(-1, -1)
        for line in read_lines(file_system, path):
            fields = line.split(" ")
            if len(fields) != 2:
                raise CorruptCheckpointError(f"{path}: {line[:200]!r} is not `epoch offset`")
            entry = EpochEntry(
                parse_number(fields[0], MAX_EPOCH, path, line), parse_number(fields[1], _MAX_INT64, path, line)
            )
            if entry.epoch <= before.epoch or entry.start_offset < before.start_offset:
                raise CorruptCheckpointError(f"{path}: {entry} does not rise above {before}")
            entries.append(entry)
            before = entry
        cache = cls(file_system, path, entries)
        if cache._entries == tuple(entries):
            cache._written = cache._entries
        return cache

    # --- reading, any thread ---

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, epochs and offsets rising: an immutable snapshot."""
        return self._entries

    @property
    def latest_epoch(self) -> int | None:
        """The epoch that appends are of now."""
        entries = self._entries
        return entries[-1].epoch if entries else None

    @property
    def next_epoch(self) -> int:
        """The epoch that a start stamps into new batches: one more than the latest, 0 in a log without any.

        No checksum covers a batch's epoch, so that damage can make it `MAX_EPOCH`, which none follows: it stays then.
        """
        latest = self.latest_epoch
        return 0 if latest is None else min(latest + 1, MAX_EPOCH)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch of the record at `offset`, None when it is before all entries."""
        entries = self._entries
        slot = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
        return entries[slot - 1].epoch if slot else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The greatest known epoch ≤ `epoch`, and where it ends: OffsetsForLeaderEpoch and truncation detection
        (KIP-320).

        The latest epoch ends at `log_end_offset`. An epoch before all known ones ends where the first known one
        starts. One above the latest is not known.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries:
            return _UNDEFINED
        if epoch == entries[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        following = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if following == len(entries):
            return _UNDEFINED
        found = entries[following - 1].epoch if following else epoch
        return EpochEndOffset(found, entries[following].start_offset)

    @property
    def is_dirty(self) -> bool:
        """True if `flush` has something to write."""
        return self._written is not self._entries

    # --- changing, the log's writer ---

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that records are of `epoch` from `start_offset` on. False when that is known already.

        Entries that contradict it (an epoch not below, or a start not below) go.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start_offset}: neither can be negative")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        kept = len(entries)
        while kept and (entries[kept - 1].epoch >= epoch or entries[kept - 1].start_offset >= start_offset):
            kept -= 1
        self._entries = (*entries[:kept], EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Removes entries that start at or behind the log's new end; says whether any did."""
        entries = self._entries
        kept = len(entries)
        while kept and entries[kept - 1].start_offset >= end_offset:
            kept -= 1
        if kept == len(entries):
            return False
        self._entries = entries[:kept]
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Removes entries that end before the log's new start; the one that spans it starts there now.

        Says whether any did.
        """
        entries = self._entries
        behind = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset)
        if not behind or (behind == 1 and entries[0].start_offset == start_offset):
            return False
        self._entries = (EpochEntry(entries[behind - 1].epoch, start_offset), *entries[behind:])
        return True

    def precede(self, found: Iterable[EpochEntry]) -> bool:
        """Puts `found`, rising, in front of the entries, which must not contradict it; says whether that changed any.

        For records that came back: a power cut can keep the epochs that a deletion had cut, and lose the deletion itself.
        """
        entries = self._entries
        front: list[EpochEntry] = []
        for entry in found:
            if entries and (entry.start_offset >= entries[0].start_offset or entry.epoch > entries[0].epoch):
                break
            if not front or entry.epoch > front[-1].epoch:
                front.append(entry)
        if not front:
            return False
        self._entries = (*front, *(entry for entry in entries if entry.epoch > front[-1].epoch))
        return True

    def clear(self) -> None:
        """Removes all entries from memory; the file has them until `flush`."""
        self._entries = ()

    # --- writing, any thread ---

    def flush(self) -> bool:
        """Writes the file, durably, if it is not what the cache says; says whether it did. Blocks."""
        with self._lock:
            entries = self._entries
            if self._written is entries or self._is_abandoned:
                return False
            self._file_system.write_atomically(
                self.path, format_lines([f"{e.epoch} {e.start_offset}" for e in entries])
            )
            self._written = entries
            return True

    def moved_to(self, path: StrPath) -> None:
        """Write to `path` from now on, where the file is as it is here. Any thread."""
        with self._lock:
            self.path = str(path)

    def abandon(self) -> None:
        """Never write again: the directory is about to be another's, who may make one of the same name. Any thread."""
        with self._lock:
            self._is_abandoned = True
