"""Metrics of the cleaner: Apache Kafka's own nine gauges by meaning, and what users ask for of each partition.

Reads values that cleaner threads left behind; no log is looked at for a scrape, so partitions appear once they were examined
and their numbers are as of then (at most log.cleaner.backoff.ms ago where threads are idle). Any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ...cleaner.eligibility import Cause
from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, Metric, Table, families_of, families_of_each

if TYPE_CHECKING:
    from ...cleaner.cleaner_manager import Failure, PartitionCleaning
    from ...cleaner.cleaner_pool import ThreadState
    from ...cleaner.cleaning import PassResult
    from ..cleaning.service import LogCleaner

_LABELS = ("topic", "partition")
_STATES = ("in_work", "due", "waiting", "clean", "uncleanable")
_CAUSES = ("superseded", "tombstones_expired", "aborted", "keyless", "markers_expired", "below_start")


class Seen(NamedTuple):
    """The cleaner at the moment of a scrape."""

    cleaner: LogCleaner
    now_ms: int
    partitions: Sequence[PartitionCleaning]
    """Partitions with a compaction policy."""
    failed: Sequence[PartitionCleaning]
    results: Sequence[PassResult]
    """Result of each cleaner thread's last pass."""


class Dirt(NamedTuple):
    """A partition, and the age of its dirty part."""

    of: PartitionCleaning
    age_s: float | None


def cleaner_families(cleaner: LogCleaner, now_ms: int, shown: Container[tuple[str, int]] | None) -> Iterator[AnyFamily]:
    """Every metric of the cleaner, and those of single partitions for `shown`; None: for none. No I/O."""
    partitions = [found for found in cleaner.manager.partitions() if found.eligibility.cause is not Cause.NOT_COMPACTED]
    failed = [found for found in partitions if found.failure is not None]
    yield from families_of(cleaner_metrics(), Seen(cleaner, now_ms, partitions, failed, cleaner.pool.results()))
    if shown is not None:
        places = [
            ((found.topic, str(found.partition)), Dirt(found, _dirty_age(found, now_ms)))
            for found in partitions
            if (found.topic, found.partition) in shown
        ]
        for table in (dirt_metrics, pass_metrics, last_pass_metrics):
            yield from families_of_each(table(), places)


