"""Restores a cut into empty directories.

    1  marker and lock in each directory; a restore that was broken off goes on, with the same cut
    2  partitions, some at a time: each file under a temporary name, its sum checked on the way, synced, renamed
    3  metadata, identity, checkpoints: recovery begins at the end of each log
    4  all logs are loaded once by the code that recovers logs, which rebuilds offset and time indexes, replays producers and cuts
       what stands behind the cut's end; they are closed cleanly
    5  ends and starts are held against the cut; the marker goes

Only after 5 does a daemon take the directories.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ...storage.clock import SystemTime, Time
from ...storage.exceptions import DataDirectoryError, StorageError
from ...storage.inspect.dump import CLEANER_STATE
from ...storage.io.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    format_lines,
    format_offsets,
)
from ...storage.io.filesystem import TEMPORARY_SUFFIX, has_no_room
from ...storage.ledger.ledger import LEDGER_FILE
from ...storage.ledger.ledger import decode as decode_ledger
from ...storage.log.leader_epoch import LEADER_EPOCH_CHECKPOINT
from ...storage.log.partition_metadata import write_partition_metadata
from ...storage.manager.data_directory import LOCK_FILE, RESTORE_FILE
from ...storage.manager.log_manager import LogManager
from ...storage.manager.meta_properties import META_PROPERTIES_FILE, MetaProperties, write_meta_properties
from ...storage.scheduler import ThreadPoolScheduler
from ...storage.segment.names import LOG_SUFFIX, file_name, partition_directory_name
from ..formats.entries import Cut, Extent, Partition, Segment
from ..formats.keys import METADATA, sum_of
from ..formats.sealed import DamagedBackupError
from ..formats.secrets import check_key, unsealed
from ..store.errors import NotThere
from .fetching import Fetcher
from .marker import Marker, read_marker, write_marker

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...config.log_config import LogConfig
    from ...storage.io.filesystem import FileSystem
    from ..formats.secrets import Key
    from ..store.interface import ObjectStore

THREADS = 8
METADATA_FILE = "metadata.db"
_STAGE = ".restoring"
_MARGIN = 1.02
"""Room that is asked for before anything is written: logs, and some for indexes."""

_INTERRUPTED = b'{"version":1,"checkpoint":0,"interrupted":true,"horizons":{}}'
"""What a cleaner leaves that is killed in a pass. It knows no times of what is to go: they are read from the segments."""


class RestoreError(StorageError):
    """A restore was refused or broken off; the sentence says what to do."""


class Sizes(NamedTuple):
    """Counts of a restore, or of a check."""

    partitions: int
    bytes: int
    held: tuple[Partition, ...]


class Bar(NamedTuple):
    """Reports progress: bytes to come, bytes done."""

    total: Callable[[int], object] = lambda _bytes: None
    done: Callable[[int], object] = lambda _bytes: None


class Restore:
    """One restore of one cut. Blocks; one thread, which starts others."""

    def __init__(
        self,
        store: ObjectStore,
        cut: Cut,
        directories: Sequence[str],
        file_system: FileSystem,
        config: BrokerConfig,
        *,
        config_of: Callable[[str], LogConfig] | None = None,
        time: Time | None = None,
        bar: Bar | None = None,
        key: Key | None = None,
    ) -> None:
        """`directories` are log.dirs of `config`. `config_of(topic)`: its settings, for the load; default: the broker's. `key`:
        of secrets that are sealed; OMIT: they stay away."""
        self._store = store
        self._cut = cut
        self._directories = [directory.rstrip("/") or "/" for directory in directories]
        self._fs = file_system
        self._config = config
        self._config_of = config_of
        self._time = time or SystemTime()
        self._bar = bar or Bar()
        self._key = key
        self._fetcher = Fetcher(store)
        self._marker = Marker(store.name, cut.header.number, cut.header.session, tuple(self._directories))

    def run(self) -> Sizes:
        """Restore. RestoreError: nothing was begun, or it says how to go on; StoreError, DamagedBackupError: the same restore
        goes on. SecretsError: nothing was begun."""
        try:
            return self._run()
        except OSError as error:
            raise broken_off(error, error.filename or ", ".join(self._directories)) from error
        except DataDirectoryError as error:
            if isinstance(error.__cause__, OSError):
                raise broken_off(error.__cause__, error.path) from error
            raise

    def _run(self) -> Sizes:
        if self._cut.header.key:
            self._key = check_key(self._cut.header.key, self._key)
        homes = self._homes()
        is_going_on = self._prepare(homes)
        self._bar.total(self._cut.size)
        with ExitStack() as locks:
            for directory in self._directories:
                locks.callback(self._fs.lock(f"{directory}/{LOCK_FILE}").release)
            if is_going_on:
                self._tidy(homes)  # not before the lock: what is unfinished may be of a restore that runs
            self._partitions(homes)
            self._metadata()
            self._root_files(homes)
        self._load()
        for directory in self._directories:
            self._fs.unlink(f"{directory}/{RESTORE_FILE}", missing_ok=True)
            # All else is durable. A marker that a power cut brings back is one of a restore that goes on, to its end.
            with suppress(OSError):
                self._fs.sync_directory(directory)
        return Sizes(len(homes), self._cut.size, tuple(self._cut.held))

    # --- 1 ---

    def _homes(self) -> dict[tuple[str, int], str]:
        """Which directory each partition goes to: the emptiest, the largest partitions first. The same each time."""
        filled = dict.fromkeys(self._directories, 0)
        homes = {}
        there = (entry for entry in self._cut.partitions.values() if entry.segments)
        for entry in sorted(there, key=lambda entry: (-entry.size, entry.key)):
            home = min(self._directories, key=filled.__getitem__)
            homes[entry.key] = home
            filled[home] += entry.size
        return homes

    def _prepare(self, homes: dict[tuple[str, int], str]) -> bool:
        """Marker in each directory; True if a restore goes on."""
        markers = {
            directory: read_marker(self._fs, directory) if self._fs.exists(directory) else None
            for directory in self._directories
        }
        # The first marker is made when all directories were found empty, and names them all; the last one goes at the end.
        is_going_on = self._marker in markers.values()
        for directory, marker in markers.items():
            if marker is not None and marker != self._marker:
                raise RestoreError(
                    f"{directory}: a restore of cut {marker.cut} of {marker.store} has not come to its end there: go on with "
                    "that one (--from, --cut and the same directories), or empty the directory"
                )
            is_there = self._fs.exists(directory)
            if is_there and not self._fs.is_directory(directory):
                raise RestoreError(f"{directory} is no directory: restore into a new one")
            names = set(self._fs.list_directory(directory)) if is_there else set()
            names.discard(RESTORE_FILE + TEMPORARY_SUFFIX)  # of a marker that was not made
            if names and marker is None and not is_going_on:
                raise RestoreError(f"{directory} is not empty: restore into a new directory")
        if not is_going_on:
            self._check_room(homes)
        for directory in self._directories:
            self._fs.make_directory(directory)
            write_marker(self._fs, directory, self._marker)
        return is_going_on

    def _tidy(self, homes: dict[tuple[str, int], str]) -> None:
        """Remove what was not finished when the restore was broken off."""
        paths = {f"{home}/{partition_directory_name(*key)}" for key, home in homes.items()}
        for path in (*self._directories, *sorted(paths)):
            for name in self._fs.list_directory(path) if self._fs.exists(path) else ():
                if name.endswith((TEMPORARY_SUFFIX, _STAGE)):
                    self._fs.unlink(f"{path}/{name}")

    def _check_room(self, homes: dict[tuple[str, int], str]) -> None:
        """Raise RestoreError where a disk has no room for what is to be written to it, into whichever of the directories."""
        sizes = dict.fromkeys(self._directories, 0)
        for key, home in homes.items():
            sizes[home] += self._cut.partitions[key].size
        disks: dict[int, list[str]] = {}
        for directory in self._directories:
            disks.setdefault(self._fs.stat(self._existing(directory)).device, []).append(directory)
        for directories in disks.values():
            wanted = int(_MARGIN * sum(sizes[directory] for directory in directories))
            free = self._fs.free_bytes(self._existing(directories[0]))
            if free < wanted:
                their = "its" if len(directories) == 1 else "their"
                raise RestoreError(
                    f"{', '.join(directories)}: {wanted} bytes are to be written, and {their} disk has {free} free"
                )

    def _existing(self, directory: str) -> str:
        """The directory, or the nearest one above it that there is."""
        while not self._fs.exists(directory):
            directory = os.path.dirname(directory) or "."
        return directory

    # --- 2 ---

    def _partitions(self, homes: dict[tuple[str, int], str]) -> None:
        for key, home in homes.items():
            self._fs.make_directory(f"{home}/{partition_directory_name(*key)}")
        with ThreadPoolExecutor(THREADS, "restore") as pool:
            jobs = [pool.submit(job) for job in self._jobs(homes)]
            _finish(jobs, pool)
        for directory in self._directories:
            self._fs.sync_directory(directory)

    def _jobs(self, homes: dict[tuple[str, int], str]) -> Iterator[Callable[[], None]]:
        """A job for each segment; small files go with the last one."""
        for key, home in homes.items():
            entry = self._cut.partitions[key]
            path = f"{home}/{partition_directory_name(*key)}"
            for segment in entry.segments:
                yield lambda entry=entry, segment=segment, path=path: self._segment(entry, segment, path)  # type: ignore[misc]
            yield lambda entry=entry, path=path: self._small_files(entry, path)  # type: ignore[misc]

    def _segment(self, entry: Partition, segment: Segment, path: str) -> None:
        """Write a segment's log and companions. The log comes last: its name says that the others are there."""
        target = f"{path}/{file_name(segment.base_offset, LOG_SUFFIX)}"
        if self._fs.exists(target):
            if self._fs.stat(target).size == segment.size:
                self._bar.done(segment.size)
                return
            self._fs.unlink(target)
        for packed in segment.files:
            data = b"".join(self._fetcher.extent(packed.extent))
            self._fs.write_atomically(f"{path}/{file_name(segment.base_offset, packed.name)}", data)
        blocks: Iterable[bytes]
        if segment.object_sum:
            blocks = self._fetcher.whole(entry, segment, _uuid(entry))
        else:
            blocks = (block for extent in segment.extents for block in self._fetcher.extent(extent))
        stage = target + _STAGE
        self._fs.unlink(stage, missing_ok=True)
        file = self._fs.open(stage, create=True)
        companions = bytearray()
        try:
            left = segment.size
            for block in blocks:
                log = block[:left]
                if log:
                    file.append(log)
                    left -= len(log)
                    self._bar.done(len(log))
                companions += block[len(log) :]
            file.sync()
        finally:
            file.close()
        position = 0
        for suffix, length in segment.companions:
            data = bytes(companions[position : position + length])
            self._fs.write_atomically(f"{path}/{file_name(segment.base_offset, suffix)}", data)
            position += length
        self._fs.rename(stage, target)
        self._fs.sync_directory(path)

    def _small_files(self, entry: Partition, path: str) -> None:
        topic_id = _uuid(entry)
        if topic_id is not None:
            write_partition_metadata(self._fs, path, topic_id)
        lines = [f"{epoch} {start}" for epoch, start in entry.epochs]
        self._fs.write_atomically(f"{path}/{LEADER_EPOCH_CHECKPOINT}", format_lines(lines))
        if entry.ledger:
            self._fs.write_atomically(f"{path}/{LEDGER_FILE}", entry.ledger.encode())
        if _was_being_cleaned(entry):
            self._fs.write_atomically(f"{path}/{CLEANER_STATE}", _INTERRUPTED)
        for file in entry.files:
            self._fs.write_atomically(f"{path}/{file.name}", b"".join(self._fetcher.extent(file.extent)))

    # --- 3 ---

    def _metadata(self) -> None:
        if not self._cut.header.metadata:
            return
        path = f"{self._directories[0]}/{METADATA_FILE}"
        data = read_metadata(self._store, self._cut)
        if self._cut.header.key and self._key is not None:
            data = unsealed(data, self._key)
        for suffix in ("-wal", "-shm"):
            self._fs.unlink(path + suffix, missing_ok=True)
        before = os.umask(0o077)  # passwords' hashes are in it; of this process no other thread writes now
        try:
            self._fs.unlink(path + TEMPORARY_SUFFIX, missing_ok=True)
            self._fs.write_atomically(path, data)
        finally:
            os.umask(before)

    def _root_files(self, homes: dict[tuple[str, int], str]) -> None:
        header = self._cut.header
        for directory in self._directories:
            if not self._fs.exists(f"{directory}/{META_PROPERTIES_FILE}"):
                new_id = UUID(int=random.SystemRandom().getrandbits(128), version=4)
                write_meta_properties(self._fs, directory, MetaProperties(header.cluster_id, header.node_id, new_id))
            entries = [self._cut.partitions[key] for key, home in homes.items() if home == directory]
            for name, offsets in (
                (RECOVERY_POINT_CHECKPOINT, {entry.key: entry.end for entry in entries}),
                (REPLICATION_OFFSET_CHECKPOINT, {entry.key: entry.end for entry in entries}),
                (
                    LOG_START_OFFSET_CHECKPOINT,
                    {entry.key: entry.start for entry in entries if entry.start > entry.segments[0].base_offset},
                ),
                (CLEANER_OFFSET_CHECKPOINT, {entry.key: entry.cleaned for entry in entries if entry.cleaned >= 0}),
            ):
                self._fs.write_atomically(f"{directory}/{name}", format_offsets(offsets))

    # --- 4, 5 ---

    def _load(self) -> None:
        """Have all logs recovered, and closed cleanly; hold what came of it against the cut."""
        scheduler = ThreadPoolScheduler(max(2, len(self._directories)), time=self._time)
        manager = LogManager(self._config, self._fs, self._time, scheduler)
        try:
            manager.load(self._config_of)
            try:
                self._check(manager)
                for log in manager.logs():
                    log.local.open_ledger(count=True)
            finally:
                manager.shutdown()
        finally:
            scheduler.shutdown()
        for directory in self._directories:
            if not self._fs.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}"):  # the manager has logged why
                raise RestoreError(f"{directory}: its logs could not be closed; {_GO_ON.format('see to the disk')}")

    def _check(self, manager: LogManager) -> None:
        for entry in self._cut.partitions.values():
            if not entry.segments:
                continue
            log = manager.get(entry.topic, entry.partition)
            if log is None:
                raise RestoreError(f"{entry.topic}-{entry.partition} was written, and is not there")
            if (log.log_start_offset, log.log_end_offset) != (entry.start, entry.end):
                raise RestoreError(
                    f"{entry.topic}-{entry.partition} has the offsets {log.log_start_offset} to {log.log_end_offset} after its "
                    f"restore, and the cut {entry.start} to {entry.end}: the directory is not to be used"
                )


