"""DirectoryScrub: passes over the closed segments of one data directory of a running daemon, block by block.

    off      → reading    a rate is set
    reading  → waiting    all segments were read that were closed when the pass began
    waiting  → reading    `PASS_MS` after the last pass began: a small directory is not read all the time
    any      → failed     nothing can be read for a reason that is no file's (no descriptors, say); tried again after `RETRY_MS`

*Nothing sound is told.* A segment may be deleted, cleaned, moved or cut while it is read. What was found is published
under the log's deletion lock, under which no file is renamed, and only if the segment is still in the log's list, closed, in this
directory, and none of its files has changed since before it was read. Else it is read again.

*Nothing is held up.* The lock is held for some stats. No file is open between two blocks, and neither the segment's object
nor the list's is kept: who holds those keeps replaced files on the disk.

*Damage is taken back* when its segment leaves the log (that is looked at whenever somebody asks), and, within `AGAIN_MS`, when
a file of the segment has changed, or may be read again, and looks sound now.

*Nothing is forgotten.* What is known is saved, `UNSAVED_MS` after damage was found at the latest, and told again from `recall`
and `believe` on, which a start calls before the daemon answers. A segment in doubt is the one that the next daemon begins with;
an index that was to be made anew is handed over again.

`step` is called by one thread at a time, the directory's lane; `status` by any; `stop` once.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import StorageError
from ..inspect.verify_report import REMADE, RULES, Finding
from ..log.leader_epoch import LEADER_EPOCH_CHECKPOINT
from ..segment.segment_list import floor_index
from .examine import Stamp, epoch_findings, look_at, segment_files, snapshot_findings, stamp_of
from .memory import DamagedSegment, Memory, read_memory, write_memory
from .segment_look import SegmentPlace
from .status import NEVER, ScrubDamage, ScrubState, ScrubStatus

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from ..clock import Time
    from ..io.checkpoint import TopicPartition
    from ..io.filesystem import FileSystem
    from ..log.unified_log import UnifiedLog
    from ..manager.log_manager import LogManager

logger = logging.getLogger(__name__)

PASS_MS = 3_600_000
"""Least time from the begin of one pass to that of the next."""
RETRY_MS = 60_000
AGAIN_MS = 60_000
"""How often the files of damaged segments are looked at for a change."""
SAVE_MS = 300_000
"""How much of a pass may have to be made again after a crash."""
UNSAVED_MS = 10_000
"""How long damage that was found may be unsaved: a disk that dies spoils segment after segment, and each save is a sync."""
STOP_S = 1.0
MOST_DAMAGE = 1000
"""Damaged things that are told of one directory; a disk that dies has millions."""
MOST_DETAIL = 300
"""Characters of facts that are told of one: with `MOST_DAMAGE` they bound the file of what is remembered to about 1 MiB."""

_LOG = -1
"""Base offset that stands for the files of a whole log."""
_TRIES = 3
_STEPS_AT_ONCE = 64
_LEAST_BLOCK = 64 << 10
_MOST_BLOCK = 1 << 20


class _Damaged(NamedTuple):
    """Damage of a segment. `identity`: `LogSegment.identity`, or of a whole log its deletion lock; None: not compared with
    the log since a restart. `mended_in`: number of the pass in which it was found mended, 0 while it is there.
    """

    key: TopicPartition
    base_offset: int
    identity: object
    stamp: Stamp
    damage: tuple[ScrubDamage, ...]
    mended_in: int = 0


def _is_refused(entry: _Damaged) -> bool:
    """True if the daemon was not allowed to read a file: rights change without a trace in the file."""
    return any(damage.rule == "no-access" for damage in entry.damage)


class _Progress(NamedTuple):
    """Progress as it is told. One value, so that readers see parts that belong together."""

    state: ScrubState = ScrubState.OFF
    reason: str = ""
    pass_number: int = 0
    begun_ms: int = NEVER
    done_bytes: int = 0
    total_bytes: int = 0
    whole_begun_ms: int = NEVER
    whole_ms: int = NEVER


class DirectoryScrub:
    """See the module for threads.

    Attributes:
        path: of the data directory.
        rate: bytes per second that `step` reckons with; set by any thread.
    """

    def __init__(self, path: str, logs: LogManager, file_system: FileSystem, time: Time) -> None:
        """Opens nothing; what was remembered is read with the first step."""
        self.path = path
        self.rate = 0
        self._logs = logs
        self._fs = file_system
        self._time = time
        self._busy = threading.Lock()
        self._is_stopped = False
        self._remembered: tuple[DamagedSegment, ...] | None = None  # until the logs are there
        self._is_ready = False  # what was remembered has been held against the logs
        self._told = _Progress()
        self._at: tuple[str, int, int] | None = None
        self._damaged: tuple[_Damaged, ...] = ()
        self._omitted = 0
        self._read_bytes = 0
        self._found = 0
        self._in_segment = 0  # bytes read of the segment in work
        self._work: Generator[int, None, None] | None = None
        self._again: Generator[int, None, None] | None = None
        self._again_ms = self._saved_ms = time.monotonic_ms()
        self._has_unsaved = self._has_saved = False

    # --- told: any thread ---

    def status(self) -> ScrubStatus:
        """State as it is now. Any thread; no I/O."""
        told, rate = self._told, self.rate
        done = min(told.done_bytes + self._in_segment, told.total_bytes)
        return ScrubStatus(
            self.path,
            told.state if rate else ScrubState.OFF,
            told.reason if rate else "",
            told.pass_number,
            told.begun_ms,
            done,
            told.total_bytes,
            told.whole_begun_ms,
            told.whole_ms,
            rate,
            self._read_bytes,
            self._found,
            tuple(damage for entry in self._damaged if self._is_live(entry) for damage in entry.damage),
            self._omitted,
        )

    def _log(self, key: TopicPartition) -> UnifiedLog | None:
        """The log, if it lies in this directory."""
        log = self._logs.get(*key)
        return log if log is not None and log.directory.rpartition("/")[0] == self.path else None

    def _is_live(self, entry: _Damaged) -> bool:
        return entry.identity is not None and self._is_there(entry.key, entry.base_offset, entry.identity)

    def _is_still_known(self, entry: _Damaged) -> bool:
        """False once its segment is gone. What has not been compared with the log since a restart stays until it is."""
        return entry.identity is None or self._is_live(entry)

    def _is_there(self, key: TopicPartition, base_offset: int, identity: object) -> bool:
        """True if that very segment, or log, is still this directory's."""
        log = self._log(key)
        if log is None:
            return False
        if base_offset == _LOG:
            return log.local.deletion_lock is identity
        view = log.segments
        at = floor_index(view, base_offset)
        return at >= 0 and view[at].identity is identity

    # --- steps: the directory's lane ---

    def step(self) -> float:
        """Do a piece of the work; returns the ms to wait before the next. Blocks for about one block."""
        with self._busy:
            if self._is_stopped:
                return PASS_MS
            began = self._time.monotonic_ms()
            try:
                count = self._advance(began)
            except BaseException as error:
                self._work = self._again = None
                self._in_segment = 0
                self._tell(state=ScrubState.FAILED, reason=str(error) or type(error).__name__)
                if not isinstance(error, (OSError, StorageError)):
                    raise
                logger.warning("%s: the scrubber can't go on: %s; it tries again in a minute", self.path, error)
                return RETRY_MS
            if count is None:
                return self._wait_ms()
            return max(0.0, count * 1000 / max(self.rate, 1) - (self._time.monotonic_ms() - began))

    def stop(self) -> None:
        """End: no further step does anything, and where the pass is, is saved. Blocks for `STOP_S` at most."""
        self._is_stopped = True
        if not self._busy.acquire(timeout=STOP_S):
            logger.warning("%s: the scrubber waits for the disk; how far it is, is not saved", self.path)
            return
        try:
            for work in (self._work, self._again):
                if work is not None:
                    work.close()
            self._work = self._again = None
            if self._is_ready and self._told.pass_number:
                self._write_memory()
        finally:
            self._busy.release()

    def _advance(self, now: float) -> int | None:
        """Read something; returns the bytes, 0 to go on at once. None: there is nothing to do."""
        self.believe()
        if self._has_unsaved and now - self._saved_ms >= UNSAVED_MS:
            self._save()
        for _ in range(_STEPS_AT_ONCE):
            if self._again is None and now >= self._again_ms and self._damaged:
                self._again = self._look_again()
                self._again_ms = now + AGAIN_MS
            if self._again is None and self._work is None:
                if not self._is_due():
                    if self._has_unsaved:
                        self._save()
                    self._tell(state=ScrubState.WAITING, reason="")
                    return None
                self._work = self._pass()
            is_again = self._again is not None
            work = self._again or self._work
            assert work is not None
            try:
                count = next(work)
            except StopIteration:
                if is_again:
                    self._again = None
                else:
                    self._work = None
                continue
            self._read_bytes += count
            if count:
                return count
        return 0

    def _is_due(self) -> bool:
        since = self._time.milliseconds() - self._told.begun_ms
        # A clock that was set back must not keep the next pass away.
        return self._at is not None or self._told.begun_ms == NEVER or not 0 <= since < PASS_MS

    def _wait_ms(self) -> float:
        due = self._told.begun_ms + PASS_MS - self._time.milliseconds()
        wait = min(max(due, 1000), PASS_MS)
        return min(wait, AGAIN_MS) if self._damaged else wait

    def _tell(
        self, *, state: ScrubState | None = None, reason: str = "", done: int | None = None, total: int | None = None
    ) -> None:
        told = self._told
        self._told = told._replace(
            state=told.state if state is None else state,
            reason=reason,
            done_bytes=told.done_bytes if done is None else done,
            total_bytes=told.total_bytes if total is None else total,
        )

    # --- a pass ---

    def _pass(self) -> Generator[int, None, None]:
        """Read what is closed now, from where the last daemon stopped if it was in a pass."""
        if self._at is None:
            self._at = ("", 0, 0)
            self._omitted = 0
            told = self._told
            self._told = told._replace(
                pass_number=told.pass_number + 1, begun_ms=self._time.milliseconds(), done_bytes=0, total_bytes=0
            )
        work = self._closed(self._at)
        done = self._told.done_bytes
        self._tell(state=ScrubState.READING, total=done + sum(size for _, size in work.values()))
        for key in sorted(work):
            end, size = work[key]
            first = self._at[2] if self._at is not None and self._at[:2] == key else 0
            yield from self._read_log(key, first, end)
            done += size  # what has gone meanwhile is done with, too
            self._tell(done=done)
        told = self._told
        self._told = told._replace(
            done_bytes=told.total_bytes, whole_begun_ms=told.begun_ms, whole_ms=self._time.milliseconds()
        )
        self._at = None
        self._damaged = tuple(
            entry
            for entry in self._damaged
            if self._is_still_known(entry) and (not entry.mended_in or entry.mended_in == told.pass_number)
        )
        if work or self._damaged or self._has_unsaved:
            self._save()

    def _closed(self, at: tuple[str, int, int]) -> dict[TopicPartition, tuple[int, int]]:
        """Where the closed segments of each log end, and their bytes, from `at` on; of logs that have some."""
        found = {}
        for log in self._logs.logs():
            key = (log.topic, log.partition)
            view = log.segments
            if len(view) < 2 or key < at[:2] or self._log(key) is not log:
                continue
            first = at[2] if key == at[:2] else 0
            size = sum(segment.size for segment in view[:-1] if segment.base_offset >= first)
            found[key] = (view[-1].base_offset, size)
        return found

    def _read_log(self, key: TopicPartition, first: int, end: int) -> Generator[int, None, None]:
        """Read the closed segments of a log from base offset `first` on, to `end`, and the files of the whole log."""
        epoch = -1
        self._at = (*key, first)
        while (found := self._place(key, self._at[2], end, epoch)) is not None:
            place, identity = found
            before = self._told.done_bytes
            epoch = yield from self._read_segment(key, place, identity)
            self._in_segment = 0
            self._tell(done=before + place.size)
            self._at = (*key, place.base_offset + 1)
            if self._time.monotonic_ms() - self._saved_ms >= SAVE_MS:
                self._save()
        yield self._read_log_files(key)

    def _place(self, key: TopicPartition, first: int, end: int, epoch: int = -1) -> tuple[SegmentPlace, object] | None:
        """The first closed segment from base offset `first` to below `end`, and its identity; None if there is none."""
        log = self._log(key)
        if log is None:
            return None
        view = log.segments
        at = next(
            (at for at in range(max(0, floor_index(view, first)), len(view)) if view[at].base_offset >= first), -1
        )
        if not 0 <= at < len(view) - 1 or view[at].base_offset >= end:
            return None
        segment = view[at]
        place = SegmentPlace(
            log.directory,
            segment.base_offset,
            segment.size,
            view[at + 1].base_offset,
            log.log_start_offset,
            log.leader_epochs.entries,
            is_settled=True,
            holes=log.holes,
            epoch_before=epoch,
        )
        return place, segment.identity

    def _read_segment(self, key: TopicPartition, place: SegmentPlace, identity: object) -> Generator[int, None, int]:
        """Read one segment and publish what is damaged; the value is the leader epoch that it ends with, -1 if not known."""
        for _ in range(_TRIES):
            before = self._state_of(key, place)
            self._in_segment = 0
            try:
                result = yield from self._while_there(key, place, identity)
            except FileNotFoundError as error:
                # Gone from below a log that still has it, unless that turns out to have changed.
                result = [Finding("unreadable", str(error.filename), -1, "the file is missing")], -1
            if result is None:
                return -1
            findings, epoch = result
            if not findings:
                self._looks_sound(key, place.base_offset, identity)
                return epoch
            if self._publish(key, place, identity, before, findings):
                return -1
            again = self._place(key, place.base_offset, place.base_offset + 1)
            if again is None or again[1] is not identity:
                return -1
            place = again[0]
        return -1

    def _while_there(
        self, key: TopicPartition, place: SegmentPlace, identity: object
    ) -> Generator[int, None, tuple[list[Finding], int] | None]:
        """`look_at`, given up (None) as soon as the segment is no longer in the log."""
        look = look_at(self._fs, place, self._block_bytes())
        try:
            while True:
                try:
                    count = next(look)
                except StopIteration as end:
                    result: tuple[list[Finding], int] = end.value
                    return result
                self._in_segment += count
                yield count
                if not self._is_there(key, place.base_offset, identity):
                    return None
        finally:
            look.close()

    def _block_bytes(self) -> int:
        """A quarter of a second's bytes: few system calls, and no long silence."""
        quarter = self.rate // 4 // _LEAST_BLOCK * _LEAST_BLOCK
        return min(max(quarter, _LEAST_BLOCK), _MOST_BLOCK)

    def _state_of(self, key: TopicPartition, place: SegmentPlace) -> tuple[int, Stamp]:
        log = self._log(key)
        truncations = -1 if log is None else log.local.truncations
        return truncations, stamp_of(self._fs, place.directory, segment_files(place.base_offset))

    def _publish(
        self,
        key: TopicPartition,
        place: SegmentPlace,
        identity: object,
        before: tuple[int, Stamp],
        findings: Sequence[Finding],
    ) -> bool:
        """Tell of damage, unless what was read has changed meanwhile: False then."""
        log = self._log(key)
        if log is None:
            return False
        with log.local.steady():
            found = self._place(key, place.base_offset, place.base_offset + 1)
            if (
                log.local.is_closed
                or found is None
                or found[1] is not identity
                or (found[0].directory, found[0].next_base) != (place.directory, place.next_base)
                or self._state_of(key, place) != before
            ):
                return False
            view = log.segments
            segment = view[floor_index(view, place.base_offset)]
            for finding in findings:
                if finding.rule.startswith(REMADE):
                    log.log_directory.doubt(segment, finding.what)  # made anew when retention comes by
        self._note(key, place.base_offset, identity, before[1], findings)
        return True

    # --- files of a whole log ---

    def _read_log_files(self, key: TopicPartition) -> int:
        """Check the leader epochs, and the snapshot at the active segment, which was written when the one before was closed;
        returns the bytes read.
        """
        total = 0
        for _ in range(_TRIES):
            log = self._log(key)
            if log is None:
                break
            active, epochs = log.segments[-1].base_offset, log.leader_epochs
            entries, names = epochs.entries, self._log_file_names(log)
            before = stamp_of(self._fs, log.directory, names)
            findings, read = snapshot_findings(self._fs, log.directory, active)
            total += read
            if not epochs.is_dirty:  # else it is about to be written
                total += max(before[0][0], 0) if before[0] is not None else 0
                findings += epoch_findings(self._fs, log.directory, entries)
            if not findings:
                self._looks_sound(key, _LOG, log.local.deletion_lock)
                break
            with log.local.steady():
                is_same = (
                    not log.local.is_closed
                    and self._log(key) is log
                    and log.segments[-1].base_offset == active
                    and epochs.entries is entries
                    and not epochs.is_dirty
                    and stamp_of(self._fs, log.directory, names) == before
                )
            if is_same:
                self._note(key, _LOG, log.local.deletion_lock, before, findings)
                break
        return total

    @staticmethod
    def _log_file_names(log: UnifiedLog) -> tuple[str, ...]:
        return (LEADER_EPOCH_CHECKPOINT, segment_files(log.segments[-1].base_offset)[-1])

    # --- damage ---

    def _note(
        self, key: TopicPartition, base_offset: int, identity: object, stamp: Stamp, findings: Sequence[Finding]
    ) -> None:
        """Publish damage in place of what was known of the segment."""
        old = next((entry for entry in self._damaged if (entry.key, entry.base_offset) == (key, base_offset)), None)
        known = {} if old is None else {(d.path, d.position, d.rule): d for d in old.damage if d.still_there}
        now = self._time.milliseconds()
        damage = []
        for finding in findings:
            same = known.get((finding.path, finding.position, finding.rule))
            found_ms = now if same is None else same.found_ms
            detail = finding.what[:MOST_DETAIL]
            damage.append(ScrubDamage(*key, finding.path, finding.position, finding.rule, detail, found_ms))
            if same is None:
                self._found += 1
                rule = RULES[finding.rule]
                place = finding.path if finding.position < 0 else f"{finding.path} at {finding.position}"
                logger.warning("%s: %s (%s); %s", place, rule.meaning, finding.what, rule.remedy)
        rest = [entry for entry in self._damaged if entry is not old and self._is_still_known(entry)]
        if sum(len(entry.damage) for entry in rest) + len(damage) > MOST_DAMAGE:
            self._omitted += len(damage)
            self._damaged = tuple(rest)
        else:
            new = _Damaged(key, base_offset, identity, stamp, tuple(damage))
            self._damaged = tuple(sorted((*rest, new), key=lambda entry: (entry.key, entry.base_offset)))
        self._save_soon()

    def _looks_sound(self, key: TopicPartition, base_offset: int, identity: object) -> None:
        """Take back what was told of the segment: from now on it is told as mended."""
        old = next((entry for entry in self._damaged if (entry.key, entry.base_offset) == (key, base_offset)), None)
        if old is None or old.mended_in:
            return
        logger.info("%s-%d: what was damaged in segment %d looks sound now", *key, base_offset)
        mended = old._replace(
            identity=identity,
            damage=tuple(damage._replace(still_there=False) for damage in old.damage),
            mended_in=max(self._told.pass_number, 1),
        )
        self._damaged = tuple(mended if entry is old else entry for entry in self._damaged)
        self._save_soon()

    def _look_again(self) -> Generator[int, None, None]:
        """Look at damaged segments whose files have changed; forget those that are gone."""
        for entry in self._damaged:
            log = self._log(entry.key)
            if log is None or not self._is_still_known(entry):
                self._damaged = tuple(other for other in self._damaged if other is not entry)
                continue
            if entry.mended_in:
                continue
            names = self._log_file_names(log) if entry.base_offset == _LOG else segment_files(entry.base_offset)
            is_compared = entry.identity is not None and not _is_refused(entry)
            if is_compared and stamp_of(self._fs, log.directory, names) == entry.stamp:
                continue
            del log  # it may be deleted while the segment is read
            if entry.base_offset == _LOG:
                yield self._read_log_files(entry.key)
                continue
            found = self._place(entry.key, entry.base_offset, entry.base_offset + 1)
            if found is not None:
                yield from self._read_segment(entry.key, *found)
                self._in_segment = 0
            elif entry.identity is None:
                self._damaged = tuple(other for other in self._damaged if other is not entry)

    # --- over restarts ---

    def recall(self) -> None:
        """Read what the last daemon has left, unless that was done: from now on `status` tells when what was read. Blocks;
        before the first step.
        """
        if self._remembered is not None:
            return
        memory = read_memory(self._fs, self.path)
        self._at = memory.at
        self._told = _Progress(
            ScrubState.OFF,
            "",
            memory.pass_number,
            memory.begun_ms,
            memory.done_bytes,
            memory.total_bytes,
            memory.whole_begun_ms,
            memory.whole_ms,
        )
        self._omitted = memory.omitted
        self._remembered = memory.damage

    def believe(self) -> None:
        """Hold what was damaged against the logs, which are loaded now: from now on `status` tells what still is. Blocks;
        before the first step.
        """
        if self._is_ready:
            return
        self.recall()
        assert self._remembered is not None
        self._damaged = tuple(map(self._believed, self._remembered))
        self._remembered = ()
        self._again_ms = float("-inf")
        self._is_ready = True

    def _believed(self, segment: DamagedSegment) -> _Damaged:
        """Damage that was known before the start: with its identity if the files are the same, else looked at again first.

        Its wrong indexes are made anew, if no retention has come by before the stop.
        """
        key, base_offset = segment.key, segment.base_offset
        log = self._log(key)
        identity: object = None
        if log is not None and base_offset == _LOG:
            if stamp_of(self._fs, log.directory, self._log_file_names(log)) == segment.stamp:
                identity = log.local.deletion_lock
        elif (
            log is not None
            and stamp_of(self._fs, log.directory, segment_files(base_offset)) == segment.stamp
            and (found := self._place(key, base_offset, base_offset + 1)) is not None
        ):
            identity = found[1]
            view = log.segments
            for damage in segment.damage:
                if damage.rule.startswith(REMADE):
                    log.log_directory.doubt(view[floor_index(view, base_offset)], damage.detail)
        return _Damaged(key, base_offset, identity, segment.stamp, segment.damage)

    def _save_soon(self) -> None:
        """Save now, or, if that was done just now, in `UNSAVED_MS`."""
        self._has_unsaved = True
        if self._time.monotonic_ms() - self._saved_ms >= UNSAVED_MS or not self._has_saved:
            self._save()

    def _save(self) -> None:
        self._saved_ms = self._time.monotonic_ms()
        self._has_unsaved = False
        self._has_saved = True
        if not self._is_stopped:
            self._write_memory()

    def _write_memory(self) -> None:
        told = self._told
        damage = tuple(
            DamagedSegment(entry.key, entry.base_offset, entry.stamp, entry.damage)
            for entry in self._damaged
            if not entry.mended_in
        )
        memory = Memory(
            told.pass_number,
            told.begun_ms,
            self._at,
            told.done_bytes,
            told.whole_begun_ms,
            told.whole_ms,
            damage,
            told.total_bytes,
            self._omitted,
        )
        try:
            write_memory(self._fs, self.path, memory)
        except OSError as error:
            logger.warning("%s: how far the scrubber is could not be saved: %s", self.path, error)
