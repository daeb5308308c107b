"""What quotas made clients wait, and what clients push of themselves, as metrics. Loop thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, by, one

if TYPE_CHECKING:
    from ..server import Broker


def quota_families(broker: Broker) -> Iterator[AnyFamily]:
    """Totals since the start."""
    yield by(
        "tidelog_quota_throttle_seconds",
        COUNTER,
        "Seconds that clients over a quota were told to wait, by quota.",
        "quota",
        {name: milliseconds / 1000 for name, milliseconds in broker.quotas.throttled_ms.items()},
    )
    telemetry = broker.telemetry
    yield one(
        "tidelog_telemetry_clients", GAUGE, "Clients that may push metrics of their own (KIP-714).", len(telemetry)
    )
    yield by(
        "tidelog_telemetry_pushes",
        COUNTER,
        "Pushes of clients' own metrics (KIP-714), by what became of them.",
        "result",
        {"taken": telemetry.pushes, "throttled": telemetry.throttled, "refused": telemetry.failed},
    )
