"""Metrics of logs and their disks. Any thread but the loop's: reads published values, opens no file.

Sums over all logs are always told; what has topic and partition in its labels only with metrics.per.topic, and of at most
metrics.max.partitions.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from ...storage.retention.plan import Deleted
from ..runtime.durability import LEVELS
from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, Metric, Table, families_of, families_of_each
from .health import flush_is_behind
from .partitions import ledger_metrics, offset_metrics, partition_metrics, retention_metrics, seen

if TYPE_CHECKING:
    from ...storage.io.disk_space import DiskSpace
    from ...storage.io.write_pace import WritePace
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.manager.move import LogMove
    from ..partitions.append_offload import AppendOffload
    from ..partitions.log_mover import LogMover
    from ..requests.services import Services

_NONE = Deleted(0, 0)


def shown_logs(logs: Sequence[UnifiedLog], most: int) -> list[UnifiedLog]:
    """Choose at most `most` logs that get rows of their own: failed ones and the largest, in their order. Clients decide how many
    logs there are.
    """
    if len(logs) <= most:
        return list(logs)
    weights = [(log.failure is not None, log.size) for log in logs]
    largest = nlargest(most, range(len(logs)), key=weights.__getitem__)
    return [logs[index] for index in sorted(largest)]


class LogMetrics:
    """Everything of logs, retention and disks. Remembers what it told of logs that are deleted since: a counter never falls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int, object], dict[str, Deleted]] = {}
        self._deleted: dict[str, Deleted] = {}

    def families(
        self, services: Services, logs: Sequence[UnifiedLog], shown: Sequence[UnifiedLog]
    ) -> Iterator[AnyFamily]:
        """Metrics of all logs together, and of each of `shown`."""
        now_ms = services.time.milliseconds()
        yield from families_of(sum_metrics(), All(logs, now_ms))
        yield from families_of(deletion_metrics(), self.deletions(logs))
        yield from families_of_each(space_metrics(), [((path,), space) for path, space in services.logs.spaces])
        yield from families_of_each(pace_metrics(), paces_of(services.logs.paces, services.partitions.offloads))
        yield from families_of(move_metrics(), Moves(services.logs.moves(), services.mover.if_made))
        yield from families_of(omission_metrics(), len(logs) - len(shown))
        places = seen(shown, now_ms)
        for table in (offset_metrics, partition_metrics, retention_metrics, ledger_metrics):
            yield from families_of_each(table(), places)

    def deletions(self, logs: Sequence[UnifiedLog]) -> dict[str, Deleted]:
        """Deleted segments and bytes by policy, of all logs that existed at any scrape."""
        with self._lock:
            found: dict[tuple[str, int, object], dict[str, Deleted]] = {}
            for log in logs:
                key = (log.topic, log.partition, log.topic_id)
                before, now = self._seen.get(key, {}), log.retention.deleted
                found[key] = now
                for policy, deleted in now.items():
                    known = before.get(policy, _NONE)
                    total = self._deleted.get(policy, _NONE)
                    self._deleted[policy] = Deleted(
                        total.segments + deleted.segments - known.segments, total.bytes + deleted.bytes - known.bytes
                    )
            self._seen = found
            return dict(sorted(self._deleted.items()))


class All(NamedTuple):
    """All logs at the moment of a scrape."""

    logs: Sequence[UnifiedLog]
    now_ms: int


class Moves(NamedTuple):
    """Logs on their way to another log directory, and who moves them: None where there was nothing to move yet."""

    under_way: Sequence[LogMove]
    mover: LogMover | None


class Paces(NamedTuple):
    """One log directory: the pace of its writes, and its append offload if it has one."""

    pace: WritePace
    offload: AppendOffload | None


def paces_of(
    paces: Sequence[tuple[str, WritePace]], directories: Mapping[str, AppendOffload]
) -> list[tuple[tuple[str], Paces]]:
    """Each directory with its path as a label."""
    return [((path,), Paces(pace, directories.get(path))) for path, pace in paces]


# fmt: off
@cache
def sum_metrics() -> Table[All]:
    """Metrics of all logs together."""
    return (
        Metric("tidelog_partitions", GAUGE, "Partitions with a log here.", lambda every: len(every.logs)),
        Metric("tidelog_segments", GAUGE, "Segments of all logs.", lambda every: sum(log.segment_count for log in every.logs)),
        Metric("tidelog_logs", GAUGE, "Logs by when an answer to a produce is sent.", _levels, ("durability",)),
        Metric("tidelog_logs_bytes", GAUGE, "Bytes of all segments' .log files.",
               lambda every: sum(log.size for log in every.logs)),
        Metric("tidelog_failed_partitions", GAUGE,
               "Partitions that take no records until a restart: a sync of theirs failed.",
               lambda every: sum(log.failure is not None for log in every.logs)),
        Metric("tidelog_log_holes", GAUGE, "Stretches of offsets that were lost to damage, by .damaged files.",
               lambda every: sum(len(log.holes) for log in every.logs)),
        Metric("tidelog_max_lso_lag_offsets", GAUGE,
               "Offsets that open transactions hold back, of the partition with most.",
               lambda every: max((log.high_watermark - log.last_stable_offset for log in every.logs), default=0)),
        Metric("tidelog_max_open_transaction_seconds", GAUGE, "How long the oldest open transaction of any partition has been "
               "open, also of those without rows of their own.", _open_transaction_s),
        Metric("tidelog_max_unsynced_seconds", GAUGE, "Age of the oldest record that no sync has covered. Not a fault where "
               "flush.ms and flush.messages are not set: then the system writes pages back in its own time.",
               lambda every: max((log.local.unsynced_ms(every.now_ms) for log in every.logs), default=0) / 1000),
        Metric("tidelog_flush_behind_partitions", GAUGE,
               "Partitions whose sync is late by their flush.ms or flush.messages.",
               lambda every: sum(flush_is_behind(log, every.now_ms) for log in every.logs)),
    )


