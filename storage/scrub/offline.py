"""Scrubs a data directory, or one partition's, by its files alone: `tidelog log scrub`. Changes nothing.

A daemon may run on it meanwhile. Which segments are closed is taken from the names: all but the last of a log. What seems damaged
is told if neither its files nor its neighbours have changed since before they were read; while `.swap` files say that the cleaner
puts segments in place, or was interrupted there, only if that holds for some seconds. Blocks; any thread.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import CorruptCheckpointError, StorageError
from ..inspect.verify import Progress
from ..inspect.verify_report import Finding, unreadable_finding
from ..io.checkpoint import LOG_START_OFFSET_CHECKPOINT, OffsetCheckpointFile
from ..log.leader_epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache
from ..manager.data_directory import CHECKPOINTS
from ..manager.meta_properties import META_PROPERTIES_FILE
from ..segment.names import (
    CLUSTER_METADATA_TOPIC,
    LOG_SUFFIX,
    SWAP_STAGE,
    DirectoryState,
    Hole,
    file_name,
    parse_directory_name,
    parse_file_name,
    parse_hole,
)
from .examine import Stamp, epoch_findings, look_at, segment_files, snapshot_findings, stamp_of
from .segment_look import SegmentPlace, size_or_0

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..io.checkpoint import TopicPartition
    from ..io.filesystem import FileSystem
    from ..log.leader_epoch import EpochEntry

_TRIES = 3
_WAIT_S = 1.0
_BLOCK = 1 << 20
_GONE = Finding("vanished", "", -1, "deleted or replaced meanwhile")


def scrub(
    file_system: FileSystem,
    directory: str,
    progress: Progress,
    wait: Callable[[float], object],
    block_bytes: int = _BLOCK,
) -> Iterator[Finding]:
    """Look at all closed segments; findings come as they are found, notes among them.

    `progress.done` is told of bytes of all kinds of files, and may wait to keep a pace; `wait(seconds)` waits. StorageError when
    it is neither a data directory nor a partition's; OSError when something can't be read for a reason that is no damage.
    """
    directory = directory.rstrip("/") or "/"
    if not file_system.is_directory(directory):
        raise StorageError(f"{directory}: not a directory: name a data directory or a partition's")
    logs = [
        _Log(file_system, path, starts, progress, wait, block_bytes) for path, starts in _logs(file_system, directory)
    ]
    progress.total(sum(log.closed_bytes() for log in logs))
    for log in logs:
        try:
            yield from log.findings()
        except FileNotFoundError:
            if file_system.exists(log.path):
                raise
            yield _GONE._replace(path=log.path)
        except OSError as error:  # of the directory itself: the others are read nevertheless
            yield unreadable_finding(error, log.path)


def _logs(file_system: FileSystem, directory: str) -> Iterator[tuple[str, int | None]]:
    """Paths of the logs, each with its start if that is known."""
    names = file_system.list_directory(directory)
    if any(parse_file_name(name) for name in names):
        root, _, name = directory.rpartition("/")
        key = _key(name)
        yield directory, None if key is None else _starts(file_system, root or ".").get(key)
        return
    keys = [(name, key) for name in names if (key := _key(name)) is not None]
    if not keys and not {META_PROPERTIES_FILE, *CHECKPOINTS} & set(names):
        raise StorageError(
            f"{directory}: neither a data directory nor a partition's: no checkpoint, no <topic>-<partition> directory "
            "and no .log file in it"
        )
    starts = _starts(file_system, directory)
    for name, key in sorted(keys, key=lambda one: one[1]):
        if file_system.is_directory(f"{directory}/{name}"):
            yield f"{directory}/{name}", starts.get(key)


def _key(name: str) -> TopicPartition | None:
    parsed = parse_directory_name(name)
    if parsed is None or parsed.state is not DirectoryState.LIVE or parsed.topic == CLUSTER_METADATA_TOPIC:
        return None
    return parsed.topic, parsed.partition


def _starts(file_system: FileSystem, root: str) -> dict[TopicPartition, int]:
    try:
        return OffsetCheckpointFile(file_system, f"{root}/{LOG_START_OFFSET_CHECKPOINT}").read()
    except CorruptCheckpointError:
        return {}


class _State(NamedTuple):
    """State of a segment's files: they have changed if this has. `is_swapping`: some segment of the log is being replaced."""

    stamp: Stamp
    next_base: int
    is_swapping: bool


