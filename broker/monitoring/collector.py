"""`/metrics`: a snapshot of the whole daemon, taken when Prometheus asks.

What is counted is counted in plain numbers by who has them; the modules of each subject turn them into families:

    request_metrics   requests, errors, latencies, connections, bytes        on the loop thread, which owns the numbers
    quota_metrics     clients over a quota, and what clients push           likewise
    group_metrics     groups and their lag in records                        copied on the loop, counted here
    log_metrics       logs, retention, syncs, disks                          here: published values
    cleaner_metrics   the cleaner                                            here
    daemon_metrics    the process, its start, its health, background work    here

The loop thread does as little as can be: a scrape of ten thousand partitions must not hold up a client. `BrokerCollector` is the
only place that knows prometheus-client, and imports it when it is first asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from ..requests.counters import RequestCounters
from ..runtime.metric_family import AnyFamily, Family, HistogramFamily
from .cleaner import cleaner_families
from .daemon import build_families, health_families, state_families, task_families
from .groups import GroupFacts, GroupLag, group_facts
from .health import Health
from .limits import limit_families, long_request_families, maker_families
from .logs import LogMetrics, told_logs
from .quotas import quota_families
from .requests import connection_families, request_families
from .security import access_families, audit_families, security_families
from .transactions import transaction_families

if TYPE_CHECKING:
    from ..server import Broker

__all__ = ["BrokerCollector", "Family", "RequestCounters"]

#: What the loop has to say is left out of a scrape when it does not say it within this many seconds.
SNAPSHOT_TIMEOUT_S = 5.0


class LoopFacts(NamedTuple):
    """What had to be taken on the loop thread."""

    families: list[AnyFamily]
    groups: GroupFacts | None


def loop_facts(broker: Broker) -> LoopFacts:
    """Loop thread."""
    from ..message_set.listener import message_set_families
    from .transactions import share_families

    families = [
        *request_families(broker.counters),
        *connection_families(broker),
        *message_set_families(broker.message_sets, broker.socket_server),
        *quota_families(broker),
        *audit_families(broker.known_audit),
        *limit_families(broker.socket_server),
        *long_request_families(broker.long_requests, broker.long_changes),
        *(maker_families(broker.topics.makers) if broker.ready else ()),
        *access_families(broker.authorizer),
        *security_families(broker.socket_server, broker.http),
        *transaction_families(broker.known_transactions),
        *share_families(broker.known_share),
    ]
    groups = group_facts(broker.groups, per_group=broker.config.metrics_per_group) if broker.ready else None
    return LoopFacts(families, groups)


class BrokerCollector:
    """What prometheus-client asks at a scrape. Any thread but the loop's."""

    def __init__(self, broker: Broker, health: Health | None = None) -> None:
        self._broker = broker
        self._health = health or Health(broker)
        self._logs = LogMetrics()
        self._lag: GroupLag | None = None

    def families(self) -> Iterator[AnyFamily]:
        """Every metric of the daemon, now; without those of requests and groups where the loop does not answer in time."""
        broker = self._broker

        async def on_loop() -> LoopFacts:
            return loop_facts(broker)

        asked = asyncio.run_coroutine_threadsafe(on_loop(), broker.loop)
        try:
            taken = asked.result(SNAPSHOT_TIMEOUT_S)
        except TimeoutError:  # a loop that hangs is when the rest is wanted most
            asked.cancel()
            taken = LoopFacts([], None)
        yield from taken.families
        yield from build_families()
        yield from state_families(broker)
        yield from health_families(self._health)
        yield from task_families(broker)
        if taken.groups is not None:
            if self._lag is None:
                self._lag = GroupLag(broker.logs)
            yield from self._lag.families(taken.groups, broker.config.metrics_max_group_partitions)
        if broker.ready:
            logs = list(broker.logs.logs())
            told = told_logs(logs, broker.config.metrics_max_partitions if broker.config.metrics_per_topic else 0)
            yield from self._logs.families(broker, logs, told)
            places = {(log.topic, log.partition) for log in told} if broker.config.metrics_per_topic else None
            yield from cleaner_families(broker.cleaner, broker.time.milliseconds(), places)

    def collect(self) -> Iterator[Any]:
        """As prometheus-client has it."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for family in self.families():
            if isinstance(family, HistogramFamily):
                histogram = HistogramMetricFamily(family.name, family.help, labels=family.labels)
                bounds = [*map(repr, family.bounds), "+Inf"]
                for labels, counts, total in family.rows:
                    histogram.add_metric(labels, list(zip(bounds, accumulate(counts), strict=True)), total)
                yield histogram
                continue
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=family.labels)
            for labels, value in family.rows:
                metric.add_metric(labels, value)
            yield metric