# fmt: off
@cache
def cleaner_metrics() -> Table[Seen]:
    """Metrics of the cleaner as a whole."""
    return (
        Metric("tidelog_cleaner_max_dirty_percent", GAUGE, "Dirty share of the dirtiest log.",
               lambda seen: 100 * seen.cleaner.manager.max_dirty_ratio),
        Metric("tidelog_cleaner_uncleanable_partitions", GAUGE, "Partitions whose last pass failed.",
               lambda seen: len(seen.failed)),
        Metric("tidelog_cleaner_uncleanable_bytes", GAUGE, "Dirty bytes of those partitions.",
               lambda seen: sum(found.eligibility.dirty_bytes for found in seen.failed)),
        Metric("tidelog_cleaner_max_clean_time_seconds", GAUGE, "Longest last pass of any thread.",
               lambda seen: max((result.elapsed_ms for result in seen.results), default=0) / 1000),
        Metric("tidelog_cleaner_max_buffer_utilization_percent", GAUGE, "Fullest map of keys in any thread's last pass.",
               lambda seen: 100 * max((result.map_utilization for result in seen.results), default=0.0)),
        Metric("tidelog_cleaner_recopy_percent", GAUGE, "Bytes kept for bytes read, in the last pass of each thread.",
               lambda seen: _recopy_percent(seen.results)),
        Metric("tidelog_cleaner_max_compaction_delay_seconds", GAUGE,
               "For how long max.compaction.lag.ms has been due for the oldest record.",
               lambda seen: seen.cleaner.manager.max_overdue_ms / 1000),
        Metric("tidelog_cleaner_time_since_last_run_seconds", GAUGE, "Since a thread last looked for work.",
               lambda seen: max(0, seen.now_ms - seen.cleaner.manager.last_run_ms) / 1000),
        Metric("tidelog_cleaner_dead_threads", GAUGE, "Cleaner threads that have died.",
               lambda seen: seen.cleaner.pool.dead_threads),
        Metric("tidelog_cleaner_enabled", GAUGE, "1 when compacted topics are cleaned.",
               lambda seen: int(seen.cleaner.is_enabled)),
        Metric("tidelog_cleaner_threads", GAUGE, "Cleaner threads.", lambda seen: seen.cleaner.pool.thread_count),
        Metric("tidelog_cleaner_busy_seconds", COUNTER, "Time that cleaner threads spent in passes.",
               lambda seen: seen.cleaner.pool.busy_ms / 1000),
        Metric("tidelog_cleaner_idle_seconds", COUNTER, "Time that cleaner threads waited for work.",
               lambda seen: seen.cleaner.pool.idle_ms / 1000),
        Metric("tidelog_cleaner_thread_state", GAUGE, "1 beside what each thread does: cleaning, idle or dead.",
               lambda seen: {(str(thread.number), _thread_state(thread)): 1 for thread in seen.cleaner.pool.threads()},
               ("thread", "state")),
        Metric("tidelog_cleaner_partitions", GAUGE, "Compacted partitions by what the manager thinks of them: in work, due "
               "for a pass, waiting for something, clean, or uncleanable.", _states, ("state",)),
        Metric("tidelog_cleaner_max_dirty_age_seconds", GAUGE,
               "Age of the oldest record of any log that was not cleaned with all before it.",
               lambda seen: max((_dirty_age(found, seen.now_ms) or 0.0 for found in seen.partitions), default=0.0)),
        Metric("tidelog_cleaner_throttled_seconds", COUNTER, "Time that cleaner threads waited for the throttle.",
               lambda seen: seen.cleaner.pool.throttler.waited_ms / 1000),
        Metric("tidelog_cleaner_io_bytes", COUNTER, "Bytes that cleaner threads read and wrote.",
               lambda seen: seen.cleaner.pool.throttler.total_bytes),
        Metric("tidelog_cleaner_processes", GAUGE, "Processes in which passes read and write; each ends a minute after its last.",
               lambda seen: len(seen.cleaner.pool.processes.pids)),
        Metric("tidelog_cleaner_process_starts", COUNTER, "Processes that were started for passes.",
               lambda seen: seen.cleaner.pool.processes.started),
        Metric("tidelog_cleaner_process_failures", COUNTER, "Passes that failed for their process: it could not be started, has "
               "ended (was killed), has said nothing for five minutes, or what it can't mean.",
               lambda seen: {why.value: count for why, count in seen.cleaner.pool.processes.troubles.items()}, ("cause",)),
        Metric("tidelog_cleaner_process_cpu_seconds", COUNTER, "Processor time of those processes, beside the daemon's own.",
               lambda seen: seen.cleaner.pool.processes.cpu_s),
        Metric("tidelog_cleaner_process_resident_bytes", GAUGE, "Memory of those processes, beside the daemon's own.",
               lambda seen: seen.cleaner.pool.processes.resident_bytes),
    )