@cache
def deletion_metrics() -> Table[Mapping[str, Deleted]]:
    """By policy, of all logs since the start."""
    return (
        Metric("tidelog_retention_segments", COUNTER, "Segments deleted, by the policy that named them.",
               lambda totals: {policy: deleted.segments for policy, deleted in totals.items()}, ("policy",)),
        Metric("tidelog_retention_bytes", COUNTER, "Bytes of their .log files.",
               lambda totals: {policy: deleted.bytes for policy, deleted in totals.items()}, ("policy",)),
    )


@cache
def space_metrics() -> Table[DiskSpace]:
    """Room on the disks of the log directories, see log.dir.reserve.bytes. -1: not looked at yet."""
    directory = ("directory",)
    return (
        Metric("tidelog_log_dir_free_bytes", GAUGE, "Free bytes on the directory's disk.",
               lambda space: space.free_bytes, directory),
        Metric("tidelog_log_dir_reserve_bytes", GAUGE, "Free bytes at which appends are refused (log.dir.reserve.bytes).",
               lambda space: space.reserve, directory),
        Metric("tidelog_log_dir_full", GAUGE, "1 while appends are refused for lack of room.",
               lambda space: space.is_full, directory),
        Metric("tidelog_log_dir_refused_appends", COUNTER, "Appends that were refused so.",
               lambda space: space.refused, directory),
    )


@cache
def pace_metrics() -> Table[Paces]:
    """Metrics of appends' writes by log directory: how long they take, and how many go through a thread. A scrape forgets the
    longest write.
    """
    directory = ("directory",)
    return (
        Metric("tidelog_log_directory_slow", GAUGE, "1 from a write of 100 ms on until writes have been quick for 10 s: "
               "clients' appends go through a thread.", lambda paces: int(paces.pace.is_slow), directory),
        Metric("tidelog_log_directory_slow_writes", COUNTER, "Appends whose write took 100 ms or longer.",
               lambda paces: paces.pace.slow_writes, directory),
        Metric("tidelog_log_directory_longest_write_seconds", GAUGE, "The longest write of an append since the last scrape.",
               lambda paces: paces.pace.take_longest(), directory),
        Metric("tidelog_log_directory_thread_appends", COUNTER,
               "Appends that went through the directory's writer thread.",
               lambda paces: paces.offload.submitted if paces.offload else 0, directory),
        Metric("tidelog_log_directory_thread_queue_bytes", GAUGE, "Bytes of batches that this thread has still to write.",
               lambda paces: paces.offload.queued_bytes if paces.offload else 0, directory),
    )


@cache
def move_metrics() -> Table[Moves]:
    """Logs on their way to another log directory."""
    return (
        Metric("tidelog_log_moves_in_progress", GAUGE,
               "Logs that are being moved to another log directory, or wait for it.", lambda moves: len(moves.under_way)),
        Metric("tidelog_log_moves_lag_offsets", GAUGE, "Offsets that are still missing there, of all of them together.",
               lambda moves: sum(move.offset_lag for move in moves.under_way)),
        Metric("tidelog_log_moves", COUNTER, "Moves of logs to another log directory that have ended, by how.",
               lambda moves: None if moves.mover is None else {
                   "moved": moves.mover.moved, "cancelled": moves.mover.cancelled, "failed": moves.mover.failed},
               ("outcome",)),
        Metric("tidelog_log_moves_copied_bytes", COUNTER, "Bytes of .log files that were copied for them.",
               lambda moves: 0 if moves.mover is None else moves.mover.copied_bytes),
    )


@cache
def omission_metrics() -> Table[int]:
    """Number of partitions without rows."""
    return (
        Metric("tidelog_partitions_omitted", GAUGE, "Partitions that have no rows of their own, see metrics.max.partitions "
               "and metrics.per.topic: they are in the sums.", lambda omitted: omitted),
    )
# fmt: on


def _open_transaction_s(every: All) -> float:
    """Looks, under its lock, only at logs of which something is held back."""
    held = (log.oldest_transaction() for log in every.logs if log.last_stable_offset < log.high_watermark)
    began_ms = min((found.began_ms for found in held if found is not None), default=every.now_ms)
    return max(0, every.now_ms - began_ms) / 1000


def _levels(every: All) -> dict[str, float]:
    counts = Counter(log.config.durability for log in every.logs)
    return {level: float(counts[level]) for level in LEVELS}
