from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from support.nodes import services_with
from support.patience import PATIENCE_S
from tidelog.broker.monitoring.daemon import build_metrics, health_metrics, state_metrics, task_metrics, thread_metrics
from tidelog.broker.monitoring.health import DEGRADED, Problem
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.broker.runtime.metric_family import Family, families_of, families_of_each
from tidelog.config.broker_config import BrokerConfig
from tidelog.storage.scheduler import ThreadPoolScheduler


def rows(families: Any) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    found: list[Family] = list(families)
    return {family.name: list(family.rows) for family in found}


def test_background_work_is_told_by_the_tasks_name() -> None:
    scheduler = ThreadPoolScheduler(3)
    scheduler.schedule("delete-file", lambda: None, 3_600_000)
    scheduler.submit("log-retention", lambda: None).result(PATIENCE_S)
    told = rows(families_of_each(task_metrics(), [((task,), of) for task, of in scheduler.statistics().items()]))
    threads = rows(families_of(thread_metrics(), SimpleNamespace(scheduler=scheduler)))  # type: ignore[arg-type]
    scheduler.shutdown()
    assert told["tidelog_background_tasks_scheduled"] == [(("delete-file",), 1), (("log-retention",), 0)]
    assert threads["tidelog_background_threads"] == [((), 3)]
    assert told.keys() >= {"tidelog_background_task_runs", "tidelog_background_task_failures"}


def test_a_recovery_is_told_before_there_are_logs() -> None:
    node = NodeState(BrokerConfig(), None, None)  # type: ignore[arg-type]
    node.recovery.update(5, 20)
    told = rows(families_of(state_metrics(), node))
    assert told["tidelog_ready"] == [((), 0)]
    assert told["tidelog_recovery_checked_bytes"] == [((), 5)]
    assert told["tidelog_recovery_partitions_remaining"] == [((), 0)]
    node.services = services_with(logs=SimpleNamespace(partitions_remaining=7))
    assert rows(families_of(state_metrics(), node))["tidelog_recovery_partitions_remaining"] == [((), 7)]


def test_every_reason_has_its_series_from_the_start() -> None:
    """An alert on a series that is not there yet never fires."""
    problems = [Problem("flush_behind", "t-0", ""), Problem("flush_behind", "t-1", "")]
    (family,) = families_of(health_metrics(), SimpleNamespace(problems=lambda: problems))  # type: ignore[arg-type]
    assert {reason: value for (reason,), value in family.rows} == dict.fromkeys(DEGRADED, 0) | {"flush_behind": 2}


def test_versions() -> None:
    ((labels, value),) = rows(families_of(build_metrics(), None))["tidelog_build_info"]
    assert labels[0][0].isdecimal()
    assert labels[1].startswith("3.")
    assert value == 1
