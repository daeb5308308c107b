"""Metrics of the scrubber, by log directory: what it reads, how far it is, what it found. Any thread: published values.

Damage has the kind of file as a label and never its name: a disk that fails spoils thousands. `/health` and `tidelog why`
name them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ...storage.scrub.status import NEVER, ScrubState
from ..cleaning.scrub_facts import damaged_files
from ..runtime.metric_family import COUNTER, GAUGE, Labels, Metric, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage.scrub.status import ScrubStatus


def scrubbed(statuses: Sequence[ScrubStatus]) -> list[tuple[Labels, ScrubStatus]]:
    """Each directory's status with its path as a label."""
    return [((status.directory,), status) for status in statuses]


# fmt: off
@cache
def scrub_metrics() -> Table[ScrubStatus]:
    """The scrubber of one directory. Times of what has not happened yet have no row."""
    directory = ("directory",)
    return (
        Metric("tidelog_log_scrub_state", GAUGE, "1 beside what the scrubber does in the directory: off, reading, waiting for "
               "the next pass, or failed.", lambda status: {state.value: int(state is status.state) for state in ScrubState},
               (*directory, "state")),
        Metric("tidelog_log_scrub_limit_bytes_per_second", GAUGE,
               "Bytes that it may read in a second (tidelog.log.scrub.bytes.per.second); 0: it is off.",
               lambda status: status.bytes_per_second, directory),
        Metric("tidelog_log_scrub_bytes", COUNTER, "Bytes that it has read, of files of all kinds.",
               lambda status: status.read_bytes, directory),
        Metric("tidelog_log_scrub_found_damages", COUNTER,
               "Things that it has found damaged, also those that are mended or gone since.",
               lambda status: status.found, directory),
        Metric("tidelog_log_scrub_damaged_files", GAUGE,
               "Damaged files that are still there, by kind; /health names their partitions.",
               lambda status: damaged_files(status.present), (*directory, "kind")),
        Metric("tidelog_log_scrub_omitted_damages", GAUGE,
               "Further things that were found damaged, beyond those that are remembered one by one.",
               lambda status: status.omitted, directory),
        Metric("tidelog_log_scrub_last_complete_timestamp_seconds", GAUGE,
               "When all that had been closed as a pass began was read. None before a first pass has come to its end.",
               lambda status: _seconds(status.whole_ms), directory),
        Metric("tidelog_log_scrub_pass_start_timestamp_seconds", GAUGE,
               "When the pass under way (or, while it waits, the last one) began, also before a restart.",
               lambda status: _seconds(status.begun_ms), directory),
        Metric("tidelog_log_scrub_pass_bytes", GAUGE, "Bytes of .log files that this pass is to read.",
               lambda status: status.total_bytes, directory),
        Metric("tidelog_log_scrub_pass_done_bytes", GAUGE, "Bytes of them that it is done with.",
               lambda status: status.done_bytes, directory),
    )
# fmt: on


def _seconds(at_ms: int) -> float | None:
    return None if at_ms == NEVER else at_ms / 1000
