"""Metrics of the backup; none without backup.url. Any thread: published values."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, Metric, Table

if TYPE_CHECKING:
    from ...backup.cut.status import BackupStatus

_STATES = ("starting", "running", "waiting", "stopped")
"""As in `backup/cut/status.py`, which a daemon without a backup does not import."""


def _behind(status: BackupStatus) -> dict[tuple[str, ...], float]:
    progress = status.progress
    rows = [(topic, partition, "held", since) for topic, partition, _, since in progress.held]
    rows += [(one.topic, one.partition, "pass", one.since_ms) for one in progress.passes]
    rows += [(one.topic, one.partition, "upload", one.since_ms) for one in progress.waits_for]
    return {
        (topic, str(partition), cause): max(0, status.now_ms - since) / 1000 for topic, partition, cause, since in rows
    }


# fmt: off
@cache
def backup_metrics() -> Table[BackupStatus]:
    """The daemon's own backup. What has not happened yet has no row."""
    return (
        Metric("tidelog_backup_lag_seconds", GAUGE,
               "Age of the newest moment of which all is in the backup: what was acknowledged later is lost with the disk.",
               lambda status: None if status.lag_ms < 0 else status.lag_ms / 1000),
        Metric("tidelog_backup_state", GAUGE, "1 beside what the backup does: starting, running, waiting (for a store or a loop "
               "that fails, and is tried again), or stopped (until the daemon is started again).",
               lambda status: {state: int(state == status.state) for state in _STATES}, ("state",)),
        Metric("tidelog_backup_cuts", COUNTER, "Cuts that were published since the start.", lambda status: status.progress.cuts),
        Metric("tidelog_backup_voided_cuts", COUNTER,
               "Cuts that were given up and taken again since segments went while they were made.",
               lambda status: status.progress.voided),
        Metric("tidelog_backup_objects", COUNTER, "Objects that were sent to the store.", lambda status: status.progress.objects),
        Metric("tidelog_backup_sent_bytes", COUNTER, "Bytes of them.", lambda status: status.progress.bytes),
        Metric("tidelog_backup_last_cut_number", GAUGE, "Number of the last cut; 0: none yet.",
               lambda status: status.progress.number),
        Metric("tidelog_backup_last_cut_timestamp_seconds", GAUGE, "When the last cut that was published was taken.",
               lambda status: status.progress.taken_ms / 1000 if status.progress.taken_ms else None),
        Metric("tidelog_backup_held_partitions", GAUGE,
               "Partitions of which the last cut has an older state, since their files could not be read; /health names them.",
               lambda status: len(status.progress.held)),
        Metric("tidelog_backup_partition_behind_seconds", GAUGE,
               "For how long a partition has held a cut back, or a cut has held it: `held`, its files can't be read and "
               "cuts have it as it was; `pass`, cuts have what there was before a pass of the cleaner, until that is sent; "
               "`upload`, the cut that is being made waits for its segments. None where nothing does.",
               _behind, ("topic", "partition", "cause")),
        Metric("tidelog_backup_requests", COUNTER, "Requests to the store by kind, as a cloud charges them: estimated "
               "from sizes, without those that were tried again.",
               lambda status: {kind: count.requests for kind, count in status.counts.items()}, ("operation",)),
        Metric("tidelog_backup_request_errors", COUNTER, "Calls of the store that failed, by kind.",
               lambda status: {kind: count.errors for kind, count in status.counts.items()}, ("operation",)),
        Metric("tidelog_backup_request_bytes", COUNTER, "Contents that were sent to the store or read from it, by kind.",
               lambda status: {kind: count.bytes for kind, count in status.counts.items()}, ("operation",)),
        Metric("tidelog_backup_request_seconds", COUNTER, "Time that calls of the store took, by kind.",
               lambda status: {kind: count.seconds for kind, count in status.counts.items()}, ("operation",)),
        Metric("tidelog_backup_drill_age_seconds", GAUGE,
               "Time since a drill last read a whole cut and found all of its sums right. None where none is known.",
               lambda status: None if status.drill_age_ms < 0 else status.drill_age_ms / 1000),
        Metric("tidelog_backup_drill_interval_seconds", GAUGE,
               "How often there is to be one (backup.verify.interval.ms); 0: never.",
               lambda status: status.drill_interval_ms / 1000),
        Metric("tidelog_backup_drill_running", GAUGE, "1 while one is made.", lambda status: int(status.drills.is_running)),
        Metric("tidelog_backup_drill_damaged", GAUGE, "1 if the last one has found its cut damaged; /health says what.",
               lambda status: None if status.drills.last is None else int(bool(status.drills.last.fault))),
        Metric("tidelog_backup_drill_duration_seconds", GAUGE, "How long the last one took.",
               lambda status: None if status.drills.last is None else status.drills.last.seconds),
        Metric("tidelog_backup_drill_bytes", GAUGE, "Bytes of logs of the cut that the last one read.",
               lambda status: None if status.drills.last is None else status.drills.last.bytes),
    )
# fmt: on
