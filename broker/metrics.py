"""What the daemon counts. Plain integers on the loop thread; Prometheus sees them when it asks.

Counting a request costs one addition. A scrape (see `http_server.py`) takes a snapshot on the loop thread and formats
it on its own: `BrokerCollector` is the only place that knows prometheus-client, and imports it when it is first asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..protocol.api_keys import ApiKey
from ..protocol.errors import ErrorCode
from .cleaner_metrics import cleaner_families
from .durability import durability_family
from .message_set_listener import message_set_families
from .metric_family import Family
from .partition_metrics import partition_families

if TYPE_CHECKING:
    from ..storage.disk_space import DiskSpace
    from ..storage.unified_log import UnifiedLog
    from ..storage.write_pace import WritePace
    from .server import Broker
    from .slow_directory import SlowDirectory

#: API keys are small numbers; a list is the cheapest map.
_KEYS = max(ApiKey) + 1
_NAMES = {int(key): key.name.title().replace("_", "") for key in ApiKey}
#: A scrape that the loop does not serve within this many seconds fails rather than hangs.
SNAPSHOT_TIMEOUT_S = 5.0


class RequestCounters:
    """Totals since start. Loop thread."""

    __slots__ = (
        "errors", "fetched_bytes", "produce_errors", "produced_bytes", "produced_records", "requests",
    )  # fmt: skip

    def __init__(self) -> None:
        self.requests = [0] * _KEYS
        self.errors = [0] * _KEYS
        self.produce_errors: Counter[ErrorCode] = Counter()
        self.produced_bytes = 0
        self.produced_records = 0
        self.fetched_bytes = 0


def snapshot(broker: Broker) -> list[Family]:
    """Every metric of the daemon, now. Loop thread."""
    counters, server = broker.counters, broker.socket_server
    sends = server.send_counters
    recovery = broker.recovery
    families = [
        _api_family("tidelog_requests", "Requests by API.", counters.requests),
        _api_family("tidelog_request_errors", "Requests, or parts of them, answered with an error.", counters.errors),
        _by("tidelog_produce_errors", "counter", "Batches that were refused, by error.", "error",
            {code.name: count for code, count in sorted(counters.produce_errors.items())}),
        _one("tidelog_produced_bytes", "counter", "Bytes of batches appended for clients.", counters.produced_bytes),
        _one("tidelog_produced_records", "counter", "Records appended for clients.", counters.produced_records),
        _by("tidelog_fetch_bytes", "counter", "Fetched record bytes by the way they were sent.", "path",
            {"sendfile": sends.sendfile_bytes, "copy": sends.copy_fetch_bytes}),
        _one("tidelog_cold_reads", "counter", "Sends that waited for the I/O pool to read pages.", sends.cold_waits),
        _one("tidelog_received_bytes", "counter", "Bytes received from clients.", server.received_bytes),
        _one("tidelog_sent_bytes", "counter", "Bytes sent to clients.", sends.sent_bytes),
        _one("tidelog_connections", "gauge", "Open connections of clients.", len(server.connections)),
        _one("tidelog_connections_accepted", "counter", "Connections accepted.", server.accepted_connections),
        _one("tidelog_connections_refused", "counter", "Connections refused by a limit.", server.refused_connections),
        _one("tidelog_waiting_fetches", "gauge", "Fetches that wait for data.", broker.purgatory.waiting),
        _one("tidelog_fetch_sessions", "gauge", "Incremental fetch sessions.", len(broker.fetch_sessions)),
        _one("tidelog_fetch_session_partitions", "gauge", "Partitions in all fetch sessions.",
             broker.fetch_sessions.partition_count),
        _one("tidelog_ready", "gauge", "1 when the daemon serves, 0 while it loads its logs.", int(broker.ready)),
        _one("tidelog_recovery_bytes_done", "gauge", "Segment bytes that this start has checked.", recovery.done_bytes),
        _one("tidelog_recovery_bytes_total", "gauge", "Segment bytes that this start checks.", recovery.total_bytes),
        _one("tidelog_recovery_partitions_remaining", "gauge", "Partitions that this start has still to load.",
             broker.logs.partitions_remaining if hasattr(broker, "logs") else 0),
    ]  # fmt: skip
    families.extend(message_set_families(broker.message_sets, server))
    families.extend(_task_families(broker))
    if broker.ready:
        families.extend(_log_families(broker))
        families.extend(
            cleaner_families(broker.cleaner, broker.time.milliseconds(), per_topic=broker.config.metrics_per_topic)
        )
    return families


def _api_family(name: str, text: str, values: list[int]) -> Family:
    rows = [((_NAMES[key],), value) for key, value in enumerate(values) if value]
    return Family(name, "counter", text, ("api",), rows)


def _one(name: str, kind: str, text: str, value: float) -> Family:
    return Family(name, kind, text, (), [((), value)])


def _by(name: str, kind: str, text: str, label: str, values: Mapping[str, float]) -> Family:
    return Family(name, kind, text, (label,), [((key,), value) for key, value in values.items()])


def _task_families(broker: Broker) -> Iterator[Family]:
    """Background work by the task's name, as log lines have it: delete-file, log-retention, log-flusher …"""
    tasks = broker.scheduler.statistics()

    def per_task(name: str, kind: str, text: str, values: Iterable[float]) -> Family:
        rows = [((task,), value) for task, value in zip(tasks, values, strict=True)]
        return Family(f"tidelog_background_task{name}", kind, text, ("task",), rows)

    counts = tasks.values()
    yield per_task("s_scheduled", "gauge", "Background tasks that wait for their time.", (c.scheduled for c in counts))
    yield per_task("s_waiting", "gauge", "Background tasks that wait for a thread.", (c.waiting for c in counts))
    yield per_task("s_running", "gauge", "Background tasks under way.", (c.running for c in counts))
    yield per_task("_runs", "counter", "Background tasks that have run.", (c.runs for c in counts))
    yield per_task("_failures", "counter", "Background tasks that have failed.", (c.failures for c in counts))
    yield _one("tidelog_background_threads", "gauge", "Threads that background tasks may have.", broker.scheduler.limit)


