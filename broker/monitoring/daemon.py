"""What `/metrics` says of the daemon as a whole: what runs, how far its start is, whether it is well, its background work."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from ..runtime.metric_family import Family, one
from .health import DEGRADED

if TYPE_CHECKING:
    from ..server import Broker
    from .health import Health


def state_families(broker: Broker) -> Iterator[Family]:
    """Whether it serves, and how far recovery is. Any thread."""
    recovery = broker.recovery
    yield one(
        "tidelog_ready", "gauge", "1 when the daemon serves, 0 while it loads its logs or stops.", int(broker.ready)
    )
    yield one(
        "tidelog_recovery_checked_bytes", "gauge", "Segment bytes that this start has checked.", recovery.done_bytes
    )
    yield one("tidelog_recovery_expected_bytes", "gauge", "Segment bytes that this start checks.", recovery.total_bytes)
    yield one("tidelog_recovery_partitions_remaining", "gauge", "Partitions that this start has still to load.",
              broker.logs.partitions_remaining if hasattr(broker, "logs") else 0)  # fmt: skip


def health_families(health: Health) -> Iterator[Family]:
    """The reasons of /health as numbers. Any thread but the loop's."""
    counts = Counter(problem.reason for problem in health.problems())
    yield Family("tidelog_degraded", "gauge", "How many partitions, directories or threads /health names for the reason; 0: all "
                 "is well.", ("reason",), [((reason,), counts[reason]) for reason in DEGRADED])  # fmt: skip


def build_families() -> Iterator[Family]:
    """Which tidelog this is. Any thread."""
    yield Family("tidelog_build_info", "gauge", "1, with the versions of tidelog and Python.", ("version", "python"),
                 [((_version(), platform.python_version()), 1)])  # fmt: skip


@cache
def _version() -> str:
    from importlib import metadata  # costs a start 20 ms

    return metadata.version("tidelog")


def task_families(broker: Broker) -> Iterator[Family]:
    """Background work by the task's name, as log lines have it: delete-file, log-retention, log-flusher … Any thread."""
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
    yield one("tidelog_background_threads", "gauge", "Threads that background tasks may have.", broker.scheduler.limit)
