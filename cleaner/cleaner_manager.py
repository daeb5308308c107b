"""CleanerManager: keeps each partition's cleaning state, chooses the next log, and records the result of each pass.

State of a partition: idle, or in work by one thread; beside that its checkpoint, its delete horizons, and why it could not be
cleaned. All of it belongs to this class and changes under one lock, which is never held while a disk is waited for but for
the two small files that are the state's other half:

    cleaner-offset-checkpoint    Kafka's, one for each data directory: topic, partition, first dirty offset
    tidelog-cleaner.json         ours, in the partition's directory: see `cleaner_state.py`

A failure concerns its partition alone: the cause is kept, the log is tried again after a back-off that doubles up to an hour,
or as soon as its settings change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..protocol.records.exceptions import RecordError
from ..storage.exceptions import CorruptCheckpointError, StorageError
from ..storage.io.checkpoint import CLEANER_OFFSET_CHECKPOINT, OffsetCheckpointFile, TopicPartition
from ..storage.io.checkpoint_copy import write_checkpoint
from .cleaner_state import CleanerState, read_state, write_state
from .cleaning import Cleaner, CleaningTask, PassControl, PassResult
from .eligibility import CleaningFacts, Eligibility, Reason, evaluate
from .exceptions import CleaningAborted
from .log_facts import COMPACT_POLICY, DirtySection, dirty_section, earliest_horizon, read_steady, segment_facts
from .pass_history import PassHistory

if TYPE_CHECKING:
    from ..config.log_config import LogConfig
    from ..storage.clock import Time
    from ..storage.io.filesystem import FileSystem
    from ..storage.log.unified_log import UnifiedLog

logger = logging.getLogger(__name__)

FIRST_RETRY_MS = 15_000
LONGEST_RETRY_MS = 3_600_000
BLOCKED_HORIZON_MS = 3_600_000
"""Delay in ms before a segment is examined again whose delete horizon is due but whose record must stay (it is the last
one of its producer).
"""


class Logs(Protocol):
    """The part of LogManager that the cleaner uses."""

    def logs(self) -> Sequence[UnifiedLog]: ...

    def get(self, topic: str, partition: int) -> UnifiedLog | None: ...


class Failure(NamedTuple):
    """The error that ended the last pass over a partition; `attempts` counts failures in a row."""

    cause: str
    attempts: int
    since_ms: int
    retry_ms: int


class PartitionCleaning(NamedTuple):
    """Cleaning state of one partition for metrics and `why`. Times in ms; eligibility as of `as_of_ms`; counts since
    start.
    """

    topic: str
    partition: int
    eligibility: Eligibility
    as_of_ms: int
    in_work: bool
    checkpoint: int | None
    failure: Failure | None
    failures: int
    damaged: int
    passes: int
    last_pass: PassResult | None
    last_pass_ms: int
    next_horizon_ms: int | None
    section: DirtySection


class _State:
    """Cleaning state of one partition. Guarded by the manager's lock."""

    __slots__ = (
        "abort",
        "as_of_ms",
        "checkpoint",
        "damaged",
        "eligibility",
        "failed_config",
        "failure",
        "failures",
        "held",
        "horizons",
        "in_work",
        "interrupted_end",
        "last_pass",
        "last_pass_ms",
        "log",
        "passes",
    )

    def __init__(self, log: UnifiedLog, checkpoint: int | None) -> None:
        self.log = log
        self.checkpoint = checkpoint
        self.horizons: dict[int, int] | None = None
        self.interrupted_end: int | None = None
        """End offset of a pass that replaced segments and did not come to its end; None: there is none."""
        self.in_work = False
        self.held = False
        self.abort: str | None = None
        self.failure: Failure | None = None
        self.failed_config: LogConfig | None = None
        self.failures = 0
        self.damaged = 0
        self.passes = 0
        self.last_pass: PassResult | None = None
        self.last_pass_ms = -1
        self.eligibility: Eligibility | None = None
        self.as_of_ms = -1


class Work(NamedTuple):
    """A log claimed by a thread: the thread must call `clean` or `give_back`."""

    log: UnifiedLog
    eligibility: Eligibility


