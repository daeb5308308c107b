"""Metrics of the daemon as a whole: its build, the progress of its start, its health, its background work.

Any thread; of `/health`, any but the loop's.
"""

from __future__ import annotations

import platform
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, Metric, Table
from .health import DEGRADED

if TYPE_CHECKING:
    from ...storage.scheduler import TaskCounts
    from ..requests.services import Services
    from .health import Health
    from .node_state import NodeState


# fmt: off
@cache
def build_metrics() -> Table[None]:
    """Version and build of this tidelog."""
    return (
        Metric("tidelog_build_info", GAUGE, "1, with the versions of tidelog and Python.",
               lambda _: {(_version(), platform.python_version()): 1}, ("version", "python")),
    )


@cache
def state_metrics() -> Table[NodeState]:
    """Metrics of the daemon's state and of recovery's progress."""
    return (
        Metric("tidelog_ready", GAUGE, "1 when the daemon serves, 0 while it loads its logs or stops.",
               lambda node: int(node.ready)),
        Metric("tidelog_recovery_checked_bytes", GAUGE, "Segment bytes that this start has checked.",
               lambda node: node.recovery.done_bytes),
        Metric("tidelog_recovery_expected_bytes", GAUGE, "Segment bytes that this start checks.",
               lambda node: node.recovery.total_bytes),
        Metric("tidelog_recovery_partitions_remaining", GAUGE, "Partitions that this start has still to load.",
               lambda node: node.partitions_remaining),
    )


@cache
def health_metrics() -> Table[Health]:
    """The reasons of /health as numbers."""
    return (
        Metric("tidelog_degraded", GAUGE,
               "How many partitions, directories or threads /health names for the reason; 0: all is well.",
               _degraded, ("reason",)),
    )


@cache
def task_metrics() -> Table[TaskCounts]:
    """Background work by the task's name, as log lines have it: delete-file, log-retention, log-flusher …"""
    task = ("task",)
    return (
        Metric("tidelog_background_tasks_scheduled", GAUGE, "Background tasks that wait for their time.",
               lambda counts: counts.scheduled, task),
        Metric("tidelog_background_tasks_waiting", GAUGE, "Background tasks that wait for a thread.",
               lambda counts: counts.waiting, task),
        Metric("tidelog_background_tasks_running", GAUGE, "Background tasks under way.", lambda counts: counts.running, task),
        Metric("tidelog_background_task_runs", COUNTER, "Background tasks that have run.", lambda counts: counts.runs, task),
        Metric("tidelog_background_task_failures", COUNTER, "Background tasks that have failed.",
               lambda counts: counts.failures, task),
    )


@cache
def thread_metrics() -> Table[Services]:
    """Background work of all tasks together."""
    return (
        Metric("tidelog_background_threads", GAUGE, "Threads that background tasks may have.",
               lambda services: services.scheduler.limit),
    )
# fmt: on


def _degraded(health: Health) -> dict[str, float]:
    counts = Counter(problem.reason for problem in health.problems())
    return {reason: counts[reason] for reason in DEGRADED}


@cache
def _version() -> str:
    from importlib import metadata  # costs a start 20 ms

    return metadata.version("tidelog")
