"""docs/METRICS.md: every metric that `/metrics` has, from the tables in `broker/monitoring/`.

`make docs` writes it. Tests fail when it differs from the tables, or what a daemon says does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tidelog.broker.monitoring.collector import every_metric
from tidelog.broker.runtime.metric_family import COUNTER, HISTOGRAM, Histogram, Metric

Row = Metric[Any] | Histogram[Any]

_HEAD = """# Metrics

<!-- Generated from the tables in broker/monitoring by `make docs`. Don't edit. -->

`GET /metrics` at `http.listener` (127.0.0.1:9404 unless set) answers in Prometheus' text format, or OpenMetrics where
it is asked for. Names, labels and units are stable: a change is a line in the changelog. Times are seconds, sizes
bytes, shares 0 to 1 unless a name says `_percent` or `_ms`. Counters begin at 0 with the daemon. What is per
partition can be switched off with `metrics.per.topic=false`, what is per group with `metrics.per.group=false`; both
are on. Clients decide how many partitions and groups there are, so both have a bound: the largest
`metrics.max.partitions` partitions (2,000, those that have failed first) and the `metrics.max.group.partitions` partitions
of groups that lag most (2,000) have rows, sums have all, `tidelog_partitions_omitted` and
`tidelog_group_lag_omitted_partitions` count the rest. A group's name is cut at 200 characters, with a part of its hash behind it.
While logs are being recovered there are requests, the daemon and recovery.

**Lag in records** (`tidelog_group_lag_records`) is the number of records that a member would still be handed between
the group's committed offset and the high watermark. It is counted, not subtracted: offsets that compaction emptied
are none, nor are markers of transactions, nor what lies below the log's start. Records of open and aborted
transactions count, since who reads uncommitted data is handed them. A scrape counts for a second at most; a partition
that is not counted yet has no such row and is counted in `tidelog_group_lag_uncounted_partitions`.
`tidelog_group_lag_offsets` is the plain difference that other tools show.

Alert rules that stand on these are in `docker/rules.yml`, what to do when one fires in
[RUNBOOK.md](RUNBOOK.md), dashboards in `docker/grafana/`.
"""

_SECTIONS = (
    ("Requests", ("tidelog_request", "tidelog_produced")),
    ("Connections and bytes", ("tidelog_fetch", "tidelog_cold", "tidelog_conversions", "tidelog_message_set",
                               "tidelog_received", "tidelog_sent", "tidelog_connections", "tidelog_listener", "tidelog_waiting")),
    ("Limits", ("tidelog_incomplete", "tidelog_unsent", "tidelog_heavy", "tidelog_log_lines")),
    ("Groups", ("tidelog_group",)),
    ("Transactions", ("tidelog_transaction",)),
    ("Security", ("tidelog_authentications", "tidelog_failed_", "tidelog_certificate")),
    ("Cleaner", ("tidelog_cleaner",)),
    ("Retention", ("tidelog_retention", "tidelog_future")),
    ("Disks", ("tidelog_log_dir",)),
    ("Scrubber", ("tidelog_log_scrub",)),
    ("Ledger", ("tidelog_ledger",)),
    ("The daemon", ("tidelog_build", "tidelog_ready", "tidelog_recovery", "tidelog_degraded", "tidelog_background")),
)  # fmt: skip
_OTHERS = "Logs"


def section_of(name: str) -> str:
    """The heading that a metric stands under."""
    return next((title for title, prefixes in _SECTIONS if name.startswith(prefixes)), _OTHERS)


def render(metrics: Sequence[Row]) -> str:
    """docs/METRICS.md."""
    order = [*(title for title, _ in _SECTIONS), _OTHERS]
    ranked = sorted(metrics, key=lambda metric: order.index(section_of(metric.name)))
    parts = [_HEAD]
    for title, found in groupby(ranked, lambda metric: section_of(metric.name)):
        parts += [f"## {title}\n", "| metric | kind | labels | what it says |", "| --- | --- | --- | --- |"]
        parts += [_row(metric) for metric in found]
        parts.append("")
    parts.append(
        "## The process\n\nprometheus-client's own: `process_cpu_seconds_total`, `process_resident_memory_bytes`, "
        "`process_virtual_memory_bytes`, `process_start_time_seconds`, `process_open_fds`, `process_max_fds`, `python_info`.\n"
    )
    return "\n".join(parts)


def exposed_names(metric: Row) -> list[str]:
    """Names of the series that Prometheus stores for a metric."""
    if metric.kind == HISTOGRAM:
        return [f"{metric.name}_bucket", f"{metric.name}_count", f"{metric.name}_sum"]
    return [f"{metric.name}_total" if metric.kind == COUNTER else metric.name]


def _row(metric: Row) -> str:
    name = metric.name if metric.kind == HISTOGRAM else exposed_names(metric)[0]
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{name}` | {metric.kind} | {labels} | {metric.help} |"


def main(target: str = "docs/METRICS.md") -> int:
    """Writes the page."""
    Path(target).write_text(render(every_metric()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