class CleanerManager:
    """Safe from any thread. Methods that read logs or write files block, and are for cleaner threads."""

    def __init__(self, logs: Logs, file_system: FileSystem, time: Time) -> None:
        self._logs = logs
        self._fs = file_system
        self._time = time
        self._lock = threading.Lock()
        self._states: dict[TopicPartition, _State] = {}
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        # One for each directory, held while its checkpoint file is written; `_lock` is never held across I/O. Taken before that.
        self._checkpoint_locks: dict[str, threading.Lock] = {}
        # Partitions that a directory's checkpoint file names. A directory whose file was not read or written yet is not in it.
        self._on_disk: dict[str, frozenset[TopicPartition]] = {}
        self._known_since_start: set[TopicPartition] = set()
        self._arriving: dict[TopicPartition, str] = {}
        self.history = PassHistory()
        self.last_run_ms = time.milliseconds()
        self.max_overdue_ms = 0
        self.max_dirty_ratio = 0.0

    # --- state ---

    def load(self) -> None:
        """Read the checkpoints of all data directories that have a log. Blocks; OSError."""
        present = {(log.topic, log.partition): log for log in self._logs.logs()}
        for directory in {_data_directory(log) for log in present.values()}:
            offsets = self._read_checkpoint(directory)
            self._on_disk[directory] = frozenset(offsets)
            # Entries without a log are dropped: a partition created later under a deleted name starts dirty.
            self._checkpoints[directory] = {
                key: offset
                for key, offset in offsets.items()
                if key in present and _data_directory(present[key]) == directory
            }
        for log in present.values():
            self._state(log)
        self.last_run_ms = self._time.milliseconds()  # logs may have been recovered for hours since this was made

    def _read_checkpoint(self, directory: str) -> dict[TopicPartition, int]:
        try:
            return OffsetCheckpointFile(self._fs, f"{directory}/{CLEANER_OFFSET_CHECKPOINT}").read()
        except CorruptCheckpointError as error:
            logger.warning("%s; everything counts as dirty", error)
            return {}

    @contextmanager
    def _changing(self, directory: str) -> Iterator[None]:
        """Hold the directory's lock from the choice of the file's contents until they are written. What it names is not known
        meanwhile, nor after a failed write: `forget_checkpoint` waits for the lock then.
        """
        with self._checkpoint_locks.setdefault(directory, threading.Lock()):
            self._on_disk.pop(directory, None)
            yield

    def _save_checkpoint(self, directory: str, offsets: dict[TopicPartition, int]) -> None:
        """Write the file. Within `_changing`."""
        write_checkpoint(self._fs, directory, CLEANER_OFFSET_CHECKPOINT, offsets)
        self._on_disk[directory] = frozenset(offsets)

    def forget_checkpoint(self, directory: str, key: TopicPartition) -> None:
        """Durably remove a deleted log's entry from the file in `directory`, before another log of its name is made there: a
        start would take that one's records for clean. Pool threads; blocks if there is an entry. OSError.
        """
        on_disk = self._on_disk.get(directory)
        if on_disk is not None and key not in on_disk:
            return
        with self._changing(directory):
            with self._lock:
                self._checkpoints.get(directory, {}).pop(key, None)  # else the next write would bring it back
            offsets = self._read_checkpoint(directory)
            if offsets.pop(key, None) is not None:
                self._save_checkpoint(directory, offsets)
            else:
                self._on_disk[directory] = frozenset(offsets)

    def _state(self, log: UnifiedLog) -> _State:
        """The state of `log`, created on first use. A state left by a deleted log of the same name is dropped. A deleted log
        whose name another one has by now gets one that is not kept.
        """
        key = (log.topic, log.partition)
        with self._lock:
            state = self._states.get(key)
            if state is None or state.log is not log:
                if state is not None and self._logs.get(*key) is state.log:
                    return _State(log, None)
                directory = _data_directory(log)
                offsets = self._checkpoints.setdefault(directory, {})
                if state is not None or key in self._known_since_start:
                    offsets.pop(key, None)
                self._known_since_start.add(key)
                state = self._states[key] = _State(log, offsets.get(key))
            return state

    def forget(self, topic: str, partition: int) -> None:
        """Drop the state of a deleted partition. A pass over it ends by itself."""
        with self._lock:
            self._forget((topic, partition))

    def _forget(self, key: TopicPartition) -> None:
        state = self._states.pop(key, None)
        if state is not None:
            state.abort = "the partition is deleted"
        for offsets in self._checkpoints.values():
            offsets.pop(key, None)

    def _forget_gone(self) -> None:
        """Drop the states of logs that are not there any more. A look at a log between the deletion of its topic and its own has
        made another one, which would keep the closed log in memory.
        """
        with self._lock:
            for key, state in list(self._states.items()):
                if self._logs.get(*key) is not state.log and not state.in_work and not state.held:
                    self._forget(key)

    def forget_topic(self, topic: str) -> None:
        """Drop the state of all partitions of a deleted topic."""
        with self._lock:
            partitions = [partition for name, partition in self._states if name == topic]
        for partition in partitions:
            self.forget(topic, partition)

    def truncated(self, log: UnifiedLog, offset: int) -> None:
        """Note that the log was cut at `offset`: records written from there on are dirty. Blocks; OSError."""
        state = self._state(log)
        with self._lock:
            if state.in_work:
                state.abort = "the log was truncated"
            if state.checkpoint is None or state.checkpoint <= offset:
                return
            state.checkpoint = offset
        self._write_checkpoint(log, offset)

    def abort(self, topic: str, partition: int, cause: str) -> bool:
        """Ask the pass over this partition to end; False when none runs. Does not wait: the pass stops before its next
        chunk.
        """
        with self._lock:
            state = self._states.get((topic, partition))
            if state is None or not state.in_work:
                return False
            state.abort = cause
            return True

    # --- a log goes to another data directory ---

    def hold(self, log: UnifiedLog) -> bool:
        """Let no pass over `log` begin until `let_go`, and ask a running one to end. False: it has not ended yet, call
        again.
        """
        state = self._state(log)
        with self._lock:
            state.held = True
            if state.in_work:
                state.abort = "the log is moved to another data directory"
            return not state.in_work

    def carry(self, log: UnifiedLog, directory: str) -> None:
        """Write the log's first dirty offset to the checkpoint of the data directory it is about to move to. Blocks;
        OSError.
        """
        key, state = (log.topic, log.partition), self._state(log)
        self.forget_checkpoint(directory, key)
        with self._changing(directory):
            with self._lock:
                if state.checkpoint is None:
                    return
                self._arriving[key] = directory
                offsets = self._checkpoints.setdefault(directory, {})
                offsets[key] = state.checkpoint
                snapshot = dict(offsets)
            self._save_checkpoint(directory, snapshot)

    def let_go(self, log: UnifiedLog) -> None:
        """Allow passes over `log` again, whether it has moved or stays. Any thread."""
        key, state = (log.topic, log.partition), self._state(log)
        with self._lock:
            state.held = False
            self._arriving.pop(key, None)
            for directory, offsets in self._checkpoints.items():
                if directory != _data_directory(log):
                    offsets.pop(key, None)  # from the file too, with the next pass there

    # --- which log is next ---

    def examine(self, log: UnifiedLog) -> Eligibility:
        """Decide what to do with `log` now. Reads segment timestamps that are not cached. Blocks; OSError,
        StorageError.
        """
        state = self._state(log)
        log.local.open_ledger()
        facts = self.facts(log)
        found = evaluate(facts)
        with self._lock:
            state.eligibility, state.as_of_ms = found, facts.now_ms
        if found.reset is not None:
            self._reset(state, found, facts.checkpoint)
        return found

    def facts(self, log: UnifiedLog) -> CleaningFacts:
        """The current facts that `evaluate` decides on. Blocks as `examine` does; OSError, StorageError."""
        return read_steady(log, lambda: self._facts(log))

    def _facts(self, log: UnifiedLog) -> CleaningFacts:
        state = self._state(log)
        if state.horizons is None:
            self._find_horizons(state)
        now = self._time.milliseconds()
        config = log.config
        segments = log.segments
        with self._lock:
            failure = state.failure
            if failure is not None:
                # A clock that was set back must not keep the next attempt away.
                is_over = not now < failure.retry_ms <= now + LONGEST_RETRY_MS
                failure = None if is_over or state.failed_config is not config else failure
            checkpoint, horizons, interrupted = state.checkpoint, dict(state.horizons or {}), _end_to_reach(state)
        return CleaningFacts(
            segment_facts(segments, config, checkpoint),
            log.log_start_offset,
            log.log_end_offset,
            log.last_stable_offset,
            log.high_watermark,
            checkpoint,
            now,
            horizons,
            interrupted,
            COMPACT_POLICY in config.cleanup_policy,
            config.min_cleanable_dirty_ratio,
            config.min_compaction_lag_ms,
            config.max_compaction_lag_ms,
            None if failure is None else failure.cause,
            None if failure is None else failure.retry_ms,
        )

    def _reset(self, state: _State, found: Eligibility, checkpoint: int | None) -> None:
        log = state.log
        # With cleanup.policy=compact,delete retention moves the log start past the checkpoint: no warning for that.
        usual = "delete" in log.config.cleanup_policy and found.first_dirty == log.log_start_offset
        if not usual:
            logger.warning("%s: cleaning starts over: %s", log.name, found.reset)
        with self._lock:
            if state.in_work or state.checkpoint != checkpoint:  # another thread was faster
                return
            state.checkpoint = found.first_dirty
        self._write_checkpoint(log, found.first_dirty)

    def _find_horizons(self, state: _State) -> None:
        """Load delete horizons: from our file if it belongs to the checkpoint, else from the batch headers of the clean
        part.
        """
        log = state.log
        saved = read_state(self._fs, log.directory)
        checkpoint = state.checkpoint
        horizons: dict[int, int] = {}
        if saved is not None and saved.checkpoint == checkpoint:
            horizons = dict(saved.horizons)
        elif checkpoint is not None:
            if COMPACT_POLICY not in log.config.cleanup_policy:
                return  # nobody needs them; not known until it is compacted
            for segment in log.segments[:-1]:
                if segment.base_offset < checkpoint:
                    horizon = earliest_horizon(segment)
                    if horizon is not None:
                        horizons[segment.base_offset] = horizon
        with self._lock:
            if state.horizons is None:
                state.horizons = horizons
                if saved is not None and saved.is_interrupted:
                    end = saved.interrupted_end
                    # No pass ends behind the active segment's first offset.
                    state.interrupted_end = log.segments[-1].base_offset if end is None else end

    def take_next(self) -> Work | None:
        """Claim the log that most needs a pass: logs past max.compaction.lag.ms first, then the one with the largest
        dirty ratio.

        Rolls active segments whose max.compaction.lag.ms is due. A log that can't be looked at is marked as uncleanable.
        """
        self.last_run_ms = self._time.milliseconds()
        best: Work | None = None
        best_passes, overdue_ms, ratio = 0, 0, 0.0
        for log in self._logs.logs():
            if COMPACT_POLICY not in log.config.cleanup_policy or log.failure is not None:
                continue
            state = self._state(log)
            passes = state.passes
            if state.in_work or state.held:
                continue
            try:
                found = self.examine(log)
                if found.roll_is_due:
                    log.roll()
                    found = self.examine(log)
            except (StorageError, RecordError, OSError) as error:
                self._failed(state, error)
                continue
            overdue_ms = max(overdue_ms, found.overdue_ms)
            ratio = max(ratio, found.dirty_ratio)
            if found.reason is not None and (best is None or _urgency(found) > _urgency(best.eligibility)):
                best, best_passes = Work(log, found), passes
        self.max_overdue_ms, self.max_dirty_ratio = overdue_ms, ratio
        self._forget_gone()
        if best is None or not self._claim(best.log, best_passes):
            return None
        return best

    def take(self, log: UnifiedLog, *, roll: bool = True) -> Work | None:
        """Claim this log now, whatever its dirty ratio and back-off; None when another thread has it. Blocks;
        StorageError.

        Lags, open transactions and delete horizons count as ever. `roll`: what is in the active segment too.
        """
        if not self._claim(log):  # first, or another thread takes what the roll has made ready
            return None
        state = self._state(log)
        try:
            with self._lock:
                state.failure = None
            if roll:
                log.roll()
            return Work(log, self.examine(log))
        except BaseException:
            with self._lock:
                state.in_work = False
            raise

    def _claim(self, log: UnifiedLog, passes: int | None = None) -> bool:
        """`passes`: of this log, before it was looked at; another thread's since then has cleaned what the look found dirty."""
        state = self._state(log)
        with self._lock:
            if state.in_work or state.held or (passes is not None and state.passes != passes):
                return False
            state.in_work = True
            state.abort = None
            return True

    # --- a pass ---

    def clean(self, work: Work, cleaner: Cleaner, control: PassControl) -> PassResult | None:
        """Run one pass and record its result; None when it was aborted or failed. Errors are recorded and logged, not
        raised.

        The thread that has taken `work`. Blocks.
        """
        log, found = work
        state = self._state(log)
        reason = Reason.ASKED if found.reason is None else found.reason
        running = self.history.begin(
            log.topic, log.partition, reason.value, found.dirty_bytes, found.clean_bytes + found.dirty_bytes
        )
        task = CleaningTask(
            log,
            found.first_dirty,
            found.first_uncleanable,
            lambda end: self._begin_swaps(state, found, end),
            running.watch,
        )
        failure: str | None = None
        try:
            result = cleaner.clean(task, _Watch(state, control))
            self._done(state, result)
        except CleaningAborted as aborted:
            failure = str(aborted)
            logger.info("%s", aborted)
            return None
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            if log.failure is None or state.abort is None:
                self._failed(state, error)
            return None
        else:
            _report(log, found, result)
            return result
        finally:
            self.history.end(running, self._time.milliseconds(), failure)
            with self._lock:
                state.in_work = False

    def give_back(self, work: Work) -> None:
        """Release a claimed log that was not cleaned."""
        state = self._state(work.log)
        with self._lock:
            state.in_work = False

    def _begin_swaps(self, state: _State, found: Eligibility, end_offset: int) -> None:
        """Record on disk that the pass has begun to replace segments: after a crash the pass has to run again."""
        with self._lock:
            end = state.interrupted_end = max(end_offset, state.interrupted_end or 0)
            horizons = dict(state.horizons or {})
        checkpoint = state.checkpoint if state.checkpoint is not None else found.first_dirty
        write_state(self._fs, state.log.directory, CleanerState(checkpoint, True, horizons, end))

    def _done(self, state: _State, result: PassResult) -> None:
        log = state.log
        now = self._time.milliseconds()
        bases = {segment.base_offset for segment in log.segments}
        with self._lock:
            before = state.checkpoint, state.horizons, state.interrupted_end
            # Where the range ends below the first dirty offset, what lies between was not gone over.
            cleaned_below = min(result.end_offset, result.first_uncleanable)
            kept = {b: t for b, t in (state.horizons or {}).items() if b in bases and b >= cleaned_below}
            fresh = {
                base: time if time > result.started_ms else now + BLOCKED_HORIZON_MS
                for base, time in result.horizons.items()
                if base in bases
            }
            state.horizons = kept | fresh
            end = _end_to_reach(state)
            if end is not None and result.end_offset >= end:
                end = state.interrupted_end = None
            state.checkpoint = result.end_offset
            horizons = dict(state.horizons)
        # The state file comes last: until it is written it says `interrupted`, so a crash in between repeats the pass.
        try:
            log.local.save_ledger(result.end_offset)
            self._write_checkpoint(log, result.end_offset)
            write_state(self._fs, log.directory, CleanerState(result.end_offset, end is not None, horizons, end))
        except BaseException:
            with self._lock:
                if state.checkpoint == result.end_offset:  # else the log was cut meanwhile
                    state.checkpoint, state.horizons, state.interrupted_end = before
            raise
        with self._lock:
            state.failure = None
            state.passes += 1
            state.last_pass, state.last_pass_ms = result, now

    def _failed(self, state: _State, error: Exception) -> None:
        cause = f"{type(error).__name__}: {error}"
        now = self._time.milliseconds()
        with self._lock:
            attempts = 1 if state.failure is None else state.failure.attempts + 1
            delay = min(FIRST_RETRY_MS << min(attempts - 1, 20), LONGEST_RETRY_MS)
            since = now if state.failure is None else state.failure.since_ms
            state.failure = Failure(cause, attempts, since, now + delay)
            state.failed_config = state.log.config
            state.failures += 1
            state.damaged += isinstance(error, RecordError)
        logger.warning(
            "%s can't be cleaned (attempt %d, next in %d s): %s",
            state.log.name,
            attempts,
            delay // 1000,
            cause,
            exc_info=not isinstance(error, StorageError | RecordError | OSError),
        )

    def _write_checkpoint(self, log: UnifiedLog, offset: int) -> None:
        directory = _data_directory(log)
        key = (log.topic, log.partition)
        with self._changing(directory):
            if self._logs.get(*key) is not log:
                return  # deleted meanwhile; another one of its name may be there
            with self._lock:
                state = self._states.get(key)
                if state is None or state.log is not log:
                    return  # deleted meanwhile
                offsets = self._checkpoints.setdefault(directory, {})
                offsets[key] = offset
                # The file is written as a whole: entries of partitions that are gone from this directory are dropped.
                for gone in [other for other in offsets if not self._belongs(other, directory)]:
                    del offsets[gone]
                snapshot = dict(offsets)
            self._save_checkpoint(directory, snapshot)

    def _belongs(self, key: TopicPartition, directory: str) -> bool:
        """True if the partition's log is in the data directory, or about to arrive there (`carry`)."""
        log = self._logs.get(*key)
        return (log is not None and _data_directory(log) == directory) or self._arriving.get(key) == directory

    # --- what others see: any thread, no I/O ---

    def partitions(self) -> list[PartitionCleaning]:
        """Every examined partition, as of its last examination."""
        live = {id(log) for log in self._logs.logs()}
        with self._lock:
            return [
                PartitionCleaning(
                    state.log.topic,
                    state.log.partition,
                    state.eligibility,
                    state.as_of_ms,
                    state.in_work,
                    state.checkpoint,
                    state.failure,
                    state.failures,
                    state.damaged,
                    state.passes,
                    state.last_pass,
                    state.last_pass_ms,
                    min((state.horizons or {}).values(), default=None),
                    dirty_section(state.log, state.checkpoint),
                )
                for state in self._states.values()
                if state.eligibility is not None and id(state.log) in live
            ]

    def is_in_work(self, log: UnifiedLog) -> bool:
        """True while a thread cleans `log`."""
        return self._state(log).in_work

    def failed_attempts(self, log: UnifiedLog) -> int:
        """Number of failed passes in a row."""
        failure = self._state(log).failure
        return 0 if failure is None else failure.attempts

    def passes(self, log: UnifiedLog) -> tuple[int, PassResult | None]:
        """Number of completed passes since the start, and the result of the last one."""
        state = self._state(log)
        with self._lock:
            return state.passes, state.last_pass

    def uncleanable(self) -> list[tuple[str, Failure]]:
        """(name, failure) of each partition whose last pass failed."""
        live = {id(log) for log in self._logs.logs()}
        with self._lock:
            return [
                (state.log.name, state.failure)
                for state in self._states.values()
                if state.failure is not None and id(state.log) in live
            ]