def read_metadata(store: ObjectStore, cut: Cut) -> bytes:
    """The metadata database of a cut, as a file's content; empty if there was none. StoreError, DamagedBackupError."""
    digest = cut.header.metadata
    if not digest:
        return b""
    key = f"{METADATA}{digest}"
    try:
        packed = store.read(key)
    except NotThere as error:
        raise DamagedBackupError(f"{key} is missing: {error}") from None
    if sum_of(packed) != digest:
        raise DamagedBackupError(f"{key} is damaged: its bytes do not fit the sum in its name")
    return zlib.decompress(packed)


def verify_cut(
    store: ObjectStore,
    cut: Cut,
    bar: Bar | None = None,
    *,
    threads: int = THREADS,
    prepare: Callable[[], object] = lambda: None,
) -> Sizes:
    """Read all that a restore of the cut would read, and check every sum; write nothing. StoreError, DamagedBackupError.

    `prepare` is what each thread begins with. What `bar` raises ends it, and is raised.
    """
    bar, fetcher = bar or Bar(), Fetcher(store, chunks=4 * threads)
    bar.total(cut.size)
    read_metadata(store, cut)

    def check(entry: Partition, segment: Segment) -> None:
        left = segment.size
        for block in fetcher.whole(entry, segment, _uuid(entry)):
            bar.done(min(left, len(block)))
            left -= min(left, len(block))

    def check_pack(pieces: Sequence[tuple[Extent, bool]]) -> None:
        for extent, is_log in pieces:
            for block in fetcher.extent(extent):
                if is_log:
                    bar.done(len(block))

    with ThreadPoolExecutor(threads, "verify", prepare) as pool:
        whole = ((entry, one) for entry in cut.partitions.values() for one in entry.segments if one.object_sum)
        jobs = [pool.submit(check, entry, one) for entry, one in whole]
        jobs += [pool.submit(check_pack, pieces) for pieces in _by_pack(cut)]
        _finish(jobs, pool)
    return Sizes(len(cut.partitions), cut.size, tuple(cut.held))


