"""What `/metrics` says of the cleaner: Apache Kafka's own nine gauges by meaning, and for each partition what users ask for.

Reads values that cleaner threads left behind; no log is looked at for a scrape, so partitions appear once they were examined
and their numbers are as of then (at most log.cleaner.backoff.ms ago where threads are idle).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from ...cleaner.eligibility import Cause
from ..runtime.metric_family import Family

if TYPE_CHECKING:
    from ...cleaner.cleaner_manager import PartitionCleaning
    from ...cleaner.cleaner_pool import ThreadState
    from ...cleaner.cleaning import PassResult
    from ..cleaning.service import LogCleaner

_LABELS = ("topic", "partition")
_STATES = ("in_work", "due", "waiting", "clean", "uncleanable")
_CAUSES = ("superseded", "tombstones_expired", "aborted", "keyless", "markers_expired", "below_start")


def _one(name: str, text: str, value: float, kind: str = "gauge") -> Family:
    return Family(f"tidelog_cleaner_{name}", kind, text, (), [((), value)])


def cleaner_families(cleaner: LogCleaner, now_ms: int, told: Container[tuple[str, int]] | None) -> Iterator[Family]:
    """Every metric of the cleaner, and those of single partitions for `told`; None: for none. Any thread; no I/O."""
    manager, pool = cleaner.manager, cleaner.pool
    results = pool.results()
    partitions = [one for one in manager.partitions() if one.eligibility.cause is not Cause.NOT_COMPACTED]
    failed = [one for one in partitions if one.failure is not None]
    yield _one("max_dirty_percent", "Dirty share of the dirtiest log.", 100 * manager.max_dirty_ratio)
    yield _one("uncleanable_partitions", "Partitions whose last pass failed.", len(failed))
    yield _one(
        "uncleanable_bytes", "Dirty bytes of those partitions.", sum(one.eligibility.dirty_bytes for one in failed)
    )
    yield _one("max_clean_time_seconds", "Longest last pass of any thread.",
               max((result.elapsed_ms for result in results), default=0) / 1000)  # fmt: skip
    yield _one("max_buffer_utilization_percent", "Fullest map of keys in any thread's last pass.",
               100 * max((result.map_utilization for result in results), default=0.0))  # fmt: skip
    yield _one(
        "recopy_percent", "Bytes kept for bytes read, in the last pass of each thread.", _recopy_percent(results)
    )
    yield _one("max_compaction_delay_seconds", "For how long max.compaction.lag.ms has been due for the oldest record.",
               manager.max_overdue_ms / 1000)  # fmt: skip
    yield _one("time_since_last_run_seconds", "Since a thread last looked for work.",
               max(0, now_ms - manager.last_run_ms) / 1000)  # fmt: skip
    yield _one("dead_threads", "Cleaner threads that have died.", pool.dead_threads)
    yield _one("enabled", "1 when compacted topics are cleaned.", int(cleaner.is_enabled))
    yield _one("threads", "Cleaner threads.", pool.thread_count)
    yield _one("busy_seconds", "Time that cleaner threads spent in passes.", pool.busy_ms / 1000, "counter")
    yield _one("idle_seconds", "Time that cleaner threads waited for work.", pool.idle_ms / 1000, "counter")
    yield Family("tidelog_cleaner_thread_state", "gauge", "1 beside what each thread does: cleaning, idle or dead.",
                 ("thread", "state"), [((str(one.number), _thread_state(one)), 1) for one in pool.threads()])  # fmt: skip
    states = Counter(_state(one) for one in partitions)
    yield Family("tidelog_cleaner_partitions", "gauge", "Compacted partitions by what the manager thinks of them: in work, due "
                 "for a pass, waiting for something, clean, or uncleanable.", ("state",),
                 [((state,), states[state]) for state in _STATES])  # fmt: skip
    yield _one("max_dirty_age_seconds", "Age of the oldest record of any log that was not cleaned with all before it.",
               max((_dirty_age(one, now_ms) or 0.0 for one in partitions), default=0.0))  # fmt: skip
    yield _one("throttled_seconds", "Time that cleaner threads waited for the throttle.",
               pool.throttler.waited_ms / 1000, "counter")  # fmt: skip
    yield _one("io_bytes", "Bytes that cleaner threads read and wrote.", pool.throttler.total_bytes, "counter")
    if told is not None:
        yield from _partition_families([one for one in partitions if (one.topic, one.partition) in told], now_ms)


def _recopy_percent(results: list[PassResult]) -> float:
    read = sum(result.counts.bytes_read for result in results)
    return 100 * sum(result.counts.bytes_kept for result in results) / read if read else 0.0


def _partition_families(partitions: list[PartitionCleaning], now_ms: int) -> Iterator[Family]:
    def family(name: str, text: str, values: list[float | None], kind: str = "gauge") -> Family:
        rows = [
            ((one.topic, str(one.partition)), value)
            for one, value in zip(partitions, values, strict=True)
            if value is not None
        ]
        return Family(f"tidelog_cleaner_{name}", kind, text, _LABELS, rows)

    last = [one.last_pass for one in partitions]
    yield family(
        "dirty_ratio", "Dirty share of the log, by bytes.", [one.eligibility.dirty_ratio for one in partitions]
    )
    yield family("dirty_ratio_threshold", "Share that it must exceed for a pass.",
                 [one.eligibility.threshold for one in partitions])  # fmt: skip
    yield family("clean_bytes", "Bytes that were cleaned.", [one.eligibility.clean_bytes for one in partitions])
    yield family(
        "dirty_bytes", "Bytes that a pass could clean now.", [one.eligibility.dirty_bytes for one in partitions]
    )
    yield family(
        "first_dirty_offset", "Where the dirty part begins.", [one.eligibility.first_dirty for one in partitions]
    )
    yield family("first_uncleanable_offset", "Where what must stay as it is begins.",
                 [one.eligibility.first_uncleanable for one in partitions])  # fmt: skip
    yield family("dirty_age_seconds", "Age of the first record that was not cleaned with all before it: nothing superseded has "
                 "been kept for longer. By its timestamp.",
                 [_dirty_age(one, now_ms) for one in partitions])  # fmt: skip
    yield family("live_bytes", "Bytes below the dirty part: what the last pass has left. The log's bytes over these are its "
                 "space amplification.", [one.section.clean_bytes for one in partitions])  # fmt: skip
    yield family("future_dated_bytes", "Dirty bytes that min.compaction.lag.ms holds since a record is dated in the future.",
                 [one.eligibility.future_bytes for one in partitions])  # fmt: skip
    yield Family("tidelog_cleaner_first_uncleanable_cause", "gauge", "1 beside what makes the rest of the log stay as it is: "
                 "the active segment, an open transaction, or min.compaction.lag.ms.", (*_LABELS, "cause"),
                 [((one.topic, str(one.partition), one.eligibility.held_by.name.lower()), 1)
                  for one in partitions])  # fmt: skip
    yield Family("tidelog_cleaner_state", "gauge", "1 beside why a log is cleaned now, or is not.", (*_LABELS, "cause"),
                 [((one.topic, str(one.partition), _cause(one)), 1) for one in partitions])  # fmt: skip
    yield family("compaction_overdue_seconds", "For how long max.compaction.lag.ms has been due.",
                 [one.eligibility.overdue_ms / 1000 for one in partitions])  # fmt: skip
    yield family("next_horizon_timestamp_seconds", "When the next deletion mark or transaction marker may go.",
                 [None if one.next_horizon_ms is None else one.next_horizon_ms / 1000 for one in partitions])  # fmt: skip
    yield family("passes", "Passes that came to their end.", [one.passes for one in partitions], "counter")
    yield family("failures", "Passes that failed.", [one.failures for one in partitions], "counter")
    yield family("damaged_batches", "Passes that met a damaged batch and gave the log up: it is served as it is.",
                 [one.damaged for one in partitions], "counter")  # fmt: skip
    yield family("failed_attempts", "Failed passes in a row; 0: the last one did not fail.",
                 [0 if one.failure is None else one.failure.attempts for one in partitions])  # fmt: skip
    broken = [one.failure for one in partitions]
    yield Family("tidelog_cleaner_uncleanable", "gauge", "1 beside the kind of error that the last pass died of.",
                 (*_LABELS, "error"), [((one.topic, str(one.partition), failure.cause.partition(":")[0]), 1)
                 for one, failure in zip(partitions, broken, strict=True) if failure is not None])  # fmt: skip
    yield family("uncleanable_since_timestamp_seconds", "When it failed first, in a row.",
                 [None if failure is None else failure.since_ms / 1000 for failure in broken])  # fmt: skip
    yield family("retry_timestamp_seconds", "When it is tried again at the latest.",
                 [None if failure is None else failure.retry_ms / 1000 for failure in broken])  # fmt: skip
    yield family("last_pass_timestamp_seconds", "When the last pass came to its end.",
                 [None if one.last_pass is None else one.last_pass_ms / 1000 for one in partitions])  # fmt: skip
    yield family(
        "last_pass_seconds", "How long the last pass took.", [None if r is None else r.elapsed_ms / 1000 for r in last]
    )
    yield family(
        "last_pass_read_bytes", "Bytes that it read.", [None if r is None else r.counts.bytes_read for r in last]
    )
    yield family(
        "last_pass_kept_bytes", "Bytes that it kept.", [None if r is None else r.counts.bytes_kept for r in last]
    )
    yield family("last_pass_bytes_per_second", "Bytes that it read in its second walk, over the time of both.",
                 [None if r is None or not r.elapsed_ms else r.counts.bytes_read * 1000 / r.elapsed_ms
                  for r in last])  # fmt: skip
    yield family(
        "last_pass_map_keys", "Distinct keys in its map.", [None if r is None else r.map_entries for r in last]
    )
    yield family(
        "last_pass_map_utilization",
        "How full its map of keys was: distinct keys over entries of 24 bytes.",
        [None if r is None else r.map_utilization for r in last],
    )
    yield family("last_pass_tombstones_kept", "Deletion marks that wait for their time.",
                 [None if r is None else r.counts.tombstones_kept for r in last])  # fmt: skip
    yield family("last_pass_markers_kept", "Transaction markers that are still there.",
                 [None if r is None else r.counts.markers_kept for r in last])  # fmt: skip
    removed = [
        ((one.topic, str(one.partition), cause), float(getattr(result.counts, cause)))
        for one, result in zip(partitions, last, strict=True)
        if result is not None
        for cause in _CAUSES
    ]
    yield Family("tidelog_cleaner_last_pass_removed_records", "gauge", "Records that it removed, by cause.",
                 (*_LABELS, "cause"), removed)  # fmt: skip


def _dirty_age(one: PartitionCleaning, now_ms: int) -> float | None:
    """Seconds; None where nothing is dirty, or the time of the first dirty record is not known."""
    began_ms = one.section.first_timestamp
    return None if began_ms < 0 else max(0, now_ms - began_ms) / 1000


def _thread_state(thread: ThreadState) -> str:
    if not thread.is_alive:
        return "dead"
    return "idle" if thread.log_name is None else "cleaning"


def _state(one: PartitionCleaning) -> str:
    """One of _STATES."""
    if one.in_work:
        return "in_work"
    if one.failure is not None:
        return "uncleanable"
    if one.eligibility.reason is not None:
        return "due"
    return "clean" if one.eligibility.cause is Cause.CLEAN else "waiting"


def _cause(one: PartitionCleaning) -> str:
    found = one.eligibility
    if one.failure is not None:
        return "uncleanable"
    if one.in_work:
        return "in_work"
    return (found.reason or found.cause or found.held_by).name.lower()