class _Watch:
    """Stops a pass for its thread's reasons (`control`) or the partition's: an abort, a policy without compact, a
    failed log.
    """

    def __init__(self, state: _State, control: PassControl) -> None:
        self._state = state
        self._control = control

    def check(self) -> None:
        self._control.check()
        state = self._state
        if state.abort is not None:
            raise CleaningAborted(f"{state.log.name}: cleaning was aborted: {state.abort}")
        if state.log.failure is not None:
            raise CleaningAborted(f"{state.log.name}: cleaning was aborted: {state.log.failure}")
        if COMPACT_POLICY not in state.log.config.cleanup_policy:
            raise CleaningAborted(f"{state.log.name}: cleaning was aborted: it is no longer compacted")

    def wait(self, milliseconds: float) -> None:
        self.check()
        self._control.wait(milliseconds)


def _urgency(found: Eligibility) -> tuple[bool, float]:
    return found.reason is Reason.MAX_LAG, found.dirty_ratio


def _data_directory(log: UnifiedLog) -> str:
    return log.directory.rpartition("/")[0] or "/"


def _report(log: UnifiedLog, found: Eligibility, result: PassResult) -> None:
    counts = result.counts
    logger.info(
        "%s: cleaned offsets %d to %d in %.1f s (%s): %d of %d records and %d of %d bytes are left; map %.0f %% full",
        log.name,
        result.first_dirty,
        result.end_offset,
        result.elapsed_ms / 1000,
        found.reason.value if found.reason is not None else "asked for",
        counts.records_kept,
        counts.records_read,
        counts.bytes_kept,
        counts.bytes_read,
        result.map_utilization * 100,
    )


def _end_to_reach(state: _State) -> int | None:
    """End offset at which a pass makes up for the interrupted one; None: none was. The caller has the manager's lock."""
    if state.interrupted_end is None:
        return None
    # A log that was cut meanwhile (a truncation after a failed disk) has no pass that would come to the old end.
    return min(state.interrupted_end, state.log.segments[-1].base_offset)