def _retention_families(logs: Sequence[UnifiedLog], now_ms: int) -> Iterator[Family]:
    """What retention did, by partition and policy, and what it can't do because of records from the future."""
    labels = ("topic", "partition", "policy")
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
                 labels[:2], [(place, held.bytes) for place, held in rows])  # fmt: skip
    yield Family("tidelog_future_dated_offsets", "gauge", "Offsets in those segments.",
                 labels[:2], [(place, held.offsets) for place, held in rows])  # fmt: skip


def _space_families(spaces: Sequence[tuple[str, DiskSpace]]) -> Iterator[Family]:
    """Room on the disks of the log directories, see log.dir.reserve.bytes. -1: not looked at (a reserve of 0)."""

    def per_directory(name: str, kind: str, text: str, values: Iterable[float]) -> Family:
        rows = [((path,), value) for (path, _), value in zip(spaces, values, strict=True)]
        return Family(f"tidelog_log_dir_{name}", kind, text, ("directory",), rows)

    found = [space for _, space in spaces]
    yield per_directory("free_bytes", "gauge", "Free bytes on the directory's disk.", (s.free_bytes for s in found))
    yield per_directory("full", "gauge", "1 while appends are refused for lack of room.", (s.is_full for s in found))
    yield per_directory("refused_appends", "counter", "Appends that were refused so.", (s.refused for s in found))


def _pace_families(
    paces: Sequence[tuple[str, WritePace]], directories: Mapping[str, SlowDirectory]
) -> Iterator[Family]:
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


def _log_families(broker: Broker) -> Iterator[Family]:
    logs = list(broker.logs.logs())
    yield _one("tidelog_partitions", "gauge", "Partitions with a log here.", len(logs))
    yield _one("tidelog_segments", "gauge", "Segments of all logs.", sum(log.segment_count for log in logs))
    yield _one("tidelog_logs_bytes", "gauge", "Bytes of all segments' .log files.", sum(log.size for log in logs))
    yield durability_family(log.config for log in logs)
    yield from _space_families(broker.logs.spaces)
    yield from _pace_families(broker.logs.paces, broker.partitions.directories)
    if not broker.config.metrics_per_topic:
        return
    now_ms = broker.time.milliseconds()
    yield from _retention_families(logs, now_ms)
    yield from partition_families(logs, now_ms)
    labels = ("topic", "partition")

    def per_log(name: str, text: str, values: Iterable[float]) -> Family:
        rows = [((log.topic, str(log.partition)), value) for log, value in zip(logs, values, strict=True)]
        return Family(name, "gauge", text, labels, rows)

    yield per_log("tidelog_log_bytes", "Bytes of the partition's .log files.", (log.size for log in logs))
    yield per_log("tidelog_log_start_offset", "First offset that can be read.", (log.log_start_offset for log in logs))
    yield per_log("tidelog_log_end_offset", "Offset that the next record gets.", (log.log_end_offset for log in logs))
    yield per_log("tidelog_high_watermark", "Offset up to which consumers read.", (log.high_watermark for log in logs))


class BrokerCollector:
    """What prometheus-client asks at a scrape. Any thread but the loop's."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        async def on_loop() -> list[Family]:
            return snapshot(self._broker)

        taken = asyncio.run_coroutine_threadsafe(on_loop(), self._broker.loop).result(SNAPSHOT_TIMEOUT_S)
        for family in taken:
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=family.labels)
            for labels, value in family.rows:
                metric.add_metric(labels, value)
            yield metric