class _Log:
    """One log, by its files."""

    def __init__(
        self,
        file_system: FileSystem,
        path: str,
        log_start: int | None,
        progress: Progress,
        wait: Callable[[float], object],
        block_bytes: int,
    ) -> None:
        self.path = path
        self._fs = file_system
        self._log_start = log_start
        self._progress = progress
        self._wait = wait
        self._block = block_bytes
        self._epochs: tuple[EpochEntry, ...] | None = None
        self._holes: tuple[Hole, ...] = ()
        self._last_epoch = -1

    def _bases(self, names: Sequence[str]) -> list[int]:
        parsed = map(parse_file_name, names)
        return sorted(file.base_offset for file in parsed if file and file.suffix == LOG_SUFFIX and not file.stage)

    def closed_bytes(self) -> int:
        """Bytes of the closed segments' log files."""
        total = 0
        try:
            for base in self._bases(self._fs.list_directory(self.path))[:-1]:
                total += size_or_0(self._fs, f"{self.path}/{file_name(base, LOG_SUFFIX)}")
        except OSError:
            return total  # `findings` says so
        return total

    def findings(self) -> Iterator[Finding]:
        """Look at the log."""
        names = self._fs.list_directory(self.path)
        bases = self._bases(names)
        self._holes = tuple(hole for name in names if (hole := parse_hole(name)) is not None)
        if len(bases) < 2:
            return
        yield from self._log_files(bases[-1])
        for base, next_base in pairwise(bases):
            yield from self._segment(base, next_base)

    def _log_files(self, active: int) -> Iterator[Finding]:
        names = (LEADER_EPOCH_CHECKPOINT, segment_files(active)[-1])
        for _ in range(_TRIES):
            before = stamp_of(self._fs, self.path, names)
            findings = epoch_findings(self._fs, self.path)
            if not findings:
                self._epochs = LeaderEpochCache.load(self._fs, f"{self.path}/{LEADER_EPOCH_CHECKPOINT}").entries
            found, read = snapshot_findings(self._fs, self.path, active)
            findings += found
            self._progress.done(read)
            if stamp_of(self._fs, self.path, names) == before:
                yield from findings
                return

    def _state(self, base: int) -> _State:
        names = self._fs.list_directory(self.path)
        behind = next((other for other in self._bases(names) if other > base), -1)
        is_swapping = any(name.endswith(SWAP_STAGE) for name in names)
        return _State(stamp_of(self._fs, self.path, segment_files(base)), behind, is_swapping)

    def _segment(self, base: int, next_base: int) -> Iterator[Finding]:
        if not self._is_suspicious(base, next_base):
            return
        findings: list[Finding] = []
        first: _State | None = None
        for attempt in range(_TRIES):
            before = self._state(base)
            log_file = before.stamp[0]
            if log_file is None or before.next_base != next_base:
                break
            first = first or before
            try:
                findings, self._last_epoch = self._look(self._place(base, log_file[0], next_base))
            except FileNotFoundError:
                continue
            if not findings:
                return
            self._last_epoch = -1
            if self._state(base) != before:
                continue
            if not before.is_swapping or (attempt == _TRIES - 1 and first == before):
                yield from findings
                return
            self._wait(_WAIT_S)
        self._last_epoch = -1
        yield _GONE._replace(path=f"{self.path}/{file_name(base, LOG_SUFFIX)}")

    def _is_suspicious(self, base: int, next_base: int) -> bool:
        """True if a first look finds something, or that the files have changed. Nothing is listed for it: a directory of 10,000
        segments is not gone through for each of them.
        """
        before = stamp_of(self._fs, self.path, segment_files(base))
        if before[0] is None:
            return True
        epoch_before = self._last_epoch
        try:
            findings, self._last_epoch = self._look(self._place(base, before[0][0], next_base))
        except FileNotFoundError:
            findings = [_GONE]
        if not findings:
            return False
        self._last_epoch = epoch_before
        return True

    def _place(self, base: int, size: int, next_base: int) -> SegmentPlace:
        return SegmentPlace(
            self.path, base, abs(size), next_base, self._log_start, self._epochs, is_settled=False,
            holes=self._holes, epoch_before=self._last_epoch,
        )  # fmt: skip

    def _look(self, place: SegmentPlace) -> tuple[list[Finding], int]:
        look = look_at(self._fs, place, self._block)
        try:
            while True:
                self._progress.done(next(look))
        except StopIteration as end:
            result: tuple[list[Finding], int] = end.value
            return result
        finally:
            look.close()
