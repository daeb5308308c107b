"""`/metrics`: a snapshot of the whole daemon, taken when Prometheus asks.

Counters are plain numbers in the rooms that count; the tables of each subject (`Metric` rows) say how a scrape reads
them. A new metric is a row in one of them, and a line of docs/METRICS.md (`make docs`):

    requests limits security transactions    on the loop thread, which owns the numbers
    groups                              groups and their lag    copied on the loop, counted here
    logs partitions                     logs, retention, disks  here: published values
    cleaner scrub daemon                                        here

The loop thread does as little as can be: a scrape of ten thousand partitions must not hold up a client. `BrokerCollector` is the
only place that knows prometheus-client, and imports it when it is first asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ..requests.counters import RequestCounters
from ..runtime.metric_family import (
    COUNTER,
    AnyFamily,
    Family,
    Histogram,
    HistogramFamily,
    Metric,
    Table,
    families_of,
    families_of_each,
)
from .backup import backup_metrics
from .cleaner import cleaner_families, cleaner_metrics, dirt_metrics, last_pass_metrics, pass_metrics
from .daemon import build_metrics, health_metrics, state_metrics, task_metrics, thread_metrics
from .groups import GroupFacts, GroupLag, group_facts, group_metrics
from .health import Health
from .limits import limit_metrics, long_request_metrics, maker_metrics, quota_metrics
from .logs import (
    LogMetrics,
    deletion_metrics,
    move_metrics,
    omission_metrics,
    pace_metrics,
    shown_logs,
    space_metrics,
    sum_metrics,
)
from .partitions import ledger_metrics, offset_metrics, partition_metrics, retention_metrics
from .requests import (
    connection_metrics,
    message_set_connection_metrics,
    message_set_metrics,
    request_metrics,
    waiting_metrics,
)
from .scrub import scrub_metrics, scrubbed
from .security import access_metrics, audit_metrics, authentication_facts, security_metrics
from .transactions import share_metrics, transaction_metrics

if TYPE_CHECKING:
    from .node_state import NodeState
    from .security import HttpAuthenticationFacts

__all__ = ["BrokerCollector", "Family", "RequestCounters"]

#: A scrape leaves out the loop's metrics when the loop does not answer within this many seconds.
SNAPSHOT_TIMEOUT_S = 5.0


class LoopFacts(NamedTuple):
    """Metrics and facts that had to be taken on the loop thread."""

    families: list[AnyFamily]
    groups: GroupFacts | None


async def loop_facts(node: NodeState, http: HttpAuthenticationFacts | None = None) -> LoopFacts:
    """Read the metrics that only the loop thread may read; none before there are services. Loop thread."""
    if (services := node.services) is None:
        return LoopFacts([], None)
    server, lanes = services.socket_server, {"look": services.long_requests, "change": services.long_changes}
    families = [
        *families_of(request_metrics(), services.counters),
        *families_of(connection_metrics(), server),
        *families_of(waiting_metrics(), services),
        *families_of(message_set_metrics(), node.message_sets.get()),
        *families_of(message_set_connection_metrics(), server),
        *families_of(quota_metrics(), services),
        *families_of(audit_metrics(), services.audit.if_made),
        *families_of(limit_metrics(), server),
        *families_of(long_request_metrics(), lanes),
        *(families_of(maker_metrics(), services.topics.makers) if node.ready else ()),
        *families_of(access_metrics(), services.authorizer),
        *families_of(security_metrics(), authentication_facts(server, http)),
        *families_of(transaction_metrics(), services.transactions.if_made),
        *families_of(share_metrics(), services.share.if_made),
    ]
    groups = await group_facts(services.groups, per_group=services.config.metrics_per_group) if node.ready else None
    return LoopFacts(families, groups)


class BrokerCollector:
    """Collector that prometheus-client calls at each scrape. Any thread but the loop's."""

    def __init__(
        self,
        node: NodeState,
        health: Health | None = None,
        http: Callable[[], HttpAuthenticationFacts | None] = lambda: None,
    ) -> None:
        """`http`: what the HTTP listener counts of who it lets in. Loop thread."""
        self._node = node
        self._http = http
        self._health = health or Health(node)
        self._logs = LogMetrics()
        self._lag: GroupLag | None = None

    def families(self) -> Iterator[AnyFamily]:
        """Every metric of the daemon, now; without those of requests and groups where the loop does not answer in time."""
        node = self._node

        async def on_loop() -> LoopFacts:
            return await loop_facts(node, self._http())

        asked = asyncio.run_coroutine_threadsafe(on_loop(), node.loop)
        try:
            taken = asked.result(SNAPSHOT_TIMEOUT_S)
        except TimeoutError:  # a loop that hangs is when the rest is wanted most
            asked.cancel()
            taken = LoopFacts([], None)
        yield from taken.families
        yield from families_of(build_metrics(), None)
        yield from families_of(state_metrics(), node)
        yield from families_of(health_metrics(), self._health)
        if (services := node.services) is None:
            return
        yield from families_of_each(
            task_metrics(), [((task,), of) for task, of in services.scheduler.statistics().items()]
        )
        yield from families_of(thread_metrics(), services)
        if taken.groups is not None:
            if self._lag is None:
                self._lag = GroupLag(services.logs)
            yield from families_of(
                group_metrics(), self._lag.measure(taken.groups, services.config.metrics_max_group_partitions)
            )
        if node.ready:
            logs = list(services.logs.logs())
            shown = shown_logs(logs, services.config.metrics_max_partitions if services.config.metrics_per_topic else 0)
            yield from self._logs.families(services, logs, shown)
            places = {(log.topic, log.partition) for log in shown} if services.config.metrics_per_topic else None
            yield from families_of_each(scrub_metrics(), scrubbed(services.scrubber.statuses()))
            backups = [] if services.backup is None else [((), services.backup.status())]
            yield from families_of_each(backup_metrics(), backups)
            yield from cleaner_families(services.cleaner, services.time.milliseconds(), places)

    def collect(self) -> Iterator[Any]:
        """Yield all metric families, as prometheus-client asks."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for family in self.families():
            if isinstance(family, HistogramFamily):
                histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
                bounds = [*map(repr, family.bounds), "+Inf"]
                for labels, counts, total in family.rows:
                    histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
                yield histogram
                continue
            kind = CounterMetricFamily if family.kind == COUNTER else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=family.labels)
            for labels, value in family.rows:
                metric.add_metric(labels, value)
            yield metric


def every_metric() -> list[Metric[Any] | Histogram[Any]]:
    """Each row of all tables, in the order of a scrape: what docs/METRICS.md is made from."""
    tables: tuple[Callable[[], Table[Any]], ...] = (
        request_metrics, connection_metrics, waiting_metrics, message_set_metrics, message_set_connection_metrics,
        quota_metrics, audit_metrics, limit_metrics, long_request_metrics, maker_metrics, access_metrics, security_metrics,
        transaction_metrics, share_metrics,
        build_metrics, state_metrics, health_metrics, task_metrics, thread_metrics,
        group_metrics,
        sum_metrics, deletion_metrics, space_metrics, pace_metrics, move_metrics, omission_metrics,
        offset_metrics, partition_metrics, retention_metrics, ledger_metrics,
        scrub_metrics,
        backup_metrics,
        cleaner_metrics, dirt_metrics, pass_metrics, last_pass_metrics,
    )  # fmt: skip
    return [metric for table in tables for metric in table()]
