"""LogMove: moves one log to another data directory (docs/adr/0032-moving-logs.md has the reasons).

    begin     `topic-partition.<unique>-future` is made there, empty
    copy      round after round: closed segments once, the active one as far as it goes; what retention took goes
    commit    nothing is appended: the rest is copied and synced; the old directory is renamed to `….<unique>-delete`, which is
              the change; the new one gets the partition's name; the log looks there from now on
    discard   instead of commit: the copy is renamed to `-delete` and removed

The unit is the file: a segment's bytes, its indexes and its snapshot are the same there, and so are their times of modification,
which retention goes by where records have none.

A start continues the moves that the last stop interrupted (`plan_moves`, from the names of directories alone):

    the partition, and its future copy          go on with the one, make the other again
    no partition, a future copy, and a          the change-over had begun: the copy is the log
    `-delete` of the same unique part
    a future copy alone                         left alone: the partition may lie on a disk that is missing today
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import KafkaStorageError, MoveCancelledError
from ..io.checkpoint import TopicPartition
from ..segment.names import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    DirectoryState,
    deleted_directory_name,
    file_name,
    parse_file_name,
    parse_hole,
    partition_directory_name,
)
from .data_directory import PartitionDirectory

if TYPE_CHECKING:
    from ..io.filesystem import File, FileSystem
    from ..log.unified_log import UnifiedLog
    from ..segment.log_segment import LogSegment
    from .upkeep import LogUpkeep


logger = logging.getLogger(__name__)

CLOSE_ENOUGH_BYTES = 1 << 20
"""Lag below which the rest is copied while appends wait."""
_CHUNK_BYTES = 1 << 20
_TEMPORARY_SUFFIX = ".tmp"

Pay = Callable[[int], None]
"""Called with the number of bytes copied; waits as the throttle requires. Raises to end the move."""


class MoveState(Enum):
    """Progress of a move. COPYING → COMMITTING → DONE, or COPYING → CANCELLED; COMMITTING → FAILED on a disk error."""

    COPYING = "copying"
    COMMITTING = "committing"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class LogMove:
    """One move, run by one thread, which blocks; `cancel` and the attributes are for any thread.

    Attributes:
        log: what is moved.
        source, target: the directories' upkeep.
        path: the future directory.
        copied_bytes: of `.log` files there.
        next_offset: all below is there, as far as is told.
        is_half_way: the change-over has begun and could not be ended: a start does, so the copy must stay.
    """

    def __init__(
        self, log: UnifiedLog, source: LogUpkeep, target: LogUpkeep, path: str, unique: str, file_system: FileSystem
    ) -> None:
        self.log = log
        self.source = source
        self.target = target
        self.path = path
        self.unique = unique
        self.next_offset = log.log_start_offset
        self.copied_bytes = 0
        self.is_half_way = False
        self._fs = file_system
        self._lock = threading.Lock()  # over `state`, and held while the change-over is under way
        self.state = MoveState.COPYING
        # By base offset: bytes of the log file that are there; those whose other files are there too.
        self._copied: dict[int, int] = {}
        self._complete: set[int] = set()

    @property
    def offset_lag(self) -> int:
        """Number of offsets by which the copy is behind the log."""
        return max(0, self.log.log_end_offset - self.next_offset)

    @property
    def is_done(self) -> bool:
        """True once the log lies in the new directory."""
        return self.state is MoveState.DONE

    def cancel(self) -> bool:
        """Ask the move to end. False: the change-over is done. Waits for a change-over under way."""
        with self._lock:
            if self.state is MoveState.COPYING:
                self.state = MoveState.CANCELLED
            return self.state is not MoveState.DONE

    def check(self) -> None:
        """Raise MoveCancelledError if the move was cancelled, or the log takes no changes any more."""
        if self.state is MoveState.CANCELLED or self.log.failure is not None:
            raise MoveCancelledError(f"{self.log.name}: the move to {self.target.directory.path} was cancelled")

    # --- copy ---

    def begin(self) -> None:
        """Create the directory, after removing what an earlier try left there. OSError."""
        self._fs.remove_tree(self.path)
        self.target.directory.forget((self.log.topic, self.log.partition))
        self._fs.make_directory(self.path)
        self._fs.sync_directory(self.target.directory.path)

    def copy(self, pay: Pay) -> int:
        """Copy one round; returns the bytes that were appended meanwhile. OSError, KafkaStorageError; what `pay`
        raises.
        """
        self._remove_gone()
        view = self.log.segments
        for index, segment in enumerate(view):
            is_closed = index + 1 < len(view)
            end_offset = (
                view[index + 1].base_offset if is_closed else self.log.log_end_offset
            )  # before its size is read
            try:
                self._copy_segment(segment, pay, is_closed=is_closed)
            except FileNotFoundError:
                if any(segment is live for live in self.log.segments):
                    raise
                continue  # retention took it
            self.next_offset = max(self.next_offset, end_offset)
        for hole in self.log.holes:  # of any size, and never written to: now, while appends go on
            if not self._is_there(hole.name):
                self._copy_file(hole.name, pay)
        return self._missing()

    def _missing(self) -> int:
        return sum(segment.size - self._copied.get(segment.base_offset, 0) for segment in self.log.segments)

    def _remove_gone(self) -> None:
        live = {segment.base_offset for segment in self.log.segments}
        for base_offset in self._copied.keys() - live:
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
                self._fs.unlink(f"{self.path}/{file_name(base_offset, suffix)}", missing_ok=True)
            self.copied_bytes -= self._copied.pop(base_offset)
            self._complete.discard(base_offset)

    def _copy_segment(self, segment: LogSegment, pay: Pay, *, is_closed: bool) -> None:
        base_offset = segment.base_offset
        if base_offset in self._complete:
            return
        is_whole = segment.indexes_synced  # else what a full disk had no room for is to be written there yet
        self._copy_log(segment, pay)
        if is_closed:
            for suffix in (*SEGMENT_SUFFIXES[1:], SNAPSHOT_SUFFIX):
                self._copy_file(file_name(base_offset, suffix))
            self._keep_time(file_name(base_offset, LOG_SUFFIX))
            if is_whole:
                self._complete.add(base_offset)

    def _copy_log(self, segment: LogSegment, pay: Pay) -> None:
        base_offset = segment.base_offset
        done, size = self._copied.get(base_offset, 0), segment.size
        if done == size and base_offset in self._copied:
            return
        source = segment.lease_file()
        try:
            target = self._fs.open(f"{self.path}/{file_name(base_offset, LOG_SUFFIX)}", create=True)
            try:
                for data in _copied_chunks(source, target, done, size):
                    done += len(data)
                    self.copied_bytes += len(data)
                    self._copied[base_offset] = done
                    pay(len(data))
                self._copied[base_offset] = done
                target.sync()
            finally:
                target.close()
        finally:
            source.release()

    def _copy_file(self, name: str, pay: Pay = lambda _bytes: None) -> None:
        """Copy a file in chunks, durable but for its name; does nothing if it is missing."""
        try:
            source = self._fs.open(f"{self.log.directory}/{name}", writable=False)
        except FileNotFoundError:
            return
        try:
            target = self._fs.open(f"{self.path}/{name}", create=True)
            try:
                for data in _copied_chunks(source, target, 0, source.size()):
                    pay(len(data))
                target.sync()
            finally:
                target.close()
        finally:
            source.close()
        self._keep_time(name)

    def _is_there(self, name: str) -> bool:
        """True if a file that is written once was copied completely: the copy gets its modification time last."""
        there, here = f"{self.path}/{name}", f"{self.log.directory}/{name}"
        try:
            one, other = self._fs.stat(there), self._fs.stat(here)
        except FileNotFoundError:
            return False
        return (one.size, one.modified_ms) == (other.size, other.modified_ms)

    def _keep_time(self, name: str) -> None:
        self._fs.set_modified_ms(f"{self.path}/{name}", self._fs.stat(f"{self.log.directory}/{name}").modified_ms)

    # --- end ---

    def commit(self) -> None:
        """Change over to the new directory. `MoveCancelledError`, OSError, StorageError: the log is where it was,
        unless it has failed.
        """
        log, key = self.log, (self.log.topic, self.log.partition)
        with self._lock:
            self.check()
            self.state = MoveState.COMMITTING
            try:
                # Lower than the truth is well, so it may be written before the log stands still.
                self.target.arriving[key] = log
                if not (self.target.checkpoint_recovery_points() and self.target.checkpoint_log_start_offsets()):
                    raise KafkaStorageError(f"{log.name}: {self.target.directory.path} takes no checkpoints")
                with log.local.standing_still():
                    self._finish_copy()
                    self._change_over()
                self.state = MoveState.DONE
            finally:
                if self.state is not MoveState.DONE:
                    self.state = MoveState.FAILED
                    if not self.is_half_way:  # else a start finds the log there, and goes by these checkpoints
                        self.target.arriving.pop(key, None)

    def _finish_copy(self) -> None:
        log = self.log
        log.seal()
        self._remove_gone()
        for segment in log.segments:
            self._copy_segment(segment, lambda _bytes: None, is_closed=True)
        wanted = set()
        for name in self._fs.list_directory(log.directory):
            parsed = parse_file_name(name)
            if parsed is not None and (parsed.stage or parsed.suffix in SEGMENT_SUFFIXES):
                continue  # copied by now, or on its way out
            if name.endswith(_TEMPORARY_SUFFIX):
                continue
            wanted.add(name)
            if not (parse_hole(name) is not None and self._is_there(name)):
                self._copy_file(name)
        for name in self._fs.list_directory(self.path):
            parsed = parse_file_name(name)
            is_gone = parse_hole(name) is not None or (parsed is not None and parsed.suffix == SNAPSHOT_SUFFIX)
            if is_gone and name not in wanted:
                self._fs.unlink(f"{self.path}/{name}")
        self._fs.sync_directory(self.path)

    def _change_over(self) -> None:
        log, fs = self.log, self._fs
        old, new = self.source.directory.path, self.target.directory.path
        left = f"{old}/{deleted_directory_name(log.topic, log.partition, self.unique)}"
        place = f"{new}/{partition_directory_name(log.topic, log.partition)}"
        fs.rename(log.directory, left)
        self.is_half_way = True
        try:
            fs.sync_directory(old)
            fs.rename(self.path, place)
            fs.sync_directory(new)
        except OSError as error:
            failure = KafkaStorageError(
                f"{log.name}: its move to {new} stopped half way; a start completes it: {error}"
            )
            log.local.failure = failure
            raise failure from error
        self.is_half_way = False
        log.moved_to(self.target.place(place))
        self.source.scheduler.schedule("delete-log", lambda: fs.remove_tree(left), log.config.file_delete_delay_ms)

    def discard(self, unique: str) -> None:
        """Remove the copy. It is first renamed to a deleted directory: under its present name a start could take it for
        the log. OSError.
        """
        left = f"{self.target.directory.path}/{deleted_directory_name(self.log.topic, self.log.partition, unique)}"
        try:
            self._fs.rename(self.path, left)
        except FileNotFoundError:
            return
        self._fs.sync_directory(self.target.directory.path)
        self._fs.remove_tree(left)


def _copied_chunks(source: File, target: File, start: int, size: int) -> Iterator[bytes]:
    """Cut `target` at `start`, append `source` from there up to `size`, and yield each chunk once it was written."""
    target.truncate(start)
    position = start
    while position < size:
        data = source.pread(min(_CHUNK_BYTES, size - position), position)
        if not data:
            raise KafkaStorageError(f"{source.path} ends at {position}, before {size}")
        target.append(data)
        position += len(data)
        yield data


class MovePlan(NamedTuple):
    """Future directories, by what a start does with them. Of several for one partition the first counts."""

    promoted: Sequence[PartitionDirectory]
    resumed: Sequence[PartitionDirectory]
    superfluous: Sequence[PartitionDirectory]
    """Further copies of a partition that already has one."""
    unknown: Sequence[PartitionDirectory]


def key_of(entry: PartitionDirectory) -> TopicPartition:
    """Topic and partition of a directory."""
    return entry.name.topic, entry.name.partition


def plan_moves(found: Iterable[PartitionDirectory]) -> MovePlan:
    """Sort the partition directories `found` in all data directories."""
    entries = list(found)
    live = {key_of(entry) for entry in entries if entry.name.state is DirectoryState.LIVE}
    # The topic's name may be cut in a deleted directory's: the unique part and the number tell.
    left = {(e.name.partition, e.name.unique) for e in entries if e.name.state is DirectoryState.DELETED}
    futures = [entry for entry in entries if entry.name.state is DirectoryState.FUTURE]
    promoted: dict[TopicPartition, PartitionDirectory] = {}
    for entry in futures:
        if key_of(entry) not in live and (entry.name.partition, entry.name.unique) in left:
            promoted.setdefault(key_of(entry), entry)
    resumed: dict[TopicPartition, PartitionDirectory] = {}
    superfluous, unknown = [], []
    for entry in futures:
        key = key_of(entry)
        if promoted.get(key) is entry:
            continue
        if key in promoted or key in resumed:
            superfluous.append(entry)
        elif key in live:
            resumed[key] = entry
        else:
            unknown.append(entry)
    return MovePlan(list(promoted.values()), list(resumed.values()), superfluous, unknown)