def _by_pack(cut: Cut) -> Iterator[list[tuple[Extent, bool]]]:
    """Extents of a cut, and whether each is of a log, pack by pack and in the order in which they stand there: by partitions the
    same packs would be read again and again.
    """
    logs = {extent for entry in cut.partitions.values() for segment in entry.segments for extent in segment.extents}
    extents = sorted({extent for entry in cut.partitions.values() for extent in entry.extents()})
    for _, pieces in groupby(extents, key=lambda extent: extent.pack):
        yield [(extent, extent in logs) for extent in pieces]


def _finish(jobs: Sequence[Future[None]], pool: ThreadPoolExecutor) -> None:
    """Wait for all; the first error ends the others and is raised."""
    done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
    for job in done:
        if (error := job.exception()) is not None:
            pool.shutdown(cancel_futures=True)
            raise error


_GO_ON = "{} and give the same command again, which goes on where it was; a daemon does not start there before"


def broken_off(error: OSError, path: str) -> RestoreError:
    """What to say of a disk that fails in the middle of a restore."""
    if has_no_room(error):
        return RestoreError(f"{path}: the disk is full; {_GO_ON.format('make room')}")
    return RestoreError(f"{path}: {error.strerror or error}; {_GO_ON.format('see to the disk')}")


def _was_being_cleaned(entry: Partition) -> bool:
    """True if records went above the cleaner's checkpoint: the cut fell into a pass, whose checkpoint moves at its end. Where the
    cut knew no ledger nothing tells of that: then too."""
    if not entry.ledger:
        return entry.cleaned >= 0
    ledger = decode_ledger(entry.ledger.encode())
    if ledger is None:
        return False
    above = any(base >= ledger.checkpoint and found.missing for base, found in ledger.segments.items())
    return above or ledger.pending is not None


def _uuid(entry: Partition) -> UUID | None:
    return UUID(hex=entry.topic_id) if entry.topic_id else None