@cache
def dirt_metrics() -> Table[Dirt]:
    """Metrics of a partition's dirty section, and of why it is cleaned or not."""
    return (
        Metric("tidelog_cleaner_dirty_ratio", GAUGE, "Dirty share of the log, by bytes.",
               lambda dirt: dirt.of.eligibility.dirty_ratio, _LABELS),
        Metric("tidelog_cleaner_dirty_ratio_threshold", GAUGE, "Share that it must exceed for a pass.",
               lambda dirt: dirt.of.eligibility.threshold, _LABELS),
        Metric("tidelog_cleaner_clean_bytes", GAUGE, "Bytes that were cleaned.",
               lambda dirt: dirt.of.eligibility.clean_bytes, _LABELS),
        Metric("tidelog_cleaner_dirty_bytes", GAUGE, "Bytes that a pass could clean now.",
               lambda dirt: dirt.of.eligibility.dirty_bytes, _LABELS),
        Metric("tidelog_cleaner_first_dirty_offset", GAUGE, "Where the dirty part begins.",
               lambda dirt: dirt.of.eligibility.first_dirty, _LABELS),
        Metric("tidelog_cleaner_first_uncleanable_offset", GAUGE, "Where what must stay as it is begins.",
               lambda dirt: dirt.of.eligibility.first_uncleanable, _LABELS),
        Metric("tidelog_cleaner_dirty_age_seconds", GAUGE, "Age of the first record that was not cleaned with all before it: "
               "nothing superseded has been kept for longer. By its timestamp.", lambda dirt: dirt.age_s, _LABELS),
        Metric("tidelog_cleaner_live_bytes", GAUGE, "Bytes below the dirty part: what the last pass has left. The log's bytes "
               "over these are its space amplification.", lambda dirt: dirt.of.section.clean_bytes, _LABELS),
        Metric("tidelog_cleaner_future_dated_bytes", GAUGE,
               "Dirty bytes that min.compaction.lag.ms holds since a record is dated in the future.",
               lambda dirt: dirt.of.eligibility.future_bytes, _LABELS),
        Metric("tidelog_cleaner_first_uncleanable_cause", GAUGE, "1 beside what makes the rest of the log stay as it is: "
               "the active segment, an open transaction, or min.compaction.lag.ms.",
               lambda dirt: {dirt.of.eligibility.held_by.name.lower(): 1}, (*_LABELS, "cause")),
        Metric("tidelog_cleaner_state", GAUGE, "1 beside why a log is cleaned now, or is not.",
               lambda dirt: {_cause(dirt.of): 1}, (*_LABELS, "cause")),
        Metric("tidelog_cleaner_compaction_overdue_seconds", GAUGE, "For how long max.compaction.lag.ms has been due.",
               lambda dirt: dirt.of.eligibility.overdue_ms / 1000, _LABELS),
        Metric("tidelog_cleaner_next_horizon_timestamp_seconds", GAUGE,
               "When the next deletion mark or transaction marker may go.",
               lambda dirt: None if dirt.of.next_horizon_ms is None else dirt.of.next_horizon_ms / 1000, _LABELS),
    )


@cache
def pass_metrics() -> Table[Dirt]:
    """Metrics of the passes over a partition: how they ended."""
    return (
        Metric("tidelog_cleaner_passes", COUNTER, "Passes that came to their end.", lambda dirt: dirt.of.passes, _LABELS),
        Metric("tidelog_cleaner_failures", COUNTER, "Passes that failed.", lambda dirt: dirt.of.failures, _LABELS),
        Metric("tidelog_cleaner_damaged_batches", COUNTER,
               "Passes that met a damaged batch and gave the log up: it is served as it is.",
               lambda dirt: dirt.of.damaged, _LABELS),
        Metric("tidelog_cleaner_failed_attempts", GAUGE, "Failed passes in a row; 0: the last one did not fail.",
               lambda dirt: 0 if dirt.of.failure is None else dirt.of.failure.attempts, _LABELS),
        Metric("tidelog_cleaner_uncleanable", GAUGE, "1 beside the kind of error that the last pass died of.",
               lambda dirt: None if dirt.of.failure is None else {dirt.of.failure.cause.partition(":")[0]: 1},
               (*_LABELS, "error")),
        Metric("tidelog_cleaner_uncleanable_since_timestamp_seconds", GAUGE, "When it failed first, in a row.",
               _of_failure(lambda failure: failure.since_ms / 1000), _LABELS),
        Metric("tidelog_cleaner_retry_timestamp_seconds", GAUGE, "When it is tried again at the latest.",
               _of_failure(lambda failure: failure.retry_ms / 1000), _LABELS),
        Metric("tidelog_cleaner_last_pass_timestamp_seconds", GAUGE, "When the last pass came to its end.",
               lambda dirt: None if dirt.of.last_pass is None else dirt.of.last_pass_ms / 1000, _LABELS),
    )


