"""DataDirectory: one of `log.dirs`: its lock, its identity, its checkpoints and its partitions.

    .lock                              held as long as the daemon runs
    meta.properties                    cluster, node and directory ids
    .kafka_cleanshutdown               there only between a clean stop and the next start
    *-checkpoint                       the four offset checkpoints, there from the first start on
    tidelog-*-checkpoint               copies of three of them, with a checksum
    tidelog-last-stop                  which segments a clean stop has left
    tidelog-restore                    there while a restore into the directory is not complete: a daemon refuses it then
    tidelog-scrub                      how far the scrubber is, and what it has found
    <topic>-<partition>/               a log
    <topic>-<partition>.<id>-delete/   a deleted one, removed after file.delete.delay.ms or at the next start

Foreign files are left alone and named in one line.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import CorruptCheckpointError, DataDirectoryError
from ..io.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CleanShutdownFile,
    OffsetCheckpointFile,
    TopicPartition,
)
from ..io.checkpoint_copy import COPIED_CHECKPOINTS, COPY_PREFIX, mend_checkpoint, room_of, write_checkpoint
from ..io.filesystem import has_no_room
from ..log.stop_record import STOP_FILE, LogFiles, read_stop_record, write_stop_record
from ..segment.hole import HOLE, KAFKA
from ..segment.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryName,
    DirectoryState,
    parse_directory_name,
)
from .lost_segments import note_lost_segments
from .meta_properties import META_PROPERTIES_FILE, MetaProperties, ensure_meta_properties, read_meta_properties

if TYPE_CHECKING:
    from uuid import UUID

    from ..io.checkpoint_room import CheckpointRoom
    from ..io.filesystem import FileLock, FileSystem

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
SCRUB_FILE = "tidelog-scrub"
RESTORE_FILE = "tidelog-restore"
CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)
_COPIES = tuple(f"{COPY_PREFIX}{name}" for name in COPIED_CHECKPOINTS)
_OWN_FILES = frozenset((*CHECKPOINTS, *_COPIES, STOP_FILE, SCRUB_FILE, RESTORE_FILE, META_PROPERTIES_FILE))


def start_failed(path: str, error: OSError, problem: str, remedy: str) -> DataDirectoryError:
    """Error for a disk operation that failed during a start, with a remedy; a full disk has its own text."""
    if has_no_room(error):
        return DataDirectoryError(
            path,
            f"there is no room for what a start has to write ({error.strerror or error})",
            "make room and start again",
        )
    return DataDirectoryError(path, f"{problem} ({error.strerror or error})", remedy)


class PartitionDirectory(NamedTuple):
    """A partition's directory as found."""

    path: str
    name: DirectoryName


