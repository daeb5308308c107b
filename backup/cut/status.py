"""What a backup says of itself. Light: a daemon without one imports this alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..formats.entries import Drill
    from ..store.counted import Count

STARTING, RUNNING, WAITING, STOPPED, ENDED = "starting", "running", "waiting", "stopped", "ended"
"""States. Waiting: the store, or the loop, fails, and it is tried again; stopped: for good, and somebody has to look; ended:
the daemon stops."""


class SafeSegment(NamedTuple):
    """How much of one segment is in the store."""

    base_offset: int
    size: int
    """Bytes of its log that are there, from its beginning."""
    since_ms: int
    """When the first cut that has them was taken; after a restart of the daemon, of those that it knows."""


class SafePartition(NamedTuple):
    """One partition as the newest cut that has something new of it left it in the store."""

    cut: int
    taken_ms: int
    end: int
    """Offset behind the last record that is there."""
    segments: tuple[SafeSegment, ...]
    ids: tuple[object, ...] = ()
    """What the segments are, of the files: a pass of the cleaner makes others of the same offsets."""


class RecentCut(NamedTuple):
    """One of the last cuts."""

    number: int
    taken_ms: int
    partitions: int
    sent_bytes: int
    seconds: float
    """From its moment until it was published."""


class Unsent(NamedTuple):
    """Segments of one partition that are being sent whole."""

    topic: str
    partition: int
    since_ms: int
    bytes: int
    """Of their logs, all of them."""


class Drills(NamedTuple):
    """What is known of drills."""

    last: Drill | None = None
    good: Drill | None = None
    """The last one that found its cut whole."""
    is_running: bool = False


@dataclass(slots=True)
class Progress:
    """Counts of one writer. Written by its threads, read by any.

    Attributes:
        voided: cuts that were given up, since segments went while they were made.
        number, taken_ms: of the last published cut, and when it was taken; 0: none.
        covered_ms: all that was acknowledged by then is in the store; 0: nothing.
        covered_at_ms: the same moment, or one shortly before it, on the monotonic clock: the wall's may be set.
        held: partitions that hold back: topic, number, reason, since when.
        passes: partitions whose cuts have what there was before a pass of the cleaner, since when, and what the pass has made.
        waits_for: what the cut that is being made waits for.
        swept: objects that retention has deleted.
        damaged: what keeps the last sweep from deleting old objects, as `Swept.damaged`.
        recent: the last cuts, the newest last.
    """

    cuts: int = 0
    voided: int = 0
    objects: int = 0
    bytes: int = 0
    number: int = 0
    taken_ms: int = 0
    covered_ms: int = 0
    covered_at_ms: float = 0.0
    logs_bytes: int = 0
    swept: int = 0
    damaged: tuple[str, ...] = ()
    held: tuple[tuple[str, int, str, int], ...] = ()
    passes: tuple[Unsent, ...] = ()
    waits_for: tuple[Unsent, ...] = ()
    recent: tuple[RecentCut, ...] = ()


class BackupStatus(NamedTuple):
    """State of the backup at one moment, with what its writer counts."""

    state: str
    reason: str
    """Why it waits or was stopped; else empty."""
    store: str
    """Name of the store, without secrets."""
    interval_ms: int
    lag_ms: int
    """Age of the newest moment of which all is in the store; -1: no cut was made yet."""
    progress: Progress
    drills: Drills = Drills()
    drill_interval_ms: int = 0
    """How often there is to be a drill; 0: never."""
    drill_age_ms: int = -1
    """Time since the end of the last drill that found its cut whole; -1: none is known."""
    without_drill_ms: int = 0
    """The same; where there was none, time since this daemon's start."""
    counts: Mapping[str, Count] = {}
    """Requests to the store since the daemon's start, by operation."""
    now_ms: int = 0
    """When this was so."""
