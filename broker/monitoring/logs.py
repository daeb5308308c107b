"""What `/metrics` says of logs and their disks. Any thread but the loop's: reads published values, opens no file.

Sums over all logs are always told; what has topic and partition in its labels only with metrics.per.topic, and of at most
metrics.max.partitions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING

from ...storage.retention.history import Deleted
from ..cleaning.ledger_facts import ledger_families
from ..runtime.durability import durability_family
from ..runtime.metric_family import Family, one
from .health import flush_is_behind
from .partitions import partition_families

if TYPE_CHECKING:
    from ...storage.io.disk_space import DiskSpace
    from ...storage.io.write_pace import WritePace
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.manager.move import LogMove
    from ..partitions.log_mover import LogMover
    from ..partitions.slow_directory import SlowDirectory
    from ..server import Broker

_PLACE = ("topic", "partition")
_NONE = Deleted(0, 0)


def told_logs(logs: Sequence[UnifiedLog], most: int) -> list[UnifiedLog]:
    """Those that have rows of their own: the ones that have failed and the largest, in their order. Clients decide how many logs
    there are."""
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

    def families(self, broker: Broker, logs: Sequence[UnifiedLog], told: Sequence[UnifiedLog]) -> Iterator[Family]:
        """Of all logs together, and of each of `told`."""
        now_ms = broker.time.milliseconds()
        yield from sum_families(logs, now_ms)
        yield from self.retention_totals(logs)
        yield from space_families(broker.logs.spaces)
        yield from pace_families(broker.logs.paces, broker.partitions.directories)
        yield from move_families(broker.logs.moves(), broker.known_mover)
        yield one("tidelog_partitions_omitted", "gauge", "Partitions that have no rows of their own, see metrics.max.partitions "
                  "and metrics.per.topic: they are in the sums.", len(logs) - len(told))  # fmt: skip
        yield from offset_families(told)
        yield from partition_families(told, now_ms)
        yield from retention_families(told, now_ms)
        yield from ledger_families(told)

    def retention_totals(self, logs: Sequence[UnifiedLog]) -> Iterator[Family]:
        """By policy, of all logs that were here at a scrape."""
        with self._lock:
            seen: dict[tuple[str, int, object], dict[str, Deleted]] = {}
            for log in logs:
                key = (log.topic, log.partition, log.topic_id)
                before, now = self._seen.get(key, {}), log.retention.deleted
                seen[key] = now
                for policy, deleted in now.items():
                    known = before.get(policy, _NONE)
                    total = self._deleted.get(policy, _NONE)
                    self._deleted[policy] = Deleted(
                        total.segments + deleted.segments - known.segments, total.bytes + deleted.bytes - known.bytes
                    )
            self._seen = seen
            totals = sorted(self._deleted.items())
        yield Family("tidelog_retention_segments", "counter", "Segments deleted, by the policy that named them.", ("policy",),
                     [((policy,), deleted.segments) for policy, deleted in totals])  # fmt: skip
        yield Family("tidelog_retention_bytes", "counter", "Bytes of their .log files.", ("policy",),
                     [((policy,), deleted.bytes) for policy, deleted in totals])  # fmt: skip


def sum_families(logs: Sequence[UnifiedLog], now_ms: int) -> Iterator[Family]:
    """Of all logs together."""
    yield one("tidelog_partitions", "gauge", "Partitions with a log here.", len(logs))
    yield one("tidelog_segments", "gauge", "Segments of all logs.", sum(log.segment_count for log in logs))
    yield durability_family(log.config for log in logs)
    yield one("tidelog_logs_bytes", "gauge", "Bytes of all segments' .log files.", sum(log.size for log in logs))
    yield one("tidelog_failed_partitions", "gauge", "Partitions that take no records until a restart: a sync of theirs failed.",
              sum(log.failure is not None for log in logs))  # fmt: skip
    yield one("tidelog_log_holes", "gauge", "Stretches of offsets that were lost to damage, by .damaged files.",
              sum(len(log.holes) for log in logs))  # fmt: skip
    yield one("tidelog_max_lso_lag_offsets", "gauge", "Offsets that open transactions hold back, of the partition with most.",
              max((log.high_watermark - log.last_stable_offset for log in logs), default=0))  # fmt: skip
    yield one("tidelog_max_unsynced_seconds", "gauge", "Age of the oldest record that no sync has covered. Not a fault where "
              "flush.ms and flush.messages are not set: then the system writes pages back in its own time.",
              max((log.unsynced_ms(now_ms) for log in logs), default=0) / 1000)  # fmt: skip
    yield one("tidelog_flush_behind_partitions", "gauge", "Partitions whose sync is late by their flush.ms or flush.messages.",
              sum(flush_is_behind(log, now_ms) for log in logs))  # fmt: skip


def offset_families(logs: Sequence[UnifiedLog]) -> Iterator[Family]:
    """Size and offsets of each log."""

    def per_log(name: str, text: str, values: Iterable[float]) -> Family:
        rows = [((log.topic, str(log.partition)), value) for log, value in zip(logs, values, strict=True)]
        return Family(name, "gauge", text, _PLACE, rows)

    yield per_log("tidelog_log_bytes", "Bytes of the partition's .log files.", (log.size for log in logs))
    yield per_log("tidelog_log_start_offset", "First offset that can be read.", (log.log_start_offset for log in logs))
    yield per_log("tidelog_log_end_offset", "Offset that the next record gets.", (log.log_end_offset for log in logs))
    yield per_log("tidelog_high_watermark", "Offset up to which consumers read.", (log.high_watermark for log in logs))


def retention_families(logs: Sequence[UnifiedLog], now_ms: int) -> Iterator[Family]:
    """What retention did, by partition and policy, and what records from the future keep it from."""
    labels = (*_PLACE, "policy")
    segments, sizes, failures = [], [], []
    for log in logs:
        place = (log.topic, str(log.partition))
        for policy, deleted in log.retention.deleted.items():
            segments.append(((*place, policy), deleted.segments))
            sizes.append(((*place, policy), deleted.bytes))
        failures += [((*place, policy), runs) for policy, runs in log.retention.failed_runs.items()]
    yield Family("tidelog_retention_deleted_segments", "counter", "Segments deleted, by the policy that named them.",
                 labels, segments)  # fmt: skip
    yield Family("tidelog_retention_deleted_bytes", "counter", "Bytes of their .log files.", labels, sizes)
    yield Family("tidelog_retention_policy_failures", "counter",
                 "Retention runs in which a deletion policy was left out because it failed.", labels, failures)  # fmt: skip
    future = [(log, log.dated_after(now_ms)) for log in logs]
    rows = [((log.topic, str(log.partition)), held) for log, held in future if held.bytes]
    yield Family("tidelog_future_dated_bytes", "gauge",
                 "Bytes of segments that retention.ms can't reach yet, since a record in them is dated in the future.",
                 _PLACE, [(place, held.bytes) for place, held in rows])  # fmt: skip
    yield Family("tidelog_future_dated_offsets", "gauge", "Offsets in those segments.",
                 _PLACE, [(place, held.offsets) for place, held in rows])  # fmt: skip


def space_families(spaces: Sequence[tuple[str, DiskSpace]]) -> Iterator[Family]:
    """Room on the disks of the log directories, see log.dir.reserve.bytes. -1: not looked at yet."""

    def per_directory(name: str, kind: str, text: str, values: Iterable[float]) -> Family:
        rows = [((path,), value) for (path, _), value in zip(spaces, values, strict=True)]
        return Family(f"tidelog_log_dir_{name}", kind, text, ("directory",), rows)

    found = [space for _, space in spaces]
    yield per_directory("free_bytes", "gauge", "Free bytes on the directory's disk.", (s.free_bytes for s in found))
    yield per_directory("reserve_bytes", "gauge", "Free bytes at which appends are refused (log.dir.reserve.bytes).",
                        (s.reserve for s in found))  # fmt: skip
    yield per_directory("full", "gauge", "1 while appends are refused for lack of room.", (s.is_full for s in found))
    yield per_directory("refused_appends", "counter", "Appends that were refused so.", (s.refused for s in found))


def move_families(moves: Sequence[LogMove], mover: LogMover | None) -> Iterator[Family]:
    """Logs on their way to another log directory."""
    yield one("tidelog_log_moves_in_progress", "gauge", "Logs that are being moved to another log directory, or wait for it.",
              len(moves))  # fmt: skip
    yield one("tidelog_log_moves_lag_offsets", "gauge", "Offsets that are still missing there, of all of them together.",
              sum(move.offset_lag for move in moves))  # fmt: skip
    ended = [("moved", mover.moved), ("cancelled", mover.cancelled), ("failed", mover.failed)] if mover else []
    yield Family("tidelog_log_moves", "counter", "Moves of logs to another log directory that have ended, by how.", ("outcome",),
                 [((outcome,), count) for outcome, count in ended])  # fmt: skip
    yield one("tidelog_log_moves_copied_bytes", "counter", "Bytes of .log files that were copied for them.",
              mover.copied_bytes if mover else 0)  # fmt: skip


def pace_families(paces: Sequence[tuple[str, WritePace]], directories: Mapping[str, SlowDirectory]) -> Iterator[Family]:
    """How long appends' writes take, by log directory, and which way they go."""

    def per_directory(name: str, kind: str, text: str, values: Iterable[float]) -> Family:
        rows = [((path,), value) for (path, _), value in zip(paces, values, strict=True)]
        return Family(f"tidelog_log_directory_{name}", kind, text, ("directory",), rows)

    yield per_directory("slow", "gauge", "1 from a write of 100 ms on until writes have been quick for 10 s: clients' "
                        "appends go through a thread.", (int(pace.is_slow) for _, pace in paces))  # fmt: skip
    yield per_directory("slow_writes", "counter", "Appends whose write took 100 ms or longer.",
                        (pace.slow_writes for _, pace in paces))  # fmt: skip
    yield per_directory("longest_write_seconds", "gauge", "The longest write of an append since the last scrape.",
                        (pace.take_longest() for _, pace in paces))  # fmt: skip
    found = [directories.get(path) for path, _ in paces]
    yield per_directory("thread_appends", "counter", "Appends that went through the directory's writer thread.",
                        (directory.submitted if directory else 0 for directory in found))  # fmt: skip
    yield per_directory("thread_queue_bytes", "gauge", "Bytes of batches that this thread has still to write.",
                        (directory.queued_bytes if directory else 0 for directory in found))  # fmt: skip