class DataDirectory:
    """One data directory, locked by `open` until `close`. Blocks; any thread, one at a time except for `checkpoint`."""

    def __init__(self, path: str, file_system: FileSystem) -> None:
        self.path = path.rstrip("/") or "/"
        self._fs = file_system
        self._lock: FileLock | None = None
        self._checkpoint_locks = {name: threading.Lock() for name in CHECKPOINTS}
        self._room: CheckpointRoom | None = None  # behind the copy of log starts
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        # Names of checkpoints that are to be written even if `_written` would not change: starts are noted in the room only, or
        # an attempt has failed and left nobody knows which of the files.
        self._due: set[str] = set()
        self._takes_checkpoints = True
        self._clean_mark = CleanShutdownFile(file_system, self.path)
        self.had_clean_shutdown = False
        self.last_stop: Mapping[TopicPartition, LogFiles] = {}

    def open(self) -> MetaProperties | None:
        """Create the directory if missing, lock it, and read its identity (None: not set yet). DataDirectoryError: one
        clear line.
        """
        try:
            self._make()
            self._takes_checkpoints = True
            self._lock = self._fs.lock(f"{self.path}/{LOCK_FILE}")
            return read_meta_properties(self._fs, self.path)
        except OSError as error:
            raise self._unusable(error) from error

    def _make(self) -> None:
        """Create the directory and its parents, each name durable in the directory above it."""
        missing: list[str] = []
        path = self.path
        while path and not self._fs.exists(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        if missing:
            self._fs.make_directory(self.path)
            for path in reversed(missing):
                parent, slash, _ = path.rpartition("/")
                self._fs.sync_directory(parent or slash or ".")

    def identify(self, cluster_id: str, node_id: int, new_directory_id: UUID) -> MetaProperties:
        """Check that the directory belongs to this node, or claim it. DataDirectoryError: it belongs to another."""
        try:
            return ensure_meta_properties(
                self._fs, self.path, cluster_id=cluster_id, node_id=node_id, new_directory_id=new_directory_id
            )
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> DataDirectoryError:
        return start_failed(
            self.path,
            error,
            "cannot be used as a data directory",
            "make it a directory that this user can read and write, or set log.dirs to another one",
        )

    def begin_load(self, damage_policy: str = HOLE) -> None:
        """Note whether the last stop was clean, and remove the mark: a crash while loading must be visible to the next
        start.

        Checkpoints that are damaged are made anew from their copies, while the mark still tells who has stopped last.
        DamagedLogError: segments are gone, and `damage_policy` (log.damage.policy) says to stop; the next start finds that, too.
        """
        try:
            self.had_clean_shutdown = self._clean_mark.exists()
            is_ours = self._clean_mark.is_ours()
            for name in COPIED_CHECKPOINTS:
                mend_checkpoint(self._fs, self.path, name, is_ours=is_ours)
            self._room = room_of(self._fs, self.path, LOG_START_OFFSET_CHECKPOINT)
            self.last_stop = read_stop_record(self._fs, self.path) if is_ours else {}
            if damage_policy != KAFKA:
                start_offsets = self.read_checkpoint(LOG_START_OFFSET_CHECKPOINT) or {}
                note_lost_segments(self._fs, self.path, self.last_stop, start_offsets, damage_policy)
            # Before the mark, which goes durably: it must not be found beside that of another stop.
            self._fs.unlink(f"{self.path}/{STOP_FILE}", missing_ok=True)
            self._clean_mark.delete()
        except OSError as error:
            raise self._unusable(error) from error

    def mark_clean(self, logs: Mapping[TopicPartition, LogFiles]) -> None:
        """Write the mark of a clean stop: all logs are closed and durable, checkpoints written, `logs` are their files.
        OSError.
        """
        if logs:
            write_stop_record(self._fs, self.path, logs)
        self._clean_mark.write_ours()

    def close(self) -> None:
        """Release the directory's lock, for another process; harmless when it is not held. The logs must be closed."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def partitions(self) -> list[PartitionDirectory]:
        """Partition directories: live, deleted, future. Other names are logged in one line and left alone."""
        found: list[PartitionDirectory] = []
        foreign: list[str] = []
        try:
            for entry in self._fs.list_directory(self.path):
                path = f"{self.path}/{entry}"
                name = parse_directory_name(entry)
                if name is None:
                    if entry not in _OWN_FILES and not entry.startswith(".") and self._fs.is_directory(path):
                        foreign.append(entry)
                elif name.state is DirectoryState.STRAY:
                    foreign.append(entry)
                elif name.topic != CLUSTER_METADATA_TOPIC and (
                    self._fs.is_directory(path) or not self._fs.exists(path)
                ):
                    # No file that somebody put there, as backup-2026; but a link whose disk is missing: its log fails to load.
                    found.append(PartitionDirectory(path, name))
        except OSError as error:
            raise self._unusable(error) from error
        if foreign:
            shown = ", ".join(foreign[:5]) + (" ..." if len(foreign) > 5 else "")
            logger.warning("%s: %d directories are not ours and are left alone: %s", self.path, len(foreign), shown)
        return found

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int] | None:
        """Read a checkpoint; None when it is missing, or damaged (which is logged)."""
        path = f"{self.path}/{name}"
        try:
            if not self._fs.exists(path):
                return None
            offsets = OffsetCheckpointFile(self._fs, path).read()
            self._written[name] = offsets
            return offsets
        except CorruptCheckpointError as error:
            logger.warning("%s; going on as if it were empty", error)
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def checkpoint(self, name: str, offsets: Callable[[], Mapping[TopicPartition, int]]) -> bool:
        """Write a checkpoint if it differs from the last one written: an idle broker writes nothing. OSError. Blocks.

        `offsets` is called when no other thread writes a checkpoint: what one that waits has read before could be of a log that
        was deleted meanwhile, or older than what is written by then. False: after `end_checkpoints`.
        """
        with self._checkpoint_locks[name]:
            if self._takes_checkpoints:
                current = offsets()
                if name in self._due or self._written.get(name) != current:
                    self._write(name, current)
            return self._takes_checkpoints

    def note_log_starts(
        self,
        changed: Callable[[], Mapping[TopicPartition, int]],
        every: Callable[[], Mapping[TopicPartition, int]],
    ) -> bool:
        """Make log start offsets durable that have risen, with one sync: `changed` says which. OSError. Blocks.

        The next `checkpoint` writes them to the checkpoint itself. Where there is no room for them, that is written now, with
        what `every` says. Both are called as `checkpoint` calls its function. False: after `end_checkpoints`.
        """
        name = LOG_START_OFFSET_CHECKPOINT
        with self._checkpoint_locks[name]:
            if not self._takes_checkpoints:
                return False
            written = self._written.get(name, {})
            changes = {key: offset for key, offset in changed().items() if offset > written.get(key, 0)}
            if not self._room_takes(changes):
                self._write(name, every(), must_copy=True)
            elif changes:
                self._due.add(name)
                self._written[name] = {**written, **changes}
            return True

    def _room_takes(self, changes: Mapping[TopicPartition, int]) -> bool:
        """Note changes in the room; False: there is none, or it failed. Under the lock of log starts."""
        room, self._room = self._room, None  # until it has been written: after an error nobody knows what is in it
        try:
            if room is None or not room.add(changes):
                return False
        except OSError as error:
            logger.warning("%s: no start of a log could be noted (%s); the checkpoint is written", self.path, error)
            return False
        self._room = room
        return True

    def end_checkpoints(self) -> None:
        """Write no further checkpoint: logs are about to be let go, and say nothing true any more. Blocks behind one."""
        self._takes_checkpoints = False
        for lock in self._checkpoint_locks.values():
            with lock:
                pass

    def _write(self, name: str, offsets: Mapping[TopicPartition, int], *, must_copy: bool = False) -> None:
        is_of_starts = name == LOG_START_OFFSET_CHECKPOINT
        if is_of_starts:
            self._room = None
        self._due.add(name)  # unless it succeeds
        room = write_checkpoint(self._fs, self.path, name, offsets, must_copy=must_copy)
        self._written[name] = dict(offsets)
        self._due.discard(name)
        if is_of_starts:
            self._room = room

    def forget(self, key: TopicPartition) -> None:
        """Durably remove a partition from the checkpoints: entries of a deleted one must not apply to its successor.

        OSError. Blocks.
        """
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
            with self._checkpoint_locks[name]:  # over both: others are making logs too
                written = self._written.get(name, {})
                # What is due may be on the disk although it is not in `_written`.
                if key in written or name in self._due:
                    self._write(name, {other: offset for other, offset in written.items() if other != key})

    def make_missing_checkpoints(self) -> None:
        """Create missing checkpoint files, so that all four exist from the first start on. OSError."""
        for name in CHECKPOINTS:
            if not self._fs.exists(f"{self.path}/{name}"):
                self.checkpoint(name, dict)