@cache
def last_pass_metrics() -> Table[Dirt]:
    """Metrics of the last pass over a partition; no rows before the first."""
    return (
        Metric("tidelog_cleaner_last_pass_seconds", GAUGE, "How long the last pass took.",
               _of_last(lambda last: last.elapsed_ms / 1000), _LABELS),
        Metric("tidelog_cleaner_last_pass_read_bytes", GAUGE, "Bytes that it read.",
               _of_last(lambda last: last.counts.bytes_read), _LABELS),
        Metric("tidelog_cleaner_last_pass_kept_bytes", GAUGE, "Bytes that it kept.",
               _of_last(lambda last: last.counts.bytes_kept), _LABELS),
        Metric("tidelog_cleaner_last_pass_bytes_per_second", GAUGE,
               "Bytes that it read in its second walk, over the time of both.",
               _of_last(lambda last: last.counts.bytes_read * 1000 / last.elapsed_ms if last.elapsed_ms else None), _LABELS),
        Metric("tidelog_cleaner_last_pass_map_keys", GAUGE, "Distinct keys in its map.",
               _of_last(lambda last: last.map_entries), _LABELS),
        Metric("tidelog_cleaner_last_pass_map_utilization", GAUGE,
               "How full its map of keys was: distinct keys over entries of 24 bytes.",
               _of_last(lambda last: last.map_utilization), _LABELS),
        Metric("tidelog_cleaner_last_pass_tombstones_kept", GAUGE, "Deletion marks that wait for their time.",
               _of_last(lambda last: last.counts.tombstones_kept), _LABELS),
        Metric("tidelog_cleaner_last_pass_markers_kept", GAUGE, "Transaction markers that are still there.",
               _of_last(lambda last: last.counts.markers_kept), _LABELS),
        Metric("tidelog_cleaner_last_pass_removed_records", GAUGE, "Records that it removed, by cause.",
               lambda dirt: None if dirt.of.last_pass is None else {
                   cause: float(getattr(dirt.of.last_pass.counts, cause)) for cause in _CAUSES}, (*_LABELS, "cause")),
    )
# fmt: on


def _of_failure(read: Callable[[Failure], float]) -> Callable[[Dirt], float | None]:
    """Make a metric's `read` of one that needs the failure of a partition's last pass; no row for others."""
    return lambda dirt: None if dirt.of.failure is None else read(dirt.of.failure)


def _of_last(read: Callable[[PassResult], float | None]) -> Callable[[Dirt], float | None]:
    """Make a metric's `read` of one that needs the result of a partition's last pass; no row before the first."""
    return lambda dirt: None if dirt.of.last_pass is None else read(dirt.of.last_pass)


def _recopy_percent(results: Sequence[PassResult]) -> float:
    read = sum(result.counts.bytes_read for result in results)
    return 100 * sum(result.counts.bytes_kept for result in results) / read if read else 0.0


def _dirty_age(cleaning: PartitionCleaning, now_ms: int) -> float | None:
    """Seconds since the timestamp of the first dirty record; None where nothing is dirty, or it has none that is known."""
    began_ms = cleaning.section.first_timestamp
    return None if began_ms < 0 else max(0, now_ms - began_ms) / 1000


def _thread_state(thread: ThreadState) -> str:
    if not thread.is_alive:
        return "dead"
    return "idle" if thread.log_name is None else "cleaning"


def _states(seen: Seen) -> dict[str, float]:
    counts = Counter(_state(found) for found in seen.partitions)
    return {state: counts[state] for state in _STATES}


def _state(cleaning: PartitionCleaning) -> str:
    """State of a partition, one of _STATES."""
    if cleaning.in_work:
        return "in_work"
    if cleaning.failure is not None:
        return "uncleanable"
    if cleaning.eligibility.reason is not None:
        return "due"
    return "clean" if cleaning.eligibility.cause is Cause.CLEAN else "waiting"


def _cause(cleaning: PartitionCleaning) -> str:
    found = cleaning.eligibility
    if cleaning.failure is not None:
        return "uncleanable"
    if cleaning.in_work:
        return "in_work"
    return (found.reason or found.cause or found.held_by).name.lower()
