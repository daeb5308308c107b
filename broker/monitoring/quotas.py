"""Metrics of quotas (how long clients were throttled) and of the telemetry that clients push. Loop thread."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, Metric, Table

if TYPE_CHECKING:
    from ..requests.services import Services


# fmt: off
@cache
def quota_metrics() -> Table[Services]:
    """Totals since the start."""
    return (
        Metric("tidelog_quota_throttle_seconds", COUNTER, "Seconds that clients over a quota were told to wait, by quota.",
               lambda services: {name: waited_ms / 1000 for name, waited_ms in services.quotas.throttled_ms.items()}, ("quota",)),
        Metric("tidelog_telemetry_clients", GAUGE, "Clients that may push metrics of their own (KIP-714).",
               lambda services: len(services.telemetry)),
        Metric("tidelog_telemetry_pushes", COUNTER, "Pushes of clients' own metrics (KIP-714), by what became of them.",
               lambda services: {"taken": services.telemetry.pushes, "throttled": services.telemetry.throttled,
                               "refused": services.telemetry.failed}, ("result",)),
    )
