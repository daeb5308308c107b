"""What a backup says of itself. Light: a daemon without one imports this alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

STARTING, RUNNING, WAITING, STOPPED, ENDED = "starting", "running", "waiting", "stopped", "ended"
"""States. Waiting: the store, or the loop, fails, and it is tried again; stopped: for good, and somebody has to look; ended:
the daemon stops."""


@dataclass(slots=True)
class Progress:
    """Counts of one writer. Written by its threads, read by any.

    Attributes:
        voided: cuts that were given up, since segments went while they were made.
        number, taken_ms: of the last published cut, and when it was taken; 0: none.
        covered_ms: all that was acknowledged by then is in the store.
        held: partitions that hold back: topic, number, reason, since when.
        swept: objects that retention has deleted.
    """

    cuts: int = 0
    voided: int = 0
    objects: int = 0
    bytes: int = 0
    number: int = 0
    taken_ms: int = 0
    covered_ms: int = 0
    logs_bytes: int = 0
    swept: int = 0
    held: tuple[tuple[str, int, str, int], ...] = ()


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
